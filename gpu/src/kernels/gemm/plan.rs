//! `GemmPlan`: which kernel a product takes, and its numbers.

use core::fmt;

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use crate::kernels::{GemmProblem, Major, MatrixName};
use crate::tensor::{Built, Error};

/// The generation of instructions that a kernel is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GemmMethod {
    /// One multiply-add of a thread at a time.
    Simt,
    /// `mma.sync` of quad-pairs.
    Volta,
    /// `cp.async` in stages, `ldmatrix`, `mma.sync`.
    Ampere,
    /// TMA, mbarriers, `wgmma`: one producer, two consumers.
    Hopper,
}

impl fmt::Display for GemmMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GemmMethod::Simt => "SIMT",
            GemmMethod::Volta => "Volta",
            GemmMethod::Ampere => "Ampere",
            GemmMethod::Hopper => "Hopper",
        })
    }
}

/// What is known of the matrices when the kernel is built: types, orders, and how many elements a vector may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// The type of A and B.
    pub ab: Ty,
    /// The type of C.
    pub c: Ty,
    /// What runs fastest in A, B and C.
    pub majors: [Major; 3],
    /// Elements that an access to A, B and C may take at once: addresses and leading dimensions are multiples of them.
    pub vectors: [i64; 3],
    /// Whether C is read.
    pub beta: bool,
}

impl Operands {
    /// The layout of an operand, whose extents and leading dimension only the launch knows.
    pub(super) fn layout(&self, operand: Operand) -> Layout {
        let text = match self.majors[operand as usize] {
            Major::First => "(1,1):(_1,1)",
            Major::Second => "(1,1):(1,_1)",
        };
        text.parse().expect("a literal")
    }

    /// What runs fastest in an operand.
    pub(super) fn major(&self, operand: Operand) -> Major {
        self.majors[operand as usize]
    }

    pub(super) fn vector(&self, operand: Operand) -> i64 {
        self.vectors[operand as usize]
    }
}

/// A kernel and its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmPlan {
    /// The generation.
    pub method: GemmMethod,
    /// What is known of the matrices.
    pub operands: Operands,
    /// The tile of a block, along M, N and K.
    pub tile: [i64; 3],
    /// How many tiles are on their way.
    pub stages: i64,
    /// Threads (SIMT), warps (Volta, Ampere) or warpgroups (Hopper) along M and N.
    pub warps: [i64; 2],
    /// Tiles along N that follow each other before the next along M.
    pub raster: i64,
}

impl GemmPlan {
    /// The plan of a method with its usual numbers.
    pub fn new(method: GemmMethod, operands: Operands) -> GemmPlan {
        let (tile, stages, warps) = match method {
            GemmMethod::Simt if super::numbers::sum_type(operands.ab) == Ty::F64 => {
                ([64, 64, 16], 2, [16, 16])
            }
            GemmMethod::Simt => ([128, 128, 16], 2, [16, 16]),
            GemmMethod::Volta => ([128, 128, 32], 2, [2, 4]),
            GemmMethod::Ampere => ([128, 128, 64], 3, [2, 4]),
            GemmMethod::Hopper => ([128, 256, 64], 4, [2, 1]),
        };
        GemmPlan {
            method,
            operands,
            tile,
            stages,
            warps,
            raster: 8,
        }
    }

    /// The kernel for that architecture.
    ///
    /// # Errors
    ///
    /// What the plan asks for and the algebra refuses, with the line of the kernel that asked.
    pub fn build(&self, arch: Arch) -> Result<Built, Error> {
        match self.method {
            GemmMethod::Simt => super::simt::build(self, arch),
            GemmMethod::Volta => super::sm70::build(self, arch),
            GemmMethod::Ampere => super::sm80::build(self, arch),
            GemmMethod::Hopper => super::sm90::build(self, arch),
        }
    }

    /// The plan for the extents of a problem: where a vector must be whole, one that they are no multiples of is narrower.
    pub(super) fn narrowed(mut self, problem: &GemmProblem) -> GemmPlan {
        // `cp.async` and TMA take the part of a vector that there is.
        let fills = matches!(self.method, GemmMethod::Ampere | GemmMethod::Hopper);
        let parts = [fills, self.stages_c()];
        for name in [MatrixName::A, MatrixName::B, MatrixName::C] {
            let along = match self.operands.majors[name as usize] {
                Major::First => 0,
                Major::Second => 1,
            };
            let (extent, vector) = (
                problem.extents(name)[along].0,
                &mut self.operands.vectors[name as usize],
            );
            while !parts[usize::from(name == MatrixName::C)] && extent % *vector != 0 {
                *vector /= 2;
            }
        }
        self
    }

    /// Whether C goes through shared memory and TMA: 16 bits, N fastest, rows of whole vectors, and not read before.
    pub(super) fn stages_c(&self) -> bool {
        let operands = &self.operands;
        self.method == GemmMethod::Hopper
            && operands.c.bits() == 16
            && operands.major(Operand::C) == Major::Second
            && operands.vector(Operand::C) == 8
            && !operands.beta
    }

    /// The matrix instruction repeated over the warps.
    pub(super) fn tiled_mma(&self) -> Result<TiledMma, Error> {
        let name = match (self.operands.ab, self.method) {
            (_, GemmMethod::Simt) => return super::simt::tiled_mma(self),
            (_, GemmMethod::Volta) => return super::sm70::tiled_mma(self),
            (Ty::F16, GemmMethod::Ampere) => "SM80_16x8x16_F32F16F16F32_TN".to_string(),
            (_, GemmMethod::Ampere) => "SM80_16x8x16_F32BF16BF16F32_TN".to_string(),
            (ty, GemmMethod::Hopper) => {
                format!(
                    "SM90_64x{}x16_F32{}{}_SS",
                    self.tile[1],
                    ty.cute(),
                    ty.cute()
                )
            }
        };
        let [m, n] = self.warps;
        let mut atom = colex_atom::mma(&name)?;
        let (atoms, tile) = match self.method {
            // Two atoms along N for each warp, so that one `ldmatrix.x4` brings both.
            GemmMethod::Simt | GemmMethod::Volta | GemmMethod::Ampere => (
                format!("({m},{n},1):(1,{m},0)"),
                format!("({},{},16)", 16 * m, 16 * n),
            ),
            GemmMethod::Hopper => {
                let major = |operand| match self.operands.major(operand) {
                    Major::First => colex_atom::Major::Mn,
                    Major::Second => colex_atom::Major::K,
                };
                let mut options = atom.options();
                options.major_a = major(Operand::A);
                options.major_b = major(Operand::B);
                atom = atom.with_options(options)?;
                (format!("({m},{n},1):(1,{m},0)"), "(_,_,_)".to_string())
            }
        };
        let parse = "the plan's numbers make a layout";
        Ok(TiledMma::new(
            atom,
            &atoms.parse().expect(parse),
            &tile.parse().expect(parse),
        )?)
    }
}

/// The size of a vector that a leading dimension, an address and an element's bytes allow.
pub(super) fn vector(bytes: i64, address: u64, leading: i64) -> i64 {
    let fits = |n: &i64| address.is_multiple_of((n * bytes) as u64) && leading % n == 0;
    [16, 8, 4, 2]
        .into_iter()
        .map(|wide| wide / bytes)
        .find(|n| *n > 0 && fits(n))
        .unwrap_or(1)
}

impl fmt::Display for GemmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        let Operands { ab, c, .. } = self.operands;
        write!(
            f,
            "{} {ab} to {c}, tile {m}x{n}x{k}, {} stages",
            self.method, self.stages
        )
    }
}
