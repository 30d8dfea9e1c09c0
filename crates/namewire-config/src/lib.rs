//! The configuration of the forwarder: settings, readers and writer, reference.
//!
//! [`Config`] is plain data: reading it opens no socket, reads no clock and starts nothing. [`parse`] reports all
//! problems of a file at once, each with line and column.
//!
//! A setting is declared once, in the struct that has it: `listeners.rs`, `ethernet.rs`, `memif.rs`, `forwarder.rs`,
//! `tables.rs`, `caching.rs`, `faces.rs`, `management.rs`, `log.rs` and `config.rs`. `declaration.rs` derives the rest from the
//! declaration; `value.rs` has the types of values.
#![forbid(unsafe_code)]
#![allow(
    clippy::ptr_arg,
    reason = "the check of a setting takes a reference to the type of the setting"
)]

mod caching;
mod config;
mod conflict;
mod cross_checks;
mod declaration;
mod error;
mod ethernet;
mod faces;
mod file;
mod file_mode;
mod forwarder;
mod http;
mod interfaces;
mod key_location;
mod listeners;
mod local_users;
mod log;
mod management;
mod memif;
mod memif_secrets;
pub mod nfd_conf;
mod origin;
mod reader;
mod reference;
mod state_directory;
mod tables;
pub mod text;
pub mod text_file;
mod value;
mod writer;

pub use caching::{Caching, ObjectRule, Vip, VipLink, VipScore};
pub use config::{Config, Privileges};
pub use conflict::{Conflict, Warning};
pub use declaration::{PendingChanges, Reload, RestartReason};
pub use error::{ConfigError, FILE_BYTES_MAX, Problem};
pub use ethernet::{Dpdk, Driver, Ethernet, GroupAddress};
pub use faces::{
    BoundFaces, FaceDefaults, Limits, MTU_MAX, MTU_MIN, Persistency, PitTokens, StaticFace,
    StaticRoute, StrategyChoice, StrategyName,
};
pub use file::{ConfigFile, load, parse};
pub use file_mode::FileMode;
pub use forwarder::{Forwarder, Overload, Pages, Pool, Shed, WORKERS_MAX, WorkerCount};
pub use http::Http;
pub use interfaces::InterfaceRule;
pub use listeners::{
    Listeners, MULTICAST_PORT, Multicast, SYSTEM_SOCKET_PATH, TcpListener, UdpListener,
    UnixListener, WebSocketListener, WebTransportListener, default_socket_path,
};
pub use local_users::LocalUsers;
pub use log::{LOG_LIBRARIES, Log, LogFormat, LogLevel, check_module, log_crates};
pub use management::{
    Authorize, AuthorizedSigner, Control, Management, Privilege, Propagate, TEXT_ORIGIN, TrustRules,
};
pub use memif::{MemifListener, MemifSecret};
pub use memif_secrets::MemifSecrecy;
pub use ndn_types::{ByteSize, format_duration, parse_duration};
pub use origin::Origin;
pub use reader::closest;
pub use reference::{reference, sample};
pub use state_directory::state_directory;
pub use tables::{Cs, Disk, DiskAdmission, Tables, UnsolicitedPolicy};

#[cfg(test)]
mod tests;
