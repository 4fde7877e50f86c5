//! The caches of a device: bounded, shared by threads, each value made once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::function::LoadedKernel;
use colex_ir::Kernel;

/// A bounded cache of values by key. A lookup takes a lock that readers share. A missing value is made by the first
/// caller that asks for it; other callers that ask for it wait, and callers that ask for other values go on. The last
/// `most` values that were used are there, and up to a quarter more: then all but those `most` are dropped at once, since
/// they are found by looking at all of them. Callers that hold one of them keep it.
#[derive(Debug)]
pub struct Memo<K, V> {
    places: RwLock<HashMap<K, Place<V>, BuildHasherDefault<Mixer>>>,
    most: usize,
    clock: AtomicU64,
}

/// A value with the time at which it was used last, counted in uses of all values.
#[derive(Debug)]
struct Place<V> {
    used: AtomicU64,
    value: Arc<Value<V>>,
}

/// A value that one caller makes at a time.
#[derive(Debug)]
struct Value<V> {
    made: OnceLock<Arc<V>>,
    making: Mutex<()>,
}

/// The hash of a key, one multiplication per word. The keys of this process are extents, strides and addresses, and no
/// caller gains by making them collide, so that the standard library's hash would guard against nothing.
#[derive(Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        // The high half of the product depends on all bits of the word, and the next product on that half.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<K: Hash + Eq + Clone, V> Memo<K, V> {
    /// Builds an empty cache of the last `most` values. With none, every call makes its value.
    pub fn new(most: usize) -> Memo<K, V> {
        Memo {
            places: RwLock::default(),
            most,
            clock: AtomicU64::new(0),
        }
    }

    /// Returns the value of a key, if it is there.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let place = places.get(key)?;
        let value = place.value.made.get()?;
        place.used.store(self.now(), Ordering::Relaxed);
        Some(Arc::clone(value))
    }

    /// Returns the value of a key. If it is missing, the function makes it.
    ///
    /// # Errors
    ///
    /// Returns the error of the function. Nothing is kept then, and the next caller tries again.
    pub fn get_or_make<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        if self.most == 0 {
            return make().map(Arc::new);
        }
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let value = self.place(key);
        // No lock on the map is held while the value is made.
        let making = value.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = value.made.get() {
            return Ok(Arc::clone(made));
        }
        match make() {
            Ok(made) => Ok(Arc::clone(value.made.get_or_init(|| Arc::new(made)))),
            Err(error) => {
                drop(making);
                self.remove_unmade(key, &value);
                Err(error)
            }
        }
    }

    /// Drops all values.
    pub fn clear(&self) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *places);
        // Values may take locks of their own when they are dropped.
        drop(places);
        drop(dropped);
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// The place of a key's value, made or not.
    fn place(&self, key: &K) -> Arc<Value<V>> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(key) {
            return Arc::clone(&place.value);
        }
        let mut dropped = Vec::new();
        if places.len() >= self.most + (self.most / 4).max(1) {
            let mut times: Vec<u64> = places.values().map(Place::time).collect();
            times.sort_unstable();
            let first = times[times.len() - self.most];
            dropped.extend(places.extract_if(|_, place| place.time() < first));
        }
        let place = Place {
            used: AtomicU64::new(self.now()),
            value: Arc::new(Value {
                made: OnceLock::new(),
                making: Mutex::default(),
            }),
        };
        let value = Arc::clone(&place.value);
        places.insert(key.clone(), place);
        drop(places);
        drop(dropped);
        value
    }

    /// Gives up a place whose value could not be made, unless another caller has made it meanwhile.
    fn remove_unmade(&self, key: &K, value: &Arc<Value<V>>) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let unmade = places.get(key).is_some_and(|place| {
            Arc::ptr_eq(&place.value, value) && place.value.made.get().is_none()
        });
        if unmade {
            places.remove(key);
        }
    }
}

impl<V> Place<V> {
    fn time(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Kernels that a device has loaded, by what they were loaded from. A kernel is found by comparing all of it with those
/// of the same fingerprint: its fields are public, so that no name or number stands for it.
#[derive(Debug, Default)]
pub(crate) struct LoadedKernels {
    entries: RwLock<Vec<Load>>,
    clock: AtomicU64,
}

/// The most kernels that a device keeps for [`Device::load`](crate::Device::load).
const LOADS: usize = 256;

#[derive(Debug)]
struct Load {
    fingerprint: u64,
    source: Source,
    used: AtomicU64,
    loaded: Arc<LoadedKernel>,
}

/// The source of a loaded kernel.
#[derive(Debug)]
enum Source {
    Kernel(Arc<Kernel>),
    Text(String),
}

impl LoadedKernels {
    /// Returns what was loaded from an equal kernel.
    pub(crate) fn of_kernel(&self, kernel: &Kernel) -> Option<Arc<LoadedKernel>> {
        self.find(
            kernel_fingerprint(kernel),
            |load| matches!(&load.source, Source::Kernel(known) if **known == *kernel),
        )
    }

    /// Keeps what was loaded from a kernel. If another thread has loaded an equal one meanwhile, the first stays.
    pub(crate) fn keep_kernel(
        &self,
        kernel: Arc<Kernel>,
        loaded: LoadedKernel,
    ) -> Arc<LoadedKernel> {
        let same = |load: &Load| matches!(&load.source, Source::Kernel(known) if *known == kernel);
        let fingerprint = kernel_fingerprint(&kernel);
        self.keep(fingerprint, same, loaded, || Source::Kernel(kernel.clone()))
    }

    /// Returns the entry that was loaded from a text.
    pub(crate) fn of_text(&self, text: &str, entry: &str) -> Option<Arc<LoadedKernel>> {
        self.find(text_fingerprint(text), |load| load.is_entry(text, entry))
    }

    /// Returns any entry that was loaded from a text: its module has the others too.
    pub(crate) fn any_of_text(&self, text: &str) -> Option<Arc<LoadedKernel>> {
        self.find(
            text_fingerprint(text),
            |load| matches!(&load.source, Source::Text(known) if known == text),
        )
    }

    /// Keeps an entry that was loaded from a text, unless another thread has loaded it meanwhile.
    pub(crate) fn keep_text(&self, text: &str, loaded: LoadedKernel) -> Arc<LoadedKernel> {
        let entry = loaded.entry().to_string();
        let same = |load: &Load| load.is_entry(text, &entry);
        self.keep(text_fingerprint(text), same, loaded, || {
            Source::Text(text.to_string())
        })
    }

    /// Drops all entries.
    pub(crate) fn clear(&self) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *entries);
        drop(entries);
        drop(dropped);
    }

    fn find(&self, fingerprint: u64, is: impl Fn(&Load) -> bool) -> Option<Arc<LoadedKernel>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let mut of_print = entries
            .iter()
            .filter(|load| load.fingerprint == fingerprint);
        let load = of_print.find(|load| is(load))?;
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        load.used.store(now, Ordering::Relaxed);
        Some(Arc::clone(&load.loaded))
    }

    fn keep(
        &self,
        fingerprint: u64,
        same: impl Fn(&Load) -> bool,
        loaded: LoadedKernel,
        source: impl Fn() -> Source,
    ) -> Arc<LoadedKernel> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut of_print = entries
            .iter()
            .filter(|load| load.fingerprint == fingerprint);
        if let Some(load) = of_print.find(|load| same(load)) {
            return Arc::clone(&load.loaded);
        }
        let mut dropped = None;
        if entries.len() >= LOADS {
            let uses = entries.iter().map(|load| load.used.load(Ordering::Relaxed));
            let oldest = uses.enumerate().min_by_key(|(_, used)| *used);
            dropped = oldest.map(|(at, _)| entries.swap_remove(at));
        }
        let loaded = Arc::new(loaded);
        entries.push(Load {
            fingerprint,
            source: source(),
            used: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
            loaded: Arc::clone(&loaded),
        });
        drop(entries);
        drop(dropped);
        loaded
    }
}

impl Load {
    fn is_entry(&self, text: &str, entry: &str) -> bool {
        self.loaded.entry() == entry && matches!(&self.source, Source::Text(known) if known == text)
    }
}

/// What is cheap to know of a kernel and differs between most.
fn kernel_fingerprint(kernel: &Kernel) -> u64 {
    let mut hasher = DefaultHasher::new();
    kernel.name.hash(&mut hasher);
    kernel.target.hash(&mut hasher);
    (kernel.params.len(), kernel.shared.len(), kernel.body.len()).hash(&mut hasher);
    (kernel.block, kernel.cluster, kernel.registers).hash(&mut hasher);
    hasher.finish()
}

fn text_fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use colex_atom::Arch;

    use super::*;
    use colex_ir::{KernelBuilder, Type};

    /// Keys as calls have them, extents and addresses that differ in few bits, come apart in the bits that a table uses.
    #[test]
    fn keys_spread() {
        let (mut full, mut low, mut high) = (HashSet::new(), [0; 1 << 12], [0; 1 << 7]);
        for key in 0..1_u64 << 16 {
            let extents = [1 + key as i64 % 64, 64 * (1 + key as i64 / 64 % 16), 512];
            let addresses = [0x7f00_0000_0000 + 256 * (key >> 10), 0x7f00_4000_0000, 0];
            let mut hasher = Mixer::default();
            (extents, [512_i64, 512, 1024], true, addresses).hash(&mut hasher);
            let hash = hasher.finish();
            full.insert(hash);
            low[hash as usize % low.len()] += 1;
            high[(hash >> 57) as usize] += 1;
        }
        assert_eq!(full.len(), 1 << 16);
        // 16 and 512 on average; a random function has 36 and 600 at the most, nearly always.
        let most = |counts: &[i32]| *counts.iter().max().expect("there are some");
        assert!(
            most(&low) < 48 && most(&high) < 650,
            "{} {}",
            most(&low),
            most(&high)
        );
        println!("law keys_spread: 65536 cases");
    }

    #[test]
    fn a_value_is_made_once_and_what_was_used_least_recently_goes() {
        let kept = Memo::new(8);
        let made = AtomicUsize::new(0);
        let ask = |key: usize| {
            let value = kept.get_or_make(&key, || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(10 * key)
            });
            assert_eq!(*value.unwrap(), 10 * key);
        };
        for key in 0..10 {
            ask(key);
        }
        // 0 is the one used last, and 1 and 2 go.
        ask(0);
        ask(10);
        assert_eq!(made.load(Ordering::Relaxed), 11);
        let there: Vec<usize> = (0..11).filter(|key| kept.get(key).is_some()).collect();
        assert_eq!(there, [0, 3, 4, 5, 6, 7, 8, 9, 10]);
        kept.clear();
        assert!((0..11).all(|key| kept.get(&key).is_none()));
    }

    /// After any uses, the last values are there, as many as a cache is built for.
    #[test]
    fn law_the_last_values_are_there() {
        let mut cases = 0;
        for most in [1, 2, 3, 4, 7, 8, 32] {
            let kept = Memo::new(most);
            // The keys from the one that was used last on.
            let mut used: Vec<u64> = Vec::new();
            let mut drawn = 1_u64;
            for at in 0..1000 {
                drawn = drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(at);
                let key = (drawn >> 40) % (3 * most as u64);
                let value = kept.get_or_make(&key, || Ok::<_, Infallible>(3 * key));
                assert_eq!(*value.unwrap(), 3 * key);
                used.retain(|other| *other != key);
                used.insert(0, key);
                let places = kept.places.read().unwrap();
                for key in used.iter().take(most) {
                    let is_made = places
                        .get(key)
                        .map(|place| place.value.made.get().is_some());
                    assert_eq!(is_made, Some(true), "{key} of the last {most}, use {at}");
                    cases += 1;
                }
            }
        }
        println!("law the_last_values_are_there: {cases} cases");
    }

    /// Caches of all small sizes give every value and keep no more than a quarter beyond their size.
    #[test]
    fn law_a_cache_keeps_at_most_its_size() {
        let mut cases = 0;
        for most in 0..6 {
            let kept = Memo::new(most);
            for key in (0..20).map(|at| at * at % 11) {
                assert_eq!(
                    *kept
                        .get_or_make(&key, || Ok::<_, Infallible>(3 * key))
                        .unwrap(),
                    3 * key
                );
                let beyond = if most > 0 { (most / 4).max(1) } else { 0 };
                assert!(kept.places.read().unwrap().len() <= most + beyond);
                assert_eq!(kept.get(&key).is_some(), most > 0);
                cases += 1;
            }
        }
        println!("law a_cache_keeps_at_most_its_size: {cases} cases");
    }

    #[test]
    fn a_value_that_could_not_be_made_is_tried_again() {
        let kept = Memo::<u8, u8>::new(4);
        assert_eq!(kept.get_or_make(&1, || Err("no")), Err("no"));
        assert_eq!(kept.get(&1), None);
        assert!(kept.places.read().unwrap().is_empty());
        assert_eq!(kept.get_or_make(&1, || Ok::<_, &str>(7)), Ok(Arc::new(7)));
    }

    /// Threads that want the same value get one; a value that takes long does not block callers that want another.
    #[test]
    fn threads_share_what_is_made_and_do_not_wait_for_other_values() {
        let kept = Memo::new(64);
        let made = AtomicUsize::new(0);
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slow = || {
                    // The other thread gets its own value while this one is being made, or both wait for ever.
                    barrier.wait();
                    barrier.wait();
                    Ok::<_, Infallible>(0)
                };
                kept.get_or_make(&1000, slow).unwrap();
            });
            barrier.wait();
            kept.get_or_make(&2000, || Ok::<_, Infallible>(1)).unwrap();
            barrier.wait();
        });
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (kept, made) = (&kept, &made);
                scope.spawn(move || {
                    for i in 0..400 {
                        let key = (i * (thread + 1)) % 40;
                        let value = kept.get_or_make(&key, || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Infallible>(3 * key)
                        });
                        assert_eq!(*value.unwrap(), 3 * key);
                    }
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 40);
        println!("law kept_values_are_made_once: 3200 cases");
    }

    /// Kernels that differ in the sign of a zero are different kernels.
    #[test]
    fn a_kernel_is_found_by_all_of_it() {
        let kernel = |zero: f64| {
            let mut k = KernelBuilder::new("k", Arch::Sm80);
            let x = k.mov(Type::F32, 1.0);
            k.add(Type::F32, x, zero);
            k.finish()
        };
        let device = crate::Device::simulator(Arch::Sm80);
        let (plus, minus) = (kernel(0.0), kernel(-0.0));
        let loaded = [&plus, &minus, &plus, &minus].map(|k| device.load(k).unwrap());
        assert!(loaded[0].is_same_code(&loaded[2]) && loaded[1].is_same_code(&loaded[3]));
        assert!(!loaded[0].is_same_code(&loaded[1]));
        let nan = kernel(f64::NAN);
        assert!(
            device
                .load(&nan)
                .unwrap()
                .is_same_code(&device.load(&nan).unwrap())
        );
    }

    #[test]
    fn the_number_of_kernels_is_bounded() {
        let device = crate::Device::simulator(Arch::Sm80);
        let kernel = |i: usize| KernelBuilder::new(&format!("k{i}"), Arch::Sm80).finish();
        let first = device.load(&kernel(0)).unwrap();
        for i in 1..LOADS + 20 {
            device.load(&kernel(i)).unwrap();
            assert!(
                device.load(&kernel(0)).unwrap().is_same_code(&first),
                "0 is used all the time"
            );
        }
        assert_eq!(device.held().loads.entries.read().unwrap().len(), LOADS);
    }
}
