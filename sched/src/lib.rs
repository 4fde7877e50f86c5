//! Threadblock swizzles, tile schedulers and software pipelines as plain functions.
