//! The CuTe layout algebra as run-time values: sound, explained, fast.
