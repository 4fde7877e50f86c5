//! Tensors with few rows and columns.

use colex_atom::{TmaElement, TmaPlan, TmaTile};
use colex_layout::{ComposedLayout, Layout};

/// A mode of extent 1 has a stride that the driver takes, regardless of its layout; the others keep theirs.
#[test]
fn law_modes_of_one_element_have_legal_strides() {
    let (mut cases, mut taken) = (0, 0);
    for element in [
        TmaElement::U8,
        TmaElement::F16,
        TmaElement::F32,
        TmaElement::F64,
    ] {
        let bytes = element.bytes();
        for extents in [[1, 1], [1, 7], [1, 64], [3, 1], [3, 7], [64, 64]] {
            for strides in [
                [0, 0],
                [0, 1],
                [1, 0],
                [7, 1],
                [64, 1],
                [-5, 1],
                [33, 9],
                [1 << 41, 1],
            ] {
                cases += 1;
                let text = format!(
                    "({},{}):({},{})",
                    extents[0], extents[1], strides[0], strides[1]
                );
                let global: Layout = text.parse().unwrap();
                let shared: ComposedLayout =
                    format!("(4,{0}):({0},1)", 32 / bytes).parse().unwrap();
                let plan = TmaPlan::new(TmaTile {
                    global: &global,
                    tile: (4, 32 / bytes),
                    shared: &shared,
                    element,
                    multicast: 1,
                });
                let is_legal = (extents[1] == 1 || strides[1] == 1)
                    && (extents[0] == 1
                        || (0..1 << 40).contains(&(strides[0] * bytes))
                            && strides[0] * bytes % 16 == 0);
                assert_eq!(plan.is_ok(), is_legal, "{text} of {element:?}: {plan:?}");
                let Ok(plan) = plan else {
                    continue;
                };
                taken += 1;
                let (map, stride) = (plan.map(), plan.map().strides[0]);
                assert_eq!(map.dims, [extents[1], extents[0]], "{text}");
                match extents[0] {
                    1 => assert!(
                        stride > 0 && stride % 16 == 0 && stride >= extents[1] * bytes,
                        "{text}: {stride}"
                    ),
                    _ => assert_eq!(stride, strides[0] * bytes, "{text}"),
                }
                assert_eq!(map.encoded_strides(), map.strides, "{text}");
            }
        }
    }
    assert!(taken > 50, "{taken}");
    println!("law tma.one_element_modes: {cases} cases");
}
