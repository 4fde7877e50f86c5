//! Runs of elements: vectors where they fit, and the elements one by one at the end.

use std::cell::RefCell;
use std::panic::Location;

use colex_atom::Ty;
use colex_layout::Layout;

use super::gather::extent_of;
use crate::build::Builder;
use crate::error::ErrorKind;
use crate::fragment::elements::{Elements, IntoCoordinates, Outside};
use crate::fragment::expr::{Expr, ExprNode};
use crate::index::Index;
use crate::tensor::Tensor;

/// The elements that one thread takes in a call of [`Builder::for_vector`]: a whole vector, or what is left of one.
#[derive(Clone, Debug)]
pub struct VectorRun {
    first: Index,
    extent: Index,
    count: i64,
    is_whole: bool,
    at: &'static Location<'static>,
}

impl VectorRun {
    /// Returns the run in a tensor, along the mode after those of the coordinates `before`, which are `()` for the first mode.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.tensor("x", Ty::F32, "(100,100):(100,_1)");
    /// let (row, first) = (k.block_index(0), k.thread() * 4);
    /// k.for_vector(first, &x.extent(1), 4, |k, run| {
    ///     let held = k.gather(&run.of(&x, &row));
    ///     k.scatter(&held * 2.0, &run.of(&x, &row));
    /// });
    /// let text = k.finish()?.kernel.ptx()?;
    /// assert_eq!(text.matches("ld.global.v4.f32").count(), 1);
    /// assert_eq!(text.matches("ld.global.f32").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(&self, tensor: &Tensor, before: impl IntoCoordinates) -> Elements {
        let mut at = before.into_coordinates();
        let mode = at.len();
        if self.is_whole {
            at.push((&self.first).into());
            // The branch has asked.
            let elements = tensor.elements(at).outside(Outside::Stated);
            return elements.vectors(mode, self.count);
        }
        let each = (0..self.count).map(|i| &self.first + i).collect();
        let layout = Layout::column_major(self.count)
            .expect("a number of elements")
            .to_static();
        let own = Expr::new(ExprNode::Indices(each, layout), Some(Ty::S32), self.at);
        at.push(own.clone());
        let elements = tensor.elements(at);
        if mode < tensor.layout().rank() && extent_of(tensor, mode) == self.extent {
            return elements;
        }
        elements.only(own.lt(&self.extent))
    }
}

impl Builder {
    /// Executes `body` for the elements `first .. first + width` of a mode of the extent `extent`: as one vector where all of
    /// them exist, and else one by one, without those below 0 and beyond the end. `body` is called twice, once for each branch,
    /// and does the same in both: [`VectorRun::of`] says which elements of a tensor it takes. Each tensor has at least that
    /// extent along the mode.
    ///
    /// The width is 1, 2, 4, 8 or 16. The extent need not be a multiple of it. The pointer and the other strides must be, which
    /// the launch checks, and `first` must be one by the rules of [`Index`].
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::{Device, Load};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("add", Arch::Sm80, 128);
    /// let [x, y, z] = ["x", "y", "z"].map(|name| k.tensor(name, Ty::F32, "1000:_1"));
    /// let (thread, block) = (k.thread(), k.block_index(0));
    /// let first = (k.within(block, 0..1 << 20) * 128 + thread) * 4;
    /// k.for_vector(first, &x.extent(0), 4, |k, run| {
    ///     let [x, y] = [&x, &y].map(|tensor| k.gather(&run.of(tensor, ())));
    ///     k.scatter(&x + &y, &run.of(&z, ()));
    /// });
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&(0..1003).map(|i| i as f32).collect::<Vec<_>>())?;
    /// let mut z = device.poisoned::<f32>(1003)?;
    /// let views = (x.view(1003)?, x.view(1003)?, z.view_mut(1003)?);
    /// k.finish()?.load(&device)?.launch([1003_usize.div_ceil(512)], views)?;
    /// assert_eq!(z.download()?[1000..], [2000.0, 2002.0, 2004.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Elements::vectors`], and if there is no such width.
    #[track_caller]
    pub fn for_vector(
        &mut self,
        first: impl Into<Index>,
        extent: &Index,
        width: i64,
        body: impl FnMut(&mut Self, &VectorRun),
    ) {
        let (first, at) = (first.into(), Location::caller());
        if !matches!(width, 1 | 2 | 4 | 8 | 16) {
            let why = format!("vectors of {width}: 1, 2, 4, 8 or 16 elements");
            return self.run(at, |_| Err(ErrorKind::operands("for_vector", why)));
        }
        let run = |is_whole: bool| VectorRun {
            first: first.clone(),
            extent: extent.clone(),
            count: width,
            is_whole,
            at,
        };
        let (whole, rest) = (run(true), run(false));
        let fits = self.less(&(&first + (width - 1)), extent);
        let begins = self.less(&Index::constant(-1), &first);
        let fits = self.both(begins, fits);
        let body = RefCell::new(body);
        self.if_else(
            fits,
            |k| body.borrow_mut()(k, &whole),
            |k| {
                let some = k.site(at, |k| k.less(&first, extent));
                k.if_else_at(at, some, |k| body.borrow_mut()(k, &rest), |_| ());
            },
        );
    }
}
