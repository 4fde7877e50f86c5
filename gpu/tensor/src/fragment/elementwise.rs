//! Fragments computed element by element.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::rc::Rc;

use colex_atom::Ty;
use colex_ir::{Alu, Operand, Reg, RegType, TernaryOp, Type};
use colex_layout::{IntTuple, Layout};

use super::Fragment;
use super::expr::lower::{Lanes, Lower, broadcast, fragments, leaves, nodes};
use super::expr::{Expr, ExprNode, Mask, Test, is_half};
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::build::held::Part;
use crate::error::ErrorKind;

/// What is wrong with an expression, where it was made.
pub(crate) fn poison(
    expr: &Expr,
    at: &'static Location<'static>,
) -> Option<(ErrorKind, &'static Location<'static>)> {
    let sources = file!().trim_end_matches("elementwise.rs");
    let of = |kind: &ErrorKind, own: &'static Location<'static>| {
        (
            kind.clone(),
            if own.file().starts_with(sources) {
                at
            } else {
                own
            },
        )
    };
    let mut seen = HashSet::new();
    nodes(expr).iter().find_map(|node| match &node.0.node {
        ExprNode::Poison(kind) => Some(of(kind, node.0.at)),
        ExprNode::Select(mask, ..) => {
            let mut found = None;
            mask.parts(&mut seen, &mut |part| {
                if let (Test::Poison(kind, own), None) = (&*part.0, &found) {
                    found = Some(of(kind, own));
                }
            });
            found
        }
        _ => None,
    })
}

/// The shape to which all leaves are broadcast.
pub(crate) fn form(operation: &'static str, leaves: &[Expr]) -> Result<Layout, ErrorKind> {
    let layouts = leaves.iter().filter_map(|leaf| match &leaf.0.node {
        ExprNode::Fragment(fragment) => Some(&fragment.layout),
        ExprNode::Indices(_, layout) => Some(layout),
        _ => None,
    });
    let layouts: Vec<&Layout> = layouts.collect();
    let Some(first) = layouts.first() else {
        return Ok(Layout::column_major(1)?.to_static());
    };
    // The first of the largest.
    let largest = layouts
        .iter()
        .fold(*first, |a, b| if b.size() > a.size() { b } else { a });
    let is_common = |all: &Layout| {
        layouts
            .iter()
            .all(|one| broadcast(operation, one, all).is_ok())
    };
    if !is_common(largest) {
        // Of fragments that are each broadcast along other modes, the larger extent of every mode.
        let ranks = layouts
            .iter()
            .filter(|layout| layout.size() > 1)
            .map(|layout| layout.rank());
        let rank = ranks.min().unwrap_or(1);
        let mode = |i: usize| {
            let modes = layouts.iter().filter_map(|layout| layout.mode(i));
            modes.fold(None, |a: Option<Layout>, b| match a {
                Some(a) if a.size() >= b.size() => Some(a),
                _ => Some(b),
            })
        };
        let modes: Vec<IntTuple> = (0..rank)
            .filter_map(mode)
            .map(|mode| mode.shape().clone())
            .collect();
        let all = Layout::column_major(IntTuple::concat(&modes))?.to_static();
        for layout in &layouts {
            broadcast(operation, layout, &all)?;
        }
        return Ok(all);
    }
    Ok(Layout::column_major(largest.shape())?.to_static())
}

impl Builder {
    /// Computes an expression for every element, into a fresh fragment of its type. The fragment has the shape to which the
    /// fragments of the expression are broadcast, compact in colexicographic order.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// let bias = k.fragment(Ty::F32, "(_1,_3):(_0,_1)");
    /// k.fill(&x, 1.5);
    /// k.fill(&bias, -2.0);
    /// k.fill(&bias.slice((.., 2)), 4.0);
    /// let y = k.map((&x + &bias).relu()); // each row with the bias of its column
    /// assert_eq!(elements(k, &y)?[0], [0.0, 0.0, 0.0, 0.0, 5.5, 5.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if an operation of the expression was refused, with its line; if the shapes of two fragments
    /// do not meet; if fragments hold different elements of their tiles at the same index; if a fragment, an index or a
    /// condition is of another builder; or if an input is bound to nothing.
    #[track_caller]
    pub fn map(&mut self, expr: impl Into<Expr>) -> Fragment {
        let (expr, at) = (expr.into(), Location::caller());
        let ty = expr.ty().unwrap_or(Ty::F32);
        let inert = |k: &mut Self| k.inert_fragment(ty);
        if let Some((kind, at)) = poison(&expr, at) {
            self.failure.keep(kind, at);
            return inert(self);
        }
        self.attempt(at, inert, |k| {
            if expr.ty().is_none() {
                let why =
                    "constants alone have no type: `assign` and `fill` take that of their fragment";
                return Err(ErrorKind::operands("map", why));
            }
            let leaves = leaves(&expr);
            let own = k.new_fragment(ty, &form("map", &leaves)?)?;
            // Numbers of rows stay numbers of the same rows.
            let sources = fragments(&leaves);
            let mut rows = sources
                .iter()
                .filter(|f| f.layout.size() == own.layout.size())
                .map(|f| &f.rows);
            let first = rows.next().cloned().flatten();
            let own = Fragment {
                rows: first.filter(|first| {
                    rows.all(|other| other.as_ref().is_none_or(|other| other == first))
                }),
                ..own
            };
            k.assigned("map", &own, &expr)?;
            Ok(own)
        })
    }

    /// Computes an expression for every element of `d`. The fragments of the expression, of which `d` may be one, are
    /// broadcast to the shape of `d`; they are read before the elements that they share registers with are written.
    ///
    /// A register that holds several elements, of which `d` names some, keeps the others: it must have been written before, for
    /// example by [`Builder::clear`].
    ///
    /// If `d` has stride 0 along modes, one register stands for several elements. The expression must then read `d` at the
    /// same index: it is computed element by element in colexicographic order, each reading what the one before has written,
    /// so that it reduces along these modes.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let [x, d] = ["(_2,_2):(_1,_2)", "(_2,_2):(_2,_1)"].map(|layout| k.fragment(Ty::F32, layout));
    /// k.fill(&x, 1.0);
    /// k.fill(&x.slice((.., 1)), 7.0);
    /// k.assign(&d, 10.0 * &x);
    /// assert_eq!(elements(k, &d)?[0], [10.0, 10.0, 70.0, 70.0]); // in the order of the indices
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map`]; if the expression has another type than `d`; and if `d` has one
    /// register for several elements and the expression does not read it.
    #[track_caller]
    pub fn assign(&mut self, d: &Fragment, expr: impl Into<Expr>) {
        self.assign_as("assign", Location::caller(), d, &expr.into());
    }

    fn assign_as(
        &mut self,
        operation: &'static str,
        at: &'static Location<'static>,
        d: &Fragment,
        expr: &Expr,
    ) {
        if let Some((kind, at)) = poison(expr, at) {
            return self.failure.keep(kind, at);
        }
        self.run(at, |k| k.assigned(operation, d, expr));
    }

    /// Sets every element to `value`, which a float type rounds to nearest and an integer type holds exactly.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F16, "_2:_1");
    /// k.fill(&x, f64::NEG_INFINITY);
    /// assert_eq!(elements(k, &x)?[0], [f32::NEG_INFINITY; 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the type does not hold the number, or if the fragment is of another builder.
    #[track_caller]
    pub fn fill(&mut self, d: &Fragment, value: f64) {
        self.assign_as("fill", Location::caller(), d, &value.into());
    }

    /// Sets the elements for which `keep` does not hold to `value`, for example those beyond the end of a row or above the
    /// diagonal. `keep` is called with the index of each element in the fragment's layout.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (x, lane) = (k.fragment(Ty::F32, "_3:_1"), k.lane());
    /// k.fill(&x, 1.0);
    /// k.mask(&x, 0.0, |k, i| k.less(&i.into(), &lane)); // keeps element `i` where `i < lane`
    /// assert_eq!(elements(k, &x)?[1..3], [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::fill`].
    #[track_caller]
    pub fn mask(
        &mut self,
        d: &Fragment,
        value: f64,
        mut keep: impl FnMut(&mut Builder, i64) -> Cond,
    ) {
        let at = Location::caller();
        let conds = self.site(at, |k| (0..d.layout.size()).map(|i| keep(k, i)).collect());
        let kept = Mask(Rc::new(Test::Conds(conds)));
        let expr = Expr::new(
            ExprNode::Select(kept, d.into(), value.into()),
            Some(d.ty),
            at,
        );
        self.assign_as("mask", at, d, &expr);
    }

    /// Returns a comparison of single elements as a condition of the control flow: of a branch, or of the end of a loop.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "_1:_1");
    /// let thread = k.thread();
    /// k.assign(&x, Expr::from(thread).to(Ty::F32) + 1.0);
    /// k.loop_(|k| {
    ///     let is_small = k.condition(Expr::from(&x).lt(10.0));
    ///     k.break_unless(is_small);
    ///     k.assign(&x, &x * 2.0);
    /// });
    /// assert_eq!(elements(k, &x)?[..3], [[16.0], [16.0], [12.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map`], and if a fragment of the comparison has several elements.
    #[track_caller]
    pub fn condition(&mut self, mask: impl Into<Mask>) -> Cond {
        let (mask, at) = (mask.into(), Location::caller());
        let expr = mask.select(1, 0);
        if let Some((kind, at)) = poison(&expr, at) {
            self.failure.keep(kind, at);
            return Cond::Known(false);
        }
        self.attempt(
            at,
            |_| Cond::Known(false),
            |k| {
                let leaves = leaves(&expr);
                k.own_leaves(&leaves)?;
                let form = form("condition", &leaves)?;
                if form.size() != 1 {
                    let why = format!(
                        "a comparison of {} elements: a branch takes that of one",
                        form.size()
                    );
                    return Err(ErrorKind::operands("condition", why));
                }
                let mut lower = Lower::new(k, "condition");
                lower.bind(&expr, &form)?;
                let known = lower.mask(&mask, &[0])?;
                Ok(k.cond_of(known[0]))
            },
        )
    }

    /// Refuses leaves of expressions of another builder.
    pub(crate) fn own_leaves(&self, leaves: &[Expr]) -> Result<(), ErrorKind> {
        self.own_fragments(&fragments(leaves))?;
        for leaf in leaves {
            if let ExprNode::Indices(indices, _) = &leaf.0.node {
                self.failure.own_indices(indices)?;
            }
        }
        Ok(())
    }

    pub(crate) fn assigned(
        &mut self,
        operation: &'static str,
        d: &Fragment,
        expr: &Expr,
    ) -> Result<(), ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        if let Some(ty) = expr.ty().filter(|ty| *ty != d.ty) {
            return refuse(format!(
                "{ty} into elements of {}: `.to(Ty::{:?})` converts",
                d.ty, d.ty
            ));
        }
        if !matches!(d.ty.bits(), 8 | 16 | 32 | 64) {
            return refuse(format!(
                "elements of {}; those of 8 to 64 bits are computed",
                d.ty
            ));
        }
        let leaves = leaves(expr);
        let sources = fragments(&leaves);
        let all: Vec<&Fragment> = std::iter::once(d).chain(sources.iter().copied()).collect();
        self.own_fragments(&[d])?;
        self.own_leaves(&leaves)?;
        let size = d.layout.size();
        let parts = (0..size)
            .map(|i| d.element(i))
            .collect::<Result<Vec<Part>, ErrorKind>>()?;
        let mut lower = Lower::new(self, operation);
        lower.bind(expr, &d.layout)?;
        // Elements that share a register are computed one after the other.
        let folds = !d.layout.is_injective()? && !leaves.is_empty();
        if folds {
            let reads = |source: &&Fragment| {
                (0..size).all(|i| {
                    source
                        .element(i)
                        .is_ok_and(|part| part == parts[i as usize])
                })
            };
            if !sources
                .iter()
                .filter(|source| source.layout.size() == size)
                .any(reads)
            {
                return refuse(format!(
                    "{} has one register for several elements, and none of them is read: only the last would stay",
                    d.layout
                ));
            }
        }
        let whole: Vec<&Fragment> = all
            .into_iter()
            .filter(|f| f.layout.size() == size)
            .collect();
        lower.k.check_each(operation, &whole)?;
        let groups = groups(&lower, d, expr, &parts, folds);
        let owner: HashMap<Reg, usize> = groups
            .iter()
            .enumerate()
            .flat_map(|(number, group)| group.iter().map(move |i| (*i, number)))
            .map(|(i, number)| (parts[i].0, number))
            .collect();
        // A register that several elements of the destination are written before is read too early in none of them.
        let registers: Vec<Reg> = nodes(expr)
            .iter()
            .filter_map(|node| match node.0.node {
                ExprNode::Register(reg) => Some(reg),
                _ => None,
            })
            .collect();
        let is_read_elsewhere = |number: usize, group: &[usize], i: usize| {
            let read = lower.parts_at(i).map(|(reg, _)| reg);
            read.chain(registers.iter().copied()).any(|reg| {
                let is_own = d.packed() > 1 || group.len() == 1 || reg == parts[i].0;
                owner.get(&reg).is_some_and(|of| *of != number || !is_own)
            })
        };
        let waits = !folds
            && groups
                .iter()
                .enumerate()
                .any(|(number, group)| group.iter().any(|i| is_read_elsewhere(number, group, *i)));
        let mut later = Vec::new();
        for group in groups {
            let to = if waits {
                Vec::new()
            } else {
                targets(d, &parts, &group)
            };
            let lanes = lower.eval(expr, d.ty, &group, &to)?;
            if waits {
                let lanes = lower.kept(lanes, |reg| owner.contains_key(&reg));
                later.push((group, lanes));
                continue;
            }
            store(&mut lower, d, &parts, &group, lanes, folds);
            if folds {
                lower.forget();
            }
        }
        for (group, lanes) in later {
            store(&mut lower, d, &parts, &group, lanes, folds);
        }
        Ok(())
    }
}

/// Indices that are computed together: those whose elements share a register of the destination, or of a source.
fn groups(
    lower: &Lower<'_>,
    d: &Fragment,
    expr: &Expr,
    parts: &[Part],
    folds: bool,
) -> Vec<Vec<usize>> {
    let alone = || (0..parts.len()).map(|i| vec![i]).collect();
    if folds {
        return alone();
    }
    if d.packed() > 1 {
        let mut all: Vec<Vec<usize>> = Vec::new();
        let mut number: HashMap<Reg, usize> = HashMap::new();
        for (i, (reg, _)) in parts.iter().enumerate() {
            let number = *number.entry(*reg).or_insert_with(|| {
                all.push(Vec::new());
                all.len() - 1
            });
            all[number].push(i);
        }
        for group in &mut all {
            group.sort_by_key(|i| parts[*i].1);
            // One value for all needs one store.
            group.dedup_by_key(|i| parts[*i].1);
        }
        return all;
    }
    let Some(sources) = lower.packed_parts(expr) else {
        return alone();
    };
    let mut all: Vec<Vec<usize>> = Vec::new();
    for i in 0..parts.len() {
        let follows = |group: &&mut Vec<usize>| {
            let (reg, part) = sources[group[group.len() - 1]];
            sources[i] == (reg, part + 1)
        };
        match all.last_mut().filter(follows) {
            Some(group) => group.push(i),
            None => all.push(vec![i]),
        }
    }
    all
}

/// The registers that the values of a group may be written to.
fn targets(d: &Fragment, parts: &[Part], group: &[usize]) -> Vec<Reg> {
    match (d.packed(), group.len()) {
        (1, _) => group.iter().map(|i| parts[*i].0).collect(),
        (2, 2) if is_half(d.ty) => vec![parts[group[0]].0],
        _ => Vec::new(),
    }
}

/// Puts the values of a group into their registers, unless they are there.
fn store(
    lower: &mut Lower<'_>,
    d: &Fragment,
    parts: &[Part],
    group: &[usize],
    lanes: Lanes,
    folds: bool,
) {
    let packed = d.packed();
    let reg = parts[group[0]].0;
    if packed == 1 {
        for (i, x) in group.iter().zip(lower.each(lanes)) {
            let to = parts[*i].0;
            if x != Operand::Reg(to) {
                let x = if is_half(d.ty) {
                    lower.word(d.ty, x).into()
                } else {
                    x
                };
                lower.k.ir.mov_to(to, x);
            }
        }
        return;
    }
    let is_full = group.len() as i64 == packed;
    match lanes {
        Lanes::Pairs(pairs) if is_full => match &pairs[..] {
            [pair] if *pair == reg => {}
            [pair] => lower.k.ir.mov_to(reg, *pair),
            _ => lower.k.ir.push(Alu::Pack {
                d: reg,
                parts: pairs,
            }),
        },
        lanes if is_half(d.ty) => {
            let mut halves = [None; 2];
            for (i, x) in group.iter().zip(lower.each(lanes)) {
                halves[parts[*i].1 as usize] = Some(lower.word(d.ty, x));
            }
            let keeps = (folds || !d.is_whole) && halves.contains(&None);
            let old = if keeps {
                lower.k.ir.unpack(RegType::B16, reg)
            } else {
                Vec::new()
            };
            let half = |(i, half): (usize, Option<Reg>)| match half.or(old.get(i).copied()) {
                Some(half) => half,
                None => lower.k.ir.mov(Type::B16, 0),
            };
            let parts = halves.into_iter().enumerate().map(half).collect();
            lower.k.ir.push(Alu::Pack { d: reg, parts });
        }
        lanes => {
            let float = !d.ty.is_integer();
            let each: Vec<Operand> = lower.each(lanes);
            let word = |x: Operand| match (float, x) {
                (true, Operand::Reg(x)) => lower.k.ir.cvt(Type::U32, Type::U16, x).into(),
                (_, x) => x,
            };
            let each: Vec<Operand> = each.into_iter().map(word).collect();
            pack(lower, d, reg, (parts, group), &each, folds);
        }
    }
}

/// Integers of 8 or 16 bits, each in 32, side by side in a register.
fn pack(
    lower: &mut Lower<'_>,
    d: &Fragment,
    reg: Reg,
    (parts, group): (&[Part], &[usize]),
    each: &[Operand],
    folds: bool,
) {
    let ir = &mut lower.k.ir;
    let mut join = |a: Operand, b: Operand, bytes: i64, to: Option<Reg>| {
        let to = to.unwrap_or_else(|| ir.reg(RegType::B32));
        ir.ternary_to(TernaryOp::Prmt, Type::B32, to, a, b, bytes);
        to
    };
    match each {
        [a, b] if d.packed() == 2 => {
            join(*a, *b, 0x5410, Some(reg));
        }
        [a, b, c, e] => {
            let (low, high) = (join(*a, *b, 0x0040, None), join(*c, *e, 0x0040, None));
            join(low.into(), high.into(), 0x5410, Some(reg));
        }
        some => {
            let bits = i64::from(d.ty.bits());
            let mut word: Operand = if folds || !d.is_whole {
                reg.into()
            } else {
                Operand::Int(0)
            };
            for (i, x) in group.iter().zip(some) {
                let to = ir.reg(RegType::B32);
                ir.push(Alu::Bfi {
                    ty: Type::B32,
                    d: to,
                    a: *x,
                    b: word,
                    start: (bits * parts[*i].1).into(),
                    length: bits.into(),
                });
                word = to.into();
            }
            ir.mov_to(reg, word);
        }
    }
}
