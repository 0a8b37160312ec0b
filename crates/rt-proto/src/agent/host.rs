//! Orders of the head to the launcher of a host, and its reports.
//!
//! The head gives them to the launcher of its own host in its process, and sends them to an agent
//! as [`ToAgent::Host`](super::ToAgent::Host); the agent sends its reports as
//! [`FromAgent::Host`](super::FromAgent::Host).

use crate::held::HeldHost;
use crate::process::Exit;
use serde::{Deserialize, Serialize};

/// An order of the head to the launcher of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostOrder {
    /// Sends a signal to processes, on this host and others.
    Signal { number: i32, ranks: Vec<u32> },
    /// Standard input of a process. Answered by [`HostReport::InputTaken`] or
    /// [`HostReport::InputClosed`].
    Input {
        rank: u32,
        /// Empty: the end.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A failure notice about `count` further processes, which the others survive.
    Died { count: u32 },
    /// Requests a step of a quiescence from all processes.
    Step {
        number: u32,
        /// Whether the step closes connections: each process needs a new listener then.
        closes: bool,
    },
    /// Calls the program's checkpoint functions. Answered by [`HostReport::Returned`].
    CallFunctions {
        /// The number of the call, which identifies the functions.
        number: u32,
    },
    /// Stops all processes, and forwards all their messages and output. Answered by
    /// [`HostReport::Stopped`].
    Hold {
        /// Numbers the attempts, also in the answer.
        round: u32,
    },
    /// Describes the stopped processes. Answered by [`HostReport::Described`].
    Describe { round: u32 },
    /// Lets the stopped processes run.
    GoOn,
    /// An order for the relays of the host (rpi lamd).
    Relay {
        /// Of `oxmpi_wire::relay`, encoded.
        order: Vec<u8>,
    },
    /// The job with these numbers is over: only state for later requests is kept.
    ReleaseJob { base: u32, size: u32 },
    /// No request will name these processes any more.
    Forget { base: u32, size: u32 },
}

/// A report of the launcher of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostReport {
    /// Output of a process.
    Output {
        rank: u32,
        is_error: bool,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A process has read this much of its standard input.
    InputTaken { rank: u32, bytes: u64 },
    /// A process reads no further standard input.
    InputClosed { rank: u32 },
    /// The processes have no new listeners for a step that closes connections. They get this error
    /// when they request the listeners.
    NoListeners { reason: String },
    /// A call of the program's checkpoint functions has returned on all ranks of the host.
    Returned {
        number: u32,
        /// The value of each rank; an error if a rank cannot call them.
        values: Result<Vec<(u32, i32)>, String>,
    },
    /// All processes are stopped, and all their messages and output were forwarded before.
    Stopped {
        /// Numbers the attempts.
        round: u32,
        result: Result<(), String>,
    },
    /// The answer to [`HostOrder::Describe`].
    Described { round: u32, description: Result<HeldHost, String> },
    /// A notice of a relay on the host.
    Relay {
        /// That of the relay.
        node: u32,
        /// Of `oxmpi_wire::relay`, encoded.
        notice: Vec<u8>,
    },
    /// A relay on the host has ended.
    RelayEnded {
        node: u32,
        pid: u32,
        exit: Exit,
        /// The error that it has reported before.
        why: Option<String>,
    },
}

impl HostOrder {
    /// Whether the order must reach its host even if an agent between is lost. Orders about images
    /// and checkpoint functions need not, as the loss of an agent ends them.
    pub fn is_kept(&self) -> bool {
        match self {
            HostOrder::Signal { .. }
            | HostOrder::Input { .. }
            | HostOrder::Died { .. }
            | HostOrder::Step { .. }
            | HostOrder::GoOn
            | HostOrder::Relay { .. }
            | HostOrder::ReleaseJob { .. }
            | HostOrder::Forget { .. } => true,
            HostOrder::CallFunctions { .. }
            | HostOrder::Hold { .. }
            | HostOrder::Describe { .. } => false,
        }
    }
}

impl HostReport {
    /// Whether the report must reach the head even if an agent between is lost.
    pub fn is_kept(&self) -> bool {
        match self {
            HostReport::Output { .. }
            | HostReport::InputTaken { .. }
            | HostReport::InputClosed { .. }
            | HostReport::Relay { .. }
            | HostReport::RelayEnded { .. } => true,
            HostReport::NoListeners { .. }
            | HostReport::Returned { .. }
            | HostReport::Stopped { .. }
            | HostReport::Described { .. } => false,
        }
    }
}
