//! In which order blocks take the tiles.

use colex_tensor::Index;

/// More tiles than this no problem has.
pub(crate) const MOST: i64 = 1 << 30;

/// The `[major, minor]` tile of place `number`: [`colex_sched::formula::grouped`], step by step, so that each step is
/// known to fit a register.
pub(crate) fn grouped(number: &Index, major: &Index, minor: &Index, width: i64) -> [Index; 2] {
    let number = number.within(0..MOST);
    let span = (major * width).within(1..MOST);
    let strip = (&number / &span).within(0..MOST / width);
    let first = (&strip * width).within(0..MOST);
    let wide = (minor - &first).min(&width.into()).within(1..width + 1);
    let inside = (number - (strip * span).within(0..MOST)).within(0..MOST);
    let [along, across] = [&inside / &wide, &inside % &wide];
    [along.within(0..MOST), (first + across).within(0..MOST)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_ir::{Reg, RegType};

    #[test]
    fn it_is_the_formula_of_the_schedule() {
        let mut cases = 0;
        let reg = |index| Reg {
            index,
            ty: RegType::B32,
        };
        let [number, major, minor] = [0, 1, 2].map(|i| Index::reg(reg(i), 0..MOST));
        for width in [1, 2, 8] {
            let [m, n] = grouped(&number, &major, &minor, width);
            for (a, b) in [(1, 1), (3, 5), (7, 8), (8, 17)] {
                for i in 0..a * b {
                    let value = |reg: Reg| Some([i, a, b][reg.index as usize]);
                    let found = [m.eval(&value), n.eval(&value)];
                    let expected = colex_sched::formula::grouped(i, a, b, width);
                    assert_eq!(
                        found,
                        expected.map(Some),
                        "place {i} of {a}x{b}, width {width}"
                    );
                    cases += 1;
                }
            }
        }
        println!("law gemm.raster: {cases} cases");
    }
}
