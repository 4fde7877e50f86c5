//! The calls into cuBLASLt, in its own terms: matrices are columns. `colex-proof` says products of the library in them.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;

use crate::buffer::Buffer;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};
use colex_ir::launch::DeviceMemory;

/// Bytes of scratch memory an algorithm may ask for.
const WORKSPACE: usize = 64 << 20;

/// One matrix as cuBLASLt sees it.
#[derive(Clone, Copy, Debug)]
pub struct LtMatrix {
    /// The type of its elements.
    pub ty: sys::cudaDataType,
    /// Bytes of one element.
    pub element_bytes: u64,
    /// Elements of a column.
    pub rows: u64,
    /// The columns.
    pub columns: u64,
    /// Elements from the beginning of one column to that of the next.
    pub leading: i64,
    /// Whether the product takes its transpose.
    pub transposed: bool,
}

impl LtMatrix {
    /// Returns the bytes from its first element to its last.
    fn bytes(&self) -> u64 {
        if self.rows == 0 || self.columns == 0 {
            0
        } else {
            let last = (self.columns - 1) * self.leading.unsigned_abs() + self.rows;
            last * self.element_bytes
        }
    }
}

/// A product as cuBLASLt takes it: `sum = alpha first second + beta sum`.
#[derive(Clone, Copy, Debug)]
pub struct LtProduct {
    /// The first factor.
    pub first: LtMatrix,
    /// The second factor.
    pub second: LtMatrix,
    /// What is written, and read where `beta` is not 0.
    pub sum: LtMatrix,
    /// What products are computed in.
    pub compute: sys::cublasComputeType_t,
    /// The type of alpha and beta.
    pub scale: sys::cudaDataType,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of what the sum held.
    pub beta: f64,
}

/// One product as cuBLASLt's own choices compute it.
pub struct CublasLt {
    device: Device,
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    choices: Vec<sys::cublasLtMatmulHeuristicResult_t>,
    workspace: Buffer<u8>,
    /// The bytes that each matrix spans.
    bytes: [u64; 3],
    factors: [Factor; 2],
}

/// Alpha or beta in the type of the sums.
#[derive(Clone, Copy)]
enum Factor {
    F32(f32),
    F64(f64),
    S32(i32),
}

impl Factor {
    fn of(scale: sys::cudaDataType, value: f64) -> Factor {
        match scale {
            sys::cudaDataType::CUDA_R_64F => Factor::F64(value),
            sys::cudaDataType::CUDA_R_32I => Factor::S32(value as i32),
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

fn refused(call: &'static str) -> impl Fn(CublasError) -> Error {
    move |CublasError(status)| {
        ErrorKind::Driver {
            call,
            code: status as u32,
            name: format!("{status:?}"),
            text: "cuBLASLt said no more".to_string(),
        }
        .into()
    }
}

impl CublasLt {
    /// Asks for at most `count` algorithms for a product, its own first choice first.
    ///
    /// # Errors
    ///
    /// Fails on the simulator or without the library, and with the library's status.
    pub fn new(device: &Device, product: &LtProduct, count: usize) -> Result<CublasLt, Error> {
        let lacks = |why| -> Error {
            ErrorKind::Unsupported {
                what: "run cuBLASLt",
                device: device.name(),
                why,
            }
            .into()
        };
        if device.cuda().is_none() {
            return Err(lacks("there is none on the host"));
        }
        // SAFETY: looks for a library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(lacks("libcublasLt is not where libraries are looked for"));
        }
        bind(device)?;
        let matrices = [product.first, product.second, product.sum];
        let layout = |matrix: LtMatrix| {
            result::create_matrix_layout(matrix.ty, matrix.rows, matrix.columns, matrix.leading)
                .map_err(refused("cublasLtMatrixLayoutCreate"))
        };
        let [first, second, sum] = matrices.map(layout);
        let mut new = CublasLt {
            device: device.clone(),
            handle: result::create_handle().map_err(refused("cublasLtCreate"))?,
            product: result::create_matmul_desc(product.compute, product.scale)
                .map_err(refused("cublasLtMatmulDescCreate"))?,
            layouts: [first?, second?, sum?],
            choices: Vec::new(),
            workspace: device.uninitialised(WORKSPACE)?,
            bytes: matrices.map(|matrix| matrix.bytes()),
            factors: [product.alpha, product.beta].map(|value| Factor::of(product.scale, value)),
        };
        new.transpose([product.first.transposed, product.second.transposed])?;
        new.ask(count)?;
        Ok(new)
    }

    /// Says of both factors whether they are transposed.
    fn transpose(&mut self, operations: [bool; 2]) -> Result<(), Error> {
        let attributes = [
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB,
        ];
        for (attribute, operation) in attributes.into_iter().zip(operations) {
            // `CUBLAS_OP_N` is 0 and `CUBLAS_OP_T` 1.
            let operation = i32::from(operation);
            let value = std::ptr::from_ref(&operation).cast();
            // SAFETY: the descriptor lives, and the value has the attribute's type.
            unsafe {
                result::set_matmul_desc_attribute(
                    self.product,
                    attribute,
                    value,
                    size_of_val(&operation),
                )
            }
            .map_err(refused("cublasLtMatmulDescSetAttribute"))?;
        }
        Ok(())
    }

    fn ask(&mut self, count: usize) -> Result<(), Error> {
        let preference =
            result::create_matmul_pref().map_err(refused("cublasLtMatmulPreferenceCreate"))?;
        let most = WORKSPACE;
        let attribute =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let [first, second, c] = self.layouts;
        let (mut found, mut choices) = (0, Vec::with_capacity(count));
        // SAFETY: all descriptors live; the library stores at most `count` results, for which there is room, and says
        // how many; what it stored is plain data.
        let asked = unsafe {
            let set = result::set_matmul_pref_attribute(
                preference,
                attribute,
                std::ptr::from_ref(&most).cast(),
                size_of_val(&most),
            );
            let asked = set.and_then(|()| {
                sys::cublasLtMatmulAlgoGetHeuristic(
                    self.handle,
                    self.product,
                    first,
                    second,
                    c,
                    c,
                    preference,
                    count as i32,
                    choices.as_mut_ptr(),
                    &mut found,
                )
                .result()
            });
            let destroyed = result::destroy_matmul_pref(preference);
            choices.set_len(found as usize);
            asked.and(destroyed)
        };
        self.choices = choices;
        asked.map_err(refused("cublasLtMatmulAlgoGetHeuristic"))
    }

    /// Returns how many algorithms it answered with.
    pub fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Gives the product by one of its algorithms, 0 its own choice, to a stream of its device.
    ///
    /// # Errors
    ///
    /// Fails for memory or functions of another device, and for memory that is shorter than its matrix, and with the
    /// library's status.
    pub fn run(
        &self,
        device: &Device,
        choice: usize,
        factors: [&dyn DeviceMemory; 2],
        sum: &dyn DeviceMemory,
    ) -> Result<(), Error> {
        let Some((_, stream)) = device
            .cuda()
            .filter(|_| device.is_same_device(&self.device))
        else {
            return Err(ErrorKind::OtherDevice {
                what: "the product",
                device: device.name(),
                holder: self.device.name(),
            }
            .into());
        };
        let memories = [factors[0], factors[1], sum];
        for (memory, bytes) in memories.into_iter().zip(self.bytes) {
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
        }
        let algorithm = self.choices.get(choice).ok_or(ErrorKind::Length {
            what: "the list of algorithms",
            expected: self.choices.len(),
            found: choice,
        })?;
        bind(device)?;
        let [first, second, third] = self.layouts;
        let [x, y, c] = memories.map(|memory| memory.address());
        let [alpha, beta] = &self.factors;
        let pointer = |address: u64| address as *const c_void;
        // SAFETY: all descriptors live, the memory is on this device and as long as the matrices, and the factors have
        // the type of the sums.
        unsafe {
            result::matmul(
                self.handle,
                self.product,
                alpha.pointer(),
                beta.pointer(),
                pointer(x),
                first,
                pointer(y),
                second,
                pointer(c),
                third,
                c as *mut c_void,
                third,
                &algorithm.algo,
                self.workspace.address() as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(refused("cublasLtMatmul"))
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: each has one owner, which is being dropped.
        unsafe {
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_desc(self.product);
            let _ = result::destroy_handle(self.handle);
        }
    }
}
