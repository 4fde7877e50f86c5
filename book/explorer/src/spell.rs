//! A layout in other languages: Rust, CuTe C++, the CuTe DSL of Python.

use colex_layout::{
    ComposedLayout, Int, IntTuple, Layout, Leaf, Middle, Outer, Stride, Tiler, Tuple,
};

/// How a language writes a layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// CuTe C++: a static integer is a type.
    Cpp,
    /// The CuTe DSL: a Python number is static.
    Python,
}

/// Why a layout has no text in a language.
const XOR: &str = "an XOR stride has no form in CuTe; a composed layout with the swizzle has";
const POINTER: &str = "the swizzle permutes the address of a pointer: in CuTe it belongs to the tensor's engine, not to a layout";
const OUTER: &str = "the outer function is a layout: write it as a composition";

/// Returns the Rust that reads a layout.
pub(crate) fn rust(layout: &ComposedLayout) -> String {
    let (name, text) = (type_name(layout), layout.to_string());
    format!("let layout: {name} = \"{text}\".parse()?;")
}

fn type_name(layout: &ComposedLayout) -> &'static str {
    if layout.is_plain() {
        "Layout"
    } else {
        "ComposedLayout"
    }
}

/// Returns the expression that makes a layout, or why the language has none.
pub(crate) fn composed(
    language: Language,
    layout: &ComposedLayout,
) -> Result<String, &'static str> {
    let inner = plain(language, layout.inner())?;
    if layout.is_plain() {
        return Ok(inner);
    }
    let Outer::Swizzle(swizzle) = layout.outer() else {
        return Err(OUTER);
    };
    let Middle::Offset(offset) = layout.middle() else {
        return Err(POINTER);
    };
    let (b, m, s) = (swizzle.bits(), swizzle.base(), swizzle.shift());
    Ok(match language {
        Language::Cpp => {
            format!("make_composed_layout(Swizzle<{b},{m},{s}>{{}}, Int<{offset}>{{}}, {inner})")
        }
        Language::Python => {
            format!(
                "cute.make_composed_layout(cute.make_swizzle({b}, {m}, {s}), {offset}, {inner})"
            )
        }
    })
}

/// Returns the expression that makes a layout without a swizzle.
pub(crate) fn plain(language: Language, layout: &Layout) -> Result<String, &'static str> {
    let shape: IntTuple = layout.shape();
    let shape = tuple(language, "make_shape", &shape, &|n| Ok(int(language, *n)))?;
    let stride = tuple(language, "make_stride", &layout.stride(), &|d| {
        stride_text(language, d)
    })?;
    Ok(match language {
        Language::Cpp => format!("make_layout({shape}, {stride})"),
        Language::Python => format!("cute.make_layout({shape}, stride={stride})"),
    })
}

/// Returns the expression in C++ that makes a shape.
pub(crate) fn cpp_shape(shape: &IntTuple) -> String {
    let made = tuple(Language::Cpp, "make_shape", shape, &|n| {
        Ok(int(Language::Cpp, *n))
    });
    made.expect("every integer has a form")
}

/// Returns the expression in C++ that makes a tiler, or why there is none.
pub(crate) fn cpp_tiler(tiler: &Tiler) -> Result<String, &'static str> {
    Ok(match tiler {
        Tiler::All => "_".to_string(),
        Tiler::Int(n) => int(Language::Cpp, *n),
        Tiler::Layout(layout) => plain(Language::Cpp, layout)?,
        Tiler::Modes(modes) => {
            let modes: Result<Vec<String>, _> = modes.iter().map(cpp_tiler).collect();
            format!("make_tile({})", modes?.join(", "))
        }
    })
}

fn tuple<T: Leaf>(
    language: Language,
    make: &str,
    of: &Tuple<T>,
    leaf: &dyn Fn(&T) -> Result<String, &'static str>,
) -> Result<String, &'static str> {
    if let Some(value) = of.as_leaf() {
        return leaf(&value);
    }
    let modes: Result<Vec<String>, _> = of
        .modes()
        .map(|mode| tuple(language, make, &mode, leaf))
        .collect();
    let modes = modes?;
    Ok(match language {
        Language::Cpp => format!("{make}({})", modes.join(", ")),
        Language::Python if modes.len() == 1 => format!("({},)", modes[0]),
        Language::Python => format!("({})", modes.join(", ")),
    })
}

fn int(language: Language, n: Int) -> String {
    match (language, n) {
        (Language::Cpp, Int::Static(n)) => format!("Int<{n}>{{}}"),
        (_, n) => n.value().to_string(),
    }
}

fn stride_text(language: Language, stride: &Stride) -> Result<String, &'static str> {
    match stride {
        Stride::Int(n) => Ok(int(language, *n)),
        Stride::Xor(_) => Err(XOR),
        Stride::Basis(basis) => {
            let path: Vec<String> = basis.path().map(|mode| mode.to_string()).collect();
            let path = path.join(",");
            let unit = match language {
                Language::Cpp => format!("E<{path}>{{}}"),
                Language::Python => format!("cute.E([{path}])"),
            };
            let n = stride.coefficient();
            Ok(if n.value() == 1 {
                unit
            } else {
                format!("{} * {unit}", int(language, n))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> [Result<String, &'static str>; 2] {
        let layout: ComposedLayout = text.parse().expect("a layout");
        [Language::Cpp, Language::Python].map(|language| composed(language, &layout))
    }

    #[test]
    fn layouts_are_spelt_in_three_languages() {
        assert_eq!(
            both("((_2,2),8):((_1,4),2)"),
            [
                Ok("make_layout(make_shape(make_shape(Int<2>{}, 2), 8), make_stride(make_stride(Int<1>{}, 4), 2))".into()),
                Ok("cute.make_layout(((2, 2), 8), stride=((1, 4), 2))".into()),
            ]
        );
        assert_eq!(
            both("8:2"),
            [
                Ok("make_layout(8, 2)".into()),
                Ok("cute.make_layout(8, stride=2)".into())
            ]
        );
        assert_eq!(
            both("Sw<3,3,3> o 0 o (8,64):(64,1)"),
            [
                Ok("make_composed_layout(Swizzle<3,3,3>{}, Int<0>{}, make_layout(make_shape(8, 64), make_stride(64, 1)))".into()),
                Ok("cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, cute.make_layout((8, 64), stride=(64, 1)))".into()),
            ]
        );
        assert_eq!(
            both("(4,8):(_1@0,2@1)"),
            [
                Ok("make_layout(make_shape(4, 8), make_stride(E<0>{}, 2 * E<1>{}))".into()),
                Ok("cute.make_layout((4, 8), stride=(cute.E([0]), 2 * cute.E([1])))".into()),
            ]
        );
        let layout: ComposedLayout = "(4,8):(8,1)".parse().expect("a layout");
        assert_eq!(
            rust(&layout),
            "let layout: Layout = \"(4,8):(8,1)\".parse()?;"
        );
    }

    #[test]
    fn what_has_no_form_says_why() {
        assert_eq!(both("(2,2):(^1,^3)"), [Err(XOR), Err(XOR)]);
        assert_eq!(
            both("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"),
            [Err(POINTER), Err(POINTER)]
        );
        assert_eq!(both("(2,2):(2,1) o 0 o 4:1"), [Err(OUTER), Err(OUTER)]);
    }
}
