use super::Secret;
use crate::addresses::PeerLocation;
use crate::encryption;
use oxmpi_param::Params;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::Encryption;
use std::time::Duration;

/// The settings of sockets.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    pub eager_limit: usize,
    /// The bytes that the kernel shall buffer for each socket and direction; `None`: its default.
    pub buffers: Option<usize>,
    /// The longest time for attempts to reach a peer before it counts as lost.
    pub patience: Duration,
    pub encrypt: Encryption,
}

impl TcpSettings {
    /// The settings that the parameters state.
    pub fn of(params: &Params) -> TcpSettings {
        TcpSettings {
            eager_limit: params.sockets_short(),
            buffers: Some(params.socket_buffers()),
            encrypt: encryption(params),
            ..TcpSettings::default()
        }
    }
}

/// Whether one side wants this connection encrypted. [`Encryption::BetweenHosts`] compares the
/// addresses of both ends: within a host or a network namespace they are equal, or addresses of the
/// loopback. Names of hosts would say nothing about the network between two namespaces.
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

/// Finds the addresses of a process; the error is for the user.
pub type Find = Box<dyn FnMut(u32) -> Result<PeerLocation, String> + Send>;

/// The secret of the processes of another launcher, whose jobs have this id, if it is known.
pub type SecretOf = Box<dyn FnMut(u64) -> Option<Secret> + Send>;
