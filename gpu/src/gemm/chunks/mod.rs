//! Chunks of a product over ranks: the products of a batch whose mode is the rank, in an order that begins anywhere, each as soon
//! as it has arrived, and stored where its owner wants it.

pub(crate) mod arrivals;
pub(crate) mod call;
pub(crate) mod departures;

use colex_atom::{Arch, Reduction, TmaElement};
use colex_device::Device;
use colex_sched::pipeline::Schedule;
use colex_tensor::{Builder, Index};

use super::call::operands;
use super::choose::{Machine, is_invariant_whole, whole_plans};
use super::plan::{Division, GemmPlan, Operands};
use super::problem::MOST_EXTENT;
use crate::error::{Error, ErrorKind};
use crate::kernels::{GemmElement, GemmProblem};
use crate::method::GemmMethod;

/// The order in which a kernel takes the chunks of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkOrder {
    /// The first, the one after it, and so on; behind the last comes chunk 0.
    Ascending,
    /// The first, the one before it, and so on; before chunk 0 comes the last.
    Descending,
}

impl ChunkOrder {
    /// Returns the chunk that is taken at a step, of a number of chunks.
    ///
    /// ```
    /// use colex_gpu::gemm::ChunkOrder;
    ///
    /// let all = |order: ChunkOrder| [0, 1, 2, 3].map(|step| order.chunk(1, step, 4));
    /// assert_eq!(all(ChunkOrder::Ascending), [1, 2, 3, 0]);
    /// assert_eq!(all(ChunkOrder::Descending), [1, 0, 3, 2]);
    /// ```
    pub fn chunk(self, first: i64, step: i64, chunks: i64) -> i64 {
        let chunks = i128::from(chunks.max(1));
        let (first, step) = (i128::from(first), i128::from(step));
        let chunk = match self {
            ChunkOrder::Ascending => first + step,
            ChunkOrder::Descending => first - step,
        };
        chunk.rem_euclid(chunks) as i64
    }
}

/// What a kernel of chunks is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChunkForm {
    pub(crate) order: ChunkOrder,
    /// Whether the kernel waits for the flag of a chunk before it loads it.
    pub(crate) arrives: bool,
    /// The matrices of C, one for each chunk, if they have addresses of their own; else 0.
    pub(crate) owners: usize,
    /// Whether the kernel tells when a chunk of C is in memory.
    pub(crate) departs: bool,
    /// Whether the kernel adds each tile to what the owner's matrix holds, in place of a store.
    pub(crate) adds: bool,
    /// Whether the kernel leaves out the chunk that comes last.
    pub(crate) leaves_last: bool,
}

/// The chunks of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chunks {
    pub(crate) form: ChunkForm,
    /// The chunk that comes first.
    pub(crate) first: i64,
}

impl Chunks {
    /// The chunks that the kernel takes, of a number of them.
    pub(crate) fn taken(&self, count: i64) -> i64 {
        count - i64::from(self.form.leaves_last)
    }
}

pub(crate) fn refuse<T>(why: String) -> Result<T, Error> {
    let why = format!("chunks: {why}");
    Err(ErrorKind::Batch { why }.into())
}

/// The most owners of the chunks of C: a kernel has a tensor map of 128 bytes for each, of 4 KiB of parameters.
pub(crate) const MOST_OWNERS: usize = 16;

/// The chunk at a step in a kernel.
pub(crate) fn at(k: &mut Builder, order: ChunkOrder, [first, step, chunks]: [&Index; 3]) -> Index {
    // Registers, once for each tile: no proof finds the bounds of the chunk, so the kernel checks them in 64 bits, and would find the step
    // anew by divisions wherever it does.
    let step = k.value(step);
    let step = &k.index_of(step, 0..MOST_EXTENT);
    let chunk = match order {
        ChunkOrder::Ascending => {
            let chunk = first + step;
            Index::select_less(&chunk, chunks, &chunk, &(&chunk - chunks))
        }
        ChunkOrder::Descending => {
            let chunk = first - step;
            Index::select_less(&chunk, &0.into(), &(&chunk + chunks), &chunk)
        }
    };
    let chunk = k.within(chunk, 0..MOST_EXTENT);
    let chunk = k.value(&chunk);
    k.index_of(chunk, 0..MOST_EXTENT)
}

/// The microseconds that a kernel which tells what is stored takes more for each round of tiles: a warpgroup waits until TMA has written its part
/// to memory, and multiplies nothing meanwhile. By pingpong the other one multiplies. Of four H200, the overlapped times of five products
/// with a reduce-scatter, less those of the product, the sum and the start.
const DEPARTS: f64 = 4.5;
const DEPARTS_PINGPONG: f64 = 1.05;

/// The microseconds of a plan for a product in chunks, by the model: those of the batch, and the time in which a kernel that tells what is stored
/// waits for that.
pub(crate) fn microseconds(
    plan: &GemmPlan,
    problem: &GemmProblem,
    departs: bool,
    machine: Machine,
) -> f64 {
    let cost = plan.cost(problem, machine);
    let each = match plan.schedule {
        Schedule::Pingpong => DEPARTS_PINGPONG,
        _ => DEPARTS,
    };
    cost.total() + f64::from(departs) * each * cost.waves
}

/// The plan of a product in chunks: the one of the Hopper kernel's that divide no K with the least time of the work in chunks. With `form`, of those
/// that take such chunks, if there are any.
pub(crate) fn choose(
    problem: &GemmProblem,
    operands: Operands,
    device: (Arch, Machine),
    form: Option<ChunkForm>,
) -> GemmPlan {
    choose_among(problem, operands, device, form, |_| true)
}

/// The same of a batch-invariant product: of those that divide K as the plans for any number of rows do.
pub(crate) fn choose_invariant(
    problem: &GemmProblem,
    operands: Operands,
    device: (Arch, Machine),
    form: Option<ChunkForm>,
) -> GemmPlan {
    let is_same = is_same_for_all_rows(problem, operands, device, form);
    choose_among(problem, operands, device, form, is_same)
}

/// Whether a plan divides K as the plans of a batch-invariant product in such chunks do.
fn is_same_for_all_rows(
    problem: &GemmProblem,
    operands: Operands,
    device: (Arch, Machine),
    form: Option<ChunkForm>,
) -> impl Fn(&GemmPlan) -> bool {
    // One block has a tile of a kernel that tells what is stored.
    let has_tile = form.is_some_and(|form| form.departs);
    let is_taken = move |plan: &GemmPlan| {
        plan.method == GemmMethod::Hopper && !(has_tile && plan.cluster[2] > 1)
    };
    is_invariant_whole(problem, operands, device, is_taken)
}

/// The plans that a product with this number of rows may have in such chunks.
pub(crate) fn choosable(
    problem: &GemmProblem,
    operands: Operands,
    device: (Arch, Machine),
    form: Option<ChunkForm>,
    is_batch_invariant: bool,
) -> Vec<GemmPlan> {
    let all = if is_batch_invariant {
        let is_same = is_same_for_all_rows(problem, operands, device, form);
        plans_among(problem, operands, device, is_same)
    } else {
        plans_among(problem, operands, device, |_| true)
    };
    let takes = |plan: &GemmPlan| form.is_none_or(|form| check(plan, form).is_ok());
    let taken: Vec<_> = all.iter().copied().filter(takes).collect();
    if taken.is_empty() { all } else { taken }
}

/// The plans of the list for products whose tiles are whole, of those that `is_wanted` takes.
fn plans_among(
    problem: &GemmProblem,
    operands: Operands,
    (arch, machine): (Arch, Machine),
    is_wanted: impl Fn(&GemmPlan) -> bool,
) -> Vec<GemmPlan> {
    // A kernel that divides no tile is that of K whole.
    let late = |plan: GemmPlan| GemmPlan {
        early: false,
        split: 1,
        division: Division::SplitK,
        undivided: 0,
        ..plan
    };
    let all = whole_plans(problem, operands, arch, machine).map(late);
    all.filter(|plan| plan.method == GemmMethod::Hopper && is_wanted(plan))
        .collect()
}

/// The same of those plans of the list that `is_wanted` takes.
fn choose_among(
    problem: &GemmProblem,
    operands: Operands,
    (arch, machine): (Arch, Machine),
    form: Option<ChunkForm>,
    is_wanted: impl Fn(&GemmPlan) -> bool,
) -> GemmPlan {
    let departs = form.is_some_and(|form| form.departs);
    let all = plans_among(problem, operands, (arch, machine), is_wanted);
    let takes = |plan: &&GemmPlan| form.is_none_or(|form| check(plan, form).is_ok());
    let time = |plan: &GemmPlan| microseconds(plan, problem, departs, machine);
    let least = |x: &&GemmPlan, y: &&GemmPlan| time(x).total_cmp(&time(y));
    let best = all.iter().filter(takes).min_by(least);
    let best = best.or_else(|| all.iter().min_by(least)).copied();
    best.unwrap_or_else(|| GemmPlan::new(GemmMethod::Hopper, operands))
}

/// Whether a kernel takes a product of row-major matrices without gaps in chunks, at any addresses that the library allocates.
///
/// # Errors
///
/// Returns an error that says why not.
pub(crate) fn takes<T: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
    form: ChunkForm,
    device: &Device,
) -> Result<(), Error> {
    let operands = operands::<T, C>(problem, [256; 3], &Default::default());
    let machine = Machine::of(device.rates());
    let plan = choose(problem, operands, (device.arch(), machine), Some(form));
    plan.check(device.arch())?;
    check(&plan, form)
}

/// Whether a plan's kernel takes chunks.
///
/// # Errors
///
/// Returns an error that says why not.
pub(crate) fn check(plan: &GemmPlan, form: ChunkForm) -> Result<(), Error> {
    if plan.method != GemmMethod::Hopper {
        return refuse(format!(
            "the {} kernel has one block for each tile, and takes chunks in the order of their numbers: the Hopper kernel takes \
             them in any order",
            plan.method
        ));
    }
    if plan.split > 1 {
        return refuse(format!(
            "the plan divides K among {} clusters, whose parts {}: chunks have whole sums",
            plan.split,
            plan.adder()
        ));
    }
    if plan.early {
        return refuse(
            "the plan begins early: blocks that wait would keep multiprocessors from the kernels that bring the chunks"
                .to_string(),
        );
    }
    if form.departs {
        if !plan.stored().stages_c() {
            return refuse(
                "the kernel tells when chunks of C are in memory, and the plan's threads store them: rows of whole vectors of 16 bytes are \
                 stored by TMA, which says when"
                    .to_string(),
            );
        }
        if plan.cluster[2] > 1 {
            return refuse(format!(
                "the kernel tells when chunks of C are in memory, and {} blocks of a cluster divide K: one block has a tile",
                plan.cluster[2]
            ));
        }
    }
    if form.owners == 0 {
        return Ok(());
    }
    let stored = plan.stored();
    if !stored.stages_c() {
        return refuse(
            "C has an owner for each chunk, and the plan's threads store it: rows of whole vectors of 16 bytes are stored by TMA"
                .to_string(),
        );
    }
    if plan.operands.beta {
        return refuse(
            "C has an owner for each chunk, and is read: its factor must be 0".to_string(),
        );
    }
    let ty = stored.operands.c;
    let sum = TmaElement::try_from(ty).map(|element| element.reduced(Reduction::Add));
    if form.adds && !matches!(sum, Ok(Some(_))) {
        return refuse(format!(
            "the kernel adds to C of {ty}: TMA adds elements of f32, f16 and bf16"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use colex_device::Rates;
    use half::bf16;

    use super::super::choose::choose_whole;
    use super::*;

    fn chosen(problem: &GemmProblem, form: ChunkForm, machine: Machine) -> [GemmPlan; 2] {
        let operands = operands::<bf16, bf16>(problem, [256; 3], &Default::default());
        let arch = Arch::Sm90a;
        let whole = choose_whole(problem, operands, arch, machine);
        let chunks = choose(problem, operands, (arch, machine), Some(form));
        [whole, chunks]
    }

    const FORM: ChunkForm = ChunkForm {
        order: ChunkOrder::Ascending,
        arrives: false,
        owners: 0,
        departs: true,
        adds: false,
        leaves_last: false,
    };

    #[test]
    fn law_no_plan_for_chunks_is_slower_in_chunks_than_that_of_the_batch() {
        let machine = Machine::of(Rates::of(Arch::Sm90a));
        let (mut cases, mut others) = (0, 0);
        let extents = [64, 512, 1024, 2048, 4096];
        for m in extents {
            for n in [1024, 2560, 4096, 8192, 14336] {
                for k in [512, 2048, 3584, 8192] {
                    for departs in [false, true] {
                        let problem = GemmProblem {
                            batch: 4,
                            ..GemmProblem::new(m, n, k)
                        };
                        let form = ChunkForm { departs, ..FORM };
                        let [whole, chunks] = chosen(&problem, form, machine);
                        assert!(check(&chunks, form).is_ok(), "{problem:?} {chunks}");
                        let time = |plan: &GemmPlan| microseconds(plan, &problem, departs, machine);
                        let is_possible = check(
                            &GemmPlan {
                                early: false,
                                ..whole
                            },
                            form,
                        )
                        .is_ok();
                        if is_possible {
                            let whole = GemmPlan {
                                early: false,
                                ..whole
                            };
                            assert!(time(&chunks) <= time(&whole), "{problem:?} {chunks}");
                            others += usize::from(chunks != whole);
                        }
                        cases += 1;
                    }
                }
            }
        }
        println!("law ranks.choice_of_chunks: {cases} cases, {others} with another plan");
        assert!(others > 0);
    }

    /// Every plan for chunks, and for a product that waits for flags, is one that its kernel takes: also where a row of the list whose plans
    /// have two parts of K is the fastest with all tiles whole.
    #[test]
    fn law_kernels_take_every_plan_that_is_chosen_for_chunks() {
        let arch = Arch::Sm90a;
        let machine = Machine::of(Rates::of(arch));
        let waits = ChunkForm {
            departs: false,
            ..FORM
        };
        let (mut cases, mut whole_in_parts) = (0, 0);
        for m in [1, 24, 64, 100, 128, 200, 256, 384, 640, 1000, 1536, 2048] {
            for n in [64, 200, 512, 1024, 1536, 2560, 3072, 4096, 8192] {
                for k in [64, 256, 512, 1024, 4096] {
                    for (form, batch) in [(None, 1), (Some(waits), 4), (Some(FORM), 4)] {
                        let problem = GemmProblem {
                            batch,
                            ..GemmProblem::new(m, n, k)
                        };
                        let operands =
                            operands::<bf16, bf16>(&problem, [256; 3], &Default::default());
                        let plan = choose(&problem, operands, (arch, machine), form);
                        let checked = plan.check(arch);
                        assert!(checked.is_ok(), "{problem:?} {plan}: {checked:?}");
                        let checked = check(&plan, form.unwrap_or(waits));
                        assert!(checked.is_ok(), "{problem:?} {plan}: {checked:?}");
                        let mut of_list = whole_plans(&problem, operands, arch, machine);
                        let is_in_two = of_list.any(|of_list| {
                            let late = GemmPlan {
                                early: plan.early,
                                split: plan.split,
                                division: plan.division,
                                undivided: plan.undivided,
                                ..of_list
                            };
                            of_list.division == Division::SplitKFixup && late == plan
                        });
                        whole_in_parts += usize::from(is_in_two);
                        cases += 1;
                    }
                }
            }
        }
        println!("law ranks.plans_of_chunks: {cases} cases, {whole_in_parts} by rows of two parts");
        assert!(whole_in_parts > 0);
    }

    /// The product of a rank of 8192 x 4096 x 14336 over four: on H200s a tile of 128x256 is the faster one alone, and takes 424 us overlapped
    /// where pingpong of 128x128 takes 397.
    #[test]
    fn chunks_that_depart_are_stored_beside_the_products() {
        let machine = Machine::of(Rates::of(Arch::Sm90a));
        let problem = GemmProblem {
            batch: 4,
            ..GemmProblem::new(2048, 4096, 3584)
        };
        let [whole, chunks] = chosen(&problem, FORM, machine);
        assert_eq!((whole.tile[0], whole.tile[1]), (128, 256), "{whole}");
        assert_eq!((chunks.tile[0], chunks.tile[1]), (128, 128), "{chunks}");
        assert_eq!(chunks.schedule, Schedule::Pingpong, "{chunks}");
    }
}
