//! Reductions along a mode of a tile, over the elements of each thread and over the threads of a partition.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::Location;

use colex_ir::{BinaryOp, ShuffleMode};
use colex_layout::Layout;

use super::Fragment;
use super::expr::Expr;
use super::reduce::{check_op, element};
use super::rows::generators;
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::error::ErrorKind;
use crate::tensor::Tensor;
use crate::tensor::partition_coords::PartitionCoords;

/// Which elements and threads of a partition hold what becomes one result.
struct Lines {
    /// The line of each element.
    of: Vec<usize>,
    /// The elements of each line, ascending along the mode.
    elements: Vec<Vec<usize>>,
    /// The XOR masks of the lanes that share lines.
    lanes: Vec<u32>,
    /// The distance of the warps that share lines, and how many they are.
    warps: (i64, i64),
}

/// A coordinate without one of its modes.
fn without(coordinate: &[i64], mode: usize) -> Vec<i64> {
    let mut rest = coordinate.to_vec();
    rest.remove(mode);
    rest
}

impl Lines {
    fn new(places: &PartitionCoords, mode: usize) -> Result<Lines, ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands("reduce_along", why));
        let mut numbers: HashMap<Vec<i64>, usize> = HashMap::new();
        let mut elements: Vec<Vec<usize>> = Vec::new();
        let mut of = Vec::new();
        for (e, at) in places.elements.iter().enumerate() {
            let next = numbers.len();
            let line = *numbers.entry(without(at, mode)).or_insert(next);
            if line == elements.len() {
                elements.push(Vec::new());
            }
            elements[line].push(e);
            of.push(line);
        }
        for line in &mut elements {
            line.sort_by_key(|e| places.elements[*e][mode]);
        }
        let mut groups: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
        for (t, at) in places.threads.iter().enumerate() {
            groups.entry(without(at, mode)).or_default().push(t);
        }
        // Every element is in one register of one thread, and a line in the same registers of all its threads.
        let mut seen: HashMap<Vec<i64>, usize> = HashMap::new();
        let mut lines: HashMap<Vec<i64>, &Vec<i64>> = HashMap::new();
        for (key, threads) in &groups {
            for at in &places.elements {
                let line = without(at, mode)
                    .iter()
                    .zip(key)
                    .map(|(a, b)| a + b)
                    .collect();
                if *lines.entry(line).or_insert(key) != key {
                    return refuse("its threads have a line in different registers".into());
                }
                for t in threads {
                    let place = at.iter().zip(&places.threads[*t]).map(|(a, b)| a + b);
                    if let Some(other) = seen.insert(place.collect(), *t) {
                        return refuse(format!("threads {other} and {t} hold the same element"));
                    }
                }
            }
        }
        let (mut distances, mut warps): (Option<BTreeSet<u32>>, Option<(i64, i64)>) = (None, None);
        for threads in groups.values() {
            let mut by_warp: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
            for t in threads {
                by_warp.entry(t / 32).or_default().insert((t % 32) as u32);
            }
            let all: Vec<i64> = by_warp.keys().map(|w| *w as i64).collect();
            let step = all.get(1).map_or(1, |second| second - all[0]);
            let own = (step, all.len() as i64);
            let first = |w: &i64| w / (own.0 * own.1) * (own.0 * own.1) + w % own.0;
            let is_even = (0..).zip(&all).all(|(i, w)| *w == all[0] + i * step)
                && all.iter().all(|w| first(w) == all[0]);
            for lanes in by_warp.values() {
                for lane in lanes {
                    let apart: BTreeSet<u32> =
                        lanes.iter().map(|l| l ^ lane).filter(|d| *d != 0).collect();
                    if *distances.get_or_insert_with(|| apart.clone()) != apart {
                        return refuse("lines of its threads lie in other lanes of a warp".into());
                    }
                }
            }
            if !is_even
                || *warps.get_or_insert(own) != own
                || by_warp
                    .values()
                    .any(|lanes| Some(lanes) != by_warp.values().next())
            {
                return refuse("lines of its threads lie in other warps".into());
            }
        }
        Ok(Lines {
            of,
            elements,
            lanes: generators(&distances.unwrap_or_default())?,
            warps: warps.unwrap_or((1, 1)),
        })
    }
}

impl Builder {
    /// Reduces along mode `mode` of the tile that `part` is a thread's part of, over the elements of every thread and over the
    /// threads: `x` has an element for each of `part`. Every thread holds the results of the lines that it has elements of, in
    /// the places of these elements, so that an expression broadcasts them back.
    ///
    /// Elements of 16 bits stay two in a register where a thread has one element of each line: half the registers go through the
    /// shuffles and shared memory, and one instruction combines two pairs where the architecture has it.
    ///
    /// The order is fixed: the elements of a thread ascend along the mode; then come the lanes of a warp, which share a line at
    /// XOR distances, the least first; then the warps in their order, through shared memory. All threads of the block must
    /// execute it; where several warps share a line it has two barriers (`bar.sync 0`).
    ///
    /// ```
    /// use colex_ir::BinaryOp;
    /// use colex_proof::examples::copied;
    ///
    /// // Each column, less its mean: the tile has 4 rows.
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy(copy, src, &held);
    ///     let sums = k.reduce_along(BinaryOp::Add, &held, src, 0);
    ///     k.assign(&held, &held - &sums * 0.25);
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!([to[0], to[8], to[16], to[24]], [-12.0, -4.0, 4.0, 12.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce`]; if `part` is not all of a thread's part of a tile, or reaches beyond
    /// it; if the threads of the block are not those of the partition, warp by warp; and if the partition has an element twice,
    /// or a line in different registers of its threads.
    #[track_caller]
    pub fn reduce_along(
        &mut self,
        op: BinaryOp,
        x: impl Into<Expr>,
        part: &Tensor,
        mode: usize,
    ) -> Fragment {
        let x = self.fragment_of_expr(x.into());
        let inert = |k: &mut Self| k.inert_fragment(x.ty);
        self.attempt(Location::caller(), inert, |k| {
            k.reduced_along(op, &x, part, mode)
        })
    }

    fn reduced_along(
        &mut self,
        op: BinaryOp,
        x: &Fragment,
        part: &Tensor,
        mode: usize,
    ) -> Result<Fragment, ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands("reduce_along", why));
        check_op("reduce_along", op, x.ty)?;
        self.own_tensors(&[part])?;
        let held = self.held_in_memory(part)?;
        let size = x.layout.size() as usize;
        let Some(held) = held.filter(|held| held.is_whole && held.elements.len() == size) else {
            return refuse(format!(
                "{size} elements of {}, and the tensor is not a thread's part of a tile with as many",
                x.layout
            ));
        };
        if !part.ends.is_empty() {
            return refuse(
                "the partition reaches beyond its tile: partition a tile that the threads divide"
                    .into(),
            );
        }
        if mode >= held.places.tile.len() {
            return refuse(format!("mode {mode} of a tile of {:?}", held.places.tile));
        }
        let lines = Lines::new(&held.places, mode)?;
        let threads = held.places.threads.len() as i64;
        self.check_warps("reduce_along")?;
        for own in 0..i64::from(self.threads) {
            let of = |reg| self.reports.values.of_thread(reg, own);
            let number = held.thread.as_ref().and_then(|thread| thread.eval(&of));
            let is_here = match number {
                Some(number) if lines.warps.1 > 1 => {
                    number == own && threads == i64::from(self.threads)
                }
                Some(number) => number % 32 == own % 32 && threads % 32 == 0,
                None => false,
            };
            if !is_here {
                return refuse(format!(
                    "a partition of {threads} threads in a block of {}: the threads of its warps are those of the block's",
                    self.threads
                ));
            }
        }
        let count = lines.elements.len() as i64;
        let all = self.new_fragment(x.ty, &Layout::column_major(count)?.to_static())?;
        self.clear(&all);
        let is_single = lines.elements.iter().all(|line| line.len() == 1);
        if is_single {
            // Elements that share a register stay in it.
            let all = all.under(Layout::column_major(x.layout.shape())?.to_static());
            self.assigned("reduce_along", &all, &x.into())?;
        }
        let several = if is_single { &[] } else { &lines.elements[..] };
        for (line, elements) in (0..).zip(several) {
            let mut own = elements.iter().map(|e| element(x, *e as i64));
            let first = own.next().transpose()?.expect("a line has an element");
            let total = self.map(first);
            for next in own {
                self.assign(&total, Expr::binary(op, &total, next?));
            }
            self.assigned("reduce_along", &element(&all, line)?, &total.into())?;
        }
        for lane in &lines.lanes {
            let other = self.shuffled(&all, ShuffleMode::Bfly, i64::from(*lane))?;
            self.assigned("reduce_along", &all, &Expr::binary(op, &all, &other))?;
        }
        let (step, warps) = lines.warps;
        let mut total = all.clone();
        if warps > 1 {
            let thread = self.thread();
            let (warp, lane) = (&thread / 32, &thread % 32);
            let first = &warp / (step * warps) * (step * warps) + &warp % step;
            // What the last call has stored there may still be read.
            self.sync();
            let (base, bytes) = self.places_for(&all, threads)?;
            self.put(&all, &(&base + &thread * bytes), Cond::Known(true))?;
            self.sync();
            for i in 0..warps {
                let place = (&first + i * step) * 32 + &lane;
                let next = self.fetch(&all, &(&base + place * bytes), None)?;
                if i == 0 {
                    total = next;
                } else {
                    self.assigned("reduce_along", &total, &Expr::binary(op, &total, &next))?;
                }
            }
        }
        let line = |i: i64| lines.of[i as usize] as i64;
        Ok(Fragment {
            layout: Layout::infer_modes(x.layout.shape().clone(), line)?.to_static(),
            is_whole: false,
            ..total
        })
    }
}
