//! The simulator against references, and every fault by its sentence.

mod arithmetic;
mod control;
mod helpers;
mod mma;
