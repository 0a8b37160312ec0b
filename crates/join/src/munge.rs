//! MUNGE, by which processes of one cluster prove their user to each other. The library
//! `libmunge.so.2` is opened at run time.
//!
//! A *credential* is a text that the daemon `munged` of a node makes for a process. Each `munged`
//! of the cluster has the same key, so each can tell from a credential the user of the process that
//! it was made for. A credential carries a payload, which is enciphered by the cluster's key; if
//! the credential is restricted to a user, the daemons open it for processes of this user alone.
//! Each daemon opens a credential once.
//!
//! MUNGE proves a user. It proves neither a job nor a connection: any process that has the text of
//! a credential can send it, too. The module `rendezvous` adds that proof.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::zeroed;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libc::{SIGPIPE, gid_t, sigset_t, time_t, uid_t};
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, text};
use oxmpi_sys::foreign_symbols;

/// MUNGE's file name for the loader.
pub const LIBRARY: &str = "libmunge.so.2";

static TEXTS: LibraryTexts = LibraryTexts {
    name: "MUNGE",
    needed: "MUNGE of version 2",
    remedy: "install it on each node (Debian: libmunge2; Red Hat: munge-libs), name its file by \
             the parameter munge_library, or start the program by srun --mpi=pmi2 or srun --mpi=pmix",
};

foreign_symbols! {
    /// The used functions of munge(3) and munge_ctx(3).
    struct MungeSymbols {
        fn munge_encode(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
        fn munge_decode(
            *const c_char, *mut c_void, *mut *mut c_void, *mut c_int, *mut uid_t, *mut gid_t,
        ) -> c_int;
        fn munge_strerror(c_int) -> *const c_char;
        fn munge_ctx_create() -> *mut c_void;
        fn munge_ctx_destroy(*mut c_void);
        fn munge_ctx_strerror(*mut c_void) -> *const c_char;
    }
}

/// `munge_ctx_get` and `munge_ctx_set`. The argument after the option is a value or an address, by
/// the option.
type ContextFunction = unsafe extern "C" fn(*mut c_void, c_int, ...) -> c_int;

// `munge_opt_t` of munge.h.
const OPT_CIPHER_TYPE: c_int = 0;
const OPT_TTL: c_int = 4;
const OPT_ENCODE_TIME: c_int = 6;
const OPT_DECODE_TIME: c_int = 7;
const OPT_SOCKET: c_int = 8;
const OPT_UID_RESTRICTION: c_int = 9;

/// `MUNGE_CIPHER_AES128`, which each version has. The cipher that a site has chosen as the default
/// may be none.
const CIPHER_AES128: c_int = 4;

// `munge_err_t` of munge.h.
const SUCCESS: c_int = 0;
const SOCKET: c_int = 6;
const BAD_REALM: c_int = 13;
const BAD_CRED: c_int = 8;
const CRED_INVALID: c_int = 14;
const CRED_EXPIRED: c_int = 15;
const CRED_REWOUND: c_int = 16;
const CRED_REPLAYED: c_int = 17;
const CRED_UNAUTHORIZED: c_int = 18;

/// The content of a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    pub payload: Vec<u8>,
    /// The user and group of the process that the credential was made for, as its `munged` sees
    /// them.
    pub uid: u32,
    pub gid: u32,
    /// Seconds since 1970, by the clock of the node where the credential was made.
    pub made: i64,
    /// Seconds since 1970, by the clock of this node.
    pub opened: i64,
}

impl fmt::Debug for Opened {
    /// Without the payload, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Opened { payload, uid, gid, made, opened } = self;
        let bytes = payload.len();
        write!(f, "Opened({bytes} bytes, uid {uid}, gid {gid}, made {made}, opened {opened})")
    }
}

/// Why there is no credential, or why one is not accepted. The text is for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MungeError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(
        "MUNGE's daemon does not answer on this node ({0}): start it (systemctl start munge), name \
         its socket by the parameter munge_socket, or start the program by srun --mpi=pmi2 or \
         srun --mpi=pmix"
    )]
    NoDaemon(String),
    /// The credential is older than its time to live.
    #[error(
        "a credential has expired ({0}): the clocks of the nodes differ (compare: srun date +%s), or a node was \
         suspended"
    )]
    Expired(CredentialTimes),
    /// The credential comes from the future.
    #[error(
        "a credential was made in the future ({0}): the clocks of the nodes differ (compare: srun date +%s)"
    )]
    Rewound(CredentialTimes),
    #[error("a credential was used before")]
    Replayed,
    /// The credential is restricted to another user.
    #[error("a credential is for another user")]
    Unauthorized,
    #[error(
        "a credential is invalid ({0}): the nodes have different keys of MUNGE (compare as root: \
         srun sha256sum /etc/munge/munge.key), or a process has invented it"
    )]
    Invalid(String),
    #[error("MUNGE {call} fails: {why} (error {code})")]
    Failed { call: &'static str, why: String, code: i32 },
    #[error("a path of MUNGE's socket has a zero byte: '{0}'")]
    Path(PathBuf),
}

/// The clocks of the nodes where a credential was made and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialTimes {
    /// The user that the credential was made for.
    pub uid: u32,
    pub made: i64,
    pub opened: i64,
}

impl fmt::Display for CredentialTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CredentialTimes { uid, made, opened } = self;
        write!(
            f,
            "of uid {uid}, made at {made} by the clock there, opened at {opened} by the clock here"
        )
    }
}

/// MUNGE's library with a daemon of this node.
pub struct Munge {
    symbols: MungeSymbols,
    get: ContextFunction,
    set: ContextFunction,
    library: ForeignLibrary,
    /// The daemon's socket; `None`: MUNGE's default.
    socket: Option<CString>,
}

impl fmt::Debug for Munge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.library)
    }
}

impl Munge {
    /// Loads the library `file` ([`LIBRARY`]). `socket` is the path of the daemon's socket, if it
    /// is not MUNGE's default.
    pub fn open(file: &str, socket: Option<&Path>) -> Result<Munge, MungeError> {
        let socket = match socket {
            None => None,
            Some(path) => Some(
                CString::new(path.as_os_str().as_encoded_bytes())
                    .map_err(|_| MungeError::Path(path.to_path_buf()))?,
            ),
        };
        let library = ForeignLibrary::open(&TEXTS, file)?;
        let symbols = MungeSymbols::of(&library)?;
        // SAFETY: munge.h declares both functions with this type.
        let (get, set): (ContextFunction, ContextFunction) =
            unsafe { (library.function("munge_ctx_get")?, library.function("munge_ctx_set")?) };
        Ok(Munge { symbols, get, set, library, socket })
    }

    /// A credential of this process with this payload, which is enciphered. Daemons open it for
    /// processes of the user `only` alone, and for `seconds` after it was made; a daemon may allow
    /// less.
    pub fn encode(
        &self,
        payload: &[u8],
        only: Option<u32>,
        seconds: u16,
    ) -> Result<String, MungeError> {
        let context = MungeContext::new(self)?;
        context.set_int(OPT_CIPHER_TYPE, CIPHER_AES128)?;
        context.set_int(OPT_TTL, c_int::from(seconds))?;
        if let Some(uid) = only {
            // SAFETY: this option takes a user by value.
            context.check("munge_ctx_set", unsafe {
                (self.set)(context.handle, OPT_UID_RESTRICTION, uid as uid_t)
            })?;
        }
        let length = c_int::try_from(payload.len()).map_err(|_| MungeError::Failed {
            call: "munge_encode",
            why: format!("a payload of {} bytes is too long", payload.len()),
            code: 3,
        })?;
        let mut credential = null_mut();
        let _held = HeldSigpipe::new();
        // SAFETY: the payload has `length` bytes; `credential` is writable.
        let code = unsafe {
            (self.symbols.munge_encode)(
                &mut credential,
                context.handle,
                payload.as_ptr().cast(),
                length,
            )
        };
        let credential = LibraryMemory(credential.cast());
        context.check("munge_encode", code)?;
        // SAFETY: after success the credential is a string that ends with a zero.
        Ok(unsafe { text(credential.0.cast()) })
    }

    /// Opens a credential; each daemon does so once.
    pub fn decode(&self, credential: &str) -> Result<Opened, MungeError> {
        let credential = match CString::new(credential) {
            Ok(credential) if !credential.is_empty() => credential,
            _ => return Err(MungeError::Invalid("it is empty, or contains a zero byte".into())),
        };
        let context = MungeContext::new(self)?;
        let (mut payload, mut length, mut uid, mut gid) = (null_mut(), 0, uid_t::MAX, gid_t::MAX);
        let _held = HeldSigpipe::new();
        // SAFETY: the credential ends with a zero, and the other arguments are writable.
        let code = unsafe {
            (self.symbols.munge_decode)(
                credential.as_ptr(),
                context.handle,
                &mut payload,
                &mut length,
                &mut uid,
                &mut gid,
            )
        };
        let payload = LibraryMemory(payload);
        let times = || {
            let made = context.time(OPT_ENCODE_TIME);
            CredentialTimes { uid, made, opened: context.time(OPT_DECODE_TIME) }
        };
        match code {
            SUCCESS => {}
            CRED_EXPIRED => return Err(MungeError::Expired(times())),
            CRED_REWOUND => return Err(MungeError::Rewound(times())),
            _ => context.check("munge_decode", code)?,
        }
        let CredentialTimes { made, opened, .. } = times();
        Ok(Opened { payload: payload.copy(length), uid, gid, made, opened })
    }
}

/// Holds SIGPIPE back in this thread, and drops one that has come meanwhile. The library writes to
/// its daemon without MSG_NOSIGNAL, so a daemon that restarts at this moment would end the program.
struct HeldSigpipe {
    mask: sigset_t,
    was_pending: bool,
}

impl HeldSigpipe {
    fn new() -> HeldSigpipe {
        // SAFETY: all sets are valid and writable. The calls fail only for a wrong signal or `how`.
        unsafe {
            let (mut set, mut mask, mut pending) = zeroed::<(sigset_t, sigset_t, sigset_t)>();
            libc::sigpending(&mut pending);
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut mask);
            HeldSigpipe { mask, was_pending: libc::sigismember(&pending, SIGPIPE) == 1 }
        }
    }
}

impl Drop for HeldSigpipe {
    fn drop(&mut self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set is valid, and the mask is that of this thread before.
        unsafe {
            let mut set = zeroed::<sigset_t>();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, SIGPIPE);
            if !self.was_pending {
                libc::sigtimedwait(&set, null_mut(), &at_once);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, null_mut());
        }
    }
}

/// Memory that the library has allocated for the caller.
struct LibraryMemory(*mut c_void);

impl LibraryMemory {
    /// The first `length` bytes.
    fn copy(&self, length: c_int) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(0);
        if self.0.is_null() {
            return Vec::new();
        }
        // SAFETY: the library has allocated `length` bytes and one more.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>().cast_const(), length) }.to_vec()
    }
}

impl Drop for LibraryMemory {
    fn drop(&mut self) {
        // SAFETY: munge(3) has the caller release it by free(3), which ignores null.
        unsafe { libc::free(self.0) };
    }
}

/// The options and the error text of one call.
struct MungeContext<'a> {
    munge: &'a Munge,
    handle: *mut c_void,
}

impl MungeContext<'_> {
    fn new(munge: &Munge) -> Result<MungeContext<'_>, MungeError> {
        // SAFETY: the function has no arguments.
        let handle = unsafe { (munge.symbols.munge_ctx_create)() };
        if handle.is_null() {
            let why = "there is no memory".into();
            return Err(MungeError::Failed { call: "munge_ctx_create", why, code: 5 });
        }
        let context = MungeContext { munge, handle };
        if let Some(socket) = &munge.socket {
            // SAFETY: this option takes a string, which the library copies.
            context.check("munge_ctx_set", unsafe {
                (munge.set)(handle, OPT_SOCKET, socket.as_ptr())
            })?;
        }
        Ok(context)
    }

    fn set_int(&self, option: c_int, value: c_int) -> Result<(), MungeError> {
        // SAFETY: the caller names an option that takes an integer by value.
        self.check("munge_ctx_set", unsafe { (self.munge.set)(self.handle, option, value) })
    }

    /// A time of the credential; 0 if it has none.
    fn time(&self, option: c_int) -> i64 {
        let mut time: time_t = 0;
        // SAFETY: both options for times take the address of a `time_t`.
        unsafe { (self.munge.get)(self.handle, option, &raw mut time) };
        time
    }

    /// The result of a call.
    fn check(&self, call: &'static str, code: c_int) -> Result<(), MungeError> {
        if code == SUCCESS {
            return Ok(());
        }
        let symbols = &self.munge.symbols;
        // SAFETY: the functions return constant strings, strings of the context, or null.
        let why = unsafe {
            match text((symbols.munge_ctx_strerror)(self.handle)) {
                detailed if !detailed.is_empty() => detailed,
                _ => text((symbols.munge_strerror)(code)),
            }
        };
        Err(error_of(call, code, why))
    }
}

impl Drop for MungeContext<'_> {
    fn drop(&mut self) {
        // SAFETY: the context was created above, and is destroyed once.
        unsafe { (self.munge.symbols.munge_ctx_destroy)(self.handle) };
    }
}

/// The error of a call that has failed with this code of munge.h. Expired and rewound credentials
/// have times, and are not among them.
fn error_of(call: &'static str, code: c_int, why: String) -> MungeError {
    match code {
        SOCKET => MungeError::NoDaemon(why),
        // The wrong form, version, cipher, MAC, compression or realm of a credential.
        BAD_CRED..=BAD_REALM | CRED_INVALID => MungeError::Invalid(why),
        CRED_REPLAYED => MungeError::Replayed,
        CRED_UNAUTHORIZED => MungeError::Unauthorized,
        _ => MungeError::Failed { call, why, code },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_text_and_the_line_to_type() {
        let error = |code| error_of("munge_decode", code, "why".into());
        assert_eq!(error(SOCKET), MungeError::NoDaemon("why".into()));
        assert!(error(SOCKET).to_string().contains("systemctl start munge"));
        for code in [BAD_CRED, 9, 12, BAD_REALM, CRED_INVALID] {
            assert_eq!(error(code), MungeError::Invalid("why".into()), "{code}");
        }
        assert_eq!(error(CRED_REPLAYED), MungeError::Replayed);
        assert_eq!(error(CRED_UNAUTHORIZED), MungeError::Unauthorized);
        assert_eq!(error(5).to_string(), "MUNGE munge_decode fails: why (error 5)");
        let times = CredentialTimes { uid: 7, made: 900, opened: 100 };
        for error in [MungeError::Expired(times), MungeError::Rewound(times)] {
            let text = error.to_string();
            assert!(text.contains("clocks") && text.contains("made at 900"), "{text}");
        }
    }

    #[test]
    fn a_sigpipe_of_the_library_does_not_end_the_program() {
        let write_to_nobody = || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            drop(reader);
            assert_eq!(rustix::io::write(&writer, b"x"), Err(rustix::io::Errno::PIPE));
        };
        // SAFETY: Rust's runtime ignores this signal, and a C program does not. No other test
        // writes to a closed pipe.
        let old = unsafe { libc::signal(SIGPIPE, libc::SIG_DFL) };
        let held = HeldSigpipe::new();
        write_to_nobody();
        drop(held);
        // SAFETY: the old disposition.
        unsafe { libc::signal(SIGPIPE, old) };
        write_to_nobody();
    }

    #[test]
    fn a_missing_library_names_the_packages_and_the_other_launches() {
        let text = Munge::open("/nonexistent/libmunge.so.2", None).unwrap_err().to_string();
        assert!(text.contains("libmunge2") && text.contains("--mpi=pmi2"), "{text}");
        let error = Munge::open("libc.so.6", None).unwrap_err().to_string();
        assert!(error.contains("no function munge_encode"), "{error}");
        let zero = Path::new("a\0b");
        assert!(matches!(Munge::open(LIBRARY, Some(zero)), Err(MungeError::Path(_))));
    }
}
