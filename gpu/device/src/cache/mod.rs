//! The disk cache of machine code: the driver assembles a text once for each device and driver version.
//!
//! Processes share the folder without locks: an entry is written beside its place and renamed into it, so a reader sees
//! the whole of an old one or the whole of a new one. An entry that is damaged, or that belongs to another text with
//! the same hash, counts as missing.
//!
//! Other users may write the folder. A draft gets a name that cannot be guessed, and is created only if no file has
//! that name. No link is followed. A file that is not a regular file of this user or of root counts as missing, and
//! opening it never blocks. The total size of the entries is limited: beyond the limit, the least recently used entries
//! are removed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

mod files;
mod lines;

pub use lines::SharedLines;

/// A folder of machine code, or none.
///
/// ```
/// use colex_device::Cache;
///
/// let folder = std::env::temp_dir().join("colex-doc");
/// assert_eq!(Cache::at(&folder).folder(), Some(folder.as_path()));
/// assert_eq!(Cache::off().folder(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Option<PathBuf>,
    /// The limit of the total size in bytes, or the reason why it is not known.
    limit: Result<u64, String>,
}

/// The key of an entry: everything that machine code depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// The text.
    pub(crate) ptx: &'a str,
    /// The architecture and the device's name.
    pub(crate) device: &'a str,
    /// The driver's version.
    pub(crate) driver: i32,
}

/// Machine code, and the log of the assembler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) code: Vec<u8>,
    pub(crate) log: String,
}

/// The first bytes of every entry. The number is the version of the format.
const MAGIC: &[u8; 8] = b"colex 2\n";

/// The default limit of the total size, in bytes, if `COLEX_CACHE_BYTES` is not set.
const LIMIT: u64 = 1 << 30;

/// The size of the largest entry that is read or written, in bytes.
const LARGEST: u64 = 256 << 20;

/// The age at which a draft counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Cache {
    /// Returns a cache in a folder, which is created with the first entry. Its entries take at most 1 GiB.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache {
            folder: Some(folder.into()),
            limit: Ok(LIMIT),
        }
    }

    /// Returns a disabled cache: the driver assembles every text anew.
    pub fn off() -> Cache {
        Cache {
            folder: None,
            limit: Ok(LIMIT),
        }
    }

    /// Returns the same cache with another limit of the total size of its entries, in bytes. A store that exceeds the
    /// limit removes the least recently used entries.
    ///
    /// ```
    /// let cache = colex_device::Cache::at("folder").with_limit(64 << 20);
    /// assert_eq!(cache.limit(), Some(64 << 20));
    /// ```
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Cache {
        Cache {
            limit: Ok(bytes),
            ..self
        }
    }

    /// Returns the cache that the environment variables configure.
    ///
    /// `COLEX_CACHE` is the folder, or `off` to disable the cache. If it is not set, the folder is `colex` in the
    /// system's folder for caches: in `XDG_CACHE_HOME`, `LOCALAPPDATA`, or `.cache` of `HOME`, the first that is an absolute path. If none is,
    /// the cache is disabled. `COLEX_CACHE_BYTES` is the limit of the total size: a number of bytes, or of KiB,
    /// MiB or GiB with the suffix `K`, `M` or `G`. The default is 1 GiB. If the value is not such a number, nothing is
    /// stored, and [`Origin::Assembled`](crate::Origin::Assembled) says why.
    pub fn from_environment() -> Cache {
        let set = env::var_os("COLEX_CACHE");
        let limit = match env::var_os("COLEX_CACHE_BYTES") {
            None => Ok(LIMIT),
            Some(text) => parse_limit(&text.to_string_lossy()),
        };
        let cache = Cache::chosen(set.map(PathBuf::from), |name| {
            env::var_os(name).map(PathBuf::from)
        });
        Cache { limit, ..cache }
    }

    /// The choice, given the variable and a way to read others.
    fn chosen(set: Option<PathBuf>, variable: impl Fn(&str) -> Option<PathBuf>) -> Cache {
        // A folder that is empty or relative would lie in the working directory; the XDG specification ignores it.
        let absolute = |name| variable(name).filter(|path| path.is_absolute());
        let folder = match set {
            Some(path) if path.as_os_str() == "off" || path.as_os_str().is_empty() => None,
            Some(path) => Some(path),
            None => absolute("XDG_CACHE_HOME")
                .or_else(|| absolute("LOCALAPPDATA"))
                .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
                .map(|caches| caches.join("colex")),
        };
        Cache {
            folder,
            limit: Ok(LIMIT),
        }
    }

    /// Returns the folder; `None` if the cache is disabled.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the limit of the total size in bytes; `None` if `COLEX_CACHE_BYTES` is not a number.
    pub fn limit(&self) -> Option<u64> {
        self.limit.as_ref().ok().copied()
    }

    /// Returns the entry of a key, if it exists and is intact, and marks it as the most recently used.
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Entry> {
        let key = key.bytes();
        let (mut file, found) = files::open(&self.place(&key)?)?;
        if found.len() > LARGEST {
            return None;
        }
        let entry = parse(&files::read(&mut file, found.len())?, &key)?;
        // If the time cannot be set, entries are removed in the order in which they were written.
        let _ = file.set_modified(SystemTime::now());
        Some(entry)
    }

    /// Stores an entry.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system, and an error if the entry is larger than the limit. [`find`](Cache::find)
    /// never sees a partly written entry.
    pub(crate) fn store(&self, key: &Key<'_>, entry: &Entry) -> io::Result<()> {
        let key = key.bytes();
        let Some(place) = self.place(&key) else {
            return Ok(());
        };
        let limit = self.limit.clone().map_err(io::Error::other)?;
        let bytes = render(&key, entry);
        let most = limit.min(LARGEST);
        if bytes.len() as u64 > most {
            let why = format!(
                "the entry has {} bytes, and {most} is the most",
                bytes.len()
            );
            return Err(io::Error::other(why));
        }
        let folder = place
            .parent()
            .expect("an entry's place is in the cache's folder");
        files::make_folder(folder)?;
        let draft = place.with_extension(format!("{}.draft", files::unguessable()));
        let written = files::write_new(&draft, &bytes).and_then(|()| fs::rename(&draft, &place));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
            return written;
        }
        // The entry is there, also if others cannot be removed for it.
        let _ = evict(folder, &place, limit, |path| fs::remove_file(path));
        Ok(())
    }

    /// The path of the entry of a key.
    fn place(&self, key: &[u8]) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{:016x}.cubin", hash(key))))
    }
}

/// The number of bytes that a text names: `64M`.
fn parse_limit(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim() {
        text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 10),
        text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 20),
        text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 30),
        text => (text, 0),
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| {
        format!("COLEX_CACHE_BYTES is `{text}`: write a number of bytes, or one with K, M or G behind it")
    })
}

/// Removes the entries used least recently until the rest take no more than the limit, and drafts that no process will
/// finish. The entry to be kept stays. What another user owns is neither counted nor removed.
///
/// # Errors
///
/// Returns an error if the folder cannot be read. A file that cannot be removed is not an error: others go in its place.
fn evict(
    folder: &Path,
    keep: &Path,
    limit: u64,
    remove: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let (mut entries, mut total) = (Vec::new(), 0_u64);
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        let Some((stem, rest)) = name.split_once('.') else {
            continue;
        };
        let named = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
        // The metadata of a directory's entry are those of a link itself.
        let Some(found) = file.metadata().ok().filter(files::is_ours) else {
            continue;
        };
        let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if named && rest == "cubin" {
            total = total.saturating_add(found.len());
            entries.push((used, file.path(), found.len()));
        } else if named && rest.ends_with(".draft") {
            let age = used.elapsed().unwrap_or_default();
            if age > ABANDONED {
                let _ = remove(&file.path());
            }
        }
    }
    entries.sort();
    for (_, path, bytes) in entries {
        if total <= limit {
            break;
        }
        if path == keep {
            continue;
        }
        match remove(&path) {
            Ok(()) => total -= bytes,
            // Another process removed it first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => total -= bytes,
            Err(_) => {}
        }
    }
    Ok(())
}

impl Key<'_> {
    /// The key as it stands in its entry.
    fn bytes(&self) -> Vec<u8> {
        format!("{}\n{}\n{}", self.driver, self.device, self.ptx).into_bytes()
    }
}

/// A hash of 64 bits, by one multiplication per eight bytes: a file's name, and a checksum against damage. Against chance the key
/// itself is compared.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| {
        // Both halves of the product: its low half alone would keep the highest bit of a word where it is.
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        (product as u64).rotate_left(23) ^ (product >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    let hash = words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        step(hash, u64::from_le_bytes(*word))
    });
    // The length tells a text from the same one with zeros behind it.
    step(hash, bytes.len() as u64)
}

/// Magic, checksum of the rest, and three parts, each after its length.
fn render(key: &[u8], entry: &Entry) -> Vec<u8> {
    let mut rest = Vec::new();
    for part in [key, entry.log.as_bytes(), &entry.code] {
        rest.extend((part.len() as u64).to_le_bytes());
        rest.extend(part);
    }
    let checksum = hash(&rest).to_le_bytes();
    [MAGIC.as_slice(), &checksum, &rest].concat()
}

/// The entry in these bytes, if they are whole and of that key.
fn parse(bytes: &[u8], key: &[u8]) -> Option<Entry> {
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
    (found == key).then(|| Entry {
        code: code.to_vec(),
        log: String::from_utf8_lossy(log).into_owned(),
    })
}

#[cfg(test)]
mod tests;
