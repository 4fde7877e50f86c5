//! The colours of pictures, each in a light and a dark tone.
//!
//! Text keeps a contrast of at least 4.5 to 1 on every tone (the AA level of WCAG 2); the tests compute it.

/// What fills a cell.
///
/// A fill is a class, not a colour: each theme has its own tone of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fill {
    /// The background of the picture.
    #[default]
    Blank,
    /// Nothing is here: hatched.
    Void,
    /// One of 8 hues.
    Pastel(u8),
    /// One of 32 colours: a hue for every four, from light to strong within them.
    Thread(u8),
    /// A step of 16 from low to high.
    Scale(u8),
}

impl Fill {
    /// Returns the pastel of a number: one of 8, equal for equal residues.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Fill;
    /// assert_eq!(Fill::pastel(11), Fill::Pastel(3));
    /// assert_eq!(Fill::thread(-1), Fill::Thread(31));
    /// assert_eq!(Fill::scale(63, 0, 63), Fill::Scale(15));
    /// ```
    #[must_use]
    pub fn pastel(n: i64) -> Self {
        Self::Pastel(n.rem_euclid(8) as u8)
    }

    /// Returns the colour of a thread, or of a bank: one of 32, equal for equal residues.
    #[must_use]
    pub fn thread(n: i64) -> Self {
        Self::Thread(n.rem_euclid(32) as u8)
    }

    /// Returns the step of `n` between `low` and `high`, the ends included; beyond them, the nearest end.
    #[must_use]
    pub fn scale(n: i64, low: i64, high: i64) -> Self {
        let (n, low, high) = (i128::from(n), i128::from(low), i128::from(high));
        let span = (high - low).max(1);
        Self::Scale(((n.clamp(low, high.max(low)) - low) * 16 / (span + 1)) as u8)
    }

    /// The tones, and the letter of the class with the number in it.
    pub(crate) fn class(self) -> (char, u8, Tone) {
        match self {
            Self::Blank => ('b', 0, BLANK),
            Self::Void => ('v', 0, VOID),
            Self::Pastel(n) => ('p', n % 8, PASTELS[usize::from(n % 8)]),
            Self::Thread(n) => ('t', n % 32, THREADS[usize::from(n % 32)]),
            Self::Scale(n) => ('s', n.min(15), SCALE[usize::from(n.min(15))]),
        }
    }
}

/// A colour in a light and in a dark theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tone(pub(crate) &'static str, pub(crate) &'static str);

/// Labels in cells.
pub(crate) const INK: Tone = Tone("#1a1d21", "#f1f3f5");
/// Headers, notes and the labels of cells out of focus.
pub(crate) const MUTED: Tone = Tone("#525b66", "#a9b2be");
/// The lines between cells.
pub(crate) const LINE: Tone = Tone("#8a93a0", "#5d6675");
/// The lines around blocks, tiles and grids.
pub(crate) const EDGE: Tone = Tone("#20242b", "#d5dae1");
/// The line around what is in focus.
pub(crate) const FOCUS: Tone = Tone("#c2185b", "#ff8fc1");
/// The line of a walk: between lines and labels in strength, so that labels stay legible on it.
pub(crate) const PATH: Tone = Tone("#8f5a7a", "#b98aa6");
/// The background, and cells without a colour.
pub(crate) const BLANK: Tone = Tone("#ffffff", "#14171f");
/// Cells that hold nothing.
pub(crate) const VOID: Tone = Tone("#e7e9ec", "#2a2f3a");

/// Eight hues of one lightness.
pub(crate) const PASTELS: [Tone; 8] = [
    Tone("#cce4fe", "#204263"),
    Tone("#ffd6d2", "#60302d"),
    Tone("#b9f0d1", "#164b33"),
    Tone("#e3dcff", "#433861"),
    Tone("#fedab2", "#57380f"),
    Tone("#aaeff7", "#03494f"),
    Tone("#ffd2ee", "#58304b"),
    Tone("#dfe7b2", "#3f4413"),
];

/// Thirty-two colours: a hue for every four threads, from light to strong within them.
pub(crate) const THREADS: [Tone; 32] = [
    Tone("#d4e9ff", "#142f4b"),
    Tone("#b1d7fe", "#1c4064"),
    Tone("#8dc4fe", "#24527f"),
    Tone("#6bb2f8", "#306598"),
    Tone("#feddda", "#47211e"),
    Tone("#ffc1bb", "#602d2a"),
    Tone("#fea39c", "#7a3a36"),
    Tone("#f18b84", "#924944"),
    Tone("#b5f8d3", "#0a3723"),
    Tone("#97e7bc", "#0e4a30"),
    Tone("#77d6a6", "#115e3e"),
    Tone("#5ac491", "#1d734e"),
    Tone("#e8e2fe", "#302749"),
    Tone("#d5caff", "#423562"),
    Tone("#c4b1ff", "#54457c"),
    Tone("#b29cf3", "#665594"),
    Tone("#ffe1bf", "#412805"),
    Tone("#fdc789", "#573606"),
    Tone("#efb269", "#6f4606"),
    Tone("#de9d4b", "#855612"),
    Tone("#a8f6ff", "#02353a"),
    Tone("#7be6f2", "#03474e"),
    Tone("#50d5e2", "#055b63"),
    Tone("#13c2d2", "#026f78"),
    Tone("#ffdaf1", "#412137"),
    Tone("#ffbae7", "#582d4b"),
    Tone("#f1a2d7", "#703a5f"),
    Tone("#e18cc5", "#874974"),
    Tone("#e4eeac", "#2d3108"),
    Tone("#d0db8e", "#3d430b"),
    Tone("#bdc86f", "#4f550e"),
    Tone("#aab652", "#606819"),
];

/// Sixteen steps from low to high.
pub(crate) const SCALE: [Tone; 16] = [
    Tone("#fffad9", "#242134"),
    Tone("#f4f7d0", "#25253b"),
    Tone("#e8f4cb", "#242a43"),
    Tone("#daf1c7", "#232f4a"),
    Tone("#cbeec6", "#203450"),
    Tone("#bbebc6", "#1c3a56"),
    Tone("#abe8c8", "#14405b"),
    Tone("#9be4cc", "#064660"),
    Tone("#8bdfd1", "#024c60"),
    Tone("#7cdad7", "#015261"),
    Tone("#70d4dd", "#055860"),
    Tone("#67cde4", "#025d60"),
    Tone("#63c6e9", "#04635f"),
    Tone("#64bdee", "#06695d"),
    Tone("#6ab4f1", "#046f5a"),
    Tone("#72aaf2", "#007654"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    /// Red, green and blue as linear light, each 0 to 1.
    fn linear(color: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let byte = u8::from_str_radix(&color[at..at + 2], 16).expect("a colour is #rrggbb");
            let x = f64::from(byte) / 255.0;
            if x <= 0.04045 {
                x / 12.92
            } else {
                ((x + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |color| {
            let [r, g, b] = linear(color);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The distance in the OKLab space, in which equal distances look about equally different.
    fn distance(a: &str, b: &str) -> f64 {
        let lab = |color| {
            let [r, g, b] = linear(color);
            let l = (0.412_221 * r + 0.536_333 * g + 0.051_446 * b).cbrt();
            let m = (0.211_903 * r + 0.680_700 * g + 0.107_397 * b).cbrt();
            let s = (0.088_302 * r + 0.281_719 * g + 0.629_979 * b).cbrt();
            [
                0.210_454 * l + 0.793_618 * m - 0.004_072 * s,
                1.977_998 * l - 2.428_592 * m + 0.450_594 * s,
                0.025_904 * l + 0.782_772 * m - 0.808_676 * s,
            ]
        };
        let squares = lab(a)
            .into_iter()
            .zip(lab(b))
            .map(|(x, y)| (x - y) * (x - y));
        squares.sum::<f64>().sqrt()
    }

    fn fills() -> impl Iterator<Item = Fill> {
        let pastels = (0..8).map(Fill::Pastel);
        let rest = (0..32).map(Fill::Thread).chain((0..16).map(Fill::Scale));
        [Fill::Blank, Fill::Void]
            .into_iter()
            .chain(pastels)
            .chain(rest)
    }

    #[test]
    fn text_is_legible_on_every_fill_in_both_themes() {
        for fill in fills() {
            let (_, _, Tone(light, dark)) = fill.class();
            assert!(
                contrast(light, INK.0) >= 4.5,
                "{fill:?} in light: {}",
                contrast(light, INK.0)
            );
            assert!(
                contrast(dark, INK.1) >= 4.5,
                "{fill:?} in dark: {}",
                contrast(dark, INK.1)
            );
        }
        assert!(contrast(BLANK.0, MUTED.0) >= 4.5 && contrast(BLANK.1, MUTED.1) >= 4.5);
    }

    /// `over` at the strength of a cell that steps back, on `ground`.
    fn pale(over: &str, ground: &str) -> std::string::String {
        let byte = |color: &str, at: usize| {
            f64::from(u8::from_str_radix(&color[at..at + 2], 16).expect("a colour is #rrggbb"))
        };
        let mixed = |at| (0.35 * byte(over, at) + 0.65 * byte(ground, at)).round() as u8;
        std::format!("#{:02x}{:02x}{:02x}", mixed(1), mixed(3), mixed(5))
    }

    #[test]
    fn text_that_steps_back_stays_legible() {
        for fill in fills() {
            let (_, _, Tone(light, dark)) = fill.class();
            assert!(
                contrast(&pale(light, BLANK.0), MUTED.0) >= 4.5,
                "{fill:?} in light"
            );
            assert!(
                contrast(&pale(dark, BLANK.1), MUTED.1) >= 4.5,
                "{fill:?} in dark"
            );
        }
    }

    #[test]
    fn neighbouring_threads_differ_to_the_eye() {
        // A difference of 0.02 is just visible.
        for (thread, step) in (0..32).flat_map(|t| [1, 2, 4, 8, 16].map(|step| (t, step))) {
            let (a, b) = (THREADS[thread], THREADS[(thread + step) % 32]);
            assert!(
                distance(a.0, b.0) >= 0.05,
                "{thread} and {step} on, in light"
            );
            assert!(
                distance(a.1, b.1) >= 0.05,
                "{thread} and {step} on, in dark"
            );
        }
    }

    #[test]
    fn all_colours_differ() {
        for tones in [&PASTELS[..], &THREADS[..], &SCALE[..]] {
            for (i, a) in tones.iter().enumerate() {
                for b in &tones[..i] {
                    assert!(
                        distance(a.0, b.0) > 0.015 && distance(a.1, b.1) > 0.015,
                        "{a:?} {b:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_scale_uses_all_its_steps_in_order() {
        let steps: Vec<Fill> = (0..64).map(|n| Fill::scale(n, 0, 63)).collect();
        assert!(steps.is_sorted());
        assert_eq!((steps[0], steps[63]), (Fill::Scale(0), Fill::Scale(15)));
        assert_eq!(Fill::scale(7, 7, 7), Fill::Scale(0));
        assert_eq!(Fill::scale(i64::MAX, i64::MIN, i64::MAX), Fill::Scale(15));
        assert_eq!(Fill::scale(-9, 0, 3), Fill::Scale(0));
    }
}
