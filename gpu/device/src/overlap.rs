//! Kernels that may begin before the launch before them has ended.
//!
//! A launch with programmatic stream serialisation (CUDA C++ Programming Guide, "Programmatic Dependent Launch and
//! Synchronization") may begin when every block of the launch before it has executed `griddepcontrol.launch_dependents` or
//! has ended. `griddepcontrol.wait` then waits until that launch has ended and its writes are visible.

use colex_ir::{Atom, Control, Kernel, Memory, Op, Space, Stmt, Sync};

/// Returns whether each thread of a kernel executes `griddepcontrol.wait` before it accesses global memory or ends. Such a
/// kernel sees nothing of an early begin: all that it reads was written before the wait ended, and it cannot end before the
/// launch before it.
///
/// What follows the wait is not examined. In front of it there may be arithmetic, loads of parameters and conditions, and what
/// concerns the cluster alone: its shared memory, its registers, barriers that it meets at, and requests to the L2 cache.
pub(crate) fn waits_first(kernel: &Kernel) -> bool {
    for stmt in &kernel.body {
        if matches!(stmt.op, Op::Sync(Sync::GridDependency { wait: true })) {
            return stmt.guard.is_none();
        }
        if !is_local(stmt) {
            return false;
        }
    }
    false
}

/// Whether an instruction, with those inside it, concerns the cluster of its thread alone, and the thread goes on.
fn is_local(stmt: &Stmt) -> bool {
    match &stmt.op {
        Op::Alu(_) => true,
        Op::Memory(op) => match op {
            Memory::Load { access, .. } => {
                matches!(access.space, Space::Param | Space::Shared | Space::Cluster)
            }
            Memory::Store { access, .. } => {
                matches!(access.space, Space::Shared | Space::Cluster)
            }
            Memory::AddressOf { .. } | Memory::Cvta { .. } | Memory::Mapa { .. } => true,
            // The tensor map is a parameter.
            Memory::PrefetchTensorMap { .. } => true,
            _ => false,
        },
        Op::Control(op) => match op {
            Control::If { then, other, .. } => then.iter().chain(other).all(is_local),
            Control::Comment(_) => true,
            // A loop may not end, and a thread that ends waits for nothing.
            _ => false,
        },
        Op::Exchange(_) => true,
        Op::Sync(op) => matches!(
            op,
            Sync::Barrier { .. }
                | Sync::WarpSync { .. }
                | Sync::ClusterArrive { .. }
                | Sync::ClusterWait
                | Sync::Fence(_)
                | Sync::MbarrierInit { .. }
                | Sync::GridDependency { wait: false }
        ),
        // A request to the L2 cache reads nothing that the kernel sees, and what is written later is written there.
        Op::Atom(Atom::Copy { atom, .. }) => atom.to() == colex_atom::Space::L2,
        Op::Async(_) | Op::Atom(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::{Arch, CopyAtom};
    use colex_ir::{Access, CopyArgs, End, KernelBuilder, Type};

    /// A kernel with one fault in front of its wait, or none.
    fn kernel(before: impl FnOnce(&mut KernelBuilder)) -> Kernel {
        let mut k = KernelBuilder::new("k", Arch::Sm90a);
        let p = k.pointer("p");
        let p = k.param(p);
        let global = Access::new(Space::Global, Type::U32);
        before(&mut k);
        k.push(Sync::GridDependency { wait: true });
        let x = k.load(global, p);
        k.store(global, p, x);
        k.finish()
    }

    /// Each instruction in front of the wait by which an early begin could be seen is found. Arithmetic and what concerns a
    /// block alone are none.
    #[test]
    fn law_a_kernel_that_waits_first_sees_no_early_begin() {
        let global = Access::new(Space::Global, Type::U32);
        assert!(waits_first(&kernel(|_| {})));
        assert!(waits_first(&kernel(|k| {
            let x = k.mov(Type::U32, 1);
            let p = k.setp(colex_ir::Compare::Lt, Type::U32, x, 2);
            k.if_(p, |k| {
                k.mov(Type::U32, 3);
            });
        })));
        assert!(waits_first(&kernel(|k| {
            let shared = k.shared("own", 16, 16);
            k.store(Access::new(Space::Shared, Type::U32), shared, 1);
            k.push(Sync::GridDependency { wait: false });
            k.sync();
        })));
        let asks = |k: &mut KernelBuilder, name: &str| {
            let atom: CopyAtom = name.parse().expect("an atom");
            let atom = atom.with_bits(8 * 256).expect("its size");
            let q = k.pointer("q");
            let q = k.param(q);
            let [src, dst] = match atom.to() {
                colex_atom::Space::L2 => [End::Memory(q.into()), End::None],
                _ => [
                    End::Memory(k.shared("own", 256, 16).into()),
                    End::Memory(q.into()),
                ],
            };
            let args = CopyArgs {
                src,
                dst,
                ..CopyArgs::default()
            };
            k.copy_atom(&atom, args);
        };
        assert!(waits_first(&kernel(|k| asks(
            k,
            "SM90_BULK_COPY_G2S::PREFETCH"
        ))));
        let early: [&dyn Fn(&mut KernelBuilder); 7] = [
            &|k| asks(k, "SM90_BULK_COPY_S2G"),
            &|k| {
                let q = k.pointer("q");
                let q = k.param(q);
                k.load(global, q);
            },
            &|k| {
                let q = k.pointer("q");
                let q = k.param(q);
                k.store(global, q, 1);
            },
            &|k| k.push(Control::Exit),
            &|k| k.loop_(|_| {}),
            &|k| {
                let q = k.pointer("q");
                let q = k.param(q);
                k.load(Access::new(Space::Generic, Type::U32), q);
            },
            // The wait behind one that not every thread executes comes too late.
            &|k| {
                let x = k.mov(Type::U32, 1);
                let p = k.setp(colex_ir::Compare::Lt, Type::U32, x, 2);
                k.if_(p, |k| k.push(Sync::GridDependency { wait: true }));
            },
        ];
        let cases = early.len() + 5;
        for fault in early {
            assert!(!waits_first(&kernel(fault)));
        }
        let mut none = KernelBuilder::new("k", Arch::Sm90a);
        none.push(Sync::GridDependency { wait: false });
        assert!(!waits_first(&none.finish()));
        println!("law overlap.waits_first: {cases} cases");
    }
}
