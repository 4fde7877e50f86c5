//! The Colex book: every code block of every chapter is a test of this crate.
