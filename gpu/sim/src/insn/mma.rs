//! Matrix instructions on registers.

use std::sync::Arc;

use colex_atom::{GmmaOptions, MmaAtom};

use crate::lane::known::ProcessMemo;
use crate::lane::plan::{MmaOperand, Plan, Words};
use crate::machine::exec::{Exec, Flow};
use crate::report::fault::{Fault, FaultKind};
use crate::state::warp::{FULL, lanes};
use colex_ir::{Reg, ScaleD};

/// The tables of rows, by name and options.
static PLANS: ProcessMemo<(String, GmmaOptions), Plan> = ProcessMemo::new();

impl<'k> Exec<'_, '_, 'k> {
    /// The tables of the row, made when first asked for.
    pub(crate) fn plan(&mut self, atom: &MmaAtom) -> Result<Arc<Plan>, Fault> {
        if let Some(plan) = self.m.plans.get(&self.w.pc) {
            return Ok(plan.clone());
        }
        let plan = PLANS.get((atom.name(), atom.options()), || {
            let plan = Plan::new(atom).filter(|plan| plan.atom.is_executable());
            plan.ok_or_else(|| self.unsupported(format_args!("`{}`", atom.name())))
        })?;
        self.m.plans.insert(self.w.pc, plan.clone());
        Ok(plan)
    }

    /// One instruction: in each thread, in each quad-pair or in the warp.
    pub(crate) fn mma(
        &mut self,
        atom: &MmaAtom,
        operands: [&[Reg]; 5],
        scale_d: ScaleD,
        mask: u32,
    ) -> Result<Flow, Fault> {
        self.check_counts(atom, operands)?;
        if atom.b_in_shared() {
            return self.wgmma(atom, operands, scale_d, mask);
        }
        let [d, a, b, c, _] = operands;
        let plan = self.plan(atom)?;
        if plan.threads > 1 {
            self.collective(mask)?;
            self.whole_warp(mask)?;
        }
        let hopper = self.m.options.hopper_sums;
        if plan.is_real(hopper) {
            return self.product_of_reals(&plan, [d, a, b, c], mask);
        }
        let single: Vec<Vec<usize>> = match plan.threads {
            1 => lanes(mask).map(|lane| vec![lane]).collect(),
            _ => Vec::new(),
        };
        let teams = if plan.threads == 1 {
            &single
        } else {
            &plan.teams
        };
        let [a, b, c] = [
            self.words(a, mask)?,
            self.words(b, mask)?,
            self.words(c, mask)?,
        ];
        let wrong =
            |error: colex_atom::Error| self.fault_warp(FaultKind::Operand, error.to_string());
        let result = match &teams[..] {
            [whole] if whole.iter().copied().eq(0..32) => {
                product(&plan, hopper, &a, &b, &c).map_err(wrong)?
            }
            teams => {
                let mut result = Words::default();
                for team in teams {
                    let [a, b, c] = [&a, &b, &c].map(|words| words.of(team));
                    let words = product(&plan, hopper, &a, &b, &c).map_err(wrong)?;
                    result.set(32, team, &words);
                }
                result
            }
        };
        self.set_words(d, mask, &result)?;
        Ok(Flow::Next)
    }

    /// Multiplies floats that the lanes of each team hold.
    fn product_of_reals(
        &mut self,
        plan: &Plan,
        [d, a, b, c]: [&[Reg]; 4],
        mask: u32,
    ) -> Result<Flow, Fault> {
        let mut results = vec![[0u64; 32]; d.len()];
        for team in &plan.teams {
            let tile = |side: &MmaOperand, regs: &[Reg]| -> Result<Vec<f32>, Fault> {
                let mut tile = side.zeros();
                for (i, reg) in regs.iter().enumerate() {
                    let values = self.reg(*reg, mask)?;
                    let words = team.iter().map(|lane| values[*lane] as u32);
                    side.put(&mut tile, i, 0, words);
                }
                Ok(tile)
            };
            let [a, b, c] = [tile(&plan.a, a)?, tile(&plan.b, b)?, tile(&plan.c, c)?];
            let sums = plan.atom.multiply_reals_on_hopper(&a, &b, c);
            let sums =
                sums.map_err(|error| self.fault_warp(FaultKind::Operand, error.to_string()))?;
            for (i, result) in results.iter_mut().enumerate() {
                plan.c.take(&sums, i, 0, team, result);
            }
        }
        for (reg, values) in d.iter().zip(&results) {
            self.set(*reg, mask, values)?;
        }
        Ok(Flow::Next)
    }

    /// Refuses operands with another number of registers than the row's.
    fn check_counts(&self, atom: &MmaAtom, [d, a, b, c, e]: [&[Reg]; 5]) -> Result<(), Fault> {
        let row = atom.op();
        let row = row.map_err(|error| self.fault_warp(FaultKind::Operand, error.to_string()))?;
        let in_place = if row.is_async() { 0 } else { row.c.count };
        let counts = [
            ('D', d.len(), row.d.count),
            ('A', a.len(), row.a.count),
            ('B', b.len(), row.b.count),
            ('C', c.len(), in_place),
            ('E', e.len(), row.e.map_or(0, |e| e.count)),
        ];
        match counts
            .into_iter()
            .find(|(_, found, wanted)| found != wanted)
        {
            None => Ok(()),
            Some((name, found, wanted)) => {
                let what =
                    format!("operand {name} has {found} registers, and the row wants {wanted}");
                Err(self.fault_warp(FaultKind::Operand, what))
            }
        }
    }

    /// Refuses a warp with fewer than 32 threads.
    pub(crate) fn whole_warp(&self, mask: u32) -> Result<(), Fault> {
        match mask {
            FULL => Ok(()),
            mask => Err(self.fault_warp(
                FaultKind::Divergence,
                format!(
                    "it takes a warp of 32 threads, and this one has {}",
                    mask.count_ones()
                ),
            )),
        }
    }

    /// The registers of each lane side by side, in words of 32 bits.
    pub(crate) fn words(&self, regs: &[Reg], mask: u32) -> Result<Words, Fault> {
        let mut words = Words::new(32, 0);
        for reg in regs {
            let values = self.reg(*reg, mask)?;
            words.push(|lane| values[lane] as u32);
            if reg.ty.bits() == 64 {
                words.push(|lane| (values[lane] >> 32) as u32);
            }
        }
        Ok(words)
    }

    /// Writes registers from the words that each lane holds side by side.
    pub(crate) fn set_words(
        &mut self,
        regs: &[Reg],
        mask: u32,
        words: &Words,
    ) -> Result<(), Fault> {
        let mut at = 0;
        for reg in regs {
            let wide = reg.ty.bits() == 64;
            let word = |lane: usize, i: usize| u64::from(words.at(lane, i));
            let keep = crate::machine::exec::low(reg.ty.bits());
            let values: [u64; 32] = if wide {
                core::array::from_fn(|lane| word(lane, at) | word(lane, at + 1) << 32)
            } else {
                core::array::from_fn(|lane| word(lane, at) & keep)
            };
            at += if wide { 2 } else { 1 };
            self.set(*reg, mask, &values)?;
        }
        Ok(())
    }
}

/// `D = A B + C` on the words that threads hold.
fn product(
    plan: &Plan,
    hopper: bool,
    a: &Words,
    b: &Words,
    c: &Words,
) -> Result<Words, colex_atom::Error> {
    let [a, b, c] =
        [(&plan.a, a), (&plan.b, b), (&plan.c, c)].map(|(side, words)| side.gather(words));
    Ok(plan.c.scatter(&plan.multiply(hopper, &a, &b, &c)?))
}
