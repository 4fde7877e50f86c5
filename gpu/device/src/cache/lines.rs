//! A file of lines that several processes read and append to.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::files;

/// A file to which several processes append lines, and which each of them reads.
///
/// A line is appended by one write at the file's end, so that the lines of two processes do not mix. The rest of a line
/// that a process could not finish becomes a line of its own: a reader must be able to tell a whole line from a part.
/// The safety rules are those of [`Cache`](super::Cache): a regular file of this user or of root that no other user may
/// write, and no link.
///
/// ```
/// use colex_device::SharedLines;
///
/// let folder = std::env::temp_dir().join(format!("colex-lines-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let lines = SharedLines::open(folder.join("notes"))?;
/// lines.append("one")?;
/// lines.append("two")?;
/// assert_eq!(lines.read()?.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), ["one", "two"]);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLines {
    path: PathBuf,
}

impl SharedLines {
    /// The most bytes that a file may have. A longer file is not read, and no line is appended that would exceed them.
    pub const LIMIT: u64 = 4 << 20;

    /// Opens a file, or creates it for this user only.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system, [`io::ErrorKind::PermissionDenied`] if the name is not that of a regular file
    /// of this user or of root that no other user may write, and [`io::ErrorKind::FileTooLarge`] beyond
    /// [`LIMIT`](Self::LIMIT).
    pub fn open(path: impl Into<PathBuf>) -> io::Result<SharedLines> {
        let path = path.into();
        match files::write_new(&path, &[]) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lines = SharedLines { path };
        lines.read()?;
        files::open_to_append(&lines.path)?;
        Ok(lines)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the file. Bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open), and [`io::ErrorKind::NotFound`] if the file was removed since.
    pub fn read(&self) -> io::Result<String> {
        let (mut file, found) = files::open(&self.path).ok_or_else(|| self.refused())?;
        self.fits(found.len())?;
        // Another process may have appended since.
        let bytes = files::read_most(&mut file, Self::LIMIT)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read), and [`io::ErrorKind::InvalidInput`] if the text has several lines.
    pub fn append(&self, line: &str) -> io::Result<()> {
        if line.contains(['\n', '\r']) {
            let why = "an entry is one line";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (_, found) = files::open(&self.path).ok_or_else(|| self.refused())?;
        self.fits(found.len().saturating_add(line.len() as u64 + 2))?;
        let mut file = files::open_to_append(&self.path)?;
        // The first byte ends what another process has left unfinished.
        file.write_all(format!("\n{line}\n").as_bytes())
    }

    /// Why the file was not opened.
    fn refused(&self) -> io::Error {
        let path = self.path.display();
        let (kind, why) = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (error.kind(), format!("there is no file {path}"))
            }
            Err(error) => (error.kind(), format!("{path} cannot be found: {error}")),
            Ok(found) if files::is_ours(&found) => (
                io::ErrorKind::PermissionDenied,
                format!("{path} cannot be opened by this user for reading"),
            ),
            Ok(_) => (
                io::ErrorKind::PermissionDenied,
                format!("{path} is not a regular file that only this user or root may write"),
            ),
        };
        io::Error::new(kind, why)
    }

    fn fits(&self, bytes: u64) -> io::Result<()> {
        if bytes <= Self::LIMIT {
            return Ok(());
        }
        let (path, most) = (self.path.display(), Self::LIMIT);
        let why = format!(
            "{path} would have {bytes} bytes: at most {most} are kept; remove the file to begin anew"
        );
        Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
    }
}
