//! A folder that is built aside and takes the place of another one at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io, process};

use anyhow::{Context, Result};

/// A folder of this process, removed with this value.
pub(super) struct Aside(PathBuf);

impl Aside {
    /// Names a folder beside the one that it will replace, inside `parent`; other builds have others.
    pub(super) fn in_folder(parent: &Path) -> Aside {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Aside(parent.join(format!(".build-{}-{count}", process::id())))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Puts the folder in the place of `old`, which need not be there. On Linux the two are exchanged in one step, so that
    /// one of them is there at every moment; elsewhere `old` is gone for as long as a renaming takes.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder cannot be renamed.
    pub(super) fn replace(self, old: &Path) -> Result<()> {
        let place = || {
            format!(
                "{} cannot be put in the place of {}",
                self.0.display(),
                old.display()
            )
        };
        if !old.exists() {
            return fs::rename(&self.0, old).with_context(place);
        }
        // What is left aside is the old folder, which is removed with `self`.
        exchange(&self.0, old)
            .or_else(|_| rename_both(&self.0, old))
            .with_context(place)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Where it was moved there is nothing to remove.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(target_os = "linux")]
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn rename_both(new: &Path, old: &Path) -> io::Result<()> {
    let out = new.with_extension("old");
    fs::rename(old, &out)?;
    fs::rename(new, old)?;
    fs::rename(&out, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    const PAGES: [&str; 3] = ["a.html", "b.html", "c.html"];

    fn write(folder: &Path, text: &str) {
        fs::create_dir_all(folder).expect("the folder can be made");
        for page in PAGES {
            fs::write(folder.join(page), text).expect("the page can be written");
        }
    }

    /// With two renamings in place of the exchange, the reader misses pages.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_reader_finds_every_page_whole_at_every_moment() {
        let parent = std::env::temp_dir().join(format!("colex-swap-{}", process::id()));
        let (place, done) = (parent.join("build"), AtomicBool::new(false));
        write(&place, "0");
        let reads = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) {
                    for page in PAGES {
                        let text = fs::read_to_string(place.join(page)).expect("the page is there");
                        assert!(text.parse::<u32>().is_ok(), "half a page: {text:?}");
                        reads += 1;
                    }
                }
                reads
            });
            for number in 1..=300 {
                let aside = Aside::in_folder(&parent);
                write(aside.folder(), &number.to_string());
                aside.replace(&place).expect("both are there");
            }
            done.store(true, Ordering::Relaxed);
            reader.join().expect("the reader found every page")
        });
        let left = fs::read_dir(&parent).expect("it is there").count();
        let last = fs::read_to_string(place.join("a.html")).expect("it is there");
        fs::remove_dir_all(&parent).expect("it was just made");
        assert_eq!((left, last.as_str()), (1, "300"), "old folders are removed");
        println!("law pages_are_whole: {reads} cases");
    }

    #[test]
    fn a_folder_that_replaces_nothing_is_moved_and_one_that_fails_is_removed() {
        let parent = std::env::temp_dir().join(format!("colex-aside-{}", process::id()));
        let aside = Aside::in_folder(&parent);
        write(aside.folder(), "1");
        aside
            .replace(&parent.join("build"))
            .expect("there is nothing in its place");
        let failed = Aside::in_folder(&parent);
        write(failed.folder(), "half");
        drop(failed);
        let left: Vec<_> = fs::read_dir(&parent)
            .expect("it is there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        fs::remove_dir_all(&parent).expect("it was just made");
        assert_eq!(left, ["build"]);
    }

    #[test]
    fn where_nothing_can_be_exchanged_both_are_renamed() {
        let parent = std::env::temp_dir().join(format!("colex-rename-{}", process::id()));
        let (new, old) = (parent.join(".build-1"), parent.join("build"));
        write(&new, "2");
        write(&old, "1");
        rename_both(&new, &old).expect("both are there");
        let texts = [&old, &new]
            .map(|folder| fs::read_to_string(folder.join("a.html")).expect("it is there"));
        fs::remove_dir_all(&parent).expect("it was just made");
        assert_eq!(texts, ["2", "1"]);
    }
}
