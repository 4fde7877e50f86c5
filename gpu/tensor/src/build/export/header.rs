//! An exported kernel as a C header.

use std::fmt::Write as _;

use super::{DriverNumber, Exported, ExportedIm2col, ExportedMap, ExportedParameter, Role};

impl Exported {
    /// Returns the kernel as a header for C11 and C++11, which needs nothing but the standard headers.
    ///
    /// It has macros with the entry, the block, the cluster and the shared memory, a structure with the arguments at
    /// their offsets, the numbers of each tensor map, and the PTX as a string.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("scale", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "(512,_64):(_1,520)");
    /// let header = k.finish()?.export()?.c_header();
    /// assert!(header.contains("#define SCALE_BLOCK {32, 1, 1}"));
    /// assert!(header.contains("    uint32_t a_extent_0; /* offset 8: extent of leaf 0 of a, 1 to "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn c_header(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string");
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        let name = &self.entry;
        let upper = name.to_uppercase();
        let three = |[x, y, z]: [u32; 3]| format!("{{{x}, {y}, {z}}}");
        writeln!(
            to,
            "/* The kernel {name} for {}, PTX {}. */",
            self.target, self.ptx_version
        )?;
        writeln!(to, "#ifndef COLEX_{upper}_H\n#define COLEX_{upper}_H\n")?;
        writeln!(to, "#include <stddef.h>\n#include <stdint.h>\n")?;
        writeln!(to, "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n")?;
        writeln!(to, "#define {upper}_ENTRY \"{name}\"")?;
        writeln!(to, "#define {upper}_TARGET \"{}\"", self.target)?;
        writeln!(
            to,
            "/* The least cuDriverGetVersion. */\n#define {upper}_DRIVER {}",
            self.driver
        )?;
        writeln!(to, "#define {upper}_BLOCK {}", three(self.block))?;
        writeln!(to, "#define {upper}_CLUSTER {}", three(self.cluster))?;
        writeln!(to, "#define {upper}_STATIC_SHARED {}", self.static_shared)?;
        writeln!(to, "#define {upper}_DYNAMIC_SHARED {}", self.dynamic_shared)?;
        writeln!(
            to,
            "#define {upper}_ARGUMENT_BYTES {}\n",
            self.argument_bytes
        )?;
        let fields = self.fields();
        self.arguments(name, &fields, to)?;
        for (parameter, field) in self.parameters.iter().zip(&fields) {
            let prefix = || format!("{upper}_{}", field.to_uppercase());
            match &parameter.role {
                Role::TensorMap(map) => numbers(&prefix(), map, to)?,
                Role::Im2colMap(map) => numbers_of_im2col(&prefix(), map, to)?,
                Role::Pointer { .. }
                | Role::Extent { .. }
                | Role::Stride { .. }
                | Role::Number { .. } => {}
            }
        }
        writeln!(to, "static const char {name}_ptx[] =")?;
        for line in self.ptx.lines() {
            let line = line.replace('\\', "\\\\").replace('"', "\\\"");
            writeln!(to, "    \"{line}\\n\"")?;
        }
        writeln!(to, "    ;\n\n#ifdef __cplusplus\n}}\n#endif\n\n#endif")
    }

    /// Returns the names of the fields: those of the parameters, followed by `_` where a name is a keyword or differs from
    /// an earlier one in capitals only, as the macros of two tensor maps would not.
    fn fields(&self) -> Vec<String> {
        let mut fields: Vec<String> = Vec::new();
        for parameter in &self.parameters {
            let mut field = parameter.name.clone();
            while KEYWORDS.contains(&&field[..])
                || fields
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&field))
            {
                field.push('_');
            }
            fields.push(field);
        }
        fields
    }

    /// The structure of the arguments, and the checks of its offsets.
    fn arguments(&self, name: &str, fields: &[String], to: &mut String) -> std::fmt::Result {
        if self.parameters.is_empty() {
            return Ok(());
        }
        writeln!(to, "struct {name}_arguments {{")?;
        for (parameter, field) in self.parameters.iter().zip(fields) {
            let declared = match &parameter.role {
                Role::TensorMap(_) | Role::Im2colMap(_) => {
                    let align =
                        "#ifdef __cplusplus\n    alignas(64)\n#else\n    _Alignas(64)\n#endif\n";
                    format!("{align}    unsigned char {field}[128];")
                }
                _ => format!("    {} {field};", c_type(parameter)),
            };
            writeln!(
                to,
                "{declared} /* offset {}: {} */",
                parameter.offset,
                said(&parameter.role)
            )?;
        }
        writeln!(
            to,
            "}};\n\n#ifdef __cplusplus\n#define COLEX_ASSERT static_assert\n#else"
        )?;
        writeln!(to, "#define COLEX_ASSERT _Static_assert\n#endif")?;
        for (parameter, field) in self.parameters.iter().zip(fields) {
            let offset = parameter.offset;
            writeln!(
                to,
                "COLEX_ASSERT(offsetof(struct {name}_arguments, {field}) == {offset}, \"{field}\");"
            )?;
        }
        writeln!(to, "#undef COLEX_ASSERT\n")
    }
}

/// The macros of a tensor map, and how to compute what depends on the tensor.
fn numbers(prefix: &str, map: &ExportedMap, to: &mut String) -> std::fmt::Result {
    let list = |numbers: &[i64]| {
        let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
        format!("{{{}}}", numbers.join(", "))
    };
    writeln!(
        to,
        "/* cuTensorMapEncodeTiled for a tensor as {}, dimensions from the innermost:",
        map.layout
    )?;
    for (at, dimension) in map.dimensions.iter().enumerate() {
        let (extent, stride) = match dimension.leaf {
            Some(leaf) => (
                format!("the extent of leaf {leaf}"),
                format!("its stride times {}", map.element_bytes),
            ),
            None => (
                dimension.extent.to_string(),
                dimension.stride_bytes.to_string(),
            ),
        };
        let stride = if at == 0 {
            String::new()
        } else {
            format!(", globalStrides[{}] = {stride}", at - 1)
        };
        writeln!(to, "   globalDim[{at}] = {extent}{stride}")?;
    }
    writeln!(to, "*/\n#define {prefix}_RANK {}", map.dimensions.len())?;
    writeln!(to, "#define {prefix}_BOX {}", list(&map.extents))?;
    writeln!(
        to,
        "#define {prefix}_ELEMENT_STRIDES {}",
        list(&map.element_strides)
    )?;
    driver_numbers(
        prefix,
        [
            ("ELEMENT", map.element),
            ("INTERLEAVE", map.interleave),
            ("SWIZZLE", map.swizzle),
            ("L2", map.l2),
            ("FILL", map.fill),
        ],
        to,
    )
}

/// The same for activations under a filter.
fn numbers_of_im2col(prefix: &str, map: &ExportedIm2col, to: &mut String) -> std::fmt::Result {
    let taps: Vec<String> = map.taps.iter().map(i64::to_string).collect();
    writeln!(
        to,
        "/* cuTensorMapEncodeIm2col, dimensions channels, W (H, D) and images. Along each spatial dimension\n   \
         pixelBoxLowerCorner = -padding before, pixelBoxUpperCorner = padding behind - (taps - 1) * dilation,\n   \
         elementStrides = stride of the filter. */"
    )?;
    writeln!(to, "#define {prefix}_TAPS {{{}}}", taps.join(", "))?;
    writeln!(to, "#define {prefix}_CHANNELS {}", map.channels)?;
    writeln!(to, "#define {prefix}_PIXELS {}", map.pixels)?;
    driver_numbers(
        prefix,
        [
            ("ELEMENT", map.element),
            ("INTERLEAVE", map.interleave),
            ("SWIZZLE", map.swizzle),
            ("L2", map.l2),
            ("FILL", map.fill),
        ],
        to,
    )
}

/// The numbers of `cuda.h` with their names there.
fn driver_numbers(
    prefix: &str,
    numbers: [(&str, DriverNumber); 5],
    to: &mut String,
) -> std::fmt::Result {
    for (what, number) in numbers {
        writeln!(
            to,
            "#define {prefix}_{what} {} /* {} */",
            number.code, number.name
        )?;
    }
    writeln!(to)
}

fn c_type(parameter: &ExportedParameter) -> &'static str {
    match (&parameter.ty[..], parameter.bytes) {
        ("f32", _) => "float",
        ("f64", _) => "double",
        ("s32", _) => "int32_t",
        ("s64", _) => "int64_t",
        (_, 2) => "uint16_t",
        (_, 4) => "uint32_t",
        _ => "uint64_t",
    }
}

fn said(role: &Role) -> String {
    match role {
        Role::Pointer {
            element,
            layout,
            multiple_of,
            written,
        } => format!(
            "address of {element} {layout}, a multiple of {multiple_of}{}",
            if *written { ", written" } else { "" }
        ),
        Role::Extent {
            tensor,
            leaf,
            multiple_of,
            least,
            most,
        } => format!(
            "extent of leaf {leaf} of {tensor}, {least} to {most}, a multiple of {multiple_of}"
        ),
        Role::Stride {
            tensor,
            leaf,
            multiple_of,
        } => format!("stride of leaf {leaf} of {tensor} in elements, a multiple of {multiple_of}"),
        Role::Number {
            least: Some(least),
            most: Some(most),
        } => format!("{least} to {most}"),
        Role::Number { .. } => "any number".to_string(),
        Role::TensorMap(map) => format!("tensor map of {}", map.layout),
        Role::Im2colMap(map) => format!(
            "im2col tensor map of activations under a filter of {:?} taps",
            map.taps
        ),
    }
}

/// The words that C11 or C++20 reserve and that a PTX name can be.
#[rustfmt::skip] // A list to read, not a column.
const KEYWORDS: [&str; 106] = [
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const",
    "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "return", "short",
    "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "offsetof", "NULL", "_Alignas",
    "_Alignof", "_Atomic", "_Bool", "_Complex", "_Generic", "_Imaginary", "_Noreturn", "_Static_assert", "_Thread_local",
];
