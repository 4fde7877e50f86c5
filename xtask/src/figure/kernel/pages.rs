//! `figure pages`: where the keys of several sequences lie in a pool of pages.
//!
//! The subjects are the rows of the table, one for each sequence: the numbers of its pages, such as `2 1`. Keys:
//! - `pool`, needed: the number of pages of the pool;
//! - `keys`, needed: how many keys each sequence has, such as `32 16 32`;
//! - `rows`: the rows of a page; 16 without it.
//!
//! Key j of a sequence has the coordinate (table(j / rows), j mod rows) of the pool. A cell of the pool has the numbers of the keys that
//! lie there, and the colour of their sequence.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};

use super::{Body, Error, count, needed};

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    needed(body, "pool")?;
    let [pool, rows] = [count(body, "pool", 1)?, count(body, "rows", 16)?];
    let table: Result<Vec<Vec<i64>>, Error> =
        body.subjects()?.iter().map(|text| numbers(text)).collect();
    let (table, keys) = (table?, numbers(needed(body, "keys")?)?);
    let places = places(&table, &keys, rows)?;
    let sequences = table.len() as i64;
    let shared = Fill::pastel(sequences);
    let columns = table.iter().map(Vec::len).max().unwrap_or(0) as i64;
    let named = |sequence: i64, at: i64| {
        let page = table[sequence as usize].get(at as usize);
        page.map_or_else(
            || Cell::default().filled(Fill::Void),
            |page| Cell::new([page.to_string()]).filled(Fill::pastel(sequence)),
        )
    };
    let tables = Grid::from_fn(sequences, columns, named)?
        .headers(
            Headers::Named(numbered("sequence", sequences)),
            Headers::Numbers,
        )
        .axes("", "j / rows")
        .caption("table");
    let key = |page: i64, row: i64| {
        let here: Vec<&PagedKey> = places
            .iter()
            .filter(|place| [place.page, place.row] == [page, row])
            .collect();
        let mut all: Vec<String> = here.iter().map(|place| place.key.to_string()).collect();
        all.dedup();
        match here.as_slice() {
            [] => Cell::default().filled(Fill::Void),
            [one] => Cell::new(all).filled(Fill::pastel(one.sequence)),
            _ => Cell::new(all).filled(shared),
        }
    };
    let pages = Grid::from_fn(pool, rows, key)?
        .headers(Headers::Named(numbered("page", pool)), Headers::Numbers)
        .axes("", "row")
        .caption("pool: the key j in each row");
    let mut legend: Vec<(Fill, String)> = (0..sequences)
        .map(|sequence| (Fill::pastel(sequence), format!("sequence {sequence}")))
        .collect();
    let is_shared = places.iter().any(|place| {
        let same = |other: &&PagedKey| [other.page, other.row] == [place.page, place.row];
        places.iter().filter(same).count() > 1
    });
    if is_shared {
        legend.push((shared, "of several sequences".into()));
    }
    legend.push((Fill::Void, "no key".into()));
    Ok(Picture::beside([tables, pages])
        .title(format!(
            "The pages of {sequences} sequences, and the {pool} pages of the pool with their keys"
        ))
        .legend(legend))
}

/// `page 0`, `page 1` and so on.
fn numbered(what: &str, count: i64) -> Vec<String> {
    (0..count)
        .map(|number| format!("{what} {number}"))
        .collect()
}

/// Where a key of a sequence lies.
struct PagedKey {
    sequence: i64,
    key: i64,
    page: i64,
    row: i64,
}

/// The places of all keys, also those in pages that the pool does not have.
fn places(table: &[Vec<i64>], keys: &[i64], rows: i64) -> Result<Vec<PagedKey>, Error> {
    if table.len() != keys.len() {
        return Err(Error::new(format!(
            "the table has {} sequences, and `keys` has {} numbers",
            table.len(),
            keys.len()
        )));
    }
    let mut places = Vec::new();
    for (sequence, (pages, keys)) in table.iter().zip(keys).enumerate() {
        for key in 0..*keys {
            let page = pages.get((key / rows) as usize).ok_or_else(|| {
                Error::new(format!(
                    "sequence {sequence} has {keys} keys, and its pages have {}",
                    pages.len() as i64 * rows
                ))
            })?;
            places.push(PagedKey {
                sequence: sequence as i64,
                key,
                page: *page,
                row: key % rows,
            });
        }
    }
    Ok(places)
}

fn numbers(text: &str) -> Result<Vec<i64>, Error> {
    let all: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
    all.ok()
        .filter(|all| all.iter().all(|number| (0..=512).contains(number)))
        .ok_or_else(|| {
            Error::new(format!(
                "`{text}` is not a list of numbers up to 512, such as `2 1`"
            ))
        })
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn keys_lie_where_the_table_says() {
        let body = "2 1\n0\n2 9\npool = 4\nrows = 2\nkeys = 4 1 4";
        let html = draw("pages", body).expect("it is well formed");
        // Page 2 has keys 0 and 1 of two sequences, page 1 keys 2 and 3, page 0 the only key of sequence 1, and page 9 is not drawn.
        // A row of the table and a line of the legend.
        assert_eq!(html.matches(">sequence 2<").count(), 2);
        assert_eq!(html.matches(">of several sequences<").count(), 1);
        assert_eq!(html.matches(">9</text>").count(), 1);
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("pages", "2 1\npool = 4"),
            "the figure needs `keys = ..`"
        );
        assert_eq!(
            refused("pages", "2 x\npool = 4\nkeys = 32"),
            "`2 x` is not a list of numbers up to 512, such as `2 1`"
        );
        assert_eq!(
            refused("pages", "2 1\npool = 4\nkeys = 33"),
            "sequence 0 has 33 keys, and its pages have 32"
        );
        assert_eq!(
            refused("pages", "2 1\n0\npool = 4\nkeys = 32"),
            "the table has 2 sequences, and `keys` has 1 numbers"
        );
    }
}
