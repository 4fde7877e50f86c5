//! Matrix products of a warpgroup, which read shared memory while the warps go on.

use std::rc::Rc;
use std::sync::Arc;

use colex_atom::MmaAtom;

use crate::lane::plan::{Plan, Words};
use crate::machine::exec::{Exec, Flow};
use crate::machine::port::{Site, tick};
use crate::order::clock::Proxy;
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::pending::{Pending, Product, WarpOperands, Work};
use crate::state::wait::Wait;
use crate::state::warp::Warp;
use colex_ir::{Reg, ScaleD};

impl Exec<'_, '_, '_> {
    /// Issues a product.
    pub(crate) fn wgmma(
        &mut self,
        atom: &MmaAtom,
        [d, a, b, _, e]: [&[Reg]; 5],
        scale_d: ScaleD,
        mask: u32,
    ) -> Result<Flow, Fault> {
        self.collective(mask)?;
        self.whole_warp(mask)?;
        let plan = self.plan(atom)?;
        let scale_d = self.scale_d(scale_d, mask)?;
        let in_registers = !atom.a_in_shared();
        let descriptor = |exec: &Self, regs: &[Reg], what: &str| match regs.first() {
            Some(reg) => exec.uniform((*reg).into(), what, mask),
            None => Ok(0),
        };
        let b = descriptor(self, b, "the descriptor of B")?;
        let (a_descriptor, a_words) = if in_registers {
            (0, self.async_read_words(a, mask)?)
        } else {
            (
                descriptor(self, a, "the descriptor of A")?,
                Words::default(),
            )
        };
        let metadata = match e.first() {
            Some(reg) => self.reg(*reg, mask)?.iter().map(|x| *x as u32).collect(),
            None => Vec::new(),
        };
        let held = if in_registers { a } else { &[][..] };
        let places = |regs: &[Reg]| -> Result<Vec<usize>, Fault> {
            regs.iter().map(|reg| self.slot(*reg)).collect()
        };
        let (slots, sources) = (places(d)?, places(held)?);
        self.check_fenced(d, held)?;
        self.check_shape(atom.mnk(), d, &slots)?;
        if scale_d {
            for reg in d {
                self.check_initialised(*reg, mask)?;
            }
        }
        let part = WarpOperands {
            scale_d,
            a: a_words,
            metadata,
            view: Rc::new(self.w.view.clone()),
        };
        let (number, engine) = self.join_product(&plan, d, [a_descriptor, b], part)?;
        for slot in slots.iter().chain(&sources) {
            self.w.busy[*slot] += 1;
        }
        sources
            .iter()
            .for_each(|slot| self.w.async_reads[*slot] += 1);
        self.w.products.open.push(crate::state::warp::InFlight {
            number,
            engine,
            slots,
            sources,
            shape: atom.mnk(),
            fences: self.w.fences,
            pc: self.w.pc,
        });
        self.w.products.issued += 1;
        self.record(|| EventKind::Product { number });
        tick(&mut self.w.view.seen, self.w.index);
        Ok(Flow::Yield)
    }

    /// The registers of A, which other products under way may read as well.
    fn async_read_words(&mut self, regs: &[Reg], mask: u32) -> Result<Words, Fault> {
        let mut set_aside = Vec::new();
        for reg in regs {
            let slot = self.slot(*reg)?;
            if self.w.busy[slot] == self.w.async_reads[slot] {
                set_aside.push((slot, std::mem::take(&mut self.w.busy[slot])));
            }
        }
        let words = self.words(regs, mask);
        // In reverse, for a register that is named twice.
        set_aside
            .into_iter()
            .rev()
            .for_each(|(slot, busy)| self.w.busy[slot] = busy);
        words
    }

    fn scale_d(&self, scale_d: ScaleD, mask: u32) -> Result<bool, Fault> {
        match scale_d {
            ScaleD::Zero => Ok(false),
            ScaleD::One => Ok(true),
            ScaleD::Pred(p) => match self.guard(p.into(), mask)? {
                0 => Ok(false),
                holds if holds == mask => Ok(true),
                _ => Err(self.fault_warp(
                    FaultKind::Divergence,
                    format!(
                        "the scale of D, {p}, holds in some threads of the warp and not in others"
                    ),
                )),
            },
        }
    }

    /// Registers that a product takes must not have been written since the last `wgmma.fence`.
    fn check_fenced(&self, d: &[Reg], a: &[Reg]) -> Result<(), Fault> {
        let unfenced = |reg: &&Reg| {
            let slot = self.m.program.slot(**reg).unwrap_or(0);
            self.w.busy[slot] == 0 && self.w.touched[slot] == self.w.fences
        };
        let found = match self.w.fences {
            1 => Some("no `wgmma.fence` precedes the first product".to_string()),
            _ => d.iter().chain(a).find(unfenced).map(|reg| {
                format!("register {reg} was written since the last `wgmma.fence`: one is missing before this product")
            }),
        };
        match found {
            Some(what) => Err(self.fault_warp(FaultKind::InFlight, what)),
            None => Ok(()),
        }
    }

    /// Products in flight that share accumulators follow each other without a `wgmma.fence` only if they have one shape
    /// (PTX ISA 9.7.15.7, `wgmma.fence`).
    fn check_shape(&self, shape: [i64; 3], d: &[Reg], slots: &[usize]) -> Result<(), Fault> {
        let fences = self.w.fences;
        let products = &self.w.products;
        let mut in_flight = products.open.iter().chain(products.groups.iter().flatten());
        let found = in_flight.find_map(|product| {
            let differs = product.shape != shape && product.fences == fences;
            let shared =
                differs.then(|| slots.iter().position(|slot| product.slots.contains(slot)));
            Some((product, shared.flatten()?))
        });
        let Some((product, place)) = found else {
            return Ok(());
        };
        let site = Site {
            pc: product.pc,
            ..Site::of(self.w, 0)
        };
        let ([m, n, k], reg) = (product.shape, d[place]);
        let what = format!(
            "register {reg} is an accumulator of {}, which is in flight and has the shape m{m}n{n}k{k}: between products of two \
             shapes, `wgmma.fence` is missing",
            self.m.described(&site)
        );
        Err(self.fault_warp(FaultKind::InFlight, what))
    }

    /// Adds this warp's part to the product that the warpgroup issues.
    fn join_product(
        &mut self,
        plan: &Arc<Plan>,
        d: &[Reg],
        descriptors: [u64; 2],
        part: WarpOperands,
    ) -> Result<(u64, (usize, u32)), Fault> {
        let in_block = self.w.first as usize / 32;
        let group = self.w.index - in_block % 4;
        let sequence = self.w.products.issued;
        let found = self.g.pending.iter().position(|p| match &p.work {
            Work::Product(product) => product.group == group && product.sequence == sequence,
            Work::Move(_) | Work::Arrive { .. } => false,
        });
        if let Some(index) = found {
            return self.join_at(index, in_block % 4, descriptors, part);
        }
        let (agent, clock) = match self.w.products.open.last() {
            Some(last) => last.engine,
            None => self.g.engine(self.w.now(), &self.w.view),
        };
        let number = self.g.next_operation;
        self.g.next_operation += 1;
        let mut product = Product {
            plan: plan.clone(),
            group,
            sequence,
            pc: self.w.pc,
            d: d.to_vec(),
            descriptors,
            parts: Default::default(),
        };
        let view = part.view.clone();
        product.parts[in_block % 4] = Some(part);
        self.g.pending.push(Pending {
            number,
            site: Site {
                whole: true,
                ..Site::of(self.w, 0)
            },
            agent,
            clock,
            proxy: Proxy::Async,
            view,
            warp: self.w.index,
            lockstep: self.w.lockstep.clone(),
            stalled: false,
            work: Work::Product(Box::new(product)),
        });
        Ok((number, (agent, clock)))
    }

    fn join_at(
        &mut self,
        index: usize,
        warp: usize,
        descriptors: [u64; 2],
        part: WarpOperands,
    ) -> Result<(u64, (usize, u32)), Fault> {
        let pc = self.w.pc;
        let operation = &mut self.g.pending[index];
        let (number, engine) = (operation.number, (operation.agent, operation.clock));
        let Work::Product(product) = &mut operation.work else {
            return Ok((number, engine));
        };
        let agrees = product.pc == pc && product.descriptors == descriptors;
        let first = product.parts.iter().flatten().next().map(|p| p.scale_d);
        let scale = part.scale_d;
        product.parts[warp] = Some(part);
        if agrees && first == Some(scale) {
            Ok((number, engine))
        } else {
            Err(self.fault_warp(
                FaultKind::Divergence,
                "the four warps of a warpgroup execute the same products with the same descriptors and scale, and this \
                 warp's differs from another's",
            ))
        }
    }

    /// `wgmma.commit_group`
    pub(crate) fn wgmma_commit(&mut self, mask: u32) -> Result<(), Fault> {
        self.collective(mask)?;
        let group = std::mem::take(&mut self.w.products.open);
        self.w.products.groups.push_back(group);
        Ok(())
    }

    /// `wgmma.wait_group`
    pub(crate) fn wgmma_wait(&mut self, pending: u32, mask: u32) -> Result<Flow, Fault> {
        self.collective(mask)?;
        let done = self
            .w
            .products
            .groups
            .len()
            .saturating_sub(pending as usize);
        let numbers = self.w.products.groups.iter().take(done).flatten();
        let numbers = numbers.map(|product| product.number).collect();
        Ok(Flow::Wait(Wait::Operations {
            numbers,
            read: false,
        }))
    }
}

impl Warp {
    /// After `wgmma.wait_group`: the registers of the groups that are complete may be touched.
    pub(crate) fn release_products(&mut self, pending: u32) {
        while self.products.groups.len() > pending as usize {
            let group = self.products.groups.pop_front().unwrap_or_default();
            for product in group {
                let (agent, clock) = product.engine;
                self.view.seen.raise(agent, clock);
                product
                    .slots
                    .iter()
                    .chain(&product.sources)
                    .for_each(|slot| self.busy[*slot] -= 1);
                product
                    .sources
                    .iter()
                    .for_each(|slot| self.async_reads[*slot] -= 1);
            }
        }
    }
}
