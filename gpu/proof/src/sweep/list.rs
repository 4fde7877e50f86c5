//! Every atom of the sweep.

use colex_atom::{
    CopyAtom, CopyForm, Error, GmmaOptions, MmaAtom, TmaSwizzle, copy_atoms, mma_atoms,
};

use super::bulk::bulk_case;
use super::case::Case;
use super::copy::copy_case;
use super::mma::mma_case;
use super::random::Kind;
use super::tma::{SWIZZLES, TmaForm, TmaVariant, tma_case, types, variants};

/// One thing to be swept, cheap to hold: its case is made when its turn comes.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A matrix instruction.
    Mma(Box<MmaAtom>),
    /// A copy whose threads each move a few bytes; perhaps with a cache policy.
    Copy(Box<CopyAtom>, bool),
    /// A bulk copy of this number of bytes, and whether it has a cache hint.
    Bulk(Box<CopyAtom>, u32, bool),
    /// A tensor copy.
    Tma(Box<CopyAtom>, TmaForm),
}

impl Subject {
    /// Returns the case: kernel, data and judge, from a seed.
    ///
    /// # Errors
    ///
    /// Returns the errors of the atom; an executable atom has none.
    pub fn case(&self, repeats: usize, seed: u64) -> Result<Case, Error> {
        match self {
            Subject::Mma(atom) => mma_case(atom, &Kind::ALL.repeat(repeats), seed),
            Subject::Copy(atom, hinted) => copy_case(atom, *hinted, 4 * repeats, seed),
            Subject::Bulk(atom, bytes, hinted) => {
                bulk_case(atom, *bytes, *hinted, 4 * repeats, seed)
            }
            Subject::Tma(atom, form) => tma_case(atom, form, seed),
        }
    }

    /// Returns the row of the atom's table, with its types, where A comes from, and whether it has a cache policy: what
    /// a sample should hold one of each of.
    pub fn row(&self) -> String {
        match self {
            Subject::Mma(atom) => {
                let (a, b) = atom.elements();
                format!("{} {a} {b} {}", atom.row().name, atom.a_in_shared())
            }
            Subject::Copy(atom, hinted) | Subject::Bulk(atom, _, hinted) => {
                format!("{} {:?} {hinted}", atom.row().name, atom.reduction())
            }
            Subject::Tma(atom, form) => {
                let (reduction, hinted) = (atom.reduction(), form.hinted);
                format!("{} {reduction:?} {hinted}{}", atom.row().name, form.variant)
            }
        }
    }

    /// Returns the name of the atom, without what the sweep varies.
    pub fn atom(&self) -> String {
        match self {
            Subject::Mma(atom) => atom.name(),
            Subject::Copy(atom, _) | Subject::Bulk(atom, ..) | Subject::Tma(atom, ..) => {
                atom.name()
            }
        }
    }
}

/// Returns every executable atom up to Hopper: each `wgmma` with both majors of each operand that has them and, where
/// it has signs or a choice of metadata threads, one of these; those with N = 8, 64 and 256 with every option.
pub fn subjects() -> Vec<Subject> {
    let mma = mma_atoms()
        .filter(MmaAtom::is_executable)
        .flat_map(with_options);
    let copies = copy_atoms()
        .filter(CopyAtom::is_executable)
        .flat_map(of_copy);
    mma.map(|atom| Subject::Mma(Box::new(atom)))
        .chain(copies)
        .collect()
}

/// Returns an instruction with the options that the sweep gives it: those without a sign or a choice of metadata threads,
/// and of the others all, or one that changes with N.
pub fn with_options(atom: MmaAtom) -> Vec<MmaAtom> {
    let n = atom.mnk()[1];
    let is_plain = |atom: &MmaAtom| {
        let options = atom.options();
        !options.negate_a && !options.negate_b && options.metadata_threads == 0
    };
    let legal = GmmaOptions::all().filter_map(|options| atom.clone().with_options(options).ok());
    let legal: Vec<MmaAtom> = legal.collect();
    let special = legal.iter().filter(|atom| !is_plain(atom)).count().max(1);
    let turn = (n / 8) as usize % special;
    let mut seen = 0..;
    let chosen =
        |atom: &MmaAtom| is_plain(atom) || [8, 64, 256].contains(&n) || seen.next() == Some(turn);
    legal.into_iter().filter(chosen).collect()
}

fn of_copy(atom: CopyAtom) -> Vec<Subject> {
    let hinted = atom.op().is_ok_and(|op| op.ptx_hinted.is_some());
    let hints: &[bool] = if hinted { &[false, true] } else { &[false] };
    let each = |f: &dyn Fn(bool) -> Vec<Subject>| hints.iter().flat_map(|hint| f(*hint)).collect();
    match (atom.row().form, atom.tensor_rank()) {
        (CopyForm::Universal, _) => atom
            .all_ends()
            .into_iter()
            .map(|a| Subject::Copy(Box::new(a), false))
            .collect(),
        (_, Some(_)) => each(&|hint| tensor_copies(&atom, hint)),
        _ if atom.name().starts_with("SM90_BULK") => each(&|hint| {
            [16, 208, 4096]
                .map(|bytes| Subject::Bulk(Box::new(atom.clone()), bytes, hint))
                .to_vec()
        }),
        _ => each(&|hint| vec![Subject::Copy(Box::new(atom.clone()), hint)]),
    }
}

/// Every swizzle and element type; with a cache policy, one swizzle will do. What is known to be refused is tried once.
fn tensor_copies(atom: &CopyAtom, hinted: bool) -> Vec<Subject> {
    let swizzles = if hinted {
        &SWIZZLES[3..]
    } else {
        &SWIZZLES[..]
    };
    let of = |swizzle: TmaSwizzle, refused: bool| {
        let types = types(atom, refused).into_iter();
        types.map(move |element| {
            let form = TmaForm {
                swizzle,
                element,
                hinted,
                variant: TmaVariant::Plain,
            };
            Subject::Tma(Box::new(atom.clone()), form)
        })
    };
    let legal = swizzles.iter().flat_map(|swizzle| of(*swizzle, false));
    let hear_refusals = !hinted && atom.tensor_rank() == Some(1);
    let special = if hinted { Vec::new() } else { variants(atom) };
    let special = special
        .into_iter()
        .map(|form| Subject::Tma(Box::new(atom.clone()), form));
    legal
        .chain(special)
        .chain(
            hear_refusals
                .then(|| of(TmaSwizzle::None, true))
                .into_iter()
                .flatten(),
        )
        .collect()
}
