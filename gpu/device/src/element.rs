//! The types of which a buffer may hold elements.

use half::{bf16, f16};

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A number in device memory: every bit pattern is a value, and there is no padding.
///
/// Implemented for `f64`, `f32`, [`f16`](struct@f16), [`bf16`] and the integers of 8 to 64 bits; 8-bit floats travel as `u8`.
pub trait Element:
    Copy + PartialEq + Send + Sync + core::fmt::Debug + 'static + sealed::Sealed
{
    /// The bytes of one element.
    const BYTES: usize;

    /// The type's name in Rust.
    const NAME: &'static str;

    /// Zero.
    const ZERO: Self;

    /// Returns the bytes of the elements, little-endian.
    fn to_bytes(elements: &[Self]) -> Vec<u8>;

    /// Returns the elements of these bytes, and ignores a rest of less than one element.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! elements {
    ($($ty:ident = $zero:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
            const BYTES: usize = size_of::<$ty>();
            const NAME: &'static str = stringify!($ty);
            const ZERO: $ty = $zero;

            fn to_bytes(elements: &[$ty]) -> Vec<u8> {
                elements.iter().flat_map(|element| element.to_le_bytes()).collect()
            }

            fn from_bytes(bytes: &[u8]) -> Vec<$ty> {
                let whole = bytes.chunks_exact(size_of::<$ty>());
                whole.map(|one| $ty::from_le_bytes(one.try_into().expect("a chunk has the bytes of one element"))).collect()
            }
        }
    )*};
}

elements! {
    f64 = 0.0;
    f32 = 0.0;
    f16 = f16::ZERO;
    bf16 = bf16::ZERO;
    i64 = 0;
    u64 = 0;
    i32 = 0;
    u32 = 0;
    i16 = 0;
    u16 = 0;
    i8 = 0;
    u8 = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back_for_every_type() {
        fn check<T: Element>(values: &[T]) {
            let bytes = T::to_bytes(values);
            assert_eq!(bytes.len(), values.len() * T::BYTES, "{}", T::NAME);
            assert_eq!(T::from_bytes(&bytes), values, "{}", T::NAME);
            assert!(T::to_bytes(&[T::ZERO]).iter().all(|&byte| byte == 0));
        }
        check(&[1.5f64, -0.0, f64::MAX]);
        check(&[1.5f32, -2.0]);
        check(&[f16::from_f32(1.5), f16::MIN]);
        check(&[bf16::from_f32(1.5), bf16::MAX]);
        check(&[i64::MIN, 7]);
        check(&[u64::MAX, 7]);
        check(&[i32::MIN, 7]);
        check(&[u32::MAX, 7]);
        check(&[i16::MIN, 7]);
        check(&[u16::MAX, 7]);
        check(&[i8::MIN, 7]);
        check(&[u8::MAX, 7]);
    }

    #[test]
    fn half_an_element_is_left_out() {
        assert_eq!(u32::from_bytes(&[1, 0, 0, 0, 9, 9]), [1]);
    }
}
