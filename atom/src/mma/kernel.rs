//! The smallest kernel around an instruction, and modules of many.

use core::fmt::Write as _;

use super::instruction::MmaOperands;
use crate::Error;
use crate::machine::{Arch, PtxVersion, RegClass, Registers};
use crate::mma::{GmmaOptions, MmaAtom, mma_atoms};

/// The parameters of every kernel here, in order.
const PARAMETERS: &str = "\
    .param .u64 d, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 e,
    .param .u64 image, .param .u64 descriptor_a, .param .u64 descriptor_b,
    .param .u32 image_words, .param .u32 scale_d";

impl MmaAtom {
    /// A kernel that executes the instruction once: an `.entry` of that name, without the module's head.
    ///
    /// Each operand in registers is an array in global memory, the registers of thread 0, then of thread 1 and so on;
    /// so is the metadata. For operands in shared memory, `image` (of `image_words` 32-bit words) is copied to the
    /// beginning of dynamic shared memory, and the descriptors are given relative to it.
    /// Parameters: `d, a, b, c, e, image, descriptor_a, descriptor_b` (64-bit), `image_words, scale_d` (32-bit);
    /// what an instruction does not have is ignored. One block of [`block`](Self::block) threads.
    ///
    /// # Errors
    ///
    /// [`Error::NotExecutable`].
    pub fn kernel(&self, entry: &str) -> Result<String, Error> {
        let op = self.op()?;
        let mut text = format!(".visible .entry {entry}(\n{PARAMETERS})\n{{\n");
        text += "    .reg .pred %p<2>;\n    .reg .b32 %i<8>;\n    .reg .b64 %l<8>;\n";
        let mut operands = vec![('d', op.d), ('a', op.a), ('b', op.b)];
        if !op.is_async() {
            operands.push(('c', op.c));
        }
        operands.extend(op.e.map(|e| ('e', e)));
        for (name, registers) in &operands {
            writeln!(
                text,
                "    .reg .{} %{name}<{}>;",
                registers.class.ptx(),
                registers.count
            )
            .expect("to a string");
        }
        text += "    mov.u32 %i0, %tid.x;\n";
        if op.is_async() {
            text += STAGE_IMAGE;
        }
        for (name, registers) in &operands {
            text += &match (name, registers.class) {
                (_, RegClass::Descriptor) => load_descriptor(*name),
                ('d', _) if op.is_async() => transfer(*registers, "c", 'd', false),
                ('d', _) => String::new(),
                _ => transfer(*registers, &name.to_string(), *name, false),
            };
        }
        text += &self.body(&operands)?;
        text += &transfer(op.d, "d", 'd', true);
        Ok(text + "    ret;\n}\n")
    }

    /// The threads of the block that [`kernel`](Self::kernel) runs in: whole warps.
    pub fn block(&self) -> usize {
        self.threads().max(32)
    }

    /// A module with the one kernel, complete, for the first architecture that has the instruction.
    ///
    /// ```
    /// let text = colex_atom::mma("SM61_DP4A")?.module("dp4a")?;
    /// assert!(text.starts_with(".version 5.0\n.target sm_61\n.address_size 64\n"));
    /// assert!(text.contains("    dp4a.s32.s32 %d0, %a0, %b0, %c0;\n"));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotExecutable`].
    pub fn module(&self, entry: &str) -> Result<String, Error> {
        let op = self.op()?;
        Ok(head(op.since, op.version) + &self.kernel(entry)?)
    }

    /// The instruction, between the fences it needs.
    fn body(&self, operands: &[(char, Registers)]) -> Result<String, Error> {
        let names = |wanted: char| -> Vec<String> {
            let found = operands.iter().find(|(name, _)| *name == wanted);
            (0..found.map_or(0, |(_, registers)| registers.count))
                .map(|i| format!("%{wanted}{i}"))
                .collect()
        };
        let [d, a, b, c, e] = ['d', 'a', 'b', 'c', 'e'].map(names);
        let instruction = self.instruction(&MmaOperands {
            d: &d,
            a: &a,
            b: &b,
            c: &c,
            e: &e,
            scale_d: "%p1",
        })?;
        let instruction = format!("    {}\n", instruction.replace('\n', "\n    "));
        Ok(if self.b_in_shared() {
            format!("{BEFORE_WGMMA}{instruction}{AFTER_WGMMA}")
        } else {
            instruction
        })
    }
}

/// Copies the image to shared memory and makes it visible to the tensor cores (PTX ISA 9.7.15.7).
const STAGE_IMAGE: &str = "    \
    ld.param.u64 %l0, [image];
    cvta.to.global.u64 %l0, %l0;
    ld.param.u32 %i1, [image_words];
    mov.u32 %i2, shared_image;
    mov.u32 %i3, %i0;
COPY:
    setp.ge.u32 %p0, %i3, %i1;
    @%p0 bra COPIED;
    mul.wide.u32 %l1, %i3, 4;
    add.u64 %l1, %l1, %l0;
    ld.global.b32 %i4, [%l1];
    shl.b32 %i5, %i3, 2;
    add.u32 %i5, %i5, %i2;
    st.shared.b32 [%i5], %i4;
    add.u32 %i3, %i3, 128;
    bra COPY;
COPIED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %i2, %i2, 4;
    cvt.u64.u32 %l3, %i2;
    ld.param.u32 %i6, [scale_d];
    setp.ne.u32 %p1, %i6, 0;
";
const BEFORE_WGMMA: &str = "    wgmma.fence.sync.aligned;\n";
const AFTER_WGMMA: &str =
    "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;\n";

/// Descriptor plus the address of the image, in units of 16 bytes.
fn load_descriptor(name: char) -> String {
    format!(
        "    ld.param.u64 %{name}0, [descriptor_{name}];\n    add.u64 %{name}0, %{name}0, %l3;\n"
    )
}

/// Loads (or stores) a thread's registers from (to) the array that a parameter points to.
fn transfer(registers: Registers, parameter: &str, name: char, store: bool) -> String {
    let bytes = registers.class.bits() / 8;
    let ptx = registers.class.ptx();
    let mut text = format!(
        "    ld.param.u64 %l4, [{parameter}];\n    cvta.to.global.u64 %l4, %l4;\n    mul.wide.u32 %l5, %i0, {};\n    add.u64 %l4, %l4, %l5;\n",
        bytes as usize * registers.count
    );
    for i in 0..registers.count {
        let at = i * bytes as usize;
        let line = if store {
            writeln!(text, "    st.global.{ptx} [%l4+{at}], %{name}{i};")
        } else {
            writeln!(text, "    ld.global.{ptx} %{name}{i}, [%l4+{at}];")
        };
        line.expect("writing to a string");
    }
    text
}

/// The head of a module.
fn head(arch: Arch, version: PtxVersion) -> String {
    let version = version.max(arch.ptx_version());
    let image = if arch == Arch::Sm90a {
        ".extern .shared .align 1024 .b8 shared_image[];\n"
    } else {
        ""
    };
    format!(".version {version}\n.target {arch}\n.address_size 64\n{image}")
}

/// One module with the kernels of several atoms.
#[derive(Clone, Debug)]
pub struct KernelBatch {
    /// The architecture it is for.
    pub arch: Arch,
    /// The atoms in it; kernel `atom_3` is that of `atoms[3]`.
    pub atoms: Vec<MmaAtom>,
    /// The module.
    pub text: String,
}

/// Every executable atom of the table, in modules of at most `size` for the architecture that first has them.
///
/// Every `wgmma` is there with default options, and those with N = 64 with every option they have.
///
/// ```
/// let batches = colex_atom::kernel_batches(64);
/// let kernels: usize = batches.iter().map(|batch| batch.atoms.len()).sum();
/// assert_eq!(kernels, 2208 + 320);
/// ```
pub fn kernel_batches(size: usize) -> Vec<KernelBatch> {
    let executable = || mma_atoms().filter(MmaAtom::is_executable);
    let optioned = executable()
        .filter(|atom| atom.mnk()[1] == 64)
        .flat_map(|atom| {
            let others = GmmaOptions::all().filter(|options| *options != GmmaOptions::default());
            others.filter_map(move |options| atom.clone().with_options(options).ok())
        });
    let atoms: Vec<MmaAtom> = executable().chain(optioned).collect();
    let mut batches = Vec::new();
    for arch in Arch::ALL {
        let atoms: Vec<MmaAtom> = atoms
            .iter()
            .filter(|atom| atom.since() == arch)
            .cloned()
            .collect();
        batches.extend(atoms.chunks(size.max(1)).map(|atoms| batch(arch, atoms)));
    }
    batches
}

fn batch(arch: Arch, atoms: &[MmaAtom]) -> KernelBatch {
    let version = |atom: &MmaAtom| atom.op().map_or(PtxVersion(0, 0), |op| op.version);
    let mut text = head(
        arch,
        atoms.iter().map(version).max().unwrap_or(PtxVersion(0, 0)),
    );
    for (i, atom) in atoms.iter().enumerate() {
        text += &atom
            .kernel(&format!("atom_{i}"))
            .expect("only executable atoms are batched");
    }
    KernelBatch {
        arch,
        atoms: atoms.to_vec(),
        text,
    }
}
