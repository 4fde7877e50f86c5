//! Shared libraries, looked for at run time: nothing of CUDA is needed to build, or to start.

use libloading::Library;

/// The names of the driver's library, those of the run-time package before those of the toolkit's stub.
pub(in crate::cuda) const DRIVER: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &[
        "libcuda.so.1",
        "libcuda.so",
        "/usr/lib/wsl/lib/libcuda.so.1",
    ]
};

/// The names of cuBLASLt's library, newest first.
pub(in crate::cuda) const CUBLASLT: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
};

/// The names of NCCL's library.
#[cfg(feature = "nccl")]
pub(in crate::cuda) const NCCL: &[&str] = &["libnccl.so.2", "libnccl.so"];

/// Opens the first of the libraries that the system finds.
///
/// # Safety
///
/// The libraries' initialisers run.
pub(in crate::cuda) unsafe fn open(names: &[&str]) -> Option<Library> {
    // SAFETY: as the caller promises.
    names
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok())
}
