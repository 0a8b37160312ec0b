//! The wait and test families (MPI-5.0 sections 3.7.3 to 3.7.5).
//!
//! A request is passed as its raw number. MPI_REQUEST_NULL counts as complete with an empty status;
//! calls for several requests skip it.

use crate::errors::of_fault;
use crate::process::{Domain, Process};
use crate::wait_reason::Awaited;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, Fault, Received, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};

/// MPI_REQUEST_NULL as a raw number.
pub const NULL: u64 = abi::MPI_REQUEST_NULL as u64;

/// The polls of one collective or peer before a wait polls everything: about two microseconds.
const SHORT_POLLS: u32 = 100;

/// A complete request of an array, by its index.
pub type Indexed = (usize, Completion);

/// The error of a failed operation.
pub fn error_of(completion: &Completion) -> Option<MpiError> {
    completion.fault.map(of_fault)
}

pub(crate) fn outcome(completion: Completion) -> Result<Completion> {
    error_of(&completion).map_or(Ok(completion), Err)
}

#[cold]
pub(crate) fn stale(request: u64) -> MpiError {
    let why = "it is no request of this process, or it was completed or freed before";
    bad_handle(ValueKind::Request, request, why)
}

fn take<F: Fabric>(domain: &mut Domain<F>, request: u64) -> Result<Option<Completion>> {
    if request == NULL {
        return Ok(Some(Completion::EMPTY));
    }
    domain.lane.test(RequestId::from_raw(request)).ok_or_else(|| stale(request))
}

fn counts<F: Fabric>(domain: &Domain<F>, request: u64) -> bool {
    request != NULL && !domain.lane.is_inactive(RequestId::from_raw(request))
}

fn any_counts<F: Fabric>(process: &Process<F>, requests: &[u64]) -> Result<bool> {
    let domain = process.domain.lock();
    check_all(process, &domain, requests)?;
    Ok(requests.iter().any(|request| counts(&domain, *request)))
}

fn peek<F: Fabric>(domain: &mut Domain<F>, request: u64) -> Result<Option<Completion>> {
    if request == NULL {
        return Ok(Some(Completion::EMPTY));
    }
    domain.lane.peek(RequestId::from_raw(request)).ok_or_else(|| stale(request))
}

fn first_of<F: Fabric>(
    domain: &mut Domain<F>,
    requests: &[u64],
    get: impl Fn(&mut Domain<F>, u64) -> Result<Option<Completion>>,
) -> Result<Option<Indexed>> {
    for (at, &request) in requests.iter().enumerate() {
        if counts(domain, request)
            && let Some(completion) = get(domain, request)?
        {
            return Ok(Some((at, completion)));
        }
    }
    Ok(None)
}

fn take_some<F: Fabric>(domain: &mut Domain<F>, requests: &[u64]) -> Result<Vec<Indexed>> {
    let mut done = Vec::new();
    for (at, &request) in requests.iter().enumerate() {
        // A request that is twice in the list is freed once. `COMPLETE` stands for many requests.
        let taken = |done: &[Indexed]| done.iter().any(|(before, _)| requests[*before] == request);
        if counts(domain, request) && (request == RequestId::COMPLETE.raw() || !taken(&done)) {
            done.extend(take(domain, request)?.map(|completion| (at, completion)));
        }
    }
    Ok(done)
}

fn peek_some<F: Fabric>(domain: &mut Domain<F>, requests: &[u64]) -> Result<Vec<Indexed>> {
    let mut done = Vec::new();
    for (at, &request) in requests.iter().enumerate() {
        if counts(domain, request) {
            done.extend(peek(domain, request)?.map(|completion| (at, completion)));
        }
    }
    Ok(done)
}

/// Checks all handles before a wait, which may otherwise complete some requests before the error.
fn check_all<F: Fabric>(process: &Process<F>, domain: &Domain<F>, requests: &[u64]) -> Result<()> {
    if !process.checks {
        return Ok(());
    }
    check_each(domain, requests.iter().copied())
}

#[inline]
fn check_each<F: Fabric>(
    domain: &Domain<F>,
    requests: impl Iterator<Item = u64> + Clone,
) -> Result<()> {
    for (at, request) in requests.clone().enumerate() {
        if request != NULL && !domain.lane.knows(RequestId::from_raw(request)) {
            return Err(stale(request).within(format_args!("array_of_requests[{at}]")));
        }
    }
    check_origins(domain, requests)
}

/// Checks that the requests of a call belong all to one session or all to the World Model.
fn check_origins<F: Fabric>(domain: &Domain<F>, requests: impl Iterator<Item = u64>) -> Result<()> {
    if !domain.has_sessions {
        return Ok(());
    }
    let mut first = None;
    for (at, request) in requests.enumerate() {
        let context = domain.lane.context_of(RequestId::from_raw(request));
        let Some(origin) = context.and_then(|context| domain.origin_of(context)) else { continue };
        first.get_or_insert(origin).check_same(
            origin,
            abi::MPI_ERR_REQUEST,
            &format_args!("request {at} of the array").to_string(),
        )?;
    }
    Ok(())
}

impl<F: Fabric> Process<F> {
    /// Waits for a request.
    pub fn wait(&self, request: RequestId) -> Result<Completion> {
        let completion = self.wait_raw(request.raw())?;
        let completion = self.given_up(request, completion);
        self.error_of(&completion).map_or(Ok(completion), Err)
    }

    /// [`error_of`], with the text that the error handler of the file has noted.
    pub fn error_of(&self, completion: &Completion) -> Option<MpiError> {
        let error = error_of(completion)?;
        let Some(Fault::File { class, note }) = completion.fault else { return Some(error) };
        let known = self.errhandler_of(completion).and_then(|cell| cell.noted(note));
        Some(known.map_or(error, |text| MpiError::new(class, text)))
    }

    /// The status of a successful request; the request is freed. `None` means that nothing
    /// happened, because the request is open, failed or generalized; use [`Process::wait_raw`] or
    /// [`Process::test_raw`].
    #[inline]
    pub fn take_good(&self, request: u64) -> Option<Received> {
        self.domain.lock().lane.take_good(RequestId::from_raw(request))
    }

    /// [`Process::take_good`] for requests in order, which may be persistent. `report` receives the
    /// index of each, its status, and whether the request stays. Returns the number of requests
    /// before the first that is not successful.
    #[inline(always)]
    pub fn take_good_ones(
        &self,
        requests: impl Iterator<Item = u64>,
        mut report: impl FnMut(usize, Received, bool),
    ) -> usize {
        let mut domain = self.domain.lock();
        let mut taken = 0;
        for request in requests {
            let id = RequestId::from_raw(request);
            if request == NULL || id == RequestId::COMPLETE {
                report(taken, Received::NOTHING, false);
            } else if let Some(received) = domain.lane.take_good(id) {
                report(taken, received, false);
            } else if let Some(received) = domain.lane.take_good_started(id) {
                report(taken, received, true);
            } else {
                break;
            }
            taken += 1;
        }
        taken
    }

    /// [`Process::take_good`] for the home thread; `None` in a process with threads.
    #[inline(always)]
    pub fn home_take_good(&self, request: u64) -> Option<Received> {
        self.domain.home()?.lane.take_good(RequestId::from_raw(request))
    }

    /// Waits for a request (MPI_Wait). Returns the completion of a failed operation; see
    /// [`error_of`].
    #[inline]
    pub fn wait_raw(&self, request: u64) -> Result<Completion> {
        if request == NULL || request == RequestId::COMPLETE.raw() {
            return Ok(Completion::EMPTY);
        }
        if let Some(received) = self.take_good(request) {
            return Ok(received.into());
        }
        if !self.is_oversubscribed
            && !self.is_threaded()
            && self.polls_shortly()
            && let Some(received) = self.take_good(request)
        {
            return Ok(received.into());
        }
        if self.poll_for(request)
            && let Some(completion) = take(&mut self.domain.lock(), request)?
        {
            return Ok(completion);
        }
        self.wait_for(&Awaited::Request(request), |domain| take(domain, request).transpose())
    }

    /// While the request is a posted receive from one process, polls that process alone for a short
    /// time, so that later messages stay in its ring for later receives. Returns whether the
    /// request may be complete.
    #[inline(never)]
    pub fn poll_for(&self, request: u64) -> bool {
        let request = RequestId::from_raw(request);
        let Some(door) = self.door.as_ref().filter(|door| door.spins()) else {
            return false;
        };
        let wait = door.begin();
        for _ in 0..SHORT_POLLS {
            let (from, go_on) = self.enter(|domain| {
                let from = domain.lane.progress_for(request);
                if !domain.windows.is_empty() {
                    domain.serve();
                }
                (from, !domain.awaits_above() && !domain.lane.is_look_due(0))
            });
            let Some(from) = from else { return true };
            match self.comes_soon(from) {
                Some(true) if go_on => {}
                None if go_on => wait.pass_gap(),
                _ => return false,
            }
        }
        false
    }

    /// If a collective in shared memory is the only open operation above the lane, polls that
    /// collective for a short time. Returns whether it is complete.
    #[inline]
    fn polls_shortly(&self) -> bool {
        for _ in 0..SHORT_POLLS {
            match self.domain.lock().advance_sole() {
                None => return false,
                Some(true) => return true,
                Some(false) => std::hint::spin_loop(),
            }
        }
        false
    }

    /// MPI_Test.
    pub fn test_raw(&self, request: u64) -> Result<Option<Completion>> {
        self.look_again(|domain| take(domain, request), |answer| matches!(answer, Ok(None)))
    }

    /// MPI_Request_get_status.
    pub fn peek_raw(&self, request: u64) -> Result<Option<Completion>> {
        self.look_again(|domain| peek(domain, request), |answer| matches!(answer, Ok(None)))
    }

    /// The completions of all requests if all are complete (MPI_Request_get_status_all).
    pub fn peek_all(&self, requests: &[u64]) -> Result<Option<Vec<Completion>>> {
        check_all(self, &self.domain.lock(), requests)?;
        self.look_again(
            |domain| requests.iter().map(|request| peek(domain, *request)).collect(),
            |answer| matches!(answer, Ok(None)),
        )
    }

    /// MPI_Request_get_status_any. The outer `None` means that no request is active.
    pub fn peek_any(&self, requests: &[u64]) -> Result<Option<Option<Indexed>>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        self.look_again(
            |domain| first_of(domain, requests, peek),
            |answer| matches!(answer, Ok(None)),
        )
        .map(Some)
    }

    /// MPI_Request_get_status_some. `None` means that no request is active.
    pub fn peek_some(&self, requests: &[u64]) -> Result<Option<Vec<Indexed>>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        self.look_again(
            |domain| peek_some(domain, requests),
            |answer| matches!(answer, Ok(done) if done.is_empty()),
        )
        .map(Some)
    }

    /// Checks that all requests exist, except after [`Process::without_checks`].
    pub fn check_requests(&self, requests: impl Iterator<Item = u64> + Clone) -> Result<()> {
        if !self.checks {
            return Ok(());
        }
        check_each(&self.domain.lock(), requests)
    }

    /// Waits for all requests and frees all, even failed ones (MPI_Waitall). Errors:
    /// MPI_ERR_REQUEST before any wait if a request does not exist.
    pub fn wait_all(
        &self,
        requests: &[u64],
        mut done: impl FnMut(usize, Completion),
    ) -> Result<()> {
        check_all(self, &self.domain.lock(), requests)?;
        for (at, &request) in requests.iter().enumerate() {
            let taken = match self.take_good(request) {
                Some(received) => received.into(),
                None => {
                    let awaited = Awaited::All(&requests[at..]);
                    self.wait_for(&awaited, |domain| take(domain, request).transpose())?
                }
            };
            done(at, taken);
        }
        Ok(())
    }

    /// Tests all requests, and frees them only if all are complete (MPI_Testall).
    pub fn test_all(
        &self,
        requests: &[u64],
        mut done: impl FnMut(usize, Completion),
    ) -> Result<bool> {
        let question = |domain: &mut Domain<F>| {
            if self.checks {
                check_origins(domain, requests.iter().copied())?;
            }
            for (at, &request) in requests.iter().enumerate() {
                let of = |error: MpiError| error.within(format_args!("array_of_requests[{at}]"));
                if peek(domain, request).map_err(of)?.is_none() {
                    return Ok(false);
                }
            }
            for (at, &request) in requests.iter().enumerate() {
                if let Some(completion) = take(domain, request)? {
                    done(at, completion);
                }
            }
            Ok(true)
        };
        self.look_again(question, |answer| matches!(answer, Ok(false)))
    }

    /// MPI_Waitany. `None` means that no request is active.
    pub fn wait_any(&self, requests: &[u64]) -> Result<Option<Indexed>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        let first = |domain: &mut Domain<F>| first_of(domain, requests, take).transpose();
        self.wait_for(&Awaited::Any(requests), first).map(Some)
    }

    /// MPI_Testany. The outer `None` means that no request is active.
    pub fn test_any(&self, requests: &[u64]) -> Result<Option<Option<Indexed>>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        self.look_again(
            |domain| first_of(domain, requests, take),
            |answer| matches!(answer, Ok(None)),
        )
        .map(Some)
    }

    /// MPI_Waitsome. `None` means that no request is active.
    pub fn wait_some(&self, requests: &[u64]) -> Result<Option<Vec<Indexed>>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        let some =
            self.wait_for(&Awaited::Any(requests), |domain| match take_some(domain, requests) {
                Ok(done) if done.is_empty() => None,
                other => Some(other),
            })?;
        Ok(Some(some))
    }

    /// MPI_Testsome. `None` means that no request is active.
    pub fn test_some(&self, requests: &[u64]) -> Result<Option<Vec<Indexed>>> {
        if !any_counts(self, requests)? {
            return Ok(None);
        }
        self.look_again(
            |domain| take_some(domain, requests),
            |answer| matches!(answer, Ok(done) if done.is_empty()),
        )
        .map(Some)
    }

    /// The context of a request or matched message, for the error handler of its communicator.
    pub fn context_of(&self, request: u64) -> Option<u32> {
        self.domain.lock().lane.context_of(RequestId::from_raw(request))
    }

    /// The request or matched message with this integer (MPI_Request_fromint, MPI_Message_fromint).
    pub fn request_of_int(&self, int: u32) -> u64 {
        self.domain.lock().lane.request_of_int(int).raw()
    }

    /// Frees a request when its operation ends (MPI_Request_free).
    pub fn free_request(&self, request: u64) -> Result<()> {
        let id = RequestId::from_raw(request);
        let mut domain = self.domain.lock();
        if domain.lane.is_external(id) {
            return Err(MpiError::new(
                abi::MPI_ERR_REQUEST,
                "the request of a nonblocking collective must be completed; it cannot be freed",
            ));
        }
        let persistent_key = domain.lane.external_key(id);
        if persistent_key.is_some() && !domain.lane.is_inactive(id) {
            return Err(MpiError::new(
                abi::MPI_ERR_REQUEST,
                "the request is active: complete the persistent collective or partitioned message before you free it",
            ));
        }
        match domain.lane.detach(id) {
            true => {
                let Domain { lane, persistent, .. } = &mut *domain;
                persistent_key.into_iter().for_each(|key| persistent.remove(key, lane));
                Ok(())
            }
            false => Err(stale(request)),
        }
    }

    /// Ends a request at once, for a program that panics. After this the library does not use its
    /// buffer. An open message is lost; after a collective its communicator is unusable.
    pub fn abandon(&self, request: u64) {
        if request != NULL && request != RequestId::COMPLETE.raw() {
            // Another thread may be in the user's function of a collective; wait until it returns.
            while !self.enter(|domain| domain.abandon(RequestId::from_raw(request))) {
                std::thread::yield_now();
            }
        }
    }

    /// Cancels a receive or send that is not matched (MPI_Cancel). For a send that has left, the
    /// receiver answers at its next progress. Errors: MPI_ERR_REQUEST if there is no such request,
    /// or if it is the request of a collective or a partitioned message (MPI-5.0, "Nonblocking
    /// Collective Operations").
    pub fn cancel(&self, request: u64) -> Result<()> {
        let id = RequestId::from_raw(request);
        self.enter(|domain| {
            peek(domain, request)?;
            if domain.lane.is_external(id) || domain.lane.external_key(id).is_some() {
                let text =
                    "the request is that of a collective or a partitioned message, which cannot be cancelled";
                return Err(MpiError::new(abi::MPI_ERR_REQUEST, text));
            }
            domain.lane.cancel(id);
            Ok(())
        })
    }
}
