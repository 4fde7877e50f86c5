//! Machine code on the disk, so that a text is assembled once for a device and a driver.
//!
//! Processes share the folder without locks: an entry is written beside its place and renamed into it, so a reader sees
//! the whole of an old one or the whole of a new one. An entry that is damaged, or that another text of the same hash
//! made, is as good as none.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of machine code, or none.
///
/// ```
/// use colex_gpu::Cache;
///
/// let folder = std::env::temp_dir().join("colex-doc");
/// assert_eq!(Cache::at(&folder).folder(), Some(folder.as_path()));
/// assert_eq!(Cache::off().folder(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Option<PathBuf>,
}

/// All that machine code depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// The text.
    pub(crate) ptx: &'a str,
    /// The architecture and the device's name.
    pub(crate) device: &'a str,
    /// The driver's version.
    pub(crate) driver: i32,
}

/// Machine code, and what the assembler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) code: Vec<u8>,
    pub(crate) log: String,
}

/// What every entry begins with; the number is that of the format.
const MAGIC: &[u8; 8] = b"colex 1\n";

impl Cache {
    /// A cache in that folder, which is made when the first entry is.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache {
            folder: Some(folder.into()),
        }
    }

    /// No cache: everything is assembled every time.
    pub fn off() -> Cache {
        Cache { folder: None }
    }

    /// Where `COLEX_CACHE` says, `off` for nowhere; if it is not set, the folder `colex` where this system keeps caches.
    pub fn from_environment() -> Cache {
        let set = env::var_os("COLEX_CACHE");
        Cache::chosen(set.map(PathBuf::from), |name| {
            env::var_os(name).map(PathBuf::from)
        })
    }

    /// The choice, given the variable and a way to read others.
    fn chosen(set: Option<PathBuf>, variable: impl Fn(&str) -> Option<PathBuf>) -> Cache {
        let folder = match set {
            Some(path) if path.as_os_str() == "off" || path.as_os_str().is_empty() => None,
            Some(path) => Some(path),
            None => variable("XDG_CACHE_HOME")
                .or_else(|| variable("LOCALAPPDATA"))
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .map(|caches| caches.join("colex")),
        };
        Cache { folder }
    }

    /// Its folder, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The entry of a key, if there is one and it is whole.
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Entry> {
        let bytes = fs::read(self.place(key)?).ok()?;
        parse(&bytes, key)
    }

    /// Puts an entry in its place.
    ///
    /// # Errors
    ///
    /// Those of the file system; nothing is left half written where [`find`](Cache::find) looks.
    pub(crate) fn store(&self, key: &Key<'_>, entry: &Entry) -> io::Result<()> {
        let Some(place) = self.place(key) else {
            return Ok(());
        };
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let draft = place.with_extension(format!("{}-{number}", std::process::id()));
        let folder = place
            .parent()
            .expect("an entry's place is in the cache's folder");
        fs::create_dir_all(folder)?;
        let written =
            fs::write(&draft, render(key, entry)).and_then(|()| fs::rename(&draft, &place));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Where the entry of a key lies.
    fn place(&self, key: &Key<'_>) -> Option<PathBuf> {
        let name = format!("{:016x}.cubin", hash(&key.bytes()));
        self.folder.as_ref().map(|folder| folder.join(name))
    }
}

impl Key<'_> {
    /// The key as it stands in its entry.
    fn bytes(&self) -> Vec<u8> {
        format!("{}\n{}\n{}", self.driver, self.device, self.ptx).into_bytes()
    }
}

/// FNV-1a with 64 bits: a file's name, and a checksum against damage. Against chance the key itself is compared.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Magic, checksum of the rest, and three parts, each after its length.
fn render(key: &Key<'_>, entry: &Entry) -> Vec<u8> {
    let mut rest = Vec::new();
    for part in [key.bytes().as_slice(), entry.log.as_bytes(), &entry.code] {
        rest.extend((part.len() as u64).to_le_bytes());
        rest.extend(part);
    }
    let checksum = hash(&rest).to_le_bytes();
    [MAGIC.as_slice(), &checksum, &rest].concat()
}

/// The entry in these bytes, if they are whole and of that key.
fn parse(bytes: &[u8], key: &Key<'_>) -> Option<Entry> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (checksum, mut rest) = rest.split_at_checked(8)?;
    if checksum != hash(rest).to_le_bytes() {
        return None;
    }
    let mut part = || {
        let (length, after) = rest.split_at_checked(8)?;
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes were split off"));
        let (part, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        rest = after;
        Some(part)
    };
    let (found, log, code) = (part()?, part()?, part()?);
    (found == key.bytes()).then(|| Entry {
        code: code.to_vec(),
        log: String::from_utf8_lossy(log).into_owned(),
    })
}

#[cfg(test)]
mod tests;
