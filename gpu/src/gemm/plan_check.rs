//! Checks that a kernel can be built from a plan, and that the plan suits the product of a call.

use colex_atom::{Arch, Ty};
use colex_tiled::Operand;

use super::epilogue::convert::{outputs, sum_type};
use super::operand::shares;
use super::plan::{Division, GemmPlan, MOST_FIXUP, Operands};
use super::sm90::{MOST_SHARES, MOST_SHARING, MOST_STEPS, most_narrow_tiles};
use crate::error::{Error, ErrorKind, begins_late, flag};
use crate::kernels::{GemmProblem, Major};
use crate::method::GemmMethod;
use colex_ir::launch::Limits;
use colex_sched::Order;
use colex_sched::formula::MOST_PLACES;
use colex_sched::pipeline::Schedule;

/// The largest extent of a tile along M, N or K.
pub(crate) const MOST_TILE: i64 = 1024;

/// The widest strip of an order.
const MOST_STRIP: i64 = 1 << 16;

/// The most 32-bit registers of a thread's accumulators: the registers that a thread can have. More would lie in local
/// memory.
const MOST_SUMS: i64 = 255;

/// The most accesses of a thread to the tile of an operand, and the most matrix instructions of a thread for a tile.
/// The loops are unrolled, so that each of them is an instruction of the kernel.
const MOST_UNROLLED: i64 = 4096;

/// The most bytes of the memory through which parts of K are summed.
const MOST_WORKSPACE: i64 = 1 << 28;

/// The most threads of a block.
pub(crate) const MOST_THREADS: i64 = 1024;

impl GemmPlan {
    /// Checks that the kernel can be built: the types on an architecture, and every number.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not multiply such matrices, if no kernel multiplies the types, or if the
    /// kernel does not take a number, an order, a sum of numbers or a share of a tile.
    /// [`Error::plan`](crate::Error::plan) says which.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        self.check_kernel(arch)?;
        let Operands { ab, c, gated, .. } = self.operands;
        if gated {
            let why =
                "the plan has two right factors: a product with an epilogue takes them".to_string();
            return Err(ErrorKind::Epilogue { why }.into());
        }
        let can = outputs(ab);
        if can.contains(&c) {
            Ok(())
        } else {
            Err(ErrorKind::Types { ab, c, can }.into())
        }
    }

    /// Checks that the kernel can be built with an epilogue whose C has any type.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](GemmPlan::check), except that of the type of C.
    pub(crate) fn check_kernel(&self, arch: Arch) -> Result<(), Error> {
        let family = self.method.family();
        if self.swap {
            let can = matches!(self.method, GemmMethod::Hopper | GemmMethod::Gemv);
            if !can {
                return Err(flag(format!(
                    "the plan swaps A and B: the {} kernel does not, and the Hopper and GEMV kernels do",
                    self.method
                )));
            }
            if self.operands.gated {
                return Err(flag(
                    "the plan swaps A and B: no kernel swaps A and two right factors".to_string(),
                ));
            }
            return self.launched().check_kernel(arch);
        }
        // Threads neither round to tf32 nor load bytes.
        let is_hopper = self.method == GemmMethod::Hopper;
        if self.gather && !(is_hopper && self.operands.ab.bits() == 16) {
            return Err(flag(format!(
                "the plan loads A and B by the threads of a warpgroup: the {} kernel does not for {}, and the Hopper kernel does for \
                 f16 and bf16",
                self.method, self.operands.ab
            )));
        }
        let at_once = if is_hopper { 2 } else { 1 };
        self.limit("tiles of a block at once", self.tiles_at_once(), at_once)?;
        if self.schedule == Schedule::Pingpong {
            let [groups, _] = self.warps;
            self.limit("warpgroups for a tile by pingpong", groups, 1)?;
            self.limit("parts of K by pingpong", self.split, 1)?;
            let [_, _, along_k] = self.cluster;
            self.limit("blocks along K of a cluster by pingpong", along_k, 1)?;
        }
        self.check_types(arch)?;
        for name in Operand::ALL {
            self.check_vector(name)?;
        }
        let [warps_m, warps_n] = family.most_units();
        self.number("number of warps along M", self.warps[0], 1..=warps_m, 1)?;
        self.number("number of warps along N", self.warps[1], 1..=warps_n, 1)?;
        self.limit("threads in a block", family.threads(self), MOST_THREADS)?;
        self.check_cluster(family.most_cluster(arch))?;
        match self.division {
            Division::SplitK => {
                let parts = 1..=family.most_split();
                self.number("number of parts of K", self.split, parts, 1)?;
            }
            Division::SplitKFixup if family.most_split() > 1 => {
                let what = "number of parts of K that a block adds";
                self.number(what, self.split, 2..=MOST_FIXUP, 1)?;
            }
            Division::SplitKFixup => {
                return Err(flag(format!(
                    "the plan divides K into parts that a block adds: the {} kernel does not, and the Hopper kernel does",
                    self.method
                )));
            }
            Division::StreamK if family.most_split() > 1 => {
                let shares = 2..=MOST_SHARES;
                self.number("number of shares by stream-K", self.split, shares, 1)?;
            }
            Division::StreamK => {
                return Err(flag(format!(
                    "the plan divides K by stream-K: the {} kernel does not, and the Hopper kernel does",
                    self.method
                )));
            }
        }
        let whole = 0..=if self.split > 1 { MOST_PLACES - 1 } else { 0 };
        self.number(
            "number of tiles that are not divided",
            self.undivided,
            whole,
            1,
        )?;
        if self.early && !self.can_begin_early(arch) {
            let why = match self.method {
                GemmMethod::Hopper | GemmMethod::Gemv => begins_late(arch),
                GemmMethod::Simt | GemmMethod::Volta | GemmMethod::Ampere => format!(
                    "the plan's kernels begin early: the {} kernel does not, and the Hopper and GEMV kernels do",
                    self.method
                ),
            };
            return Err(flag(why));
        }
        let [m, n, k] = self.steps();
        self.limit("rows of C for an instruction of every warp", m, MOST_TILE)?;
        self.limit(
            "columns of C for an instruction of every warp",
            n,
            MOST_TILE,
        )?;
        let [most_m, most_n, most_k] = family.most_tile(&self.operands);
        self.limit(
            "rows of A's tile for an instruction of every warp",
            m,
            most_m,
        )?;
        self.number("tile along M", self.tile[0], m..=most_m / m * m, m)?;
        self.number("tile along N", self.tile[1], n..=most_n / n * n, n)?;
        let least = family.least_k(k);
        self.number("tile along K", self.tile[2], least..=most_k / k * k, k)?;
        self.number("number of stages", self.stages, family.stages(), 1)?;
        self.number("strip width", self.strip()?, 1..=MOST_STRIP, 1)?;
        self.check_columns()?;
        let columns = self.tile[1] * self.operands.right_factors();
        let elements = (self.tile[0] + columns) * self.tile[2] * self.stages;
        let ty = family.held(&self.operands);
        let bytes = elements * i64::from(ty.bits()) / 8;
        let room = i64::from(Limits::of(arch).shared);
        self.limit("bytes of shared memory for A and B", bytes, room)?;
        if self.cluster[2] > 1 {
            let sums = self.tile[0] * self.tile[1] * 4;
            let what = "bytes of shared memory for A, B and the sums of a cluster";
            self.limit(what, bytes + sums, room)?;
        }
        self.check_unrolled()
    }

    /// Whether the kernel takes the blocks of a cluster.
    fn check_cluster(&self, [most_m, most_n, most_k]: [i64; 3]) -> Result<(), Error> {
        let [m, n, k] = self.cluster;
        self.number("number of a cluster's blocks along M", m, 1..=most_m, 1)?;
        self.number("number of a cluster's blocks along N", n, 1..=most_n, 1)?;
        self.number("number of a cluster's blocks along K", k, 1..=most_k, 1)?;
        if k > 1 {
            let what = "blocks along M and N in a cluster that divides K";
            self.limit(what, m * n, 1)?;
            let what = "rows of a tile for a cluster that divides K";
            return self.limit(what, self.tile[0], 64 * self.warps[0]);
        }
        let what = "blocks along M and N in a cluster";
        self.limit(what, m * n, MOST_SHARING)?;
        // The parts of a box are equal.
        if m * n > 1 {
            self.number(
                "number of blocks along M and N in a cluster",
                m * n,
                2..=MOST_SHARING,
                2,
            )?;
        }
        Ok(())
    }

    pub(crate) fn number(
        &self,
        what: &'static str,
        found: i64,
        range: std::ops::RangeInclusive<i64>,
        step: i64,
    ) -> Result<(), Error> {
        if range.contains(&found) && found % step == 0 {
            Ok(())
        } else {
            Err(ErrorKind::Plan {
                method: self.method.to_string(),
                what,
                found,
                least: *range.start(),
                most: *range.end(),
                step,
            }
            .into())
        }
    }

    /// The width of the strips of the plan's order; an error for an order that is no formula over any extents.
    fn strip(&self) -> Result<i64, Error> {
        match self.order {
            Order::Grouped { width, raster: _ } => Ok(width),
            order @ (Order::Swizzle(_)
            | Order::Persistent { .. }
            | Order::Hilbert
            | Order::Morton) => Err(ErrorKind::PlanOrder {
                method: self.method.to_string(),
                order,
            }
            .into()),
        }
    }

    pub(crate) fn limit(&self, what: &'static str, found: i64, most: i64) -> Result<(), Error> {
        if found <= most {
            Ok(())
        } else {
            Err(ErrorKind::PlanLimit {
                method: self.method.to_string(),
                what,
                found,
                most,
            }
            .into())
        }
    }

    /// Whether the method multiplies such matrices on an architecture.
    fn check_types(&self, arch: Arch) -> Result<(), Error> {
        let family = self.method.family();
        let Operands { ab, vectors, .. } = self.operands;
        let loaded = if self.gather {
            [8; 2]
        } else {
            [vectors[0], vectors[1]]
        };
        let seen = Operands {
            vectors: [loaded[0], loaded[1], vectors[2]],
            ..self.operands
        };
        if !self.method.fits(&seen, arch) {
            return Err(ErrorKind::Product {
                method: self.method,
                ab,
                vectors: [vectors[0], vectors[1]],
                arch,
                types: family.types(),
                since: family.since(),
            }
            .into());
        }
        Ok(())
    }

    /// Vectors are powers of two of at most 16 bytes.
    fn check_vector(&self, name: Operand) -> Result<(), Error> {
        let (what, ty) = match name {
            Operand::A => ("vector of A", self.operands.ab),
            Operand::B => ("vector of B", self.operands.ab),
            Operand::C => ("vector of C", self.operands.c),
        };
        let found = self.operands.vectors[name as usize];
        let most = 128 / i64::from(ty.bits());
        if (1..=most).contains(&found) && found.count_ones() == 1 {
            Ok(())
        } else {
            Err(ErrorKind::PlanVector {
                what,
                found,
                ty,
                most,
            }
            .into())
        }
    }

    /// Returns what the tile's extents are multiples of: what the matrix instructions of all warps take.
    pub fn steps(&self) -> [i64; 3] {
        let launched = self.possible().launched();
        self.method.family().steps(&launched)
    }

    /// Checks that a thread can hold its part of a tile, and that the unrolled kernel is not too long.
    fn check_unrolled(&self) -> Result<(), Error> {
        let [bm, bn, bk] = self.tile;
        let family = self.method.family();
        let consumers = family.consumers(self);
        let factors = self.operands.right_factors();
        let bits = i64::from(sum_type(self.operands.ab).bits());
        let sums = factors * (bm * bn / consumers) * bits / 32;
        self.limit("registers for a thread's sums", sums, MOST_SUMS)?;
        let multiplies = factors * bm * bn * bk / family.products(self);
        self.limit(
            "matrix instructions of a thread to a tile",
            multiplies,
            MOST_UNROLLED,
        )?;
        family.check_shares(self, sums)
    }

    /// Refuses a plan by which the threads of a block cannot share the copy of the tile of A or of B equally.
    ///
    /// # Errors
    ///
    /// Returns an error if the threads have no equal shares of a tile, or if the plan exceeds a limit of the kernel.
    pub(crate) fn check_copies(&self) -> Result<(), Error> {
        let threads = self.method.family().copiers(self);
        for (operand, name) in [(Operand::A, "A"), (Operand::B, "B")] {
            let tile = operand.modes().map(|mode| self.tile[mode]);
            let vector = self.operands.vector(operand);
            let (major, ty) = (self.operands.major(operand), self.operands.ab);
            let Some(share) = shares(major, tile, vector, threads, ty) else {
                return Err(ErrorKind::PlanShares {
                    method: self.method.to_string(),
                    operand: name,
                    tile,
                    threads,
                }
                .into());
            };
            let accesses = tile[0] * tile[1] / (threads * share.vector);
            self.limit(
                "accesses of a thread to a tile",
                accesses,
                MOST_UNROLLED / 8,
            )?;
        }
        Ok(())
    }

    /// Checks that the plan is for a problem with these matrices. The plan was [checked](Self::check).
    ///
    /// # Errors
    ///
    /// Returns an error if the types, the orders or `beta` are not those of the problem, if the vectors are wider than
    /// addresses and leading dimensions allow, if the tiles are to divide the problem and do not, or if all products have
    /// more tiles than the kernel counts. Groups share the rows of the problem, which is one product here.
    pub(crate) fn check_call(&self, problem: &GemmProblem, call: &Operands) -> Result<(), Error> {
        let plan = &self.operands;
        let differs =
            |what, plan: String, call: String| Err(ErrorKind::PlanCall { what, plan, call }.into());
        // The SIMT kernel multiplies in f32 what was to be rounded to tf32.
        let exact = self.method == GemmMethod::Simt && (plan.ab, call.ab) == (Ty::F32, Ty::Tf32);
        if plan.ab != call.ab && !exact {
            return differs("A and B are of", plan.ab.to_string(), call.ab.to_string());
        }
        if plan.c != call.c {
            return differs("C is of", plan.c.to_string(), call.c.to_string());
        }
        if plan.gated != call.gated {
            let count = |operands: &Operands| operands.right_factors().to_string();
            return differs("the number of right factors is", count(plan), count(call));
        }
        let runs = |major: Major| match major {
            Major::First => "first",
            Major::Second => "second",
        };
        let orders = [
            "A runs fastest along its",
            "B runs fastest along its",
            "C runs fastest along its",
        ];
        for (i, what) in orders.into_iter().enumerate() {
            let index = |major| format!("{} index", runs(major));
            if plan.majors[i] != call.majors[i] {
                return differs(what, index(plan.majors[i]), index(call.majors[i]));
            }
        }
        let vectors = ["A is read by", "B is read by", "C is accessed by"];
        for (i, what) in vectors.into_iter().enumerate() {
            if plan.vectors[i] > call.vectors[i] {
                let (plan, call) = (plan.vectors[i], call.vectors[i]);
                let call = format!("no more than {call} can be");
                return differs(what, format!("{plan} elements"), call);
            }
        }
        if plan.beta != call.beta {
            let read = |beta| if beta { "read" } else { "not read" };
            return differs(
                "C is",
                read(plan.beta).to_string(),
                read(call.beta).to_string(),
            );
        }
        let call_problem = *problem;
        let (problem, _) = self.seen(problem);
        if let (true, Some((what, tile, extent))) = (self.whole, self.remainder(&problem)) {
            return Err(ErrorKind::PlanWhole { what, tile, extent }.into());
        }
        self.check_parts(&call_problem)?;
        if self.columns != 0 && problem.epilogue.is_some() {
            let of_part = self.part_columns();
            let what = "number of columns of a tile with an epilogue of the caller";
            self.number(what, self.columns, of_part..=self.tile[1], of_part)?;
        }
        self.check_tiles(&problem)
    }

    /// Whether a workspace holds the parts of K of a problem.
    pub(crate) fn check_parts(&self, problem: &GemmProblem) -> Result<(), Error> {
        if self.split == 1 {
            return Ok(());
        }
        let tiles = self.cluster_tiles(problem);
        self.limit("tiles that are not divided", self.undivided, tiles)?;
        if self.division == Division::StreamK {
            let divided = self.divided_tiles(problem);
            let row = divided.saturating_mul(self.steps_of(problem));
            self.limit("steps along K of a row by stream-K", row, MOST_STEPS)?;
        }
        let bytes = self.workspace(problem);
        let what = "bytes of workspace for the parts of K";
        self.limit(what, bytes, MOST_WORKSPACE)
    }

    /// Checks the number of columns of a kernel for several widths, and that the kernel has them. The other numbers were checked.
    fn check_columns(&self) -> Result<(), Error> {
        if self.columns == 0 {
            return Ok(());
        }
        let refuse = |why: &str| Err(flag(format!("the plan's kernel has several widths: {why}")));
        if self.method != GemmMethod::Hopper {
            return refuse(&format!(
                "the {} kernel has one, and the Hopper kernel takes several",
                self.method
            ));
        }
        if self.split > 1 && self.division != Division::SplitKFixup {
            return refuse("it takes K whole, or the block that comes last adds the parts");
        }
        let [along_m, _, along_k] = self.cluster;
        let what = "blocks along K of a cluster with several widths";
        self.limit(what, along_k, 1)?;
        // The rows of B that a block of two loads of 16 are a whole period of the swizzle.
        let what = "blocks along M of a cluster with several widths";
        self.limit(what, along_m, 2)?;
        if self.gather {
            return refuse("TMA loads A and B, and threads do not");
        }
        // Along N, a tile would have to be whole periods of the swizzle.
        if self.launched().operands.major(Operand::B) != Major::Second {
            return refuse("B, or A if the plan swaps them, is contiguous along K");
        }
        if self.operands.beta {
            return refuse("it does not read C");
        }
        if self.operands.gated {
            return refuse("it has one right factor");
        }
        if !self.stages_c() {
            return refuse(
                "TMA stores C, which has 16 or 32 bits and rows (or columns) of whole vectors of 16 bytes",
            );
        }
        let (widest, step) = (self.tile[1], self.width_step());
        self.number("widest tile along N", widest, step..=256, step)?;
        let least = (widest / 2 / step + 1) * step;
        let what = "number of columns of a tile";
        self.number(what, self.columns, least..=widest, step)
    }

    /// Whether there may be a workspace for the parts of K of some clusters' tiles.
    pub(crate) fn fits_workspace(&self, tiles: i64) -> bool {
        self.places(tiles).saturating_mul(self.bytes_of_parts()) <= MOST_WORKSPACE
    }

    /// The first extent of a problem that the tile does not divide, its name and the tile's extent.
    pub(crate) fn remainder(&self, problem: &GemmProblem) -> Option<(&'static str, i64, i64)> {
        let extents = [("M", problem.m), ("N", problem.n), ("K", problem.k)];
        let [m, n] = self.computed();
        let mut pairs = extents.into_iter().zip([m, n, self.tile[2]]);
        let divides = |(_, extent): (&str, i64), tile: i64| extent % tile == 0;
        pairs
            .find(|(extent, tile)| !divides(*extent, *tile))
            .map(|((what, extent), tile)| (what, tile, extent))
    }

    /// Whether the kernel can count the tiles, and those that a strip of the order has.
    fn check_tiles(&self, problem: &GemmProblem) -> Result<(), Error> {
        let along = |extent: i64, tile: i64| (extent - 1) / tile + 1;
        let [rows, columns] = self.computed();
        let [m, n] = [along(problem.m, rows), along(problem.n, columns)];
        if self.columns != 0 {
            let wide = (n - 1) / self.cluster[1] + 1;
            self.limit(
                "tiles along N with several widths",
                wide,
                most_narrow_tiles(self),
            )?;
        }
        let most = MOST_PLACES - 1;
        let what = match problem.batch {
            1 => "tiles",
            _ => "tiles of all products",
        };
        let tiles = m.saturating_mul(n).saturating_mul(problem.batch);
        self.limit(what, tiles, most)?;
        self.limit(
            "tiles in a strip of its order",
            m.max(n).saturating_mul(self.strip()?),
            most,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Ty;

    /// The first columns of the widest tiles lie within the largest extent.
    #[test]
    fn more_narrow_tiles_than_the_widest_ones_of_an_extent_are_refused() {
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors: [Major::Second; 3],
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let plan = GemmPlan {
            tile: [128, 256, 64],
            columns: 144,
            cluster: [1, 2, 1],
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        };
        let most = most_narrow_tiles(&plan);
        assert_eq!(most, 4_194_048);
        let of = |n| plan.check_tiles(&GemmProblem::new(64, n, 64));
        assert!(of(288 * most).is_ok());
        let error = of(288 * most + 1).expect_err("a tile more");
        assert_eq!(
            error.to_string(),
            "the plan asks for 4194049 tiles along N with several widths: the Hopper kernel takes at most 4194048, 1 fewer"
        );
    }

    /// The kernel counts the tiles of all products of a batch in one number.
    #[test]
    fn more_tiles_of_all_products_than_the_kernel_counts_are_refused() {
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors: [Major::Second; 3],
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let most = MOST_PLACES - 1;
        for (method, arch) in [
            (GemmMethod::Hopper, Arch::Sm90a),
            (GemmMethod::Ampere, Arch::Sm80),
            (GemmMethod::Simt, Arch::Sm70),
        ] {
            let plan = GemmPlan::new(method, operands);
            plan.check(arch).expect("the usual plan");
            let [rows, columns] = plan.computed();
            let of = |m, n, batch| {
                let problem = GemmProblem::new(m * rows, n * columns, 64).batch(batch);
                plan.check_call(&problem, &operands)
            };
            let said = |tiles: i64, what: &str, more: i64| {
                format!(
                    "the plan asks for {tiles} {what}: the {method} kernel takes at most 1073741823, {more} fewer"
                )
            };
            assert_eq!(of(1, 1, most), Ok(()));
            let refused = |m, n, batch| of(m, n, batch).expect_err("more").to_string();
            let what = "tiles of all products";
            assert_eq!(refused(1, 1, most + 1), said(most + 1, what, 1));
            // Three tiles divide the most, and two do not.
            assert_eq!(of(3, 1, most / 3), Ok(()));
            assert_eq!(refused(3, 1, most / 3 + 1), said(most + 3, what, 3));
            assert_eq!(of(2, 3, most / 6), Ok(()));
            assert_eq!(
                refused(2, 3, most / 6 + 1),
                said(6 * (most / 6 + 1), what, 6 * (most / 6 + 1) - most)
            );
            assert_eq!(of(1 << 10, 1 << 9, 1), Ok(()));
        }
    }

    /// Each block of a cluster along M loads a share of the rows of B, which is whole periods of the swizzle (8 rows), and `wgmma` of bytes
    /// has no other multiples of 8 columns from 32 on than those of 16 (PTX ISA 9.7.15).
    #[test]
    fn law_widths_of_a_tile_are_whole_shares_of_b() {
        let clusters = [[1, 1, 1], [2, 1, 1], [3, 1, 1], [4, 1, 1], [1, 2, 1]];
        for (ab, c, of_instruction) in [
            (Ty::S8, Ty::S32, 16),
            (Ty::Bf16, Ty::Bf16, 8),
            (Ty::F16, Ty::F32, 8),
        ] {
            let operands = Operands {
                ab,
                c,
                majors: [Major::Second; 3],
                vectors: [ab, ab, c].map(|ty| 128 / i64::from(ty.bits())),
                beta: false,
                gated: false,
            };
            let usual = GemmPlan::new(GemmMethod::Hopper, operands);
            let (mut cases, mut accepted) = (0, 0);
            for cluster in clusters {
                for widest in (8..=264).step_by(8) {
                    for columns in (8..=widest + 8).step_by(8) {
                        let plan = GemmPlan {
                            tile: [128, widest, usual.tile[2]],
                            stages: 2,
                            columns,
                            cluster,
                            ..usual
                        };
                        cases += 1;
                        if plan.check(Arch::Sm90a).is_ok() {
                            accepted += 1;
                            assert!(cluster[0] <= 2, "{plan}");
                            assert_eq!(columns % (8 * cluster[0]), 0, "{plan}");
                            assert_eq!(columns % of_instruction, 0, "{plan}");
                            assert!(columns <= widest && 2 * columns > widest, "{plan}");
                        }
                    }
                }
            }
            println!("law gemm.widths_are_whole_shares: {cases} cases");
            assert!(accepted >= 100, "{ab}: {accepted}");
        }
        let operands = Operands {
            ab: Ty::S8,
            c: Ty::S32,
            majors: [Major::Second; 3],
            vectors: [16, 16, 4],
            beta: false,
            gated: false,
        };
        let of_three = GemmPlan {
            columns: 144,
            tile: [128, 192, 128],
            cluster: [3, 1, 1],
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        };
        let error = of_three.check_columns().expect_err("three blocks");
        assert_eq!(
            error.to_string(),
            "the plan asks for 3 blocks along M of a cluster with several widths: the Hopper kernel takes at most 2, 1 fewer"
        );
    }
}
