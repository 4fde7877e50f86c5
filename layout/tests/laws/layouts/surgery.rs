//! Taking tuples and layouts apart and putting them together again.

use colex_layout::{IntTuple, Layout};

use crate::law::law;
use crate::reference::{leaves, table};
use crate::small;

/// Layouts in every nesting, one or two per shape of the nesting.
fn layouts() -> Vec<Layout> {
    small::layouts().step_by(17).collect()
}

#[test]
fn flatten_unflatten() {
    law("flatten_unflatten", "layouts", 4_000, |count| {
        for layout in layouts() {
            let flat = layout.flatten();
            assert!(
                flat.depth() <= 1 && flat.leaves() == layout.leaves(),
                "{layout}"
            );
            assert_eq!(flat.unflatten(&layout.shape()).as_ref(), Ok(&layout));
            assert_eq!(table(&leaves(&flat)), table(&leaves(&layout)), "{layout}");
            let (shape, stride) = (layout.shape(), layout.stride());
            assert_eq!(shape.flatten().unflatten(&stride).as_ref(), Ok(&shape));
            assert_eq!(Layout::new(shape, stride).as_ref(), Ok(&layout));
            *count += 1;
        }
    });
}

/// Modes, paths, selections and ranges name the same parts.
#[test]
fn modes_and_paths() {
    law("modes_and_paths", "layouts", 4_000, |count| {
        for layout in layouts() {
            let modes: Vec<Layout> = layout.modes().collect();
            assert_eq!(modes.len(), layout.rank(), "{layout}");
            for (i, mode) in modes.iter().enumerate() {
                assert_eq!(layout.mode(i).as_ref(), Some(mode));
                assert_eq!(layout.get(&[i]).as_ref(), Ok(mode));
                assert_eq!(layout.select(&[i]), Layout::concat([mode]));
                assert_eq!(layout.take(i..i + 1), Layout::concat([mode]));
                for (j, inner) in mode.modes().enumerate() {
                    assert_eq!(layout.get(&[i, j]), Ok(inner), "{layout} at {i}, {j}");
                }
            }
            assert_eq!(layout.mode(layout.rank()), None);
            assert_eq!(layout.get(&[]).as_ref(), Ok(&layout));
            let all: Vec<usize> = (0..layout.rank()).collect();
            let wrapped = Layout::concat(&modes);
            assert_eq!(layout.select(&all), wrapped);
            assert_eq!(layout.take(0..layout.rank()), wrapped);
            assert!(layout.is_leaf() || wrapped.as_ref() == Ok(&layout));
            *count += 1;
        }
    });
}

#[test]
fn group_take() {
    law("group_take", "layouts and ranges", 10_000, |count| {
        for layout in layouts() {
            for (b, e) in (0..4).flat_map(|b| (0..5).map(move |e| (b, e))) {
                let valid = b < e && e <= layout.rank();
                let (grouped, taken) = (layout.group(b..e), layout.take(b..e));
                assert_eq!(
                    (grouped.is_ok(), taken.is_ok()),
                    (valid, valid),
                    "{layout} {b}..{e}"
                );
                let (Ok(grouped), Ok(taken)) = (grouped, taken) else {
                    continue;
                };
                assert_eq!(grouped.mode(b), Some(taken), "{layout} {b}..{e}");
                assert_eq!(grouped.leaves(), layout.leaves(), "{layout} {b}..{e}");
                assert_eq!(
                    grouped.rank(),
                    layout.rank() + b + 1 - e,
                    "{layout} {b}..{e}"
                );
                *count += 1;
            }
        }
    });
}

/// What is put in can be taken out, and the other modes stay.
#[test]
fn append_prepend_replace() {
    let all = layouts();
    law("append_prepend_replace", "pairs", 4_000, |count| {
        for (layout, mode) in all.iter().zip(all.iter().cycle().skip(5)) {
            let rank = layout.rank();
            let (after, before) = (layout.append(mode).unwrap(), layout.prepend(mode).unwrap());
            assert_eq!(after.mode(rank).as_ref(), Some(mode), "{layout}");
            assert_eq!(before.mode(0).as_ref(), Some(mode), "{layout}");
            let own = Layout::concat(&layout.modes().collect::<Vec<_>>());
            assert_eq!(after.take(0..rank), own, "{layout}");
            assert_eq!(before.take(1..rank + 1), own, "{layout}");
            for i in 0..rank {
                let replaced = layout.replace(i, mode).unwrap();
                let back = replaced.clone().replace(i, layout.mode(i).unwrap());
                let leaf = layout.is_leaf();
                assert!(leaf || back.as_ref() == Ok(layout), "{layout} at {i}");
                assert!(
                    leaf || replaced.mode(i).as_ref() == Some(mode),
                    "{layout} at {i}"
                );
            }
            for wide in rank..rank + 3 {
                let padded = layout.append_to_rank(wide, Layout::unit()).unwrap();
                assert_eq!(padded.size(), layout.size(), "{layout} to {wide}");
                assert_eq!(padded.rank(), wide, "{layout} to {wide}");
                let front = layout.prepend_to_rank(wide, Layout::unit()).unwrap();
                assert_eq!(
                    table(&leaves(&front)),
                    table(&leaves(layout)),
                    "{layout} to {wide}"
                );
                let (all, more) = (wide, wide - rank);
                assert_eq!(front.rank(), all, "{layout} to {wide}");
                for added in (0..more)
                    .map(|i| front.mode(i))
                    .chain((rank..all).map(|i| padded.mode(i)))
                {
                    assert_eq!(added, Some(Layout::unit()), "{layout} to {wide}");
                }
            }
            *count += 1;
        }
    });
}

#[test]
fn insert_remove_wrap() {
    law("insert_remove_wrap", "shapes and places", 8_000, |count| {
        for shape in layouts().iter().map(Layout::shape) {
            let mode = IntTuple::from((7, 9));
            for i in (0..=shape.rank()).filter(|_| !shape.is_leaf()) {
                let longer = shape.insert(i, &mode).expect("at most one beyond the rank");
                assert_eq!(longer.mode(i).as_ref(), Some(&mode), "{shape} at {i}");
                assert_eq!(longer.remove(i).as_ref(), Ok(&shape), "{shape} at {i}");
                *count += 1;
            }
            let unwrapped = shape.unwrap();
            assert_eq!(IntTuple::concat([&shape]).unwrap(), unwrapped, "{shape}");
            assert!(unwrapped.is_leaf() || unwrapped.rank() != 1, "{shape}");
            assert_eq!(unwrapped.wrap().unwrap(), unwrapped, "{shape}");
            assert_eq!(unwrapped.leaves(), shape.leaves(), "{shape}");
        }
    });
}

/// Zip exchanges the two outer levels, so twice is the identity.
#[test]
fn zip_zip() {
    let all: Vec<Layout> = layouts().into_iter().filter(|l| l.rank() > 1).collect();
    law("zip_zip", "pairs", 1_900, |count| {
        for (a, b) in all
            .iter()
            .zip(all.iter().skip(3))
            .filter(|(a, b)| a.rank() == b.rank())
        {
            let pairs = a.zip_with(b).expect("tuples of one rank");
            for (i, pair) in pairs.modes().enumerate() {
                assert_eq!(pair.mode(0), a.mode(i), "{a} and {b}");
                assert_eq!(pair.mode(1), b.mode(i), "{a} and {b}");
            }
            assert_eq!(pairs.zip(), Layout::concat([a, b]), "{a} and {b}");
            *count += 1;
        }
    });
}
