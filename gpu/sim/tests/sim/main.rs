//! The simulator against references, and every fault by its sentence.

mod arithmetic;
mod bulk;
mod cluster;
mod control;
mod copy;
mod faults;
mod floats;
mod global;
mod helpers;
mod im2col;
mod mma;
mod noise;
mod order;
mod random;
mod ranks;
mod seeing;
mod tensors;
