//! The lines of values that CuTe's `print_tensor` prints.

use alloc::string::String;
use core::fmt::Display;

use crate::error::{Error, ErrorKind};
use crate::table::check_cells;
use crate::table::text::put;
use colex_layout::IntoLayout;

/// Returns the values of a tensor, byte for byte as CuTe's `print_tensor` prints those of 32-bit integers.
///
/// `value` is what lies at an offset; each is right-aligned to 5 characters.
/// Rank 1 goes down; rank 2 is a grid; ranks 3 and 4 are grids between lines of `-` and of `=`.
/// CuTe's first line, with the type of the pointer, is left out.
///
/// # Errors
///
/// Returns an error for other ranks and for more than [`MAX_CELLS`](crate::MAX_CELLS) values. It also returns the
/// errors of [`Layout::at`](colex_layout::Layout::at).
///
/// # Example
///
/// ```
/// use colex_draw::print_tensor;
/// let data = [10, 11, 12, 13, 14, 15];
/// let lines = print_tensor(((2, 3), (3, 1)), |offset| data[offset as usize])?;
/// assert_eq!(lines, "   10   11   12\n   13   14   15\n");
/// # Ok::<(), colex_draw::Error>(())
/// ```
///
/// Source: `cute/util/print_tensor.hpp`.
pub fn print_tensor<D: Display>(
    layout: impl IntoLayout,
    value: impl Fn(i64) -> D,
) -> Result<String, Error> {
    let layout = layout.into_layout()?;
    let name = alloc::string::ToString::to_string(&layout);
    check_cells(&name, Some(layout.size()))?;
    let sizes = layout.modes().map(|mode| mode.size());
    let sizes: smallvec::SmallVec<[i64; 4]> = sizes.collect();
    let (rows, cols, grids, cubes) = match *sizes.as_slice() {
        [rows] => (rows, 1, 1, 1),
        [rows, cols] => (rows, cols, 1, 1),
        [rows, cols, grids] => (rows, cols, grids, 1),
        [rows, cols, grids, cubes] => (rows, cols, grids, cubes),
        _ => return Err(rank_error(&name, layout.rank())),
    };
    let mut out = String::new();
    for grid in 0..grids * cubes {
        if grid > 0 {
            let line = if grid % grids == 0 { "=====" } else { "-----" };
            put(&mut out, format_args!("{}\n", line.repeat(cols as usize)));
        }
        for row in 0..rows {
            for col in 0..cols {
                let offset = layout.at(row + rows * (col + cols * grid))?;
                put(&mut out, format_args!("{:>5}", value(offset)));
            }
            out.push('\n');
        }
    }
    Ok(out)
}

fn rank_error(name: &str, rank: usize) -> Error {
    ErrorKind::Operand {
        operation: "print_tensor",
        operand: name.into(),
        why: alloc::format!("it has rank {rank}, and tensors of rank 1 to 4 are printed"),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[track_caller]
    fn body(text: &str, value: impl Fn(i64) -> i64) -> String {
        print_tensor(text, value).expect("the layout is small")
    }

    #[test]
    fn bodies_of_each_rank() {
        assert_snapshot!("tensor_rank_one", body("12:1", |i| i));
        assert_snapshot!(
            "tensor_rank_three",
            body("(3,2,2):(1,3,6)", |i| i * 100 - 5)
        );
        assert_snapshot!("tensor_rank_four", body("(2,2,2,2):(1,2,4,8)", |i| i));
    }

    #[test]
    fn other_ranks_are_refused() {
        use alloc::string::ToString;
        let error = print_tensor("(1,1,1,1,2):(0,0,0,0,1)", |i| i).expect_err("rank 5 has no form");
        assert_eq!(
            error.to_string(),
            "print_tensor of (1,1,1,1,2):(0,0,0,0,1): it has rank 5, and tensors of rank 1 to 4 are printed"
        );
    }
}
