//! The WebTransport listener: settings, and how they are written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Origin;
use super::reader::Section;
use super::to_toml::{Writer, duration, text, texts};

/// Most sessions at one time.
const SESSIONS_MAX: usize = 65_536;

/// Settings of the WebTransport listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebTransportListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// Addresses to bind. Of the default pair, a family which the kernel lacks is left out.
    pub addresses: Vec<IpAddr>,
    /// The UDP port.
    pub port: u16,
    /// A PEM file with the certificate and those that lead to its authority. None: certificates are made here,
    /// self-signed, and renewed.
    pub certificate: Option<PathBuf>,
    /// A PEM file with its key.
    pub key: Option<PathBuf>,
    /// Where certificates that are made here are kept, so that the next start shows the same. None: as the
    /// environment says.
    pub state_directory: Option<PathBuf>,
    /// Whose pages may connect; pages of others are turned away with status 403. None lets every page
    /// connect. Programs, which send no Origin, may always.
    pub origins: Option<Vec<Origin>>,
    /// Sessions and handshakes at one time.
    pub sessions: usize,
    /// A peer that gives no sign of life for so long is gone.
    pub idle_timeout: Duration,
}

impl Default for WebTransportListener {
    /// Off: any page that a browser shows can connect.
    fn default() -> Self {
        Self {
            enabled: false,
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            port: ndn_webtransport::PORT,
            certificate: None,
            key: None,
            state_directory: None,
            origins: None,
            sessions: 4096,
            idle_timeout: Duration::from_secs(15),
        }
    }
}

impl WebTransportListener {
    /// Reads `[listeners.webtransport]`.
    pub(super) fn read(&mut self, mut section: Section<'_>) {
        section.read("enabled", &mut self.enabled);
        section
            .read_checked("addresses", &mut self.addresses, |list| super::schema::not_empty(list));
        section.read_in("port", &mut self.port, 1..=u16::MAX);
        section.read_optional("certificate", &mut self.certificate);
        section.read_optional("key", &mut self.key);
        section.read_optional("state_directory", &mut self.state_directory);
        section.read_optional("origins", &mut self.origins);
        section.read_in("sessions", &mut self.sessions, 1..=SESSIONS_MAX);
        let times = Duration::from_secs(5)..=Duration::from_secs(3600);
        section.read_in("idle_timeout", &mut self.idle_timeout, times);
        match (&self.certificate, &self.key) {
            (Some(_), None) => section.object("certificate", "it needs its `key`"),
            (None, Some(_)) => section.object("key", "it needs its `certificate`"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for (key, path) in [("certificate", &self.certificate), ("key", &self.key)] {
            let problem = path.as_deref().filter(|_| self.enabled).and_then(unreadable);
            if let Some(problem) = problem {
                section.object(key, &problem);
            }
        }
        section.finish();
    }

    /// Writes what differs from `default`.
    pub(super) fn write(&self, writer: &mut Writer, default: &Self) {
        writer.section("[listeners.webtransport]");
        writer.changed("enabled", &self.enabled, &default.enabled, self.enabled);
        let addresses = texts(&self.addresses);
        writer.changed("addresses", &self.addresses, &default.addresses, addresses);
        writer.changed("port", &self.port, &default.port, self.port);
        for (key, path) in [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("state_directory", &self.state_directory),
        ] {
            let shown = path.as_deref().map_or_else(String::new, |path| path.display().to_string());
            writer.changed(key, path, &None, text(shown));
        }
        let origins = texts(self.origins.as_deref().unwrap_or_default());
        writer.changed("origins", &self.origins, &default.origins, origins);
        writer.changed("sessions", &self.sessions, &default.sessions, self.sessions);
        let idle = duration(self.idle_timeout);
        writer.changed("idle_timeout", &self.idle_timeout, &default.idle_timeout, idle);
    }
}

/// Why a file cannot be read, if it cannot.
fn unreadable(path: &Path) -> Option<String> {
    let error = std::fs::File::open(path).err()?;
    Some(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn refused(text: &str) -> String {
        let text = format!("[listeners.webtransport]\n{text}");
        parse("test", &text).expect_err(&text).to_string()
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_with_its_line() {
        let text = "enabled = true\ncertificate = \"/etc/passwd\"\nkey = \"/nonexistent/key.pem\"";
        let said = refused(text);
        assert!(said.contains("cannot read /nonexistent/key.pem"), "{said}");
        assert!(said.contains("test:4:"), "{said}");
        // Nobody looks for files of a listener that is switched off.
        let text = text.replace("true", "false");
        parse("test", &format!("[listeners.webtransport]\n{text}")).unwrap();
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        for (text, reason) in [
            ("certificate = \"/etc/passwd\"", "needs its `key`"),
            ("key = \"/etc/passwd\"", "needs its `certificate`"),
            ("addresses = []", "the list is empty"),
            ("sessions = 0", "out of range"),
            ("idle_timeout = \"1s\"", "out of range"),
            ("origins = [\"app.example.com\"]", "no origin"),
            ("enabled = true\nport = 6363", "same UDP port"),
        ] {
            let said = refused(text);
            assert!(said.contains(reason), "{text}: {said}");
        }
    }
}
