//! Atoms and tiled operations from the words that describe them in `print.jsonl`, and what we print of them.

use colex_layout::{IntoLayout, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::Tried;
use super::gmma::smem_atom;
use super::print::PrintedAnswer;

/// CuTe's `print`.
pub(super) fn print(words: &str) -> PrintedAnswer {
    let parts: Vec<&str> = words.split(' ').collect();
    Ok(Some(match parts[..] {
        ["MMA_Atom", name] => colex_atom::mma(&long(name))?.print(),
        ["Copy_Atom", name, ty] => {
            let atom = colex_atom::copy(name)?;
            atom.print(bits(ty)?)?
        }
        ["GMMA", name, ty] => {
            let block = smem_atom(&format!("Layout_{name}_Atom"), bits(ty)?)?;
            block.to_string()
        }
        ["smem", ty, "ptr", address, "GMMA", name, "atom"] => {
            let block = smem_atom(&format!("Layout_{name}_Atom"), bits(ty)?)?.to_string();
            // The pointer takes the place that the layout leaves for it.
            let unset = format!(" o smem_ptr[{}b](unset)", bits(ty)?);
            block.replace(&unset, &format!("_smem_ptr[{}b]({address})", bits(ty)?))
        }
        [space, ty, "ptr", address, layout] => {
            let layout: Layout = layout.parse()?;
            let space = match space {
                "raw" => "",
                "smem" => "smem_",
                "gmem" => "gmem_",
                "rmem" => "rmem_",
                _ => return Ok(None),
            };
            format!(
                "{space}ptr[{}b]({address}) o {}",
                bits(ty)?,
                layout.to_static()
            )
        }
        ["ThrMMA", "tid", thread, "of", "TiledMMA", name, atoms] => {
            let (mma, thread) = (mma(name, atoms, "(_,_,_)")?, thread.parse()?);
            mma.slice(thread)?.to_string()
        }
        ["TiledMMA", name, atoms, tile] => mma(name, atoms, tile)?.to_string(),
        ["TiledCopy", name, ty, threads, values] => copy(name, ty, threads, values)?.to_string(),
        _ => return Ok(None),
    }))
}

/// CuTe's `print_latex`.
pub(super) fn latex(words: &str) -> PrintedAnswer {
    let parts: Vec<&str> = words.split(' ').collect();
    let page = match parts[..] {
        ["TiledMMA", name, atoms, tile] => mma(name, atoms, tile)?.latex(),
        ["TiledCopy", name, ty, threads, values] => copy(name, ty, threads, values)?.latex(),
        ["make_tiled_copy_A", name, ty, "of", "TiledMMA", op, atoms] => {
            let atom = colex_atom::copy(name)?;
            // One atom along each mode, whose strides do not matter.
            let mma = mma(op, (atoms, (0, 0, 0)), "(_,_,_)")?;
            let copy = TiledCopy::for_operand(atom, bits(ty)?, &mma, Operand::A);
            copy?.latex()
        }
        _ => return Ok(None),
    };
    page.map(Some).map_err(Into::into)
}

/// CuTe's `print_svg`.
pub(super) fn svg(words: &str) -> PrintedAnswer {
    let parts: Vec<&str> = words.split(' ').collect();
    let ["TiledMMA", name, atoms, tile] = parts[..] else {
        return Ok(None);
    };
    mma(name, atoms, tile)?
        .print_svg()
        .map(Some)
        .map_err(Into::into)
}

fn mma(name: &str, atoms: impl IntoLayout, tile: &str) -> Tried<TiledMma> {
    let atom = colex_atom::mma(name)?;
    let atoms = atoms.into_layout()?;
    TiledMma::new(atom, atoms.to_static(), marked(tile)).map_err(Into::into)
}

fn copy(name: &str, ty: &str, threads: &str, values: &str) -> Tried<TiledCopy> {
    let atom = colex_atom::copy(name)?;
    let layout = |text: &str| {
        let layout: Layout = text.parse()?;
        Tried::Ok(layout.to_static())
    };
    TiledCopy::new(atom, bits(ty)?, &layout(threads)?, &layout(values)?).map_err(Into::into)
}

/// A tiler whose numbers are static.
fn marked(tile: &str) -> String {
    let mut text = String::new();
    for c in tile.chars() {
        if c.is_ascii_digit() && !text.ends_with(|before: char| before.is_ascii_digit()) {
            text.push('_');
        }
        text.push(c);
    }
    text
}

/// `<K,K>`, the majors of both operands, as CuTe's types name them.
fn long(name: &str) -> String {
    name.replace("<K,K>", "<GMMA::Major::K,GMMA::Major::K>")
}

/// The bits of a type.
fn bits(ty: &str) -> Tried<i64> {
    match ty {
        "bool" | "int8_t" | "uint8_t" | "char" | "float_e4m3_t" | "float_e5m2_t" => Ok(8),
        "half" | "half_t" | "bfloat16_t" | "int16_t" | "uint16_t" => Ok(16),
        "float" | "tf32" | "tfloat32_t" | "int" | "int32_t" | "uint32_t" => Ok(32),
        "double" | "int64_t" | "uint64_t" => Ok(64),
        _ => Err(format!("a type `{ty}`, which no case names").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_operations() {
        let text = |words| print(words).map(|text| text.map(|text| text.lines().count()));
        assert_eq!(text("MMA_Atom SM70_8x8x4_F32F16F16F32_NT"), Ok(Some(6)));
        assert_eq!(text("Copy_Atom UniversalCopy<uint32_t> float"), Ok(Some(6)));
        assert_eq!(text("an int ptr 0x3000 (8,4):(1,8)"), Ok(None));
        assert!(text("Copy_Atom UniversalCopy<uint32_t> word").is_err());
    }

    /// Derived from the format of `print` for pointers, as `print.jsonl` has it for two of them.
    #[test]
    fn pointers_are_printed_with_their_layout() {
        let text = |words| print(words).map(|text| text.unwrap_or_default());
        assert_eq!(
            text("raw int ptr 0x3000 (8,4):(1,8)").as_deref(),
            Ok("ptr[32b](0x3000) o (_8,_4):(_1,_8)")
        );
        assert_eq!(
            text("gmem half_t ptr 0x10 4:2").as_deref(),
            Ok("gmem_ptr[16b](0x10) o _4:_2")
        );
        assert_eq!(
            text("smem half ptr 0x2000 GMMA K_SW128 atom").as_deref(),
            Ok("Sw<3,4,3>_smem_ptr[16b](0x2000) o (_8,_64):(_64,_1)")
        );
    }

    #[test]
    fn numbers_of_a_tiler_are_marked_once() {
        assert_eq!(
            marked("((4,4,2):(1,8,4),32,_)"),
            "((_4,_4,_2):(_1,_8,_4),_32,_)"
        );
    }
}
