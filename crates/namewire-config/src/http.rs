//! The HTTP API.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::declaration::RestartReason::Sockets;
use crate::declaration::{restart, settings};
use crate::origin::Origin;
use crate::state_directory::state_directory;

/// TCP port of the HTTP API.
pub(crate) const HTTP_PORT: u16 = 6380;

settings! {
    /// The HTTP API: metrics for Prometheus at `/metrics`, `/health` and `/ready`, and GraphQL at `/graphql`. Unless
    /// `listen` has other addresses, it accepts connections of this host only, and of pages in browsers only those of the
    /// API itself and of `origins`.
    pub struct Http {
        /// Whether the forwarder serves the HTTP API.
        enabled: bool = false => restart(Sockets),
        /// Addresses and TCP ports to listen on. Addresses other than those of loopback need `tls_certificate`, or
        /// `plaintext`. Port 0 selects a free port.
        listen: Vec<SocketAddr> = vec![(Ipv4Addr::LOCALHOST, HTTP_PORT).into()] =>
            restart(Sockets).checked(check_addresses),
        /// Certificate chain for TLS, in PEM, the certificate of this host first. Both files are read again when they
        /// change, without a restart: the user of the forwarder must be able to read them.
        tls_certificate: Option<PathBuf> = None => restart(Sockets).example("\"/etc/namewire/http.crt\""),
        /// Private key of `tls_certificate`, in PEM, not encrypted.
        tls_key: Option<PathBuf> = None => restart(Sockets).example("\"/etc/namewire/http.key\""),
        /// Whether to listen on addresses other than those of loopback without TLS. Everyone on the path of a connection
        /// can then read tokens and use them.
        plaintext: bool = false => restart(Sockets),
        /// Host names that requests may name beside `localhost`, loopback addresses and the addresses in `listen`, such
        /// as that of a reverse proxy on this host, or that of the certificate. Requests that name others are rejected with status 421: they may come from a page whose name
        /// was made to resolve to this host.
        hosts: Vec<String> = Vec::new() => restart(Sockets),
        /// Origins whose pages may use the API, such as `["https://dashboard.example.com"]`. Pages of other origins are
        /// rejected with status 403.
        origins: Vec<Origin> = Vec::new() => restart(Sockets),
        /// File of the tokens for `/graphql` (`namewire control token`), which the first start makes. The default is
        /// http-tokens in the state directory: $STATE_DIRECTORY (set by systemd), otherwise /var/lib/namewire for root,
        /// otherwise $XDG_STATE_HOME/namewire or ~/.local/state/namewire.
        tokens: Option<PathBuf> = None => restart(Sockets).example("\"/var/lib/namewire/http-tokens\""),
        /// Directories that file servers started by the API may serve, and that its fetches may write to, those below
        /// included: everyone with a token of role admin can then read and write what the user of the forwarder can there.
        directories: Vec<PathBuf> = Vec::new() => restart(Sockets),
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
    match addresses.is_empty() {
        true => Err("the list is empty; `enabled = false` turns the API off".to_owned()),
        false => Ok(()),
    }
}

impl Http {
    /// Checks that connections from other hosts are encrypted, unless `plaintext` allows others. Returns the key with
    /// the conflict and the reason.
    pub(crate) fn check_tls(&self) -> Result<(), (&'static str, String)> {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => {
                return Err(("control.http.tls_key", "tls_certificate needs it".to_owned()));
            }
            (None, Some(_)) => {
                return Err(("control.http.tls_certificate", "tls_key needs it".to_owned()));
            }
            (Some(_), Some(_)) => return Ok(()),
            (None, None) => {}
        }
        let is_remote = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        match self.listen.iter().find(is_remote) {
            Some(address) if !self.plaintext => Err((
                "control.http.listen",
                format!(
                    "{address} is not a loopback address: set tls_certificate and tls_key, or `plaintext = true` for \
                     a private network"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_beyond_loopback_require_tls_or_plaintext() {
        let loopback = Http::default();
        let remote = Http { listen: vec!["0.0.0.0:6380".parse().unwrap()], ..Http::default() };
        let (certificate, key) = (Some(PathBuf::from("c")), Some(PathBuf::from("k")));
        for (http, conflict) in [
            (loopback.clone(), None),
            (remote.clone(), Some("control.http.listen")),
            (Http { plaintext: true, ..remote.clone() }, None),
            (Http { tls_certificate: certificate.clone(), tls_key: key.clone(), ..remote }, None),
            (
                Http { tls_certificate: certificate, ..loopback.clone() },
                Some("control.http.tls_key"),
            ),
            (Http { tls_key: key, ..loopback }, Some("control.http.tls_certificate")),
        ] {
            let found = http.check_tls().err().map(|(key, _)| key);
            assert_eq!(found, conflict, "{http:?}");
        }
    }
}
