//! The library and its providers.

use crate::declarations::{
    FI_CONTEXT, FI_CONTEXT2, FI_DIRECTED_RECV, FI_ENODATA, FI_EP_RDM, FI_MSG, FI_NAMED_RX_CTX,
    FI_ORDER_SAS, FI_RECV, FI_RM_ENABLED, FI_SEND, FI_TAGGED, FI_THREAD_DOMAIN, FabricSymbols,
    Info, VERSION_1_14,
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

/// libfabric, loaded into this process. It is never unloaded, because providers start threads.
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

/// The requirements of [`Library::providers`].
#[derive(Clone, Debug, Default)]
pub struct ProviderQuery {
    pub name: Option<String>,
    /// Only providers whose receives can name a source (FI_DIRECTED_RECV).
    pub directed: bool,
    /// Only providers with addresses of receive contexts (FI_NAMED_RX_CTX).
    pub grouped: bool,
}

/// A provider with one of its fabrics and one domain of this fabric.
pub struct Provider {
    pub(crate) library: Arc<Library>,
    /// A copy by `fi_dupinfo` that this value alone owns.
    pub(crate) info: *mut Info,
    /// The names of the layers, joined by `;`.
    pub name: String,
    pub domain: String,
    /// The number of usable bits at the lower end of a tag.
    pub tag_bits: u32,
    /// Bytes of remote CQ data with a message (FI_REMOTE_CQ_DATA).
    pub data_bytes: usize,
    /// Whether a receive can name the address of its source, and then matches no other source.
    pub is_directed: bool,
    /// In bytes.
    pub max_message: usize,
    /// The most pieces of memory in one sent message.
    pub pieces: usize,
    /// The most context pairs of an endpoint; 1 without scalable endpoints.
    pub contexts: usize,
    pub address_format: u32,
    /// Whether messages between two endpoints keep their order (FI_ORDER_SAS).
    pub keeps_order: bool,
}

// SAFETY: this value alone owns the description, which is not bound to a thread.
unsafe impl Send for Provider {}
// SAFETY: only `Endpoint::open` of a grouped endpoint changes the description (the two context
// counts), and callers open the endpoints of one provider one after another.
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
        // SAFETY: `fi_dupinfo` has made the description, and this value alone owns it.
        unsafe { (self.library.symbols.fi_freeinfo)(self.info) }
    }
}

/// Whether a receive of this provider that names its source can match messages of other sources.
/// `sockets` of 1.17 reports FI_DIRECTED_RECV, but if a connection exists before its sender's
/// address is inserted, messages of this sender match any receive.
fn ignores_source_filter(name: &str) -> bool {
    name.split(';').any(|layer| layer == "sockets")
}

fn failed(call: &'static str, why: &str) -> LibraryError {
    LIBFABRIC.call_failed(call, format!("says: {why}"))
}

impl Library {
    /// Loads the library with the file name `name`, as for dlopen(3).
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

    /// The major and minor version.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: the function has no arguments and no effect.
        let version = unsafe { (self.symbols.fi_version)() };
        (version >> 16, version & 0xffff)
    }

    /// The text of an error number, which may be negative.
    pub(crate) fn text_of(&self, error: c_int) -> String {
        // SAFETY: the function returns a constant string.
        unsafe { text((self.symbols.fi_strerror)(error.abs())) }
    }

    /// Converts the answer of a call: a negative number is an error.
    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<(), LibraryError> {
        if answer >= 0 { Ok(()) } else { Err(failed(call, &self.text_of(answer))) }
    }

    /// The providers with tagged and untagged messages that keep the order between two endpoints,
    /// in libfabric's order of preference. The list is empty if no provider fits.
    pub fn providers(
        self: &Arc<Library>,
        wish: &ProviderQuery,
    ) -> Result<Vec<Provider>, LibraryError> {
        // The first query starts libfabric, which opens the libraries of its providers.
        keep_signals(|| self.query(wish))
    }

    fn query(self: &Arc<Library>, wish: &ProviderQuery) -> Result<Vec<Provider>, LibraryError> {
        let no_memory = || failed("fi_dupinfo", "no memory");
        // SAFETY: for a null pointer the function makes an empty description, as fi_allocinfo does.
        let hints = unsafe { (self.symbols.fi_dupinfo)(null()) };
        if hints.is_null() {
            return Err(no_memory());
        }
        let mut found = null_mut();
        // SAFETY: libfabric has made the description with all parts; this thread alone uses it, and
        // frees it below.
        let answer = unsafe {
            let directed = if wish.directed { FI_DIRECTED_RECV } else { 0 };
            let grouped = if wish.grouped { FI_NAMED_RX_CTX } else { 0 };
            (*hints).caps = FI_TAGGED | FI_MSG | directed | grouped;
            // Some providers filter by the source only if `rx_attr` requires FI_DIRECTED_RECV too.
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
                // fi_freeinfo frees the name by free(3).
                (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
            let answer =
                (self.symbols.fi_getinfo)(VERSION_1_14, null(), null(), 0, hints, &mut found);
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
            // SAFETY: `at` is an element of the list from fi_getinfo, which is freed below.
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
        // SAFETY: fi_getinfo has made the list, and the providers have copies.
        unsafe { (self.symbols.fi_freeinfo)(found) };
        Ok(all)
    }

    /// Makes the [`Provider`] of a description.
    ///
    /// # Safety
    /// `info` is a complete description from `fi_dupinfo`, and the caller gives up its ownership.
    unsafe fn describe(self: &Arc<Library>, info: *mut Info) -> Provider {
        // SAFETY: by the contract of this function.
        unsafe {
            let Info { ep_attr, domain_attr, fabric_attr, tx_attr, .. } = &*info;
            let format = (**ep_attr).mem_tag_format;
            let name = text((**fabric_attr).prov_name);
            Provider {
                library: self.clone(),
                info,
                is_directed: (*info).caps & FI_DIRECTED_RECV != 0 && !ignores_source_filter(&name),
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
