//! Modules with every copy in them, for an assembler to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::atom::CopyAtom;
use super::instruction::CopyOperands;
use super::op::OperandKind;
use super::row::Argument;
use super::search::copy_atoms;
use crate::Error;
use crate::machine::{Arch, PtxVersion, RegClass, Registers, Space};

impl CopyAtom {
    /// A kernel with the instruction and plain registers as its operands: an `.entry` of that name, without the
    /// module's head. It is there to be assembled, not to be run; `hinted` gives it a cache policy.
    ///
    /// # Errors
    ///
    /// [`Error::NotExecutable`].
    pub fn plain_kernel(&self, entry: &str, hinted: bool) -> Result<String, Error> {
        let op = self.op()?;
        let mut text = format!(".visible .entry {entry}()\n{{\n");
        let mut names: Vec<(Argument, Vec<String>)> = Vec::new();
        for operand in &op.operands {
            names.push((
                operand.argument,
                declare(&mut text, operand.argument, operand.kind),
            ));
        }
        if hinted && op.ptx_hinted.is_some() {
            let policy = OperandKind::Registers(Registers {
                count: 1,
                class: RegClass::B64,
            });
            names.push((
                Argument::Policy,
                declare(&mut text, Argument::Policy, policy),
            ));
        }
        let of = |wanted: Argument| -> &[String] {
            names
                .iter()
                .find(|(argument, _)| *argument == wanted)
                .map_or(&[], |(_, names)| names)
        };
        let first = |wanted: Argument| of(wanted).first().map_or("", String::as_str);
        let instruction = self.instruction(&CopyOperands {
            dst: of(Argument::Dst),
            src: of(Argument::Src),
            tensor: first(Argument::Tensor),
            coordinates: of(Argument::Tensor).get(1..).unwrap_or_default(),
            barrier: first(Argument::Barrier),
            offsets: of(Argument::Offsets),
            mask: first(Argument::Mask),
            size: first(Argument::Size),
            source_bytes: first(Argument::SourceBytes),
            policy: first(Argument::Policy),
        })?;
        Ok(text
            + &format!(
                "    {}\n    ret;\n}}\n",
                instruction.replace('\n', "\n    ")
            ))
    }
}

impl CopyAtom {
    /// A module with [`plain_kernel`](Self::plain_kernel) alone, for the first architecture that has the instruction.
    ///
    /// # Errors
    ///
    /// [`Error::NotExecutable`].
    pub fn plain_module(&self, entry: &str) -> Result<String, Error> {
        let op = self.op()?;
        let version = op.version.max(op.since.ptx_version());
        Ok(head(op.since, version) + &self.plain_kernel(entry, false)?)
    }
}

fn head(arch: Arch, version: PtxVersion) -> String {
    format!(".version {version}\n.target {arch}\n.address_size 64\n")
}

/// Declares the registers of an operand and names them.
fn declare(text: &mut String, argument: Argument, kind: OperandKind) -> Vec<String> {
    let name = format!("%{argument:?}").to_lowercase();
    let mut registers = |name: &str, class: RegClass, count: usize| -> Vec<String> {
        writeln!(text, "    .reg .{} {name}<{count}>;", class.ptx()).expect("writing to a string");
        (0..count).map(|i| format!("{name}{i}")).collect()
    };
    match kind {
        OperandKind::Registers(held) => registers(&name, held.class, held.count),
        OperandKind::Address {
            space: Space::Global,
            ..
        } => registers(&name, RegClass::B64, 1),
        OperandKind::Address { .. } => registers(&name, RegClass::B32, 1),
        OperandKind::Tensor { coordinates } => {
            let mut names = registers(&name, RegClass::B64, 1);
            names.extend(registers("%coordinate", RegClass::B32, coordinates));
            names
        }
        OperandKind::Constant(_) => Vec::new(),
    }
}

/// A module of copies that came with one architecture and one version of PTX.
#[derive(Clone, Debug)]
pub struct CopyModule {
    /// The architecture it is for.
    pub arch: Arch,
    /// The version of PTX it is written in: the first that has its instructions.
    pub version: PtxVersion,
    /// The atoms in it; kernel `copy_3` is that of `atoms[3]`, and `copy_3_hinted` if it takes a cache policy.
    pub atoms: Vec<CopyAtom>,
    /// The module.
    pub text: String,
}

/// Every executable copy, in modules by the architecture and the version of PTX that first have it; with and without
/// a cache policy, universal copies between all ends.
///
/// ```
/// let modules = colex_atom::copy_modules();
/// let [movmatrix] = modules.iter().filter(|module| module.text.contains("movmatrix")).collect::<Vec<_>>()[..] else { panic!() };
/// assert!(movmatrix.text.starts_with(".version 7.8\n.target sm_75\n.address_size 64\n"));
/// assert!(movmatrix.text.contains("    movmatrix.sync.aligned.m8n8.trans.b16 %dst0, %src0;\n"));
/// ```
pub fn copy_modules() -> Vec<CopyModule> {
    let mut groups: BTreeMap<(Arch, PtxVersion), Vec<CopyAtom>> = BTreeMap::new();
    for atom in copy_atoms().flat_map(|atom| atom.all_ends()) {
        if let Ok(op) = atom.op() {
            groups
                .entry((op.since, op.version.max(op.since.ptx_version())))
                .or_default()
                .push(atom);
        }
    }
    groups
        .into_iter()
        .map(|((arch, version), atoms)| module(arch, version, atoms))
        .collect()
}

fn module(arch: Arch, version: PtxVersion, atoms: Vec<CopyAtom>) -> CopyModule {
    let mut text = head(arch, version);
    for (i, atom) in atoms.iter().enumerate() {
        text += &atom
            .plain_kernel(&format!("copy_{i}"), false)
            .expect("only executable atoms are grouped");
        if atom.op().is_ok_and(|op| op.ptx_hinted.is_some()) {
            text += &atom
                .plain_kernel(&format!("copy_{i}_hinted"), true)
                .expect("the same");
        }
    }
    CopyModule {
        arch,
        version,
        atoms,
        text,
    }
}
