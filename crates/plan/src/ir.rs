//! The instruction set of plans.
//!
//! A [`Generator`] yields [`PlanStep`]s; an executor issues them. Both rely on these rules:
//!
//! 1. **Issue order.** Steps are issued in the order in which they are yielded. So the sends to one
//!    peer match its receives in order, and one tag is enough for a collective call.
//! 2. **Dependencies.** A step is issued only when its dependencies ([`PlanStep::after`]) are
//!    complete. A waiting step delays all later steps.
//! 3. **Completion.** Issued steps complete in any order: a send perhaps only when its receive is
//!    posted (a generator never relies on buffering), a receive when its data have arrived, a copy
//!    or reduction at once or later.
//! 4. **Window.** At most [`Generator::window`] steps are issued and incomplete at any time. The
//!    executor must allow this number, as the plan may need it to make progress.
//! 5. **Memory.** Two steps that may be outstanding together never touch the same unit of memory,
//!    unless both only read it. When a step is issued, only its own dependencies and those of
//!    earlier steps are certainly complete: an answer of a peer does not imply that the send to
//!    this peer is complete.
//! 6. **End.** After `None` the plan is complete when every issued step is complete.
//!
//! A plan never sends to its own rank: it uses [`Action::Copy`].

/// The unit of a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanUnit {
    /// Bytes of the packed signature of the buffer: the type signature (MPI-5.0 section 3.3.1)
    /// without gaps, which root and leaves may describe by different datatypes. Block `r` of the
    /// output of a gather begins at `r * block` bytes, wherever the datatype puts it in memory.
    Bytes,
    Elements,
}

/// A buffer of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanBuffer {
    /// The send buffer of the program: only read, and not used if this rank gave `MPI_IN_PLACE` for
    /// it. The root of a scatter gives `MPI_IN_PLACE` for its receive buffer, and does not use the
    /// output.
    Input,
    /// The receive buffer of the program; the only buffer of a broadcast.
    Output,
    /// Scratch memory of the plan, number `n`, of length [`Generator::temporaries`]`()[n]`;
    /// undefined at first.
    Temporary(u8),
}

impl PlanBuffer {
    /// `second` if this is `first`, otherwise `first`.
    pub(crate) fn other_of(self, [first, second]: [PlanBuffer; 2]) -> PlanBuffer {
        if self == first { second } else { first }
    }

    /// Units `start .. start + len` of this buffer.
    #[must_use]
    pub const fn span(self, start: usize, len: usize) -> Span {
        Span { place: self, start, len }
    }
}

/// A contiguous range of one buffer, in the plan's [`PlanUnit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub place: PlanBuffer,
    pub start: usize,
    /// In units; 0 for a message without data.
    pub len: usize,
}

impl Span {
    pub const NOTHING: Self = Self { place: PlanBuffer::Output, start: 0, len: 0 };

    /// The first unit after the span.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.start + self.len
    }

    /// The part of this span that begins `offset` units into it and has `len` units. Panics if the
    /// part exceeds the span.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Self {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "part {offset}+{len} of a span of {} units",
            self.len
        );
        Self { place: self.place, start: self.start + offset, len }
    }

    /// Whether the two spans share a unit.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.place == other.place
            && self.len > 0
            && other.len > 0
            && self.start < other.end()
            && other.start < self.end()
    }
}

/// The dependencies of a step.
///
/// A number is a distance back in the order of issue: 1 is the previous step. It always denotes a
/// step of the same plan. A step that is not in the executor's list of outstanding steps (never
/// more than the window) is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    None,
    All,
    /// The step issued this number of steps before.
    One(u32),
    Two(u32, u32),
}

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Send {
        to: u32,
        what: Span,
    },
    /// Receive from a rank of the team; the message has exactly the length of the span.
    Receive {
        from: u32,
        into: Span,
    },
    /// Copy a span to another one of the same length, without overlap.
    Copy {
        from: Span,
        into: Span,
    },
    /// `right <- left op right`, element by element. The contributions of lower ranks are on the
    /// left: `left` is the `invec` and `right` the `inoutvec` of a user operation (MPI-5.0 section
    /// 6.9.5).
    Reduce {
        /// Only read.
        left: Span,
        /// Also the result; of the same length.
        right: Span,
    },
}

impl Action {
    /// The spans that the action reads.
    #[must_use]
    pub fn reads(&self) -> [Option<Span>; 2] {
        match *self {
            Self::Send { what, .. } => [Some(what), None],
            Self::Receive { .. } => [None, None],
            Self::Copy { from, .. } => [Some(from), None],
            Self::Reduce { left, right } => [Some(left), Some(right)],
        }
    }

    /// The span that the action writes.
    #[must_use]
    pub fn writes(&self) -> Option<Span> {
        match *self {
            Self::Send { .. } => None,
            Self::Receive { into, .. } | Self::Copy { into, .. } => Some(into),
            Self::Reduce { right, .. } => Some(right),
        }
    }
}

/// One operation of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanStep {
    pub after: After,
    pub action: Action,
}

/// The steps of one rank in one collective. A generator is cheap to make and to keep: its state
/// does not grow with the number of ranks or segments. A persistent collective clones the initial
/// value at each start.
pub trait Generator {
    /// The next step; `None` at the end, and at each later call.
    fn next(&mut self) -> Option<PlanStep>;

    fn unit(&self) -> PlanUnit;

    /// The lengths of the temporaries, in units: at most four, known before the first step.
    fn temporaries(&self) -> &[usize];

    /// The number of steps that may be issued and incomplete at once, at least 1 (rule 4 of this
    /// module).
    fn window(&self) -> usize;
}
