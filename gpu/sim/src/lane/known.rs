//! What is computed from an instruction or a descriptor alone: computed once, for all launches of the process.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The most values that a cache holds: a kernel has fewer of each kind, and a table of them is at most some 100 KB.
const MOST: usize = 256;

/// Values by what determines them. Once there are [`MOST`] it begins anew.
#[derive(Debug)]
pub(crate) struct ProcessMemo<K, V>(LazyLock<Mutex<HashMap<K, Arc<V>>>>);

impl<K: Eq + Hash, V> ProcessMemo<K, V> {
    pub(crate) const fn new() -> Self {
        ProcessMemo(LazyLock::new(Mutex::default))
    }

    /// The value of a key, computed if it is not known.
    pub(crate) fn get<E>(
        &self,
        key: K,
        compute: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        // A map is whole after a panic too: it is changed by single calls.
        let open = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = open().get(&key) {
            return Ok(value.clone());
        }
        let value = Arc::new(compute()?);
        let mut known = open();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once_and_an_error_each_time() {
        let known = ProcessMemo::<usize, usize>::new();
        let get = |key: usize, value: Result<usize, &'static str>| {
            let mut computed = false;
            let found = known.get(key, || {
                computed = true;
                value
            });
            (found.map(|value| *value), computed)
        };
        assert_eq!(get(1, Err("no")), (Err("no"), true));
        assert_eq!(get(1, Ok(7)), (Ok(7), true));
        assert_eq!(get(1, Ok(8)), (Ok(7), false));
        for key in 2..=MOST {
            assert_eq!(get(key, Ok(key)), (Ok(key), true));
        }
        assert_eq!(get(1, Ok(8)), (Ok(7), false));
        assert_eq!(get(0, Ok(0)), (Ok(0), true), "it begins anew");
        assert_eq!(get(1, Ok(8)), (Ok(8), true));
    }
}
