//! What the sweep runs.

use std::collections::BTreeMap;

use colex_atom::{CopyAtom, GmmaOptions, MmaAtom, copy_atoms, mma_atoms};
use colex_proof::sweep::{Subject, subjects, with_options};

/// Every executable row of both tables is swept.
#[test]
fn nothing_executable_is_left_out_in_silence() {
    let swept: std::collections::HashSet<String> = subjects().iter().map(Subject::atom).collect();
    let mut atoms = 0;
    let names = mma_atoms()
        .filter(MmaAtom::is_executable)
        .map(|atom| atom.name());
    let copies = copy_atoms()
        .filter(CopyAtom::is_executable)
        .map(|atom| atom.name());
    for name in names.chain(copies) {
        assert!(swept.contains(&name), "{name}");
        atoms += 1;
    }
    println!("law sweep.complete: {atoms} atoms");
}

/// Each N of a `wgmma` that has signs or metadata threads to choose is swept with one choice that is not the first.
#[test]
fn every_n_has_a_sign_or_a_choice() {
    let mut cases = 0;
    for atom in mma_atoms().filter(MmaAtom::is_executable) {
        let legal = GmmaOptions::all().filter(|o| atom.clone().with_options(*o).is_ok());
        let special = |options: &GmmaOptions| {
            options.negate_a || options.negate_b || options.metadata_threads == 1
        };
        let has = legal.filter(special).count() > 0;
        let swept = with_options(atom.clone());
        let name = atom.name();
        assert_eq!(swept.iter().any(|a| special(&a.options())), has, "{name}");
        cases += 1;
    }
    println!("law sweep.options: {cases} atoms");
}

#[test]
fn names_and_entries_are_unique() {
    let mut seen = BTreeMap::new();
    for subject in subjects().iter().step_by(17) {
        let case = subject.case(1, 1).unwrap();
        assert_eq!(
            seen.insert(case.kernel.name.clone(), case.name.clone()),
            None
        );
    }
    assert!(seen.len() > 200, "{}", seen.len());
}
