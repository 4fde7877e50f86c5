//! What an H200 gave, element by element: `h200.txt`.

use colex_atom::{Ty, Value, mma};

/// A line: the atom, a row of A and a column of B along K, the element of C, and that of D which the hardware gave.
fn cases() -> impl Iterator<Item = (&'static str, [&'static str; 4])> {
    let lines = include_str!("h200.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, a, b, c, d] = words.try_into().expect("a line has five words");
        (name, [a, b, c, d])
    })
}

fn numbers(text: &str, ty: Ty) -> Vec<Value> {
    let word = |hex| u64::from_str_radix(hex, 16).expect("the words are hexadecimal");
    text.split(',')
        .map(|hex| Value::decode(ty, &[word(hex)]))
        .collect()
}

/// The numbers along K in row 0 of a tile of `rows` rows, zeros elsewhere.
fn first_row(numbers: &[Value], rows: i64, ty: Ty) -> Vec<Value> {
    let mut tile = vec![Value::zero(ty); rows as usize * numbers.len()];
    for (k, &x) in numbers.iter().enumerate() {
        tile[rows as usize * k] = x;
    }
    tile
}

/// Bit for bit what the hardware gave, and within the stated bound of the sum rounded once.
#[test]
fn hopper_sums_as_the_host_says() {
    let (mut cases_seen, mut not_nearest) = (0, 0);
    for (name, [a, b, c, d]) in cases() {
        let atom = mma(name).unwrap();
        let ([m, n, _], t) = (atom.mnk(), atom.traits());
        let a = first_row(&numbers(a, t.ty_a), m, t.ty_a);
        let b = first_row(&numbers(b, t.ty_b), n, t.ty_b);
        let mut tile_c = vec![Value::zero(t.ty_c); (m * n) as usize];
        tile_c[0] = numbers(c, t.ty_c)[0];
        let found = numbers(d, t.ty_c)[0];
        let ours = atom.multiply_on_hopper(&a, &b, &tile_c).unwrap()[0];
        assert_eq!(
            ours.encode(t.ty_c),
            found.encode(t.ty_c),
            "{name}: ours {ours}, the H200 {found}"
        );
        let exact = atom.multiply(&a, &b, &tile_c).unwrap()[0];
        let magnitude = atom.magnitudes(&a, &b, &tile_c).unwrap()[0];
        assert!(
            atom.exactness().allows(exact, found, magnitude, t.ty_c),
            "{name}: exact {exact}, the H200 {found}"
        );
        cases_seen += 1;
        not_nearest += usize::from(exact.encode(t.ty_c) != found.encode(t.ty_c));
    }
    assert!(
        not_nearest > 50,
        "the cases tell the two sums apart: {not_nearest}"
    );
    println!("law mma.hopper: {cases_seen} cases");
}
