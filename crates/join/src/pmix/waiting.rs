//! Calls of PMIx within a limit of time.

use std::ffi::c_void;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::declarations::{
    OPERATION_SUCCEEDED, PmixValue, SUCCESS, Status, TYPE_BYTE_OBJECT, TYPE_PROC, TYPE_STRING,
    TYPE_UINT32,
};
use super::{PMIX, text};
use crate::manager::{Deadline, JoinError};

/// A copy of a value from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TakenAnswer {
    Nothing,
    Number(u32),
    Bytes(Vec<u8>),
    Text(String),
    /// The job of a process.
    Job(String),
    /// A value of a type that is not used here: the number of the type.
    Other(u16),
}

/// The end of a call that reports it by a callback.
#[derive(Default)]
struct PmixOutcome {
    ended: Mutex<Option<(Status, TakenAnswer)>>,
    has_ended: Condvar,
}

impl PmixOutcome {
    fn set(&self, status: Status, taken: TakenAnswer) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, taken));
        self.has_ended.notify_one();
    }

    fn wait(&self, limit: Instant) -> Option<(Status, TakenAnswer)> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(ended) = ended.take() {
                return Some(ended);
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.has_ended.wait_timeout(ended, left);
            ended = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Runs a call that reports its end by one of the callbacks of this module. `None`: it has not
/// ended within the limit; its arguments then stay in memory, as the library may read them later.
pub(super) fn run<A>(
    arguments: Box<A>,
    deadline: Deadline,
    start: impl FnOnce(&A, *mut c_void) -> Status,
) -> Option<(Status, TakenAnswer)> {
    let outcome = Arc::new(PmixOutcome::default());
    let for_callback = Arc::into_raw(outcome.clone());
    let status = start(&arguments, for_callback.cast_mut().cast());
    if status != SUCCESS {
        // SAFETY: after another status the library does not call the callback, which would have
        // taken this reference.
        drop(unsafe { Arc::from_raw(for_callback) });
        let status = if status == OPERATION_SUCCEEDED { SUCCESS } else { status };
        return Some((status, TakenAnswer::Nothing));
    }
    let ended = outcome.wait(deadline.end);
    if ended.is_none() {
        Box::leak(arguments);
    }
    ended
}

/// Takes the reference of a callback.
///
/// # Safety
/// `outcome` comes from [`run`], and no other callback of the call has run.
unsafe fn end(outcome: *mut c_void, status: Status, taken: TakenAnswer) {
    // SAFETY: `run` has given this reference away for one callback.
    let outcome = unsafe { Arc::from_raw(outcome.cast_const().cast::<PmixOutcome>()) };
    outcome.set(status, taken);
}

/// The callback of calls without a result.
pub(super) unsafe extern "C" fn on_status(status: Status, outcome: *mut c_void) {
    // SAFETY: the library calls the one callback of a call once, with the data of `run`.
    unsafe { end(outcome, status, TakenAnswer::Nothing) };
}

/// The callback of `PMIx_Get_nb`, in which the value lives as long as the callback.
pub(super) unsafe extern "C" fn on_value(
    status: Status,
    value: *const PmixValue,
    outcome: *mut c_void,
) {
    // SAFETY: the value is null or a structure of the library; the rest as in `on_status`.
    unsafe {
        let taken = if status == SUCCESS { value.as_ref().map(|value| copy(value)) } else { None };
        end(outcome, status, taken.unwrap_or(TakenAnswer::Nothing));
    }
}

/// # Safety
/// The value is one of the library: its type says which field of the union is set.
unsafe fn copy(value: &PmixValue) -> TakenAnswer {
    // SAFETY: the type says which field is set; addresses are null or valid as the value is.
    unsafe {
        match value.kind {
            TYPE_UINT32 => TakenAnswer::Number(value.data.uint32),
            TYPE_STRING => TakenAnswer::Text(text(value.data.string)),
            TYPE_PROC => match value.data.proc.as_ref() {
                Some(process) => TakenAnswer::Job(process.job()),
                None => TakenAnswer::Nothing,
            },
            TYPE_BYTE_OBJECT => {
                let (bytes, size) = (value.data.bo.bytes, value.data.bo.size);
                // No bytes can have any address.
                TakenAnswer::Bytes(match size == 0 || bytes.is_null() {
                    true => Vec::new(),
                    false => std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec(),
                })
            }
            other => TakenAnswer::Other(other),
        }
    }
}

/// Runs a call that has no limit of its own, on a thread, which stays behind if the limit passes.
pub(super) fn limited<R: Send + 'static>(
    deadline: Deadline,
    manager: &str,
    call: &'static str,
    remedy: &'static str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, JoinError> {
    let (done, result) = channel();
    // The receiver is gone if the limit has passed.
    let thread = std::thread::Builder::new().name("pmix".into()).spawn(move || {
        let _ = done.send(work());
    });
    if let Err(error) = thread {
        return Err(PMIX.call_failed(call, format!("has no thread: {error}")).into());
    }
    let left = deadline.end.saturating_duration_since(Instant::now());
    result.recv_timeout(left).map_err(|error| match error {
        RecvTimeoutError::Timeout => deadline.late(manager, call, remedy),
        RecvTimeoutError::Disconnected => {
            PMIX.call_failed(call, "has ended its thread without a result").into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmix::declarations::{ByteObject, Data, ERR_NOT_FOUND, Proc};
    use std::ptr::{null, null_mut};
    use std::time::Duration;

    const SHORT: Duration = Duration::from_millis(20);

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    /// Runs a call whose callback gets this value, on another thread.
    fn got(status: Status, value: Option<PmixValue>) -> Option<(Status, TakenAnswer)> {
        run(Box::new(value), soon(), |value, outcome| {
            let value = value.as_ref().map_or(null(), |value| &raw const *value) as usize;
            let outcome = outcome as usize;
            // SAFETY: the value is in the arguments, which live until the callback.
            std::thread::spawn(move || unsafe {
                on_value(status, value as *const PmixValue, outcome as *mut c_void);
            });
            SUCCESS
        })
    }

    fn value(kind: u16, fill: impl FnOnce(&mut Data)) -> Option<PmixValue> {
        let mut data = Data { words: [0; 3] };
        fill(&mut data);
        Some(PmixValue { kind, data })
    }

    #[test]
    fn callbacks_copy_values_of_each_type() {
        let mut bytes = *b"ab\0c";
        let bo = ByteObject { bytes: bytes.as_mut_ptr().cast(), size: 4 };
        let empty = ByteObject { bytes: null_mut(), size: 9 };
        let mut process = Proc::EMPTY;
        process.nspace[0] = b'j'.cast_signed();
        let table = [
            (value(TYPE_UINT32, |data| data.uint32 = 7), TakenAnswer::Number(7)),
            (value(TYPE_BYTE_OBJECT, |data| data.bo = bo), TakenAnswer::Bytes(b"ab\0c".to_vec())),
            (value(TYPE_BYTE_OBJECT, |data| data.bo = empty), TakenAnswer::Bytes(vec![])),
            (
                value(TYPE_STRING, |data| data.string = c"t".as_ptr().cast_mut()),
                TakenAnswer::Text("t".into()),
            ),
            (value(TYPE_PROC, |data| data.proc = &raw const process), TakenAnswer::Job("j".into())),
            (value(TYPE_PROC, |_| ()), TakenAnswer::Nothing),
            (value(99, |_| ()), TakenAnswer::Other(99)),
            (None, TakenAnswer::Nothing),
        ];
        for (value, wanted) in table {
            assert_eq!(got(SUCCESS, value), Some((SUCCESS, wanted)));
        }
        let failed = got(ERR_NOT_FOUND, value(TYPE_UINT32, |_| ()));
        assert_eq!(failed, Some((ERR_NOT_FOUND, TakenAnswer::Nothing)));
    }

    #[test]
    fn calls_without_a_callback_end_with_their_status() {
        let status = |status| run(Box::new(()), soon(), |(), _| status);
        assert_eq!(status(OPERATION_SUCCEEDED), Some((SUCCESS, TakenAnswer::Nothing)));
        assert_eq!(status(-25), Some((-25, TakenAnswer::Nothing)));
    }

    #[test]
    fn a_late_callback_finds_its_memory() {
        let mut late = null_mut();
        let ended = run(Box::new([1, 2, 3]), Deadline::after(SHORT), |_, outcome| {
            late = outcome;
            SUCCESS
        });
        assert_eq!(ended, None);
        // SAFETY: the call has succeeded, and this is its only callback.
        unsafe { on_status(SUCCESS, late) };
    }

    #[test]
    fn a_call_that_hangs_is_an_error_with_the_remedy() {
        let work = |time| move || std::thread::sleep(time);
        assert!(limited(soon(), "M", "PMIx_Init", "R", work(Duration::ZERO)).is_ok());
        let late = Deadline::after(SHORT);
        let error = limited(late, "M", "PMIx_Init", "R", work(Duration::from_secs(1))).unwrap_err();
        assert_eq!(error.to_string(), "M has not answered 'PMIx_Init' within 0.02 s; R");
        let gone = limited::<()>(soon(), "M", "PMIx_Init", "R", || {
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(gone.unwrap_err().to_string().contains("without a result"));
    }
}
