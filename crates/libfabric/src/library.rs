//! The library, and the providers that it has.

use crate::declarations::{
    FI_CONTEXT, FI_CONTEXT2, FI_DIRECTED_RECV, FI_ENODATA, FI_EP_RDM, FI_MSG, FI_NAMED_RX_CTX, FI_ORDER_SAS,
    FI_RECV, FI_RM_ENABLED, FI_SEND, FI_TAGGED, FI_THREAD_DOMAIN, FabricSymbols, Info, VERSION_1_14,
};
use libc::c_int;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};
use std::ffi::CString;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

static LIBFABRIC: LibraryTexts = LibraryTexts {
    name: "libfabric",
    needed: "libfabric of version 1.14 or later",
    remedy: "install it (Debian: libfabric1), or name its file by the parameter mtl_ofi_library",
};

/// libfabric, loaded into this program. It stays loaded: providers start threads of their own.
#[derive(Debug)]
pub struct Library {
    pub(crate) symbols: FabricSymbols,
    library: ForeignLibrary,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "libfabric {major}.{minor} ({})", self.library.file())
    }
}

/// What is asked of providers.
#[derive(Clone, Debug, Default)]
pub struct ProviderQuery {
    /// Only the provider of this name.
    pub name: Option<String>,
    /// Only those that can receive from one source by its address (FI_DIRECTED_RECV).
    pub directed: bool,
    /// Only those with scalable endpoints, whose receive contexts have addresses (FI_NAMED_RX_CTX).
    pub grouped: bool,
}

/// One way in which a provider can be used: a fabric and a domain of it.
pub struct Provider {
    pub(crate) library: Arc<Library>,
    /// As `fi_dupinfo` has made it; only this value has it.
    pub(crate) info: *mut Info,
    /// The name, of several layers joined by `;`.
    pub name: String,
    /// The name of the domain: an interface, or a device.
    pub domain: String,
    /// The bits of a tag that can be used, a number of ones at the lower end.
    pub tag_bits: u32,
    /// Bytes that travel beside a message (FI_REMOTE_CQ_DATA).
    pub data_bytes: usize,
    /// Whether it can receive from one source by its address, and takes nothing else then.
    pub is_directed: bool,
    /// The longest message, bytes.
    pub max_message: usize,
    /// In how many pieces of memory a message may lie that is sent.
    pub pieces: usize,
    /// How many pairs of a transmit and a receive context an endpoint may have; 1 without scalable endpoints.
    pub contexts: usize,
    /// How its addresses are written (`addr_format`).
    pub address_format: u32,
    /// Whether libfabric says that messages between two endpoints keep their order (FI_ORDER_SAS).
    pub keeps_order: bool,
}

// SAFETY: the description is read only, and belongs to this value alone.
unsafe impl Send for Provider {}
// SAFETY: nothing changes it.
unsafe impl Sync for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("domain", &self.domain)
            .field("tag_bits", &self.tag_bits)
            .field("data_bytes", &self.data_bytes)
            .field("is_directed", &self.is_directed)
            .finish_non_exhaustive()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // SAFETY: the library has made it, and nobody else has it.
        unsafe { (self.library.symbols.fi_freeinfo)(self.info) }
    }
}

/// Whether the receives of a provider that name their source take messages of others as well. `sockets` says that it has
/// FI_DIRECTED_RECV, but matches messages of senders whose connection was made before their address was known with any receive (1.17).
fn takes_foreign(name: &str) -> bool {
    name.split(';').any(|layer| layer == "sockets")
}

fn failed(call: &'static str, why: &str) -> LibraryError {
    LIBFABRIC.call_failed(call, format!("says: {why}"))
}

impl Library {
    /// Loads the library `name`: a file name as the loader takes it.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub fn open(name: &str) -> Result<Arc<Library>, LibraryError> {
        let library = ForeignLibrary::open(&LIBFABRIC, name)?;
        let opened = Library { symbols: FabricSymbols::of(&library)?, library };
        let (major, minor) = opened.version();
        if (major, minor) < (1, 14) {
            return Err(opened
                .library
                .unfit(format!("is libfabric {major}.{minor}: 1.14 or later is needed")));
        }
        Ok(Arc::new(opened))
    }

    /// Its version.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: it takes nothing and changes nothing.
        let version = unsafe { (self.symbols.fi_version)() };
        (version >> 16, version & 0xffff)
    }

    /// What an error number of libfabric's means.
    pub(crate) fn text_of(&self, error: c_int) -> String {
        // SAFETY: it gives a constant string.
        unsafe { text((self.symbols.fi_strerror)(error.abs())) }
    }

    /// What a call has answered, as a result.
    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<(), LibraryError> {
        if answer >= 0 { Ok(()) } else { Err(failed(call, &self.text_of(answer))) }
    }

    /// The providers that match messages by tag, have messages without one as well, and keep the order of those between two endpoints, the one that libfabric takes for the
    /// best first.
    ///
    /// # Errors
    /// If libfabric refuses to look. That there is none is no error.
    pub fn providers(self: &Arc<Library>, wish: &ProviderQuery) -> Result<Vec<Provider>, LibraryError> {
        // The first query starts libfabric, which opens the libraries of its providers.
        keep_signals(|| self.query(wish))
    }

    fn query(self: &Arc<Library>, wish: &ProviderQuery) -> Result<Vec<Provider>, LibraryError> {
        let no_memory = || failed("fi_dupinfo", "no memory");
        // SAFETY: of nothing it makes an empty description, as fi_allocinfo does.
        let hints = unsafe { (self.symbols.fi_dupinfo)(null()) };
        if hints.is_null() {
            return Err(no_memory());
        }
        let mut found = null_mut();
        // SAFETY: the description is the library's, with all of its parts; only this thread has it, and it is given back below.
        let answer = unsafe {
            let directed = if wish.directed { FI_DIRECTED_RECV } else { 0 };
            let grouped = if wish.grouped { FI_NAMED_RX_CTX } else { 0 };
            (*hints).caps = FI_TAGGED | FI_MSG | directed | grouped;
            // Some providers filter by the source only if the receiving side alone is asked for it, too.
            (*(*hints).tx_attr).caps = FI_TAGGED | FI_MSG | FI_SEND;
            (*(*hints).rx_attr).caps = FI_TAGGED | FI_MSG | FI_RECV | directed;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).kind = FI_EP_RDM;
            (*(*hints).tx_attr).msg_order = FI_ORDER_SAS;
            (*(*hints).rx_attr).msg_order = FI_ORDER_SAS;
            (*(*hints).domain_attr).threading = FI_THREAD_DOMAIN;
            (*(*hints).domain_attr).resource_mgmt = FI_RM_ENABLED;
            let name = wish.name.as_ref().and_then(|name| CString::new(name.as_str()).ok());
            if let Some(name) = name {
                // The library frees it with the rest, by free(3).
                (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
            let answer = (self.symbols.fi_getinfo)(VERSION_1_14, null(), null(), 0, hints, &mut found);
            (self.symbols.fi_freeinfo)(hints);
            answer
        };
        if answer == -FI_ENODATA {
            return Ok(Vec::new());
        }
        self.check("fi_getinfo", answer)?;
        let mut all = Vec::new();
        let mut at: *mut Info = found;
        while !at.is_null() {
            // SAFETY: an element of the list that the library has made, which is given back below.
            unsafe {
                let info = (self.symbols.fi_dupinfo)(at);
                if info.is_null() {
                    (self.symbols.fi_freeinfo)(found);
                    return Err(no_memory());
                }
                all.push(self.describe(info));
                at = (*at).next;
            }
        }
        // SAFETY: the library has made it, and nobody uses it any more.
        unsafe { (self.symbols.fi_freeinfo)(found) };
        Ok(all)
    }

    /// What is known of a provider.
    ///
    /// # Safety
    /// `info` is a whole description that the library has made, and nobody else's.
    unsafe fn describe(self: &Arc<Library>, info: *mut Info) -> Provider {
        // SAFETY: as the caller says.
        unsafe {
            let Info { ep_attr, domain_attr, fabric_attr, tx_attr, .. } = &*info;
            let format = (**ep_attr).mem_tag_format;
            let name = text((**fabric_attr).prov_name);
            Provider {
                library: self.clone(),
                info,
                is_directed: (*info).caps & FI_DIRECTED_RECV != 0 && !takes_foreign(&name),
                name,
                domain: text((**domain_attr).name),
                tag_bits: u64::BITS - format.leading_zeros(),
                data_bytes: (**domain_attr).cq_data_size,
                max_message: (**ep_attr).max_msg_size,
                pieces: (**tx_attr).iov_limit,
                contexts: if (*info).caps & FI_NAMED_RX_CTX == 0 {
                    1
                } else {
                    (**domain_attr).max_ep_tx_ctx.min((**domain_attr).max_ep_rx_ctx).max(1)
                },
                address_format: (*info).addr_format,
                keeps_order: (**tx_attr).msg_order & FI_ORDER_SAS != 0,
            }
        }
    }
}
