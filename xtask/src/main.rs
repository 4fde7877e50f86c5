//! `cargo xtask`: verify, book, golden, bench.

fn main() {
    println!("usage: cargo xtask verify | book | golden | bench");
}
