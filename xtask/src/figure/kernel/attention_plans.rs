//! `figure attention-plans`: the plan that a call of attention takes, over the numbers of queries and of keys.
//!
//! The subject is the mask, `full` or `causal`. Keys, all needed:
//! - `heads`: heads of Q and of K, such as `32x8`;
//! - `features`: of Q, K and V, such as `128`;
//! - `queries` and `keys`: the lengths of the rows and of the columns, such as `1 64 4096`.
//!
//! The plans are those of `AttentionPlan::fastest` for one sequence of bf16 on an H200, with its 132 multiprocessors.

use colex_atom::{Arch, Ty};
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_gpu::attention::{
    AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Mask,
};

use super::{Body, Error, extents, needed};

/// The multiprocessors of an H200.
const MULTIPROCESSORS: u32 = 132;

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let mask = match body.subjects()? {
        [what] if what == "full" => Mask::Full,
        [what] if what == "causal" => Mask::Causal,
        _ => {
            return Err(Error::new(
                "plans of attention have one subject, `full` or `causal`",
            ));
        }
    };
    let heads = extents(body, "heads")?;
    let [features] = lengths(body, "features")?[..] else {
        return Err(Error::new("`features` is one number"));
    };
    let (queries, keys) = (lengths(body, "queries")?, lengths(body, "keys")?);
    let of = |queries, keys| {
        let problem = AttentionProblem::new(Ty::Bf16, 1, heads, [queries, keys], [features; 2]);
        plan(&problem.mask(mask))
    };
    let mut plans = Vec::new();
    for queries in &queries {
        let row: Result<Vec<_>, Error> = keys.iter().map(|keys| of(*queries, *keys)).collect();
        plans.extend(row?);
    }
    let mut kinds: Vec<String> = plans.iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    let fill = |plan: &AttentionPlan| {
        let at = kinds.iter().position(|known| *known == kind(plan));
        Fill::pastel(at.unwrap_or_default() as i64)
    };
    let columns = keys.len();
    let cell = |row: i64, column: i64| {
        let plan = &plans[row as usize * columns + column as usize];
        Cell::new(lines(plan)).filled(fill(plan))
    };
    let named = |lengths: &[i64]| Headers::Named(lengths.iter().map(i64::to_string).collect());
    let grid = Grid::from_fn(queries.len() as i64, columns as i64, cell)?
        .headers(named(&queries), named(&keys))
        .caption("queries down, keys across");
    let legend: Vec<(Fill, String)> = (0..).map(Fill::pastel).zip(kinds.iter().cloned()).collect();
    Ok(Picture::of(grid)
        .title(format!(
            "The plans of attention for {} heads of queries on {} heads of keys, with {features} features",
            heads[0], heads[1]
        ))
        .legend(legend))
}

/// The plan that a call takes.
fn plan(problem: &AttentionProblem) -> Result<AttentionPlan, Error> {
    let operands = AttentionOperands::of(problem, [0; 4]);
    AttentionPlan::fastest(problem, operands, Arch::Sm90a, MULTIPROCESSORS).map_err(Error::from)
}

/// The kernel, with its consumers or with what it does with the keys.
fn kind(plan: &AttentionPlan) -> String {
    let method = plan.method;
    if method == AttentionMethod::Hopper {
        let plural = if plan.consumers == 1 { "" } else { "s" };
        format!("{method}, {} consumer{plural}", plan.consumers)
    } else if plan.splits == 1 {
        format!("{method}, keys not divided")
    } else {
        format!("{method}, divided keys")
    }
}

/// The tile, and the parts of the keys if there are several.
fn lines(plan: &AttentionPlan) -> Vec<String> {
    let [queries, keys] = plan.tile;
    let tile = format!("{queries}x{keys}");
    match plan.splits {
        1 => vec![tile],
        parts => vec![tile, format!("{parts} parts")],
    }
}

/// The numbers under a key, such as `1 64 4096`.
fn lengths(body: &Body, key: &str) -> Result<Vec<i64>, Error> {
    let text = needed(body, key)?;
    let all: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
    all.ok()
        .filter(|all| all.iter().all(|n| (1..1 << 24).contains(n)))
        .ok_or_else(|| {
            Error::new(format!(
                "`{key} = {text}` is not a list of numbers from 1 to 16777215, such as `1 64 4096`"
            ))
        })
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    const FULL: &str = "full\nheads = 32x8\nfeatures = 128\nqueries = 1 4096\nkeys = 32 131072";

    #[test]
    fn the_plans_are_those_of_a_call() {
        let html = draw("attention-plans", FULL).expect("it is well formed");
        // One query for each head: packs of four heads are rows of one tile, and many keys are divided.
        for text in [">16x64<", ">32 parts<", ">Ampere, divided keys<"] {
            assert!(html.contains(text), "{text}: {html}");
        }
        // Steps of no more keys than there are.
        for text in [">128x32<", ">128x128<", ">Hopper, 2 consumers<"] {
            assert!(html.contains(text), "{text}: {html}");
        }
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("attention-plans", body);
        assert_eq!(
            error("window\nheads = 32x8"),
            "plans of attention have one subject, `full` or `causal`"
        );
        assert_eq!(
            error("full\nheads = 32x8\nfeatures = 128"),
            "the figure needs `queries = ..`"
        );
        assert_eq!(
            error("full\nheads = 32x8\nfeatures = 128\nqueries = 0\nkeys = 1"),
            "`queries = 0` is not a list of numbers from 1 to 16777215, such as `1 64 4096`"
        );
        assert_eq!(
            error("full\nheads = 32x8\nfeatures = 64 128"),
            "`features` is one number"
        );
        let refusal = error("full\nheads = 32x8\nfeatures = 80\nqueries = 1\nkeys = 1");
        assert!(refusal.contains("heads of 80 features"), "{refusal}");
    }
}
