//! The Namewire forwarder as a library.
//!
//! The workers of the data plane move packets; the control thread accepts connections, answers management and
//! owns the authoritative tables. Nothing here concerns the process: signals, the log, privileges, standard output
//! and `exit` belong to the program that embeds a forwarder, which passes [`Hooks`].
//!
//! | module | content |
//! |---|---|
//! | `forwarder` | [`Forwarder`]: a forwarder with threads, and the handle to it |
//! | `stepped` | [`SteppedForwarder`]: a forwarder without threads |
//! | `environment` | clock and seeds |
//! | `hooks` | what the embedding program provides |
//! | `plan` | checks before the start |
//! | `settings` | data-plane options from the configuration |
//! | `identities` | signing of the forwarder's own commands |
//! | `listeners` | listening sockets and their announcement |
//! | `streams` | stream listeners, which a reload changes |
//! | `control` | the control thread: a loop over services; `calls` is its queue of calls from other threads |
//! | `balance` | load balancing between workers |
//! | `addresses` | local and remote addresses of faces, from the kernel |
//! | `faces` | face records of management; parameters of new faces |
//! | `machine` | settings that do not fit this machine |
//! | `memory` | memory for packets: what this system has, and a report |
//! | `names` | host names of configured faces |
//! | `bound`, `multicast` | UDP faces created and removed with network interfaces |
//! | `tables` | FIB and strategy instances |
//! | `telemetry` | counters for datasets |
//! | `access` | access control for management |
//! | `disk` | the disk tier of the Content Store |
//! | `dpdk` | DPDK ports for Ethernet faces |
//! | `ethernet` | Ethernet faces, created and removed with network interfaces |
//! | `captures` | active captures |
//! | `reload` | reload of the configuration |
//! | `restart` | settings that take effect at the next start |
//! | `placement` | roles and processors of the workers |
//! | `static_setup` | permanent faces and routes |
//! | `vip` | settings of VIP, with the cargo feature `vip` |
//! | `websocket`, `webtransport` | handshake and certificate of the listeners for browsers |
#![forbid(unsafe_code)]

mod access;
mod addresses;
mod balance;
mod bound;
mod calls;
mod captures;
mod control;
mod destinations;
mod directory;
mod disk;
mod dpdk;
mod environment;
mod ethernet;
mod faces;
mod forwarder;
pub mod frames;
mod hooks;
mod identities;
mod ledger_sum;
mod listeners;
mod local_peers;
mod machine;
mod memory;
mod multicast;
mod names;
pub mod network_interfaces;
mod packet_traces;
pub mod placement;
mod plan;
mod reload;
mod restart;
mod service_times;
mod settings;
mod static_setup;
mod stepped;
mod streams;
mod tables;
mod telemetry;
mod vip;
mod websocket;
mod webtransport;

use namewire_config as config;

use ndn_sys::clock::Clock;

use crate::config::{Config, Conflict};

pub use control::Reason;
pub use directory::OwnFile;
pub use environment::{Environment, Seeds};
pub use forwarder::{Forwarder, OpenForwarder};
pub use hooks::{ConfigSource, Hooks, LogControl, NoLogControl, Requests};
pub use machine::machine_warnings;
pub use ndn_management::{CallError, Management};
pub use plan::Plan;
pub use settings::DISPATCH_DEPTH;
pub use stepped::{PendingCall, SteppedForwarder};
pub use webtransport::make_state_directory;

/// Checks the certificates and trust rules of the access control settings at the time of `clock`.
///
/// # Errors
/// Files that cannot be used, with their settings.
pub fn check_access(config: &Config, clock: &Clock) -> Result<(), Vec<Conflict>> {
    access::access_control(&config.management, clock).map(|_| ())
}
