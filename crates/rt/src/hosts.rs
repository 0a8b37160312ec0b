//! A job on several hosts: the head (`mpirun`) starts an agent on each of the others, which starts the ranks there.
//!
//! | module | what it is |
//! |---|---|
//! | [`message`] | what the head and an agent tell each other: pure encoding and decoding |
//! | [`placement`] | which rank is on which host, without a system call |
//! | [`opening`] | how the stream to an agent is opened: a program such as ssh |
//! | [`head`] | the head's side until the ranks run; then it is the launcher's (`launch/far.rs`) |
//! | [`agent`] | the agent |
//! | `pieces` | images that one host has and another needs |
//! | `lifeline` | how an agent notices that the host of its head is gone |
//!
//! Descriptors never cross hosts: segments, control sockets and pipes are the agent's own. It answers its ranks what it knows,
//! and passes all else on to the head, whose state machine ([`crate::job`]) decides alone. Whatever ends the stream ends the
//! ranks of the agent.

pub mod agent;
pub(crate) mod head;
pub(crate) mod lifeline;
pub mod message;
pub mod opening;
pub(crate) mod pieces;
pub mod placement;
pub(crate) mod stream;
