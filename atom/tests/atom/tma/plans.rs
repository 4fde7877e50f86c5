//! A plan from texts, for the tests.

use colex_atom::{TmaElement, TmaPlan, TmaTile};

pub(crate) fn plan(
    global: &str,
    tile: &str,
    shared: &str,
    element: TmaElement,
    multicast: i64,
) -> Result<TmaPlan, colex_atom::Error> {
    TmaPlan::new(TmaTile {
        global,
        tile,
        shared,
        element,
        multicast,
    })
}
