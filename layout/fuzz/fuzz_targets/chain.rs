//! See `layout/tests/laws/chain.rs`.
#![no_main]

#[allow(dead_code, reason = "each target runs one of the bodies")]
#[path = "../../tests/laws/bytes.rs"]
mod bytes;
#[allow(dead_code, reason = "each target runs one of the bodies")]
#[path = "../../tests/laws/chain.rs"]
mod chain;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    chain::chain(bytes);
});
