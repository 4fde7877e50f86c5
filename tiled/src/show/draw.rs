//! Pictures of tiled copies and tiled MMAs: which thread holds what, of a tile or of several.

use colex_draw::{
    MAX_CELLS, Picture, ThreadValues, print_latex_copy, print_latex_mma, print_svg_mma,
};
use colex_layout::{IntTuple, Layout, Tiler};

use crate::Error;
use crate::copy::{Side, TiledCopy};
use crate::mma::{Operand, TiledMma};
use crate::tensor::Partition;
use crate::tensor::extents::{fixed, size};

impl TiledCopy {
    /// Draws which threads read and which write the elements of a tile: the maps of source and destination.
    ///
    /// They are headed as in CuTe's `print_latex`. A tile of one mode is a column; modes beyond the second go right.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::tv_of`] and [`TiledCopy::tile_shape`], and an error for a tile too large to
    /// draw.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_tiled::TiledCopy;
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(8,4):(1,8)", "(1,2):(0,1)",
    /// )?;
    /// let [source, destination] = copy.maps()?;
    /// assert_eq!(source.owners(1, 2), [(9, 0)]);
    /// assert_eq!(source, destination);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maps(&self) -> Result<[ThreadValues; 2], Error> {
        let tile = self.tile_shape()?;
        let map = |side| map(&tile, &self.tv_of(side)?);
        Ok([map(Side::Source)?, map(Side::Destination)?])
    }

    /// Returns the map of one side over as many tiles as cover a tensor of these extents.
    ///
    /// The values of a thread are numbered through all tiles. Where the tile does not divide the extents, the map goes
    /// beyond them, as the partition does: what lies outside is what a predicate must hold back.
    ///
    /// # Errors
    ///
    /// Returns an error if the tiler does not have two modes with extents, for extents below 1, or for those too large
    /// to draw. It also returns the errors of [`TiledCopy::partitions`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_tiled::{Side, TiledCopy};
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(8,16):(1,8)", "(2,4):(1,2)",
    /// )?;
    /// let map = copy.map_over([24, 16], Side::Source)?;
    /// assert_eq!((map.rows(), map.cols()), (32, 64));
    /// assert_eq!(map.place(0, 8), (16, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map_over(&self, extents: [i64; 2], side: Side) -> Result<ThreadValues, Error> {
        let whole = whole_tiles(self.tiler(), extents)?;
        let tensor = Layout::identity(IntTuple::from(whole))?;
        let partition = |thread| {
            let thread = self.slice(thread)?;
            match side {
                Side::Source => thread.partition_src(&tensor),
                Side::Destination => thread.partition_dst(&tensor),
            }
        };
        let heading = format!("{:#} over {} by {}", self.tv(), extents[0], extents[1]);
        map_of_partitions(heading, whole, self.threads(), partition)
    }

    /// Returns the picture of source and destination; one grid where both are the same.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::maps`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_tiled::TiledCopy;
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(3,2):(2,1)", "(2,2):(1,2)",
    /// )?;
    /// assert_eq!(copy.picture()?.svg().matches(">T5</text>").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn picture(&self) -> Result<Picture, Error> {
        let [source, destination] = self.short_maps()?;
        Ok(ThreadValues::copy(&source, &destination)?)
    }

    /// Returns the picture of source and destination that highlights what `thread` reads and writes; other cells are
    /// pale.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert!(copy.picture_of(3)?.svg().starts_with("<svg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::maps`], and an error if `thread` is not below the number of threads.
    pub fn picture_of(&self, thread: i64) -> Result<Picture, Error> {
        self.slice(thread)?;
        let [source, destination] = self.short_maps()?;
        Ok(ThreadValues::copy_of(&source, &destination, thread)?)
    }

    /// The maps with short headings.
    fn short_maps(&self) -> Result<[ThreadValues; 2], Error> {
        let [source, destination] = self.maps()?;
        let text = |side| Ok::<_, Error>(format!("{:#}", self.tv_of(side)?));
        Ok([
            source.titled(text(Side::Source)?),
            destination.titled(text(Side::Destination)?),
        ])
    }

    /// Returns source and destination as a page of LaTeX, byte for byte as CuTe's `print_latex`.
    ///
    /// ```
    /// # use colex_layout::Layout;
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert!(copy.latex()?.starts_with("% Layout S TV: "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::maps`].
    #[doc(alias = "print_latex")]
    pub fn latex(&self) -> Result<String, Error> {
        let [source, destination] = self.maps()?;
        Ok(print_latex_copy(&source, &destination)?)
    }
}

impl TiledMma {
    /// Draws which thread holds which element of the operands' tiles: the maps of C, A and B, headed as in CuTe's
    /// `print_latex`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::tv`], and an error for a tile too large to draw.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_tiled::TiledMma;
    /// let mma = TiledMma::new(colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?, "(2,2):(2,1)", (32, 32, 4))?;
    /// let [c, a, b] = mma.maps()?;
    /// assert_eq!((c.place(0, 8), a.place(0, 4), b.place(4, 0)), ((16, 0), (16, 0), (8, 0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maps(&self) -> Result<[ThreadValues; 3], Error> {
        let map = |operand| {
            let tile = IntTuple::flat(self.operand_tile(operand).map(fixed));
            map(&tile, &self.tv(operand)?)
        };
        Ok([map(Operand::C)?, map(Operand::A)?, map(Operand::B)?])
    }

    /// Returns the maps of C, A and B over as many tiles as cover a product of M by N by K.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::fragments`], and an error for extents below 1, or too large to draw.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_tiled::TiledMma;
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x8_F32TF32TF32F32_TN")?, "(1,1,1):(0,0,0)", ..)?;
    /// let [c, a, _] = mma.maps_over([32, 16, 8])?;
    /// assert_eq!((c.rows(), c.cols(), c.values(), a.values()), (32, 16, 16, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maps_over(&self, mnk: [i64; 3]) -> Result<[ThreadValues; 3], Error> {
        check_extents("maps_over", &mnk)?;
        let tile = self.tile_shape();
        let whole = [0, 1, 2].map(|i| round_up(mnk[i], tile[i]));
        let cells = |operand: Operand| operand.modes().map(|i| whole[i]);
        for operand in [Operand::C, Operand::A, Operand::B] {
            check_cells("maps_over", cells(operand))?;
        }
        let map = |operand: Operand| {
            let whole = cells(operand);
            let tensor = Layout::identity(IntTuple::from(whole))?;
            let tv = self.tv(operand)?;
            let partition = |thread| self.slice(thread)?.partition(&tensor, operand);
            let heading = format!("{tv:#} over {} by {}", whole[0], whole[1]);
            map_of_partitions(heading, whole, size(&tv, 0), partition)
        };
        Ok([map(Operand::C)?, map(Operand::A)?, map(Operand::B)?])
    }

    /// Returns the operands around the result: A at the left, B at the top, C in the centre.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert!(mma.picture()?.svg().starts_with("<svg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::maps`].
    pub fn picture(&self) -> Result<Picture, Error> {
        let [c, a, b] = self.short_maps()?;
        Ok(ThreadValues::mma(&c, &a, &b)?)
    }

    /// Returns the picture of [`picture`](Self::picture) that highlights what `thread` holds of A, B and C; other cells are
    /// pale.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::slice`] and [`TiledMma::maps`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Mark;
    /// use colex_tiled::TiledMma;
    /// let mma = TiledMma::new(colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?, "(2,2):(2,1)", ..)?;
    /// let picture = mma.picture_of(4)?;
    /// let c = picture.grids().nth(2).ok_or("A, B and C")?;
    /// assert_eq!((c.cell(0, 8).mark, c.cell(0, 0).mark), (Mark::Focus, Mark::Dim));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn picture_of(&self, thread: i64) -> Result<Picture, Error> {
        self.slice(thread)?;
        let [c, a, b] = self.short_maps()?;
        Ok(ThreadValues::mma_of(&c, &a, &b, thread)?)
    }

    /// The maps with short headings.
    fn short_maps(&self) -> Result<[ThreadValues; 3], Error> {
        let text = |operand| Ok::<_, Error>(format!("{:#}", self.tv(operand)?));
        let [c, a, b] = self.maps()?;
        Ok([
            c.titled(text(Operand::C)?),
            a.titled(text(Operand::A)?),
            b.titled(text(Operand::B)?),
        ])
    }

    /// Returns the operands as a page of LaTeX, byte for byte as CuTe's `print_latex`.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert!(mma.latex()?.starts_with("% LayoutC: "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::maps`].
    #[doc(alias = "print_latex")]
    pub fn latex(&self) -> Result<String, Error> {
        let [c, a, b] = self.maps()?;
        Ok(print_latex_mma(&c, &a, &b)?)
    }

    /// Returns the operands as an SVG, byte for byte as CuTe's `print_svg`. [`TiledMma::picture`] is made for pages.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert!(mma.print_svg()?.starts_with("<!--  Tile: (_32,_16,_16)  -->"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::maps`].
    pub fn print_svg(&self) -> Result<String, Error> {
        let [c, a, b] = self.maps()?;
        let tile = IntTuple::flat(self.tile_shape().map(fixed)).to_string();
        Ok(print_svg_mma(&tile, &c, &a, &b)?)
    }
}

/// The map of a thread-value layout to a tile, headed by the coordinates as CuTe prints them; where the algebra has no
/// layout of coordinates, by the layout of indices.
fn map(tile: &IntTuple, tv: &Layout) -> Result<ThreadValues, Error> {
    let mut extents = tile.modes().map(|mode| mode.product());
    let rows = extents.next().transpose()?.map_or(1, |n| n.value());
    let cols = extents.try_fold(1, |cols, n| n.map(|n| cols * n.value()))?;
    let map = ThreadValues::of(tv, rows, cols)?;
    let heading = match Layout::identity(tile.clone())?.composition(tv) {
        Ok(coordinates) => format!("ArithTuple{} o {coordinates}", tile.repeat_like(fixed(0))),
        Err(_) => tv.to_string(),
    };
    Ok(map.titled(heading))
}

/// The map of what each thread has, coordinate by coordinate.
fn map_of_partitions(
    heading: String,
    extents: [i64; 2],
    threads: i64,
    partition: impl Fn(i64) -> Result<Partition, Error>,
) -> Result<ThreadValues, Error> {
    let mut places = Vec::new();
    for thread in 0..threads {
        let values = partition(thread)?.values()?;
        places.push(values.iter().map(place).collect::<Vec<_>>());
    }
    let values = places.first().map_or(0, Vec::len) as i64;
    let at = |thread: i64, value: i64| places[thread as usize][value as usize];
    Ok(ThreadValues::from_fn(
        heading,
        extents,
        [threads, values],
        at,
    )?)
}

/// A coordinate of two modes.
fn place(coord: &IntTuple) -> (i64, i64) {
    let leaf = |i: usize| coord.leaves().get(i).map_or(0, |n| n.value());
    (leaf(0), leaf(1))
}

/// The extents of the tiles that cover `extents`.
fn whole_tiles(tiler: &Tiler, extents: [i64; 2]) -> Result<[i64; 2], Error> {
    let reach = |mode: &Tiler| match mode {
        Tiler::Int(n) => Some(n.value()),
        Tiler::Layout(layout) => layout.cosize().ok(),
        Tiler::All | Tiler::Modes(_) => None,
    };
    let tile = match tiler {
        Tiler::Modes(modes) if modes.len() == 2 => reach(&modes[0]).zip(reach(&modes[1])),
        _ => None,
    };
    let (rows, cols) = tile.ok_or_else(|| {
        Error::assumption(
            "map_over",
            format!("the tiler {tiler} is not one of two modes with extents"),
        )
    })?;
    check_extents("map_over", &extents)?;
    let whole = [round_up(extents[0], rows), round_up(extents[1], cols)];
    check_cells("map_over", whole)?;
    Ok(whole)
}

/// The least multiple of `tile` that is not below `n`, which is positive.
fn round_up(n: i64, tile: i64) -> i64 {
    ((n - 1) / tile + 1).saturating_mul(tile)
}

/// Refuses extents that no tensor has.
fn check_extents(operation: &'static str, extents: &[i64]) -> Result<(), Error> {
    match extents.iter().find(|n| **n < 1) {
        None => Ok(()),
        Some(n) => Err(Error::assumption(
            operation,
            format!("extents are at least 1, not {n}"),
        )),
    }
}

/// Refuses what no drawing holds, before any of it is tabulated.
fn check_cells(operation: &'static str, [rows, cols]: [i64; 2]) -> Result<(), Error> {
    if rows.checked_mul(cols).is_some_and(|n| n <= MAX_CELLS) {
        return Ok(());
    }
    Err(Error::assumption(
        operation,
        format!("{rows} by {cols} are more than the {MAX_CELLS} cells that a drawing takes"),
    ))
}
