//! The lists of plans: what a call may choose among, at most 24 kernels for each type and order of the operands. A product with an
//! epilogue of the caller has a list of its own.
//!
//! Every plan of them multiplies on the simulator in adversarial schedules (`every_plan_of_the_list_multiplies`), and `ptxas` takes
//! the kernels without a warning, and spills as little as their samples say (`cargo xtask verify`).

use colex_atom::Arch;
use colex_ir::launch::Limits;
use colex_sched::pipeline::Schedule;
use colex_sched::{Order, RasterOrder};
use colex_tiled::Operand;

use super::{MOST_STAGES, stages};
use crate::gemm::gemv::gemv_tile;
use crate::gemm::plan::{Division, GemmPlan, Operands};
use crate::gemm::sm90::along_k;
use crate::kernels::Major;
use crate::method::GemmMethod;

/// A plan of the list: its tile, its units and what differs from the plain plan. The rest follows. The tile's extent along K
/// is that of 16-bit numbers: of others it has as many bytes.
#[derive(Clone, Copy)]
pub(super) struct Row {
    method: GemmMethod,
    tile: [i64; 3],
    units: [i64; 2],
    cluster: [i64; 3],
    schedule: Schedule,
    parts: RowParts,
    swap: bool,
    gather: bool,
    most_stages: i64,
    /// Whether its kernel serves several widths: a plan for each.
    has_widths: bool,
}

/// How the clusters of a plan of the list divide K.
#[derive(Clone, Copy, PartialEq)]
enum RowParts {
    /// Each tile has K whole.
    Whole,
    /// Into any number of parts, which a second kernel adds.
    Any,
    /// Into two, which the last warpgroup to arrive adds.
    Two,
}

/// A plan of Hopper's kernel with a number of consumers.
const fn hopper(tile: [i64; 3], consumers: i64) -> Row {
    Row {
        method: GemmMethod::Hopper,
        tile,
        units: [consumers, 1],
        cluster: [1; 3],
        schedule: Schedule::Cooperative,
        parts: RowParts::Whole,
        swap: false,
        gather: false,
        most_stages: MOST_STAGES,
        has_widths: false,
    }
}

/// A plan of Ampere's kernel, for small products of rows that no tensor map describes.
const fn ampere(tile: [i64; 3], units: [i64; 2]) -> Row {
    Row {
        method: GemmMethod::Ampere,
        units,
        ..hopper(tile, 1)
    }
}

/// A plan of the GEMV kernel with a number of threads along N, each with four columns. Where the right factor is contiguous along N,
/// a warp lies along N, and each thread has a vector of columns.
const fn gemv(threads: i64) -> Row {
    Row {
        method: GemmMethod::Gemv,
        units: [1, threads],
        ..hopper([1, 4, 4], 1)
    }
}

impl Row {
    const fn cluster(self, cluster: [i64; 3]) -> Row {
        Row { cluster, ..self }
    }

    /// Two consumers follow the pingpong schedule.
    const fn pingpong(self) -> Row {
        Row {
            schedule: Schedule::Pingpong,
            ..self
        }
    }

    const fn split(self) -> Row {
        Row {
            parts: RowParts::Any,
            ..self
        }
    }

    /// With two parts the last warpgroup to arrive is mostly faster than a second kernel, and with more slower.
    const fn halved(self) -> Row {
        Row {
            parts: RowParts::Two,
            ..self
        }
    }

    const fn stages(self, most: i64) -> Row {
        Row {
            most_stages: most,
            ..self
        }
    }

    /// A and B are swapped: the tile's columns are the rows of the problem.
    const fn swapped(self) -> Row {
        Row { swap: true, ..self }
    }

    /// One kernel for several widths of its tiles.
    const fn in_widths(self) -> Row {
        Row {
            has_widths: true,
            ..self
        }
    }

    /// The rows of A and B may have any alignment.
    const fn gathered(self) -> Row {
        Row {
            gather: true,
            ..self
        }
    }
}

/// Plans for rows that tensor maps describe.
pub(super) const MAPPED: [Row; 24] = [
    hopper([128, 256, 64], 2).cluster([2, 1, 1]),
    hopper([128, 192, 64], 2).cluster([2, 1, 1]),
    hopper([128, 128, 64], 2).cluster([2, 2, 1]),
    // Sides of which the others leave much of a round, or of their last tiles.
    hopper([192, 160, 64], 3).cluster([1, 2, 1]).halved(),
    hopper([128, 160, 64], 2)
        .swapped()
        .cluster([2, 1, 1])
        .halved(),
    hopper([192, 96, 64], 3).swapped().cluster([1, 2, 1]),
    // Short K over many tiles.
    hopper([128, 128, 64], 1).cluster([2, 1, 1]).pingpong(),
    hopper([64, 64, 64], 1),
    hopper([64, 32, 64], 1),
    // Long K over few tiles, or whole where no row is the same but for the parts.
    hopper([128, 256, 64], 2).cluster([2, 1, 1]).split(),
    hopper([192, 128, 64], 3).cluster([1, 2, 1]).split(),
    hopper([128, 128, 64], 2).cluster([2, 1, 1]).split(),
    hopper([64, 128, 64], 1).cluster([4, 1, 1]).split(),
    hopper([64, 128, 64], 1).split(),
    hopper([64, 16, 128], 1).split(),
    // Few rows.
    hopper([64, 32, 128], 1)
        .swapped()
        .cluster([2, 1, 1])
        .split(),
    // A block for half of K of nearly every multiprocessor where N is 4096.
    hopper([64, 64, 128], 1)
        .swapped()
        .cluster([1, 1, 2])
        .stages(5),
    hopper([64, 32, 256], 1).swapped().cluster([1, 1, 2]),
    hopper([128, 16, 64], 2).swapped(),
    hopper([64, 16, 128], 1).swapped(),
    hopper([64, 16, 128], 1).swapped().cluster([1, 1, 2]),
    // K of a few elements: more columns of a stage would be loaded as zeros. Loads take most of the time, so that blocks share them where
    // there are many, and have few stages, since TMA fills those of the first tile behind each other.
    hopper([64, 16, 16], 1).swapped(),
    hopper([64, 64, 16], 1),
    hopper([128, 128, 16], 2).cluster([2, 1, 1]).stages(4),
];

/// The stages of the kernels for several widths, for which the widest tiles leave room.
const STAGES_IN_WIDTHS: i64 = 4;

/// The same where consumers take tiles of at most 192 columns in turn.
const STAGES_IN_TURN: i64 = 5;

/// The columns up to which the widest tiles leave room for as many stages as tiles of one width have.
const NARROW: i64 = 128;

/// The place of the row of [`MAPPED`] that gives way where C has an epilogue of the caller: 192x96x64 with A and B swapped, whose gain is
/// measured without one.
const GIVES_WAY: usize = 5;

/// Tiles of at most 128 columns, in clusters of four blocks that share the rows of A.
const SHARED_BY_FOUR: Row = hopper([128, 128, 64], 2).cluster([1, 4, 1]);

/// Tiles of 192 rows, whole or in two parts.
const WIDE: Row = hopper([192, 192, 64], 3).cluster([1, 2, 1]).halved();

/// Consumers that take tiles of 192 accumulators per thread in turn. On an H200, five stages in place of four brought tiles of 160 columns
/// 1 percent of 30 products' time, and tiles of 192 nothing. With an epilogue of the caller, four were measured.
const IN_TURN: Row = hopper([128, 192, 64], 1).cluster([2, 1, 1]).pingpong();

/// Plans for rows that tensor maps describe, of a product with an epilogue of the caller. Consumers that take tiles of 192 accumulators
/// per thread in turn hide the epilogue where a block has many tiles. It is measured where the elements of A, B and C have 16 bits, and
/// TMA stores C along N.
pub(super) const WITH_EPILOGUE: [Row; 24] = {
    let mut rows = MAPPED;
    let last = rows[GIVES_WAY];
    assert!(last.swap && last.tile[0] == 192 && last.tile[1] == 96);
    rows[GIVES_WAY] = IN_TURN.stages(STAGES_IN_WIDTHS);
    rows
};

/// Plans for rows that tensor maps describe, of one product without an epilogue of the caller: eight kernels for several widths, of 128
/// rows and of 192, with A and B as they are and swapped. In two of them the consumers follow the pingpong schedule, so that one stores
/// its tile while the other multiplies: of 76 products of more than 50 us, these were up to a tenth faster, and by 2 percent on average
/// where the best was known. Those of up to 128 columns have clusters of four blocks along N, which load a quarter of the rows of A each: of
/// 38 products of 7 to 100 us whose rows begin between lines, they were up to a fifth faster. The rows
/// that give way have tiles that are widths of these, or were seldom the fastest. They are measured where the elements of A, B and C have 16 bits, A and B are
/// contiguous along K, and TMA stores C along N.
pub(super) const IN_WIDTHS: [Row; 24] = {
    let mut rows = MAPPED;
    let widest = rows[0];
    assert!(widest.tile[1] == 256 && rows[1].tile[1] == 192);
    assert!(rows[3].tile[1] == 160 && rows[4].tile[1] == 160);
    rows[1] = widest.in_widths();
    rows[3] = WIDE.in_widths();
    rows[4] = widest.swapped().halved().in_widths();
    assert!(rows[2].cluster[1] == 2 && rows[9].tile[1] == 256);
    rows[2] = SHARED_BY_FOUR.in_widths();
    rows[9] = SHARED_BY_FOUR.swapped().in_widths();
    rows[GIVES_WAY] = WIDE.swapped().in_widths();
    assert!(rows[8].tile[1] == 32 && rows[6].tile[1] == 128);
    rows[8] = IN_TURN.in_widths();
    rows[6] = IN_TURN.swapped().in_widths();
    rows
};

/// Tiles of at most 240 columns, whose widths with an epilogue of the caller are odd multiples of 16: parts of 32 bytes of C divide them.
const BY_16: Row = hopper([128, 240, 64], 2).cluster([2, 1, 1]);

/// Plans for rows that tensor maps describe, of one product with an epilogue of the caller: five kernels for several widths, of consumers
/// that multiply a tile together and in turn. They are measured where those of one product are. The widths of 128x256 are multiples of 32, whose
/// parts of 64 bytes are stored faster; those of 128x240 are for the products between. Tiles of 128 columns in clusters of four have one width
/// and parts of 128 bytes: on an H200, 256x7168x2048 had 0.93 to 0.99 of the plain product's speed so, and 0.92 to 0.96 by parts of 64.
pub(super) const EPILOGUE_IN_WIDTHS: [Row; 24] = {
    let mut rows = WITH_EPILOGUE;
    assert!(rows[1].tile[1] == 192 && rows[3].tile[1] == 160);
    rows[1] = rows[0].in_widths();
    rows[3] = WIDE.in_widths();
    assert!(rows[8].tile[1] == 32 && rows[2].cluster[1] == 2);
    rows[8] = IN_TURN.swapped().stages(STAGES_IN_WIDTHS).in_widths();
    rows[2] = SHARED_BY_FOUR;
    rows[GIVES_WAY] = IN_TURN.stages(STAGES_IN_WIDTHS).in_widths();
    assert!(rows[9].tile[1] == 256);
    rows[9] = BY_16.in_widths();
    rows
};

/// Plans for rows that tensor maps describe, of a product with two right factors: consumers that take tiles of 192 accumulators per thread in
/// turn. On an H200, SwiGLU of 8192x2x14336x4096 took 2742 us by them, 2822 by 128x128 with two consumers, and a plain product of as many
/// operations 2819. It is measured where the elements of A, B and C have 16 bits, and TMA stores C along N.
pub(super) const GATED: [Row; 24] = {
    let mut rows = MAPPED;
    rows[GIVES_WAY] = hopper([128, 96, 64], 1)
        .cluster([2, 1, 1])
        .pingpong()
        .stages(4);
    rows
};

/// Plans for rows of any alignment.
pub(super) const UNMAPPED: [Row; 24] = [
    ampere([32, 32, 32], [2, 2]),
    ampere([32, 32, 64], [2, 2]),
    ampere([64, 64, 32], [2, 2]),
    ampere([128, 128, 32], [2, 4]),
    hopper([64, 16, 16], 1).gathered(),
    hopper([64, 16, 16], 1).swapped().gathered(),
    hopper([64, 64, 16], 1).gathered(),
    hopper([128, 128, 16], 2).gathered(),
    hopper([64, 16, 64], 1).gathered(),
    hopper([64, 16, 64], 1).gathered().split(),
    hopper([64, 16, 64], 1).swapped().gathered(),
    hopper([64, 16, 64], 1).swapped().gathered().split(),
    hopper([64, 32, 64], 1).gathered().split(),
    hopper([64, 64, 64], 1).gathered(),
    hopper([64, 64, 64], 1).gathered().split(),
    hopper([64, 128, 64], 1).gathered(),
    hopper([128, 64, 64], 2).gathered(),
    hopper([128, 128, 64], 2).gathered(),
    // One row, or two.
    gemv(1),
    gemv(1).cluster([1, 1, 8]),
    gemv(8),
    gemv(1).swapped(),
    gemv(1).cluster([1, 1, 8]).swapped(),
    gemv(8).swapped(),
];

impl Row {
    /// The plans of the row's kernel: one, or one for each of its widths, the widest first.
    pub(super) fn plans(&self, operands: Operands, arch: Arch) -> Vec<GemmPlan> {
        let plan = self.plan(operands, arch);
        if !self.has_widths {
            return vec![plan];
        }
        let of = |columns| GemmPlan { columns, ..plan };
        let widest = of(plan.tile[1]);
        let widths = widest.widths().unwrap_or_default().into_iter().rev();
        // Between the widths of a wider tile, which are multiples of 32 with an epilogue of the caller.
        let is_between = self.tile[1] == BY_16.tile[1];
        let widths = widths.filter(|width| !is_between || width % 32 != 0);
        widths.map(of).collect()
    }

    fn plan(&self, operands: Operands, arch: Arch) -> GemmPlan {
        let usual = GemmPlan::new(self.method, operands);
        let [m, n, k] = self.tile;
        let (tile, units) = match self.method {
            GemmMethod::Gemv => {
                let right = if self.swap { Operand::A } else { Operand::B };
                let [_, threads] = self.units;
                let threads = match operands.major(right) {
                    Major::First if threads > 1 => 32,
                    _ => threads,
                };
                (gemv_tile(&operands, right, threads), [1, threads])
            }
            _ => ([m, n, along_k(operands.ab, k)], self.units),
        };
        let (split, division) = match self.parts {
            RowParts::Whole => (1, Division::SplitK),
            RowParts::Any => (2, Division::SplitK),
            RowParts::Two => (2, Division::SplitKFixup),
        };
        let plan = GemmPlan {
            tile,
            warps: units,
            cluster: self.cluster,
            schedule: self.schedule,
            split,
            division,
            // Their kernels wait for the launch before them; of long products they are launched in order.
            early: usual.can_begin_early(arch),
            swap: self.swap,
            gather: self.gather,
            order: Order::Grouped {
                width: 8,
                raster: if self.cluster[1] > 1 {
                    RasterOrder::AlongM
                } else {
                    RasterOrder::AlongN
                },
            },
            ..usual
        };
        let stages = match self.method {
            // Stages that are filled through registers hide nothing.
            GemmMethod::Ampere => 2,
            GemmMethod::Gemv => 1,
            // They store C in 16 bits, in narrower parts where the stages take the room.
            _ if self.has_widths && self.tile[1] > NARROW => match self.schedule {
                Schedule::Cooperative => STAGES_IN_WIDTHS,
                Schedule::Pingpong => STAGES_IN_TURN,
            },
            _ => stages(&plan.launched(), i64::from(Limits::of(arch).shared)),
        };
        GemmPlan {
            stages: stages.min(self.most_stages),
            ..plan
        }
    }
}
