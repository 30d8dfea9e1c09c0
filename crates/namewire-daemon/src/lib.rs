//! The Namewire forwarder as a library.
//!
//! The workers of the data plane move packets; the control thread accepts connections, answers management and
//! owns the authoritative tables. Nothing here concerns the process: signals, the log, privileges, standard output
//! and `exit` belong to the program that embeds a forwarder, which passes [`Hooks`].
//!
//! | module | what it holds |
//! |---|---|
//! | `forwarder` | [`Forwarder`]: a forwarder with threads, and the handle to it |
//! | `stepped` | [`SteppedForwarder`]: a forwarder without threads |
//! | `calls` | [`Management`]: typed management calls on either |
//! | `environment` | clock and seeds |
//! | `hooks` | what the embedding program provides |
//! | `plan` | whatever can be refused before the start |
//! | `settings` | from the configuration to what the data plane is made of |
//! | `identities` | who the forwarder is where it issues commands itself |
//! | `listeners` | the sockets to listen on, and what is said about them |
//! | `control` | the control thread's loop |
//! | `balance` | which worker has which names: looked at, evened out, told |
//! | `addresses` | addresses of the ends of faces, as the kernel knows them |
//! | `faces` | faces as management sees them; making new ones |
//! | `memory` | what the packet buffers are made of, told at the start |
//! | `missing` | interfaces that are named and not there |
//! | `names` | host names of configured faces |
//! | `bound`, `multicast` | faces that come and go with network interfaces |
//! | `tables` | FIB and strategy instances |
//! | `telemetry` | counters for datasets |
//! | `access` | who may manage the forwarder |
//! | `dpdk` | ports of DPDK, for Ethernet faces |
//! | `ethernet` | Ethernet faces, which come and go with interfaces |
//! | `captures` | frames on their way to a capture file |
//! | `reload` | the configuration read again while it runs |
//! | `restart` | settings that wait for the next start |
//! | `placement` | which worker does what on which processor |
//! | `operator` | the control socket's requests: log levels, figures of the workers, captures |
//! | `websocket`, `webtransport` | for browsers |
#![forbid(unsafe_code)]

pub mod access;
mod addresses;
mod balance;
mod bound;
mod calls;
mod captures;
mod control;
mod destinations;
mod directory;
mod dpdk;
mod environment;
mod ethernet;
mod faces;
mod forwarder;
pub mod frames;
mod hooks;
mod identities;
mod listeners;
mod memory;
mod missing;
mod multicast;
mod names;
mod operator;
pub mod placement;
mod plan;
mod reload;
mod restart;
mod service_times;
mod settings;
mod static_setup;
mod stepped;
mod tables;
mod telemetry;
pub mod text;
mod websocket;
mod webtransport;

use namewire_config as config;

use crate::config::{Config, Conflict};

pub use calls::{CallError, Management};
pub use control::Reason;
pub use directory::OwnFile;
pub use environment::{Environment, Seeds};
pub use forwarder::{Forwarder, OpenForwarder};
pub use hooks::{ConfigSource, Hooks, LogControl, NoLogControl, Requests};
pub use missing::interfaces_missing;
pub use plan::Plan;
pub use stepped::SteppedForwarder;

/// Checks what the settings of access control name: certificates and trust rules.
///
/// # Errors
/// Which files cannot be used, with the settings.
pub fn check_access(config: &Config) -> Result<(), Vec<Conflict>> {
    access::access_control(&config.management, 0).map(|_| ())
}
