//! The interface of PMIx as far as OxMPI uses it: structures and functions of the headers `pmix.h`
//! and `pmix_common.h`, which are the same in the versions 3, 4 and 5.

use std::ffi::{CStr, c_char, c_int, c_void};

use oxmpi_sys::foreign_symbols;

/// `pmix_status_t`.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_TIMEOUT: Status = -24;
pub(super) const ERR_NOT_FOUND: Status = -46;
/// The operation is complete, and the callback is not called.
pub(super) const OPERATION_SUCCEEDED: Status = -157;

/// `PMIX_RANK_WILDCARD`: all processes of a job.
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: for all processes.
pub(super) const GLOBAL: u8 = 3;

pub(super) const TYPE_BOOL: u16 = 1;
pub(super) const TYPE_STRING: u16 = 3;
pub(super) const TYPE_UINT32: u16 = 14;
pub(super) const TYPE_PROC: u16 = 22;
pub(super) const TYPE_BYTE_OBJECT: u16 = 27;

pub(super) const JOB_SIZE: &CStr = c"pmix.job.size";
pub(super) const COLLECT_DATA: &CStr = c"pmix.collect";
pub(super) const IMMEDIATE: &CStr = c"pmix.immediate";

const KEY_BYTES: usize = 512;
pub(super) const NAMESPACE_BYTES: usize = 256;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) nspace: [c_char; NAMESPACE_BYTES],
    pub(super) rank: u32,
}

impl Proc {
    pub(super) const EMPTY: Proc = Proc { nspace: [0; NAMESPACE_BYTES], rank: 0 };

    /// The name of the job.
    pub(super) fn job(&self) -> String {
        let bytes = self.nspace.iter().map(|byte| byte.cast_unsigned());
        String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<u8>>()).into()
    }
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub(super) bytes: *mut c_char,
    pub(super) size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) uint32: u32,
    pub(super) string: *mut c_char,
    pub(super) proc: *const Proc,
    pub(super) bo: ByteObject,
    /// The size of the header's union.
    pub(super) words: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PmixValue {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PmixInfo {
    pub(super) key: [c_char; KEY_BYTES],
    pub(super) flags: u32,
    pub(super) value: PmixValue,
}

impl PmixInfo {
    fn new(key: &CStr, value: PmixValue) -> PmixInfo {
        let mut named = [0; KEY_BYTES];
        // The last byte stays zero.
        for (to, from) in named[..KEY_BYTES - 1].iter_mut().zip(key.to_bytes()) {
            *to = from.cast_signed();
        }
        PmixInfo { key: named, flags: 0, value }
    }

    /// An attribute that is true.
    pub(super) fn is_set(key: &CStr) -> PmixInfo {
        let mut data = Data { words: [0; 3] };
        data.flag = true;
        PmixInfo::new(key, PmixValue { kind: TYPE_BOOL, data })
    }
}

/// `pmix_op_cbfunc_t`.
pub(super) type OnStatus = unsafe extern "C" fn(Status, *mut c_void);
/// `pmix_value_cbfunc_t`.
pub(super) type OnValue = unsafe extern "C" fn(Status, *const PmixValue, *mut c_void);
foreign_symbols! {
    pub(super) struct PmixSymbols {
        fn PMIx_Get_version() -> *const c_char;
        fn PMIx_Error_string(Status) -> *const c_char;
        fn PMIx_Init(*mut Proc, *const PmixInfo, usize) -> Status;
        fn PMIx_Finalize(*const PmixInfo, usize) -> Status;
        fn PMIx_Abort(c_int, *const c_char, *const Proc, usize) -> Status;
        fn PMIx_Put(u8, *const c_char, *const PmixValue) -> Status;
        fn PMIx_Commit() -> Status;
        fn PMIx_Fence_nb(*const Proc, usize, *const PmixInfo, usize, OnStatus, *mut c_void) -> Status;
        fn PMIx_Get_nb(*const Proc, *const c_char, *const PmixInfo, usize, OnValue, *mut c_void) -> Status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    /// The layout of a C compiler for the headers of PMIx 4.2 on 64-bit Linux.
    #[test]
    fn structures_have_the_layout_of_the_header() {
        assert_eq!((size_of::<Proc>(), offset_of!(Proc, rank)), (260, 256));
        assert_eq!((size_of::<PmixValue>(), offset_of!(PmixValue, data)), (32, 8));
        assert_eq!((align_of::<PmixValue>(), size_of::<ByteObject>()), (8, 16));
        let info =
            (offset_of!(PmixInfo, flags), offset_of!(PmixInfo, value), size_of::<PmixInfo>());
        assert_eq!(info, (512, 520, 552));
    }

    #[test]
    fn names_end_with_a_zero() {
        let long = std::ffi::CString::new("k".repeat(600)).unwrap();
        let info = PmixInfo::is_set(&long);
        assert_eq!((info.key[510], info.key[511]), (b'k'.cast_signed(), 0));
        let mut proc = Proc::EMPTY;
        proc.nspace.fill(b'a'.cast_signed());
        assert_eq!(proc.job().len(), NAMESPACE_BYTES);
    }
}
