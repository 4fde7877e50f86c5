//! Conversions.

use super::names::Lines;
use crate::{Op, Rounding, Type};

impl Lines<'_> {
    /// Writes a conversion; false if it is of another kind.
    pub(super) fn convert(&mut self, op: &Op) -> bool {
        match op {
            Op::Cvt {
                to,
                from,
                rounding,
                saturate,
                d,
                a,
            } => {
                let a = self.operand(*a, *from);
                self.push(format!(
                    "{} {d}, {a};",
                    cvt(*to, *from, *rounding, *saturate)
                ));
            }
            Op::CvtPack {
                to,
                from,
                relu,
                d,
                hi,
                lo,
            } => {
                let [hi, lo] = [hi, lo].map(|operand| self.operand(*operand, *from));
                let finite = if is_fp8(*to) { ".satfinite" } else { "" };
                let relu = if *relu { ".relu" } else { "" };
                self.push(format!("cvt.rn{finite}{relu}.{to}.{from} {d}, {hi}, {lo};"));
            }
            _ => return false,
        }
        true
    }
}

/// A pair of 8-bit floats: conversions into it always saturate.
pub(super) fn is_fp8(ty: Type) -> bool {
    matches!(ty, Type::E4m3x2 | Type::E5m2x2)
}

fn cvt(to: Type, from: Type, rounding: Option<Rounding>, saturate: bool) -> String {
    let rounding = rounding.map_or(String::new(), |rounding| format!(".{}", rounding.ptx()));
    let saturate = match saturate {
        true => ".sat",
        false if is_fp8(to) => ".satfinite",
        false => "",
    };
    format!("cvt{rounding}{saturate}.{to}.{from}")
}
