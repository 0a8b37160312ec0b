//! What ranks over sockets are reached by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use oxmpi_param::Params;
use oxmpi_sys::host;
use oxmpi_sys::net::{self, Listener};
use oxmpi_sys::poller::new_alarm;

use super::abroad::Abroad;
use super::{Launch, LaunchError};
use crate::interfaces;

/// How a rank over sockets is reached.
#[derive(Debug)]
pub(crate) struct Plug {
    /// What wakes it when it sleeps on descriptors.
    pub(crate) alarm: OwnedFd,
    /// Its listening socket, until the rank asks for it.
    pub(crate) listener: Option<Listener>,
    /// Where that can be reached.
    pub(crate) address: String,
    /// Where else, for processes of other launchers.
    pub(crate) abroad: Option<Abroad>,
}

impl Plug {
    /// The addresses where it is reached, as numbers.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.address.split(' ').filter_map(|address| address.split('%').next()?.parse().ok())
    }
}

/// The network that the sockets of a job on one host use.
///
/// # Errors
/// There is none, or parameters leave none.
pub fn network(params: &Params) -> Result<net::Interface, LaunchError> {
    networks(params, true).map(|mut all| all.swap_remove(0))
}

/// The networks that the sockets of a job may use, one at least, the best first.
fn networks(params: &Params, is_one_host: bool) -> Result<Vec<net::Interface>, LaunchError> {
    let there = net::interfaces().map_err(|e| LaunchError::Kernel("list the interfaces of this host", e))?;
    let (include, exclude) = (params.btl_tcp_if_include(), params.btl_tcp_if_exclude());
    let chosen = interfaces::choose(&there, include, exclude, is_one_host)?;
    Ok(chosen.into_iter().cloned().collect())
}

/// Sockets that listen, for `count` ranks; for ranks with daemons their alarms alone.
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
            listeners(launch, count, buffers, is_one_host, has_near_sockets)?
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

/// So many sockets that listen on the network of the job, with such `buffers`, and the addresses that others are told.
pub(crate) fn listeners(
    launch: &Launch,
    count: usize,
    buffers: Option<usize>,
    is_one_host: bool,
    has_near_sockets: bool,
) -> Result<Vec<(Listener, String)>, LaunchError> {
    let mut chosen = networks(&launch.params, is_one_host)?;
    if is_one_host {
        chosen.truncate(1);
    }
    let name = host::name();
    let told: Vec<_> =
        chosen.iter().map(|network| (launch.hostmap.told(&name, network.address), network)).collect();
    // Where it is this host's own; else something between the hosts translates it.
    let own = told.iter().map(|(told, network)| if net::is_own(*told) { *told } else { network.address });
    let own: Vec<IpAddr> = own.collect();
    if has_near_sockets && let Some(address) = own.first() {
        net::reach_own(*address).map_err(|error| LaunchError::NoLoopback { address: *address, error })?;
    }
    // One socket that listens at all addresses of a kind, if it shall listen at several.
    let at = match own[..] {
        [address] => address,
        [IpAddr::V4(_), ..] => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listen = |e| LaunchError::Kernel("listen on a socket", e);
    let one = |_| {
        let listener = Listener::bind(at, buffers).map_err(listen)?;
        let port = listener.address().map_err(listen)?.port();
        let mut addresses: Vec<String> = told
            .iter()
            .zip(&own)
            .filter(|(_, own)| own.is_ipv4() == at.is_ipv4())
            .map(|((told, network), _)| format!("{}%{}", SocketAddr::new(*told, port), network.name))
            .collect();
        addresses.dedup();
        // What reads them takes a word with a slash for the name of the host.
        Ok((listener, format!("{} /{}", addresses.join(" "), name.replace(char::is_whitespace, "-"))))
    };
    (0..count).map(one).collect()
}
