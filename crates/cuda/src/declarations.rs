//! The CUDA driver API as far as it is used here: types, numbers and functions as its public documentation ("CUDA Driver API", module by
//! module) gives them. All functions are in every driver since CUDA 7.0; names with `_v2` are the 64-bit forms that the header maps the plain
//! names to.

use libc::{c_char, c_int, c_uint, c_void, size_t};

/// `CUresult`.
pub(crate) type Status = c_int;
/// `CUdeviceptr`.
pub(crate) type DevicePointer = u64;
/// `CUcontext`.
pub(crate) type ContextHandle = *mut c_void;
/// `CUstream`.
pub(crate) type StreamHandle = *mut c_void;

pub(crate) const CUDA_SUCCESS: Status = 0;
pub(crate) const CUDA_ERROR_INVALID_VALUE: Status = 1;
pub(crate) const CUDA_ERROR_NOT_INITIALIZED: Status = 3;
pub(crate) const CUDA_ERROR_DEINITIALIZED: Status = 4;
pub(crate) const CUDA_ERROR_INVALID_CONTEXT: Status = 201;
pub(crate) const CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: Status = 713;

pub(crate) const CU_POINTER_ATTRIBUTE_CONTEXT: c_int = 1;
pub(crate) const CU_POINTER_ATTRIBUTE_MEMORY_TYPE: c_int = 2;
pub(crate) const CU_POINTER_ATTRIBUTE_IS_MANAGED: c_int = 8;
pub(crate) const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;

pub(crate) const CU_MEMORYTYPE_HOST: c_uint = 1;
pub(crate) const CU_MEMORYTYPE_DEVICE: c_uint = 2;

pub(crate) const CU_MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// Such a stream does not wait for what the program has given to the legacy default stream.
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

/// The functions, by their names without `cu`.
pub(crate) struct Symbols {
    pub init: unsafe extern "C" fn(c_uint) -> Status,
    pub driver_get_version: unsafe extern "C" fn(*mut c_int) -> Status,
    pub pointer_get_attributes:
        unsafe extern "C" fn(c_uint, *const c_int, *const *mut c_void, DevicePointer) -> Status,
    pub ctx_push_current: unsafe extern "C" fn(ContextHandle) -> Status,
    pub ctx_pop_current: unsafe extern "C" fn(*mut ContextHandle) -> Status,
    pub device_get: unsafe extern "C" fn(*mut c_int, c_int) -> Status,
    pub device_primary_ctx_retain: unsafe extern "C" fn(*mut ContextHandle, c_int) -> Status,
    pub memcpy_dtoh_async: unsafe extern "C" fn(*mut c_void, DevicePointer, size_t, StreamHandle) -> Status,
    pub memcpy_htod_async: unsafe extern "C" fn(DevicePointer, *const c_void, size_t, StreamHandle) -> Status,
    pub memcpy_2d_async: unsafe extern "C" fn(*const Memcpy2D, StreamHandle) -> Status,
    pub stream_create: unsafe extern "C" fn(*mut StreamHandle, c_uint) -> Status,
    pub stream_synchronize: unsafe extern "C" fn(StreamHandle) -> Status,
    pub stream_destroy: unsafe extern "C" fn(StreamHandle) -> Status,
    pub mem_host_register: unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> Status,
    pub mem_host_unregister: unsafe extern "C" fn(*mut c_void) -> Status,
    pub get_error_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}
