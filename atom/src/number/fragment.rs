//! What one thread holds of an operand.

use super::{Ty, Value, low_mask};

/// The elements of one operand in one thread, packed into 32-bit words as the registers hold them:
/// element `v` begins at bit `v * bits`, lowest bits first; a 64-bit register is two words, low word first.
///
/// ```
/// use colex_atom::{Fragment, Ty, Value};
///
/// let mut a = Fragment::zeros(Ty::F16, 4);
/// a.set(1, Value::Real(1.0));
/// assert_eq!(a.words(), [0x3c00_0000, 0]);
/// assert_eq!(a.get(1), Value::Real(1.0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    ty: Ty,
    values: usize,
    words: Vec<u32>,
}

impl Fragment {
    /// Returns a fragment of `values` zeros.
    pub fn zeros(ty: Ty, values: usize) -> Self {
        Fragment {
            ty,
            values,
            words: vec![0; (values * ty.bits() as usize).div_ceil(32)],
        }
    }

    /// Returns the contents of registers. Words beyond the values are kept apart from them; missing words are zero.
    pub fn from_words(ty: Ty, values: usize, words: &[u32]) -> Self {
        let mut fragment = Fragment::zeros(ty, values);
        for (to, from) in fragment.words.iter_mut().zip(words) {
            *to = *from;
        }
        fragment
    }

    /// Returns the type of the elements.
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// Returns how many elements there are.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Returns the registers.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns element `v`.
    ///
    /// # Panics
    ///
    /// As a slice does, if there is no element `v`.
    pub fn get(&self, v: usize) -> Value {
        let bits = self.ty.bits() as usize;
        assert!(
            v < self.values,
            "a fragment of {} values has no value {v}",
            self.values
        );
        let mut words = [0; 3];
        for (i, word) in words.iter_mut().enumerate().take(bits.div_ceil(64)) {
            *word = self.bits(v * bits + i * 64, (bits - i * 64).min(64));
        }
        Value::decode(self.ty, &words)
    }

    /// Sets element `v`.
    ///
    /// # Panics
    ///
    /// As a slice does, if there is no element `v`.
    pub fn set(&mut self, v: usize, value: Value) {
        let bits = self.ty.bits() as usize;
        assert!(
            v < self.values,
            "a fragment of {} values has no value {v}",
            self.values
        );
        for (i, word) in value
            .encode(self.ty)
            .into_iter()
            .enumerate()
            .take(bits.div_ceil(64))
        {
            self.set_bits(v * bits + i * 64, (bits - i * 64).min(64), word);
        }
    }

    /// Up to 64 bits from bit `from`; elements never straddle a word unless they fill several.
    fn bits(&self, from: usize, count: usize) -> u64 {
        let low = u64::from(self.words[from / 32]) >> (from % 32);
        let high = if count > 32 {
            u64::from(self.words[from / 32 + 1]) << 32
        } else {
            0
        };
        (low | high) & low_mask(count as u32)
    }

    fn set_bits(&mut self, from: usize, count: usize, bits: u64) {
        if count > 32 {
            self.words[from / 32] = bits as u32;
            self.words[from / 32 + 1] = (bits >> 32) as u32;
            return;
        }
        let mask = (low_mask(count as u32) << (from % 32)) as u32;
        let word = &mut self.words[from / 32];
        *word = *word & !mask | (bits << (from % 32)) as u32 & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_hold_what_was_set() {
        let mut cases = 0;
        for ty in Ty::ALL.into_iter().filter(|ty| ty.bits() != 6) {
            let mut fragment = Fragment::zeros(ty, 16);
            assert!(
                !fragment.is_empty() && Fragment::zeros(ty, 0).is_empty(),
                "{ty}"
            );
            for v in 0..16 {
                fragment.set(v, Value::Int(v as i64 % 2));
            }
            for v in 0..16 {
                assert_eq!(fragment.get(v).int(), v as i64 % 2, "{ty} value {v}");
                cases += 1;
            }
        }
        println!("law fragment.set_get: {cases} cases");
    }

    #[test]
    fn a_nibble_leaves_its_neighbours_alone() {
        let mut fragment = Fragment::from_words(Ty::S4, 8, &[0xffff_ffff]);
        fragment.set(3, Value::Int(5));
        assert_eq!(fragment.words(), [0xffff_5fff]);
        assert_eq!(fragment.get(2), Value::Int(-1));
    }
}
