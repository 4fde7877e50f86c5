//! The tiles of a matrix instruction: random, and which thread of the block is which of the instruction.

use colex_atom::{MmaAtom, Rule, Value};

use super::random::{Kind, Random};

/// The tiles of one instruction.
pub(super) struct Tiles {
    /// `a[m + M*k]`; a sparse A with its zeros.
    pub(super) a: Vec<Value>,
    /// `b[n + N*k]`
    pub(super) b: Vec<Value>,
    /// `c[m + M*n]`
    pub(super) c: Vec<Value>,
}

/// The threads of the block that executes an instruction: whole warps.
pub(super) fn block_threads(atom: &MmaAtom) -> u32 {
    atom.threads().max(32) as u32
}

/// The thread of the block that is thread `t` of instruction `instance`.
pub(super) fn lane(atom: &MmaAtom, instance: usize, t: usize) -> usize {
    match atom.threads() {
        1 => instance,
        8 => {
            let first = atom
                .traits()
                .thread
                .at(t as i64)
                .expect("a quad-pair has 8 threads");
            first as usize + 4 * instance
        }
        _ => t,
    }
}

impl Tiles {
    /// Random elements of one kind.
    pub(super) fn random(atom: &MmaAtom, kind: Kind, random: &mut Random) -> Tiles {
        let ([m, n, k], t) = (atom.mnk().map(|x| x as usize), atom.traits());
        let a = match atom.rule() {
            Rule::Sparse2Of4 => sparse(atom, [m, k], 4, kind, random),
            Rule::Sparse1Of2 => sparse(atom, [m, k], 2, kind, random),
            _ => (0..m * k).map(|_| kind.draw(t.ty_a, random)).collect(),
        };
        Tiles {
            a,
            b: (0..n * k).map(|_| kind.draw(t.ty_b, random)).collect(),
            c: (0..m * n).map(|_| kind.draw(t.ty_c, random)).collect(),
        }
    }
}

/// Half of each group of A along K, at random places, none of them zero: a zero would not say whether it was kept.
fn sparse(
    atom: &MmaAtom,
    [m, k]: [usize; 2],
    group: usize,
    kind: Kind,
    random: &mut Random,
) -> Vec<Value> {
    let ty = atom.traits().ty_a;
    let mut tile = vec![Value::zero(ty); m * k];
    for first in (0..k).step_by(group) {
        for row in 0..m {
            for at in random.permutation(group).into_iter().take(group / 2) {
                let drawn = std::iter::repeat_with(|| kind.draw(ty, random));
                let mut kept = drawn.filter(|value| value.real() != 0.0);
                tile[row + m * (first + at)] = kept.next().expect("the stream does not end");
            }
        }
    }
    tile
}
