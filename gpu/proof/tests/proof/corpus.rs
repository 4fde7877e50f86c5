//! The kernels of every matrix and copy instruction.

use colex_ir::{Atom, Op};
use colex_proof::corpus::{FormCase, copies, products};

/// Every kernel of a matrix instruction loads each register once and stores each register of D once.
#[test]
fn kernels_move_every_register() {
    let cases = products();
    for case in &cases {
        let atom = |op: &Op| match op {
            Op::Atom(Atom::Mma { atom, .. }) => Some(atom.op().expect("it is executable").clone()),
            _ => None,
        };
        let found = case.kernel.body.iter().find_map(|stmt| atom(&stmt.op));
        let op = found.expect("the instruction is in its kernel");
        let text = case.kernel.ptx().expect("the verifier accepts it");
        let count = |word: &str| text.matches(word).count();
        let e = op.e.map_or(0, |e| e.count);
        let loaded = op.a.count + op.b.count + op.c.count + e;
        assert_eq!(count("ld.global."), loaded, "{}", case.word);
        assert_eq!(count("st.global."), op.d.count, "{}", case.word);
        assert!(text.contains(&op.ptx), "{}", case.word);
    }
    println!("law mma.kernel: {} cases", cases.len());
}

#[test]
fn the_verifier_accepts_every_instruction_of_the_tables() {
    let all: Vec<FormCase> = products().into_iter().chain(copies()).collect();
    for case in &all {
        if let Err(refused) = case.kernel.verify() {
            panic!("{}: {refused}", case.word);
        }
    }
    println!("law atoms.accepted: {} cases", all.len());
}
