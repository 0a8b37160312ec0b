//! The used part of the CUDA driver API: types, numbers and functions of its public documentation
//! ("CUDA Driver API"). All functions are in every driver since CUDA 7.0; names with `_v2` are the
//! 64-bit forms to which the header maps the plain names.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use oxmpi_sys::foreign_symbols;

/// `CUresult`.
pub(crate) type CuResult = c_int;
/// `CUdeviceptr`.
pub(crate) type DevicePointer = u64;
/// `CUcontext`.
pub(crate) type ContextHandle = *mut c_void;
/// `CUstream`.
pub(crate) type StreamHandle = *mut c_void;

pub(crate) const CUDA_SUCCESS: CuResult = 0;
pub(crate) const CUDA_ERROR_INVALID_VALUE: CuResult = 1;
pub(crate) const CUDA_ERROR_NOT_INITIALIZED: CuResult = 3;
pub(crate) const CUDA_ERROR_DEINITIALIZED: CuResult = 4;
pub(crate) const CUDA_ERROR_INVALID_CONTEXT: CuResult = 201;
pub(crate) const CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: CuResult = 713;

pub(crate) const CU_POINTER_ATTRIBUTE_CONTEXT: c_int = 1;
pub(crate) const CU_POINTER_ATTRIBUTE_MEMORY_TYPE: c_int = 2;
pub(crate) const CU_POINTER_ATTRIBUTE_IS_MANAGED: c_int = 8;
pub(crate) const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;

pub(crate) const CU_MEMORYTYPE_HOST: c_uint = 1;
pub(crate) const CU_MEMORYTYPE_DEVICE: c_uint = 2;

pub(crate) const CU_MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// The stream does not wait for work of the program in the legacy default stream.
pub(crate) const CU_STREAM_NON_BLOCKING: c_uint = 1;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct Memcpy2D {
    pub src_x_in_bytes: size_t,
    pub src_y: size_t,
    pub src_memory_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: DevicePointer,
    pub src_array: *mut c_void,
    pub src_pitch: size_t,
    pub dst_x_in_bytes: size_t,
    pub dst_y: size_t,
    pub dst_memory_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: DevicePointer,
    pub dst_array: *mut c_void,
    pub dst_pitch: size_t,
    pub width_in_bytes: size_t,
    pub height: size_t,
}

foreign_symbols! {
    pub(crate) struct CudaSymbols {
        fn cuInit(c_uint) -> CuResult;
        fn cuDriverGetVersion(*mut c_int) -> CuResult;
        fn cuPointerGetAttributes(c_uint, *const c_int, *const *mut c_void, DevicePointer) -> CuResult;
        fn cuCtxPushCurrent_v2(ContextHandle) -> CuResult;
        fn cuCtxPopCurrent_v2(*mut ContextHandle) -> CuResult;
        fn cuDeviceGet(*mut c_int, c_int) -> CuResult;
        fn cuDevicePrimaryCtxRetain(*mut ContextHandle, c_int) -> CuResult;
        fn cuMemcpyDtoHAsync_v2(*mut c_void, DevicePointer, size_t, StreamHandle) -> CuResult;
        fn cuMemcpyHtoDAsync_v2(DevicePointer, *const c_void, size_t, StreamHandle) -> CuResult;
        fn cuMemcpy2DAsync_v2(*const Memcpy2D, StreamHandle) -> CuResult;
        fn cuStreamCreate(*mut StreamHandle, c_uint) -> CuResult;
        fn cuStreamSynchronize(StreamHandle) -> CuResult;
        fn cuStreamDestroy_v2(StreamHandle) -> CuResult;
        fn cuMemHostRegister_v2(*mut c_void, size_t, c_uint) -> CuResult;
        fn cuMemHostUnregister(*mut c_void) -> CuResult;
        fn cuGetErrorString(CuResult, *mut *const c_char) -> CuResult;
    }
}
