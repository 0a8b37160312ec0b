//! The instruction set: what a plan is made of.
//!
//! A [`Generator`] yields [`Step`]s; an executor issues them. The agreement between the two is short:
//!
//! 1. **Issue order.** Steps are issued strictly in the order in which they are yielded. Therefore the sends to one
//!    peer and the receives from one peer match in order, and one tag is enough for a whole collective call.
//! 2. **Dependencies.** A step is issued only when what it is [`after`](Step::after) has completed. A step that must
//!    wait holds back all that follow it: a generator orders its steps with that in mind.
//! 3. **Completion.** Issued steps complete in any order. A send may complete only when its receive is there (a
//!    generator never counts on buffering), a receive when its data is in place. Copies and reductions may complete
//!    at once, or later.
//! 4. **Window.** At most [`Generator::window`] steps are issued and incomplete at any time. The executor must allow
//!    that many: a plan may need them to make progress.
//! 5. **Memory.** Two steps that may be outstanding together never touch the same unit of memory, unless both only
//!    read it. What is guaranteed complete when a step is issued is what it and the steps before it have waited for,
//!    nothing else: that a peer has answered does not say that the send to it is complete.
//! 6. **End.** After `None` the plan is over when every issued step has completed.
//!
//! A plan never sends to its own rank: that is a [`Action::Copy`].

/// What a number in a [`Span`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes of the packed signature of the buffer: the type signature (MPI-5.0 section 3.3.1) laid out without
    /// gaps. Root and leaves may describe one signature by different datatypes. Block `r` of the output of a gather
    /// begins at `r * block` bytes, wherever the user's datatype puts it.
    Bytes,
    /// Elements of the datatype of a reduction.
    Elements,
}

/// A buffer of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The user's send buffer: only read, and never used if this rank gave `MPI_IN_PLACE` for it. (The root of a
    /// scatter gives `MPI_IN_PLACE` for its receive buffer: it never uses the output.)
    Input,
    /// The user's receive buffer; for a broadcast the one buffer there is, the root's too.
    Output,
    /// Scratch memory of the plan, number `n`, of length [`Generator::temporaries`]`()[n]`; undefined at first.
    Temporary(u8),
}

impl Place {
    /// Units `start .. start + len` of this buffer.
    #[must_use]
    pub const fn span(self, start: usize, len: usize) -> Span {
        Span { place: self, start, len }
    }
}

/// A contiguous range of one buffer, in the plan's [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The buffer.
    pub place: Place,
    /// The first unit.
    pub start: usize,
    /// How many units; 0 is legal, for a message that is a mere signal.
    pub len: usize,
}

impl Span {
    /// No data: what a signal sends and receives.
    pub const NOTHING: Self = Self { place: Place::Output, start: 0, len: 0 };

    /// The first unit after the span.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.start + self.len
    }

    /// The part of this span that begins `offset` units into it and is `len` units long.
    ///
    /// # Panics
    /// If the part does not lie within the span.
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

/// What must be complete before a step is issued.
///
/// Steps are named by how far back they were issued: 1 is the step just before this one. A count always names a
/// step of the same plan. The executor keeps a list of the steps that are outstanding (never more than the window):
/// a step that is not on it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Nothing.
    None,
    /// Every earlier step.
    All,
    /// The step issued that many steps before this one.
    One(u32),
    /// Two steps, both counted back from this one.
    Two(u32, u32),
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a span to a rank of the team.
    Send {
        /// The destination's rank in the team.
        to: u32,
        /// The data.
        what: Span,
    },
    /// Receive from a rank of the team; the message is exactly as long as the span.
    Receive {
        /// The source's rank in the team.
        from: u32,
        /// Where the data goes.
        into: Span,
    },
    /// Copy one span to another of the same length.
    Copy {
        /// The source.
        from: Span,
        /// The destination; it does not overlap the source.
        into: Span,
    },
    /// `right <- left op right`, element by element. `left` is the `invec` and `right` the `inoutvec` of a user
    /// operation (MPI-5.0 section 6.9.5): the contributions of lower ranks stand on the left.
    Reduce {
        /// The left operand: only read.
        left: Span,
        /// The right operand, and the result; of the same length.
        right: Span,
    },
}

impl Action {
    /// The spans the action reads.
    #[must_use]
    pub fn reads(&self) -> [Option<Span>; 2] {
        match *self {
            Self::Send { what, .. } => [Some(what), None],
            Self::Receive { .. } => [None, None],
            Self::Copy { from, .. } => [Some(from), None],
            Self::Reduce { left, right } => [Some(left), Some(right)],
        }
    }

    /// The span the action writes.
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
pub struct Step {
    /// What must be complete before the step is issued.
    pub after: After,
    /// What the step does.
    pub action: Action,
}

/// What one rank does in one collective, step by step.
///
/// A generator is cheap to make and to keep: its state does not grow with the number of ranks or segments. It is a
/// plain value; a persistent collective clones the fresh one at each start.
pub trait Generator {
    /// The next step, or `None` when there are no more. After `None` it stays `None`.
    fn next(&mut self) -> Option<Step>;

    /// What spans and temporaries count.
    fn unit(&self) -> Unit;

    /// The lengths of the temporaries, in units: at most four, known before the first step.
    fn temporaries(&self) -> &[usize];

    /// How many steps may be issued and incomplete at once: at least 1. Both a limit and a promise, see the rules of
    /// this module.
    fn window(&self) -> usize;
}
