//! Arithmetic of integer tuples.

use crate::golden::case::Case;
use crate::golden::value::{Tree, Value};

/// Mode by mode the least multiple of the divisor that is not below the dividend.
pub(crate) fn round_up(case: &Case, result: &Value) -> Result<(), String> {
    let argument = |i: usize| {
        Tree::parse(&case.text(i)?)
            .ok_or_else(|| format!("argument {i} is not a tuple of integers"))
    };
    let Value::Tree(result) = result else {
        return Err(format!("{result} is not a tuple of integers"));
    };
    rounded(&argument(0)?, &argument(1)?, result)
}

fn rounded(dividend: &Tree, divisor: &Tree, result: &Tree) -> Result<(), String> {
    match (dividend, result) {
        (Tree::Int(a), Tree::Int(r)) => {
            let (step, r) = (divisor.size(), *r);
            let is_least = r % step == 0 && r >= *a && r - step < *a;
            if is_least {
                Ok(())
            } else {
                Err(format!(
                    "{r} is not the least multiple of {step} from {a} on"
                ))
            }
        }
        (Tree::Tuple(a), Tree::Tuple(r))
            if a.len() == r.len() && divisor.modes().len() <= a.len() =>
        {
            let one = Tree::Int(1);
            let divisors = divisor.modes().iter().chain(std::iter::repeat(&one));
            a.iter()
                .zip(divisors)
                .zip(r)
                .try_for_each(|((a, b), r)| rounded(a, b, r))
        }
        _ => Err(format!("{result} has not the modes of {dividend}")),
    }
}

/// The sum of the products of leaves in the same places.
pub(crate) fn inner_product(case: &Case, result: &Value) -> Result<(), String> {
    let leaves = |i: usize| {
        let text = case.text(i)?;
        let tree =
            Tree::parse(&text).ok_or_else(|| format!("argument {i}, `{text}`, is not a tuple"))?;
        Ok::<_, String>(tree.leaves())
    };
    let (a, b) = (leaves(0)?, leaves(1)?);
    if a.len() != b.len() {
        return Err(format!("{} numbers meet {}", a.len(), b.len()));
    }
    let sum: i64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    match result {
        Value::Tree(Tree::Int(found)) if *found == sum => Ok(()),
        other => Err(format!("it is {other}, not {sum}")),
    }
}
