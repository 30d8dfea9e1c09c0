//! The configuration of a forwarder.

use std::path::PathBuf;

use crate::caching::Caching;
use crate::declaration::RestartReason::RightsGivenUp;
use crate::declaration::{
    PendingChanges, Reload, Table as _, keep_table, restart, settings, table, tables, write_table,
};
use crate::faces::{BoundFaces, FaceDefaults, Limits, StaticFace, StaticRoute, StrategyChoice};
use crate::forwarder::{Forwarder, Overload, Pool};
use crate::listeners::Listeners;
use crate::log::Log;
use crate::management::{Control, Management};
use crate::memif::MemifSecret;
use crate::tables::Tables;
use crate::writer::Writer;

settings! {
    /// The configuration of a forwarder.
    pub struct Config {
        /// Sockets on which local applications and neighbours connect.
        listeners: Listeners = Listeners::default() => table(),
        /// The user that root becomes.
        privileges: Privileges = Privileges::default() => table(),
        /// Worker threads and their processors.
        forwarder: Forwarder = Forwarder::default() => table(),
        /// Overload control.
        overload: Overload = Overload::default() => table(),
        /// Capacities and policies of the Content Store, PIT, FIB and dead nonce list.
        tables: Tables = Tables::default() => table(),
        /// Caches that cooperate.
        caching: Caching = Caching::default() => table(),
        /// Defaults of faces.
        faces: FaceDefaults = FaceDefaults::default() => table(),
        /// Limits on the resources that peers can use.
        limits: Limits = Limits::default() => table(),
        /// Memory for packets in flight.
        pool: Pool = Pool::default() => table(),
        /// Management.
        management: Management = Management::default() => table(),
        /// The control socket.
        control: Control = Control::default() => table(),
        /// The log.
        log: Log = Log::default() => table(),
        /// Strategies of namespaces.
        strategy_choices: Vec<StrategyChoice> = Vec::new() => tables(Reload::Live),
        /// Faces that are created at the start or a reload.
        static_faces: Vec<StaticFace> = Vec::new() => tables(Reload::Live),
        /// Secrets of memif interfaces.
        memif_secrets: Vec<MemifSecret> = Vec::new() => tables(Reload::Live),
        /// UDP faces that are bound to network interfaces.
        bound_faces: Vec<BoundFaces> = Vec::new() => tables(Reload::Live),
        /// Routes that are added at the start or a reload.
        static_routes: Vec<StaticRoute> = Vec::new() => tables(Reload::Live),
    }
}

settings! {
    /// The user and group of the process. If root starts the forwarder, it changes to this user once the sockets are
    /// open, permanently, and keeps only the capabilities that later faces need: CAP_NET_BIND_SERVICE for UDP ports
    /// below 1024, CAP_NET_RAW for Ethernet, and CAP_NET_ADMIN and CAP_BPF for AF_XDP. Sockets, and directories
    /// created for them, belong to that user. The user must be able to read the configuration, for SIGHUP, and the key
    /// chain, for signatures. A forwarder that root does not start keeps its user and logs that.
    pub struct Privileges {
        /// User, by name or number. By default, the user does not change.
        user: Option<String> = None => restart(RightsGivenUp).example("\"ndn\""),
        /// Group, by name or number. The default is the primary group of the user.
        group: Option<String> = None => restart(RightsGivenUp).example("\"ndn\""),
    }
}

impl Config {
    /// The path of the Unix socket, or none if that listener is off.
    #[must_use]
    pub fn socket_path(&self) -> Option<PathBuf> {
        let unix = &self.listeners.unix;
        unix.enabled.then(|| unix.path_or_default())
    }

    /// The path of the control socket, or none if it is off.
    #[must_use]
    pub fn control_socket_path(&self) -> Option<PathBuf> {
        let default = || self.listeners.unix.path_or_default().with_extension("control.sock");
        self.control.enabled.then(|| self.control.path.clone().unwrap_or_else(default))
    }

    /// The settings that differ from the defaults, as TOML that [`parse`](crate::parse) reads as the same
    /// configuration.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut writer = Writer::default();
        write_table(&mut writer, "", self, &Self::initial());
        writer.finish()
    }

    /// Compares `read`, which was read at a reload, with this configuration, which runs. Settings that take effect at
    /// the next start are put back in `read`. Returns the changes.
    #[must_use]
    pub fn keep_until_restart(&self, read: &mut Self) -> PendingChanges {
        let mut pending = PendingChanges::default();
        keep_table("", self, read, &mut pending);
        pending
    }
}
