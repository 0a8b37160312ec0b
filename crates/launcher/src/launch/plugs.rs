//! The sockets and alarms of ranks that communicate over sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use oxmpi_param::Params;
use oxmpi_sys::host;
use oxmpi_sys::net::{self, Listener};
use oxmpi_sys::poller::new_alarm;

use super::abroad::Abroad;
use super::{Launch, LaunchError};
use crate::hostmap::Hostmap;
use oxmpi_daemon::interfaces;

#[derive(Debug)]
pub(crate) struct Plug {
    /// Wakes the rank when it sleeps on descriptors.
    pub(crate) alarm: OwnedFd,
    /// The listener, until the rank requests it.
    pub(crate) listener: Option<Listener>,
    /// The listener's addresses, separated by blanks.
    pub(crate) address: String,
    /// The listener for processes of other launchers.
    pub(crate) abroad: Option<Abroad>,
}

impl Plug {
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        sockets(&self.address)
    }
}

/// The addresses of a listener in their announcement, where the name of its network follows each.
fn sockets(announced: &str) -> impl Iterator<Item = SocketAddr> + '_ {
    announced.split(' ').filter_map(|address| address.split('%').next()?.parse().ok())
}

/// The network for the sockets of a job on one host; an error if parameters leave none.
pub fn network(params: &Params) -> Result<net::Interface, LaunchError> {
    networks(params, true).map(|mut all| all.swap_remove(0))
}

/// The networks for the sockets of a job, the best first; at least one.
fn networks(params: &Params, is_one_host: bool) -> Result<Vec<net::Interface>, LaunchError> {
    let there = net::interfaces()
        .map_err(|e| LaunchError::Kernel("list the interfaces of this host", e))?;
    let (include, exclude) = (params.btl_tcp_if_include(), params.btl_tcp_if_exclude());
    let chosen = interfaces::choose(&there, include, exclude, is_one_host)?;
    Ok(chosen.into_iter().cloned().collect())
}

pub(crate) fn plugs(
    launch: &Launch,
    count: usize,
    is_one_host: bool,
    has_near_sockets: bool,
) -> Result<Vec<Plug>, LaunchError> {
    let listeners = match launch.transport.has_daemons() {
        true => Vec::new(),
        false => {
            let buffers = Some(launch.params.socket_buffers());
            let of = (&launch.params, &launch.hostmap);
            listeners(of, count, buffers, is_one_host, has_near_sockets)?
        }
    };
    let mut listeners = listeners.into_iter();
    let plug = |_| {
        let (listener, address) = listeners.next().unzip();
        let alarm = new_alarm().map_err(|e| LaunchError::Kernel("make an alarm (eventfd)", e))?;
        Ok(Plug { alarm, listener, address: address.unwrap_or_default(), abroad: None })
    };
    (0..count).map(plug).collect()
}

/// A listener for agents of other hosts, and its addresses.
pub(crate) fn listen_for_agents(
    params: &Params,
    hostmap: &Hostmap,
) -> Result<(Listener, Vec<SocketAddr>), LaunchError> {
    let (listener, announced) = listener(params, hostmap)?;
    Ok((listener, sockets(&announced).collect()))
}

/// A listener for other hosts, and the addresses to announce.
pub(crate) fn listener(
    params: &Params,
    hostmap: &Hostmap,
) -> Result<(Listener, String), LaunchError> {
    listeners((params, hostmap), 1, None, false, false).map(|mut all| all.swap_remove(0))
}

/// `count` listeners with buffers of this size, and the addresses to announce.
pub(crate) fn listeners(
    (params, hostmap): (&Params, &Hostmap),
    count: usize,
    buffers: Option<usize>,
    is_one_host: bool,
    has_near_sockets: bool,
) -> Result<Vec<(Listener, String)>, LaunchError> {
    let mut chosen = networks(params, is_one_host)?;
    if is_one_host {
        chosen.truncate(1);
    }
    let name = host::name();
    let announced: Vec<_> =
        chosen.iter().map(|network| (hostmap.announced(&name, network.address), network)).collect();
    // The announced address is this host's own; or else a router between the hosts translates it.
    let here = net::OwnAddresses::read();
    let own = announced
        .iter()
        .map(|(address, network)| if here.has(*address) { *address } else { network.address });
    let own: Vec<IpAddr> = own.collect();
    if has_near_sockets && let Some(address) = own.first() {
        net::reach_own(*address)
            .map_err(|error| LaunchError::NoLoopback { address: *address, error })?;
    }
    // For several addresses one socket listens on all addresses of the family.
    let at = match own[..] {
        [address] => address,
        [IpAddr::V4(_), ..] => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listen = |e| LaunchError::Kernel("listen on a socket", e);
    let one = |_| {
        let listener = Listener::bind(at, buffers).map_err(listen)?;
        let port = listener.address().map_err(listen)?.port();
        let mut addresses: Vec<String> = announced
            .iter()
            .zip(&own)
            .filter(|(_, own)| own.is_ipv4() == at.is_ipv4())
            .map(|((address, network), _)| {
                format!("{}%{}", SocketAddr::new(*address, port), network.name)
            })
            .collect();
        addresses.dedup();
        // A word with a slash is the host's name for the reader.
        Ok((
            listener,
            format!("{} /{}", addresses.join(" "), name.replace(char::is_whitespace, "-")),
        ))
    };
    (0..count).map(one).collect()
}
