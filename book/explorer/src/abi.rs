//! What the module exports to the page: a place for the request, the answer, and where the answer lies.
//!
//! ```text
//! at = explorer_request(bytes)   the page writes the request there, in UTF-8
//! bytes = explorer_answer()      computes
//! at = explorer_output()         the page reads the answer there
//! ```
//!
//! The buffers are vectors of this crate, so that no pointer is ever read here.
#![allow(
    unsafe_code,
    reason = "the attribute that gives an export its name is an unsafe one; there is no unsafe block"
)]

use std::cell::RefCell;

use crate::answer;

thread_local! {
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns where a request of `bytes` bytes goes, or 0 if there is no memory for it.
#[unsafe(no_mangle)]
extern "C" fn explorer_request(bytes: usize) -> *mut u8 {
    REQUEST.with_borrow_mut(|request| {
        request.clear();
        if request.try_reserve_exact(bytes).is_err() {
            return std::ptr::null_mut();
        }
        request.resize(bytes, 0);
        request.as_mut_ptr()
    })
}

/// Answers the request and frees it; returns the bytes of the answer.
#[unsafe(no_mangle)]
extern "C" fn explorer_answer() -> usize {
    let request = REQUEST.take();
    let text = match std::str::from_utf8(&request) {
        Ok(request) => answer::answer(request),
        Err(error) => answer::refused(&format!("the request is no UTF-8: {error}")),
    };
    OUTPUT.set(text.into_bytes());
    OUTPUT.with_borrow(Vec::len)
}

/// Returns where the answer lies, until the next request is answered.
#[unsafe(no_mangle)]
extern "C" fn explorer_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_no_text_gets_a_sentence() {
        REQUEST.set(vec![0xff, 0xfe]);
        let bytes = explorer_answer();
        let text = OUTPUT.with_borrow(|output| String::from_utf8(output.clone()));
        let text = text.expect("an answer is a text");
        assert_eq!(text.len(), bytes);
        assert!(text.contains("the request is no UTF-8: invalid utf-8 sequence"));
        assert!(REQUEST.with_borrow(Vec::is_empty), "the request is freed");
    }

    #[test]
    fn a_request_without_memory_gets_no_place() {
        assert!(explorer_request(usize::MAX).is_null());
        assert!(!explorer_request(16).is_null() && !explorer_output().is_null());
    }
}
