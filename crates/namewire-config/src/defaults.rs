//! What holds where nothing is configured. The sample file says the same; a test compares them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use super::types::*;
use super::{Access, ByteSize, InterfaceRule};

fn every_address() -> Vec<IpAddr> {
    vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
}

impl Default for UnixListener {
    fn default() -> Self {
        Self { enabled: true, path: None, mode: 0o666 }
    }
}

impl Listeners {
    /// Whether anybody could use the forwarder.
    pub(super) fn any(&self) -> bool {
        self.unix.enabled
            || self.tcp.enabled
            || self.udp.enabled
            || self.websocket.enabled
            || self.memif.enabled
            || self.webtransport.enabled
            || self.ethernet.enabled
            || !self.dpdk.ports.is_empty()
    }
}

impl Default for TcpListener {
    fn default() -> Self {
        Self { enabled: true, addresses: every_address(), port: NDN_PORT, loopback_is_local: true }
    }
}

impl Default for WebSocketListener {
    /// Off: any page that a browser shows can connect.
    fn default() -> Self {
        Self {
            enabled: false,
            addresses: every_address(),
            port: WEBSOCKET_PORT,
            loopback_is_local: true,
            origins: None,
            local_origins: Vec::new(),
        }
    }
}

impl Default for UdpListener {
    fn default() -> Self {
        Self { enabled: true, addresses: every_address(), port: NDN_PORT }
    }
}

impl Default for Multicast {
    /// Off, and otherwise as in NFD.
    fn default() -> Self {
        let ipv4 = SocketAddr::from((Ipv4Addr::new(224, 0, 23, 170), MULTICAST_PORT));
        let ipv6 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234);
        Self {
            enabled: false,
            groups: vec![ipv4, SocketAddr::from((ipv6, MULTICAST_PORT))],
            ad_hoc: false,
            interfaces: vec![InterfaceRule::Any],
            except: Vec::new(),
        }
    }
}

impl Default for Forwarder {
    fn default() -> Self {
        Self {
            workers: WorkerCount::Auto,
            io_workers: 0,
            placement: None,
            default_hop_limit: 0,
            cpus: Vec::new(),
            spin: Duration::from_micros(20),
        }
    }
}

impl Default for Overload {
    /// Times of RFC 8289, and four times as long before anything is lost.
    fn default() -> Self {
        Self {
            mark_after: Duration::from_millis(5),
            shed_after: Duration::from_millis(20),
            interval: Duration::from_millis(100),
            shed: Shed::Nack,
            answers_first: true,
        }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            cs: Cs::default(),
            pit_capacity: 1 << 18,
            fib_capacity: 1 << 20,
            dead_nonce_lifetime: Duration::from_secs(6),
            network_regions: Vec::new(),
        }
    }
}

impl Default for Cs {
    fn default() -> Self {
        Self {
            capacity_packets: 65_536,
            capacity_bytes: None,
            policy: CsPolicy::Lru,
            admit: true,
            serve: true,
            unsolicited: UnsolicitedPolicy::DropAll,
        }
    }
}

impl Default for FaceDefaults {
    fn default() -> Self {
        Self {
            mtu: 8800,
            path_mtu: true,
            idle_timeout: Duration::from_secs(600),
            send_queue: ByteSize::mebibytes(16),
            congestion_marking: true,
            congestion_threshold: ByteSize::kibibytes(64),
            congestion_interval: Duration::from_millis(100),
            receive_buffer: None,
            send_buffer: None,
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(60),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            faces: 16_384,
            faces_per_peer: 1024,
            pending_interests_per_face: Some(1 << 16),
            interests_per_second: NonZeroU32::new(1_000_000),
            refused_commands_per_second: NonZeroU32::new(100),
            reassembly_packets: 32,
            reassembly_fragments: 400,
            reassembly_timeout: Duration::from_millis(500),
            interest_lifetime: Duration::from_secs(3600),
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self { capacity: ByteSize::mebibytes(256), pages: Pages::Best }
    }
}

impl Default for Management {
    fn default() -> Self {
        Self {
            enabled: true,
            access: Access::default(),
            readvertise_nlsr: false,
            propagate: Propagate::default(),
            identity: None,
        }
    }
}

impl Default for Propagate {
    /// Off, and otherwise as in NFD.
    fn default() -> Self {
        Self {
            enabled: false,
            cost: 15,
            timeout: Duration::from_secs(10),
            refresh_interval: Duration::from_secs(25),
            base_retry_wait: Duration::from_secs(50),
            max_retry_wait: Duration::from_secs(3600),
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self { enabled: true, path: None }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LogLevel::Info, modules: BTreeMap::new() }
    }
}
