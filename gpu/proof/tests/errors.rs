//! What holds for the error of every crate.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use colex_atom::Arch;
use colex_gpu::Device;

/// Asserts that an error prints its sentence as `Debug`, and that a result with it is one pointer wide.
fn says_its_sentence<E: Error>(error: &E) {
    assert_eq!(format!("{error:?}"), error.to_string());
    assert_eq!(size_of::<Result<(), E>>(), size_of::<usize>(), "{error}");
}

#[test]
fn every_error_prints_its_sentence_and_is_one_pointer() {
    let device = Device::simulator(Arch::Sm80);
    let layout = "4:".parse::<colex_layout::Layout>().unwrap_err();
    says_its_sentence(&layout);
    says_its_sentence(&colex_atom::copy("ldmatrix").unwrap_err());
    says_its_sentence(&colex_tiled::Error::from(layout.clone()));
    says_its_sentence(&colex_sched::Raster::hilbert(0, 4).unwrap_err());
    says_its_sentence(&colex_ir::launch::check_arguments(&[], &[1u32.into()]).unwrap_err());
    says_its_sentence(&colex_sim::Memory::default().read(0, 4).unwrap_err());
    says_its_sentence(&colex_tensor::Error::new("copy", "5 rows"));
    let slice = device.zeros::<f32>(4).unwrap().slice(2..9).unwrap_err();
    says_its_sentence(&slice);
    says_its_sentence(&colex_gpu::Error::from(slice));
    println!("law errors.debug_is_display: 9 cases");
}

/// The `.rs` files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What is in an error may change without breaking a caller: no crate has a public enumeration of errors, and what
/// implements `Error` by hand has its sentence as `Debug`.
#[test]
fn no_error_is_a_public_enumeration() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in [
        "layout/src",
        "layout/draw/src",
        "atom/src",
        "tiled/src",
        "sched/src",
        "gpu/src",
        "gpu/ir/src",
        "gpu/sim/src",
        "gpu/tensor/src",
        "gpu/device/src",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let mut complaints = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).expect("a source");
        for line in text.lines() {
            let name = line.trim_start().strip_prefix("pub enum ");
            if name.is_some_and(|name| {
                name.split([' ', '<'])
                    .next()
                    .is_some_and(|n| n.ends_with("Error"))
            }) {
                complaints.push(format!("{}: {line}", path.display()));
            }
            let by_hand = line.strip_prefix("impl std::error::Error for ");
            if let Some(name) = by_hand.and_then(|rest| rest.split(' ').next())
                && !text.contains(&format!("debug_as_display!({name})"))
            {
                complaints.push(format!(
                    "{}: the `Debug` of {name} is not its sentence",
                    path.display()
                ));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    println!("law errors.no_public_enumeration: {} files", files.len());
}
