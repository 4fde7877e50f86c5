//! Tensors, TiledCopy and TiledMma: who touches what, executed and checked on the host.
