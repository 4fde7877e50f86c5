//! Kernels that memory limits, against a copy of as many bytes and beside PyTorch.

pub(super) mod maps;
pub(super) mod reduce;
pub(super) mod rows;
