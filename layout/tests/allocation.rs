//! Layouts of up to 12 leaves never touch the heap.

use std::hint::black_box;

use colex_layout::{Error, IntTuple, Layout, LayoutLeft, Tiler, Tuple};

/// Runs `operation`, which must have a result, and counts what it allocates.
#[track_caller]
fn assert_no_allocation<T>(name: &str, operation: impl Fn() -> Result<T, Error>) {
    let counted = allocation_counter::measure(|| {
        let result = black_box(operation());
        assert!(result.is_ok(), "{name} has no result");
    });
    assert_eq!(counted.count_total, 0, "{name} allocates {counted:?}");
}

fn parsed<T: std::str::FromStr<Err = Error>>(text: &str) -> T {
    text.parse().expect("the test's own texts parse")
}

/// The layout with the most leaves that stay inline.
fn twelve() -> Layout {
    let all = IntTuple::flat((0..12).map(|_| 2.into()));
    Layout::column_major(all).expect("2^12 fits")
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| {
        black_box(vec![1_u8; 100]);
    });
    assert_eq!(counted.count_total, 1);
}

#[test]
fn thirteen_leaves_spill_and_still_work() {
    let all = IntTuple::flat((0..13).map(|_| 2.into()));
    let counted = allocation_counter::measure(|| {
        let layout = Layout::row_major(all.clone()).expect("2^13 fits");
        assert_eq!(layout.at(1), Ok(4096));
    });
    assert!(counted.count_total > 0);
}

#[test]
fn construction_does_not_allocate() {
    let shape: IntTuple = parsed("((2,2),(2,2),(2,(2,2)),(2,2),(2,2,2))");
    assert_eq!(shape.leaves().len(), 12);
    assert_no_allocation("clone", || Ok(twelve().clone()));
    assert_no_allocation("column_major", || Layout::column_major(&shape));
    assert_no_allocation("row_major", || Layout::row_major(&shape));
    let layout = twelve().unflatten(&shape).expect("12 leaves");
    assert_no_allocation("new", || Layout::new(layout.shape(), layout.stride()));
    assert_no_allocation("flatten", || Ok(layout.flatten()));
    assert_no_allocation("unflatten", || twelve().unflatten(&shape));
    assert_no_allocation("take", || layout.take(1..3));
    assert_no_allocation("group", || layout.group(1..3));
    assert_no_allocation("get", || layout.get(&[2, 1]));
    assert_no_allocation("select", || layout.select(&[2, 0]));
    assert_no_allocation("append", || layout.get(&[0])?.append(&layout.get(&[1])?));
    assert_no_allocation("zip", || layout.take(0..2)?.zip());
    assert_no_allocation("leaf", || Ok(Tuple::leaf(3)));
}

#[test]
fn evaluation_does_not_allocate() {
    let layout = twelve();
    assert_no_allocation("at", || layout.at(1234));
    assert_no_allocation("offset", || layout.at(1234));
    assert_no_allocation("coord", || layout.shape().coord(1234));
    assert_no_allocation("coord_of", || layout.coord_of(1234));
    assert_no_allocation("offsets", || Ok(layout.offsets()?.sum::<i64>()));
    assert_no_allocation("coords", || Ok(layout.shape().coords()?.count()));
    assert_no_allocation("cosize", || layout.cosize());
    assert_no_allocation("is_injective", || layout.is_injective());
    assert_no_allocation("is_surjective", || Ok(layout.is_surjective()));
}

#[test]
fn the_algebra_does_not_allocate() {
    let (a, b): (Layout, Layout) = (
        parsed("((4,2),(2,4,2)):((1,8),(4,16,64))"),
        parsed("(8,(4,2)):(2,(16,1))"),
    );
    assert_no_allocation("coalesce", || Ok(twelve().coalesce(..)));
    assert_no_allocation("coalesce_modes", || a.coalesce((1, 1)));
    assert_no_allocation("filter", || Ok(a.filter(..)));
    assert_no_allocation("composition", || a.composition(&b));
    assert_no_allocation("composition of 12 leaves", || {
        twelve().composition(&twelve())
    });
    assert_no_allocation("complement", || b.complement(1024));
    assert_no_allocation("complement of 6 leaves", || parsed_six().complement(4096));
    assert_no_allocation("right_inverse", || a.right_inverse());
    assert_no_allocation("left_inverse", || a.left_inverse());
    assert_no_allocation("max_common_layout", || a.max_common_layout(&a));
    assert_no_allocation("nullspace", || a.nullspace());
    assert_no_allocation("sum", || a.sum(&a));
    assert_no_allocation("upcast", || a.upcast(2));
    assert_no_allocation("layout_like", || a.layout_like());
    assert_no_allocation("fragment_like", || a.fragment_like());
}

fn parsed_six() -> Layout {
    Layout::new([2; 6], [1, 4, 16, 64, 256, 1024]).expect("congruent")
}

#[test]
fn division_and_products_do_not_allocate() {
    let a: Layout = parsed("(9,(4,8)):(59,(13,1))");
    let by_mode: Tiler = parsed("(3:3,(2,4):(1,8))");
    assert_no_allocation("logical_divide", || a.logical_divide(&by_mode));
    assert_no_allocation("zipped_divide", || a.zipped_divide(&by_mode));
    assert_no_allocation("tiled_divide", || a.tiled_divide(&by_mode));
    assert_no_allocation("flat_divide", || a.flat_divide(&by_mode));
    let (block, tiler): (Layout, Layout) = (parsed("(2,5):(5,1)"), parsed("(3,4):(1,3)"));
    assert_no_allocation("logical_product", || block.logical_product("6:1"));
    assert_no_allocation("blocked_product", || block.blocked_product(&tiler));
    assert_no_allocation("raked_product", || block.raked_product(&tiler));
    assert_no_allocation("tile_to_shape", || block.tile_to_shape((4, 10), LayoutLeft));
}
