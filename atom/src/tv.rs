//! Reading thread-value layouts.

use colex_layout::Layout;

/// How many threads the layout speaks of.
pub(crate) fn threads(layout: &Layout) -> usize {
    extent(layout, 0)
}

/// How many values each thread holds.
pub(crate) fn values(layout: &Layout) -> usize {
    extent(layout, 1)
}

fn extent(layout: &Layout, mode: usize) -> usize {
    let mode = layout
        .mode(mode)
        .expect("a thread-value layout has two modes");
    usize::try_from(mode.size()).expect("extents are at least 1")
}

/// The coordinate of each value of each thread, threads fastest: entry `t + threads * v`.
pub(crate) fn table(layout: &Layout) -> Vec<usize> {
    let offsets = layout
        .table()
        .expect("the layouts of the table stay within 64 bits");
    offsets
        .into_iter()
        .map(|x| usize::try_from(x).expect("the layouts of the table have no negative stride"))
        .collect()
}
