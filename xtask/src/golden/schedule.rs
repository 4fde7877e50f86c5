//! Threadblock swizzles and Hopper's persistent scheduler: grids, logarithms and the tile of every block.

use colex_sched::{
    BatchedGemmCoord, Dim3, GemmCoord, Persistent, RasterChoice, ThreadblockSwizzle, gemv,
    tile_offset_disagreeing_with_grid,
};
use serde_json::{Value as Json, json};

use super::{Case, Op, Tried, Verdict};

pub(super) const FAMILIES: &[&[Op]] = &[&[
    Op::own("threadblock_swizzle", |case| verdict(swizzle(case))),
    Op::own("threadblock_swizzle_gemv", |case| {
        verdict(matrix_vector(case))
    }),
    Op::own("sm90_persistent", |case| verdict(persistent(case))),
]];

/// What was compared: all fields, or all but a grid that cannot be launched, and why.
type FieldsCompared = Tried<Option<String>>;

fn verdict(compared: FieldsCompared) -> Verdict {
    match compared {
        Ok(None) => Verdict::Equal,
        Ok(Some(why)) => Verdict::Refuted(why),
        Err(why) => Verdict::Failed(why.0),
    }
}

/// Returns an error that names the field that differs.
fn expect(case: &Case, field: &str, ours: Json) -> Tried<()> {
    let theirs = &case.result[field];
    if *theirs == ours {
        return Ok(());
    }
    Err(format!("{field} is {theirs}, ours is {ours}").into())
}

/// `threadblock_swizzle [name, problem, tile, splits or batches]`.
fn swizzle(case: &Case) -> FieldsCompared {
    let swizzle: ThreadblockSwizzle = case.text(0)?.parse()?;
    let (problem, tile) = (gemm(case.ints(1)?)?, gemm(case.ints(2)?)?);
    let tiled = swizzle.tiled_shape(problem, tile, case.int(3)?)?;
    let grid = swizzle.grid_shape(tiled)?;
    let log_tile = swizzle.log_tile(tiled)?;
    expect(case, "tiled_shape", json!([tiled.m, tiled.n, tiled.k]))?;
    expect(case, "grid", json!([grid.x, grid.y, grid.z]))?;
    expect(case, "log_tile", json!(log_tile))?;
    let width = match swizzle {
        ThreadblockSwizzle::Identity { width } | ThreadblockSwizzle::SplitKIdentity { width } => {
            Some(width)
        }
        _ => None,
    };
    let offsets = |offset: &dyn Fn(Dim3) -> GemmCoord| -> Json {
        blocks(grid)
            .map(offset)
            .map(|t| json!([t.m, t.n, t.k]))
            .collect()
    };
    let right = |block| {
        swizzle
            .tile_offset_unbounded(log_tile, block)
            .expect("invariant: the block is one of the grid's")
    };
    let other = |block| match width {
        Some(width) => tile_offset_disagreeing_with_grid(width, tiled, block)
            .expect("invariant: the width made a grid"),
        None => right(block),
    };
    if !case.result["offsets_log_tile"].is_null() {
        expect(case, "offsets_log_tile", offsets(&right))?;
    }
    if !case.result["offsets_tiled_shape"].is_null() {
        expect(case, "offsets_tiled_shape", offsets(&other))?;
    }
    Ok(None)
}

/// `threadblock_swizzle_gemv [name, problem, tile]`, coordinates `[m, n, k, batch]`.
fn matrix_vector(case: &Case) -> FieldsCompared {
    let coord = |list: Vec<i64>| match list.as_slice() {
        &[m, n, k, batch] => Ok(BatchedGemmCoord::new(m, n, k, batch)),
        _ => Err("a coordinate has not four numbers".to_string()),
    };
    let tiled = gemv::tiled_shape(coord(case.ints(1)?)?, coord(case.ints(2)?)?)?;
    let grid = gemv::grid_shape(tiled)?;
    let row = |t: BatchedGemmCoord| json!([t.m, t.n, t.k, t.batch]);
    expect(case, "tiled_shape", row(tiled))?;
    expect(case, "grid", json!([grid.x, grid.y, grid.z]))?;
    let offsets = blocks(grid).map(|b| gemv::tile_offset(tiled, b).map_or(Json::Null, row));
    expect(case, "offsets", offsets.collect())?;
    Ok(None)
}

/// `sm90_persistent [[M, N, L], tile, cluster, raster, largest swizzle]`.
fn persistent(case: &Case) -> FieldsCompared {
    let (problem, tile, cluster) = (case.ints(0)?, case.ints(1)?, case.ints(2)?);
    let ([m, n, l], [tm, tn], [cm, cn]) = (numbers(&problem)?, numbers(&tile)?, numbers(&cluster)?);
    let choice = match case.text(3)?.as_str() {
        "AlongM" => RasterChoice::AlongM,
        "AlongN" => RasterChoice::AlongN,
        _ => RasterChoice::Heuristic,
    };
    let up = |extent: i64, by: i64| (extent + by - 1) / by;
    let tiles = GemmCoord::new(up(m, tm), up(n, tn), l);
    let s = Persistent::new(tiles, [cm, cn], case.int(4)?, choice)?;
    let whole = [up(tiles.m, cm) * cm, up(tiles.n, cn) * cn, l];
    expect(case, "problem_blocks", json!(whole))?;
    expect(case, "blocks_per_problem", json!(s.slots()))?;
    expect(case, "log_swizzle_size", json!(s.log_swizzle()))?;
    expect(case, "raster_order", json!(format!("{:?}", s.order())))?;
    let [bm, bn] = s.blocks();
    expect(case, "problem_tiles", json!([bm / cm, bn / cn, l]))?;
    let all: Vec<_> = (0..s.slots()).filter_map(|i| s.tile_padded(i)).collect();
    let rows = all.iter().map(|t| json!([t.m, t.n, t.l]));
    expect(case, "tiles", rows.collect())?;
    let inverts = (0..s.slots())
        .zip(&all)
        .all(|(i, t)| s.slot_of(*t) == Ok(i));
    expect(case, "linear_idx_inverts", json!(inverts))?;
    grids(case, &s, [cm, cn])
}

/// The grid by number of multiprocessors. One that is no whole number of clusters breaks the law of a launch.
fn grids(case: &Case, s: &Persistent, [cm, cn]: [i64; 2]) -> FieldsCompared {
    let by_sms = case.result["grid"].as_object();
    let mut refuted = None;
    for (sms, theirs) in by_sms.ok_or("the result has no grids")? {
        let count: i64 = sms.parse().map_err(|_| format!("`{sms}` is no count"))?;
        let row = |g: Dim3| json!([g.x, g.y, g.z]);
        match s.grid_shape(count, None) {
            Ok(grid) if row(grid) == *theirs => {}
            ours => {
                let same = s.grid_shape_unchecked(count, None).map(row);
                let is_whole = |grid: Dim3| grid.x % cm == 0 && grid.y % cn == 0;
                let unlaunchable = s.grid_shape_unchecked(count, None).map(is_whole) == Ok(false);
                let ours_is_whole = ours.as_ref().ok().is_none_or(|grid| is_whole(*grid));
                if same.as_ref() != Ok(theirs) || !unlaunchable || !ours_is_whole {
                    return Err(format!("the grid on {sms} is {theirs}, ours is {ours:?}").into());
                }
                refuted = Some(format!(
                    "the grid {theirs} on {sms} multiprocessors is no whole number of {cm}x{cn} clusters; ours: {}",
                    ours.map_or_else(|error| error.to_string(), |grid| grid.to_string())
                ));
            }
        }
    }
    Ok(refuted)
}

fn blocks(grid: Dim3) -> impl Iterator<Item = Dim3> {
    (0..).map_while(move |slot| grid.block(slot))
}

fn gemm(list: Vec<i64>) -> Tried<GemmCoord> {
    numbers(&list).map(|[m, n, k]| GemmCoord::new(m, n, k))
}

fn numbers<const N: usize>(list: &[i64]) -> Tried<[i64; N]> {
    list.try_into()
        .map_err(|_| format!("a coordinate has {} numbers, not {N}", list.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(op: &str, args: Json, result: Json) -> Case {
        let args = args.as_array().expect("a list").clone();
        Case {
            op: op.into(),
            args,
            result,
            post: None,
            place: "a.jsonl:1".into(),
        }
    }

    #[test]
    fn a_wrong_field_fails_by_name() {
        let args = json!(["GemmIdentity<2>", [256, 256, 64], [128, 128, 32], 1]);
        let mut result = json!({"tiled_shape": [2, 2, 1], "grid": [4, 1, 1], "log_tile": 1,
            "offsets_log_tile": [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]});
        let run = |result: &Json| {
            verdict(swizzle(&case(
                "threadblock_swizzle",
                args.clone(),
                result.clone(),
            )))
        };
        assert_eq!(run(&result), Verdict::Equal);
        result["offsets_log_tile"][1] = json!([1, 0, 0]);
        let Verdict::Failed(why) = run(&result) else {
            panic!("a wrong tile must fail")
        };
        assert!(why.starts_with("offsets_log_tile is "), "{why}");
        result["grid"] = json!([4, 2, 1]);
        assert_eq!(
            run(&result),
            Verdict::Failed("grid is [4,2,1], ours is [4,1,1]".into())
        );
    }

    #[test]
    fn a_grid_of_half_a_cluster_is_refuted() {
        let args = json!([[1, 1, 1], [64, 64], [4, 4], "AlongN", 1]);
        let tiles: Vec<Json> = (0..16).map(|i| json!([i % 4, i / 4, 0])).collect();
        let mut result = json!({"problem_blocks": [4, 4, 1], "blocks_per_problem": 16, "log_swizzle_size": 0,
            "raster_order": "AlongN", "problem_tiles": [1, 1, 1], "grid": {"8": [4, 2, 1]}, "tiles": tiles,
            "linear_idx_inverts": true});
        let run = |result: &Json| {
            verdict(persistent(&case(
                "sm90_persistent",
                args.clone(),
                result.clone(),
            )))
        };
        let Verdict::Refuted(why) = run(&result) else {
            panic!("the grid cannot be launched")
        };
        assert!(why.contains("no whole number of 4x4 clusters"), "{why}");
        result["grid"]["8"] = json!([4, 1, 1]);
        assert!(matches!(run(&result), Verdict::Failed(_)));
    }
}
