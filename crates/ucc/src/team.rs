//! Teams of processes.

use crate::declarations::{
    OobColl, Status, TeamParams, UCC_COLLECTIVE_EP_RANGE_CONTIG, UCC_ERR_NO_MESSAGE,
    UCC_INPROGRESS, UCC_OK, UCC_TEAM_PARAM_FIELD_EP, UCC_TEAM_PARAM_FIELD_EP_RANGE,
    UCC_TEAM_PARAM_FIELD_ID, UCC_TEAM_PARAM_FIELD_OOB,
};
use crate::library::{UccContext, UccLibrary};
use libc::{c_void, size_t};
use oxmpi_sys::foreign::LibraryError;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// An allgather of bytes among the processes of a team in creation. UCC has one in progress at a
/// time.
pub trait OutOfBand: Send + Sync {
    /// Starts an allgather of `mine`, which has the same length on all processes. It must not wait.
    fn start(&self, mine: Vec<u8>);

    /// The contributions of all processes in rank order, once complete; `None` if the exchange
    /// failed.
    fn poll(&self) -> Poll<Option<Vec<u8>>>;
}

struct Bridge {
    oob: Arc<dyn OutOfBand>,
    size: usize,
}

struct OobExchange {
    bridge: *const Bridge,
    into: *mut u8,
    len: usize,
}

/// # Safety
/// `mine` is readable for `len` bytes, `all` is writable for `len` bytes of each process until the
/// request is freed, and `bridge` is that of the team.
unsafe extern "C" fn allgather(
    mine: *mut c_void,
    all: *mut c_void,
    len: size_t,
    bridge: *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    let bridge = bridge.cast::<Bridge>().cast_const();
    // SAFETY: the caller's promise; the bridge lives as long as the team.
    let (bytes, team) = unsafe { (std::slice::from_raw_parts(mine.cast::<u8>(), len), &*bridge) };
    team.oob.start(bytes.to_vec());
    let exchange = Box::new(OobExchange { bridge, into: all.cast(), len });
    // SAFETY: the caller's promise: `request` is writable.
    unsafe { *request = Box::into_raw(exchange).cast() };
    UCC_OK
}

/// # Safety
/// `request` is a request of [`allgather`] that is not freed.
unsafe extern "C" fn test(request: *mut c_void) -> Status {
    // SAFETY: the caller's promise.
    let exchange = unsafe { &mut *request.cast::<OobExchange>() };
    if exchange.into.is_null() {
        return UCC_OK;
    }
    // SAFETY: the bridge lives as long as the team, which has this request.
    let bridge = unsafe { &*exchange.bridge };
    match bridge.oob.poll() {
        Poll::Pending => UCC_INPROGRESS,
        Poll::Ready(Some(all)) if Some(all.len()) == exchange.len.checked_mul(bridge.size) => {
            // SAFETY: the buffer has room for the contributions of all processes, which is the
            // length that was checked.
            unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), exchange.into, all.len()) };
            exchange.into = null_mut();
            UCC_OK
        }
        Poll::Ready(_) => UCC_ERR_NO_MESSAGE,
    }
}

/// # Safety
/// `request` is a request of [`allgather`], which is freed once.
unsafe extern "C" fn free(request: *mut c_void) -> Status {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(request.cast::<OobExchange>()) });
    UCC_OK
}

/// The progress of the creation of a team.
#[derive(Debug)]
pub enum UccCreation {
    /// In progress: [`UccContext::progress`] and the exchanges of the [`OutOfBand`] advance it.
    Going(UccTeamCreation),
    Made(UccTeam),
}

/// A team in creation.
#[derive(Debug)]
pub struct UccTeamCreation(UccTeam);

/// Processes that take part in collectives together. Dropping it destroys the team, which needs no
/// other process. A team in creation, and a team with live [`UccRequest`](crate::UccRequest)s,
/// leaks.
pub struct UccTeam {
    pub(crate) library: Arc<UccLibrary>,
    pub(crate) handle: *mut c_void,
    pub(crate) size: u32,
    /// UCC has a pointer to it; it lives as long as the team.
    bridge: *mut Bridge,
    is_made: bool,
    pub(crate) live: Arc<AtomicUsize>,
}

// SAFETY: UCC binds a team to no thread, and only one thread at a time has this value.
unsafe impl Send for UccTeam {}

impl fmt::Debug for UccTeam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UccTeam").field("size", &self.size).finish_non_exhaustive()
    }
}

impl UccTeamCreation {
    /// The upper bound of the numbers of teams.
    pub const LAST_ID: u64 = (1 << 15) - 2;

    /// Starts the creation of a team of `size` processes, in which this process has rank `rank`.
    /// All its processes call. `id` is below [`UccTeamCreation::LAST_ID`], the same on all
    /// processes, and different from that of all other teams of each process.
    pub fn begin(
        context: &UccContext,
        (rank, size): (u32, u32),
        id: u64,
        oob: Arc<dyn OutOfBand>,
    ) -> Result<UccTeamCreation, LibraryError> {
        let bridge = Box::into_raw(Box::new(Bridge { oob, size: size as usize }));
        let params = TeamParams {
            mask: UCC_TEAM_PARAM_FIELD_OOB
                | UCC_TEAM_PARAM_FIELD_EP
                | UCC_TEAM_PARAM_FIELD_EP_RANGE
                | UCC_TEAM_PARAM_FIELD_ID,
            flags: 0,
            ordering: 0,
            outstanding_colls: 0,
            ep: u64::from(rank),
            ep_list: null_mut(),
            ep_range: UCC_COLLECTIVE_EP_RANGE_CONTIG,
            team_size: 0,
            sync_type: 0,
            oob: OobColl {
                allgather: Some(allgather),
                req_test: Some(test),
                req_free: Some(free),
                coll_info: bridge.cast(),
                n_oob_eps: size,
                oob_ep: rank,
            },
            p2p_conn: [0; 5],
            mem_params: [0; 2],
            ep_map: [0; 4],
            id,
        };
        let library = context.library.clone();
        let (mut contexts, mut handle) = ([context.handle], null_mut());
        // SAFETY: the context lives as long as the process; UCC copies the parameters.
        let status = unsafe {
            (library.symbols.ucc_team_create_post)(contexts.as_mut_ptr(), 1, &params, &mut handle)
        };
        if let Err(error) = library.check("ucc_team_create_post", status) {
            // SAFETY: UCC has no team that could use it.
            drop(unsafe { Box::from_raw(bridge) });
            return Err(error);
        }
        let team = UccTeam { library, handle, size, bridge, is_made: false, live: Arc::default() };
        Ok(UccTeamCreation(team))
    }

    /// Advances the creation without waiting. After an error there is no team, and UCC's memory of
    /// it leaks.
    pub fn poll(self) -> Result<UccCreation, LibraryError> {
        let UccTeamCreation(mut team) = self;
        // SAFETY: the team is in creation, and UCC has not completed it.
        let status = unsafe { (team.library.symbols.ucc_team_create_test)(team.handle) };
        if status == UCC_OK {
            team.is_made = true;
            return Ok(UccCreation::Made(team));
        }
        match team.library.check("ucc_team_create_test", status) {
            Ok(()) => Ok(UccCreation::Going(UccTeamCreation(team))),
            // A failed team is not destroyed: UCC would wait for messages that never come.
            Err(error) => Err(error),
        }
    }
}

impl UccTeam {
    /// Leaks the team with all its collectives.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for UccTeam {
    fn drop(&mut self) {
        if !self.is_made || self.live.load(Ordering::Relaxed) > 0 {
            return;
        }
        // SAFETY: the team is complete, and UCC has released all its requests; the handle is not
        // used any more.
        let status = unsafe { (self.library.symbols.ucc_team_destroy)(self.handle) };
        if status == UCC_OK {
            // SAFETY: the team is destroyed, and with it all exchanges.
            drop(unsafe { Box::from_raw(self.bridge) });
        }
    }
}
