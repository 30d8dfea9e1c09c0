//! Writes a configuration as TOML: what differs from the defaults.

use std::fmt::Display;
use std::fmt::Write as _;
use std::time::Duration;

use toml::Value;

use super::{
    Access, AuthorizedSigner, Config, CsPolicy, PitTokens, Privilege, Propagate, TrustRules,
    UnsolicitedPolicy, WebSocketListener, WorkerCount, format_duration,
};

impl Config {
    /// The configuration as a file that [`parse`](super::parse) reads as the same one.
    pub fn to_toml(&self) -> String {
        let mut writer = Writer::default();
        let default = Self::default();
        write_listeners(&mut writer, self, &default);
        write_tables(&mut writer, self, &default);
        write_faces(&mut writer, self, &default);
        writer.section("[management]");
        let (own, other) = (&self.management, &default.management);
        writer.changed("enabled", &own.enabled, &other.enabled, own.enabled);
        let readvertise = own.readvertise_nlsr;
        writer.changed("readvertise_nlsr", &readvertise, &other.readvertise_nlsr, readvertise);
        if let Some(identity) = &own.identity {
            writer.line("identity", text(identity));
        }
        write_access_rules(&mut writer, &own.access, &other.access);
        write_propagate(&mut writer, &own.propagate, &other.propagate);
        write_authorizations(&mut writer, &own.access, &other.access);
        write_log(&mut writer, self, &default);
        write_lists(&mut writer, self);
        writer.out
    }
}

#[derive(Default)]
pub(super) struct Writer {
    out: String,
    section: String,
}

impl Writer {
    pub(super) fn section(&mut self, header: &str) {
        header.clone_into(&mut self.section);
    }

    /// Writes a key, under its section's header if it is the first one there.
    pub(super) fn line(&mut self, key: &str, value: impl Display) {
        if !self.section.is_empty() {
            let gap = if self.out.is_empty() { "" } else { "\n" };
            let _ = writeln!(self.out, "{gap}{}", self.section);
            self.section.clear();
        }
        let _ = writeln!(self.out, "{key} = {value}");
    }

    pub(super) fn changed<T: PartialEq>(
        &mut self,
        key: &str,
        value: &T,
        default: &T,
        shown: impl Display,
    ) {
        if value != default {
            self.line(key, shown);
        }
    }
}

pub(super) fn text(value: impl Display) -> Value {
    Value::String(value.to_string())
}

pub(super) fn texts<T: Display>(values: &[T]) -> Value {
    Value::Array(values.iter().map(text).collect())
}

pub(super) fn duration(value: Duration) -> Value {
    text(format_duration(value))
}

fn write_listeners(writer: &mut Writer, config: &Config, default: &Config) {
    let (own, default) = (&config.listeners, &default.listeners);
    writer.section("[listeners.unix]");
    writer.changed("enabled", &own.unix.enabled, &default.unix.enabled, own.unix.enabled);
    if let Some(path) = &own.unix.path {
        writer.line("path", text(path.display()));
    }
    let mode = format!("\"{:04o}\"", own.unix.mode);
    writer.changed("mode", &own.unix.mode, &default.unix.mode, mode);
    own.memif.write(writer, &default.memif);
    writer.section("[listeners.tcp]");
    writer.changed("enabled", &own.tcp.enabled, &default.tcp.enabled, own.tcp.enabled);
    let addresses = texts(&own.tcp.addresses);
    writer.changed("addresses", &own.tcp.addresses, &default.tcp.addresses, addresses);
    writer.changed("port", &own.tcp.port, &default.tcp.port, own.tcp.port);
    let is_local = own.tcp.loopback_is_local;
    writer.changed("loopback_is_local", &is_local, &default.tcp.loopback_is_local, is_local);
    write_websocket(writer, &own.websocket, &default.websocket);
    writer.section("[listeners.udp]");
    writer.changed("enabled", &own.udp.enabled, &default.udp.enabled, own.udp.enabled);
    let addresses = texts(&own.udp.addresses);
    writer.changed("addresses", &own.udp.addresses, &default.udp.addresses, addresses);
    writer.changed("port", &own.udp.port, &default.udp.port, own.udp.port);
    let (multicast, default) = (&own.multicast, &default.multicast);
    writer.section("[listeners.multicast]");
    writer.changed("enabled", &multicast.enabled, &default.enabled, multicast.enabled);
    writer.changed("groups", &multicast.groups, &default.groups, texts(&multicast.groups));
    writer.changed("ad_hoc", &multicast.ad_hoc, &default.ad_hoc, multicast.ad_hoc);
    let interfaces = texts(&multicast.interfaces);
    writer.changed("interfaces", &multicast.interfaces, &default.interfaces, interfaces);
    writer.changed("except", &multicast.except, &default.except, texts(&multicast.except));
    let other = Config::default().listeners;
    own.ethernet.write(writer, &other.ethernet);
    own.dpdk.write(writer, &other.dpdk);
    own.webtransport.write(writer, &other.webtransport);
    writer.section("[privileges]");
    for (key, value) in [("user", &config.privileges.user), ("group", &config.privileges.group)] {
        if let Some(value) = value {
            writer.line(key, text(value));
        }
    }
    writer.section("[forwarder]");
    let workers = config.forwarder.workers;
    let number = match workers {
        WorkerCount::Auto => "\"auto\"".to_owned(),
        WorkerCount::Fixed(count) => count.to_string(),
    };
    writer.changed("workers", &workers, &Config::default().forwarder.workers, number);
    let own = &config.forwarder;
    writer.changed("io_workers", &own.io_workers, &0, own.io_workers);
    let placement = own.placement.map_or_else(String::new, |one| format!("\"{one}\""));
    writer.changed("placement", &own.placement, &None, placement);
    let hop_limit = config.forwarder.default_hop_limit;
    writer.changed("default_hop_limit", &hop_limit, &0, hop_limit);
    let cpus = format!("{:?}", config.forwarder.cpus);
    writer.changed("cpus", &config.forwarder.cpus, &Vec::new(), cpus);
}

fn write_websocket(writer: &mut Writer, own: &WebSocketListener, default: &WebSocketListener) {
    writer.section("[listeners.websocket]");
    writer.changed("enabled", &own.enabled, &default.enabled, own.enabled);
    writer.changed("addresses", &own.addresses, &default.addresses, texts(&own.addresses));
    writer.changed("port", &own.port, &default.port, own.port);
    let is_local = own.loopback_is_local;
    writer.changed("loopback_is_local", &is_local, &default.loopback_is_local, is_local);
    if let Some(origins) = &own.origins {
        writer.line("origins", texts(origins));
    }
    let local = texts(&own.local_origins);
    writer.changed("local_origins", &own.local_origins, &default.local_origins, local);
}

fn write_tables(writer: &mut Writer, config: &Config, default: &Config) {
    let (own, default) = (&config.tables, &default.tables);
    writer.section("[tables]");
    writer.changed("pit_capacity", &own.pit_capacity, &default.pit_capacity, own.pit_capacity);
    writer.changed("fib_capacity", &own.fib_capacity, &default.fib_capacity, own.fib_capacity);
    let lifetime = own.dead_nonce_lifetime;
    writer.changed(
        "dead_nonce_lifetime",
        &lifetime,
        &default.dead_nonce_lifetime,
        duration(lifetime),
    );
    let regions = texts(&own.network_regions);
    writer.changed("network_regions", &own.network_regions, &default.network_regions, regions);
    let (own, default) = (&own.cs, &default.cs);
    writer.section("[tables.cs]");
    let packets = own.capacity_packets;
    writer.changed("capacity_packets", &packets, &default.capacity_packets, packets);
    if let Some(bytes) = own.capacity_bytes {
        writer.line("capacity_bytes", bytes.0);
    }
    let policy = match own.policy {
        CsPolicy::Lru => "\"lru\"",
        CsPolicy::PriorityFifo => "\"priority_fifo\"",
    };
    writer.changed("policy", &own.policy, &default.policy, policy);
    writer.changed("admit", &own.admit, &default.admit, own.admit);
    writer.changed("serve", &own.serve, &default.serve, own.serve);
    let unsolicited = match own.unsolicited {
        UnsolicitedPolicy::DropAll => "\"drop-all\"",
        UnsolicitedPolicy::AdmitLocal => "\"admit-local\"",
        UnsolicitedPolicy::AdmitNetwork => "\"admit-network\"",
        UnsolicitedPolicy::AdmitAll => "\"admit-all\"",
    };
    writer.changed("unsolicited", &own.unsolicited, &default.unsolicited, unsolicited);
}

fn write_faces(writer: &mut Writer, config: &Config, default: &Config) {
    let (own, default) = (&config.faces, &default.faces);
    writer.section("[faces]");
    writer.changed("mtu", &own.mtu, &default.mtu, own.mtu);
    writer.changed("path_mtu", &own.path_mtu, &default.path_mtu, own.path_mtu);
    let idle = own.idle_timeout;
    writer.changed("idle_timeout", &idle, &default.idle_timeout, duration(idle));
    writer.changed("send_queue", &own.send_queue, &default.send_queue, own.send_queue.0);
    let marking = own.congestion_marking;
    writer.changed("congestion_marking", &marking, &default.congestion_marking, marking);
    let threshold = own.congestion_threshold;
    writer.changed("congestion_threshold", &threshold, &default.congestion_threshold, threshold.0);
    let interval = own.congestion_interval;
    writer.changed(
        "congestion_interval",
        &interval,
        &default.congestion_interval,
        duration(interval),
    );
}

fn write_propagate(writer: &mut Writer, own: &Propagate, default: &Propagate) {
    writer.section("[management.propagate]");
    writer.changed("enabled", &own.enabled, &default.enabled, own.enabled);
    writer.changed("cost", &own.cost, &default.cost, own.cost);
    for (key, own, default) in [
        ("timeout", own.timeout, default.timeout),
        ("refresh_interval", own.refresh_interval, default.refresh_interval),
        ("base_retry_wait", own.base_retry_wait, default.base_retry_wait),
        ("max_retry_wait", own.max_retry_wait, default.max_retry_wait),
    ] {
        writer.changed(key, &own, &default, duration(own));
    }
}

fn write_access_rules(writer: &mut Writer, own: &Access, default: &Access) {
    for (key, rules, default) in [
        ("localhost_rib", &own.localhost_rib, &default.localhost_rib),
        ("localhop_rib", &own.localhop_rib, &default.localhop_rib),
        ("prefix_announcements", &own.prefix_announcements, &default.prefix_announcements),
    ] {
        let shown = match rules {
            TrustRules::Any => text("any"),
            TrustRules::Nobody => text("nobody"),
            TrustRules::File(path) => text(path.display()),
            TrustRules::Inline { text: rules, .. } => text(rules),
        };
        writer.changed(key, rules, default, shown);
    }
    // It has to come before the tables of the section.
    if own.authorizations.is_empty() {
        writer.line("authorizations", "[]");
    }
}

fn write_authorizations(writer: &mut Writer, own: &Access, default: &Access) {
    if own.authorizations == default.authorizations {
        return;
    }
    for authorize in &own.authorizations {
        writer.section("[[management.authorizations]]");
        let signer = match &authorize.signer {
            AuthorizedSigner::Any => text("any"),
            AuthorizedSigner::Certificate(path) => text(path.display()),
        };
        writer.line("certificate", signer);
        let privileges: Vec<&str> =
            authorize.privileges.iter().map(|Privilege(module)| module.as_str()).collect();
        writer.line("privileges", texts(&privileges));
    }
}

fn write_log(writer: &mut Writer, config: &Config, default: &Config) {
    let own = &config.log;
    writer.section("[log]");
    writer.changed("level", &own.level, &default.log.level, text(own.level));
    writer.section("[log.modules]");
    for (module, level) in &own.modules {
        writer.line(&text(module).to_string(), text(level));
    }
}

fn write_lists(writer: &mut Writer, config: &Config) {
    for choice in &config.strategy_choices {
        writer.section("[[strategy_choices]]");
        writer.line("prefix", text(&choice.prefix));
        writer.line("strategy", text(&choice.strategy));
    }
    for bound in &config.bound_faces {
        writer.section("[[bound_faces]]");
        writer.line("remotes", texts(&bound.remotes));
        writer.line("interfaces", texts(&bound.interfaces));
        writer.line("except", texts(&bound.except));
    }
    super::memif::write_secrets(writer, &config.memif_secrets);
    for face in &config.static_faces {
        writer.section("[[static_faces]]");
        writer.line("uri", text(&face.uri));
        if let Some(interface) = &face.interface {
            writer.line("interface", text(interface));
        }
        writer.line("persistency", text(face.persistency.as_str()));
        if let Some(mtu) = face.mtu {
            writer.line("mtu", mtu);
        }
        writer.line(
            "pit_tokens",
            match face.pit_tokens {
                PitTokens::Auto => "\"auto\"",
                PitTokens::Always => "\"always\"",
                PitTokens::Never => "\"never\"",
            },
        );
    }
    for route in &config.static_routes {
        writer.section("[[static_routes]]");
        writer.line("prefix", text(&route.prefix));
        writer.line("face", text(&route.face));
        writer.line("cost", route.cost);
        writer.line("child_inherit", route.child_inherit);
        writer.line("capture", route.capture);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SAMPLE, parse};

    #[test]
    fn defaults_need_no_word() {
        assert_eq!(Config::default().to_toml(), "");
        assert_eq!(parse("sample", SAMPLE).unwrap().to_toml(), "");
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let text = r#"
            strategy_choices = [{ prefix = "/a b", strategy = "/localhost/nfd/strategy/multicast" }]
            static_faces = [{ uri = "udp4://192.0.2.1:6363", mtu = 1400, persistency = "persistent" },
                { uri = "ether://[08:00:27:01:02:03]", interface = "eth1" }]
            static_routes = [{ prefix = "/x", face = "udp4://192.0.2.1:6363", cost = 3, capture = true }]
            [listeners.unix]
            path = "/tmp/a \"quoted\" path"
            mode = "0660"
            [listeners.memif]
            enabled = true
            path = "/tmp/memif.sock"
            mode = "0600"
            dataroom = 9000
            chains = true
            memory = "64MiB"
            [listeners.tcp]
            enabled = false
            addresses = ["127.0.0.1"]
            port = 7000
            loopback_is_local = false
            [listeners.udp]
            port = 7001
            [listeners.websocket]
            enabled = true
            port = 7002
            origins = []
            local_origins = ["https://app.example.com:8443"]
            [listeners.webtransport]
            port = 443
            addresses = ["192.0.2.1"]
            certificate = "/etc/cert.pem"
            key = "/etc/key.pem"
            origins = []
            sessions = 7
            idle_timeout = "30s"
            [privileges]
            user = "ndn"
            group = "77"
            [[bound_faces]]
            remotes = ["udp4://192.0.2.1:6363", "udp6://[2001:db8::1]:6363"]
            interfaces = ["eth*", "192.0.2.0/24"]
            except = ["eth1"]
            [[memif_secrets]]
            socket = "/run/ndn/fwd.sock"
            id = 0
            secret = "with \"quotes\""
            [[memif_secrets]]
            socket = "/tmp/memif.sock"
            secret = "other"
            [forwarder]
            workers = 2
            io_workers = 1
            cpus = [3, 4]
            [tables]
            pit_capacity = 100
            dead_nonce_lifetime = "1500ms"
            network_regions = ["/net/a"]
            [tables.cs]
            capacity_packets = 10
            capacity_bytes = "1MiB"
            policy = "priority_fifo"
            admit = false
            serve = false
            unsolicited = "admit-all"
            [faces]
            mtu = 1400
            idle_timeout = "30s"
            send_queue = "1MiB"
            congestion_interval = "50ms"
            congestion_threshold = "32KiB"
            [management]
            enabled = false
            readvertise_nlsr = true
            localhost_rib = "nobody"
            prefix_announcements = '''
            rule { id "a b" for interest checker { type hierarchical } }
            trust-anchor { type file file-name x }
            '''
            [management.propagate]
            enabled = true
            cost = 3
            timeout = "1s"
            refresh_interval = "10s"
            base_retry_wait = "5s"
            max_retry_wait = "1min"
            [[management.authorizations]]
            certificate = "any"
            privileges = ["faces"]
            [[management.authorizations]]
            certificate = "admin.cert"
            privileges = ["cs", "strategy-choice"]
            [log]
            level = "debug"
            [log.modules]
            "ndn_table::fib" = "trace"
            "#;
        let config = parse("test", text).unwrap();
        let written = config.to_toml();
        let again = parse("written", &written).unwrap_or_else(|error| panic!("{written}\n{error}"));
        assert_eq!(again, config, "{written}");
    }
}
