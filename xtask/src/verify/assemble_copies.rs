//! Every executable copy, assembled for the first architecture that has it, and refused one architecture and one
//! version of PTX earlier.

use std::path::Path;

use anyhow::Result;
use colex_atom::{CopyAtom, CopyModule, copy_modules};

use super::assemble::{before_arch, before_version, early_complaint, rewritten};
use super::progress::Progress;
use super::ptxas::Ptxas;

/// What was seen.
pub(super) struct Copies {
    /// How many instructions were assembled, with and without cache policies.
    pub(super) assembled: usize,
    /// How often one was refused before its time.
    pub(super) refused: usize,
    /// What was not as it should be.
    pub(super) complaints: Vec<String>,
}

/// Assembles the copies; `folder` must exist.
pub(super) fn check(ptxas: &Ptxas, folder: &Path, progress: &Progress) -> Result<Copies> {
    let mut seen = Copies {
        assembled: 0,
        refused: 0,
        complaints: Vec::new(),
    };
    for module in copy_modules() {
        progress.at(&format!(
            "{} copies for {}",
            module.atoms.len(),
            module.arch
        ));
        if let Err(said) = ptxas.assemble(&module.text, module.arch.target(), folder)? {
            seen.complaints.push(format!(
                "copies for {} and PTX {}: {said}",
                module.arch, module.version
            ));
        }
        seen.assembled += module.text.matches(".visible .entry").count();
        for atom in &module.atoms {
            progress.at(&atom.name());
            try_early(&mut seen, ptxas, folder, &module, atom)?;
        }
    }
    Ok(seen)
}

/// Tries the architecture and the version before.
fn try_early(
    seen: &mut Copies,
    ptxas: &Ptxas,
    folder: &Path,
    module: &CopyModule,
    atom: &CopyAtom,
) -> Result<()> {
    let text = atom.plain_module("copy")?;
    let earlier = [
        before_arch(module.arch),
        before_version(module.arch, module.version),
    ];
    for (arch, version) in earlier.into_iter().flatten() {
        let said = ptxas.assemble(&rewritten(&text, arch, version), arch.target(), folder)?;
        match early_complaint(said.err().as_deref()) {
            None => seen.refused += 1,
            Some(what) => seen.complaints.push(format!(
                "{} from {} to {} {what} {arch}, PTX {version}",
                atom.name(),
                atom.from(),
                atom.to()
            )),
        }
    }
    Ok(())
}
