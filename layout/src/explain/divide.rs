//! Divide and product: a complement, a composition, and two modes side by side.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{Explanation, Step};
use crate::algebra::divide::unit_layout;
use crate::{Error, IntoTiler, Layout, Tiler};

/// An operation by a tiler that works mode by mode.
type Explain = fn(&Layout, &Tiler) -> Explanation;

impl Layout {
    /// Returns how [`Layout::logical_divide`] comes to its result, or where it is refused.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "24:2".parse()?;
    /// assert_eq!(
    ///     a.explain_logical_divide(4).to_string(),
    ///     "\
    /// A / T with A = 24:2 and T = 4
    ///   A / T = A o (T, complement of T in 24), the shape of A coalesced
    ///   complement of 4:_1 in 24, from the least stride to the largest
    ///     before 4:_1  1/1 = 1 times the 1 offset below    -> 1:1  then 4*1 = 4 are covered
    ///     up to 24     24/4 = 6 times the 4 offsets below  -> 6:4
    ///     = 6:4
    ///   A o B with A = 24:2 and B = (4,6):(_1,4)
    ///     mode <0> of B, 4:_1
    ///       at 24:2  4 steps of 1  the last mode takes them  -> 4:1*2 = 4:2
    ///     mode <1> of B, 6:4
    ///       at 24:2  6 steps of 4  the last mode takes them  -> 6:4*2 = 6:8
    ///     = (4,6):(2,8)
    ///   = (4,6):(2,8)
    /// ",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_logical_divide(&self, tiler: impl IntoTiler) -> Explanation {
        match tiler.into_tiler() {
            Ok(tiler) => self.explain_divide(&tiler),
            Err(e) => Explanation::refused(format!("A / T with A = {self}"), e),
        }
    }

    fn explain_divide(&self, tiler: &Tiler) -> Explanation {
        let title = format!("A / T with A = {self} and T = {tiler}");
        let result = self.logical_divide(tiler);
        let steps = match tiler {
            Tiler::All => Vec::from([formula("_ keeps the mode")]),
            Tiler::Modes(modes) => self.explain_modes(modes, Self::explain_divide),
            Tiler::Int(n) => by_layout(unit_layout(*n), |t| self.divide_steps(t)),
            Tiler::Layout(t) => self.divide_steps(t),
        };
        Explanation::new(title, steps, result)
    }

    /// Returns how [`Layout::logical_product`] comes to its result, or where it is refused.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let block: Layout = "(2,2):(4,1)".parse()?;
    /// let explanation = block.explain_logical_product(6);
    /// assert_eq!(explanation.result, block.logical_product(6));
    /// let formula = "A x T = (A, P o T), P the complement of A in 4*6, the size of A times the cosize of T";
    /// assert_eq!(explanation.to_string().lines().nth(1), Some(format!("  {formula}").as_str()));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_logical_product(&self, tiler: impl IntoTiler) -> Explanation {
        match tiler.into_tiler() {
            Ok(tiler) => self.explain_product(&tiler),
            Err(e) => Explanation::refused(format!("A x T with A = {self}"), e),
        }
    }

    fn explain_product(&self, tiler: &Tiler) -> Explanation {
        let title = format!("A x T with A = {self} and T = {tiler}");
        let result = self.logical_product(tiler);
        let steps = match tiler {
            Tiler::All => Vec::from([formula("_ keeps the mode")]),
            Tiler::Modes(modes) => self.explain_modes(modes, Self::explain_product),
            Tiler::Int(n) => by_layout(unit_layout(*n), |t| self.product_steps(t)),
            Tiler::Layout(t) => self.product_steps(t),
        };
        Explanation::new(title, steps, result)
    }

    fn divide_steps(&self, tile: &Self) -> Vec<Step> {
        let target = self.coalesced().shape();
        let rest = tile.explain_complement(&target);
        let mut steps = Vec::from([formula(format!(
            "A / T = A o (T, complement of T in {target}), the shape of A coalesced"
        ))]);
        let inner = rest.result.clone();
        steps.push(Step::within(rest));
        if let Ok(inner) = inner.and_then(|rest| Self::concat([tile, &rest])) {
            steps.push(Step::within(self.explain_composition(&inner)));
        }
        steps
    }

    fn product_steps(&self, tiler: &Self) -> Vec<Step> {
        let Ok(count) = tiler.cosize_int() else {
            return Vec::new();
        };
        let (n, m) = (self.size(), count.value());
        let mut steps = Vec::from([formula(format!(
            "A x T = (A, P o T), P the complement of A in {n}*{m}, the size of A times the cosize of T"
        ))]);
        let Ok(target) = self.size_int().times(count) else {
            return steps;
        };
        let mut places = self.explain_complement(target);
        if let Ok((wider, found)) = self.places(tiler)
            && wider != target
        {
            let few = places.result.as_ref().map_or(0, Self::size);
            steps.push(Step::within(places));
            steps.push(formula(format!(
                "{few} places are too few for {m}: P is the complement in {wider:#}, the cosize of A times that of T, \
                 with {} places",
                found.size(),
            )));
            places = self.explain_complement(wider);
        }
        let outer = places.result.clone();
        steps.push(Step::within(places));
        if let Ok(outer) = outer {
            steps.push(Step::within(outer.explain_composition(tiler)));
        }
        steps
    }

    /// The explanation of each mode that has a tiler.
    fn explain_modes(&self, tilers: &[Tiler], explain: Explain) -> Vec<Step> {
        let parts = self.modes().zip(tilers);
        parts
            .map(|(mode, tiler)| Step::within(explain(&mode, tiler)))
            .collect()
    }
}

fn formula(text: impl Into<Box<str>>) -> Step {
    Step::Formula(text.into())
}

fn by_layout(tile: Result<Layout, Error>, steps: impl Fn(&Layout) -> Vec<Step>) -> Vec<Step> {
    tile.map(|t| steps(&t)).unwrap_or_default()
}
