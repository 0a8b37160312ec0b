//! How sockets are used.

use super::Secret;
use crate::encryption;
use crate::whereabouts::Whereabouts;
use oxmpi_param::Params;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::Encryption;
use std::time::Duration;

/// How sockets are used.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// Longest eager message, bytes.
    pub eager_limit: usize,
    /// Bytes that the kernel shall buffer for each socket and direction, if not as many as it likes.
    pub buffers: Option<usize>,
    /// How long to try to reach a peer before it counts as lost.
    pub patience: Duration,
    /// Which connections this side wants to be encrypted.
    pub encrypt: Encryption,
}

impl TcpSettings {
    /// Those that the parameters say.
    pub fn of(params: &Params) -> TcpSettings {
        TcpSettings {
            eager_limit: params.sockets_short(),
            buffers: Some(params.socket_buffers()),
            encrypt: encryption(params),
            ..TcpSettings::default()
        }
    }
}

/// Whether one side wants this connection to be encrypted. What is compared for [`Encryption::BetweenHosts`] are the addresses at both
/// ends: within a host, or a network namespace, they are the same or those of the loopback. The names of hosts say nothing of the
/// network between two namespaces.
pub(super) fn wants_encryption(encrypt: Encryption, socket: &Socket) -> bool {
    match encrypt {
        Encryption::Never => false,
        Encryption::BetweenHosts => !socket.is_within_host(),
        Encryption::Always => true,
    }
}

impl Default for TcpSettings {
    fn default() -> Self {
        TcpSettings {
            eager_limit: 65535,
            buffers: Some(65535),
            patience: Duration::from_secs(10),
            encrypt: Encryption::default(),
        }
    }
}

/// Finds a process; the error is for a person.
pub type Find = Box<dyn FnMut(u32) -> Result<Whereabouts, String> + Send>;

/// By which secret processes of another launcher, whose jobs have this name, prove who they are; `None` if that is not known.
pub type SecretOf = Box<dyn FnMut(u64) -> Option<Secret> + Send>;
