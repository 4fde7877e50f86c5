//! A plan from texts, for the tests.

use colex_atom::{TmaElement, TmaPlan, TmaTile};
use colex_layout::{ComposedLayout, Layout, Tiler};

pub(crate) fn plan(
    global: &str,
    tile: &str,
    shared: &str,
    element: TmaElement,
    multicast: i64,
) -> Result<TmaPlan, colex_atom::Error> {
    let global: Layout = global.parse().unwrap();
    let tile: Tiler = tile.parse().unwrap();
    let shared: ComposedLayout = shared.parse().unwrap();
    TmaPlan::new(&TmaTile {
        global: &global,
        tile: &tile,
        shared: &shared,
        element,
        multicast,
    })
}
