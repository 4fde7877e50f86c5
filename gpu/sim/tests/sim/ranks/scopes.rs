//! Every pair of scopes, by accesses and by fences: only the system's reaches another device.

use colex_ir::launch::Launch;
use colex_ir::{FenceKind, Order, Scope};

use super::letters::{FENCED, Letter, letter};
use super::{Machine, Stage};

fn fence(scope: Scope) -> FenceKind {
    match scope {
        Scope::Cta => FenceKind::AcqRelCta,
        Scope::Cluster => FenceKind::AcqRelCluster,
        Scope::Gpu => FenceKind::AcqRelGpu,
        Scope::Sys => FenceKind::AcqRelSys,
    }
}

#[test]
fn law_ranks_meet_at_the_scope_of_the_system_alone() {
    let scopes = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];
    let mut cases = 0;
    for a in scopes {
        for b in scopes {
            let ordered = Letter {
                raise: Order::Release(a),
                look: Order::Acquire(b),
                before: None,
                after: None,
            };
            let fenced = Letter {
                before: Some(fence(a)),
                after: Some(fence(b)),
                ..FENCED
            };
            let volatile = Letter {
                raise: Order::Volatile,
                look: Order::Volatile,
                ..fenced
            };
            for how in [ordered, fenced, volatile] {
                let kernel = Stage::kernel(|s| letter(s, how));
                for seed in 0..4 {
                    let mut machine = Machine::new(2, true);
                    let ran = machine.run(&kernel, Launch::new(1, 1), None, seed);
                    let sound = (a, b) == (Scope::Sys, Scope::Sys);
                    assert_eq!(ran.is_ok(), sound, "{a:?} {b:?}: {ran:?}");
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.scopes: {cases} cases");
}
