//! An exported kernel as a C header.

use std::fmt::Write as _;

use super::{Exported, ExportedMap, ExportedParameter, Role};

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
        let name = identifier(&self.entry);
        let upper = name.to_uppercase();
        let three = |[x, y, z]: [u32; 3]| format!("{{{x}, {y}, {z}}}");
        writeln!(
            to,
            "/* The kernel {name} for {}, PTX {}. */",
            self.target, self.ptx_version
        )?;
        writeln!(to, "#ifndef COLEX_{upper}_H\n#define COLEX_{upper}_H\n")?;
        writeln!(to, "#include <stddef.h>\n#include <stdint.h>\n")?;
        writeln!(to, "#define {upper}_ENTRY \"{}\"", self.entry)?;
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
        self.arguments(&name, to)?;
        for parameter in &self.parameters {
            if let Role::TensorMap(map) = &parameter.role {
                numbers(
                    &format!("{upper}_{}", parameter.name.to_uppercase()),
                    map,
                    to,
                )?;
            }
        }
        writeln!(to, "static const char {name}_ptx[] =")?;
        for line in self.ptx.lines() {
            let line = line.replace('\\', "\\\\").replace('"', "\\\"");
            writeln!(to, "    \"{line}\\n\"")?;
        }
        writeln!(to, "    ;\n\n#endif")
    }

    /// The structure of the arguments, and the checks of its offsets.
    fn arguments(&self, name: &str, to: &mut String) -> std::fmt::Result {
        if self.parameters.is_empty() {
            return Ok(());
        }
        writeln!(to, "struct {name}_arguments {{")?;
        for parameter in &self.parameters {
            let field = identifier(&parameter.name);
            let declared = match &parameter.role {
                Role::TensorMap(_) => {
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
        for parameter in &self.parameters {
            let (field, offset) = (identifier(&parameter.name), parameter.offset);
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
    for (what, number) in [
        ("ELEMENT", map.element),
        ("INTERLEAVE", map.interleave),
        ("SWIZZLE", map.swizzle),
        ("L2", map.l2),
        ("FILL", map.fill),
    ] {
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
    }
}

/// A name as C takes it: PTX names may also have `$`.
fn identifier(name: &str) -> String {
    let known = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(known).collect()
}
