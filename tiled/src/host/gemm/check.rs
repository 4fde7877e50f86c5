//! What a product refuses: numbers that an operand's type does not hold.

use core::ops::Deref;

use colex_atom::{Class, Ty, Value};
use colex_layout::IntTuple;

use crate::Error;
use crate::mma::Operand;
use crate::tensor::Tensor;

/// Refuses an operand with a number that its type does not hold, but for rounding: what is beyond an integer's range, a
/// NaN where there are integers, and a complex number where there are real ones.
pub(crate) fn check_values<D>(operand: Operand, tensor: &Tensor<D>, ty: Ty) -> Result<(), Error>
where
    D: Deref<Target = [Value]>,
{
    let elements = tensor.elements()?;
    let Some(index) = elements.iter().position(|value| !holds(ty, **value)) else {
        return Ok(());
    };
    let shape = tensor.layout().shape().product_each()?;
    let coord: IntTuple = shape.coord(index as i64)?;
    refuse(format!(
        "{coord} of {} is {:?}, which is no {ty}",
        operand.name(),
        elements[index]
    ))
}

fn holds(ty: Ty, value: Value) -> bool {
    match (ty.class(), value) {
        (Class::Complex { .. }, _) => true,
        (_, Value::Complex(_)) => false,
        (Class::Float(_), _) => true,
        (Class::Integer { .. }, Value::Real(x)) if x.is_nan() => false,
        (Class::Integer { signed }, value) => {
            let bits = ty.bits() - u32::from(signed);
            let end = 1_i128 << bits;
            let least = if signed { -end } else { 0 };
            let integer = match value {
                Value::Large(x) => i128::from(x),
                other => i128::from(other.int()),
            };
            (least..end).contains(&integer)
        }
    }
}

pub(crate) fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::assumption("gemm", why))
}
