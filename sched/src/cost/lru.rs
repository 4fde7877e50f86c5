//! A cache that drops what was not used for longest, over numbered objects.

/// Objects `0..n` in order of last use, as a ring through index arrays: the end of the ring is entry `n`.
pub(crate) struct Lru {
    newer: Vec<u32>,
    older: Vec<u32>,
    bytes: Vec<i64>,
    free: i64,
}

const OUT: u32 = u32::MAX;

impl Lru {
    /// An empty cache of `capacity` bytes for objects `0..n`.
    pub(crate) fn new(n: usize, capacity: i64) -> Lru {
        let ring = u32::try_from(n).expect("invariant: the caller bounds the objects");
        let mut lru = Lru {
            newer: vec![OUT; n + 1],
            older: vec![OUT; n + 1],
            bytes: vec![0; n + 1],
            free: capacity,
        };
        (lru.newer[n], lru.older[n]) = (ring, ring);
        lru
    }

    /// Uses object `id` of `bytes` bytes; whether it was in the cache. An object larger than the cache never is.
    pub(crate) fn touch(&mut self, id: usize, bytes: i64) -> bool {
        let hit = self.newer[id] != OUT;
        if hit {
            self.unlink(id);
        }
        self.link(id, bytes);
        while self.free < 0 {
            let oldest = self.newer[self.end()] as usize;
            self.unlink(oldest);
        }
        hit
    }

    fn end(&self) -> usize {
        self.newer.len() - 1
    }

    /// Puts `id` at the newest place.
    fn link(&mut self, id: usize, bytes: i64) {
        let (end, newest) = (self.end(), self.older[self.end()] as usize);
        (self.older[id], self.newer[id]) = (newest as u32, end as u32);
        self.newer[newest] = id as u32;
        self.older[end] = id as u32;
        self.bytes[id] = bytes;
        self.free -= bytes;
    }

    fn unlink(&mut self, id: usize) {
        let (newer, older) = (self.newer[id] as usize, self.older[id] as usize);
        self.older[newer] = older as u32;
        self.newer[older] = newer as u32;
        (self.newer[id], self.older[id]) = (OUT, OUT);
        self.free += self.bytes[id];
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    /// Against the definition: hit if the distinct objects used since the last use, and itself, fit.
    #[test]
    fn agrees_with_its_definition() {
        let size = |id: usize| 1 + (id % 3) as i64;
        let mut state = 12345u64;
        for capacity in 0..14 {
            let mut lru = Lru::new(9, capacity);
            let mut past: Vec<usize> = Vec::new();
            for _ in 0..400 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let id = (state >> 33) as usize % 9;
                let recent: std::collections::HashSet<usize> = past
                    .iter()
                    .rev()
                    .take_while(|x| **x != id)
                    .copied()
                    .collect();
                let held = past.contains(&id)
                    && recent.iter().map(|x| size(*x)).sum::<i64>() + size(id) <= capacity;
                assert_eq!(
                    lru.touch(id, size(id)),
                    held,
                    "capacity {capacity}, after {past:?}, {id}"
                );
                past.push(id);
            }
        }
        println!("law lru.agrees_with_its_definition: 5600 cases");
    }
}
