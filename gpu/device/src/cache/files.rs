//! Files in a folder that other users may write: only regular files, no links followed, names that cannot be guessed.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Opens a regular file of this user or of root for reading. `None` for anything else: a link, a FIFO, a device, a
/// folder, a file of another user or one that others may write.
pub(super) fn open(path: &Path) -> Option<(File, Metadata)> {
    for _ in 0..REPLACEMENTS {
        let named = fs::symlink_metadata(path).ok()?;
        if !named.is_file() {
            return None;
        }
        let mut options = OpenOptions::new();
        system::careful(options.read(true));
        let file = options.open(path).ok()?;
        let opened = file.metadata().ok()?;
        if !opened.is_file() {
            return None;
        }
        // Between the two calls the name may have been bound to another file: a link, or a newer entry.
        if system::is_same(&named, &opened) {
            return system::is_ours(&opened).then_some((file, opened));
        }
    }
    None
}

/// How often another process may replace a file between a look at its name and its opening, before it counts as missing.
const REPLACEMENTS: usize = 64;

/// Reads exactly the given number of bytes. `None` if the file has more or fewer, or the host has no memory for them.
pub(super) fn read(file: &mut File, length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length.checked_add(1)?).ok()?;
    let mut more = file.take(length as u64 + 1);
    more.read_to_end(&mut bytes).ok()?;
    (bytes.len() == length).then_some(bytes)
}

/// Reads what a file has, up to a number of bytes.
///
/// # Errors
///
/// Returns the error of the file system.
pub(super) fn read_most(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file for writing at its end, without following a link.
///
/// # Errors
///
/// Returns the error of the file system.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    system::careful(options.append(true));
    options.open(path)
}

/// Writes a file that was not there before, which only this user can read and write.
///
/// # Errors
///
/// Returns the error of the file system: [`io::ErrorKind::AlreadyExists`] if a file, or a link, has the name.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    system::private(options.write(true).create_new(true));
    options.open(path)?.write_all(bytes)
}

/// Creates a folder and its missing parents, for this user only.
///
/// # Errors
///
/// Returns the error of the file system, and [`io::ErrorKind::PermissionDenied`] if the folder is behind a link of
/// another user.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    let link = fs::symlink_metadata(path)
        .is_ok_and(|found| found.file_type().is_symlink() && !system::is_ours_as_link(&found));
    if link {
        let why = format!("{} is a link that another user made", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    system::private_folder().recursive(true).create(path)
}

/// Whether a file is one that this user or root made and no other user can write.
pub(super) fn is_ours(found: &Metadata) -> bool {
    found.is_file() && system::is_ours(found)
}

/// Returns 32 hexadecimal digits that cannot be guessed.
///
/// The standard library takes the keys of a `RandomState` from the operating system's random source, and SipHash does
/// not show them.
pub(super) fn unguessable() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(unix)]
mod system {
    use std::fs::{self, DirBuilder, Metadata, OpenOptions};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
    use std::sync::OnceLock;

    /// `O_NOFOLLOW | O_NONBLOCK` where their values are known: a link is then not opened, and the opening of a FIFO
    /// does not wait. Elsewhere the comparison of what was named with what was opened has to do.
    const CAREFUL: i32 = if cfg!(target_os = "linux") {
        if cfg!(any(
            target_arch = "x86_64",
            target_arch = "x86",
            target_arch = "riscv64"
        )) {
            0o400_000 | 0o4_000
        } else if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
            0o100_000 | 0o4_000
        } else {
            0
        }
    } else if cfg!(target_os = "macos") {
        0x100 | 0x4
    } else {
        0
    };

    pub(super) fn careful(options: &mut OpenOptions) {
        options.custom_flags(CAREFUL);
    }

    pub(super) fn private(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    pub(super) fn private_folder() -> DirBuilder {
        let mut folder = DirBuilder::new();
        folder.mode(0o700);
        folder
    }

    pub(super) fn is_same(a: &Metadata, b: &Metadata) -> bool {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }

    pub(super) fn is_ours(found: &Metadata) -> bool {
        is_ours_as_link(found) && found.mode() & 0o022 == 0
    }

    /// The permissions of a link say nothing.
    pub(super) fn is_ours_as_link(found: &Metadata) -> bool {
        user().is_none_or(|user| [user, 0].contains(&found.uid()))
    }

    /// Returns this process's user where the system shows it as the owner of `/proc/self`.
    fn user() -> Option<u32> {
        static USER: OnceLock<Option<u32>> = OnceLock::new();
        *USER.get_or_init(|| fs::metadata("/proc/self").ok().map(|found| found.uid()))
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{DirBuilder, Metadata, OpenOptions};

    #[cfg(windows)]
    pub(super) fn careful(options: &mut OpenOptions) {
        use std::os::windows::fs::OpenOptionsExt as _;
        /// `FILE_FLAG_OPEN_REPARSE_POINT`: a link is opened itself, and is no regular file.
        const NO_FOLLOW: u32 = 0x0020_0000;
        options.custom_flags(NO_FOLLOW);
    }

    #[cfg(not(windows))]
    pub(super) fn careful(_: &mut OpenOptions) {}

    pub(super) fn private(_: &mut OpenOptions) {}

    pub(super) fn private_folder() -> DirBuilder {
        DirBuilder::new()
    }

    pub(super) fn is_same(_: &Metadata, _: &Metadata) -> bool {
        true
    }

    pub(super) fn is_ours(_: &Metadata) -> bool {
        true
    }

    pub(super) fn is_ours_as_link(_: &Metadata) -> bool {
        true
    }
}
