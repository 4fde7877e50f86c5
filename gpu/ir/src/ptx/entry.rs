//! The module's head, the entry's directives and declarations.

use std::fmt::Write as _;

use colex_atom::PtxVersion;

use super::flow::{Flow, SourceMarks};
use super::names::{dynamic_name, scoped};
use crate::rows::Rows;
use crate::verify::Refused;
use crate::{Control, Kernel, Op, Param, ParamType, RegType};

/// The whole module; with `lines`, its instructions are marked with the calls of the builder that made them.
pub(super) fn module(kernel: &Kernel, rows: &Rows<'_>, lines: bool) -> Result<String, Refused> {
    let mut flow = Flow::new(kernel, rows, lines.then(SourceMarks::default));
    flow.block(&kernel.body)?;
    let mut text = format!(
        ".version {}\n.target {}\n.address_size 64\n\n",
        version(kernel, rows),
        kernel.target
    );
    let files = flow.marks.iter().flat_map(|marks| &marks.files);
    for (number, file) in files.enumerate() {
        let file = file.replace('\\', "/").replace('"', "'");
        writeln!(text, ".file {} \"{file}\"", number + 1).expect("writing to a string");
    }
    text += &flow.printed.module(kernel);
    shared(&mut text, kernel);
    text += &format!(".visible .entry {}(", kernel.name);
    let params: Vec<String> = kernel.params.iter().map(|p| param(kernel, p)).collect();
    if !params.is_empty() {
        text += &format!("\n    {}\n", params.join(",\n    "));
    }
    text += ")\n";
    directives(&mut text, kernel);
    text += "{\n";
    declarations(&mut text, "%", kernel.registers);
    declarations(&mut text, "%x", flow.scratch);
    text += &flow.printed.entry(kernel);
    text += &flow.text;
    let exit = Op::Control(Control::Exit);
    let ends = (kernel.body.last()).is_some_and(|stmt| stmt.op == exit && stmt.guard.is_none());
    if !ends {
        text += "    exit;\n";
    }
    Ok(text + "}\n")
}

/// The lowest version of PTX that has everything in the kernel.
pub(super) fn version(kernel: &Kernel, rows: &Rows<'_>) -> PtxVersion {
    let mut version = kernel.target.ptx_version().max(PtxVersion(6, 0));
    for row in rows.all() {
        version = version.max(row.needs_for(kernel.target).version);
    }
    if kernel.cluster.is_some() {
        version = version.max(PtxVersion(7, 8));
    }
    if kernel.parameter_places().1 > 4352 {
        version = version.max(PtxVersion(8, 1));
    }
    version
}

fn shared(text: &mut String, kernel: &Kernel) {
    for var in &kernel.shared {
        let name = scoped(kernel, &var.name);
        writeln!(
            text,
            ".shared .align {} .b8 {name}[{}];",
            var.align, var.bytes
        )
        .expect("writing to a string");
    }
    if let Some(align) = kernel.dynamic_shared {
        let name = dynamic_name(kernel);
        writeln!(text, ".extern .shared .align {align} .b8 {name}[];").expect("to a string");
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
}

fn param(kernel: &Kernel, param: &Param) -> String {
    let name = scoped(kernel, &param.name);
    match param.ty {
        ParamType::Scalar(ty) => format!(".param .{} {name}", ty.moved()),
        ParamType::Pointer { align } => {
            format!(".param .u64 .ptr .global .align {align} {name}")
        }
        ParamType::TensorMap => format!(".param .align 64 .b8 {name}[128]"),
    }
}

fn directives(text: &mut String, kernel: &Kernel) {
    let three = |[x, y, z]: [u32; 3]| format!("{x}, {y}, {z}");
    let lines = [
        kernel
            .block
            .map(|block| format!(".reqntid {}", three(block))),
        kernel.min_blocks.map(|n| format!(".minnctapersm {n}")),
        kernel.max_registers.map(|n| format!(".maxnreg {n}")),
        kernel
            .cluster
            .map(|cluster| format!(".reqnctapercluster {}", three(cluster))),
    ];
    for line in lines.into_iter().flatten() {
        *text += &line;
        text.push('\n');
    }
}

fn declarations(text: &mut String, prefix: &str, counts: [u32; 6]) {
    for (ty, count) in RegType::ALL.into_iter().zip(counts) {
        if count > 0 {
            writeln!(text, "    .reg .{ty} {prefix}{}<{count}>;", ty.prefix())
                .expect("writing to a string");
        }
    }
}
