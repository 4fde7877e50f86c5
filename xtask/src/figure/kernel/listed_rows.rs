//! `figure listed-rows`: where the rows of a product go, if a list names their places in an output.
//!
//! The subject is the list of row numbers, one for each row of the product, such as `2 7 0 4 1`. Key: `rows`, the number of rows of the
//! output, needed.
//!
//! The drawing runs the product with `output_rows` on the simulator, and shows the memory of the output after it. Element (m, n) of the
//! product is 10 m + n, and a cell of the output takes the colour of the row whose element it holds.

use colex_atom::{Arch, Ty};
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_gpu::gemm::Epilogue;
use colex_gpu::{Device, Gemm};

use super::{Body, Error, count, needed};

/// The columns of the product, and its elements of K.
const COLUMNS: usize = 2;
const DEPTH: usize = 4;
/// What the output holds before the product, which no element of the product equals.
const OLD: f32 = -1.0;

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [text] = body.subjects()? else {
        return Err(Error::new(
            "a figure of listed rows has one subject, the list",
        ));
    };
    let list = list(text)?;
    needed(body, "rows")?;
    let rows = count(body, "rows", 1)?;
    let [product, output] = run(&list, rows as usize)?;
    let cell = |x: f32| match x {
        x if x == OLD => Cell::new(["old"]),
        x => Cell::new([format!("{x:02}")]).filled(Fill::pastel((x / 10.0) as i64)),
    };
    let matrix = |elements: &[f32], caption: &str| {
        let rows = elements.len() / COLUMNS;
        let at = |m: i64, n: i64| cell(elements[m as usize * COLUMNS + n as usize]);
        Grid::from_fn(rows as i64, COLUMNS as i64, at).map(|grid| grid.caption(caption))
    };
    let named = |m: i64, _| {
        let number = i64::from(list[m as usize]);
        let fill = if number < rows {
            Fill::pastel(m)
        } else {
            Fill::Void
        };
        Cell::new([number.to_string()]).filled(fill)
    };
    let numbers = Grid::from_fn(list.len() as i64, 1, named)?
        .headers(Headers::Numbers, Headers::None)
        .caption("list");
    let grids = [
        matrix(&product, "product")?,
        numbers,
        matrix(&output, "output")?,
    ];
    Ok(Picture::beside(grids)
        .title(format!(
            "The rows of a product, the list of their places, and an output of {rows} rows"
        ))
        .legend([(Fill::Void, "the output has no such row")]))
}

/// The numbers of the list, of which no two are equal: at most 8, which is the number of colours.
fn list(text: &str) -> Result<Vec<u32>, Error> {
    let numbers: Result<Vec<u32>, _> = text.split(' ').map(str::parse).collect();
    let wrong = || {
        Error::new(format!(
            "`{text}` is not a list of 2 to 8 row numbers, such as `2 0 1`"
        ))
    };
    let numbers = numbers.map_err(|_| wrong())?;
    if !(2..=8).contains(&numbers.len()) {
        return Err(wrong());
    }
    for (at, number) in numbers.iter().enumerate() {
        if numbers[..at].contains(number) {
            return Err(Error::new(format!(
                "the list `{text}` has the number {number} twice: which row stays is a race"
            )));
        }
    }
    Ok(numbers)
}

/// The product and the output, in memory after the run.
fn run(list: &[u32], rows: usize) -> Result<[Vec<f32>; 2], Error> {
    let epilogue = Epilogue::new(Ty::F32, |e| {
        e.output("listed", e.accumulator());
        e.accumulator()
    })?;
    let device = Device::simulator(Arch::Sm80);
    // (10 m, 1, 0, 0) times (1, n, 0, 0) is 10 m + n.
    let vectors = |count: usize, of: fn(f32) -> [f32; 2]| -> Vec<f32> {
        let vector = |i: usize| {
            let [first, second] = of(i as f32);
            [first, second, 0.0, 0.0]
        };
        (0..count).flat_map(vector).collect()
    };
    let a = device.upload(&vectors(list.len(), |m| [10.0 * m, 1.0]))?;
    let b = device.upload(&vectors(COLUMNS, |n| [1.0, n]))?;
    let places = device.upload(list)?;
    let mut product = device.poisoned::<f32>(list.len() * COLUMNS)?;
    let mut output = device.upload(&vec![OLD; rows * COLUMNS])?;
    let shape = |rows: usize, columns: usize| (rows as i64, columns as i64);
    Gemm::new(
        &a.view(shape(list.len(), DEPTH))?,
        &b.view(shape(COLUMNS, DEPTH))?,
        &product.view_mut(shape(list.len(), COLUMNS))?,
    )
    .epilogue(&epilogue)
    .output_rows(
        "listed",
        &output.view_mut(shape(rows, COLUMNS))?,
        &places.view(list.len() as i64)?,
    )
    .run()?;
    Ok([product.download()?, output.download()?])
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, OLD, run};
    use crate::figure::{draw, refused};

    #[test]
    fn each_row_is_where_the_list_says() {
        for (list, rows) in [
            (vec![2, 7, 0, 4, 1], 6),
            (vec![1, 0], 2),
            (vec![u32::MAX, 1], 3),
            (vec![3, 2, 1, 0], 4),
        ] {
            let [product, output] = run(&list, rows).expect("it runs");
            for (row, elements) in output.chunks(COLUMNS).enumerate() {
                let from = list.iter().position(|place| *place as usize == row);
                let expected = from.map(|m| &product[m * COLUMNS..][..COLUMNS]);
                assert_eq!(
                    elements,
                    expected.unwrap_or(&[OLD; COLUMNS]),
                    "{list:?} {row}"
                );
            }
            for (at, x) in product.iter().enumerate() {
                assert_eq!(*x, (10 * (at / COLUMNS) + at % COLUMNS) as f32);
            }
        }
    }

    #[test]
    fn a_list_is_drawn() {
        let html = draw("listed-rows", "2 7 0 4 1\nrows = 6").expect("it is well formed");
        // Rows 3 and 5 stay, and row 1 of the product is in no row.
        assert_eq!(html.matches(">old</text>").count(), 2 * COLUMNS);
        assert_eq!(html.matches(">11</text>").count(), 1);
        assert_eq!(html.matches(">21</text>").count(), 2);
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("listed-rows", "2 0 x\nrows = 4"),
            "`2 0 x` is not a list of 2 to 8 row numbers, such as `2 0 1`"
        );
        assert_eq!(
            refused("listed-rows", "2 0\n1 0\nrows = 4"),
            "a figure of listed rows has one subject, the list"
        );
        assert_eq!(
            refused("listed-rows", "2 0"),
            "the figure needs `rows = ..`"
        );
        assert_eq!(
            refused("listed-rows", "2 0 2\nrows = 4"),
            "the list `2 0 2` has the number 2 twice: which row stays is a race"
        );
    }
}
