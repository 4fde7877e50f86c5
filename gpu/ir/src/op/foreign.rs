//! What reaches beyond the words of this crate: lines that a kernel prints, and text of PTX.

use std::fmt;
use std::sync::Arc;

use colex_atom::{Arch, PtxVersion};

use crate::needs::Needs;
use crate::operand::{Operand, Reg};
use crate::row::{Ptx, Row};
use crate::ty::Type;

/// A value in a printed line, after the text before it.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedValue {
    /// The text before the value.
    pub before: String,
    /// The type, of 32 or 64 bits: an integer, or `f64`.
    pub ty: Type,
    /// The number of significant digits of a float: `%.9g` in C.
    pub digits: u32,
    /// The value.
    pub a: Operand,
}

/// The types of printed values.
const PRINTED: &[Type] = &[Type::U32, Type::S32, Type::U64, Type::S64, Type::F64];

/// The most values of a line: `vprintf` takes no more.
const VALUES: usize = 32;

/// The row of a printed line.
pub(crate) fn print_row<'a>(values: &'a [PrintedValue], end: &'a str) -> Row<'a> {
    let form = match values.iter().find(|value| !PRINTED.contains(&value.ty)) {
        Some(_) => Err("values of u32, s32, u64, s64 and f64 are printed".to_string()),
        None if values.len() > VALUES => Err(format!("a line has at most {VALUES} values")),
        None if values
            .iter()
            .map(|value| &value.before[..])
            .chain([end])
            .any(|text| text.contains('\0')) =>
        {
            Err("a text ends at a NUL character".to_string())
        }
        None => Ok(()),
    };
    let row = Row::alone("print", Ptx::Print { values, end }, Needs::BASE, form);
    values
        .iter()
        .fold(row, |row, value| row.source("value", &value.a, value.ty))
}

/// What a host computes in the place of a text: from the bits of the inputs, the bits of the outputs.
type Host = Arc<dyn Fn(&[u64]) -> Vec<u64> + Send + Sync>;

/// PTX that [`KernelBuilder::ptx`](crate::KernelBuilder::ptx) puts into a kernel.
///
/// `%0`, `%1`, .. stand for the outputs and then the inputs, as in CUDA's `asm`, and `%%` for a percent sign. The text is
/// printed in braces, so registers and labels that it declares are its own.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::{KernelBuilder, PtxText, Special, Type};
///
/// let mut k = KernelBuilder::new("k", Arch::Sm80);
/// let text = PtxText::new("{ .reg .u32 t; mov.u32 t, %%lanemask_lt; and.b32 %0, t, %1; }");
/// let lane = k.mov(Type::U32, Special::LaneId);
/// let [below] = k.ptx(text, &[(Type::U32, lane.into())], &[Type::B32])[..] else { unreachable!() };
/// k.add(Type::U32, below, 1);
/// let printed = k.finish().ptx()?;
/// assert!(printed.contains("{ .reg .u32 t; mov.u32 t, %lanemask_lt; and.b32 %r1, t, %r0; }"));
/// # Ok::<(), colex_ir::verify::Refused>(())
/// ```
#[derive(Clone)]
pub struct PtxText {
    pub(crate) text: String,
    pub(crate) needs: Needs,
    host: Option<Host>,
}

impl PtxText {
    /// Returns a text that every architecture and version of PTX takes.
    pub fn new(text: impl Into<String>) -> PtxText {
        PtxText {
            text: text.into(),
            needs: Needs::BASE,
            host: None,
        }
    }

    /// Returns the text with the architecture and the version of PTX that it requires. The kernel's `.version` is at
    /// least that one.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::{KernelBuilder, PtxText};
    ///
    /// let mut k = KernelBuilder::new("k", Arch::Sm80);
    /// k.ptx(PtxText::new("griddepcontrol.wait;").needs(Arch::Sm90, (7, 8)), &[], &[]);
    /// assert!(k.finish().verify().unwrap_err().to_string().contains("`ptx` came with sm_90, and the kernel is for sm_80"));
    /// ```
    #[must_use]
    pub fn needs(self, arch: Arch, (major, minor): (u8, u8)) -> PtxText {
        let version = PtxVersion(major, minor);
        PtxText {
            needs: Needs::BASE.max(Needs { arch, version }),
            ..self
        }
    }

    /// Returns the text with a function that the simulator calls for each thread in its place: from the bits of the inputs
    /// to the bits of the outputs, one word for each. Without it the simulator reports a fault.
    #[must_use]
    pub fn on_host(self, host: impl Fn(&[u64]) -> Vec<u64> + Send + Sync + 'static) -> PtxText {
        PtxText {
            host: Some(Arc::new(host)),
            ..self
        }
    }

    /// Returns what the host computes in its place; `None` if only a GPU runs it.
    pub fn simulate(&self, inputs: &[u64]) -> Option<Vec<u64>> {
        self.host.as_ref().map(|host| host(inputs))
    }

    /// The pieces of the text, each with the number of the operand after it.
    pub(crate) fn pieces(&self) -> Result<Vec<(String, Option<usize>)>, String> {
        let mut pieces = Vec::new();
        let mut before = String::new();
        let mut rest = &self.text[..];
        while let Some((text, after)) = rest.split_once('%') {
            before += text;
            if let Some(after) = after.strip_prefix('%') {
                before.push('%');
                rest = after;
                continue;
            }
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let Ok(number) = after[..digits].parse() else {
                return Err(
                    "`%` is followed by the number of an operand or by another `%`".to_string(),
                );
            };
            pieces.push((std::mem::take(&mut before), Some(number)));
            rest = &after[digits..];
        }
        pieces.push((before + rest, None));
        Ok(pieces)
    }

    /// What is wrong with the text for `operands` operands.
    pub(crate) fn check(&self, operands: usize) -> Result<(), String> {
        let pieces = self.pieces()?;
        let mut unnamed: Vec<usize> = (0..operands).collect();
        for number in pieces.iter().filter_map(|(_, number)| *number) {
            if number >= operands {
                return Err(format!(
                    "`%{number}` is no operand: there are {operands}, counted from 0"
                ));
            }
            unnamed.retain(|other| *other != number);
        }
        if let Some(number) = unnamed.first() {
            return Err(format!("its text does not name operand `%{number}`"));
        }
        if self.text.contains('\0') {
            return Err("a text ends at a NUL character".to_string());
        }
        let mut depth = 0i64;
        for c in self.text.chars() {
            depth += i64::from(c == '{') - i64::from(c == '}');
            if depth < 0 {
                break;
            }
        }
        if depth != 0 {
            return Err("every brace of its text has its partner".to_string());
        }
        if !self.text.trim_end().ends_with([';', '}']) {
            return Err("an instruction ends with `;`".to_string());
        }
        Ok(())
    }
}

impl fmt::Debug for PtxText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PtxText")
            .field("text", &self.text)
            .field("needs", &self.needs)
            .field("on_host", &self.host.is_some())
            .finish()
    }
}

/// Two texts are equal if the host computes the same function in their place, not one that happens to agree.
impl PartialEq for PtxText {
    fn eq(&self, other: &PtxText) -> bool {
        let same = match (&self.host, &other.host) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same && self.text == other.text && self.needs == other.needs
    }
}

/// The row of a text of PTX.
pub(crate) fn text_row<'a>(
    text: &'a PtxText,
    d: &'a [(Type, Reg)],
    a: &'a [(Type, Operand)],
) -> Row<'a> {
    let mut row = Row::alone(
        "ptx",
        Ptx::Text { text, d, a },
        text.needs,
        text.check(d.len() + a.len()),
    );
    for (ty, d) in d {
        row = row.slot(
            "output",
            crate::Arg::Write(std::slice::from_ref(d)),
            Some(*ty),
        );
    }
    for (ty, a) in a {
        row = row.source("input", a, *ty);
    }
    row
}
