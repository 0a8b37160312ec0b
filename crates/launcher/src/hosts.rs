//! A job on several hosts: the head (`mpirun`) starts an agent on each other host, which starts the
//! ranks there.
//!
//! | module | contents |
//! |---|---|
//! | [`named`] | hosts as users name them, and which of them are this machine |
//! | [`placement`] | which rank is on which host, without system calls |
//! | [`opening`] | how the stream to an agent is opened: by a program such as ssh |
//! | [`head`] | the head's side until the ranks run; after that the launcher's (`launch/far.rs`) |
//! | [`agent`] | the agent |
//! | `pieces` | images that one host has and another needs |
//! | `lifeline` | how an agent notices that the host of its head is gone |
//!
//! The messages between the head and an agent are in the crate `oxmpi-rt-proto`. Descriptors never
//! cross hosts: segments, control sockets and pipes are the agent's own. The agent answers its
//! ranks' requests if it can, and forwards all others to the head, whose state machine
//! ([`crate::job`]) alone decides. When the stream ends for any reason, the agent ends its ranks.

pub mod agent;
pub(crate) mod head;
pub(crate) mod lifeline;
pub mod named;
pub mod opening;
pub(crate) mod pieces;
pub mod placement;
