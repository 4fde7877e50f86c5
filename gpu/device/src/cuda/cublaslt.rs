//! The calls into cuBLASLt, in its own terms: matrices are column-major. `colex-proof` expresses products of the
//! library in them.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock};

use libloading::Library;

use super::api::Handle;
use super::gpu::locked;
use super::library;
use crate::buffer::Buffer;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};
use crate::stream_key::StreamKey;
use colex_ir::launch::DeviceMemory;

/// The type of a matrix: `cudaDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum LtType {
    /// `CUDA_R_32F`.
    F32 = 0,
    /// `CUDA_R_64F`.
    F64 = 1,
    /// `CUDA_R_16F`.
    F16 = 2,
    /// `CUDA_R_8I`.
    S8 = 3,
    /// `CUDA_R_32I`.
    S32 = 10,
    /// `CUDA_R_16BF`.
    Bf16 = 14,
}

impl LtType {
    /// Returns the bytes of one element.
    fn bytes(self) -> u64 {
        match self {
            LtType::S8 => 1,
            LtType::F16 | LtType::Bf16 => 2,
            LtType::F32 | LtType::S32 => 4,
            LtType::F64 => 8,
        }
    }
}

/// The type of the accumulators: `cublasComputeType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum LtCompute {
    /// `CUBLAS_COMPUTE_32F`.
    F32 = 68,
    /// `CUBLAS_COMPUTE_64F`.
    F64 = 70,
    /// `CUBLAS_COMPUTE_32I`.
    S32 = 72,
    /// `CUBLAS_COMPUTE_32F_FAST_TF32`.
    Tf32 = 77,
}

/// The return type of the functions of cuBLASLt: `cublasStatus_t`.
type Status = c_int;

/// `cublasLtMatmulHeuristicResult_t`: an algorithm, with the library's estimate of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! table {
    ($($name:ident: $symbol:literal ($($argument:ty),* $(,)?);)*) => {
        /// The addresses of cuBLASLt's functions.
        struct LtApi {
            $($name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl LtApi {
            /// Looks all of them up.
            ///
            /// # Errors
            ///
            /// The first name that the library does not have.
            fn load(library: &Library) -> Result<LtApi, &'static str> {
                // SAFETY: the types are those of `cublasLt.h` for these symbols. The library is never closed.
                unsafe {
                    Ok(LtApi {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                    })
                }
            }
        }
    };
}

table! {
    create: "cublasLtCreate"(*mut Handle);
    destroy: "cublasLtDestroy"(Handle);
    product_create: "cublasLtMatmulDescCreate"(*mut Handle, LtCompute, LtType);
    product_destroy: "cublasLtMatmulDescDestroy"(Handle);
    product_set: "cublasLtMatmulDescSetAttribute"(Handle, c_int, *const c_void, usize);
    layout_create: "cublasLtMatrixLayoutCreate"(*mut Handle, LtType, u64, u64, i64);
    layout_destroy: "cublasLtMatrixLayoutDestroy"(Handle);
    preference_create: "cublasLtMatmulPreferenceCreate"(*mut Handle);
    preference_destroy: "cublasLtMatmulPreferenceDestroy"(Handle);
    preference_set: "cublasLtMatmulPreferenceSetAttribute"(Handle, c_int, *const c_void, usize);
    heuristics: "cublasLtMatmulAlgoGetHeuristic"(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int,
    );
    matmul: "cublasLtMatmul"(
        Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void, *const c_void,
        Handle, *mut c_void, Handle, *const [u64; 8], *mut c_void, usize, *mut c_void,
    );
}

/// `CUBLASLT_MATMUL_DESC_TRANSA` and `CUBLASLT_MATMUL_DESC_TRANSB`.
const TRANSPOSE: [c_int; 2] = [3, 4];

/// `CUBLASLT_MATMUL_DESC_EPILOGUE` and `CUBLASLT_MATMUL_DESC_BIAS_POINTER`.
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;

/// `CUBLASLT_EPILOGUE_BIAS` and `CUBLASLT_EPILOGUE_GELU_BIAS`.
const BIAS: c_int = 4;
const GELU_BIAS: c_int = 36;

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MAX_WORKSPACE: c_int = 1;

/// Returns the library's functions, which are looked up once per process.
///
/// # Errors
///
/// Why there are none.
fn api() -> Result<&'static LtApi, &'static str> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    static API: OnceLock<Result<LtApi, &'static str>> = OnceLock::new();
    // SAFETY: the library's initialisers run, as in every program that uses it.
    let library = LIBRARY.get_or_init(|| unsafe { library::open(library::CUBLASLT) });
    let load = || {
        let library = library.as_ref();
        let library = library.ok_or("libcublasLt is not where libraries are looked for")?;
        LtApi::load(library).map_err(|_| "its libcublasLt lacks a function that is needed")
    };
    API.get_or_init(load).as_ref().map_err(|why| *why)
}

/// The most algorithms that the library is asked for. It has fewer.
const MOST_CHOICES: usize = 1 << 12;

/// The scratch memory that an algorithm may ask for, in bytes.
const WORKSPACE: usize = 64 << 20;

/// One matrix as cuBLASLt sees it.
#[derive(Clone, Copy, Debug)]
pub struct LtMatrix {
    /// The type of its elements.
    pub ty: LtType,
    /// The number of rows.
    pub rows: u64,
    /// The number of columns.
    pub columns: u64,
    /// The leading dimension: the stride between columns, in elements. It is at least `rows`.
    pub leading: i64,
    /// Whether the product takes its transpose.
    pub transposed: bool,
}

impl LtMatrix {
    /// Returns the bytes from its first element to its last.
    ///
    /// # Errors
    ///
    /// Returns an error if columns begin less than a column apart, and if the last element has no address.
    fn bytes(&self) -> Result<u64, Error> {
        let leading = u64::try_from(self.leading).ok();
        let leading = leading.filter(|leading| *leading >= self.rows);
        let bytes = leading.and_then(|leading| match (self.rows, self.columns) {
            (0, _) | (_, 0) => Some(0),
            (rows, columns) => (columns - 1)
                .checked_mul(leading)?
                .checked_add(rows)?
                .checked_mul(self.ty.bytes()),
        });
        let refused = || ErrorKind::LtMatrix {
            rows: self.rows,
            columns: self.columns,
            leading: self.leading,
        };
        Ok(bytes.ok_or_else(refused)?)
    }
}

/// A product as cuBLASLt takes it: `sum = alpha first second + beta sum`.
#[derive(Clone, Copy, Debug)]
pub struct LtProduct {
    /// The first factor.
    pub first: LtMatrix,
    /// The second factor.
    pub second: LtMatrix,
    /// The result, which is read if `beta` is not 0.
    pub sum: LtMatrix,
    /// The type of the accumulators.
    pub compute: LtCompute,
    /// The type of alpha and beta.
    pub scale: LtType,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of the old result.
    pub beta: f64,
}

/// What cuBLASLt adds to a product before it stores it: a number for each row of the result.
pub struct LtBias {
    /// The numbers, of the result's type.
    pub numbers: Box<dyn DeviceMemory + Send + Sync>,
    /// Whether GELU, in its tanh form, is applied to the sum.
    pub gelu: bool,
}

/// The streams whose workspaces a product keeps.
const STREAMS: usize = 8;

/// One product with the algorithms that cuBLASLt chose for it.
///
/// Runs on two streams may be under way at once: each stream has a workspace of its own. Graphs that captured runs of one product share
/// one workspace, so that they run one after the other.
pub struct CublasLt {
    device: Device,
    layouts: [Descriptor; 3],
    product: Descriptor,
    handle: Descriptor,
    choices: Vec<Heuristic>,
    /// For runs that are captured: memory cannot be allocated then.
    captured: Option<Buffer<u8>>,
    /// For the other runs: the work of a stream runs in order. That which was used last is at the end.
    workspaces: Mutex<Vec<(StreamKey, Buffer<u8>)>>,
    /// The bytes that each matrix spans.
    bytes: [u64; 3],
    factors: [Factor; 2],
    /// Kept for as long as the product, whose descriptor has its address.
    _bias: Option<LtBias>,
}

/// An object of the library, destroyed when this is dropped.
struct Descriptor {
    handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> Status,
}

// SAFETY: the library's handles and descriptors may be used from any thread.
unsafe impl Send for Descriptor {}
// SAFETY: as above; a shared reference only reads them.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Makes one by a function that stores its handle.
    fn new(
        call: &'static str,
        destroy: unsafe extern "C" fn(Handle) -> Status,
        make: impl FnOnce(*mut Handle) -> Status,
    ) -> Result<Descriptor, Error> {
        let mut handle = std::ptr::null_mut();
        checked(call, make(&mut handle))?;
        Ok(Descriptor { handle, destroy })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by the library, with one owner, which is being dropped.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// Alpha or beta in the type of the sums.
#[derive(Clone, Copy)]
enum Factor {
    F32(f32),
    F64(f64),
    S32(i32),
}

impl Factor {
    fn of(scale: LtType, value: f64) -> Factor {
        match scale {
            LtType::F64 => Factor::F64(value),
            LtType::S32 => Factor::S32(value as i32),
            _ => Factor::F32(value as f32),
        }
    }

    fn pointer(&self) -> *const c_void {
        match self {
            Factor::F32(x) => std::ptr::from_ref(x).cast(),
            Factor::F64(x) => std::ptr::from_ref(x).cast(),
            Factor::S32(x) => std::ptr::from_ref(x).cast(),
        }
    }
}

/// Makes the device's context current on this thread.
fn bind(device: &Device) -> Result<(), Error> {
    match &device.0 {
        Kind::Gpu(gpu) => gpu.bind(),
        Kind::Simulator(_) => Ok(()),
    }
}

/// Checks that memory lies on a device and has at least a number of bytes.
fn check_memory(device: &Device, memory: &dyn DeviceMemory, bytes: u64) -> Result<(), Error> {
    if memory.device_id() != device.id() {
        return Err(ErrorKind::OtherDevice {
            what: "the matrix",
            device: device.name(),
            holder: memory.device_name(),
        }
        .into());
    }
    if memory.byte_count() < bytes {
        return Err(ErrorKind::Length {
            what: "the bytes of the matrix",
            expected: bytes as usize,
            found: memory.byte_count() as usize,
        }
        .into());
    }
    Ok(())
}

/// A status as a result.
fn checked(call: &'static str, status: Status) -> Result<(), Error> {
    let name = match status {
        0 => return Ok(()),
        1 => "CUBLAS_STATUS_NOT_INITIALIZED",
        3 => "CUBLAS_STATUS_ALLOC_FAILED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        11 => "CUBLAS_STATUS_MAPPING_ERROR",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        16 => "CUBLAS_STATUS_LICENSE_ERROR",
        _ => "a status without a name",
    };
    Err(ErrorKind::Driver {
        call,
        code: status.unsigned_abs(),
        name: name.to_string(),
        text: "cuBLASLt said no more".to_string(),
    }
    .into())
}

impl CublasLt {
    /// Returns a product with at most `count` algorithms, the library's first choice first.
    ///
    /// # Errors
    ///
    /// Returns an error on the simulator, without the library, for a matrix whose columns begin less than a column apart or whose last
    /// element has no address, and if the library reports one.
    pub fn new(device: &Device, product: &LtProduct, count: usize) -> Result<CublasLt, Error> {
        CublasLt::with_bias(device, product, None, count)
    }

    /// Returns a product with a bias, if there is one, as [`new`](CublasLt::new) returns one without.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](CublasLt::new), and an error if the bias is on another device or has fewer numbers than
    /// the result has rows.
    pub fn with_bias(
        device: &Device,
        product: &LtProduct,
        bias: Option<LtBias>,
        count: usize,
    ) -> Result<CublasLt, Error> {
        let matrices = [product.first, product.second, product.sum];
        let [first, second, third] = matrices.map(|matrix| matrix.bytes());
        let bytes = [first?, second?, third?];
        let lacks = |why| -> Error {
            ErrorKind::Unsupported {
                what: "run cuBLASLt",
                device: device.name(),
                why,
            }
            .into()
        };
        if device.is_simulator() {
            return Err(lacks("there is none on the host"));
        }
        let api = api().map_err(lacks)?;
        bind(device)?;
        let layout = |matrix: LtMatrix| {
            Descriptor::new("cublasLtMatrixLayoutCreate", api.layout_destroy, |made| {
                let LtMatrix {
                    ty,
                    rows,
                    columns,
                    leading,
                    ..
                } = matrix;
                // SAFETY: stores one handle.
                unsafe { (api.layout_create)(made, ty, rows, columns, leading) }
            })
        };
        let [first, second, sum] = matrices.map(layout);
        let mut new = CublasLt {
            device: device.clone(),
            handle: Descriptor::new("cublasLtCreate", api.destroy, |made| {
                // SAFETY: stores one handle.
                unsafe { (api.create)(made) }
            })?,
            product: Descriptor::new("cublasLtMatmulDescCreate", api.product_destroy, |made| {
                // SAFETY: stores one handle.
                unsafe { (api.product_create)(made, product.compute, product.scale) }
            })?,
            layouts: [first?, second?, sum?],
            choices: Vec::new(),
            captured: None,
            workspaces: Mutex::default(),
            bytes,
            factors: [product.alpha, product.beta].map(|value| Factor::of(product.scale, value)),
            _bias: None,
        };
        let transposed = [product.first.transposed, product.second.transposed];
        // `CUBLAS_OP_N` is 0 and `CUBLAS_OP_T` 1.
        let operations = TRANSPOSE.into_iter().zip(transposed.map(c_int::from));
        let epilogue = bias
            .iter()
            .map(|bias| (EPILOGUE, if bias.gelu { GELU_BIAS } else { BIAS }));
        for (attribute, number) in operations.chain(epilogue) {
            let value = std::ptr::from_ref(&number).cast();
            // SAFETY: the descriptor lives, and the value has the attribute's type.
            let status = unsafe {
                (api.product_set)(new.product.handle, attribute, value, size_of_val(&number))
            };
            checked("cublasLtMatmulDescSetAttribute", status)?;
        }
        if let Some(bias) = &bias {
            let numbers = LtMatrix {
                columns: 1,
                ..product.sum
            };
            check_memory(device, &*bias.numbers, numbers.bytes()?)?;
            let address = bias.numbers.address();
            let value = std::ptr::from_ref(&address).cast();
            // SAFETY: the descriptor lives, the value has the attribute's type, and the memory is kept beside the descriptor.
            let status = unsafe {
                (api.product_set)(
                    new.product.handle,
                    BIAS_POINTER,
                    value,
                    size_of_val(&address),
                )
            };
            checked("cublasLtMatmulDescSetAttribute", status)?;
        }
        new._bias = bias;
        new.choices = new.ask(api, count)?;
        new.captured = Some(device.uninitialised(new.workspace_bytes())?);
        Ok(new)
    }

    /// The bytes that its algorithms need besides the matrices.
    fn workspace_bytes(&self) -> usize {
        let each = self.choices.iter().map(|choice| choice.workspace);
        each.max().unwrap_or(0)
    }

    /// Takes the workspace for a run on the stream of a device. [`keep`](CublasLt::keep) returns it.
    fn take(&self, device: &Device) -> Result<Buffer<u8>, Error> {
        if device.is_capturing()?
            && let Some(captured) = &self.captured
        {
            return Ok(captured.clone());
        }
        let stream = device.stream_key();
        let mut kept = locked(&self.workspaces);
        let at = kept.iter().position(|(of, _)| Some(*of) == stream);
        let found = at.map(|at| kept.remove(at).1);
        drop(kept);
        found.map_or_else(|| device.uninitialised(self.workspace_bytes()), Ok)
    }

    /// Keeps a workspace for later runs on the stream of a device, after a run was enqueued there. Without a key of the stream it is freed,
    /// which waits for the run.
    fn keep(&self, device: &Device, workspace: Buffer<u8>) {
        let captured = self.captured.as_ref().map(Buffer::address);
        let Some(stream) = device.stream_key() else {
            return;
        };
        if captured == Some(workspace.address()) {
            return;
        }
        let mut kept = locked(&self.workspaces);
        kept.push((stream, workspace));
        if kept.len() > STREAMS {
            let freed = kept.remove(0);
            // The memory is freed after the lock, since that waits for the device.
            drop(kept);
            drop(freed);
        }
    }

    /// Asks for at most `count` algorithms.
    fn ask(&self, api: &LtApi, count: usize) -> Result<Vec<Heuristic>, Error> {
        let call = "cublasLtMatmulPreferenceCreate";
        let preference = Descriptor::new(call, api.preference_destroy, |made| {
            // SAFETY: stores one handle.
            unsafe { (api.preference_create)(made) }
        })?;
        let most = WORKSPACE;
        let value = std::ptr::from_ref(&most).cast();
        // SAFETY: the preference lives, and the value has the attribute's type.
        let status = unsafe {
            (api.preference_set)(preference.handle, MAX_WORKSPACE, value, size_of_val(&most))
        };
        checked("cublasLtMatmulPreferenceSetAttribute", status)?;
        let [first, second, c] = self.layouts.each_ref().map(|layout| layout.handle);
        let count = count.min(MOST_CHOICES);
        let (mut found, mut choices) = (0, Vec::with_capacity(count));
        // SAFETY: all descriptors live; the library stores at most `count` results, for which there is room, and says
        // how many; what it stored is plain data.
        let status = unsafe {
            let status = (api.heuristics)(
                self.handle.handle,
                self.product.handle,
                first,
                second,
                c,
                c,
                preference.handle,
                c_int::try_from(count).unwrap_or(c_int::MAX),
                choices.as_mut_ptr(),
                &mut found,
            );
            choices.set_len(usize::try_from(found).map_or(0, |found| found.min(count)));
            status
        };
        checked("cublasLtMatmulAlgoGetHeuristic", status)?;
        Ok(choices)
    }

    /// Returns the number of algorithms that the library found.
    pub fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Enqueues the product on a stream of its device, with one of the algorithms; 0 is the library's first choice.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is on another device or shorter than its matrix, and if the library reports one.
    pub fn run(
        &self,
        device: &Device,
        choice: usize,
        factors: [&dyn DeviceMemory; 2],
        sum: &dyn DeviceMemory,
    ) -> Result<(), Error> {
        let gpu = match &device.0 {
            Kind::Gpu(gpu) if device.is_same_device(&self.device) => gpu,
            Kind::Gpu(_) | Kind::Simulator(_) => {
                return Err(ErrorKind::OtherDevice {
                    what: "the product",
                    device: device.name(),
                    holder: self.device.name(),
                }
                .into());
            }
        };
        let memories = [factors[0], factors[1], sum];
        for (memory, bytes) in memories.into_iter().zip(self.bytes) {
            check_memory(device, memory, bytes)?;
        }
        let algorithm = self.choices.get(choice).ok_or(ErrorKind::Length {
            what: "the list of algorithms",
            expected: self.choices.len(),
            found: choice,
        })?;
        let api = api().expect("the library made this product");
        let workspace = self.take(device)?;
        gpu.bind()?;
        let [first, second, third] = self.layouts.each_ref().map(|layout| layout.handle);
        let [x, y, c] = memories.map(|memory| memory.address());
        let [alpha, beta] = &self.factors;
        let pointer = |address: u64| address as *const c_void;
        // SAFETY: all descriptors live, the memory is on this device and as long as the matrices, and the factors have
        // the type of the sums.
        let status = unsafe {
            (api.matmul)(
                self.handle.handle,
                self.product.handle,
                alpha.pointer(),
                pointer(x),
                first,
                pointer(y),
                second,
                beta.pointer(),
                pointer(c),
                third,
                c as *mut c_void,
                third,
                &algorithm.algorithm,
                workspace.address() as *mut c_void,
                algorithm.workspace,
                gpu.stream.handle(),
            )
        };
        self.keep(device, workspace);
        checked("cublasLtMatmul", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All small matrices against the greatest offset of an element, and extents that no memory has.
    #[test]
    fn law_a_matrix_has_the_bytes_to_its_last_element() {
        let extremes = [0, 1, 2, 3, 4, 1 << 32, i64::MAX as u64, u64::MAX];
        let strides = [i64::MIN, -4, -1, 0, 1, 2, 3, 4, 1 << 32, i64::MAX];
        let mut cases = 0;
        for (rows, columns) in extremes
            .iter()
            .flat_map(|m| extremes.iter().map(move |n| (*m, *n)))
        {
            for leading in strides {
                for ty in [LtType::S8, LtType::Bf16, LtType::F32, LtType::F64] {
                    let matrix = LtMatrix {
                        ty,
                        rows,
                        columns,
                        leading,
                        transposed: false,
                    };
                    let last = (i128::from(columns) - 1) * i128::from(leading) + i128::from(rows);
                    let last = last.checked_mul(i128::from(ty.bytes()));
                    let is_right = i128::from(leading) >= i128::from(rows);
                    let expected = if rows == 0 || columns == 0 {
                        Some(0)
                    } else {
                        last.and_then(|last| u64::try_from(last).ok())
                    };
                    assert_eq!(
                        matrix.bytes().ok(),
                        expected.filter(|_| is_right),
                        "{matrix:?}"
                    );
                    cases += 1;
                }
            }
        }
        let matrix = LtMatrix {
            ty: LtType::F32,
            rows: 4,
            columns: 2,
            leading: -4,
            transposed: false,
        };
        assert_eq!(
            matrix.bytes().unwrap_err().to_string(),
            "a matrix of 4 by 2 elements with the leading dimension -4 is none of cuBLASLt: columns begin at least a column apart, and the \
             last element has an address"
        );
        println!("law a_matrix_has_the_bytes_to_its_last_element: {cases} cases");
    }
}
