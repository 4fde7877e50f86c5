//! The scene of a warpgroup: a matrix product that reads shared memory while the warps go on.

use colex_atom::{GmmaDescriptor, mma};
use colex_ir::{Address, Compare, FenceKind, Reg, RegType, ScaleD, Type};
use colex_sim::FaultKind;

use super::super::helpers::{Dice, shared};
use super::sites::Site;
use super::stage::Stage;
use super::{Cast, HELD};

/// Rows and columns of A; B is its first 8 rows.
const ROWS: usize = 64;
const K: usize = 16;

/// Each thread writes 8 small numbers of a matrix of 64 by 16; D is that matrix by its first rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    held: [usize; 2],
}

impl Product {
    pub(super) fn random(dice: &mut Dice) -> Self {
        Product {
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let write = writes(s, s.held[self.held[0]]);
        if s.keeps(Site::new(
            "the fence before the product",
            &[FaultKind::MissingFence],
        )) {
            s.k.fence(FenceKind::ProxyAsyncShared);
        }
        if s.keeps(Site::new(
            "the meeting before the product",
            &[FaultKind::Race],
        )) {
            s.k.sync();
        }
        let stays = s.keeps(Site::new("the place of A", &[FaultKind::OutOfBounds]));
        let descriptor = describes(s, if stays { 0 } else { 0x1000 });
        let d = s.k.regs(RegType::F32, 4);
        // Registers that were never accessed need no fence, but the first product of all does.
        let first = s.products == 0;
        let kinds: &[FaultKind] = if first { &[FaultKind::InFlight] } else { &[] };
        s.products += 1;
        if s.keeps(Site::new("the fence of the registers", kinds)) {
            s.k.wgmma_fence();
        }
        let all = s.keeps(Site::new(
            "a warp of the product",
            &[FaultKind::Deadlock, FaultKind::Uninitialised],
        ));
        let last = s.k.setp(Compare::Lt, Type::U32, s.thread, 96);
        let atom = mma("SM90_64x8x16_F32F16F16_SS").unwrap();
        let mut issue = 0;
        let mut issues = |s: &mut Stage| {
            issue = line!() + 1;
            s.k.wgmma(&atom, &d, &[descriptor], descriptor, ScaleD::Zero);
        };
        if all {
            issues(s)
        } else {
            s.branch(last, issues, |_| {})
        }
        if s.keeps(Site::new(
            "the commit of the product",
            &[FaultKind::InFlight],
        )) {
            s.k.wgmma_commit();
        }
        let waits = s.keeps(Site::new(
            "the wait for the product",
            &[FaultKind::InFlight],
        ));
        let wait = line!() + 2;
        if waits {
            s.k.wgmma_wait(0);
        }
        let (mut sum, mut read) = (s.k.mov(Type::U32, 0), 0);
        for (factor, d) in [1, 3, 5, 7].into_iter().zip(d) {
            read = line!() + 1;
            let x = s.k.cvt(Type::U32, Type::F32, d);
            sum = s.k.mad(Type::U32, x, factor, sum);
        }
        let begin = s.sites.len() - 7;
        for (site, lines) in s.sites[begin..].iter_mut().zip([
            vec![issue],
            vec![write, issue],
            vec![issue],
            vec![issue],
            vec![wait, read],
            vec![read],
            vec![read],
        ]) {
            site.lines = lines;
        }
        s.hold(self.held[1], sum);
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let threads = cast.world.threads() as usize;
        let new: Vec<u32> = (0..cast.held.len())
            .map(|thread| {
                let first = thread / threads * threads;
                let block = &cast.held[first..first + threads];
                let (warp, lane) = (thread % threads / 32, thread % 32);
                (0..4)
                    .map(|i| {
                        let (row, column) =
                            (16 * warp + lane / 4 + i / 2 * 8, 2 * (lane % 4) + i % 2);
                        let at = |row| (0..K).map(move |k| self.number(block, row, k));
                        let product: u32 = at(row).zip(at(column)).map(|(a, b)| a * b).sum();
                        (2 * i as u32 + 1) * product
                    })
                    .sum()
            })
            .collect();
        cast.set(self.held[1], |_, thread| new[thread]);
    }

    /// An element of the matrix: matrices of 8 by 8 lie one after the other, two for each 8 rows.
    fn number(self, block: &[[u32; HELD]], row: usize, k: usize) -> u32 {
        assert!(row < ROWS);
        let thread = row / 8 * 16 + k / 8 * 8 + row % 8;
        block[thread][self.held[0]] >> (4 * (k % 8)) & 7
    }
}

/// Each thread writes the lowest bits of the digits of a value; the line.
fn writes(s: &mut Stage, x: Reg) -> u32 {
    let here = s.slot(s.thread, 16);
    let mut line = 0;
    for i in 0..8 {
        let digit = s.k.shr(Type::U32, x, 4 * i);
        let digit = s.k.and(Type::B32, digit, 7);
        let half = s.k.cvt(Type::F16, Type::U32, digit);
        line = line!() + 1;
        s.k.store(shared(Type::F16), Address::from(here).at(2 * i), half);
    }
    line
}

/// The descriptor of the tile, `further` times 16 bytes further on.
fn describes(s: &mut Stage, further: i64) -> Reg {
    let rows = GmmaDescriptor {
        start: 0,
        leading: 128,
        stride: 256,
        ..GmmaDescriptor::default()
    };
    let bits = rows.encode().unwrap() as i64 + further;
    // Above these bits an address names the block of the cluster.
    let inside = s.k.and(Type::B32, s.base, 0x3_ffff);
    let start = s.k.shr(Type::U32, inside, 4);
    let start = s.k.cvt(Type::U64, Type::U32, start);
    s.k.add(Type::U64, start, bits)
}
