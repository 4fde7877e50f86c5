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
    let mut table = vec![0i64];
    for leaf in layout.leaves() {
        let stride = leaf
            .stride
            .as_int()
            .expect("the strides of the table are integers");
        let steps = 0..leaf.extent.value();
        table = steps
            .flat_map(|i| table.iter().map(move |x| x + i * stride.value()))
            .collect();
    }
    table
        .into_iter()
        .map(|x| usize::try_from(x).expect("the layouts of the table have no negative stride"))
        .collect()
}
