//! Numbers and tables as text.

use core::fmt;

use super::dump::columns;
use colex_atom::{Class, FloatFormat, Ty};
use colex_ir::{RegType, Type};

/// Rows of words under a title.
///
/// ```
/// let rows = [["lane", "x"], ["0", "1.5"], ["1", "-2"]];
/// let rows = rows.map(|row| row.map(String::from).to_vec()).to_vec();
/// let table = colex_sim::Table { title: "x".to_string(), rows };
/// assert_eq!(table.to_string(), "x\nlane  x\n0     1.5\n1     -2\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The rows, of which the first may be a header.
    pub rows: Vec<Vec<String>>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        columns(f, &self.rows)
    }
}

/// `%.{digits}g` of C: that many significant digits without zeros at the end, in the shorter of two forms. A NaN has no
/// sign.
pub(crate) fn general(x: f64, digits: u32) -> String {
    if x.is_nan() {
        return "nan".to_string();
    }
    if x.is_infinite() {
        return if x < 0.0 { "-inf" } else { "inf" }.to_string();
    }
    let digits = digits.max(1) as usize;
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        None => text.to_string(),
    };
    if (-4..digits as i32).contains(&exponent) {
        let places = (digits as i32 - 1 - exponent) as usize;
        return trimmed(&format!("{x:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// The bits of an element as a number.
pub(crate) fn element(ty: Ty, bits: u64) -> String {
    match ty.class() {
        Class::Float(format) => general(format.decode(bits), digits(format)),
        Class::Integer { signed } => integer(bits, ty.bits(), signed),
        Class::Complex { .. } => format!("{bits:#x}"),
    }
}

/// The bits of a register as the instruction reads them, or else by its class.
pub(crate) fn typed(ty: Option<Type>, class: RegType, bits: u64) -> String {
    let ty = ty.unwrap_or_else(|| Type::untyped(class));
    let half = |format: FloatFormat, at: u32| {
        general(format.decode(bits >> at & low(format)), digits(format))
    };
    match (ty.float(), ty.float_pair()) {
        (Some(float), _) => half(float.format(), 0),
        (_, Some(pair)) => {
            let format = pair.format();
            format!("({},{})", half(format, 0), half(format, pair.half_bits()))
        }
        (None, None) if ty == Type::Pred => (bits & 1).to_string(),
        (None, None) if ty.is_signed() => integer(bits, ty.bits(), true),
        (None, None) if [Type::U8, Type::U16, Type::U32, Type::U64].contains(&ty) => {
            integer(bits, ty.bits(), false)
        }
        (None, None) if class == RegType::F32 => half(FloatFormat::F32, 0),
        (None, None) if class == RegType::F64 => half(FloatFormat::F64, 0),
        (None, None) => format!("{bits:#x}"),
    }
}

/// The bits of a number of a format.
fn width(format: FloatFormat) -> u32 {
    1 + format.exponent_bits + format.fraction_bits + format.unused_bits
}

fn low(format: FloatFormat) -> u64 {
    u64::MAX >> (64 - width(format).clamp(1, 64))
}

/// The digits that tell the numbers of a format apart.
fn digits(format: FloatFormat) -> u32 {
    match width(format) {
        64 => 17,
        32 if format != FloatFormat::TF32 => 9,
        _ => 5,
    }
}

fn integer(bits: u64, width: u32, signed: bool) -> String {
    let unused = 64 - width.clamp(1, 64);
    if signed {
        ((bits << unused) as i64 >> unused).to_string()
    } else {
        (bits << unused >> unused).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    /// What `printf` of C writes for these.
    #[test]
    fn floats_are_written_as_c_does() {
        for (x, digits, text) in [
            (0.0, 9, "0"),
            (-0.0, 9, "-0"),
            (1.5, 9, "1.5"),
            (0.1f32.into(), 9, "0.100000001"),
            (0.1, 17, "0.10000000000000001"),
            (0.0001220703125, 9, "0.000122070312"),
            (0.00001, 9, "1e-05"),
            (0.0001, 9, "0.0001"),
            (123456789.0, 9, "123456789"),
            (1234567890.0, 9, "1.23456789e+09"),
            (16777216.0, 5, "1.6777e+07"),
            (99999.5, 5, "1e+05"),
            (448.0, 3, "448"),
            (57344.0, 2, "5.7e+04"),
            (f64::MAX, 17, "1.7976931348623157e+308"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, 9, "-inf"),
            (f64::NAN, 9, "nan"),
        ] {
            assert_eq!(general(x, digits), text);
        }
    }
}
