//! Conversion of fragments to other element types.

use std::panic::Location;

use colex_atom::Ty;
use colex_layout::Layout;

use super::Fragment;
use super::expr::{Expr, ExprNode};
use crate::build::Builder;
use crate::error::ErrorKind;

impl Builder {
    /// Converts the elements to another type as [`Expr::to`] does, under the same layout, in fresh registers.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let sums = k.fragment(Ty::F32, "_4:_1");
    /// k.clear(&sums);
    /// let halves = k.convert(&sums, Ty::F16);
    /// assert_eq!((halves.regs().len(), halves.packed()), (2, 2));
    /// assert_eq!(k.convert(&halves, Ty::F32).regs().len(), 4);
    /// k.convert(&halves, Ty::S4);
    /// let error = k.finish().unwrap_err();
    /// assert_eq!(
    ///     error.what(),
    ///     "convert: f16 to s4; floats and integers of 8 to 64 bits are converted into each other"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Expr::to`].
    #[track_caller]
    pub fn convert(&mut self, from: &Fragment, to: Ty) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(to);
        self.attempt(Location::caller(), inert, |k| k.converted(from, to))
    }

    fn converted(&mut self, from: &Fragment, to: Ty) -> Result<Fragment, ErrorKind> {
        self.own_fragments(&[from])?;
        if from.ty == to {
            return Ok(from.clone());
        }
        if let ExprNode::Poison(kind) = &Expr::from(from).to(to).0.node {
            return Err(kind.clone());
        }
        let offsets = (0..from.layout.size()).map(|i| Ok(from.start + from.layout.at(i)?));
        let mut offsets = offsets.collect::<Result<Vec<i64>, ErrorKind>>()?;
        // Each element once, in the order of the registers.
        offsets.sort();
        offsets.dedup();
        let all = Layout::column_major(from.regs.len() as i64 * from.packed())?.to_static();
        let wide = self.new_fragment(to, &all)?;
        let packed = wide.packed();
        for own in offsets
            .chunk_by(|a, b| a / packed == b / packed)
            .filter(|own| (own.len() as i64) < packed)
        {
            let (reg, _) = wide.element(own[0])?;
            self.ir.mov_to(reg, 0);
        }
        for run in offsets.chunk_by(|a, b| a + 1 == *b) {
            let layout = Layout::column_major(run.len() as i64)?.to_static();
            let part = |of: &Fragment| Fragment {
                start: run[0],
                layout: layout.clone(),
                is_whole: false,
                rows: None,
                operand: None,
                ..of.clone()
            };
            self.assigned("convert", &part(&wide), &Expr::from(part(from)).to(to))?;
        }
        let converted = Fragment {
            ty: to,
            regs: wide.regs,
            ..from.clone()
        };
        self.hold_same(&converted, from);
        Ok(converted)
    }
}
