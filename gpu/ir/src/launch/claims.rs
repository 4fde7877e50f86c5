//! Checks of a launch against the claims of a kernel's accesses.

use std::sync::Mutex;

use super::{AXES, Argument, Error, ErrorKind, Launch, Outside};
use crate::Kernel;
use crate::claims::{Around, Bound, Certain, Claim, Declared, Expression, Value};
use crate::operand::{ParamId, Reg, Special};

/// The number of innermost loops whose first and last iterations are combined in every way. The loops around them are all in
/// their first iteration, or all in their last one.
pub const FREE_LOOPS: usize = 3;

/// The number of accepted launches that are remembered.
const REMEMBERED: usize = 8;

/// The claims of a kernel that a launch can decide: those of accesses and declarations that certainly run, in the first and
/// the last block.
///
/// No check walks the grid. A claim is evaluated in the corners of the grid, in the threads that reach farthest, and in
/// the first and the last iteration of each loop. These threads do run, so no correct launch is refused. A coordinate
/// that grows with the index of the block is largest in a corner, and one that grows with every loop counter in the last
/// iteration of all loops. Of more than three nested loops, the outer ones are evaluated in their last iterations together
/// and in their first iterations together.
///
/// A launch misses what no corner shows: branches on values that the kernel reads, on the number of the block or on
/// predicates from [`crate::KernelBuilder`], variables, loops that a `break` leaves early or that begin at the number of the
/// block, and orders of tiles that turn back. The builder of tensors inserts a conditional [`crate::Control::Trap`] before
/// such an access, which makes the same claim: the simulator names what is outside, and a GPU ends the grid with an error.
#[derive(Debug, Default)]
pub struct LaunchClaims {
    claims: Vec<(Claim, Certain)>,
    /// The parameters that they read.
    parameters: Vec<usize>,
    /// The shapes and arguments of launches that passed.
    passed: Mutex<Vec<Vec<i64>>>,
}

impl LaunchClaims {
    /// Returns the claims of a kernel that a launch can decide.
    pub fn of(kernel: &Kernel) -> LaunchClaims {
        let mut claims: Vec<(Claim, Certain)> = Vec::new();
        for claim in &kernel.claims {
            let Some(certain) = &claim.certain else {
                continue;
            };
            let is_known = |(known, when): &(Claim, Certain)| {
                known.bounds == claim.bounds && known.declared == claim.declared && when == certain
            };
            let is_empty = claim.bounds.is_empty() && claim.declared.is_none();
            if !is_empty && !claims.iter().any(is_known) {
                claims.push((claim.clone(), certain.clone()));
            }
        }
        let mut parameters = Vec::new();
        for (claim, certain) in &claims {
            visit(claim, certain, &mut |expression| {
                parameters.extend(expression.values().filter_map(|value| match value {
                    Value::Parameter { id, .. } => Some(id.0 as usize),
                    Value::Special(_) | Value::Register { .. } => None,
                }));
            });
        }
        parameters.sort_unstable();
        parameters.dedup();
        LaunchClaims {
            claims,
            parameters,
            passed: Mutex::new(Vec::new()),
        }
    }

    /// Checks that no access of the launch certainly lies outside of its tensor. A launch that equals one of the last
    /// accepted ones is only looked up.
    ///
    /// # Errors
    ///
    /// Returns an error whose [`Error::outside`] describes the access.
    pub fn check(&self, launch: &Launch, arguments: &[Argument]) -> Result<(), Error> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let shape = [launch.grid, launch.block, launch.cluster];
        let shape = shape.iter().flatten().chain([&launch.dynamic_shared]);
        let shape = shape.map(|extent| i64::from(*extent));
        let given = self.parameters.iter();
        let given = given.map(|at| {
            arguments
                .get(*at)
                .and_then(|a| number(a, true))
                .unwrap_or(0)
        });
        let key = || shape.clone().chain(given.clone());
        let passed = self.passed.lock();
        let mut passed = passed.unwrap_or_else(std::sync::PoisonError::into_inner);
        if passed.iter().any(|known| known.iter().copied().eq(key())) {
            return Ok(());
        }
        for (claim, certain) in &self.claims {
            check(claim, certain, launch, arguments)?;
        }
        if passed.len() == REMEMBERED {
            passed.remove(0);
        }
        passed.push(key().collect());
        Ok(())
    }
}

/// Visits every expression of a claim.
fn visit<'a>(claim: &'a Claim, certain: &'a Certain, visit: &mut dyn FnMut(&'a Expression)) {
    for around in &certain.around {
        around.visit(visit);
    }
    claim.visit(visit);
}

/// An argument as an integer.
fn number(argument: &Argument, signed: bool) -> Option<i64> {
    match *argument {
        Argument::U16(x) => Some(if signed {
            i64::from(x as i16)
        } else {
            i64::from(x)
        }),
        Argument::U32(x) => Some(if signed {
            i64::from(x as i32)
        } else {
            i64::from(x)
        }),
        Argument::U64(x) | Argument::Pointer(x) => Some(x as i64),
        Argument::F32(_) | Argument::F64(_) | Argument::TensorMap(_) => None,
    }
}

/// The values that one thread of a launch knows.
struct Place<'a> {
    launch: &'a Launch,
    arguments: &'a [Argument],
    block: [u32; 3],
    thread: u32,
    counters: Vec<(Reg, i64)>,
    /// The number of loops around the access, and whether the outer ones are in their last iteration.
    loops: usize,
    is_last: bool,
}

impl Place<'_> {
    fn value(&self, value: Value) -> Option<i64> {
        match value {
            Value::Special(special) => self.special(special),
            Value::Parameter {
                id: ParamId(at),
                signed,
            } => number(self.arguments.get(at as usize)?, signed),
            Value::Register { reg, .. } => {
                let mut counters = self.counters.iter().rev();
                counters
                    .find(|(counter, _)| *counter == reg)
                    .map(|(_, now)| *now)
            }
        }
    }

    fn special(&self, special: Special) -> Option<i64> {
        let Launch {
            grid,
            block,
            cluster,
            dynamic_shared,
            cooperative: _,
        } = *self.launch;
        let at = |of: [u32; 3], axis: u8| of.get(usize::from(axis)).map(|x| i64::from(*x));
        let per = |a: [u32; 3]| [0, 1, 2].map(|axis| a[axis] / cluster[axis].max(1));
        let within = [0, 1, 2].map(|axis| self.block[axis] % cluster[axis].max(1));
        match special {
            Special::Tid(axis) => {
                let [x, y] = [block[0].max(1), block[1].max(1)];
                at(
                    [self.thread % x, self.thread / x % y, self.thread / x / y],
                    axis,
                )
            }
            Special::NTid(axis) => at(block, axis),
            Special::Ctaid(axis) => at(self.block, axis),
            Special::NCtaid(axis) => at(grid, axis),
            Special::LaneId => Some(i64::from(self.thread % 32)),
            Special::ClusterCtaRank => {
                let [x, y, z] = within.map(i64::from);
                let [i, j, _] = cluster.map(i64::from);
                Some(x + i * (y + j * z))
            }
            Special::ClusterNCtaRank => Some(self.launch.cluster_blocks() as i64),
            Special::ClusterCtaid(axis) => at(within, axis),
            Special::ClusterNCtaid(axis) => at(cluster, axis),
            Special::ClusterId(axis) => at(per(self.block), axis),
            Special::NClusterId(axis) => at(per(grid), axis),
            Special::DynamicSharedSize => Some(i64::from(dynamic_shared)),
            Special::Clock64 | Special::GlobalTimer | Special::SmId => None,
        }
    }

    /// What breaks the claim, in the first and the last turn of each loop.
    fn outside<'a>(&mut self, claim: &'a Claim, around: &[Around]) -> Option<Broken<'a>> {
        let Some((first, rest)) = around.split_first() else {
            let value = |value| self.value(value);
            let declared = claim.declared.as_ref();
            let declared = declared.and_then(|d| Some(Broken::Declared(d, d.broken(&value)?)));
            return declared.or_else(|| {
                claim.bounds.iter().find_map(|bound| {
                    let (coordinate, extent) = bound.outside(&value)?;
                    Some(Broken::Bound(bound, coordinate, extent))
                })
            });
        };
        match first {
            Around::Branch(test, wanted) => {
                let holds = test.holds(&|value| self.value(value));
                (holds == Some(*wanted)).then(|| self.outside(claim, rest))?
            }
            Around::Loop {
                counter,
                start,
                end,
                step,
            } => {
                let [start, end, step] =
                    [start, end, step].map(|e| e.evaluate(&|value| self.value(value)));
                let (start, end, step) = (start?, end?, step?);
                if start >= end || step < 1 {
                    return None;
                }
                let turns = (end - 1).saturating_sub(start) / step;
                let last = start.saturating_add(turns * step);
                let both = [last, start];
                let turns = if self.loops - self.counters.len() > FREE_LOOPS {
                    // One of them: the last or the first.
                    let one = usize::from(!self.is_last);
                    &both[one..=one]
                } else if last == start {
                    &both[..1]
                } else {
                    &both[..]
                };
                turns.iter().find_map(|&now| {
                    self.counters.push((*counter, now));
                    let found = self.outside(claim, rest);
                    self.counters.pop();
                    found
                })
            }
        }
    }
}

/// What a place of a launch breaks of a claim.
#[derive(Clone, Copy)]
enum Broken<'a> {
    /// The coordinate that is reached, and the extent.
    Bound(&'a Bound, i64, i64),
    /// The integer.
    Declared(&'a Declared, i64),
}

impl Broken<'_> {
    /// How far the integer is from what was claimed.
    fn by(&self) -> i64 {
        match self {
            Broken::Bound(_, at, extent) => {
                (at.saturating_sub(*extent).saturating_add(1)).max(at.saturating_neg())
            }
            Broken::Declared(declared, value) => (value.saturating_sub(declared.range.1))
                .max(declared.range.0.saturating_sub(*value)),
        }
    }
}

/// Whether a claim holds in the corners of the grid.
fn check(
    claim: &Claim,
    certain: &Certain,
    launch: &Launch,
    arguments: &[Argument],
) -> Result<(), Error> {
    let mut moves = [false; 3];
    visit(claim, certain, &mut |expression| {
        for value in expression.values() {
            match value {
                Value::Special(Special::Ctaid(axis)) => moves[usize::from(axis.min(2))] = true,
                Value::Special(
                    Special::ClusterCtaRank | Special::ClusterCtaid(_) | Special::ClusterId(_),
                ) => moves = [true; 3],
                Value::Special(_) | Value::Parameter { .. } | Value::Register { .. } => {}
            }
        }
    });
    let around = &certain.around;
    let is_loop = |around: &&Around| matches!(around, Around::Loop { .. });
    let loops = around.iter().filter(is_loop).count();
    let outside = |block: [u32; 3], thread: u32| {
        let mut place = Place {
            launch,
            arguments,
            block,
            thread,
            counters: Vec::new(),
            loops,
            is_last: true,
        };
        let found = place.outside(claim, around);
        place.is_last = false;
        found.or_else(|| (loops > FREE_LOOPS).then(|| place.outside(claim, around))?)
    };
    let last = [0, 1, 2].map(|axis| launch.grid[axis].saturating_sub(1));
    // Bit by bit whether the block is the first along an axis.
    for corner in 0..8u32 {
        let is_first = |axis: usize| corner >> axis & 1 == 1;
        if (0..3).any(|axis| is_first(axis) && (!moves[axis] || last[axis] == 0)) {
            continue;
        }
        let block = [0, 1, 2].map(|axis| {
            let stays = is_first(axis) || !moves[axis];
            if stays { 0 } else { last[axis] }
        });
        let threads = certain.threads.iter();
        let found = threads.filter_map(|thread| Some((outside(block, *thread)?, *thread)));
        // The one that is farthest from the tensor.
        let worst = found.max_by_key(|(broken, _)| broken.by());
        let Some((broken, thread)) = worst else {
            continue;
        };
        let at = claim.at;
        return Err(match broken {
            Broken::Bound(bound, coordinate, extent) => {
                let fewer = |axis| most(axis, block, |block| outside(block, thread).is_some());
                let mut axes = (0..3).filter(|axis| moves[*axis] && block[*axis] > 0);
                let most = (coordinate >= 0).then(|| axes.find_map(fewer)).flatten();
                ErrorKind::Outside(Outside {
                    tensor: bound.tensor.clone(),
                    mode: bound.mode,
                    coordinate,
                    extent,
                    block,
                    most,
                    at,
                })
            }
            Broken::Declared(declared, value) => ErrorKind::Declared {
                value,
                declared: declared.to_string(),
                block,
                at,
            },
        }
        .into());
    }
    Ok(())
}

/// The most blocks along an axis that stay inside, where the first does and the last does not.
fn most(axis: usize, block: [u32; 3], outside: impl Fn([u32; 3]) -> bool) -> Option<(char, u32)> {
    let at = |x: u32| {
        let mut block = block;
        block[axis] = x;
        block
    };
    if outside(at(0)) {
        return None;
    }
    let (mut inside, mut beyond) = (0, block[axis]);
    while beyond - inside > 1 {
        let middle = inside + (beyond - inside) / 2;
        if outside(at(middle)) {
            beyond = middle;
        } else {
            inside = middle;
        }
    }
    Some((AXES[axis], beyond))
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::claims::Term;
    use crate::{KernelBuilder, ParamType, Type};
    use colex_atom::Arch;

    /// A claim of thread 0 about parameters.
    fn claiming(claim: impl FnOnce([Expression; 2]) -> Claim) -> LaunchClaims {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        let parameters = ["a", "b"].map(|name| {
            let id = k.parameter(name, ParamType::Scalar(Type::S64));
            Expression::value(Value::Parameter { id, signed: true })
        });
        k.claim(claim(parameters));
        LaunchClaims::of(&k.finish())
    }

    fn declared(value: Expression, range: (i64, i64)) -> Claim {
        Claim {
            bounds: Vec::new(),
            declared: Some(Declared {
                value,
                range,
                multiple: 1,
            }),
            certain: Some(Certain {
                around: Vec::new(),
                threads: vec![0, 1],
            }),
            at: Location::caller(),
        }
    }

    fn said(claims: &LaunchClaims, launch: &Launch, given: [i64; 2]) -> Result<(), String> {
        let given = given.map(|x| Argument::U64(x as u64));
        let found = claims.check(launch, &given);
        found.map_err(|error| error.to_string())
    }

    /// An accepted launch is not accepted again with other dynamic shared memory, of which a claim speaks.
    #[test]
    fn dynamic_shared_memory_makes_another_launch() {
        let size = Expression::value(Value::Special(Special::DynamicSharedSize));
        let claims = claiming(|_| declared(size, (0, 1000)));
        let launch = Launch::new(1, 32);
        assert_eq!(said(&claims, &launch.dynamic_shared(1000), [0; 2]), Ok(()));
        let more = said(&claims, &launch.dynamic_shared(1001), [0; 2]);
        assert!(more.is_err_and(|said| said.starts_with("an integer is 1001 ")));
        assert_eq!(said(&claims, &launch.dynamic_shared(1000), [0; 2]), Ok(()));
    }

    /// A number that does not fit 64 bits is refused, and so is one at their end, in both directions.
    #[test]
    fn law_numbers_beyond_64_bits_are_refused() {
        let ends = [i64::MIN, i64::MIN + 1, -5, 0, 7, i64::MAX - 1, i64::MAX];
        let launch = Launch::new(1, 32);
        let mut cases = 0;
        for (a, b) in ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b))) {
            let (x, y) = (i128::from(a), i128::from(b));
            for (term, exact) in [
                (Term::Add, x + y),
                (Term::Multiply, x * y),
                (Term::Minimum, x.min(y)),
            ] {
                let claims =
                    claiming(|[a, b]| declared(a.binary(term, &b), (i64::MIN + 1, i64::MAX - 1)));
                let is_right = i128::from(i64::MIN) < exact && exact < i128::from(i64::MAX);
                assert_eq!(
                    said(&claims, &launch, [a, b]).is_ok(),
                    is_right,
                    "{term:?} of {a} and {b}"
                );
                let claims = claiming(|[a, b]| Claim {
                    bounds: vec![Bound {
                        tensor: "t".to_string(),
                        mode: 0,
                        low: Some(a.clone().binary(term, &b)),
                        high: a.binary(term, &b),
                        extent: Expression::number(8),
                    }],
                    declared: None,
                    ..declared(Expression::number(0), (0, 0))
                });
                let is_inside = (0..8).contains(&exact);
                assert_eq!(
                    said(&claims, &launch, [a, b]).is_ok(),
                    is_inside,
                    "{term:?} of {a} and {b}"
                );
                cases += 2;
            }
        }
        // What nothing knows is no number: only the kernel sees it.
        let claims = claiming(|[a, _]| {
            let clock = Expression::value(Value::Special(Special::Clock64));
            declared(a.binary(Term::Add, &clock), (0, 0))
        });
        assert_eq!(said(&claims, &launch, [i64::MAX; 2]), Ok(()));
        println!("law claims.overflow: {cases} cases");
    }
}
