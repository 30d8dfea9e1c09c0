//! The HTTP API.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::declaration::{restart, settings};
use crate::origin::Origin;
use crate::state_directory::state_directory;

/// TCP port of the HTTP API.
pub(crate) const HTTP_PORT: u16 = 6380;

settings! {
    /// The HTTP API: metrics for Prometheus at `/metrics`, `/health` and `/ready`, and GraphQL at `/graphql`. It accepts
    /// connections of this host only, and of pages in browsers only those of the API itself and of `origins`.
    pub struct Http {
        /// Whether the forwarder serves the HTTP API.
        enabled: bool = false => restart(),
        /// Addresses and TCP ports to listen on: loopback addresses. Port 0 selects a free port.
        listen: Vec<SocketAddr> = vec![(Ipv4Addr::LOCALHOST, HTTP_PORT).into()] =>
            restart().checked(check_addresses),
        /// Host names that requests may name beside `localhost` and loopback addresses, such as that of a reverse proxy
        /// on this host. Requests that name others are rejected with status 421: they may come from a page whose name
        /// was made to resolve to this host.
        hosts: Vec<String> = Vec::new() => restart(),
        /// Origins whose pages may use the API, such as `["https://dashboard.example.com"]`. Pages of other origins are
        /// rejected with status 403.
        origins: Vec<Origin> = Vec::new() => restart(),
        /// File of the tokens for `/graphql` (`namewire control token`), which the first start makes. The default is
        /// http-tokens in the state directory: $STATE_DIRECTORY (set by systemd), otherwise /var/lib/namewire for root,
        /// otherwise $XDG_STATE_HOME/namewire or ~/.local/state/namewire.
        tokens: Option<PathBuf> = None => restart().example("\"/var/lib/namewire/http-tokens\""),
    }
}

impl Http {
    /// The path of the file of tokens; `None` without a state directory.
    #[must_use]
    pub fn token_file(&self) -> Option<PathBuf> {
        let default = || Some(state_directory()?.join("http-tokens"));
        self.tokens.clone().or_else(default)
    }
}

#[expect(clippy::ptr_arg, reason = "a check takes a reference to the value of the setting")]
pub(crate) fn check_addresses(addresses: &Vec<SocketAddr>) -> Result<(), String> {
    let is_remote = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    match addresses.iter().find(is_remote) {
        Some(address) => Err(format!(
            "{address} is not a loopback address; a reverse proxy with TLS can serve other hosts"
        )),
        None if addresses.is_empty() => {
            Err("the list is empty; `enabled = false` turns the API off".to_owned())
        }
        None => Ok(()),
    }
}
