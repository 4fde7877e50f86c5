//! Formulas: LaTeX to MathML, which browsers draw without scripts or fonts of ours.

use pulldown_latex::config::{DisplayMode, RenderConfig};
use pulldown_latex::{Parser, Storage, push_mathml};

use crate::markdown::Formula;

/// The formula as a `<math>` element on one line, or what its LaTeX lacks.
pub(super) fn mathml(formula: &Formula) -> Result<String, String> {
    let storage = Storage::new();
    if let Some(error) = Parser::new(&formula.latex, &storage).find_map(Result::err) {
        return Err(format!(
            "the formula `{}` is not LaTeX: {}",
            formula.latex.trim(),
            first_line(&error.to_string())
        ));
    }
    let display_mode = if formula.is_display {
        DisplayMode::Block
    } else {
        DisplayMode::Inline
    };
    let config = RenderConfig {
        display_mode,
        ..RenderConfig::default()
    };
    let mut mathml = String::new();
    push_mathml(&mut mathml, Parser::new(&formula.latex, &storage), config)
        .map_err(|error| error.to_string())?;
    // Browsers draw the sign of `\overline` as a tick; the style sheet draws a line over what stands below it.
    let mathml = mathml.replace("<mi>‾</mi></mover>", "<mo class=\"bar\">‾</mo></mover>");
    // The formula stands in the text before the chapter is read, and a bar would end the cell of a table.
    Ok(mathml.replace('\n', " ").replace('|', "&#124;"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(latex: &str) -> Formula {
        Formula {
            line: 1,
            latex: latex.into(),
            is_display: false,
            range: 0..0,
        }
    }

    #[test]
    fn latex_becomes_one_math_element() {
        let text = mathml(&formula(r"R(c) = A(B(c))")).expect("the formula is well formed");
        assert!(
            text.starts_with("<math") && text.ends_with("</math>"),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }

    #[test]
    fn an_overline_is_drawn_by_the_style_sheet() {
        let text = mathml(&formula(r"\overline{T}")).expect("the formula is well formed");
        assert!(
            text.ends_with("<mo class=\"bar\">‾</mo></mover></math>"),
            "{text}"
        );
    }

    #[test]
    fn a_bar_does_not_end_the_cell_of_a_table() {
        let text = mathml(&formula(r"\lvert x \rvert")).expect("the formula is well formed");
        assert_eq!(text.matches("&#124;").count(), 2, "{text}");
        assert!(!text.contains('|'), "{text}");
    }

    #[test]
    fn a_broken_formula_is_named() {
        let error = mathml(&formula(r"\frac{1")).expect_err("the brace is not closed");
        assert!(
            error.starts_with(r"the formula `\frac{1` is not LaTeX: "),
            "{error}"
        );
    }
}
