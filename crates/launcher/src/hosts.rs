//! A job on several hosts: the head (`mpirun`) and the agents on the other hosts are a tree. The
//! head starts the agents of some hosts, these the agents of others, and each agent the ranks of
//! its host.
//!
//! | module | contents |
//! |---|---|
//! | [`named`] | hosts as users name them, and which of them are this machine |
//! | [`placement`] | which rank is on which host, without system calls |
//! | `tree` | which agent starts which, and the answers of branches, without system calls |
//! | [`opening`] | how the stream to an agent is opened: by a program such as ssh |
//! | `child` | an agent as the process sees it that has started it |
//! | `head` | an agent that the head has started, or that has called it |
//! | `branches` | all agents of the head, and the agents that have lost their parent |
//! | [`agent`] | the agent |
//! | `callers` | the head's listener for agents that it has not started |
//! | `encrypted` | a connection until its owner makes a stream of it |
//! | `joiners` | the processes of another launcher's job that become ranks |
//! | [`step`] | the agents that Slurm's `srun` starts in an allocation |
//! | `pieces` | images that one host has and another needs |
//! | `lifeline` | how an agent notices that the host of its parent is gone |
//! | `lifelines` | the parent's side of it |
//!
//! The messages between the head and the agents are in the crate `oxmpi-rt-proto`. Descriptors
//! never cross hosts: segments, control sockets and pipes are the agent's own. The agent answers
//! its ranks' requests if it can, and forwards all others to the head, whose state machine
//! ([`crate::job`]) alone decides. When the stream from its parent ends for any reason, an agent
//! ends its ranks, and so do the agents below it.

pub mod agent;
pub(crate) mod branches;
pub mod callers;
pub(crate) mod child;
pub(crate) mod encrypted;
pub(crate) mod head;
pub(crate) mod joiners;
pub(crate) mod lifeline;
pub(crate) mod lifelines;
pub mod named;
pub mod opening;
pub(crate) mod pieces;
pub mod placement;
pub mod step;
pub(crate) mod tree;
