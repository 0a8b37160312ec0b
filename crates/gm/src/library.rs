use crate::declarations::{GM_SUCCESS, GmFunctions};
use libc::{c_int, c_void};
use oxmpi_sys::foreign::{ForeignLibrary, text};
use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

/// GM's file name for the loader.
pub const LIBRARY: &str = "libgm.so";

/// The reason why GM cannot be used, with a text for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GmError {
    #[error(
        "GM cannot be loaded as '{library}' ({why}): install Myricom's GM 2 with its driver, or name the file by the parameter rpi_gm_library"
    )]
    Missing { library: String, why: String },
    #[error("'{library}' has no function {symbol}: it is no GM of version 2")]
    Symbol { library: String, symbol: &'static str },
    #[error("GM's {call} says: {why} (status {status})")]
    Call { call: &'static str, status: i32, why: String },
    #[error("port {port} of GM has no more {what}")]
    Exhausted { port: u32, what: &'static str },
}

/// GM, loaded into this program for good.
pub struct GmLibrary {
    pub(crate) symbols: GmFunctions,
    name: String,
}

impl fmt::Debug for GmLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GmLibrary({})", self.name)
    }
}

impl fmt::Display for GmLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GM ({})", self.name)
    }
}

impl GmLibrary {
    /// Loads the library `name`: a file name as the loader takes it.
    pub fn open(name: &str) -> Result<Arc<GmLibrary>, GmError> {
        let missing = |why: String| GmError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(missing)?;
        let symbol = |symbol: &'static CStr| {
            let missing =
                || GmError::Symbol { library: name.to_string(), symbol: symbol.to_str().unwrap_or_default() };
            opened.symbol(symbol).ok_or_else(missing)
        };
        macro_rules! function {
            ($name:literal) => {{
                let found: *mut c_void = symbol($name)?;
                // SAFETY: the initialised field has the type of GM's function of this name.
                unsafe { std::mem::transmute_copy::<*mut c_void, _>(&found) }
            }};
        }
        let symbols = GmFunctions {
            init: function!(c"gm_init"),
            finalize: function!(c"gm_finalize"),
            open: function!(c"gm_open"),
            close: function!(c"gm_close"),
            num_send_tokens: function!(c"gm_num_send_tokens"),
            num_receive_tokens: function!(c"gm_num_receive_tokens"),
            min_size_for_length: function!(c"gm_min_size_for_length"),
            max_length_for_size: function!(c"gm_max_length_for_size"),
            get_node_id: function!(c"gm_get_node_id"),
            node_id_to_global_id: function!(c"gm_node_id_to_global_id"),
            global_id_to_node_id: function!(c"gm_global_id_to_node_id"),
            dma_malloc: function!(c"gm_dma_malloc"),
            set_acceptable_sizes: function!(c"gm_set_acceptable_sizes"),
            allow_remote_memory_access: function!(c"gm_allow_remote_memory_access"),
            provide: function!(c"gm_provide_receive_buffer_with_tag"),
            send: function!(c"gm_send_with_callback"),
            put: function!(c"gm_put"),
            get: function!(c"gm_get"),
            register_memory: function!(c"gm_register_memory"),
            deregister_memory: function!(c"gm_deregister_memory"),
            drop_sends: function!(c"gm_drop_sends"),
            receive: function!(c"gm_receive"),
            unknown: function!(c"gm_unknown"),
            strerror: function!(c"gm_strerror"),
        };
        Ok(Arc::new(GmLibrary { symbols, name: name.to_string() }))
    }

    pub(crate) fn text_of(&self, status: c_int) -> String {
        // SAFETY: it returns a constant string.
        unsafe { text((self.symbols.strerror)(status)) }
    }

    pub(crate) fn check(&self, call: &'static str, status: c_int) -> Result<(), GmError> {
        if status == GM_SUCCESS { Ok(()) } else { Err(self.error(call, status)) }
    }

    pub(crate) fn error(&self, call: &'static str, status: c_int) -> GmError {
        GmError::Call { call, status, why: self.text_of(status) }
    }
}
