//! Complement and inverses, as steps.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{Explanation, Step};
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::{IntoIntTuple, Layout};

impl Layout {
    /// Returns how [`Layout::complement`] comes to its result, or where it is refused.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(2,2):(1,6)".parse()?;
    /// assert_eq!(
    ///     a.explain_complement(24).to_string(),
    ///     "\
    /// complement of (2,2):(1,6) in 24, from the least stride to the largest
    ///   before 2:1  1/1 = 1 times the 1 offset below      -> 1:1  then 2*1 = 2 are covered
    ///   before 2:6  6/2 = 3 times the 2 offsets below     -> 3:2  then 2*6 = 12 are covered
    ///   up to 24    24/12 = 2 times the 12 offsets below  -> 2:12
    ///   = (3,2):(2,12)
    /// ",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_complement(&self, target: impl IntoIntTuple) -> Explanation {
        let target = match target.into_int_tuple() {
            Ok(target) => target,
            Err(e) => return Explanation::refused(format!("complement of {self}"), e),
        };
        let mut steps = Vec::new();
        let filtered = self.filtered();
        if filtered != *self {
            steps.push(Step::Named {
                name: "without stride 0 and extent 1",
                layout: filtered,
            });
        }
        let result = self.complement_in(&target, &mut |gap| {
            let end = gap.mode.is_none();
            steps.push(Step::Gap {
                gap,
                target: end.then(|| Box::new(target.clone())),
            });
        });
        let title =
            format!("complement of {self} in {target}, from the least stride to the largest");
        Explanation::new(title, steps, result)
    }

    /// Returns how [`Layout::right_inverse`] comes to its result.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(4,8,2):(1,5,4)".parse()?;
    /// assert_eq!(
    ///     a.explain_right_inverse().to_string(),
    ///     "\
    /// right inverse of (4,8,2):(1,5,4), from the least stride to the largest
    ///   4:1 from index 1   stride 1 is wanted  -> 4:1   then 4*1 = 4 is wanted
    ///   2:4 from index 32  stride 4 is wanted  -> 2:32  then 2*4 = 8 is wanted
    ///   8:5 from index 4   stride 8 is wanted  -> left out
    ///   = (4,2):(1,32)
    /// ",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_right_inverse(&self) -> Explanation {
        let mut steps = self.simplified();
        let result = self.right_inverse_noting(&mut |pick| steps.push(Step::Right(pick)));
        let title = format!("right inverse of {self}, from the least stride to the largest");
        Explanation::new(title, steps, result)
    }

    /// Returns how [`Layout::left_inverse`] comes to its result, or where it is refused.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(4,2):(2,16)".parse()?;
    /// assert_eq!(
    ///     a.explain_left_inverse().to_string(),
    ///     "\
    /// left inverse of (4,2):(2,16), from the least stride to the largest
    ///   4:2 from index 1   2/1 = 2 offsets for each index step of 0   -> 2:0
    ///   2:16 from index 4  16/2 = 8 offsets for each index step of 1  -> 8:1
    ///                      its own 2 steps                            -> 2:4
    ///   = (2,8,2):(_0,_1,4)
    /// ",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_left_inverse(&self) -> Explanation {
        let mut steps = self.simplified();
        let mut below = 0;
        let result = self.left_inverse_noting(&mut |pick| {
            steps.push(Step::Left {
                pick,
                below,
                last: false,
            });
            below = pick.index;
        });
        if let (Ok(_), Some(Step::Left { last, .. })) = (&result, steps.last_mut()) {
            *last = true;
        }
        let title = format!("left inverse of {self}, from the least stride to the largest");
        Explanation::new(title, steps, result)
    }

    fn simplified(&self) -> Vec<Step> {
        let flat: Flat = coalesced(self.leaves(), Tail::Drop);
        if flat[..] == *self.leaves() {
            return Vec::new();
        }
        Vec::from([Step::Named {
            name: "coalesced",
            layout: layout_of(flat),
        }])
    }
}
