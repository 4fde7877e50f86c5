//! One instruction on the host, from registers to registers.

use crate::mma::MmaAtom;
use crate::number::{Fragment, Ty, Value};
use crate::{Error, tv};

/// Where an operand is.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// In registers: one fragment per logical thread.
    Registers(&'a [Fragment]),
    /// In shared memory: the tile, `m + M*k` or `n + N*k`, as the descriptor's layout yields it.
    Tile(&'a [Value]),
}

/// `D = A B + C` on whole tiles.
type Multiply = fn(&MmaAtom, &[Value], &[Value], &[Value]) -> Result<Vec<Value>, Error>;

impl MmaAtom {
    /// Executes the instruction: D in registers, one fragment per logical thread.
    ///
    /// `metadata` is one register per thread for a sparse A, else empty. Operands are gathered and D is scattered by
    /// the thread-value layouts; between them stands [`multiply`](Self::multiply).
    ///
    /// ```
    /// use colex_atom::{Fragment, Operand, Ty, Value, mma};
    ///
    /// let atom = mma("SM80_8x8x4_F64F64F64F64_TN")?;
    /// let ones = |values| vec![Fragment::from_words(Ty::F64, values, &[0, 0x3ff0_0000, 0, 0x3ff0_0000]); 32];
    /// let (a, b, c) = (ones(1), ones(1), ones(2));
    /// let d = atom.execute(Operand::Registers(&a), Operand::Registers(&b), &c, &[])?;
    /// assert_eq!(d[31].get(1), Value::Real(5.0));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that is a layout only, for operands in the wrong place or of the wrong size, or for
    /// metadata that selects no element.
    pub fn execute(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        c: &[Fragment],
        metadata: &[u32],
    ) -> Result<Vec<Fragment>, Error> {
        self.run(a, b, c, metadata, Self::multiply)
    }

    /// Returns the same as [`execute`](Self::execute), with the sums of Hopper:
    /// [`multiply_on_hopper`](Self::multiply_on_hopper).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`execute`](Self::execute).
    pub fn execute_on_hopper(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        c: &[Fragment],
        metadata: &[u32],
    ) -> Result<Vec<Fragment>, Error> {
        self.run(a, b, c, metadata, Self::multiply_on_hopper)
    }

    fn run(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        c: &[Fragment],
        metadata: &[u32],
        multiply: Multiply,
    ) -> Result<Vec<Fragment>, Error> {
        self.op()?;
        let mut a = self.tile_a(a)?;
        if self.rule().is_sparse() {
            a = self.unpack(&a, metadata)?
        } else {
            self.check_absent(metadata)?
        }
        let b = self.tile_b(b)?;
        let c = self.gather('C', c)?;
        Ok(self.scatter(&multiply(self, &a, &b, &c)?))
    }

    /// Returns the tile of an operand (`'A'`, `'B'` or `'C'`) that fragments hold; of a sparse A the kept elements.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not one fragment per thread, of the operand's type and size.
    pub fn gather(&self, operand: char, fragments: &[Fragment]) -> Result<Vec<Value>, Error> {
        let (layout, ty) = self.operand(operand);
        let packing = if operand == 'A' {
            self.rule().packing()
        } else {
            1
        };
        let (threads, values) = (tv::threads(layout), tv::values(layout) / packing);
        let fits = |f: &Fragment| f.ty() == ty && f.len() == values;
        if fragments.len() != threads || !fragments.iter().all(fits) {
            return Err(self.wrong_fragments(operand, threads, values, fragments));
        }
        let m = self.mnk()[0] as usize;
        let table = self.table(operand);
        let mut tile =
            vec![Value::zero(ty); table.iter().max().map_or(0, |last| last + 1) / packing];
        for value in 0..values {
            for (thread, fragment) in fragments.iter().enumerate() {
                let at = table[thread + threads * value * packing];
                let at = if packing == 1 {
                    at
                } else {
                    at % m + m * (at / m / packing)
                };
                tile[at] = fragment.get(value);
            }
        }
        Ok(tile)
    }

    /// Returns the fragments of C (and D) that hold a tile.
    pub fn scatter(&self, tile: &[Value]) -> Vec<Fragment> {
        self.fragments('C', 1, tile)
    }

    /// Returns the fragments of A or B that hold a tile; of a sparse A the tile of kept elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the tile is not of the operand's size.
    pub fn scatter_operand(&self, operand: char, tile: &[Value]) -> Result<Vec<Fragment>, Error> {
        let packing = if operand == 'A' {
            self.rule().packing()
        } else {
            1
        };
        let [m, n, k] = self.mnk().map(|extent| extent as usize);
        let size = match operand {
            'A' => m * k / packing,
            'B' => n * k,
            _ => m * n,
        };
        self.check_size(operand, tile.len(), size)?;
        Ok(self.fragments(operand, packing, tile))
    }

    fn fragments(&self, operand: char, packing: usize, tile: &[Value]) -> Vec<Fragment> {
        let (layout, ty) = self.operand(operand);
        let m = self.mnk()[0] as usize;
        let (threads, values) = (tv::threads(layout), tv::values(layout) / packing);
        let table = self.table(operand);
        let mut fragments = vec![Fragment::zeros(ty, values); threads];
        for value in 0..values {
            for (thread, fragment) in fragments.iter_mut().enumerate() {
                let at = table[thread + threads * value * packing];
                let at = if packing == 1 {
                    at
                } else {
                    at % m + m * (at / m / packing)
                };
                fragment.set(value, tile[at]);
            }
        }
        fragments
    }

    /// The layout and type of an operand.
    fn operand(&self, operand: char) -> (&colex_layout::Layout, Ty) {
        let traits = self.traits();
        match operand {
            'A' => (&traits.a, traits.ty_a),
            'B' => (&traits.b, traits.ty_b),
            _ => (&traits.c, traits.ty_c),
        }
    }

    fn tile_a(&self, a: Operand<'_>) -> Result<Vec<Value>, Error> {
        match a {
            Operand::Registers(fragments) if !self.a_in_shared() => self.gather('A', fragments),
            Operand::Tile(tile) if self.a_in_shared() => Ok(tile.to_vec()),
            _ => Err(self.misplaced('A', self.a_in_shared())),
        }
    }

    fn tile_b(&self, b: Operand<'_>) -> Result<Vec<Value>, Error> {
        match b {
            Operand::Registers(fragments) if !self.b_in_shared() => self.gather('B', fragments),
            Operand::Tile(tile) if self.b_in_shared() => Ok(tile.to_vec()),
            _ => Err(self.misplaced('B', self.b_in_shared())),
        }
    }

    fn misplaced(&self, operand: char, shared: bool) -> Error {
        let places = ["in registers", "a tile of shared memory"].map(str::to_string);
        let [found, expected] = if shared {
            places
        } else {
            [places[1].clone(), places[0].clone()]
        };
        self.wrong_operand(operand, expected, found)
    }

    fn wrong_fragments(
        &self,
        operand: char,
        threads: usize,
        values: usize,
        found: &[Fragment],
    ) -> Error {
        let ty = self.operand(operand).1;
        let mut fragments = found.iter().enumerate();
        let misfit = fragments.find(|(_, f)| f.ty() != ty || f.len() != values);
        let found = match misfit {
            Some((at, fragment)) => format!(
                "{} fragments, of which fragment {at} has {} {}",
                found.len(),
                fragment.len(),
                fragment.ty()
            ),
            None if found.is_empty() => "none".to_string(),
            None => format!("{} fragments", found.len()),
        };
        let expected = format!("{threads} fragments of {values} {ty}");
        self.wrong_operand(operand, expected, found)
    }

    fn check_absent(&self, metadata: &[u32]) -> Result<(), Error> {
        if metadata.is_empty() {
            return Ok(());
        }
        let found = format!("{} registers of metadata", metadata.len());
        Err(self.wrong_operand('E', "absent", found))
    }
}
