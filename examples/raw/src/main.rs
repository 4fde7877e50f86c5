//! A program without `cudarc`: it opens the driver itself, and gives Colex its context, its stream and its pointers.

use std::error::Error;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use colex_gpu::cuda::RawStream;
use colex_gpu::{Device, View, ViewMut, gemm};
use colex_layout::Layout;
use libloading::{Library, Symbol};

/// The driver, as this program knows it.
struct Driver(Library);

impl Driver {
    /// Calls a function that takes its arguments by `call`, and turns its code into an error.
    ///
    /// # Safety
    ///
    /// `F` is the function's type.
    unsafe fn call<F>(
        &self,
        name: &str,
        call: impl FnOnce(Symbol<'_, F>) -> c_int,
    ) -> Result<(), Box<dyn Error>> {
        // SAFETY: as the caller promises.
        let function = unsafe { self.0.get::<F>(name.as_bytes())? };
        match call(function) {
            0 => Ok(()),
            code => Err(format!("{name} returned {code}").into()),
        }
    }
}

type Get = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type Make = unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_int;
type Use = unsafe extern "C" fn(*mut c_void) -> c_int;
type Init = unsafe extern "C" fn(c_uint) -> c_int;
type Allocate = unsafe extern "C" fn(*mut u64, usize) -> c_int;
type ToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;
type ToHost = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(why) = Device::gpu(0) {
        println!("no product: {why}");
        return Ok(());
    }
    let name = if cfg!(windows) {
        "nvcuda.dll"
    } else {
        "libcuda.so.1"
    };
    // SAFETY: the driver's initialisers run, as in every program that uses CUDA.
    let driver = Driver(unsafe { Library::new(name)? });
    let (mut context, mut stream) = (null_mut(), null_mut());
    let (m, n, k) = (48usize, 40, 32);
    let number = |i: usize| ((i * 7) % 13) as f32 - 6.0;
    let a: Vec<f32> = (0..m * k).map(number).collect();
    let b: Vec<f32> = (0..k * n).map(number).collect();
    let mut c = vec![0f32; m * n];
    let mut pointers = [0u64; 3];
    // SAFETY: the types are those of `cuda.h`. The context is current from its retain on, every pointer has the bytes
    // that are copied, and a copy in the legacy default stream waits for itself.
    unsafe {
        driver.call::<Init>("cuInit", |f| f(0))?;
        driver.call::<Get>("cuDevicePrimaryCtxRetain", |f| f(&mut context, 0))?;
        driver.call::<Use>("cuCtxSetCurrent", |f| f(context))?;
        driver.call::<Make>("cuStreamCreate", |f| f(&mut stream, 0))?;
        for (pointer, elements) in pointers.iter_mut().zip([m * k, k * n, m * n]) {
            driver.call::<Allocate>("cuMemAlloc_v2", |f| f(pointer, 4 * elements))?;
        }
        driver.call::<ToDevice>("cuMemcpyHtoD_v2", |f| {
            f(pointers[0], a.as_ptr().cast(), 4 * m * k)
        })?;
        driver.call::<ToDevice>("cuMemcpyHtoD_v2", |f| {
            f(pointers[1], b.as_ptr().cast(), 4 * k * n)
        })?;
    }

    // SAFETY: context and stream live until the end of the program.
    let device = unsafe { Device::from_raw(RawStream { context, stream })? };
    {
        // SAFETY: each pointer has as many elements as are named, and nothing else uses them meanwhile.
        let (a, b, mut c) = unsafe {
            (
                device.borrow_raw::<f32>(pointers[0], m * k)?,
                device.borrow_raw::<f32>(pointers[1], k * n)?,
                device.borrow_raw_mut::<f32>(pointers[2], m * n)?,
            )
        };
        let [m, n, k] = [m, n, k].map(|extent| extent as i64);
        // A (M,K) is stored column after column, and B (N,K) row after row of its transpose.
        let a = View::new(&a, Layout::new((m, k), (1, m))?)?;
        let b = View::new(&b, Layout::new((n, k), (1, n))?)?;
        gemm(&a, &b, &ViewMut::new(&mut c, Layout::new((m, n), (n, 1))?)?)?;
    }
    device.synchronize()?;
    // SAFETY: the context is current, and both have the bytes that are copied.
    unsafe {
        driver.call::<Use>("cuCtxSetCurrent", |f| f(context))?;
        driver.call::<ToHost>("cuMemcpyDtoH_v2", |f| {
            f(c.as_mut_ptr().cast(), pointers[2], 4 * m * n)
        })?;
    }
    for i in 0..m {
        for j in 0..n {
            let sum: f32 = (0..k).map(|l| a[i + m * l] * b[j + n * l]).sum();
            assert_eq!(c[i * n + j], sum, "C({i},{j})");
        }
    }
    println!(
        "{m}x{n}x{k} on {} in a stream of the program's own: right",
        device.name()
    );
    Ok(())
}
