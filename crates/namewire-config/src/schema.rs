//! Which key of the file is which setting, and what values it takes.
//!
//! A new key goes here, into `types.rs` and into `namewire.sample.toml`; a test holds the three together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::FaceUri;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::reader::{Findings, FromToml, Section, Value, one_of};
use super::types::*;
use super::units::{ByteSize, format_duration};
use super::{Contradiction, InterfaceRule, check_module};

const HOUR: Duration = Duration::from_secs(3600);

/// Reads a whole configuration.
pub(super) fn read(text: &str) -> Result<Config, Vec<Problem>> {
    let (config, problems, _) = read_with_values(text);
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

/// As [`read`], but what is TOML is a configuration, beside what is wrong with it.
pub(super) fn read_leniently(text: &str) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let (_, syntax_errors) = DeTable::parse_recoverable(text);
    let (config, problems, _) = read_with_values(text);
    if syntax_errors.is_empty() { Ok((config, problems)) } else { Err(problems) }
}

/// As [`read`], and tells which keys the schema asked for, as dotted paths, and what values they take.
pub(super) fn read_with_values(text: &str) -> (Config, Vec<Problem>, BTreeMap<String, Value>) {
    let findings = Findings::default();
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        findings.report(error.span().unwrap_or(0..0), error.message().trim_end().to_owned(), None);
    }
    let mut config = Config::default();
    // What a broken document seems to say is not worth a complaint of its own.
    if syntax_errors.is_empty() {
        read_document(&findings, &document, &mut config);
        for Contradiction { keys, reason } in config.faults() {
            findings.report_clash(super::place::find(&document, &keys), reason);
        }
    }
    let (problems, values) = findings.into_parts();
    (config, problems, values)
}

fn read_document<'a>(
    findings: &'a Findings,
    document: &'a Spanned<DeTable<'a>>,
    config: &mut Config,
) {
    let mut root = Section::root(findings, document);
    read_listeners(root.section("listeners"), &mut config.listeners);
    let mut privileges = root.section("privileges");
    privileges.read_optional("user", &mut config.privileges.user);
    privileges.read_optional("group", &mut config.privileges.group);
    privileges.finish();

    read_forwarder(root.section("forwarder"), &mut config.forwarder);
    read_overload(root.section("overload"), &mut config.overload);
    read_tables(root.section("tables"), &mut config.tables);
    read_faces(root.section("faces"), &mut config.faces);
    read_limits(root.section("limits"), &mut config.limits);

    read_pool(&mut root, config);

    let mut management = root.section("management");
    management.read("enabled", &mut config.management.enabled);
    management.read("readvertise_nlsr", &mut config.management.readvertise_nlsr);
    read_propagate(management.section("propagate"), &mut config.management.propagate);
    management.read_optional("identity", &mut config.management.identity);
    super::access::read(&mut management, &mut config.management.access);
    management.finish();

    let mut control = root.section("control");
    control.read("enabled", &mut config.control.enabled);
    control.read_optional("path", &mut config.control.path);
    control.finish();

    read_log(root.section("log"), &mut config.log);
    config.bound_faces =
        root.sections("bound_faces").into_iter().filter_map(read_bound_faces).collect();
    super::memif::read_secrets(&mut root, config);
    super::together::read(&mut root, config);
    root.finish();
}

fn read_listeners(mut section: Section<'_>, listeners: &mut Listeners) {
    let mut unix = section.section("unix");
    unix.read("enabled", &mut listeners.unix.enabled);
    unix.read_optional("path", &mut listeners.unix.path);
    let mut mode = FileMode(listeners.unix.mode);
    unix.read("mode", &mut mode);
    listeners.unix.mode = mode.0;
    unix.finish();

    listeners.memif.read(section.section("memif"));

    let mut tcp = section.section("tcp");
    tcp.read("enabled", &mut listeners.tcp.enabled);
    tcp.read_checked("addresses", &mut listeners.tcp.addresses, |list| not_empty(list));
    tcp.read_in("port", &mut listeners.tcp.port, 1..=u16::MAX);
    tcp.read("loopback_is_local", &mut listeners.tcp.loopback_is_local);
    tcp.finish();

    let own = &mut listeners.websocket;
    let mut websocket = section.section("websocket");
    websocket.read("enabled", &mut own.enabled);
    websocket.read_checked("addresses", &mut own.addresses, |list| not_empty(list));
    websocket.read_in("port", &mut own.port, 1..=u16::MAX);
    websocket.read("loopback_is_local", &mut own.loopback_is_local);
    websocket.read_optional("origins", &mut own.origins);
    websocket.read("local_origins", &mut own.local_origins);
    websocket.finish();
    listeners.webtransport.read(section.section("webtransport"));

    let mut udp = section.section("udp");
    udp.read("enabled", &mut listeners.udp.enabled);
    udp.read_checked("addresses", &mut listeners.udp.addresses, |list| not_empty(list));
    udp.read_in("port", &mut listeners.udp.port, 1..=u16::MAX);
    udp.finish();

    let own = &mut listeners.multicast;
    let mut multicast = section.section("multicast");
    multicast.read("enabled", &mut own.enabled);
    multicast.read_checked("groups", &mut own.groups, |groups: &Vec<SocketAddr>| {
        let other = groups.iter().find(|group| !group.ip().is_multicast() || group.port() == 0);
        other.map_or_else(|| not_empty(groups), |other| Err(format!("{other} is no group")))
    });
    multicast.read("ad_hoc", &mut own.ad_hoc);
    multicast.read("interfaces", &mut own.interfaces);
    multicast.read("except", &mut own.except);
    multicast.finish();
    listeners.ethernet.read(section.section("ethernet"));
    listeners.dpdk.read(section.section("dpdk"));
    section.finish();
}

fn read_forwarder(mut section: Section<'_>, forwarder: &mut Forwarder) {
    section.read("default_hop_limit", &mut forwarder.default_hop_limit);
    section.read("workers", &mut forwarder.workers);
    section.read_checked("cpus", &mut forwarder.cpus, |cpus: &Vec<usize>| {
        if cpus.len() > WORKERS_MAX {
            return Err(format!("there can be {WORKERS_MAX} workers"));
        }
        let repeated = cpus.iter().enumerate().find(|(index, cpu)| cpus[..*index].contains(cpu));
        match repeated {
            Some((_, cpu)) => Err(format!("processor {cpu} is listed twice")),
            None => Ok(()),
        }
    });
    section.read_in("io_workers", &mut forwarder.io_workers, 0..=WORKERS_MAX - 1);
    section.read_optional("placement", &mut forwarder.placement);
    section.read_in("spin", &mut forwarder.spin, Duration::ZERO..=Duration::from_secs(1));
    let (cpus, workers) = (forwarder.cpus.len(), forwarder.worker_count(1));
    if cpus != 0 && forwarder.placement.is_some() {
        section.object("cpus", "they are chosen by `placement`: leave one of the two out");
    }
    let is_fixed = forwarder.workers != WorkerCount::Auto || cpus != 0;
    if is_fixed && forwarder.io_workers >= workers {
        section.object("io_workers", "none of the workers would forward");
    }
    if cpus != 0 && cpus != workers {
        section.object(
            "cpus",
            &format!("{cpus} processors for {workers} workers: list one each, or none"),
        );
    }
    section.finish();
}

fn read_overload(mut section: Section<'_>, overload: &mut Overload) {
    let times = Duration::from_micros(10)..=Duration::from_secs(10);
    section.read_in("mark_after", &mut overload.mark_after, times.clone());
    section.read_in("shed_after", &mut overload.shed_after, times);
    let intervals = Duration::from_millis(1)..=Duration::from_secs(10);
    section.read_in("interval", &mut overload.interval, intervals);
    section.read("shed", &mut overload.shed);
    section.read("answers_first", &mut overload.answers_first);
    section.finish();
}

fn read_tables(mut section: Section<'_>, tables: &mut Tables) {
    let mut cs = section.section("cs");
    cs.read_in("capacity_packets", &mut tables.cs.capacity_packets, 0..=TABLE_ENTRIES_MAX);
    cs.read_optional("capacity_bytes", &mut tables.cs.capacity_bytes);
    cs.read("policy", &mut tables.cs.policy);
    cs.read("admit", &mut tables.cs.admit);
    cs.read("serve", &mut tables.cs.serve);
    cs.read("unsolicited", &mut tables.cs.unsolicited);
    cs.finish();
    section.read_in("pit_capacity", &mut tables.pit_capacity, 64..=TABLE_ENTRIES_MAX);
    section.read_in("fib_capacity", &mut tables.fib_capacity, 16..=TABLE_ENTRIES_MAX);
    section.read_in(
        "dead_nonce_lifetime",
        &mut tables.dead_nonce_lifetime,
        Duration::from_millis(50)..=HOUR,
    );
    section.read("network_regions", &mut tables.network_regions);
    section.finish();
}

fn read_faces(mut section: Section<'_>, faces: &mut FaceDefaults) {
    let socket_buffer_max = ByteSize::mebibytes(1024);
    section.read_in("mtu", &mut faces.mtu, MTU_MIN..=MTU_MAX);
    section.read("path_mtu", &mut faces.path_mtu);
    section.read_in("idle_timeout", &mut faces.idle_timeout, Duration::from_secs(1)..=24 * HOUR);
    section.read_in(
        "send_queue",
        &mut faces.send_queue,
        ByteSize::kibibytes(64)..=ByteSize::mebibytes(1024),
    );
    section.read("congestion_marking", &mut faces.congestion_marking);
    section.read("congestion_threshold", &mut faces.congestion_threshold);
    section.read_in(
        "congestion_interval",
        &mut faces.congestion_interval,
        Duration::from_millis(1)..=HOUR,
    );
    for (key, target) in
        [("receive_buffer", &mut faces.receive_buffer), ("send_buffer", &mut faces.send_buffer)]
    {
        section.read_optional_in(key, target, ByteSize::kibibytes(4)..=socket_buffer_max);
    }
    section.read_in("reconnect_min", &mut faces.reconnect_min, Duration::from_millis(10)..=HOUR);
    section.read_in(
        "reconnect_max",
        &mut faces.reconnect_max,
        Duration::from_millis(10)..=24 * HOUR,
    );
    if faces.reconnect_min > faces.reconnect_max {
        let max = format_duration(faces.reconnect_max);
        section.object("reconnect_min", &format!("it exceeds reconnect_max, which is {max}"));
    }
    if faces.congestion_marking && faces.congestion_threshold >= faces.send_queue {
        let queue = faces.send_queue;
        section.object(
            "congestion_threshold",
            &format!("it must be below send_queue, which is {queue}"),
        );
    }
    section.finish();
}

fn read_limits(mut section: Section<'_>, limits: &mut Limits) {
    section.read_in("faces", &mut limits.faces, 1..=1 << 20);
    section.read_in("faces_per_peer", &mut limits.faces_per_peer, 1..=1 << 20);
    let mut pending = limits.pending_interests_per_face.unwrap_or(0);
    section.read_in("pending_interests_per_face", &mut pending, 0..=1 << 24);
    limits.pending_interests_per_face = (pending > 0).then_some(pending);
    let mut rate = limits.interests_per_second.map_or(0, NonZeroU32::get);
    section.read_in("interests_per_second", &mut rate, 0..=1_000_000_000);
    limits.interests_per_second = NonZeroU32::new(rate);
    let mut refused = limits.refused_commands_per_second.map_or(0, NonZeroU32::get);
    section.read_in("refused_commands_per_second", &mut refused, 0..=1_000_000_000);
    limits.refused_commands_per_second = NonZeroU32::new(refused);
    section.read_in("reassembly_packets", &mut limits.reassembly_packets, 1..=4096);
    section.read_in("reassembly_fragments", &mut limits.reassembly_fragments, 1..=4096);
    section.read_in(
        "reassembly_timeout",
        &mut limits.reassembly_timeout,
        Duration::from_millis(1)..=HOUR,
    );
    section.read_in(
        "interest_lifetime",
        &mut limits.interest_lifetime,
        Duration::from_secs(1)..=24 * HOUR,
    );
    section.finish();
}

fn read_pool(root: &mut Section<'_>, config: &mut Config) {
    let mut section = root.section("pool");
    let (least, most) = (Pool::PER_WORKER_MIN, ByteSize::mebibytes(1 << 20));
    section.read_in("capacity", &mut config.pool.capacity, least..=most);
    section.read("pages", &mut config.pool.pages);
    let capacity = config.pool.capacity;
    if section.has("capacity") {
        // How many "auto" are is known at the start.
        if let WorkerCount::Fixed(workers) = config.forwarder.workers
            && let Some(needed) = config.pool.shortage(workers)
        {
            let reason =
                format!("{capacity} is not enough for {workers} workers, who need {needed}");
            let workers = root.section("forwarder").place("workers");
            section.place("capacity").object_beside(&workers, &reason);
        }
    }
    section.finish();
}

fn read_propagate(mut section: Section<'_>, propagate: &mut Propagate) {
    let waits = Duration::from_millis(100)..=24 * HOUR;
    section.read("enabled", &mut propagate.enabled);
    section.read("cost", &mut propagate.cost);
    section.read_in("timeout", &mut propagate.timeout, Duration::from_millis(100)..=HOUR);
    section.read_in("refresh_interval", &mut propagate.refresh_interval, waits.clone());
    section.read_in("base_retry_wait", &mut propagate.base_retry_wait, waits.clone());
    section.read_in("max_retry_wait", &mut propagate.max_retry_wait, waits);
    if propagate.base_retry_wait > propagate.max_retry_wait {
        let max = format_duration(propagate.max_retry_wait);
        section.object("base_retry_wait", &format!("it exceeds max_retry_wait, which is {max}"));
    }
    section.finish();
}

fn read_log(mut section: Section<'_>, log: &mut Log) {
    section.read("level", &mut log.level);
    let modules = section.section("modules").entries(check_module);
    log.modules = modules.into_iter().collect::<BTreeMap<_, _>>();
    section.finish();
}

fn read_bound_faces(mut section: Section<'_>) -> Option<BoundFaces> {
    let remotes = section.read_required_checked("remotes", |remotes: &Vec<FaceUri>| {
        let is_udp = |uri: &&FaceUri| matches!(uri.scheme(), "udp4" | "udp6");
        match remotes.iter().find(|uri| !is_udp(uri) || uri.has_host_name()) {
            Some(other) if other.has_host_name() => {
                Err(format!("{other} has a host name: bound faces need an address"))
            }
            Some(other) => Err(format!("{other} is no UDP face: others cannot be bound")),
            None if remotes.is_empty() => Err("the list is empty".to_owned()),
            None => Ok(()),
        }
    });
    let (mut interfaces, mut except) = (vec![InterfaceRule::Any], Vec::new());
    section.read("interfaces", &mut interfaces);
    section.read("except", &mut except);
    section.finish();
    Some(BoundFaces { remotes: remotes?, interfaces, except })
}

pub(super) fn not_empty<T>(list: &[T]) -> Result<(), String> {
    if list.is_empty() {
        Err("the list is empty; `enabled = false` turns a listener off".to_owned())
    } else {
        Ok(())
    }
}

impl FromToml for Name {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        if !text.starts_with('/') {
            return Err(format!("`{text}` is not a name: names begin with `/`"));
        }
        Self::from_uri(&text).map_err(|error| format!("`{text}` is not a name: {error}"))
    }

    fn kind() -> String {
        "name".to_owned()
    }
}

/// The URI of a face that can be created, in canonical form, or of UDP or TCP with a host name.
impl FromToml for FaceUri {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        let uri = Self::parse(&text).map_err(|error| error.to_string())?;
        if let Some(why) = uri.unreachable_reason() {
            return Err(format!("`{text}` leads nowhere: {why}"));
        }
        if uri.has_host_name() {
            return uri.with_port().map_err(|error| error.to_string());
        }
        let uri = uri.canonize().map_err(|error| error.to_string())?;
        let schemes = ["udp4", "udp6", "tcp4", "tcp6", "ether", "memif", "https"];
        if schemes.contains(&uri.scheme()) {
            Ok(uri)
        } else {
            Err(format!(
                "`{text}` is no UDP, TCP, WebTransport, Ethernet or memif face: write one such as \"udp4://192.0.2.1:6363\""
            ))
        }
    }

    fn kind() -> String {
        "face URI".to_owned()
    }
}

/// Permission bits, written in octal as with chmod.
pub(super) struct FileMode(pub(super) u32);

impl FromToml for FileMode {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let reason = "expected permission bits in octal, such as \"0666\"";
        let text = value.as_str().ok_or_else(|| format!("{reason}, found {}", value.type_str()))?;
        let bits = u32::from_str_radix(text.trim_start_matches("0o"), 8)
            .ok()
            .filter(|bits| *bits <= 0o777);
        bits.map(Self).ok_or_else(|| format!("{reason}, found \"{text}\""))
    }

    fn kind() -> String {
        "permission bits in octal".to_owned()
    }
}

macro_rules! words {
    ($type:ty, $($word:literal => $value:expr),*) => {
        impl FromToml for $type {
            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                one_of(value, &[$(($word, $value)),*])
            }

            fn kind() -> String {
                super::reader::words(&[$($word),*])
            }
        }
    };
}

words!(Shed, "nack" => Self::Nack, "drop" => Self::Drop, "never" => Self::Never);
words!(Pages, "best" => Self::Best, "transparent" => Self::Transparent, "ordinary" => Self::Ordinary);
words!(CsPolicy, "lru" => Self::Lru, "priority_fifo" => Self::PriorityFifo);
words!(UnsolicitedPolicy, "drop-all" => Self::DropAll, "admit-local" => Self::AdmitLocal,
    "admit-network" => Self::AdmitNetwork, "admit-all" => Self::AdmitAll);
words!(LogLevel, "off" => Self::Off, "error" => Self::Error, "warn" => Self::Warn, "info" => Self::Info,
    "debug" => Self::Debug, "trace" => Self::Trace);
words!(Persistency, "persistent" => Self::Persistent, "permanent" => Self::Permanent);
words!(super::ethernet::Driver, "auto" => Self::Auto, "packet" => Self::Packet, "xdp" => Self::Xdp);
words!(PitTokens, "auto" => Self::Auto, "always" => Self::Always, "never" => Self::Never);
