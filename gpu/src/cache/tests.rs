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
    let place = cache.0.place(&KEY).unwrap();
    let whole = fs::read(&place).unwrap();
    let mut damaged = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert_eq!(parse(&bytes, &KEY), None, "a bit of byte {at}");
        assert_eq!(parse(&whole[..at], &KEY), None, "cut after {at}");
        damaged += 2;
    }
    assert_eq!(
        parse(&[&whole[..], &[0]].concat(), &KEY),
        None,
        "a byte too many"
    );
    fs::write(&place, &whole[..100]).unwrap();
    assert_eq!(cache.0.find(&KEY), None);
    cache.0.store(&KEY, &entry(8)).unwrap();
    assert_eq!(cache.0.find(&KEY), Some(entry(8)));
    println!("law damaged_entries_are_none: {damaged} cases");
}

#[test]
fn an_entry_of_another_text_with_the_same_hash_is_none() {
    let cache = Fresh::new("hash");
    let other = Key { driver: 1, ..KEY };
    fs::create_dir_all(cache.0.folder().unwrap()).unwrap();
    fs::write(cache.0.place(&KEY).unwrap(), render(&other, &entry(7))).unwrap();
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
    assert_eq!(chosen(Some("/tmp/c")), Some(PathBuf::from("/tmp/c")));
    assert_eq!(chosen(Some("off")), None);
    assert_eq!(chosen(Some("")), None);
    assert_eq!(Cache::chosen(None, |_| None).folder, None);
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

/// Writes entries that are all of one byte, and reads those of everybody.
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
