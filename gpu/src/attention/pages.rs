//! Keys and values in the pages of a pool: a table on the device names the pages. The Ampere kernel reads them with this.

use colex_tensor::{Builder, Error, Index, Stage, Tensor, Var};

use super::plan::AttentionPlan;
use super::problem::MOST_LENGTH;
use crate::gemm::operand::{FetchPart, OperandTiles};

/// The rows of the pages that a plan takes: multiples of this number.
pub(crate) const STEP: i64 = 16;

/// The most rows of a page.
pub(crate) const MOST_ROWS: i64 = 1 << 16;

/// Returns the keys of a tile that lie in one page, wherever a multiple of them begins.
pub(crate) fn part(page: i64, tile: i64) -> i64 {
    let (mut a, mut b) = (page.abs(), tile.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The keys and values of one sequence, in the tiles of a block.
pub(crate) struct PagedTiles {
    /// K (row of a page, feature, head, page), and V (feature, row of a page, head, page).
    keys: Tensor,
    values: Tensor,
    of_keys: FetchPart,
    of_values: FetchPart,
    /// The table (sequence, entry), and the sequence.
    table: Tensor,
    sequence: Index,
    /// The head of K, and the number of keys.
    head: Index,
    length: Index,
    /// The rows of a page, and of a tile and of a part of it.
    page: i64,
    tile: i64,
    part: i64,
    /// The entries of the table for the parts of the next tile. They are loaded a step before they are used.
    entries: Vec<Var>,
}

impl PagedTiles {
    /// `of` has the tensors of K and V and the table; `place` the sequence, the head of K and the number of keys.
    pub(crate) fn new(
        k: &mut Builder,
        (plan, page): (&AttentionPlan, i64),
        tiles: [&OperandTiles; 2],
        [keys, values, table]: [Tensor; 3],
        [sequence, head, length]: [Index; 3],
    ) -> Result<PagedTiles, Error> {
        let tile = plan.tile[1];
        let part = part(page, tile);
        let [inner, outer] = plan.operands.features;
        Ok(PagedTiles {
            of_keys: tiles[0].parts([part, inner])?,
            of_values: tiles[1].parts([outer, part])?,
            keys,
            values,
            table,
            sequence,
            head,
            length,
            page,
            tile,
            part,
            entries: (0..tile / part).map(|_| k.var(0, 0..1 << 32)).collect(),
        })
    }

    /// Loads the entries of the table for a step.
    pub(crate) fn look_up(&self, k: &mut Builder, step: &Index) {
        let step = self.bounded(step);
        for (number, entry) in (0..).zip(&self.entries) {
            let place = (&step * self.tile + number * self.part) / self.page;
            let found = k.gather(&self.table.elements((&self.sequence, place)));
            let found = k.index_of(found.regs()[0], 0..1 << 32);
            k.set(entry, found);
        }
    }

    /// The step, no farther than behind the last key that there can be.
    fn bounded(&self, step: &Index) -> Index {
        step.min(&(MOST_LENGTH / self.tile + 1).into())
    }

    /// Copies the tiles of the step whose entries were loaded last into a stage. Rows beyond the last key are zeros, and so are
    /// those of a page that the pool does not have.
    pub(crate) fn fetch(&self, k: &mut Builder, step: &Index, stage: &Stage) {
        let pages = k.within(self.keys.extent(3), 1..1 << 31);
        let step = self.bounded(step);
        for (number, entry) in (0..).zip(&self.entries) {
            let key = &step * self.tile + number * self.part;
            let entry = k.get(entry);
            let row = &key % self.page;
            let left = &row + (&self.length - &key);
            let end = -((-left).min(&0.into()));
            let end = Index::select_less(&entry, &pages, &end, &0.into());
            let (row, page) = (row / self.part, entry.min(&(&pages - 1)));
            let (head, whole) = (&self.head, Index::from(0));
            let place = [number, 0];
            let keys = self.keys.narrow(0, 0, &end);
            let at = [&row, &whole, head, &page];
            self.of_keys.fetch(k, (&keys, at), place, stage);
            let values = self.values.narrow(1, 0, &end);
            let at = [&whole, &row, head, &page];
            self.of_values.fetch(k, (&values, at), [0, number], stage);
        }
    }
}
