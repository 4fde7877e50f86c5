//! What the layouts of a tiled copy must satisfy.

use colex_layout::{IntTuple, Layout, Stride, Tiler};

use crate::Error;
use crate::tensor::extents::{reach, shape_of};

/// Whether a layout of threads or of values numbers them 0, 1, 2 and so on, each once.
pub(crate) fn check_compact(what: &'static str, layout: &Layout) -> Result<(), Error> {
    if layout.is_bijective() {
        return Ok(());
    }
    Err(Error::assumption(
        "TiledCopy::new",
        format!(
            "{layout} does not number its {} {what} from 0 to {}, each once",
            layout.size(),
            layout.size() - 1
        ),
    ))
}

/// Refuses an atom whose threads are not consecutive indices: cutting the thread-value layout by their number would
/// give an instruction threads that it does not have.
pub(crate) fn check_consecutive(atom: &str, threads: &Layout) -> Result<(), Error> {
    let table = threads.table()?;
    let Some((logical, index)) = (0..).zip(table).find(|(logical, index)| logical != index) else {
        return Ok(());
    };
    Err(Error::assumption(
        "TiledCopy",
        format!(
            "thread {logical} of {atom} is thread {index} by {threads}, and a tiled copy gives an instruction \
             consecutive threads"
        ),
    ))
}

/// Refuses a thread-value layout that has not two modes, or that leaves the tile.
pub(crate) fn check_thread_value(tv: &Layout, tiler: &Tiler) -> Result<(), Error> {
    let refuse = |why| Error::assumption("TiledCopy::from_tv", why);
    if tv.rank() != 2 || tv.is_leaf() {
        let rank = tv.rank();
        return Err(refuse(format!(
            "{tv} has rank {rank}, not the two modes of threads and of values"
        )));
    }
    let Some(tile) = shape_of(tiler) else {
        return Ok(());
    };
    let Some([low, high]) = reach(tv)? else {
        return check_coordinates(tv, &tile).map_err(refuse);
    };
    let size = tile.product()?.value();
    let beyond = if low < 0 { low } else { high };
    if (0..size).contains(&beyond) {
        return Ok(());
    }
    Err(refuse(format!(
        "{tv} names the index {beyond}, and the tile {tiler} has 0 to {}",
        size - 1
    )))
}

/// What is wrong where values are coordinates, if one leaves the tile.
fn check_coordinates(tv: &Layout, tile: &IntTuple) -> Result<(), String> {
    for (mode, extent) in (0..).zip(tile.modes()) {
        let (mut low, mut high) = (0_i64, 0_i64);
        for leaf in tv.leaves() {
            let Stride::Basis(basis) = leaf.stride else {
                continue;
            };
            if basis.path().next() == Some(mode) {
                let far = (leaf.extent.value() - 1).saturating_mul(basis.value.value());
                low = low.saturating_add(far.min(0));
                high = high.saturating_add(far.max(0));
            }
        }
        let extent = extent.product().map_or(i64::MAX, |n| n.value());
        let beyond = if low < 0 { low } else { high };
        if !(0..extent).contains(&beyond) {
            return Err(format!(
                "{tv} names the coordinate {beyond} along mode {mode}, and the tile {tile} has 0 to {}",
                extent - 1
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No copy of the table has such threads; a quad-pair of Volta's MMA does.
    #[test]
    fn an_atom_of_threads_that_do_not_follow_each_other_is_refused() {
        let quad_pair: Layout = "(4,2):(1,16)".parse().expect("a layout");
        let refused = check_consecutive("QUAD", &quad_pair).expect_err("a gap");
        assert_eq!(
            refused.to_string(),
            "TiledCopy: thread 4 of QUAD is thread 16 by (4,2):(1,16), and a tiled copy gives an instruction \
             consecutive threads"
        );
        let backwards = "4:-1".parse().expect("a layout");
        assert!(check_consecutive("QUAD", &backwards).is_err());
        for atom in colex_atom::copy_atoms() {
            assert_eq!(
                check_consecutive(&atom.name(), &atom.traits().thread),
                Ok(())
            );
        }
    }
}
