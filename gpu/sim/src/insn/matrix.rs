//! `ldmatrix`, `stmatrix` and `movmatrix`: 8 by 8 elements of 16 bits, spread over a warp as the row says.

use std::sync::Arc;

use colex_atom::{CopyAtom, Route, Space as At};

use crate::lane::known::ProcessMemo;
use crate::lane::plan::Routes;
use crate::machine::exec::Exec;
use crate::machine::port::Accessor;
use crate::order::clock::Proxy;
use crate::report::fault::{Fault, FaultKind};
use crate::state::warp::lanes;
use colex_ir::{CopyArgs, End, Reg, Space};

/// The bytes of a row of a matrix.
const ROW: usize = 16;

/// The routes of rows, by name and spaces.
static ROUTES: ProcessMemo<(String, [At; 2]), Routes> = ProcessMemo::new();

impl Exec<'_, '_, '_> {
    /// The row's routes in values of 16 bits, made when first asked for.
    fn routes(&mut self, atom: &CopyAtom) -> Result<Arc<Routes>, Fault> {
        if let Some(routes) = self.m.routes.get(&self.w.pc) {
            return Ok(routes.clone());
        }
        let routes = ROUTES.get((atom.name(), [atom.from(), atom.to()]), || {
            let routes = atom.routes(16).map(Routes::new);
            routes.map_err(|e| self.fault_warp(FaultKind::Operand, e.to_string()))
        })?;
        self.m.routes.insert(self.w.pc, routes.clone());
        Ok(routes)
    }

    pub(crate) fn load_matrix(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        mask: u32,
    ) -> Result<(), Fault> {
        self.collective(mask)?;
        self.whole_warp(mask)?;
        let (End::Regs(d), End::Memory(a)) = (&args.dst, &args.src) else {
            return Err(self.fault_warp(FaultKind::Operand, "it goes from memory to registers"));
        };
        let routes = self.routes(atom)?;
        let addresses = self.address(a, mask)?;
        self.count(Space::Shared, &addresses, ROW, routes.givers);
        let mut rows = [[0u8; ROW]; 32];
        for lane in lanes(routes.givers) {
            let target = self.target(Space::Shared, addresses[lane], ROW, ROW, lane)?;
            let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
            self.m.read(self.g, &accessor, target, &mut rows[lane])?;
        }
        let value = |route: &Route| {
            let row = &rows[route.thread];
            u64::from(u16::from_le_bytes([
                row[2 * route.value],
                row[2 * route.value + 1],
            ]))
        };
        self.scatter_halves(d, &routes, value, mask)
    }

    pub(crate) fn move_matrix(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        mask: u32,
    ) -> Result<(), Fault> {
        self.collective(mask)?;
        self.whole_warp(mask)?;
        let (End::Regs(d), End::Regs(s)) = (&args.dst, &args.src) else {
            return Err(self.fault_warp(FaultKind::Operand, "it goes from registers to registers"));
        };
        let routes = self.routes(atom)?;
        let sources = self.words(s, mask)?;
        let value = |route: &Route| {
            let word = sources.at(route.thread, route.value / 2);
            u64::from(word >> (16 * (route.value % 2)) & 0xffff)
        };
        self.scatter_halves(d, &routes, value, mask)
    }

    /// Writes registers of two values each.
    fn scatter_halves(
        &mut self,
        d: &[Reg],
        routes: &Routes,
        value: impl Fn(&Route) -> u64,
        mask: u32,
    ) -> Result<(), Fault> {
        self.words_only(d)?;
        for (i, reg) in d.iter().enumerate() {
            let mut values = [0; 32];
            for lane in lanes(mask) {
                if let Some(Some([low, high])) = routes.of[lane]
                    .as_ref()
                    .map(|routes| routes.get(2 * i..2 * i + 2))
                    .map(|pair| pair.and_then(|pair| <&[Route; 2]>::try_from(pair).ok()))
                {
                    values[lane] = value(low) | value(high) << 16;
                }
            }
            self.set(*reg, mask, &values)?;
        }
        Ok(())
    }

    pub(crate) fn store_matrix(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        mask: u32,
    ) -> Result<(), Fault> {
        self.collective(mask)?;
        self.whole_warp(mask)?;
        let (End::Memory(a), End::Regs(s)) = (&args.dst, &args.src) else {
            return Err(self.fault_warp(FaultKind::Operand, "it goes from registers to memory"));
        };
        self.words_only(s)?;
        let routes = self.routes(atom)?;
        let sources = self.words(s, mask)?;
        let addresses = self.address(a, mask)?;
        self.count(Space::Shared, &addresses, ROW, routes.takers);
        for lane in lanes(routes.takers) {
            let target = self.target(Space::Shared, addresses[lane], ROW, ROW, lane)?;
            let mut row = Vec::with_capacity(ROW);
            for route in routes.of[lane].iter().flatten() {
                let word = sources.at(route.thread, route.value / 2);
                row.extend(((word >> (16 * (route.value % 2))) as u16).to_le_bytes());
            }
            let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
            self.m.write(self.g, &accessor, target, &row)?;
        }
        Ok(())
    }
}
