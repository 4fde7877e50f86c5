//! The flags that a warp looks at.

/// The last look at a flag: its address, what it held, and the number of the look.
#[derive(Clone, Copy, Debug)]
struct Look {
    flag: u64,
    holds: u64,
    number: u64,
}

/// What a warp has seen at the flags that it looks at, and how often in a row there was nothing new.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    seen: Vec<Look>,
    /// The number of looks so far.
    looks: u64,
    /// The step of the last look.
    at: usize,
    pub(crate) in_vain: u32,
}

impl Polls {
    /// The most flags that are told apart.
    const MOST: usize = 64;

    /// Records what a flag holds.
    pub(crate) fn saw(&mut self, flag: u64, value: u64, step: usize) {
        self.at = step;
        self.looks += 1;
        let look = Look {
            flag,
            holds: value,
            number: self.looks,
        };
        let is_old = match self.seen.iter_mut().find(|look| look.flag == flag) {
            Some(old) => std::mem::replace(old, look).holds == value,
            None => {
                if self.seen.len() == Polls::MOST {
                    self.seen.clear();
                }
                self.seen.push(look);
                false
            }
        };
        self.in_vain = if is_old {
            self.in_vain.saturating_add(1)
        } else {
            0
        };
    }

    /// The step of the last look.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The flags that it has looked at in vain since there was something new, and what they hold.
    pub(crate) fn in_vain(&self) -> impl Iterator<Item = (u64, u64)> {
        let begin = self.looks.saturating_sub(u64::from(self.in_vain));
        let recent = self.seen.iter().filter(move |look| look.number > begin);
        recent.map(|look| (look.flag, look.holds))
    }

    /// Forgets all: the warp has done something for others.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.in_vain = 0;
    }
}
