//! The theorem of the raked product: thread `A(m)` has, as value `B(n)`, the element at `n` of block `m`.

use std::error::Error;

use colex_layout::Layout;
use colex_tiled::TiledCopy;

type Outcome = Result<(), Box<dyn Error>>;

/// Every matrix with extents of 1 to 3 and strides of 0 to 6.
fn matrices() -> Result<Vec<Layout>, Box<dyn Error>> {
    let mut all = Vec::new();
    for case in 0..9 * 49_i64 {
        let shape = (1 + case % 3, 1 + case / 3 % 3);
        all.push(Layout::new(shape, (case / 9 % 7, case / 63))?);
    }
    Ok(all)
}

/// The offsets in order of size are 0, 1, 2 and so on.
fn is_compact(layout: &Layout) -> Result<bool, Box<dyn Error>> {
    let mut offsets = layout.table()?;
    offsets.sort_unstable();
    Ok(offsets.iter().zip(0..).all(|(offset, i)| *offset == i))
}

fn copy(threads: &Layout, values: &Layout) -> Result<TiledCopy, Box<dyn Error>> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    Ok(TiledCopy::new(atom, 32, threads, values)?)
}

#[test]
fn the_element_of_a_thread_and_a_value() -> Outcome {
    let mut compact = Vec::new();
    for layout in matrices()? {
        if is_compact(&layout)? {
            compact.push(layout);
        }
    }
    let mut cases = 0;
    for (threads, values) in pairs(&compact) {
        let tv = copy(threads, values)?.tv().clone();
        let rows = threads.get(&[0])?.size() * values.get(&[0])?.size();
        for (m, n) in (0..threads.size()).flat_map(|m| (0..values.size()).map(move |n| (m, n))) {
            let place = |layout: &Layout, i: i64| -> Result<[i64; 2], Box<dyn Error>> {
                let height = layout.get(&[0])?.size();
                Ok([i % height, i / height])
            };
            let ([m0, m1], [n0, n1]) = (place(threads, m)?, place(values, n)?);
            let (height, width) = (values.get(&[0])?.size(), values.get(&[1])?.size());
            let element = (n0 + height * m0) + rows * (n1 + width * m1);
            assert_eq!(tv.at((threads.at(m)?, values.at(n)?))?, element);
            cases += 1;
        }
    }
    println!("law tiled_copy.element_of_thread_and_value: {cases} pairs");
    Ok(())
}

fn pairs(layouts: &[Layout]) -> impl Iterator<Item = (&Layout, &Layout)> {
    layouts
        .iter()
        .flat_map(|a| layouts.iter().map(move |b| (a, b)))
}

#[test]
fn layouts_that_are_not_compact_are_refused() -> Outcome {
    let one = Layout::column_major((1, 1))?;
    let mut cases = 0;
    for layout in matrices()? {
        let compact = is_compact(&layout)?;
        assert_eq!(copy(&layout, &one).is_ok(), compact, "threads {layout}");
        assert_eq!(copy(&one, &layout).is_ok(), compact, "values {layout}");
        cases += 2;
    }
    println!("law tiled_copy.refuses_what_is_not_compact: {cases} layouts");
    Ok(())
}

#[test]
fn the_refusals_say_what_is_wrong() -> Outcome {
    let sentence = |threads: &str, values: &str| -> Result<String, Box<dyn Error>> {
        let refused = copy(&threads.parse()?, &values.parse()?).unwrap_err();
        Ok(refused.to_string())
    };
    assert_eq!(
        sentence("(4,2):(1,16)", "(4,1):(1,0)")?,
        "TiledCopy::new: (4,2):(1,16) does not number its 8 threads from 0 to 7, each once"
    );
    assert_eq!(
        sentence("(4,2):(1,4)", "(2,2):(1,1)")?,
        "TiledCopy::new: (2,2):(1,1) does not number its 4 values from 0 to 3, each once"
    );
    Ok(())
}
