//! Programs over what is built on layouts: swizzled and XOR layouts, matrices, banks, inference, explanations, pictures.
//!
//! As in `chain.rs`, everything either gives a value or an error that prints, and what is said is checked where that
//! is cheap.

use colex_atom::{Access, Banks, choose_swizzle, choose_swizzle_for};
use colex_draw::{ColorBy, LabelBy, Table, ThreadValues, Tiling};
use colex_layout::{BinaryMatrix, ComposedLayout, Coord, Layout, Slot, Tiler, Unbounded};

use crate::bytes::Bytes;
use crate::chain::round_trip;

/// Domains up to this size are walked.
const WALKED: i64 = 256;

/// Runs one program; returns how many results it had.
pub(crate) fn beyond(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut results = 0;
    for _ in 0..4 {
        let Some(layout) = bytes.layout() else {
            continue;
        };
        results += explained(&mut bytes, &layout) + drawn(&mut bytes, &layout);
        results += accessed(&mut bytes, &layout) + linear(&mut bytes, &layout);
        if let Some(composed) = composed(&mut bytes, layout) {
            results += swizzled(&mut bytes, &composed);
        }
    }
    results
}

/// 1 for a value; an error must print.
fn told<T>(result: Result<T, impl std::fmt::Display>) -> u64 {
    match result {
        Ok(_) => 1,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            0
        }
    }
}

fn explained(bytes: &mut Bytes<'_>, layout: &Layout) -> u64 {
    let other = bytes.layout().unwrap_or_else(Layout::unit);
    let tiler = match bytes.byte() % 3 {
        0 => Tiler::from(&other),
        1 => Tiler::try_from(&bytes.tuple()).expect("a tuple that is not deep"),
        _ => Tiler::from([Tiler::All, Tiler::from(&other)]),
    };
    let target = bytes.tuple();
    let explanations = [
        (layout.explain_coalesce(), Ok(layout.coalesce(..))),
        (
            layout.explain_composition(&other),
            layout.composition(&other),
        ),
        (
            layout.explain_logical_divide(&tiler),
            layout.logical_divide(&tiler),
        ),
        (
            layout.explain_logical_product(&tiler),
            layout.logical_product(&tiler),
        ),
        (
            layout.explain_complement(target.clone()),
            layout.complement(target),
        ),
        (layout.explain_right_inverse(), layout.right_inverse()),
        (layout.explain_left_inverse(), layout.left_inverse()),
    ];
    for (explanation, result) in &explanations {
        assert_eq!(&explanation.result, result, "{explanation}");
    }
    explanations
        .into_iter()
        .map(|(_, result)| told(result))
        .sum()
}

fn drawn(bytes: &mut Bytes<'_>, layout: &Layout) -> u64 {
    if layout.size() > WALKED {
        return told(colex_draw::print_layout(layout));
    }
    let (rows, cols) = (bytes.number(), bytes.number());
    let tiler = Tiler::try_from(&bytes.tuple()).expect("a tuple that is not deep");
    let table = Table::of(layout).map(|table| {
        (
            table.text(),
            table.latex(),
            table.picture(ColorBy::default(), LabelBy::default()).svg(),
        )
    });
    let tiling = Tiling::of(layout, &tiler).map(|tiling| tiling.picture(LabelBy::default()).svg());
    let threads = ThreadValues::of(layout, rows, cols)
        .map(|map| (map.text(), map.latex(), map.picture().svg()));
    let coordinates = colex_draw::Grid::of_coordinates(layout);
    let printed = colex_draw::print_tensor(layout, |offset| offset);
    told(table) + told(tiling) + told(threads) + told(coordinates) + told(printed)
}

fn accessed(bytes: &mut Bytes<'_>, layout: &Layout) -> u64 {
    if layout.size() > WALKED {
        return 0;
    }
    let (element, width) = (bytes.number(), 1 << bytes.below(6));
    let Ok(access) = Access::new("a", layout, element, width) else {
        return 0;
    };
    let accesses = [access];
    let banks = Banks::new(bytes.number(), bytes.number());
    let other = banks.map(|banks| told(choose_swizzle_for(&accesses, banks)));
    let chosen = choose_swizzle(&accesses);
    if let Ok(choice) = &chosen {
        assert!(!choice.to_string().is_empty());
    }
    1 + told(other) + told(chosen)
}

fn linear(bytes: &mut Bytes<'_>, layout: &Layout) -> u64 {
    let columns = (0..bytes.below(8)).map(|_| bytes.number()).collect();
    let other = BinaryMatrix::new(columns);
    let matrix = layout.to_matrix();
    let mut results = told(layout.to_xor()) + told(layout.to_swizzled());
    for matrix in matrix.iter().chain(&other) {
        results += told(Layout::from_matrix(matrix)) + told(matrix.inverse());
        let (left, right) = (matrix.left_inverse(), matrix.right_inverse());
        let _ = (
            matrix.solve(bytes.number()),
            matrix.kernel(),
            matrix.rank(),
            matrix.to_string(),
        );
        let _ = (left.apply(bytes.number()), right.apply(bytes.number()));
    }
    if let (Ok(a), Ok(b)) = (&matrix, &other) {
        results += told(a.composition(b)) + told(b.composition(a));
    }
    if layout.size() <= WALKED
        && let Ok(table) = layout.table()
    {
        let inferred = Layout::infer(&table).expect("a layout's own values are those of a layout");
        assert_eq!(inferred.table().as_deref(), Ok(&table[..]), "{layout}");
        results += told(Layout::infer_modes(layout.shape(), |_| bytes.number()));
    }
    results
}

fn composed(bytes: &mut Bytes<'_>, inner: Layout) -> Option<ComposedLayout> {
    let (swizzle, number) = (bytes.swizzle()?, bytes.number());
    match bytes.byte() % 4 {
        0 => ComposedLayout::for_pointer(swizzle, number, inner).ok(),
        1 => Some(ComposedLayout::new(bytes.layout()?, number, inner).unwrap()),
        2 => swizzle.composition(&inner).ok(),
        _ => Some(ComposedLayout::new(swizzle, number, inner).unwrap()),
    }
}

fn swizzled(bytes: &mut Bytes<'_>, a: &ComposedLayout) -> u64 {
    let (n, m, tuple) = (bytes.number(), bytes.number(), bytes.tuple());
    let other = bytes.layout().unwrap_or_else(Layout::unit);
    assert!(round_trip::<ComposedLayout>(&a.to_string()));
    let _ = (
        a.at(Unbounded(n)),
        a.at(&tuple),
        a.is_plain(),
        a.max_alignment(),
    );
    let _ = (
        a.max_common_layout(&other),
        a.max_common_vector(a),
        a.fragment_like(),
    );
    let _ = (
        a.complement(tuple.clone()),
        a.nullspace(),
        a.to_xor(),
        a.to_layout(),
    );
    let _ = (a.domain_offset(&tuple), other.composition(a));
    let coord: Coord = match bytes.byte() % 2 {
        0 => tuple.into(),
        _ => Coord::flat((0..a.rank()).map(|_| Slot::All)),
    };
    let results = [
        a.position_independent(),
        a.upcast(n),
        a.downcast(n),
        a.recast(n, m),
        a.right_inverse(),
        a.left_inverse(),
        a.slice(&coord),
        a.slice_and_offset(&coord).map(|(slice, _)| slice),
        other.composition(a.swizzle()),
        Ok(a.coalesce(..)),
        Ok(a.flatten()),
    ];
    for made in results.iter().flatten() {
        assert!(round_trip::<ComposedLayout>(&made.to_string()));
        let _ = (made.at(n), made.at(0));
    }
    let swizzles = [
        a.swizzle().upcast(n),
        a.swizzle().downcast(n),
        a.swizzle().recast(n, m),
    ];
    let made = results.into_iter().map(told).sum::<u64>();
    if a.size() <= WALKED
        && let Ok(table) = a.table()
    {
        assert_eq!(a.coalesce(..).table(), Ok(table), "{a}");
    }
    made + swizzles.into_iter().map(told).sum::<u64>()
}

#[cfg(test)]
mod on_random_bytes {
    use proptest::prelude::*;

    use crate::law::law;
    use crate::random;

    #[test]
    fn nothing_panics_beyond_layouts() {
        let made = std::cell::Cell::new(0);
        random::check(1_500, prop::collection::vec(any::<u8>(), 0..384), |bytes| {
            made.set(made.get() + super::beyond(&bytes));
            Ok(())
        });
        law(
            "nothing_panics_beyond_layouts",
            "results of random calls",
            20_000,
            |count| *count += made.get(),
        );
    }
}
