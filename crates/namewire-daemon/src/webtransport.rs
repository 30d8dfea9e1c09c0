//! The certificate and the sockets of the WebTransport listener.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ndn_webtransport::Identity;

use super::directory::{self, Access, OwnFile};
use crate::config::{WebTransportListener, state_directory};

/// Resources opened before root privileges are dropped.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// Listening sockets.
    pub(super) sockets: Vec<UdpSocket>,
    /// The configured certificate, if any.
    pub(super) identity: Option<Identity>,
    /// The file for a generated certificate.
    pub(super) kept_in: Option<PathBuf>,
}

/// Reads the configured certificate, if any.
///
/// # Errors
/// The files cannot be read or are malformed.
pub(super) fn identity(config: &WebTransportListener) -> anyhow::Result<Option<Identity>> {
    let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
        return Ok(None);
    };
    let read = |name: &str, path: &Path| {
        let what = || format!("listeners.webtransport.{name}: cannot read {}", path.display());
        std::fs::read(path).with_context(what)
    };
    let identity = Identity::from_pem(&read("certificate", certificate)?, &read("key", key)?);
    let what = || {
        let (certificate, key) = (certificate.display(), key.display());
        format!("listeners.webtransport: certificate {certificate} and key {key}")
    };
    identity.map(Some).with_context(what)
}

/// Returns the file for a generated certificate. Listeners of several forwarders differ in the port.
pub(super) fn kept_in(
    settings: &WebTransportListener,
    socket: Option<&UdpSocket>,
) -> Option<PathBuf> {
    let directory = settings.state_directory.clone().or_else(state_directory)?;
    let port = socket?.local_addr().ok()?.port();
    Some(directory.join(format!("webtransport-{port}.pem")))
}

/// Creates the directory of a file of the state directory while the process still has root privileges; the directory is
/// handed to the new user with the other opened files. An error is reported when the file is written.
#[must_use]
pub fn make_state_directory(file: &Path) -> Option<OwnFile> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The directory will contain private keys and tokens.
    directory::make_parent(file, Access::Private).ok().flatten()
}

#[cfg(test)]
mod tests {
    use ndn_types::FaceUri;
    use ndn_webtransport::Target;

    use crate::Plan;
    use crate::config::parse;

    #[test]
    fn canonical_uris_are_valid_targets() {
        for text in [
            "https://host.example:6367/ndn",
            "https://HOST",
            "https://192.0.2.1:443/",
            "https://[2001:db8::1]:6367/ndn",
            &format!("https://localhost#sha256={}", "0a".repeat(32)),
        ] {
            let uri = FaceUri::parse(text).unwrap().canonize().unwrap();
            assert!(uri.is_canonical(), "{uri}");
            let target: Target = uri.to_string().parse().unwrap();
            assert_eq!(target.to_string(), uri.to_string());
        }
    }

    #[test]
    fn invalid_certificate_files_are_rejected_before_the_start() {
        let text = "[listeners.webtransport]\nenabled = true\ncertificate = \"/etc/passwd\"\nkey = \"/etc/passwd\"";
        let config = parse("test", text).unwrap();
        let text = Plan::new(
            &config,
            &ndn_sys::clock::ManualClock::new(
                ndn_types::Timestamp::ZERO,
                std::time::Duration::ZERO,
            )
            .into(),
        )
        .unwrap_err()[0]
            .to_string();
        assert!(text.contains("certificate /etc/passwd") && text.contains("PEM"), "{text}");
    }
}
