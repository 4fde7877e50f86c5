//! The text of one instruction.

use core::fmt::Write as _;

use crate::Error;
use crate::mma::{Form, Major, MmaAtom, MmaOp, Rule};

/// The names of the registers that an instruction works on.
#[derive(Clone, Copy, Debug)]
pub struct MmaOperands<'a> {
    /// The registers of the result D; for `wgmma` they hold C as well.
    pub d: &'a [String],
    /// A: its registers, or the one with its descriptor.
    pub a: &'a [String],
    /// B: its registers, or the one with its descriptor.
    pub b: &'a [String],
    /// C; empty for `wgmma`.
    pub c: &'a [String],
    /// The register with the metadata of a sparse A; else empty.
    pub e: &'a [String],
    /// For `wgmma`: a predicate register, or `1` for `D = A B + D`, or `0` for `D = A B`.
    #[doc(alias = "ScaleOut")]
    pub scale_d: &'a str,
}

impl MmaAtom {
    /// Returns the instruction as PTX text, in lines that end in `;`.
    ///
    /// A complex operation is several instructions and a few registers of its own, in braces.
    ///
    /// ```
    /// use colex_atom::{MmaOperands, mma};
    ///
    /// let names = |prefix: &str, count: usize| (0..count).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>();
    /// let (d, a, b) = (names("f", 4), names("a", 4), names("b", 2));
    /// let text = mma("SM80_16x8x16_F32F16F16F32_TN")?
    ///     .instruction(&MmaOperands { d: &d, a: &a, b: &b, c: &d, e: &[], scale_d: "1" })?;
    /// assert_eq!(
    ///     text,
    ///     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%f0, %f1, %f2, %f3};"
    /// );
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that is a layout only, or if the number of registers is not the operation's.
    pub fn instruction(&self, operands: &MmaOperands<'_>) -> Result<String, Error> {
        let op = self.op()?;
        self.check_counts(op, operands)?;
        Ok(match (op.form, self.rule()) {
            (
                Form::Async {
                    transposable,
                    negatable,
                },
                _,
            ) => self.async_text(op, operands, transposable, negatable),
            (_, Rule::PlanarComplex) => planar_complex(op, operands),
            (_, Rule::GaussComplex) => gauss_complex(op, operands),
            (Form::Scalar, _) => {
                let MmaOperands { d, a, b, c, .. } = operands;
                format!("{} {}, {}, {}, {};", op.ptx, d[0], a[0], b[0], c[0])
            }
            _ => sync_text(&op.ptx, operands.d, operands.a, operands.b, operands.c),
        })
    }

    fn check_counts(&self, op: &MmaOp, operands: &MmaOperands<'_>) -> Result<(), Error> {
        let c = if op.is_async() { 0 } else { op.c.count };
        let e = op.e.map_or(0, |e| e.count);
        let counts = [
            ('D', operands.d.len(), op.d.count),
            ('A', operands.a.len(), op.a.count),
            ('B', operands.b.len(), op.b.count),
            ('C', operands.c.len(), c),
            ('E', operands.e.len(), e),
        ];
        match counts
            .into_iter()
            .find(|(_, found, expected)| found != expected)
        {
            None => Ok(()),
            Some((operand, found, expected)) => {
                let [expected, found] = [expected, found].map(|count| format!("{count} registers"));
                Err(self.wrong_operand(operand, expected, found))
            }
        }
    }

    fn async_text(
        &self,
        op: &MmaOp,
        operands: &MmaOperands<'_>,
        transposable: bool,
        negatable: bool,
    ) -> String {
        let options = self.options();
        let in_registers = !self.a_in_shared();
        let a = if in_registers {
            braced(operands.a)
        } else {
            operands.a[0].clone()
        };
        let mut text = format!("{} {}, {a}, {}", op.ptx, braced(operands.d), operands.b[0]);
        if let Some(e) = operands.e.first() {
            text += &format!(", {e}, {}", options.metadata_threads);
        }
        text += &format!(", {}", operands.scale_d);
        if negatable {
            for negate in [options.negate_a, options.negate_b] {
                text += if negate { ", -1" } else { ", 1" };
            }
        }
        if transposable {
            let majors = [options.major_a, options.major_b];
            for major in &majors[usize::from(in_registers)..] {
                text += if *major == Major::MN { ", 1" } else { ", 0" };
            }
        }
        text + ";"
    }
}

fn sync_text(ptx: &str, d: &[String], a: &[String], b: &[String], c: &[String]) -> String {
    format!(
        "{ptx} {}, {}, {}, {};",
        braced(d),
        braced(a),
        braced(b),
        braced(c)
    )
}

fn braced(names: &[String]) -> String {
    format!("{{{}}}", names.join(", "))
}

/// Every `parts`-th name, from `part` on: the real or the imaginary parts.
fn part(names: &[String], part: usize, parts: usize) -> Vec<String> {
    names.iter().skip(part).step_by(parts).cloned().collect()
}

/// `re += re re`, `im += im re`, `re += -im im`, `im += re im` (`mma_sm80.hpp`).
fn planar_complex(op: &MmaOp, operands: &MmaOperands<'_>) -> String {
    let halves = |names: &[String]| (part(names, 0, 2), part(names, 1, 2));
    let ((d_re, d_im), (a_re, a_im)) = (halves(operands.d), halves(operands.a));
    let ((b_re, b_im), (c_re, c_im)) = (halves(operands.b), halves(operands.c));
    let minus: Vec<String> = (0..a_im.len()).map(|i| format!("%minus{i}")).collect();
    let mut text = format!("{{\n.reg .f64 %minus<{}>;\n", minus.len());
    for (minus, a) in minus.iter().zip(&a_im) {
        writeln!(text, "neg.f64 {minus}, {a};").expect("writing to a string");
    }
    let steps = [
        sync_text(&op.ptx, &d_re, &a_re, &b_re, &c_re),
        sync_text(&op.ptx, &d_im, &a_im, &b_re, &c_im),
        sync_text(&op.ptx, &d_re, &minus, &b_im, &d_re),
        sync_text(&op.ptx, &d_im, &a_re, &b_im, &d_im),
    ];
    text + &steps.join("\n") + "\n}"
}

/// `t0 += re re`, `t1 += im im`, `t2 += (re+im) (re+im)` (`mma_sm80.hpp`).
fn gauss_complex(op: &MmaOp, operands: &MmaOperands<'_>) -> String {
    let sums = |name: &str, count: usize| -> Vec<String> {
        (0..count).map(|i| format!("%{name}{i}")).collect()
    };
    let (a_sum, b_sum) = (
        sums("suma", operands.a.len() / 2),
        sums("sumb", operands.b.len() / 2),
    );
    let mut text = format!(
        "{{\n.reg .f64 %suma<{}>, %sumb<{}>;\n",
        a_sum.len(),
        b_sum.len()
    );
    for (sums, names) in [(&a_sum, operands.a), (&b_sum, operands.b)] {
        for (sum, pair) in sums.iter().zip(names.chunks(2)) {
            writeln!(text, "add.f64 {sum}, {}, {};", pair[0], pair[1])
                .expect("writing to a string");
        }
    }
    let steps = [
        (part(operands.a, 0, 2), part(operands.b, 0, 2)),
        (part(operands.a, 1, 2), part(operands.b, 1, 2)),
        (a_sum, b_sum),
    ];
    for (i, (a, b)) in steps.iter().enumerate() {
        let (d, c) = (part(operands.d, i, 3), part(operands.c, i, 3));
        text += &sync_text(&op.ptx, &d, a, b, &c);
        text.push('\n');
    }
    text + "}"
}
