//! The configuration of the forwarder: types, TOML reader, defaults.
//!
//! [`Config`] is plain data: reading it touches no socket and no clock, and nothing starts before
//! the whole file was accepted. [`parse`] reports every problem of a file at once, each with line
//! and column. Start with `types.rs`; `schema.rs` maps the keys of the file onto the types.
#![forbid(unsafe_code)]

mod access;
mod check;
mod defaults;
mod dpdk;
mod error;
mod ethernet;
mod forwarder;
mod interfaces;
mod listeners;
mod memif;
mod modules;
pub mod nfd_conf;
mod origin;
mod place;
mod reader;
mod reference;
mod schema;
pub mod text_file;
mod to_toml;
mod together;
mod types;
mod units;
mod values;
mod webtransport;

use std::path::{Path, PathBuf};

pub use access::{Access, Authorize, AuthorizedSigner, Privilege, TEXT_ORIGIN, TrustRules};
pub use check::{Contradiction, Remark};
pub use dpdk::Dpdk;
pub use error::{ConfigError, Problem};
pub use ethernet::{Driver, Ethernet, GroupAddress};
pub use interfaces::InterfaceRule;
pub use memif::{MemifListener, MemifSecrecy, MemifSecret};
pub use modules::{LOG_LIBRARIES, LOG_MODULES, check_module};
pub use origin::Origin;
pub use reference::{keys, reference};
pub use types::*;
pub use units::{ByteSize, format_duration, parse_duration};
pub use webtransport::WebTransportListener;

/// The documented sample, which spells out every key with its default.
pub const SAMPLE: &str = include_str!("../namewire.sample.toml");

/// Files larger than this are refused: no configuration written by hand comes near it.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads and checks the configuration file at `path`.
///
/// # Errors
/// The file cannot be read, is too large, is not TOML, or has unknown keys or bad values.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    match load_leniently(path)? {
        (config, None) => Ok(config),
        (_, Some(error)) => Err(error),
    }
}

/// As [`load`], but where it is TOML, what can be made of it comes beside what is wrong with it: settings that cannot
/// be read have their defaults.
///
/// # Errors
/// The file cannot be read, is too large or is not TOML.
pub fn load_leniently(path: &Path) -> Result<(Config, Option<ConfigError>), ConfigError> {
    let origin = path.display().to_string();
    let length =
        std::fs::metadata(path).map_err(|error| ConfigError::unreadable(&origin, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(ConfigError::too_large(&origin, length));
    }
    let text = text_file::read(path).map_err(|error| ConfigError::unreadable(&origin, &error))?;
    // A program that was to write it has failed, or the disk was full.
    if text.is_empty() && path.is_file() {
        return Err(ConfigError::empty(&origin));
    }
    let rejected = |problems| ConfigError::rejected(&origin, &text, problems);
    let (mut config, problems) = schema::read_leniently(&text).map_err(|problems| {
        if is_nfd_conf(&text) { ConfigError::of_nfd(&origin) } else { rejected(problems) }
    })?;
    config.management.access.resolve_paths(path.parent().unwrap_or(Path::new("")));
    Ok((config, (!problems.is_empty()).then(|| rejected(problems))))
}

/// What is wrong with settings of the file at `path`, which was read before, with the line of the first of
/// them that it has.
pub fn locate(path: &Path, fault: &Contradiction) -> ConfigError {
    // A file that is gone by now has no lines.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    ConfigError::located(&path.display().to_string(), &text, fault)
}

/// As [`locate`], of a setting that may be meant otherwise.
pub fn locate_remark(path: &Path, remark: &Remark) -> ConfigError {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let keys = [remark.key.as_str()];
    ConfigError::located_at(&path.display().to_string(), &text, &keys, remark.reason.clone())
}

/// Whether a text is a configuration of NFD: its INFO format, with sections of its own.
fn is_nfd_conf(text: &str) -> bool {
    const SECTIONS: [&str; 5] = ["general", "tables", "face_system", "authorizations", "rib"];
    ndn_security::info::Node::parse_single("line", text).is_ok_and(|root| {
        SECTIONS
            .iter()
            .any(|section| root.child(section).is_some_and(|node| !node.children.is_empty()))
    })
}

/// Reads and checks configuration text; `origin` names it in error messages.
///
/// # Errors
/// The text is not TOML, or has unknown keys or bad values; all of them are listed.
pub fn parse(origin: &str, text: &str) -> Result<Config, ConfigError> {
    schema::read(text).map_err(|problems| ConfigError::rejected(origin, text, problems))
}

/// The socket path used where the configuration gives none: `/run/nfd/nfd.sock` for root,
/// otherwise `$XDG_RUNTIME_DIR/nfd/nfd.sock`, and `/run/nfd/nfd.sock` again without that variable.
pub fn default_socket_path() -> PathBuf {
    let system = PathBuf::from(SYSTEM_SOCKET_PATH);
    if rustix::process::geteuid().is_root() {
        return system;
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Some(directory) => Path::new(&directory).join("nfd").join("nfd.sock"),
        None => system,
    }
}

/// Where applications look for the forwarder when nothing tells them otherwise.
pub const SYSTEM_SOCKET_PATH: &str = "/run/nfd/nfd.sock";

#[cfg(test)]
mod tests;
