use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_gpu::kernels::{GemmProblem, Major, Operand, reference};
use half::bf16;
fn main() {
    let device = Device::simulator(Arch::Sm90a);
    let mut bad = 0;
    for (tile, warps, cluster) in [([64, 64, 64], 1, [1, 1, 1]), ([128, 128, 64], 2, [2, 1, 1]), ([64, 96, 64], 1, [1, 2, 1]), ([128, 256, 64], 2, [2, 1, 1])] {
        let [bm, bn, _] = tile;
        for columns in (1..=bn / 16).map(|n| n * 16).filter(|w| 2 * w > bn) {
            for (swap, major_b) in [(false, Major::Second), (true, Major::Second), (false, Major::First)] {
                let (mut m, mut n) = (2 * bm + 40, 2 * columns + 24);
                if swap { (m, n) = (n, m); }
                let problem = GemmProblem::new(m, n, 200).major(Operand::B, major_b).alpha(2.0);
                let fill = |name, by: usize| -> Vec<bf16> {
                    let length = problem.layout(name).unwrap().cosize().unwrap();
                    (0..length as usize).map(|i| bf16::from_f64(((i * by + i / 7) % 13) as f64 - 6.0)).collect()
                };
                let (a, b) = (fill(Operand::A, 5), fill(Operand::B, 3));
                let old = vec![bf16::from_f64(0.0); problem.layout(Operand::C).unwrap().cosize().unwrap() as usize];
                let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
                let dc = device.poisoned::<bf16>(old.len()).unwrap();
                let mut written = dc.clone();
                let gemm = problem.on(&da, &db, &mut written).unwrap();
                let call = gemm.prepare_with(|operands, _| Ok(GemmPlan { tile, columns, warps: [warps, 1], cluster, stages: 3, swap, ..GemmPlan::new(GemmMethod::Hopper, operands) }));
                let call = match call { Ok(c) => c, Err(e) => { println!("{tile:?} {columns} {swap} {major_b:?}: {e}"); bad += 1; continue; } };
                if let Err(e) = call.run(&device) { println!("{call}: {e}"); bad += 1; continue; }
                let found = reference::matrix(&problem, Operand::C, &dc.download().unwrap());
                let expected = reference::gemm(&problem, &a, &b, &old).mapv(|x| bf16::from_f64(x).to_f64());
                let ok = found == expected;
                if !ok { bad += 1; }
                println!("{call}: {ok}");
                if bad > 6 { return; }
            }
        }
    }
}
