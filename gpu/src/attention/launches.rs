//! The launches of a plan: kernels, grids and arguments, before any kernel is loaded.

use std::sync::Arc;

use colex_device::Device;
use colex_ir::launch::{Argument, Launch};
use colex_tensor::{Arg, TensorKernel};

use super::call::{AttentionRole, built};
use super::combine;
use super::plan::{AttentionOperands, AttentionPlan};
use super::problem::{AttentionProblem, AttentionTensor, Sequences};
use super::schedule;
use crate::error::{AttentionError, Error, ErrorKind};

/// A launch of an attention call, as a program makes it that launches the kernels itself ([`AttentionPlan::launches`]).
#[derive(Clone, Debug)]
pub struct AttentionLaunch {
    /// The kernel, which [`export`](TensorKernel::export) describes to other launchers.
    pub kernel: Arc<TensorKernel>,
    /// The grid, the block and the dynamic shared memory.
    pub launch: Launch,
    /// The arguments, one for each parameter of the kernel. Tensor maps are not encoded.
    pub arguments: Vec<Argument>,
}

/// A launch whose kernel a device has not loaded.
pub(super) struct PlannedLaunch {
    pub(super) role: AttentionRole,
    pub(super) launch: Launch,
    pub(super) arguments: Vec<Argument>,
    /// The number of the address that each pointer and each map of the arguments begins at.
    pub(super) order: Vec<usize>,
}

/// The multiple of bytes at which the workspace begins.
const ALIGNMENT: u64 = 256;

impl AttentionPlan {
    /// Returns the launches of the plan for a problem on a device, in their order, for a program that launches the kernels
    /// itself. Nothing is loaded or run.
    ///
    /// `addresses` are those of Q, K, V and O; of the log-sum-exp if it is an output; of the sinks if there are any; of the offsets of
    /// packed queries and of packed keys; of the table and the numbers of keys of keys in pages; and of
    /// [`workspace`](AttentionPlan::workspace) bytes at a multiple of 256, if the plan needs them. A launch waits for the one before
    /// it, as the launches of a stream do.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    /// use colex_gpu::Device;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// // Bytes at which the tensors would begin.
    /// let addresses = [1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20];
    /// let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 2], [1, 4096], [64, 64]);
    /// let operands = AttentionOperands::of(&problem, [addresses[0], addresses[1], addresses[2], addresses[3]]);
    /// let plan = AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(&problem, 108);
    /// assert!(plan.splits > 1);
    /// // The parts of the keys, and their combination.
    /// let launches = plan.launches(&problem, &device, &addresses)?;
    /// let names: Vec<&str> = launches.iter().map(|one| &one.kernel.kernel.name[..]).collect();
    /// assert_eq!(names, ["attention_sm80", "attention_combine"]);
    /// // Two heads of keys.
    /// assert_eq!(i64::from(launches[0].launch.grid[0]), 2 * plan.splits);
    ///
    /// let refused = plan.launches(&problem, &device, &addresses[..4]).unwrap_err();
    /// assert_eq!(refused.to_string(), "4 addresses: the launches of the plan take 5");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AttentionProblem::check`] and of [`build`](AttentionPlan::build), and an error if the plan is for another
    /// problem or for other addresses, or if there are more or fewer addresses than tensors.
    pub fn launches(
        &self,
        problem: &AttentionProblem,
        device: &Device,
        addresses: &[u64],
    ) -> Result<Vec<AttentionLaunch>, Error> {
        problem.check()?;
        if problem.is_nothing() {
            return Ok(Vec::new());
        }
        let refused = |why: String| Err(ErrorKind::from(AttentionError::Launch { why }).into());
        let of_sequences = problem.sequences.map(|of| match of {
            Sequences::Batch => 0,
            Sequences::Packed { .. } => 1,
            Sequences::Paged { .. } => 2,
        });
        let needs_workspace = self.workspace(problem) > 0;
        let count = AttentionTensor::ALL.len()
            + usize::from(problem.log_sum_exp)
            + usize::from(problem.sinks.is_some())
            + of_sequences.iter().sum::<usize>()
            + usize::from(needs_workspace);
        let (found, [q, k, v, o]) = match addresses {
            [q, k, v, o, ..] => (addresses.len(), [*q, *k, *v, *o]),
            _ => (addresses.len(), [0; 4]),
        };
        if found != count {
            return refused(format!(
                "{found} addresses: the launches of the plan take {count}"
            ));
        }
        let of_numbers = if needs_workspace { count - 1 } else { count };
        for (i, address) in addresses
            .iter()
            .enumerate()
            .skip(AttentionTensor::ALL.len())
        {
            let multiple = if i < of_numbers { 4 } else { ALIGNMENT };
            if address % multiple != 0 {
                return refused(format!(
                    "address {i} is {address}: it must be a multiple of {multiple}"
                ));
            }
        }
        let arch = device.arch();
        self.check(arch)?;
        self.check_call(&AttentionOperands::of(problem, [q, k, v, o]))?;
        self.check_problem(problem)?;
        let kernel = |role| built(self, role, arch);
        let planned = planned_launches((self, problem), device, addresses, kernel)?;
        let launch = |one: PlannedLaunch| {
            let kernel = kernel(one.role)?;
            kernel.kernel.verify()?;
            let (launch, arguments) = (one.launch, one.arguments);
            Ok(AttentionLaunch {
                kernel,
                launch,
                arguments,
            })
        };
        planned.into_iter().map(launch).collect()
    }
}

/// Returns where the pieces of a workspace begin, and its end. The numbers are those behind its address.
///
/// # Errors
///
/// Returns an error if one is beyond the addresses of 64 bits.
fn within<const N: usize>(address: u64, places: [u64; N]) -> Result<[u64; N], Error> {
    let mut at = places;
    for place in &mut at {
        *place = address.checked_add(*place).ok_or_else(|| {
            let bytes = places.iter().max().unwrap_or(&0);
            let why = format!(
                "the workspace of {bytes} bytes begins at {address}: it must end below 2^64"
            );
            ErrorKind::from(AttentionError::Launch { why })
        })?;
    }
    Ok(at)
}

/// Returns the launches of a plan that was checked for a problem that was checked, whose tensors have these addresses.
pub(super) fn planned_launches(
    of: (&AttentionPlan, &AttentionProblem),
    device: &Device,
    addresses: &[u64],
    kernel_of: impl Fn(AttentionRole) -> Result<Arc<TensorKernel>, Error>,
) -> Result<Vec<PlannedLaunch>, Error> {
    let (plan, problem) = of;
    let family = plan.method.family();
    let launched = |role, launch: Launch, given: &[Arg<'_>], order: &[usize]| {
        let kernel = kernel_of(role)?;
        Ok::<_, Error>(PlannedLaunch {
            role,
            launch: launch.dynamic_shared(kernel.dynamic_shared()),
            arguments: kernel.arguments(given)?,
            order: order.to_vec(),
        })
    };
    let kernel = kernel_of(AttentionRole::Attention)?;
    let launch = family.launch(problem, plan, device);
    let mut layouts = problem.kernel_layouts(plan.packs)?;
    if plan.sorted {
        // The last address is that of the workspace.
        let workspace = addresses.len() - 1;
        let [starts, order, _] = within(addresses[workspace], schedule::places(problem))?;
        let of_schedule = schedule::layouts(problem)?;
        // The offsets of the queries, and the offsets or the numbers of the keys, are the last vectors of numbers.
        let is_key_sized = plan.operands.packed[1] || plan.operands.page.is_some();
        let of_queries = AttentionTensor::ALL.len()
            + usize::from(problem.log_sum_exp)
            + usize::from(problem.sinks.is_some());
        let mut order_of = vec![of_queries];
        order_of.extend(is_key_sized.then_some(workspace - 1));
        let given = order_of
            .iter()
            .map(|i| Arg::checked(addresses[*i], &layouts[*i]));
        let written = [starts, order].into_iter().zip(&of_schedule);
        let given = given.chain(written.map(|(at, layout)| Arg::checked(at, layout)));
        let given: Vec<Arg<'_>> = given.chain(schedule::numbers(problem)).collect();
        order_of.extend([workspace; 2]);
        let sorting = schedule::launch(problem);
        let first = launched(AttentionRole::Schedule, sorting, &given, &order_of)?;

        layouts.extend(of_schedule);
        let mut read = addresses[..workspace].to_vec();
        read.extend([starts, order]);
        let given = family.arguments(of, &kernel, &layouts, &read)?;
        let order_of: Vec<usize> = (0..workspace).chain([workspace; 2]).collect();
        let second = launched(AttentionRole::Attention, launch, &given, &order_of)?;
        return Ok(vec![first, second]);
    }
    if plan.splits == 1 {
        let given = family.arguments(of, &kernel, &layouts, addresses)?;
        let order: Vec<usize> = (0..addresses.len()).collect();
        let one = launched(AttentionRole::Attention, launch, &given, &order)?;
        return Ok(vec![one]);
    }
    // The last address is that of the workspace.
    let workspace = addresses.len() - 1;
    let [outputs, tops, sums, _] = within(addresses[workspace], combine::places(problem, plan))?;
    let optional = [problem.log_sum_exp, problem.sinks.is_some()];
    let behind = AttentionTensor::ALL.len() + optional.map(usize::from).iter().sum::<usize>();
    let of_numbers = layouts.split_off(behind);
    layouts.truncate(AttentionTensor::O as usize);
    let [of_outputs, of_rows] = combine::written(problem, plan)?;
    layouts.extend([of_outputs, of_rows.clone(), of_rows]);
    layouts.extend(of_numbers);
    let [q, k, v] = [0, 1, 2].map(|i| addresses[i]);
    let mut given = vec![q, k, v, outputs, tops, sums];
    given.extend(&addresses[behind..workspace]);
    let given = family.arguments(of, &kernel, &layouts, &given)?;
    let mut order = vec![0, 1, 2, workspace, workspace, workspace];
    order.extend(behind..workspace);
    let first = launched(AttentionRole::Attention, launch, &given, &order)?;

    let layouts = combine::read(problem, plan)?;
    let parts = [
        (outputs, &layouts[0]),
        (tops, &layouts[1]),
        (sums, &layouts[1]),
    ];
    // The offsets of packed queries follow the outputs and the sinks.
    let outputs = AttentionTensor::O as usize..behind + usize::from(plan.operands.packed[0]);
    let to = outputs.clone().map(|i| addresses[i]).zip(&layouts[2..]);
    let given = parts
        .into_iter()
        .chain(to)
        .map(|(at, layout)| Arg::checked(at, layout));
    let given: Vec<Arg<'_>> = given.chain(combine::numbers(problem, plan)).collect();
    let order: Vec<usize> = [workspace; 3].into_iter().chain(outputs).collect();
    let combination = combine::launch(problem, plan);
    let second = launched(AttentionRole::Combination, combination, &given, &order)?;
    Ok(vec![first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{AttentionMethod, Mask};
    use colex_atom::{Arch, Ty};

    /// The addresses of what a plan's launches take: a mebibyte apart.
    fn addresses(count: u64) -> Vec<u64> {
        (1..=count).map(|i| i << 20).collect()
    }

    #[test]
    fn launches_have_an_argument_for_each_parameter_and_the_addresses_given() {
        let device = Device::simulator(Arch::Sm90a);
        let mut packed = AttentionProblem::new(Ty::Bf16, 30, [16, 16], [8192; 2], [128; 2]);
        packed.sequences = [Sequences::Packed { rows: 32768 }; 2];
        packed.strides = [[0, 128, 16 * 128, 1]; 4];
        let square = AttentionProblem::new(Ty::F16, 2, [8, 2], [300; 2], [64; 2]);
        let mut all = square.mask(Mask::Causal);
        (all.log_sum_exp, all.sinks) = (true, Some(1));
        let decode = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 9000], [64; 2]);
        let cases = [
            (square, 4, vec!["attention_sm90"]),
            (all, 6, vec!["attention_sm90"]),
            (decode, 5, vec!["attention_sm80", "attention_combine"]),
            (packed, 7, vec!["attention_schedule", "attention_sm90"]),
        ];
        for (problem, count, names) in cases {
            let at = addresses(count);
            let operands = AttentionOperands::of(&problem, [at[0], at[1], at[2], at[3]]);
            let plan = AttentionPlan::fastest(&problem, operands, Arch::Sm90a, 132);
            let plan = plan.expect("a plan");
            let launches = plan.launches(&problem, &device, &at).expect("launches");
            let found: Vec<&str> = launches
                .iter()
                .map(|of| &of.kernel.kernel.name[..])
                .collect();
            assert_eq!(found, names, "{problem}");
            let mut used = vec![false; at.len()];
            for one in &launches {
                assert_eq!(one.arguments.len(), one.kernel.kernel.params.len());
                for argument in &one.arguments {
                    let address = match argument {
                        Argument::Pointer(address) => *address,
                        Argument::TensorMap(map) => map.address,
                        _ => continue,
                    };
                    used[(address >> 20) as usize - 1] = true;
                }
            }
            assert_eq!(used, vec![true; at.len()], "{problem}");
        }
    }

    #[test]
    fn refused_addresses_say_what_would_be_right() {
        let device = Device::simulator(Arch::Sm80);
        let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 9000], [64; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
        let divided = AttentionPlan { splits: 4, ..plan };
        let refused = |plan: &AttentionPlan, at: &[u64]| {
            let launches = plan.launches(&problem, &device, at);
            launches.expect_err("they are refused").to_string()
        };
        let sentences = [
            refused(&plan, &[]),
            refused(&divided, &[0, 0, 0, 0, 128]),
            refused(&plan, &[0, 2, 0, 0]),
            refused(&divided, &[0, 0, 0, 0, u64::MAX - 255]),
        ];
        assert_eq!(
            sentences,
            [
                "0 addresses: the launches of the plan take 4",
                "address 4 is 128: it must be a multiple of 256",
                "the plan was made for another call: K is read by 8 elements in the plan and no more than 1 can be in the call",
                "the workspace of 8704 bytes begins at 18446744073709551360: it must end below 2^64",
            ]
        );
        // The vectors of a plan that sorts sequences lie there too.
        let device = Device::simulator(Arch::Sm90a);
        let mut packed = AttentionProblem::new(Ty::Bf16, 30, [16, 16], [8192; 2], [128; 2]);
        packed.sequences = [Sequences::Packed { rows: 32768 }; 2];
        packed.strides = [[0, 128, 16 * 128, 1]; 4];
        let operands = AttentionOperands::of(&packed, [0; 4]);
        let sorting = AttentionPlan::fastest(&packed, operands, Arch::Sm90a, 132).expect("a plan");
        assert!(sorting.sorted, "{sorting}");
        let at = [0, 0, 0, 0, 0, 0, u64::MAX - 255];
        let error = sorting
            .launches(&packed, &device, &at)
            .expect_err("refused");
        assert_eq!(
            error.to_string(),
            "the workspace of 512 bytes begins at 18446744073709551360: it must end below 2^64"
        );
        let device = Device::simulator(Arch::Sm80);
        let nothing = AttentionProblem::new(Ty::F16, 0, [8, 2], [1, 9000], [64; 2]);
        assert!(
            plan.launches(&nothing, &device, &[])
                .expect("none")
                .is_empty()
        );
    }
}
