//! Dumps of every type, a text of PTX, and what they print.

use colex_atom::{Arch, Class, Rounding, Ty};
use colex_ir::launch::Launch;
use colex_ir::{Kernel, Operand, PtxText, RegType, Type};
use colex_sim::{Dumps, Memory, PrintTo, SimOptions, simulate};
use colex_tensor::{Builder, Dump};

use super::fragments::TYPES;
use crate::sweep::Random;

/// Returns the launch of each kernel.
pub fn launch() -> Launch {
    Launch::new(2, 64)
}

/// The bits of the elements that a kernel shows: all of a type of 8 bits, else the edges and some between.
fn bits(ty: Ty) -> Vec<u64> {
    if ty.bits() == 8 {
        return (0..256).collect();
    }
    let mut r = Random::new(u64::from(ty.bits()));
    let mask = u64::MAX >> (64 - ty.bits());
    let unused = if ty == Ty::Tf32 { 0x1fff } else { 0 };
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        1e-7,
        65504.0,
        1e30,
        f64::INFINITY,
        -1e-30,
        f64::NAN,
    ];
    let edges = numbers.map(|x| match ty.class() {
        Class::Float(format) => format.encode(x, Rounding::Nearest),
        Class::Integer { .. } | Class::Complex { .. } => x as i64 as u64,
    });
    let sign = 1 << (ty.bits() - 1);
    let more = [1, sign, sign - 1, mask].map(|bits: u64| bits & !unused);
    let drawn = (0..49).map(|_| r.bits() & mask & !unused);
    edges
        .into_iter()
        .chain(more)
        .map(|bits| bits & mask)
        .chain(drawn)
        .collect()
}

/// Builds a kernel that shows these elements in one thread, and one number of each thread.
///
/// # Errors
///
/// Returns the error of the builder.
pub fn kernel(arch: Arch, ty: Ty) -> Result<Kernel, colex_tensor::Error> {
    let mut k = Builder::new(&format!("dump_{}", ty.ptx()), arch, 64);
    let all = bits(ty);
    let x = k.fragment(
        ty,
        colex_layout::Layout::new(all.len() as i64, 1)?.to_static(),
    );
    let packed = all.len() / x.regs().len();
    for (reg, elements) in x.regs().iter().zip(all.chunks(packed)) {
        let word = word_of(elements, ty.bits());
        let value = match reg.ty {
            RegType::F32 => Operand::Float(f32::from_bits(word as u32).into()),
            RegType::F64 => Operand::Float(f64::from_bits(word)),
            _ => Operand::Int(word as i64),
        };
        k.emit(|ir| ir.mov_to(*reg, value));
    }
    k.dump(ty.ptx(), Dump::of(&x).thread(33).block([1, 0, 0]));
    let tid = k.thread();
    k.dump("number", tid - 7);
    Ok(k.finish()?.kernel)
}

/// Elements in a word, the first in the lowest bits.
fn word_of(elements: &[u64], width: u32) -> u64 {
    let places = (0..).step_by(width as usize);
    elements
        .iter()
        .zip(places)
        .fold(0, |word, (bits, at): (_, u32)| word | bits << at)
}

/// Builds a kernel that shows what a text of PTX computes: the bits of the thread's number in the other order.
///
/// # Errors
///
/// Returns the error of the builder.
pub fn ptx_kernel(arch: Arch) -> Result<Kernel, colex_tensor::Error> {
    let mut k = Builder::new("ptx_text", arch, 64);
    let tid = k.thread();
    let number = k.value(&tid);
    let text = PtxText::new(
        "{\n.reg .pred p;\nbrev.b32 %0, %1;\nsetp.lt.u32 p, %1, 8;\n@p bra done;\nxor.b32 %0, %0, 5;\ndone:\n}",
    );
    let text = text.on_host(|inputs| {
        let turned = (inputs[0] as u32).reverse_bits();
        vec![u64::from(if inputs[0] < 8 { turned } else { turned ^ 5 })]
    });
    let turned = k.emit(|ir| ir.ptx(text, &[(Type::U32, number.into())], &[Type::B32]));
    k.dump("turned", colex_tensor::Expr::register(turned[0], Ty::U32));
    Ok(k.finish()?.kernel)
}

/// Builds all kernels.
///
/// # Errors
///
/// Returns the error of the builder.
pub fn kernels(arch: Arch) -> Result<Vec<Kernel>, colex_tensor::Error> {
    let types = TYPES
        .iter()
        .filter(|ty| super::fragments::is_there(arch, **ty));
    let shown = types.map(|ty| kernel(arch, *ty));
    shown.chain([ptx_kernel(arch)]).collect()
}

/// Returns the lines that all kernels print on the simulator, sorted.
///
/// # Errors
///
/// Returns an error if a kernel is refused, and if a value that is read back from a line is not the element.
pub fn expected(arch: Arch) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for kernel in kernels(arch).map_err(|error| error.to_string())? {
        let options = SimOptions {
            print_to: PrintTo::Report,
            ..SimOptions::default()
        };
        let report = simulate(&kernel, &launch(), &[], &mut Memory::default(), &options);
        let report = report.map_err(|fault| fault.to_string())?;
        lines.extend(report.printed.into_iter().map(|line| line.text));
    }
    for ty in TYPES
        .iter()
        .filter(|ty| super::fragments::is_there(arch, **ty))
    {
        read_back(*ty, &lines)?;
    }
    lines.sort();
    Ok(lines)
}

/// Compares the elements that lines show with those of the kernel.
fn read_back(ty: Ty, lines: &[String]) -> Result<(), String> {
    let dumps = Dumps::of(&lines.join("\n"));
    let own = dumps.lines.iter().filter(|line| line.name == ty.ptx());
    let elements: Vec<&(String, String)> = own.flat_map(|line| &line.elements).collect();
    let all = bits(ty);
    if elements.len() != all.len() {
        return Err(format!(
            "{ty}: {} elements of {}",
            elements.len(),
            all.len()
        ));
    }
    for (i, ((label, value), bits)) in elements.into_iter().zip(all).enumerate() {
        let same = match ty.class() {
            Class::Float(format) => value.parse().is_ok_and(|x: f64| {
                let read = format.encode(x, Rounding::Nearest);
                read == bits || x.is_nan() && format.decode(bits).is_nan()
            }),
            Class::Integer { signed } => value.parse().is_ok_and(|x: i128| {
                let low = x as u64 & (u64::MAX >> (64 - ty.bits()));
                low == bits && (signed || x >= 0)
            }),
            Class::Complex { .. } => false,
        };
        if !same || *label != format!("[{i}]") {
            return Err(format!(
                "{ty}: element {i} of the bits {bits:#x} is shown as {label}={value}"
            ));
        }
    }
    Ok(())
}
