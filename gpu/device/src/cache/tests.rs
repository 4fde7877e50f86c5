//! The cache of machine code: what is kept, what is refused, and two processes at once.

use std::process::Command;

use super::*;

const KEY: Key<'static> = Key {
    ptx: ".version 8.0",
    device: "sm_90a NVIDIA H200",
    driver: 13000,
};

fn entry(fill: u8) -> Entry {
    Entry {
        code: vec![fill; 4096],
        log: "ptxas info: 32 registers".to_string(),
    }
}

/// A cache in a folder of its own, removed at the end.
struct Fresh(Cache);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let folder = env::temp_dir().join(format!("colex-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Fresh(Cache::at(folder))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.folder().expect("a test's cache has a folder"));
    }
}

#[test]
fn what_is_stored_is_found_under_its_key_only() {
    let cache = Fresh::new("found");
    assert_eq!(cache.0.find(&KEY), None);
    cache.0.store(&KEY, &entry(7)).unwrap();
    assert_eq!(cache.0.find(&KEY), Some(entry(7)));
    for other in [
        Key {
            ptx: ".version 8.1",
            ..KEY
        },
        Key {
            device: "sm_90a NVIDIA H100",
            ..KEY
        },
        Key {
            driver: 13010,
            ..KEY
        },
    ] {
        assert_eq!(cache.0.find(&other), None, "{other:?}");
    }
}

#[test]
fn every_damage_makes_an_entry_none_and_a_new_one_heals_it() {
    let cache = Fresh::new("damage");
    cache.0.store(&KEY, &entry(7)).unwrap();
    let place = cache.0.place(&KEY.bytes()).unwrap();
    let whole = fs::read(&place).unwrap();
    let mut damaged = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert_eq!(parse(&bytes, &KEY.bytes()), None, "a bit of byte {at}");
        assert_eq!(parse(&whole[..at], &KEY.bytes()), None, "cut after {at}");
        damaged += 2;
    }
    assert_eq!(
        parse(&[&whole[..], &[0]].concat(), &KEY.bytes()),
        None,
        "a byte too many"
    );
    fs::write(&place, &whole[..100]).unwrap();
    assert_eq!(cache.0.find(&KEY), None);
    cache.0.store(&KEY, &entry(8)).unwrap();
    assert_eq!(cache.0.find(&KEY), Some(entry(8)));
    println!("law damaged_entries_are_none: {damaged} cases");
}

/// The highest bits of two words, and zeros behind the text, change the hash.
#[test]
fn a_hash_depends_on_every_bit_and_on_the_length() {
    let text = [7; 24];
    let changed = |places: &[usize]| {
        let mut other = text;
        places.iter().for_each(|at| other[*at] ^= 0x80);
        hash(&other)
    };
    let longer: Vec<u64> = (0..9)
        .map(|n| hash(&[&text[..], &[0; 9][..n]].concat()))
        .collect();
    let mut all = vec![
        changed(&[7]),
        changed(&[15]),
        changed(&[7, 15]),
        changed(&[23]),
    ];
    all.extend(longer);
    let different: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), 13, "{all:x?}");
}

#[test]
fn an_entry_of_another_text_with_the_same_hash_is_none() {
    let cache = Fresh::new("hash");
    let other = Key { driver: 1, ..KEY };
    fs::create_dir_all(cache.0.folder().unwrap()).unwrap();
    fs::write(
        cache.0.place(&KEY.bytes()).unwrap(),
        render(&other.bytes(), &entry(7)),
    )
    .unwrap();
    assert_eq!(cache.0.find(&KEY), None);
}

#[test]
fn off_stores_and_finds_nothing() {
    Cache::off().store(&KEY, &entry(7)).unwrap();
    assert_eq!(Cache::off().find(&KEY), None);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_and_nothing_more() {
    let cache = Fresh::new("file");
    let folder = cache.0.folder().unwrap();
    fs::write(folder, "a file where the folder should be").unwrap();
    assert!(cache.0.store(&KEY, &entry(7)).is_err());
    assert_eq!(cache.0.find(&KEY), None);
    fs::remove_file(folder).unwrap();
}

#[test]
fn the_environment_chooses_the_folder() {
    let variables = |name: &str| match name {
        "HOME" => Some(PathBuf::from("/home/me")),
        _ => None,
    };
    let chosen = |set: Option<&str>| Cache::chosen(set.map(PathBuf::from), variables).folder;
    assert_eq!(chosen(None), Some(PathBuf::from("/home/me/.cache/colex")));
    assert_eq!(chosen(Some("/a/c")), Some(PathBuf::from("/a/c")));
    assert_eq!(chosen(Some("off")), None);
    assert_eq!(chosen(Some("")), None);
    assert_eq!(Cache::chosen(None, |_| None).folder, None);
}

/// All variables with all kinds of values: the folder is in the first that is an absolute path, or there is none.
#[test]
fn law_the_working_directory_is_no_cache() {
    let values = [None, Some(""), Some("a"), Some("./a"), Some("/a")];
    let names = ["XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"];
    let mut cases = 0;
    for code in 0..values.len().pow(3) {
        let given = [1, 5, 25].map(|place| values[code / place % 5]);
        let variable = |name: &str| {
            let at = names.iter().position(|known| *known == name)?;
            given[at].map(PathBuf::from)
        };
        let expected = match given.map(|value| value == Some("/a")) {
            [true, ..] | [_, true, _] => Some(PathBuf::from("/a/colex")),
            [_, _, true] => Some(PathBuf::from("/a/.cache/colex")),
            [false, false, false] => None,
        };
        assert_eq!(Cache::chosen(None, variable).folder, expected, "{given:?}");
        cases += 1;
    }
    println!("law the_working_directory_is_no_cache: {cases} cases");
}

#[test]
fn the_limit_is_a_number_with_or_without_a_unit() {
    assert_eq!(parse_limit("4096"), Ok(4096));
    assert_eq!(parse_limit(" 64M "), Ok(64 << 20));
    assert_eq!(parse_limit("2g"), Ok(2 << 30));
    for wrong in ["", "64MB", "-1", "99999999999G"] {
        assert_eq!(
            parse_limit(wrong).unwrap_err(),
            format!(
                "COLEX_CACHE_BYTES is `{wrong}`: write a number of bytes, or one with K, M or G behind it"
            )
        );
    }
    let cache = Fresh::new("limit");
    let unknown = Cache {
        limit: parse_limit("much"),
        ..cache.0.clone()
    };
    assert_eq!(
        unknown.store(&KEY, &entry(7)).unwrap_err().to_string(),
        "COLEX_CACHE_BYTES is `much`: write a number of bytes, or one with K, M or G behind it"
    );
    let small = cache.0.clone().with_limit(1000);
    assert_eq!(
        small.store(&KEY, &entry(7)).unwrap_err().to_string(),
        "the entry has 4197 bytes, and 1000 is the most"
    );
}

/// The texts of entries that are told apart by a number.
fn numbered(number: usize) -> String {
    format!(".version 8.0 // {number}")
}

/// The entry that was used least recently goes first, be it read or written last.
#[test]
fn the_least_recently_used_entries_are_evicted() {
    let cache = Fresh::new("evict");
    let texts: Vec<String> = (0..40).map(numbered).collect();
    let key = |i: usize| Key {
        ptx: &texts[i],
        ..KEY
    };
    let size = render(&key(10).bytes(), &entry(0)).len() as u64;
    let four = cache.0.clone().with_limit(4 * size);
    // Seconds apart, so that a file system with coarse times keeps the order.
    let used = |i: usize, second: u64| {
        let file = fs::File::options()
            .write(true)
            .open(four.place(&key(i).bytes()).unwrap())
            .unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second);
        file.set_modified(time).unwrap();
    };
    let there = || -> Vec<usize> {
        let is_there = |i: &usize| four.place(&key(*i).bytes()).unwrap().exists();
        (0..40).filter(is_there).collect()
    };
    let mut checked = 0;
    let mut order: Vec<usize> = Vec::new();
    for step in 10..40 {
        four.store(&key(step), &entry(step as u8)).unwrap();
        order.push(step);
        used(step, 2 * step as u64);
        if order.len() > 4 {
            order.remove(0);
        }
        if step % 3 == 0 {
            // A look makes the oldest the newest.
            let oldest = order.remove(0);
            assert_eq!(four.find(&key(oldest)), Some(entry(oldest as u8)));
            used(oldest, 2 * step as u64 + 1);
            order.push(oldest);
        }
        let mut expected = order.clone();
        expected.sort_unstable();
        assert_eq!(there(), expected, "after {step}");
        checked += 1;
    }
    // A look at an entry sets its time by itself.
    used(order[3], 0);
    four.find(&key(order[3])).unwrap();
    let found = fs::metadata(four.place(&key(order[3]).bytes()).unwrap()).unwrap();
    assert!(found.modified().unwrap().elapsed().unwrap() < Duration::from_secs(600));
    println!("law least_recently_used_entries_go_first: {checked} cases");
}

/// Every subset of five entries that cannot be removed: the oldest of the others go until what is left is within the limit, and those that
/// another process removed first count as gone.
#[test]
fn law_entries_that_cannot_be_removed_count() {
    let cache = Fresh::new("evict-stuck");
    let texts: Vec<String> = (0..6).map(numbered).collect();
    let key = |i: usize| Key {
        ptx: &texts[i],
        ..KEY
    };
    let place = |i: usize| cache.0.place(&key(i).bytes()).unwrap();
    let size = render(&key(0).bytes(), &entry(0)).len() as u64;
    let mut cases = 0;
    for (stuck, limit) in (0..1_u32 << 5).flat_map(|stuck| (1..=6).map(move |limit| (stuck, limit)))
    {
        for i in 0..6 {
            cache.0.store(&key(i), &entry(i as u8)).unwrap();
            let file = fs::File::options().write(true).open(place(i)).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + 2 * i as u64);
            file.set_modified(time).unwrap();
        }
        let is_stuck = |i: usize| stuck >> i & 1 == 1;
        let remove = |path: &Path| {
            let at = (0..6)
                .find(|i| place(*i) == path)
                .expect("one of the entries");
            if is_stuck(at) {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied));
            }
            fs::remove_file(path)?;
            match at {
                0 => Err(io::Error::from(io::ErrorKind::NotFound)),
                _ => Ok(()),
            }
        };
        evict(cache.0.folder().unwrap(), &place(5), limit * size, remove).unwrap();
        let mut left = 6;
        for i in 0..5 {
            let goes = left > limit && !is_stuck(i);
            left -= u64::from(goes);
            assert_eq!(place(i).exists(), !goes, "{i} of {stuck:b} with {limit}");
        }
        assert!(place(5).exists());
        cases += 1;
    }
    println!("law entries_that_cannot_be_removed_count: {cases} cases");
}

/// What is no entry stays, and so do drafts that another process may be writing; old drafts go.
#[test]
fn eviction_touches_entries_and_abandoned_drafts_only() {
    let cache = Fresh::new("evict-only");
    cache.0.store(&KEY, &entry(7)).unwrap();
    let folder = cache.0.folder().unwrap();
    let kept = [
        "README",
        "0123.cubin",
        "0123456789abcdef.0.draft",
        "0123456789abcdeg.cubin",
    ];
    for name in kept {
        fs::write(folder.join(name), [0; 9000]).unwrap();
    }
    let old = folder.join("0123456789abcdef.1.draft");
    fs::write(&old, "half").unwrap();
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - 2 * ABANDONED)
        .unwrap();
    let text = numbered(1);
    let other = Key { ptx: &text, ..KEY };
    cache
        .0
        .clone()
        .with_limit(5000)
        .store(&other, &entry(8))
        .unwrap();
    assert_eq!(cache.0.find(&KEY), None, "evicted");
    assert_eq!(cache.0.find(&other), Some(entry(8)));
    assert!(!old.exists());
    assert!(kept.iter().all(|name| folder.join(name).exists()));
}

/// Eight threads write and read twelve entries where there is room for three: a look finds a whole entry or none.
#[test]
fn threads_that_write_and_evict_at_once_never_see_a_part() {
    let cache = Fresh::new("threads");
    let size = render(&KEY.bytes(), &entry(0)).len() as u64 + 20;
    let three = cache.0.clone().with_limit(3 * size);
    let texts: Vec<String> = (10..22).map(numbered).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (three, texts) = (&three, &texts);
            scope.spawn(move || {
                for round in 0..60 {
                    let at = (thread * 5 + round * 7) % texts.len();
                    let key = Key {
                        ptx: &texts[at],
                        ..KEY
                    };
                    three.store(&key, &entry(at as u8)).unwrap();
                    if let Some(found) = three.find(&key) {
                        assert_eq!(found, entry(at as u8));
                    }
                }
            });
        }
    });
    three.store(&KEY, &entry(1)).unwrap();
    let left = fs::read_dir(three.folder().unwrap()).unwrap();
    let bytes: u64 = left
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(
        bytes <= 3 * size,
        "{bytes} bytes are left, and the limit is {}",
        3 * size
    );
    println!("law entries_are_whole_while_others_write_and_evict: 480 cases");
}

/// The name of the test that is its own second process, and of the variable that tells it so.
const SELF: &str = "cache::tests::several_processes_write_one_entry_and_every_read_is_whole";
const FOLDER: &str = "COLEX_TEST_CACHE_FOLDER";

#[test]
fn several_processes_write_one_entry_and_every_read_is_whole() {
    if let Some(folder) = env::var_os(FOLDER) {
        return hammer(&Cache::at(folder));
    }
    let cache = Fresh::new("processes");
    let spawn = |_| {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", SELF])
            .env(FOLDER, cache.0.folder().unwrap());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let left = fs::read_dir(cache.0.folder().unwrap()).unwrap().count();
    assert_eq!(left, 1, "drafts are gone");
    assert!(cache.0.find(&KEY).is_some());
}

/// Writes entries that are all of one byte, and reads those of all processes.
fn hammer(cache: &Cache) {
    for round in 0..200u32 {
        let fill = std::process::id().wrapping_mul(31).wrapping_add(round) as u8;
        cache.store(&KEY, &entry(fill)).unwrap();
        let found = cache
            .find(&KEY)
            .expect("an entry is never missing once it was there");
        assert_eq!(found, entry(found.code[0]));
    }
}

/// What another user of the folder may plant, and what must come of it.
#[cfg(unix)]
mod planted {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// The folder of a test's cache, made by the test.
    fn made(cache: &Fresh) -> PathBuf {
        let folder = cache.0.folder().unwrap().to_path_buf();
        fs::DirBuilder::new().mode(0o777).create(&folder).unwrap();
        folder
    }

    /// What `find` returns, if it returns within five seconds.
    fn found_soon(cache: &Cache) -> Option<Entry> {
        let (sender, receiver) = mpsc::channel();
        let cache = cache.clone();
        thread::spawn(move || sender.send(cache.find(&KEY)));
        receiver
            .recv_timeout(Duration::from_secs(60))
            .expect("a look into the cache ends")
    }

    /// The entry that a store makes instead of what was planted in its place.
    fn heals(cache: &Cache) {
        cache.store(&KEY, &entry(9)).unwrap();
        assert_eq!(found_soon(cache), Some(entry(9)));
        let place = cache.place(&KEY.bytes()).unwrap();
        assert!(fs::symlink_metadata(place).unwrap().is_file());
    }

    fn mkfifo(path: &Path) {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn a_link_in_an_entrys_place_is_not_followed() {
        let (cache, other) = (Fresh::new("link"), Fresh::new("link-target"));
        made(&cache);
        other.0.store(&KEY, &entry(7)).unwrap();
        let target = other.0.place(&KEY.bytes()).unwrap();
        symlink(&target, cache.0.place(&KEY.bytes()).unwrap()).unwrap();
        assert_eq!(found_soon(&cache.0), None);
        heals(&cache.0);
        assert_eq!(
            other.0.find(&KEY),
            Some(entry(7)),
            "the target is as it was"
        );
    }

    /// The names that drafts had: the entry's, the process's number, and a count.
    #[test]
    fn links_in_the_places_of_drafts_are_not_followed() {
        let cache = Fresh::new("draft");
        let folder = made(&cache);
        let victim = folder.join("victim");
        fs::write(&victim, "mine").unwrap();
        let place = cache.0.place(&KEY.bytes()).unwrap();
        for number in 0..1000 {
            let draft = place.with_extension(format!("{}-{number}", std::process::id()));
            symlink(&victim, draft).unwrap();
        }
        heals(&cache.0);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }

    #[test]
    fn a_fifo_is_neither_read_nor_waited_for() {
        let cache = Fresh::new("fifo");
        made(&cache);
        mkfifo(&cache.0.place(&KEY.bytes()).unwrap());
        assert_eq!(found_soon(&cache.0), None);
        heals(&cache.0);
    }

    #[test]
    fn a_link_to_a_fifo_or_a_device_is_not_followed() {
        let cache = Fresh::new("device");
        let folder = made(&cache);
        let place = cache.0.place(&KEY.bytes()).unwrap();
        mkfifo(&folder.join("fifo"));
        for target in [folder.join("fifo"), PathBuf::from("/dev/zero")] {
            symlink(&target, &place).unwrap();
            assert_eq!(found_soon(&cache.0), None);
            heals(&cache.0);
            fs::remove_file(&place).unwrap();
        }
    }

    #[test]
    fn a_folder_in_an_entrys_place_is_an_error_of_the_store() {
        let cache = Fresh::new("folder");
        made(&cache);
        fs::create_dir(cache.0.place(&KEY.bytes()).unwrap()).unwrap();
        assert_eq!(found_soon(&cache.0), None);
        assert!(cache.0.store(&KEY, &entry(7)).is_err());
        assert_eq!(fs::read_dir(cache.0.folder().unwrap()).unwrap().count(), 1);
    }

    /// A file that claims a tebibyte and has no blocks is refused by its length.
    #[test]
    fn a_huge_file_is_not_read() {
        let cache = Fresh::new("huge");
        made(&cache);
        let file = fs::File::create(cache.0.place(&KEY.bytes()).unwrap()).unwrap();
        file.set_len(1 << 40).unwrap();
        let started = Instant::now();
        assert_eq!(found_soon(&cache.0), None);
        // To read a tebibyte takes minutes.
        assert!(started.elapsed() < Duration::from_secs(20));
        heals(&cache.0);
    }

    #[test]
    fn nobody_else_can_read_or_write_what_it_makes() {
        let cache = Fresh::new("mode");
        cache.0.store(&KEY, &entry(7)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(cache.0.folder().unwrap()), 0o700);
        assert_eq!(mode(&cache.0.place(&KEY.bytes()).unwrap()), 0o600);
    }

    /// An entry that another user owns, or that others may write, is as good as none. Only root can give a file away;
    /// for another user the second half is what runs.
    #[test]
    fn an_entry_that_others_may_have_written_is_none() {
        let cache = Fresh::new("owner");
        cache.0.store(&KEY, &entry(7)).unwrap();
        let place = cache.0.place(&KEY.bytes()).unwrap();
        if fs::metadata(&place).unwrap().uid() == 0 {
            std::os::unix::fs::chown(&place, Some(12345), None).unwrap();
            assert_eq!(cache.0.find(&KEY), None);
            std::os::unix::fs::chown(&place, Some(0), None).unwrap();
            assert_eq!(cache.0.find(&KEY), Some(entry(7)));
        }
        fs::set_permissions(&place, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(cache.0.find(&KEY), None);
        heals(&cache.0);
    }
}

#[cfg(unix)]
mod lines {
    use std::io::ErrorKind;
    use std::thread;

    use super::super::SharedLines;
    use super::*;

    /// A folder of its own.
    fn folder(name: &str) -> Fresh {
        let fresh = Fresh::new(&format!("lines-{name}"));
        fs::create_dir_all(fresh.0.folder().unwrap()).unwrap();
        fresh
    }

    fn file(fresh: &Fresh) -> PathBuf {
        fresh.0.folder().unwrap().join("lines")
    }

    #[test]
    fn lines_of_several_writers_stay_whole() {
        let fresh = folder("writers");
        let line = |writer: usize, n: usize| format!("{writer} {n} {}", "x".repeat(100 + n));
        thread::scope(|scope| {
            for writer in 0..4 {
                let lines = SharedLines::open(file(&fresh)).unwrap();
                scope.spawn(move || {
                    (0..100).for_each(|n| lines.append(&line(writer, n)).unwrap());
                });
            }
        });
        let text = SharedLines::open(file(&fresh)).unwrap().read().unwrap();
        let mut found: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        found.sort_unstable();
        let mut wanted: Vec<String> = (0..4)
            .flat_map(|writer| (0..100).map(move |n| line(writer, n)))
            .collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }

    #[test]
    fn an_unfinished_line_does_not_take_the_next_one_with_it() {
        let fresh = folder("unfinished");
        fs::write(file(&fresh), "whole\nunfini").unwrap();
        fs::set_permissions(
            file(&fresh),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        let lines = SharedLines::open(file(&fresh)).unwrap();
        lines.append("next").unwrap();
        let text = lines.read().unwrap();
        assert_eq!(text, "whole\nunfini\nnext\n");
        let refused = lines.append("two\nlines").unwrap_err();
        assert_eq!(refused.to_string(), "an entry is one line");
    }

    #[test]
    fn a_file_that_is_gone_is_told_as_gone() {
        let fresh = folder("gone");
        let place = file(&fresh);
        let lines = SharedLines::open(&place).unwrap();
        lines.append("one").unwrap();
        let said = |error: std::io::Error| {
            let sentence = error.to_string();
            let sentence = sentence.replace(&place.display().to_string(), "FILE");
            (error.kind(), sentence)
        };
        fs::remove_file(&place).unwrap();
        let gone = (ErrorKind::NotFound, "there is no file FILE".to_string());
        assert_eq!(said(lines.append("two").unwrap_err()), gone);
        assert_eq!(said(lines.read().unwrap_err()), gone);
        assert!(!place.exists(), "no file is made in its place");
        // Its folder has become a file.
        let parent = place.parent().unwrap();
        fs::remove_dir_all(parent).unwrap();
        fs::write(parent, "").unwrap();
        let (kind, sentence) = said(lines.read().unwrap_err());
        assert_eq!(kind, ErrorKind::NotADirectory);
        assert_eq!(
            sentence,
            "FILE cannot be found: Not a directory (os error 20)"
        );
        fs::remove_file(parent).unwrap();
    }

    #[test]
    fn a_file_that_is_not_ours_alone_is_refused() {
        let fresh = folder("refused");
        let place = file(&fresh);
        let refused = || {
            let error = SharedLines::open(&place).unwrap_err();
            let sentence = error
                .to_string()
                .replace(&place.display().to_string(), "FILE");
            (error.kind(), sentence)
        };
        let no = "FILE is not a regular file that only this user or root may write".to_string();
        fs::create_dir(&place).unwrap();
        assert_eq!(refused(), (ErrorKind::PermissionDenied, no.clone()));
        fs::remove_dir(&place).unwrap();
        let target = fresh.0.folder().unwrap().join("target");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &place).unwrap();
        assert_eq!(refused(), (ErrorKind::PermissionDenied, no.clone()));
        fs::remove_file(&place).unwrap();
        fs::write(&place, "").unwrap();
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(refused(), (ErrorKind::PermissionDenied, no));
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        fs::File::options()
            .write(true)
            .open(&place)
            .unwrap()
            .set_len(SharedLines::LIMIT + 1)
            .unwrap();
        assert_eq!(
            refused(),
            (
                ErrorKind::FileTooLarge,
                "FILE would have 4194305 bytes: at most 4194304 are kept; remove the file to begin anew".to_string()
            )
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
    }
}
