//! Waiting for several requests (MPI-5.0 section 3.7.5).

use crate::error::{Result, settle};

/// An operation under way: a [`Request`](crate::Request), a
/// [`ScopedRequest`](crate::ScopedRequest), or a started [`Persistent`](crate::Persistent).
pub trait Pending: sealed::Pending + Sized {
    /// The result of a wait.
    type Output;

    /// The type of `done` is private, so only this crate can call it.
    #[doc(hidden)]
    fn finish(self, done: sealed::Done) -> Result<Self::Output>;
}

pub(crate) mod sealed {
    use oxmpi_core::Process;
    use oxmpi_engine::{Completion, RequestId};
    use oxmpi_fabric::routes::Routes;

    /// The private part of the trait.
    pub trait Pending {
        fn process(&self) -> &Process<Routes>;
        fn id(&self) -> RequestId;
    }

    /// The completion of a request.
    #[derive(Debug)]
    pub struct Done(pub(crate) Completion);
}

#[track_caller]
pub(crate) fn wait<R: Pending>(request: R) -> Result<R::Output> {
    let done = settle("wait", request.process().wait_raw(request.id().raw()))?;
    request.finish(sealed::Done(done))
}

/// Waits for all requests and returns their results in order (MPI_Waitall).
///
/// ```
/// oxmpi::threads(3, |world| {
///     let receives: Vec<_> =
///         (0..3).map(|rank| world.irecv(vec![0; 2], rank, 0)).collect::<Result<_, _>>().unwrap();
///     for rank in 0..3 {
///         world.send(&[world.rank(), rank], rank, 0).unwrap();
///     }
///     let received = oxmpi::wait_all(receives).unwrap();
///     for (rank, (data, _)) in received.iter().enumerate() {
///         assert_eq!(data, &[rank as i32, world.rank()]);
///     }
/// });
/// ```
///
/// # Errors
/// The first error, after all requests are complete. To get the result of each, use a
/// [`RequestSet`].
#[track_caller]
pub fn wait_all<R: Pending>(requests: impl IntoIterator<Item = R>) -> Result<Vec<R::Output>> {
    let requests: Vec<R> = requests.into_iter().collect();
    let mut all = Ok(Vec::with_capacity(requests.len()));
    for request in requests {
        match (wait(request), &mut all) {
            (Ok(output), Ok(outputs)) => outputs.push(output),
            (Err(error), Ok(_)) => all = Err(error),
            (_, Err(_)) => {}
        }
    }
    all
}

/// A set of requests that are returned as they complete. Each has an index, in order of insertion.
///
/// ```
/// oxmpi::threads(3, |world| {
///     if world.rank() == 0 {
///         let mut parts: oxmpi::RequestSet<_> =
///             (1..3).map(|rank| world.irecv(vec![0; 1], rank, 0).unwrap()).collect();
///         while let Some((index, part)) = parts.wait_any() {
///             let (data, status) = part.unwrap();
///             let rank = index as i32 + 1;
///             assert_eq!((data[0], status.source()), (10 * rank, Some(rank)));
///         }
///     } else {
///         world.send(&[10 * world.rank()], 0, 0).unwrap();
///     }
/// });
/// ```
///
/// When the set is dropped, its requests are dropped.
#[derive(Debug)]
pub struct RequestSet<R> {
    requests: Vec<Option<R>>,
}

/// The index and the result of a completed request of a set.
pub type Indexed<R> = (usize, Result<<R as Pending>::Output>);

impl<R> Default for RequestSet<R> {
    fn default() -> Self {
        RequestSet { requests: Vec::new() }
    }
}

impl<R> FromIterator<R> for RequestSet<R> {
    fn from_iter<I: IntoIterator<Item = R>>(requests: I) -> Self {
        RequestSet { requests: requests.into_iter().map(Some).collect() }
    }
}

impl<R> Extend<R> for RequestSet<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, requests: I) {
        self.requests.extend(requests.into_iter().map(Some));
    }
}

impl<R: Pending> RequestSet<R> {
    /// An empty set.
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut set = oxmpi::RequestSet::new();
    ///     assert_eq!(set.push(world.isend(vec![1], 0, 0).unwrap()), 0);
    ///     assert_eq!(set.push(world.isend(vec![2], 0, 0).unwrap()), 1);
    ///     for data in [1, 2] {
    ///         assert_eq!(world.recv::<i32>(0, 0).unwrap().0, [data]);
    ///     }
    ///     assert_eq!(set.wait_all().len(), 2);
    ///     assert!(set.is_empty());
    /// });
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request and returns its index.
    pub fn push(&mut self, request: R) -> usize {
        self.requests.push(Some(request));
        self.requests.len() - 1
    }

    /// The number of requests that were not returned yet.
    pub fn len(&self) -> usize {
        self.requests.iter().flatten().count()
    }

    /// Whether no request is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn open(&self) -> (Vec<usize>, Vec<u64>) {
        let open = self.requests.iter().enumerate();
        open.filter_map(|(index, r)| r.as_ref().map(|r| (index, r.id().raw()))).unzip()
    }

    #[track_caller]
    fn give(&mut self, index: usize, done: oxmpi_engine::Completion) -> Option<Indexed<R>> {
        let request = self.requests.get_mut(index).and_then(Option::take)?;
        Some((index, request.finish(sealed::Done(done))))
    }

    /// Returns requests of the set. `done` has positions in `open`, with completions.
    #[track_caller]
    fn give_all(
        &mut self,
        open: &[usize],
        done: Vec<(usize, oxmpi_engine::Completion)>,
    ) -> Vec<Indexed<R>> {
        let mut given = Vec::with_capacity(done.len());
        for (at, completion) in done {
            given.extend(self.give(open[at], completion));
        }
        given
    }

    /// Any request of the set. It gives access to the process, which all requests share.
    fn any(&self) -> Option<&R> {
        self.requests.iter().flatten().next()
    }

    /// Waits for one request, and returns its index and result; `None` if the set is empty
    /// (MPI_Waitany).
    #[track_caller]
    pub fn wait_any(&mut self) -> Option<Indexed<R>> {
        let (open, ids) = self.open();
        let done = self.any()?.process().wait_any(&ids);
        let (at, completion) = expect_known(done)?;
        self.give(open[at], completion)
    }

    /// Returns one completed request, if any (MPI_Testany).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut set = oxmpi::RequestSet::new();
    ///     set.push(world.irecv(vec![0u8], 0, 0).unwrap());
    ///     assert!(set.test_any().is_none());
    ///     world.send(&[7u8], 0, 0).unwrap();
    ///     let (index, received) = loop {
    ///         if let Some(done) = set.test_any() {
    ///             break done;
    ///         }
    ///     };
    ///     assert_eq!((index, received.unwrap().0), (0, vec![7]));
    /// });
    /// ```
    #[track_caller]
    pub fn test_any(&mut self) -> Option<Indexed<R>> {
        let (open, ids) = self.open();
        let done = self.any()?.process().test_any(&ids);
        let (at, completion) = expect_known(done)??;
        self.give(open[at], completion)
    }

    /// Waits for at least one request, and returns all completed ones (MPI_Waitsome).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut set: oxmpi::RequestSet<_> =
    ///         (0..3).map(|tag| world.irecv(vec![0u8], 0, tag).unwrap()).collect();
    ///     for tag in [2, 0] {
    ///         world.send(&[7u8], 0, tag).unwrap();
    ///     }
    ///     let mut seen = Vec::new();
    ///     while seen.len() < 2 {
    ///         seen.extend(set.wait_some().into_iter().map(|(index, _)| index));
    ///     }
    ///     seen.sort();
    ///     assert_eq!((seen, set.len()), (vec![0, 2], 1));
    /// });
    /// ```
    #[track_caller]
    pub fn wait_some(&mut self) -> Vec<Indexed<R>> {
        let (open, ids) = self.open();
        let Some(any) = self.any() else { return Vec::new() };
        let done = expect_known(any.process().wait_some(&ids)).unwrap_or_default();
        self.give_all(&open, done)
    }

    /// Returns all completed requests without waiting (MPI_Testsome).
    #[track_caller]
    pub fn test_some(&mut self) -> Vec<Indexed<R>> {
        let (open, ids) = self.open();
        let Some(any) = self.any() else { return Vec::new() };
        let done = expect_known(any.process().test_some(&ids)).unwrap_or_default();
        self.give_all(&open, done)
    }

    /// Waits for all requests, and returns them in the order of their indices (MPI_Waitall).
    #[track_caller]
    pub fn wait_all(&mut self) -> Vec<Indexed<R>> {
        let mut given = Vec::with_capacity(self.requests.len());
        for (index, place) in self.requests.iter_mut().enumerate() {
            if let Some(request) = place.take() {
                given.push((index, wait(request)));
            }
        }
        given
    }
}

/// Requests of a set exist until `finish` consumes them, so the core knows them.
#[track_caller]
fn expect_known<T: Default>(answer: oxmpi_objects::error::Result<T>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => unreachable!("a set of requests: {error}; this is a defect of OxMPI"),
    }
}
