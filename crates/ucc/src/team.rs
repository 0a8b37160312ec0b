//! Teams of processes.

use crate::declarations::{
    OobColl, Status, TeamParams, UCC_COLLECTIVE_EP_RANGE_CONTIG, UCC_ERR_NO_MESSAGE, UCC_INPROGRESS, UCC_OK,
    UCC_TEAM_PARAM_FIELD_EP, UCC_TEAM_PARAM_FIELD_EP_RANGE, UCC_TEAM_PARAM_FIELD_ID,
    UCC_TEAM_PARAM_FIELD_OOB,
};
use crate::library::{Context, Library, LibraryError};
use libc::{c_void, size_t};
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// An allgather of bytes among the processes of a team that is being made. UCC has one of them under way at a time.
pub trait OutOfBand: Send + Sync {
    /// Starts one, to which this process contributes `mine`; all processes contribute as many bytes. It must not wait.
    fn start(&self, mine: Vec<u8>);

    /// The contributions of all, in the order of their ranks, when they are there; `None` for an exchange that has failed.
    fn poll(&self) -> Poll<Option<Vec<u8>>>;
}

/// What the callbacks of a team find behind their pointer.
struct Bridge {
    oob: Arc<dyn OutOfBand>,
    /// The processes of the team.
    size: usize,
}

/// An exchange under way.
struct Exchange {
    bridge: *const Bridge,
    into: *mut u8,
    len: usize,
}

/// # Safety
/// UCC calls it with `mine` readable for `len` bytes, `all` writable for that times the size of the team until the request is freed, and
/// the bridge of the team.
unsafe extern "C" fn allgather(
    mine: *mut c_void,
    all: *mut c_void,
    len: size_t,
    bridge: *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    let bridge = bridge.cast::<Bridge>().cast_const();
    // SAFETY: as the caller says; the bridge lives as long as the team.
    let (bytes, team) = unsafe { (std::slice::from_raw_parts(mine.cast::<u8>(), len), &*bridge) };
    team.oob.start(bytes.to_vec());
    let exchange = Box::new(Exchange { bridge, into: all.cast(), len });
    // SAFETY: the place is one for a pointer.
    unsafe { *request = Box::into_raw(exchange).cast() };
    UCC_OK
}

/// # Safety
/// UCC calls it with a request of [`allgather`] that is not freed.
unsafe extern "C" fn test(request: *mut c_void) -> Status {
    // SAFETY: as the caller says.
    let exchange = unsafe { &mut *request.cast::<Exchange>() };
    if exchange.into.is_null() {
        return UCC_OK;
    }
    // SAFETY: the bridge lives as long as the team, which has this request.
    let bridge = unsafe { &*exchange.bridge };
    match bridge.oob.poll() {
        Poll::Pending => UCC_INPROGRESS,
        Poll::Ready(Some(all)) if Some(all.len()) == exchange.len.checked_mul(bridge.size) => {
            // SAFETY: UCC gave room for the contributions of all, and this is as much.
            unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), exchange.into, all.len()) };
            exchange.into = null_mut();
            UCC_OK
        }
        Poll::Ready(_) => UCC_ERR_NO_MESSAGE,
    }
}

/// # Safety
/// UCC calls it once with a request of [`allgather`].
unsafe extern "C" fn free(request: *mut c_void) -> Status {
    // SAFETY: as the caller says.
    drop(unsafe { Box::from_raw(request.cast::<Exchange>()) });
    UCC_OK
}

/// How the making of a team stands.
#[derive(Debug)]
pub enum Creation {
    /// It goes on; [`Context::progress`] and the exchanges of the [`OutOfBand`] carry it.
    Going(TeamCreation),
    /// It is over.
    Made(Team),
}

/// A team that is being made.
#[derive(Debug)]
pub struct TeamCreation(Team);

/// Processes that take part in collectives together. When it is dropped UCC gives it back, which takes no other process. A team that
/// is not made yet, or of which UCC still has a [`Request`](crate::Request), is left to UCC for good.
pub struct Team {
    pub(crate) library: Arc<Library>,
    pub(crate) handle: *mut c_void,
    pub(crate) size: u32,
    /// It lives as long as the team; UCC has a pointer to it.
    bridge: *mut Bridge,
    is_made: bool,
    /// Its requests that UCC has.
    pub(crate) live: Arc<AtomicUsize>,
}

// SAFETY: UCC binds a team to no thread, and only one thread at a time has this value.
unsafe impl Send for Team {}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("size", &self.size).finish_non_exhaustive()
    }
}

impl TeamCreation {
    /// The largest number of a team.
    pub const LAST_ID: u64 = (1 << 15) - 2;

    /// Begins to make a team of `size` processes, of which this one has the rank `rank`. All of them call. `id` is below
    /// [`TeamCreation::LAST_ID`], the same at all, and at none of them that of another team.
    ///
    /// # Errors
    /// What UCC says.
    pub fn begin(
        context: &Context,
        (rank, size): (u32, u32),
        id: u64,
        oob: Arc<dyn OutOfBand>,
    ) -> Result<TeamCreation, LibraryError> {
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
        // SAFETY: one context, which lives as long as the process; UCC copies the parameters.
        let status =
            unsafe { (library.symbols.team_create_post)(contexts.as_mut_ptr(), 1, &params, &mut handle) };
        if let Err(error) = library.check("ucc_team_create_post", status) {
            // SAFETY: UCC has no team that could use it.
            drop(unsafe { Box::from_raw(bridge) });
            return Err(error);
        }
        let team = Team { library, handle, size, bridge, is_made: false, live: Arc::default() };
        Ok(TeamCreation(team))
    }

    /// Goes on without waiting.
    ///
    /// # Errors
    /// What UCC says, after which there is no team. UCC keeps what it has of one that failed.
    pub fn poll(self) -> Result<Creation, LibraryError> {
        let TeamCreation(mut team) = self;
        // SAFETY: the team is being made, and UCC has not said that it is over.
        let status = unsafe { (team.library.symbols.team_create_test)(team.handle) };
        if status == UCC_OK {
            team.is_made = true;
            return Ok(Creation::Made(team));
        }
        match team.library.check("ucc_team_create_test", status) {
            Ok(()) => Ok(Creation::Going(TeamCreation(team))),
            // What was begun and failed is not destroyed: UCC would wait for what never comes.
            Err(error) => Err(error),
        }
    }
}

impl Team {
    /// Leaves it to UCC for good, whatever is under way in it.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if !self.is_made || self.live.load(Ordering::Relaxed) > 0 {
            return;
        }
        // SAFETY: it is made, and UCC has given up all its requests; the handle is not used behind this.
        let status = unsafe { (self.library.symbols.team_destroy)(self.handle) };
        if status == UCC_OK {
            // SAFETY: the team is gone, and with it all exchanges.
            drop(unsafe { Box::from_raw(self.bridge) });
        }
    }
}
