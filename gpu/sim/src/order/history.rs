//! The histories of bytes that lie together, each kept once for as many of them as have the same.

/// The bytes that at most share a history.
const GRANULE: usize = 16;

/// What is known of each byte, in granules of [`GRANULE`] bytes.
///
/// Most accesses are of 4, 8 or 16 aligned bytes: the histories in a granule differ from one step to the next only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histories<T> {
    /// The histories of granules whose bytes all have the same.
    whole: Vec<T>,
    /// The bytes of a step, by granule: 16, 4 or 1.
    steps: Vec<u8>,
    /// The histories of all other bytes, once there are some: of each step at its first byte; what stands elsewhere is
    /// out of date.
    parts: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Histories<T> {
    /// The histories of `bytes` bytes that nothing has accessed.
    pub(crate) fn new(bytes: usize) -> Self {
        Histories {
            whole: vec![T::default(); bytes.div_ceil(GRANULE)],
            steps: vec![GRANULE as u8; bytes.div_ceil(GRANULE)],
            parts: Vec::new(),
        }
    }

    /// The bytes that something has accessed: the first, how many, and their history.
    pub(crate) fn known(&self) -> impl Iterator<Item = (usize, usize, T)> {
        let steps = self.steps.iter().enumerate();
        let places = steps.flat_map(|(granule, step)| {
            let step = usize::from(*step);
            let all = (0..GRANULE).step_by(step);
            all.map(move |i| (granule * GRANULE + i, step))
        });
        let cell = |at: usize, step| match step {
            GRANULE => self.whole[at / GRANULE],
            _ => self.parts[at],
        };
        let known = places.map(move |(at, step)| (at, step, cell(at, step)));
        known.filter(|(_, _, cell)| *cell != T::default())
    }

    /// Changes the histories of some bytes; the first byte, counted from `at`, whose change fails, and how. The change
    /// depends on nothing but the history.
    pub(crate) fn visit<E>(
        &mut self,
        at: usize,
        count: usize,
        mut change: impl FnMut(T) -> Result<T, E>,
    ) -> Result<(), (usize, E)> {
        // Neighbouring bytes mostly have the same history.
        let mut last: Option<(T, T)> = None;
        let end = at + count;
        let mut from = at;
        while from < end {
            let (granule, low) = (from / GRANULE, from % GRANULE);
            let high = (end - (from - low)).min(GRANULE);
            if high - low == GRANULE && usize::from(self.steps[granule]) == GRANULE {
                let old = self.whole[granule];
                let new = match last {
                    Some((known, new)) if known == old => new,
                    _ => change(old).map_err(|error| (from - at, error))?,
                };
                self.whole[granule] = new;
                last = Some((old, new));
                from += GRANULE;
                continue;
            }
            if self.parts.is_empty() {
                self.parts = vec![T::default(); self.whole.len() * GRANULE];
            }
            let cells = &mut self.parts[granule * GRANULE..][..GRANULE];
            let finest = match (low, high) {
                (0, GRANULE) => GRANULE,
                _ if low.is_multiple_of(4) && high.is_multiple_of(4) => 4,
                _ => 1,
            };
            let mut step = usize::from(self.steps[granule]);
            if step == GRANULE {
                cells[0] = self.whole[granule];
            }
            if finest < step {
                for i in (0..GRANULE).step_by(finest) {
                    cells[i] = cells[i - i % step];
                }
                step = finest;
                self.steps[granule] = step as u8;
            }
            for i in (low..high).step_by(step) {
                let old = cells[i];
                let new = match last {
                    Some((known, new)) if known == old => new,
                    _ => change(old).map_err(|error| (from - low + i - at, error))?,
                };
                cells[i] = new;
                last = Some((old, new));
            }
            if finest == GRANULE && (0..GRANULE).step_by(step).all(|i| cells[i] == cells[0]) {
                step = GRANULE;
                self.whole[granule] = cells[0];
            }
            self.steps[granule] = step as u8;
            from += high - low;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Histories that share steps are those of a list with one for each byte, and fail at the same byte.
    #[test]
    fn histories_are_those_of_single_bytes() {
        let mut state = 7u64;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) % below) as usize
        };
        const BYTES: usize = 75;
        let mut cases = 0;
        for _ in 0..400 {
            let mut found = Histories::<u32>::new(BYTES);
            let mut expected = [0u32; BYTES];
            for _ in 0..200 {
                let (at, count) = match draw(4) {
                    0 => (draw(BYTES as u64), draw(20)),
                    1 => (4 * draw(18), 4),
                    2 => (16 * draw(4), 16),
                    _ => (16 * draw(2), 48),
                };
                let count = count.min(BYTES - at);
                let (bits, fails) = (draw(3) as u32, draw(24) as u32);
                let change = |old: u32| match old % 24 {
                    x if x == fails => Err(old),
                    _ if bits == 0 => Ok(0),
                    _ => Ok(old.wrapping_mul(3).wrapping_add(bits)),
                };
                let mut result = Ok(());
                for (i, cell) in expected[at..at + count].iter_mut().enumerate() {
                    match change(*cell) {
                        Ok(new) => *cell = new,
                        Err(error) => {
                            result = Err((i, error));
                            break;
                        }
                    }
                }
                assert_eq!(found.visit(at, count, change), result);
                cases += 1;
            }
            let mut all = Vec::new();
            for at in 0..BYTES {
                let look = |old| {
                    all.push(old);
                    Ok::<_, ()>(old)
                };
                found.visit(at, 1, look).unwrap();
            }
            assert_eq!(all, expected);
        }
        println!("law histories_are_those_of_single_bytes: {cases} cases");
    }
}
