//! What a transport is: the trait that each of them implements, and the capabilities that it may have beside it.

use crate::{Connected, Counts, MatchingTransport, Message, RemoteAccess, Sent, Sink, Taken, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::net::Listener;
use oxmpi_wire::Tags;
use std::fmt::Debug;
use std::io;

/// How long messages to a peer may be, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The body of an eager frame.
    pub eager: usize,
    /// What of a longer message goes with its announcement ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)). The receiver has it when
    /// it asks for the rest.
    pub announced: usize,
}

/// Moves frames between this process and its peers, in both directions.
///
/// Those that a process has are chosen when it starts; to which peers each of them is the route is decided by
/// [`Routes`](crate::routes::Routes). What a transport promises stands at the head of this crate. Shared memory is no `Transport`: it is known
/// by its type, as the calls on its path cannot afford a jump through a table.
pub trait Transport: Membership + Statistics + Debug + Send {
    /// Its name, as the user selects it.
    fn name(&self) -> &'static str;

    /// Whether a poll costs a system call. Those that do are polled less often where others are polled as well, and are the route to
    /// a peer only if shared memory is not ([`Offer::memory`](crate::Offer::memory)).
    fn polls_kernel(&self) -> bool {
        true
    }

    /// Whether this peer can be reached by it at all.
    fn reaches(&self, _peer: u32) -> bool {
        true
    }

    /// How long messages to a peer may be.
    fn limits(&self, to: u32) -> Limits;

    /// How long the body of the next [`Frame::Data`](oxmpi_wire::Frame::Data) to a peer may be, bytes: it may depend on the room there is.
    fn piece_limit(&mut self, to: u32) -> usize;

    /// Sends a message, or says that it cannot now.
    ///
    /// # Errors
    /// If the peer cannot be reached at all.
    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable>;

    /// Sends a contiguous eager message if that can be done at once. `context` is the receiver's index, `sequence` the message's number
    /// modulo 256. `false`: nothing happened, use [`Transport::send`].
    fn send_now(&mut self, _to: u32, _context: u32, _tag: i32, _sequence: u8, _bytes: Bytes<'_>) -> bool {
        false
    }

    /// Takes the next message from a peer straight into the buffer of a receive, if it is an eager one of this context and one of
    /// these tags and fits; of a long one only the beginning may have come. The caller has made sure that nothing older of that
    /// peer is anywhere else.
    fn receive_now(&mut self, _from: u32, _context: u32, _tags: Tags, _into: BytesMut<'_>) -> Taken {
        Taken::Other
    }

    /// The buffers that were lent with messages of this token, or posted by [`MatchingTransport::trecv`], may not be used any more,
    /// though these are perhaps not over.
    fn release(&mut self, _token: u64) {}

    /// Hands up what has come. It may leave out the peer `except`, whose messages the caller takes itself
    /// ([`Transport::receive_now`]). Returns whether anything had come.
    fn poll(&mut self, except: Option<u32>, sink: &mut dyn Sink) -> bool;

    /// The next poll shall poll everything, also what needs a system call: it is the last one for some time.
    fn poll_all_next(&mut self) {}

    /// The process will sleep after the poll that was in vain: whatever comes from now on wakes it. `false`: it must not, as
    /// something has come already, which the next poll hands up.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// Whether data that were taken ([`Sent::Later`]) wait for room, and nobody may wake this process when there is some, or nobody
    /// wakes it when something comes: its sleep must be short.
    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages wait for room to this peer. Returns whether it will be woken when there is
    /// some; if not, the sleep must be short.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }

    /// From now on several threads may call: one of them may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    /// Changes the longest eager message from now on, bytes, where the transport has such a setting.
    fn set_eager_limit(&mut self, _bytes: usize) {}

    /// The sends and receives by tag, if its network matches.
    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        None
    }

    /// Its connections, if it has some that can be closed and made again.
    fn connections(&mut self) -> Option<&mut dyn Connections> {
        None
    }

    /// Access to the memory of peers, if its adapter can do that without their help.
    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// What it keeps of memory whose end it hears of, if memory has to be registered for it.
    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        None
    }
}

/// Memory of this process that stays where it is until the process itself gives it back, such as that of MPI_Alloc_mem: a transport whose
/// adapter needs memory registered may keep the registration for the next message. Of all other memory it cannot know when it goes.
pub trait LastingMemory {
    /// This memory, in one piece, stays until [`LastingMemory::forget_memory`].
    fn keep_memory(&mut self, memory: &UserBuf);

    /// The memory that begins at this address goes. When this returns nothing of it is registered, and no adapter reads or writes it.
    fn forget_memory(&mut self, start: usize);
}

/// Who takes part: peers come, go and die. A transport without state for that needs nothing of it: of deaths that it does not see
/// ([`Sink::lost`]) the launcher hears.
pub trait Membership {
    /// Whether the peer matches nothing any more of what this process has sent it so far: its program has finalised MPI. What
    /// it had sent by then has come with the next poll. `false` if this process does not know.
    fn has_left(&mut self, _peer: u32) -> bool {
        false
    }

    /// As [`Membership::has_left`], for ever: its program ends, and no session of it follows.
    fn has_ended(&mut self, peer: u32) -> bool {
        self.has_left(peer)
    }

    /// This process has a communicator with a process of another job now.
    fn attach(&mut self, _peer: u32) {}

    /// This process gives up its last communicator with a process of another job: whether that has all that it needs, or is
    /// gone. If not, poll and ask again.
    fn settle(&mut self, _peer: u32) -> bool {
        true
    }

    /// This process has no communicator with a process of another job any more: neither waits for the other, until
    /// [`Membership::attach`].
    fn detach(&mut self, _peer: u32) {}

    /// The process sends nothing more: sees that all it has sent arrives, and then takes leave of its peers. Returns
    /// whether that is done; if not, poll and ask again.
    fn leave(&mut self) -> bool {
        true
    }

    /// The process sends nothing for some time, and may not poll either: sees that all it has sent arrives, and that its
    /// peers know what it has received. Returns whether that is done; if not, poll and ask again. Unlike after
    /// [`Membership::leave`] everything can go on later.
    fn rest(&mut self) -> bool {
        true
    }

    /// Why messages were lost that had counted as sent, if some were: a peer that runs could not be reached for so long that it was
    /// given up.
    fn lost_messages(&mut self) -> Option<String> {
        None
    }

    /// The launcher says that this peer has died: hands up what it had sent, as far as polls do not do that.
    fn await_end(&mut self, _peer: u32, _sink: &mut dyn Sink) {}

    /// Gives up what was kept of a peer, *which must be known to be dead*: nothing is sent to it any more.
    fn bury(&mut self, _peer: u32) {}
}

/// What a transport can say of itself, for tools.
pub trait Statistics {
    /// Adds its numbers to those of others.
    fn count(&mut self, _counts: &mut Counts) {}

    /// Its numbers alone.
    fn counts(&mut self) -> Counts {
        let mut counts = Counts::default();
        self.count(&mut counts);
        counts
    }

    /// From now on connections that are made are noted for [`Statistics::take_connections`], or no longer.
    fn watch_connections(&mut self, _watch: bool) {}

    /// Takes the connections that were made since the last time, the oldest first, and how many were not noted because
    /// too many waited already.
    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        (Vec::new(), 0)
    }
}

/// Connections that can be closed, while nothing is under way, and made again later.
pub trait Connections {
    /// Others can connect to this `listener`, too.
    ///
    /// # Errors
    /// If it cannot be watched.
    fn listen_also(&mut self, listener: Listener) -> io::Result<()>;

    /// To how many listeners others can connect.
    fn listeners(&self) -> usize;

    /// Sees that all that was sent arrives. Returns whether that is done; if not, poll and ask again. From then on a connection
    /// that ends is missed by nobody, and stays away. The caller sends nothing before [`Connections::resume`].
    fn quiesce(&mut self) -> bool;

    /// Ends all connections, and listens no more: nothing of them is left with the kernel. All who have a connection with this
    /// process have been quiet before.
    fn give_up_connections(&mut self, sink: &mut dyn Sink);

    /// The same where the process was restored from an image, which keeps none of them: nobody was quiet, and what was under way is sent
    /// again over new ones.
    fn give_up_lost_connections(&mut self, sink: &mut dyn Sink);

    /// Connections are made again, as they are needed; where its peers are now it asks anew. Others connect to the `listeners`,
    /// one for each that there was ([`Connections::listeners`]).
    ///
    /// # Errors
    /// If one of them cannot be watched.
    fn listen_anew(&mut self, listeners: Vec<Listener>) -> io::Result<()>;

    /// The process may send again from now on: opens what no image has, if the transport needs such.
    ///
    /// # Errors
    /// Why it cannot, for a person.
    fn resume(&mut self) -> Result<(), String> {
        Ok(())
    }
}
