//! The driver's functions, as far as they are used here, by their names in `cuda.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

use super::sys;

/// The return type of the driver's functions: `CUresult` as a plain number, since a newer driver may have codes that
/// the bindings do not list.
pub(in crate::cuda) type StatusCode = u32;

/// An opaque handle: a module, a function, an event, a graph.
pub(in crate::cuda) type Handle = *mut c_void;

macro_rules! table {
    (
        needed { $($name:ident: $symbol:literal ($($argument:ty),*);)* }
        optional { $($other:ident: $other_symbol:literal ($($of_other:ty),*);)* }
    ) => {
        /// The addresses of the driver's functions.
        pub(in crate::cuda) struct Api {
            $(pub(in crate::cuda) $name: unsafe extern "C" fn($($argument),*) -> StatusCode,)*
            $(pub(in crate::cuda) $other: Option<unsafe extern "C" fn($($of_other),*) -> StatusCode>,)*
        }

        impl Api {
            /// Looks all of them up in the driver's library.
            ///
            /// # Errors
            ///
            /// The first name that the library does not have and that is needed.
            pub(in crate::cuda) fn load(library: &Library) -> Result<Api, &'static str> {
                // SAFETY: the types are those of `cuda.h` for these symbols, whose suffix names the version of the
                // signature; `CUresult` is an `unsigned int`. The library is never closed.
                unsafe {
                    Ok(Api {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                        $($other: library.get(concat!($other_symbol, "\0").as_bytes()).ok().map(|found| *found),)*
                    })
                }
            }
        }
    };
}

table! {
    needed {
        init: "cuInit"(c_uint);
        get_error_name: "cuGetErrorName"(StatusCode, *mut *const c_char);
        get_error_string: "cuGetErrorString"(StatusCode, *mut *const c_char);
        device_get: "cuDeviceGet"(*mut c_int, c_int);
        device_get_count: "cuDeviceGetCount"(*mut c_int);
        device_get_name: "cuDeviceGetName"(*mut c_char, c_int, c_int);
        device_get_attribute: "cuDeviceGetAttribute"(*mut c_int, c_uint, c_int);
        device_can_access_peer: "cuDeviceCanAccessPeer"(*mut c_int, c_int, c_int);
        device_get_p2p_attribute: "cuDeviceGetP2PAttribute"(*mut c_int, c_uint, c_int, c_int);
        primary_retain: "cuDevicePrimaryCtxRetain"(*mut sys::Context, c_int);
        primary_release: "cuDevicePrimaryCtxRelease_v2"(c_int);
        ctx_get_device: "cuCtxGetDevice"(*mut c_int);
        ctx_get_id: "cuCtxGetId"(sys::Context, *mut u64);
        ctx_set_current: "cuCtxSetCurrent"(sys::Context);
        ctx_synchronize: "cuCtxSynchronize"();
        ctx_enable_peer_access: "cuCtxEnablePeerAccess"(sys::Context, c_uint);
        ctx_get_stream_priority_range: "cuCtxGetStreamPriorityRange"(*mut c_int, *mut c_int);
        mem_get_info: "cuMemGetInfo_v2"(*mut usize, *mut usize);
        mem_alloc: "cuMemAlloc_v2"(*mut u64, usize);
        mem_free: "cuMemFree_v2"(u64);
        mem_get_address_range: "cuMemGetAddressRange_v2"(*mut u64, *mut usize, u64);
        ipc_get_mem_handle: "cuIpcGetMemHandle"(*mut sys::IpcMemHandle, u64);
        ipc_open_mem_handle: "cuIpcOpenMemHandle_v2"(*mut u64, sys::IpcMemHandle, c_uint);
        ipc_close_mem_handle: "cuIpcCloseMemHandle"(u64);
        memset_d8_async: "cuMemsetD8Async"(u64, u8, usize, sys::StreamHandle);
        memcpy_htod_async: "cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, sys::StreamHandle);
        memcpy_dtoh_async: "cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, sys::StreamHandle);
        memcpy_dtod_async: "cuMemcpyDtoDAsync_v2"(u64, u64, usize, sys::StreamHandle);
        stream_create: "cuStreamCreate"(*mut sys::StreamHandle, c_uint);
        stream_create_with_priority: "cuStreamCreateWithPriority"(*mut sys::StreamHandle, c_uint, c_int);
        stream_destroy: "cuStreamDestroy_v2"(sys::StreamHandle);
        stream_get_ctx: "cuStreamGetCtx"(sys::StreamHandle, *mut sys::Context);
        stream_synchronize: "cuStreamSynchronize"(sys::StreamHandle);
        stream_query: "cuStreamQuery"(sys::StreamHandle);
        stream_write_value32: "cuStreamWriteValue32_v2"(sys::StreamHandle, u64, u32, c_uint);
        stream_wait_value32: "cuStreamWaitValue32_v2"(sys::StreamHandle, u64, u32, c_uint);
        stream_wait_event: "cuStreamWaitEvent"(sys::StreamHandle, Handle, c_uint);
        stream_is_capturing: "cuStreamIsCapturing"(sys::StreamHandle, *mut c_uint);
        stream_begin_capture: "cuStreamBeginCapture_v2"(sys::StreamHandle, c_uint);
        stream_end_capture: "cuStreamEndCapture"(sys::StreamHandle, *mut Handle);
        thread_exchange_capture_mode: "cuThreadExchangeStreamCaptureMode"(*mut c_uint);
        event_create: "cuEventCreate"(*mut Handle, c_uint);
        event_record: "cuEventRecord"(Handle, sys::StreamHandle);
        event_query: "cuEventQuery"(Handle);
        event_synchronize: "cuEventSynchronize"(Handle);
        event_elapsed_time: "cuEventElapsedTime"(*mut f32, Handle, Handle);
        event_destroy: "cuEventDestroy_v2"(Handle);
        graph_get_nodes: "cuGraphGetNodes"(Handle, *mut Handle, *mut usize);
        graph_instantiate: "cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64);
        graph_launch: "cuGraphLaunch"(Handle, sys::StreamHandle);
        graph_destroy: "cuGraphDestroy"(Handle);
        graph_exec_destroy: "cuGraphExecDestroy"(Handle);
        link_create: "cuLinkCreate_v2"(c_uint, *mut c_uint, *mut *mut c_void, *mut Handle);
        link_add_data: "cuLinkAddData_v2"(Handle, c_uint, *mut c_void, usize, *const c_char, c_uint, *mut c_uint, *mut *mut c_void);
        link_complete: "cuLinkComplete"(Handle, *mut *mut c_void, *mut usize);
        link_destroy: "cuLinkDestroy"(Handle);
        module_load_data: "cuModuleLoadDataEx"(*mut Handle, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
        module_get_function: "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
        module_unload: "cuModuleUnload"(Handle);
        func_get_attribute: "cuFuncGetAttribute"(*mut c_int, c_uint, Handle);
        func_set_attribute: "cuFuncSetAttribute"(Handle, c_uint, c_int);
        launch_kernel: "cuLaunchKernelEx"(*const sys::LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
        tensor_map_encode: "cuTensorMapEncodeTiled"(*mut [u64; 16], c_uint, c_uint, u64, *const u64, *const u64, *const u32, *const u32, c_uint, c_uint, c_uint, c_uint);
        tensor_map_encode_im2col: "cuTensorMapEncodeIm2col"(*mut [u64; 16], c_uint, c_uint, u64, *const u64, *const u64, *const c_int, *const c_int, c_uint, c_uint, *const u32, c_uint, c_uint, c_uint, c_uint);
    }
    optional {
        stream_get_id: "cuStreamGetId"(sys::StreamHandle, *mut u64);
    }
}
