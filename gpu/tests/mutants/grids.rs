//! Copies without a question whose tile numbers come from the grid, over extents that only the launch knows: tile by tile,
//! behind a branch, in turns, and by TMA.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::FenceKind;
use colex_gpu::tensor::{AtThread, Builder, Error, Index, Tensor};
use colex_tiled::TiledCopy;

use crate::copies::{builder, form, grid_of, h_tile, parameter, registers, shared, tiled};
use crate::hook::{Hook, Kind, Random};
use crate::reference::{Given, memory, written};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "grid tiles",
            build: tiles,
        },
        Family {
            name: "grid branch",
            build: branch,
        },
        Family {
            name: "grid turns",
            build: turns,
        },
        Family {
            name: "grid bulk",
            build: bulk,
        },
    ]
}

/// What the tile-wise copies of matrices share.
struct Matrices {
    ty: Ty,
    vector: i64,
    src: Tensor,
    dst: Tensor,
    copy: TiledCopy,
    thread: Index,
    given: Vec<Given>,
}

impl Matrices {
    /// Matrices of whole tiles. Their rows have different lengths, so that an element of a next row is a wrong one.
    fn new(h: &mut Hook, r: &mut Random, k: &mut Builder) -> Result<Matrices, Error> {
        let (ty, vector) = form(r);
        let tile = h_tile(vector);
        let extents = [tile[0] * r.range(1, 3), tile[1] * r.range(1, 3)];
        let pads = r.one(&[[0, 1], [1, 0], [0, 2], [2, 1]]);
        let like = "(100,96):(96,_1)";
        let src = parameter(h, k, "src", ty, like);
        let dst = parameter(h, k, "dst", ty, like);
        let atom = format!("UniversalCopy<uint{}_t>", i64::from(ty.bits()) * vector);
        let values = format!("(1,{vector}):(0,1)");
        let copy = tiled(h, &atom, ty.bits(), "(4,8):(8,1)", &values)?;
        let [from, to] = pads.map(|pad| {
            let stride = extents[1] + pad * vector;
            format!("({},{}):({stride},_1)", extents[0], extents[1])
        });
        let thread = k.thread();
        Ok(Matrices {
            ty,
            vector,
            src,
            dst,
            copy,
            thread: h.place("partition", &thread),
            given: vec![tensor(ty, &from, 1), target(ty, &to)],
        })
    }

    /// Copies a tile of the source to one of the destination, without a question.
    fn copy_tile(&self, h: &mut Hook, k: &mut Builder, [from, to]: [[Index; 2]; 2]) {
        let tile = h_tile(self.vector);
        let from = self.src.local_tile(h.tile("local_tile", tile), &from);
        let to = self.dst.local_tile(h.tile("local_tile", tile), &to);
        let from = self.copy.at(&self.thread).partition_src(&from);
        let to = self.copy.at(&self.thread).partition_dst(&to);
        let held = registers(h, k, self.ty, &from);
        k.copy(&self.copy, &from, &held);
        k.copy(&self.copy, &held, &to);
    }

    fn grid(&self) -> fn(&[Given]) -> [u32; 3] {
        match self.vector {
            1 => |given| grid_of(&given[1], h_tile(1)),
            2 => |given| grid_of(&given[1], h_tile(2)),
            4 => |given| grid_of(&given[1], h_tile(4)),
            _ => |given| grid_of(&given[1], h_tile(8)),
        }
    }
}

/// `to(place) = from(place)` for the elements of these tiles of both.
fn copied(
    given: &[Given],
    tile: [i64; 2],
    tiles: impl IntoIterator<Item = [[i64; 2]; 2]>,
) -> Vec<Given> {
    written(given, |source, target| {
        for [from, to] in tiles {
            for m in 0..tile[0] {
                for n in 0..tile[1] {
                    let place = |at: [i64; 2]| [at[0] * tile[0] + m, at[1] * tile[1] + n];
                    target.set(&place(to), source.get(&place(from)));
                }
            }
        }
    })
}

/// The blocks of a grid.
fn blocks([x, y, _]: [u32; 3]) -> Vec<[i64; 2]> {
    let along = |x| (0..y).map(move |y| [i64::from(x), i64::from(y)]);
    (0..x).flat_map(along).collect()
}

/// A tile for each block.
fn tiles(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut k = builder(h, "tiles", Arch::Sm80, 32);
    let all = Matrices::new(h, r, &mut k)?;
    let own = [k.block_index(0), k.block_index(1)];
    let other = [own[1].clone(), own[0].clone()];
    let at = h.pick("local_tile", Kind::Grid, own, &[other]);
    let is_swapped = h.change == "other 0" && h.target == Some(h.sites.len() - 1);
    let moved = |h: &mut Hook, names: [&'static str; 2]| {
        [0, 1].map(|i| h.moved("local_tile", names[i], &at[i]))
    };
    let ends = [moved(h, ["from m", "from n"]), moved(h, ["to m", "to n"])];
    all.copy_tile(h, &mut k, ends);
    let shift = [["from m", "from n"], ["to m", "to n"]].map(|names| names.map(|n| h.shift(n)));
    let (tile, grid) = (h_tile(all.vector), all.grid());
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: all.given,
        cluster: 1,
        grid,
        expected: Box::new(move |given| {
            let tiles = blocks(grid(given)).into_iter().map(|[x, y]| {
                let at = if is_swapped { [y, x] } else { [x, y] };
                shift.map(|by| [at[0] + by[0], at[1] + by[1]])
            });
            copied(given, tile, tiles)
        }),
    })
}

/// Twice as many blocks as there are tiles along x, of which a branch lets those inside through.
fn branch(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut k = builder(h, "branch", Arch::Sm80, 32);
    let all = Matrices::new(h, r, &mut k)?;
    let tile = h_tile(all.vector);
    let at = [k.block_index(0), k.block_index(1)];
    let limit = h.moved("less", "limit", &(all.src.extent(0) / tile[0]));
    let inside = k.less(&at[0], &limit);
    let names = ["m", "n"];
    let moved = [0, 1].map(|i| h.moved("local_tile", names[i], &at[i]));
    k.if_(inside, |k| all.copy_tile(h, k, [moved.clone(), moved]));
    let (limit, by) = (h.shift("limit"), names.map(|name| h.shift(name)));
    let grid: fn(&[Given]) -> [u32; 3] = match all.vector {
        1 => |given| twice(grid_of(&given[1], h_tile(1))),
        2 => |given| twice(grid_of(&given[1], h_tile(2))),
        4 => |given| twice(grid_of(&given[1], h_tile(4))),
        _ => |given| twice(grid_of(&given[1], h_tile(8))),
    };
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: all.given,
        cluster: 1,
        grid,
        expected: Box::new(move |given| {
            let rows = memory(&given[0]).extent(0) / tile[0];
            let let_through = blocks(grid(given)).into_iter();
            let tiles = let_through
                .filter(|[x, _]| *x < rows + limit)
                .map(|[x, y]| {
                    let at = [x + by[0], y + by[1]];
                    [at, at]
                });
            copied(given, tile, tiles)
        }),
    })
}

fn twice([x, y, z]: [u32; 3]) -> [u32; 3] {
    [2 * x, y, z]
}

/// Blocks that take the tiles of a row of tiles in turns.
fn turns(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut k = builder(h, "turns", Arch::Sm80, 32);
    let all = Matrices::new(h, r, &mut k)?;
    let tile = h_tile(all.vector);
    let (m, first, step) = (k.block_index(0), k.block_index(1), k.grid_extent(1));
    let end = h.moved("for_", "end", &(all.src.extent(1) / tile[1]));
    k.for_(first, end, step, |k, n| {
        let at = [
            h.moved("local_tile", "m", &m),
            h.moved("local_tile", "n", n),
        ];
        all.copy_tile(h, k, [at.clone(), at]);
    });
    let (end, by) = (h.shift("end"), ["m", "n"].map(|name| h.shift(name)));
    let grid: fn(&[Given]) -> [u32; 3] = match all.vector {
        1 => |given| halved(grid_of(&given[1], h_tile(1))),
        2 => |given| halved(grid_of(&given[1], h_tile(2))),
        4 => |given| halved(grid_of(&given[1], h_tile(4))),
        _ => |given| halved(grid_of(&given[1], h_tile(8))),
    };
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: all.given,
        cluster: 1,
        grid,
        expected: Box::new(move |given| {
            let from = memory(&given[0]);
            let [rows, columns] = [0, 1].map(|mode| from.extent(mode) / tile[mode]);
            let all = (0..rows).flat_map(|m| (0..columns + end).map(move |n| [m, n]));
            let tiles = all.map(|[m, n]| {
                let at = [m + by[0], n + by[1]];
                [at, at]
            });
            copied(given, tile, tiles)
        }),
    })
}

/// A grid of fewer blocks along y than there are tiles.
fn halved([x, y, z]: [u32; 3]) -> [u32; 3] {
    [x, y.div_ceil(2), z]
}

/// A row's run for each block, by TMA.
fn bulk(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::F32, Ty::S32]);
    let (rows, runs) = (r.range(1, 3), r.range(1, 3));
    let mut k = builder(h, "bulk", Arch::Sm90a, 32);
    let src = parameter(h, &mut k, "src", ty, "(192,100):(_1,_256)");
    let dst = parameter(h, &mut k, "dst", ty, "(192,100):(_1,_320)");
    let at = [k.block_index(0), k.block_index(1)];
    let mut end = |tensor: &Tensor, names: [&'static str; 2]| {
        let [run, row] = [0, 1].map(|i| h.moved("local_tile", names[i], &at[i]));
        tensor.local_tile(h.tile("local_tile", [64]), &[run, row])
    };
    let from = end(&src, ["from run", "from row"]);
    let to = end(&dst, ["to run", "to row"]);
    let here = shared(h, &mut k, ty, "Sw<0,4,3>", "64:1");
    let landed = k.barriers(1);
    let bytes = 64 * i64::from(ty.bits()) / 8;
    let thread = k.thread();
    let first = k.equal(&thread, &0.into());
    k.if_(first, |k| {
        k.init_barriers(&landed, 1);
        k.fence(FenceKind::MbarrierInit);
        k.fence(FenceKind::ProxyAsyncShared);
        let full = landed.at(0);
        k.arrive_expect(&full, h.count("arrive_expect", bytes));
        k.bulk_load(&from, &here, &full);
        k.wait(&full, &0.into());
        k.bulk_store(&here, &to);
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    let shift = [["from run", "from row"], ["to run", "to row"]]
        .map(|names| names.map(|name| h.shift(name)));
    let n = 64 * runs;
    let [source, target_] = [256, 320].map(|stride| format!("({n},{rows}):(_1,_{stride})"));
    let grid = |given: &[Given]| grid_of(&given[1], [64, 1]);
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![tensor(ty, &source, 1), target(ty, &target_)],
        cluster: 1,
        grid,
        expected: Box::new(move |given| {
            let tiles = blocks(grid(given)).into_iter();
            let tiles = tiles.map(|at| shift.map(|by| [at[0] + by[0], at[1] + by[1]]));
            copied(given, [64, 1], tiles)
        }),
    })
}
