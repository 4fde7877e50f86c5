//! Contiguous runs of elements, copied by bulk copies (`cp.async.bulk`) without a tensor map.

use std::panic::Location;

use colex_atom::{CopyAtom, Space};

use crate::build::Builder;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::{Tensor, View};
use colex_ir::claims::ClaimId;
use colex_ir::{CopyArgs, End};

/// The granularity of a bulk copy: its length and its addresses are multiples of this number of bytes.
const UNIT: i64 = 16;

impl Builder {
    /// Loads a contiguous run of elements into shared memory by one bulk copy. Call it from one thread. The arriving
    /// data complete transaction bytes of the barrier.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let a = k.tensor("a", Ty::F32, "(_256):(_1)");
    /// let slab = k.shared_tensor(Ty::F32, "(256):(1)");
    /// let landed = k.barriers(1);
    /// # let tid = k.thread();
    /// let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| {
    /// #     k.init_barriers(&landed, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    ///     k.arrive_expect(&landed.at(0), 1024);
    ///     k.bulk_load(&a.local_tile(256, 0), &slab, &landed.at(0));
    /// });
    /// # k.sync();
    /// k.wait(&landed.at(0), &0.into()); // all threads see the 1024 bytes
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.shared"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if source and destination are not contiguous runs of the same element type and length in
    /// global and in shared memory, if the length or an address is not a multiple of 16 bytes, or if the run may lie
    /// outside of the tensor, as for [`Builder::copy`].
    #[doc(alias = "SM90_BULK_COPY_G2S")]
    #[track_caller]
    pub fn bulk_load(&mut self, from: &Tensor, to: &Tensor, barrier: &Index) {
        self.run(Location::caller(), |k| {
            k.failure.own_indices([barrier])?;
            k.own_memory(&[from, to])?;
            let atom = k.bulk_atom("SM90_BULK_COPY_G2S", [from, to], Space::Global)?;
            k.brings(
                barrier,
                from.layout().size() * i64::from(from.ty.bits()) / 8,
            );
            let args = CopyArgs {
                barrier: Some(k.address(barrier, false)),
                ..k.bulk_ends(from, to)?
            };
            let claim = k.bulk_claim(from)?;
            k.ir.claiming(Some(claim), |k| k.copy_atom(&atom, args));
            Ok(())
        });
    }

    /// Stores a contiguous run of elements from shared memory as part of the current bulk group.
    /// [`Builder::bulk_commit`] must follow.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let a = k.tensor("a", Ty::F32, "(_256):(_1)");
    /// let slab = k.shared_tensor(Ty::F32, "(256):(1)");
    /// # let tid = k.thread();
    /// let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| {
    ///     k.bulk_store(&slab, &a.local_tile(256, 0));
    ///     k.bulk_commit();
    ///     k.bulk_wait(0, false);
    /// });
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.global.shared::cta.bulk_group"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::bulk_load`].
    #[doc(alias = "SM90_BULK_COPY_S2G")]
    #[track_caller]
    pub fn bulk_store(&mut self, from: &Tensor, to: &Tensor) {
        self.run(Location::caller(), |k| {
            k.own_memory(&[from, to])?;
            let atom = k.bulk_atom("SM90_BULK_COPY_S2G", [to, from], Space::Global)?;
            k.check_target(&to.into())?;
            let args = k.bulk_ends(from, to)?;
            let claim = k.bulk_claim(to)?;
            k.ir.claiming(Some(claim), |k| k.copy_atom(&atom, args));
            Ok(())
        });
    }

    /// What the run in global memory takes for granted.
    fn bulk_claim(&mut self, global: &Tensor) -> Result<ClaimId, ErrorKind> {
        let claim = self.open_claim();
        for i in [0, global.layout().size() - 1] {
            self.claim_vector(claim, global, i, 1)?;
        }
        Ok(claim)
    }

    fn bulk_ends(&mut self, from: &Tensor, to: &Tensor) -> Result<CopyArgs, ErrorKind> {
        let mut end = |tensor: &Tensor| {
            let bytes = tensor.bytes_at(0)?;
            Ok::<_, ErrorKind>(End::Memory(
                self.address(&bytes, tensor.space == Space::Global),
            ))
        };
        Ok(CopyArgs {
            src: end(from)?,
            dst: end(to)?,
            ..CopyArgs::default()
        })
    }

    /// The instruction for a run that both tensors are; the first is the one in global memory.
    fn bulk_atom(
        &mut self,
        name: &str,
        [global, shared]: [&Tensor; 2],
        space: Space,
    ) -> Result<CopyAtom, ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands("bulk", why));
        if global.space != space || shared.space != Space::Shared {
            return refuse(format!("{name} moves between global and shared memory"));
        }
        if global.ty != shared.ty {
            return refuse(format!(
                "elements of {} in global and of {} in shared memory: both are the same (`as_type` reads the same bits as \
                 others)",
                global.ty, shared.ty
            ));
        }
        let sizes =
            [global, shared].map(|tensor| tensor.layout().size() * i64::from(tensor.ty.bits()) / 8);
        if sizes[0] != sizes[1] || sizes[0] % UNIT != 0 {
            return refuse(format!(
                "{} bytes and {}; both are the same multiple of {UNIT}",
                sizes[0], sizes[1]
            ));
        }
        for tensor in [global, shared] {
            self.check_run(tensor)?;
            for i in [0, tensor.layout().size() - 1] {
                self.check_whole(tensor, i, 1)?;
            }
        }
        let atom: CopyAtom = name.parse()?;
        Ok(atom.with_bits(8 * sizes[0])?)
    }

    /// Refuses a tensor that is not one run of neighbours from a multiple of 16 bytes on.
    fn check_run(&mut self, tensor: &Tensor) -> Result<(), ErrorKind> {
        match &tensor.view {
            View::Coords { of, .. } => self.launch.require(of.slot, None, UNIT),
            View::Offsets { swizzle, .. } if !swizzle.is_identity() => {
                let why = format!("{} is swizzled by {swizzle}", tensor.layout());
                return Err(ErrorKind::operands("bulk", why));
            }
            View::Offsets { .. } => {}
        }
        let bytes = i64::from(tensor.ty.bits()) / 8;
        let (first, last) = (tensor.bytes_at(0)?, tensor.layout().size() - 1);
        let steps = [(1.min(last)), last].map(|i| (i, tensor.bytes_at(i)));
        for (i, at) in steps {
            if (at? - &first).as_constant() != Some(i * bytes)
                || !tensor.layout().coalesce(..).is_leaf()
            {
                let why = format!("{} is not one run of neighbours", tensor.layout());
                return Err(ErrorKind::operands("bulk", why));
            }
        }
        if (&first - &tensor.base).alignment() % UNIT != 0 {
            let why = format!("the run begins at {first}, which need not be a multiple of {UNIT}");
            return Err(ErrorKind::operands("bulk", why));
        }
        Ok(())
    }
}
