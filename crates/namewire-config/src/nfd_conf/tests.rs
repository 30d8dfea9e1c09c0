//! The keys of nfd.conf, and the files as they are shipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use super::*;
use crate::{AuthorizedSigner, Ethernet, InterfaceRule, Multicast, TrustRules};

fn read(text: &str) -> Result<NfdConf, NfdConfError> {
    read_in(Path::new("/etc/ndn"), text)
}

fn read_in(directory: &Path, text: &str) -> Result<NfdConf, NfdConfError> {
    parse("nfd.conf", text, directory, &FreePorts::default(), &mut |_| Err("no file".to_owned()))
}

pub(super) fn config(text: &str) -> Config {
    read(text).unwrap_or_else(|error| panic!("{error}")).config
}

pub(super) fn warnings(text: &str) -> Vec<String> {
    read(text).unwrap().warnings.iter().map(ToString::to_string).collect()
}

pub(super) fn locations(text: &str) -> KeyLocations {
    read(text).unwrap_or_else(|error| panic!("{error}")).locations
}

fn problems(text: &str) -> Vec<String> {
    read(text).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

/// Adds a listener, which is required.
pub(super) fn with_unix(text: &str) -> String {
    format!("{text}\nface_system {{ unix {{ path /tmp/nfd.sock }} }}\n")
}

#[test]
fn absent_sections_grant_nothing() {
    assert!(problems("").len() == 1, "no listener at all");
    let config = config(&with_unix(""));
    assert_eq!(config.socket_path(), Some(PathBuf::from("/tmp/nfd.sock")));
    assert!(!config.listeners.tcp.enabled && !config.listeners.udp.enabled);
    let access = &config.management;
    assert!(access.authorizations.is_empty());
    for rules in [&access.localhost_rib, &access.localhop_rib, &access.prefix_announcements] {
        assert_eq!(*rules, TrustRules::Nobody);
    }
}

#[test]
fn table_and_log_settings_are_converted() {
    let text = with_unix(
        "tables { cs_max_packets 100 cs_policy priority_fifo cs_unsolicited_policy admit-local
           strategy_choice { / /localhost/nfd/strategy/multicast }
           network_region { /example/region1 } }
         log { default_level ALL nfd.EthernetFactory DEBUG FibManager NONE ndn.security.Validator WARN }
         forwarder { default_hop_limit 0 }",
    );
    let config = config(&text);
    assert_eq!(config.tables.cs.capacity_packets, 100);
    assert_eq!(config.tables.cs.policy, PolicyKind::PriorityFifo);
    assert_eq!(config.tables.cs.unsolicited, UnsolicitedPolicy::AdmitLocal);
    assert_eq!(config.tables.network_regions, ["/example/region1".parse::<Name>().unwrap()]);
    assert_eq!(config.strategy_choices.len(), 1);
    assert_eq!(config.log.level, LogLevel::Trace);
    assert_eq!(config.log.modules["namewire_daemon::ethernet"], LogLevel::Debug);
    assert_eq!(config.log.modules["ndn_client::rules"], LogLevel::Warn);
    assert_eq!(config.log.modules["namewire_daemon::control"], LogLevel::Off);
    assert!(warnings(&text).is_empty());
}

#[test]
fn log_modules_without_counterpart_are_reported() {
    let text =
        with_unix("log {\n nfd.* DEBUG\n default_level WARN\n Forwarder TRACE\n Nothing INFO\n}");
    assert_eq!(config(&text).log.level, LogLevel::Debug);
    let reported = warnings(&text);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported[0].contains("`Forwarder` has no effect: packets are counted"), "{reported:?}");
    assert!(
        reported[1].contains("`Nothing` has no effect: there is no such module"),
        "{reported:?}"
    );
}

#[test]
fn face_system_settings_are_converted() {
    let text = "face_system {
        general { enable_congestion_marking no }
        tcp { listen yes port 7000 enable_v6 no }
        udp { port 7001 idle_timeout 30 unicast_mtu 1452 mcast no } }";
    let config = config(text);
    assert!(!config.faces.congestion_marking);
    assert_eq!(config.listeners.tcp.port, 7000);
    assert_eq!(config.listeners.tcp.addresses.len(), 1);
    assert!(config.listeners.tcp.loopback_is_local);
    assert_eq!((config.listeners.udp.port, config.faces.mtu.0), (7001, 1452));
    assert_eq!(config.faces.idle_timeout, Duration::from_secs(30));
    assert!(!config.listeners.unix.enabled);
    assert!(warnings(text).is_empty());
}

#[test]
fn tcp_local_subnets_outside_loopback_are_rejected() {
    let is_local = |local: &str| {
        config(&format!("face_system {{ tcp {{ local {{ {local} }} }} }}"))
            .listeners
            .tcp
            .loopback_is_local
    };
    assert!(is_local("whitelist { subnet 127.0.0.0/8 \n subnet ::1/128 }"));
    assert!(is_local("whitelist { * \n }"));
    assert!(!is_local("whitelist { subnet 127.0.0.1/32 \n subnet ::1/128 }"));
    assert!(!is_local("whitelist { * \n } blacklist { subnet 127.0.0.1/32 }"));
    assert!(!is_local("whitelist { subnet 192.0.2.0/24 }"));
    let text = "face_system { tcp {\n local {\n whitelist {\n subnet 192.0.2.0/24\n } } } }";
    assert_eq!(warnings(text).len(), 2);
    assert!(warnings(text)[0].starts_with("nfd.conf:4: "), "{:?}", warnings(text));
}

#[test]
fn authorizations_and_trust_rules_are_converted() {
    let text = with_unix(
        "authorizations {
           authorize { certfile keys/admin.ndncert privileges { faces \n cs \n } }
           authorize { certfile any privileges { fib \n } } }
         rib { localhost_security { trust-anchor { type any } }
           localhop_security { rule { id x for interest checker { type hierarchical } }
             trust-anchor { type file file-name keys/root.ndncert } } }",
    );
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir(path("keys")).unwrap();
    std::fs::write(path("keys/root.ndncert"), "").unwrap();
    let access = read_in(directory.path(), &text).unwrap().config.management;
    let [admin, everyone] = &access.authorizations[..] else { panic!("{access:?}") };
    assert_eq!(admin.certificate, AuthorizedSigner::Certificate(path("keys/admin.ndncert")));
    assert_eq!(admin.privileges.len(), 2);
    assert_eq!(everyone.certificate, AuthorizedSigner::Any);
    assert_eq!(access.localhost_rib, TrustRules::Any);
    let TrustRules::Inline { text, .. } = &access.localhop_rib else { panic!() };
    assert!(text.contains(path("keys/root.ndncert").to_str().unwrap()), "{text}");
}

#[test]
fn missing_trust_anchor_authorizes_nobody() {
    let anchor = "trust-anchor {\n type file\n file-name none.ndncert\n }";
    let rules = |more: &str| {
        let text = with_unix(&format!("rib {{ localhost_security {{\n{anchor}\n{more} }} }}"));
        let reported = warnings(&text);
        assert!(reported.len() == 1 && reported[0].starts_with("nfd.conf:4: "), "{reported:?}");
        config(&text).management.localhost_rib
    };
    assert_eq!(rules(""), TrustRules::Nobody);
    let rule = "rule { id x for interest checker { type hierarchical } }";
    let TrustRules::Inline { text, .. } = rules(rule) else { panic!() };
    assert!(text.contains("hierarchical") && !text.contains("anchor"), "{text}");
}

#[test]
fn settings_without_effect_are_reported_with_their_line() {
    let text = "tables {\n cs_max_packets 99999999999\n}\nface_system {\n unix { path /x }\n \
                ether { listen yes }\n websocket { listen yes }\n}\nrib {\n readvertise_nlsr yes\n \
                auto_prefix_propagate { cost 15 }\n}\nforwarder {\n default_hop_limit 5\n}";
    let lines: Vec<String> = warnings(text)
        .iter()
        .map(|warning| warning.split(':').nth(1).unwrap_or_default().to_owned())
        .collect();
    assert!(config(text).management.readvertise_nlsr);
    assert_eq!(config(text).forwarder.default_hop_limit, 5);
    let websocket = config(text).listeners.websocket;
    assert!(websocket.enabled && websocket.port == 9696 && websocket.addresses.len() == 2);
    assert_eq!(lines, ["2"], "{:?}", warnings(text));
}

#[test]
fn invalid_settings_are_rejected_with_their_line() {
    for (text, line) in [
        ("tabels {\n}", 1),
        ("tables {\n cs_policy mru\n}", 2),
        ("tables {\n cs_max_packets many\n}", 2),
        ("tables {\n strategy_choice {\n / /localhost/nfd/strategy/none\n}\n}", 3),
        (
            concat!(
                "tables {\n strategy_choice {\n /a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a",
                "/a/a/a/a/a/a/a/a/a/a /localhost/nfd/strategy/asf\n}\n}"
            ),
            3,
        ),
        ("log {\n default_level LOUD\n}", 2),
        ("face_system {\n tcp {\n listen maybe\n}\n}", 3),
        ("face_system {\n udp {\n unicast_mtu 10\n}\n}", 3),
        ("face_system {\n websocket {\n enable_v4 no\n}\n}", 2),
        ("face_system {\n tcp {\n enable_v4 no\n enable_v6 no\n}\n}", 2),
        ("authorizations {\n}", 1),
        ("authorizations {\n authorize {\n certfile any\n}\n}", 2),
        ("authorizations {\n authorize {\n certfile any privileges {\n all\n}\n}\n}", 4),
        ("authorizations {\n authorize {\n certfile any privileges {\n faces fib\n}\n}\n}", 4),
        ("rib {\n localhop_security { trust-anchor { type any } }\n auto_prefix_propagate x\n}", 3),
        ("mw-nfd {\n forwarding-worker-core-assign a-b\n}", 2),
        ("mw-nfd {\n forwarding-worker-core-assign 1,1\n}", 2),
        ("face_system {\n", 1),
    ] {
        let problems = problems(&with_unix(text));
        let is_there = problems.iter().any(|p| p.starts_with(&format!("nfd.conf:{line}: ")));
        assert!(is_there || line == 1, "{text}: {problems:?}");
    }
}

#[test]
fn untyped_strategy_versions_are_accepted() {
    let strategy = |uri: &str| {
        let text = with_unix(&format!("tables {{ strategy_choice {{ / {uri} }} }}"));
        config(&text).strategy_choices[0].strategy.to_uri()
    };
    let base = "/localhost/nfd/strategy/best-route";
    assert_eq!(strategy(&format!("{base}/%FD%05")), format!("{base}/v=5"));
    assert_eq!(strategy(&format!("{base}/v=5")), format!("{base}/v=5"));
    assert_eq!(strategy(base), base);
}

#[test]
fn included_files_are_read() {
    let mut include = |file: &str| match file {
        "tables.conf" => Ok("tables {\n cs_max_packets 7\n}".to_owned()),
        _ => Err("no file".to_owned()),
    };
    let text = with_unix("#include \"tables.conf\"");
    let read =
        parse("nfd.conf", &text, Path::new(""), &FreePorts::default(), &mut include).unwrap();
    assert_eq!(read.config.tables.cs.capacity_packets, 7);
}

#[test]
fn ethernet_section_enables_ethernet() {
    let ethernet =
        |ether: &str| config(&with_unix(&format!("face_system {{ {ether} }}"))).listeners.ethernet;
    assert!(!ethernet("general { }").enabled, "no section");
    assert_eq!(ethernet("ether { }"), Ethernet { enabled: true, ..Ethernet::default() });
    let own = ethernet(
        "ether { listen no idle_timeout 30 mcast yes mcast_group 01:00:5E:00:17:AB
           mcast_ad_hoc yes whitelist { ifname eth* } blacklist { ether 02:00:5e:10:00:01 } }",
    );
    assert!(own.enabled && own.multicast && own.ad_hoc && !own.listen);
    assert_eq!(own.group.to_string(), "01:00:5e:00:17:ab");
    assert_eq!(own.idle_timeout, Duration::from_secs(30));
    // The lists apply to multicast faces only.
    assert_eq!(own.interfaces, [InterfaceRule::Any]);
    assert_eq!(own.multicast_interfaces, ["eth*".parse().unwrap()]);
    assert_eq!(own.multicast_except, ["02:00:5e:10:00:01".parse().unwrap()]);
    for wrong in ["mcast_group 02:00:5e:00:17:aa", "mcast_group x", "idle_timeout -1", "port 1"] {
        let text = with_unix(&format!("face_system {{ ether {{ {wrong} }} }}"));
        assert_eq!(problems(&text).len(), 1, "{wrong}");
    }
}

#[test]
fn multicast_is_on_unless_disabled() {
    let multicast =
        |udp: &str| config(&with_unix(&format!("face_system {{ {udp} }}"))).listeners.multicast;
    assert!(!multicast("general { }").enabled, "no UDP at all");
    let usual = multicast("udp { listen yes }");
    assert!(usual.enabled && !usual.ad_hoc);
    assert_eq!(usual, Multicast { enabled: true, ..Multicast::default() });
    assert!(!multicast("udp { mcast no }").enabled);
    let own = multicast(
        "udp { enable_v6 no mcast_group 224.0.0.9 mcast_port 7 mcast_ad_hoc yes
           whitelist { ifname eth* ether 02:00:5e:10:00:01 }
           blacklist { subnet 192.0.2.0/24 } }",
    );
    assert_eq!(own.groups, ["224.0.0.9:7".parse().unwrap()]);
    assert!(own.ad_hoc);
    let texts = |rules: &[InterfaceRule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&own.interfaces), ["eth*", "02:00:5e:10:00:01"]);
    assert_eq!(texts(&own.except), ["192.0.2.0/24"]);
    assert_eq!(multicast("udp { whitelist { * \n } }").interfaces, [InterfaceRule::Any]);
    for wrong in
        ["mcast_group 192.0.2.1", "mcast_port 0", "whitelist { ether x }", "blacklist { x y }"]
    {
        let text = with_unix(&format!("face_system {{ udp {{ {wrong} }} }}"));
        assert_eq!(problems(&text).len(), 1, "{wrong}");
    }
}

#[test]
fn user_and_group_are_read() {
    let config = config(&with_unix("general { user ndn-user group ndn-group }"));
    assert_eq!(config.privileges.user.as_deref(), Some("ndn-user"));
    assert_eq!(config.privileges.group.as_deref(), Some("ndn-group"));
    for text in ["general { user }", "general { group }", "general { group ndn-group }"] {
        assert_eq!(problems(&with_unix(text)).len(), 1, "{text}");
    }
}

#[test]
fn netdev_bound_faces_are_read() {
    let bound = |rule: &str| format!("face_system {{ udp {{ }} netdev_bound {{ {rule} }} }}");
    let config = config(&bound(
        "rule {
           remote udp4://192.0.2.1:6363
           remote udp6://[2001:db8::1]:6363
           whitelist { ifname eth*
             subnet 192.0.2.0/24 }
           blacklist { ether 02:00:5e:10:00:01 }
         }
         rule { remote udp4://192.0.2.9:6363 }",
    ));
    let [first, second] = &config.bound_faces[..] else { panic!("{:?}", config.bound_faces) };
    assert_eq!(first.remotes.len(), 2);
    assert_eq!(first.interfaces.len(), 2);
    assert_eq!(first.except, [InterfaceRule::Mac([2, 0, 0x5e, 0x10, 0, 1])]);
    assert_eq!((&second.interfaces[..], &second.except[..]), (&[InterfaceRule::Any][..], &[][..]));
    for wrong in [
        "rule { }",
        "rule { remote udp4://192.0.2.1 }",
        "rule { remote udp://example.com:6363 }",
        "rule { remote tcp4://192.0.2.1:6363 }",
        "rule { remote x }",
        "rule { remote udp4://192.0.2.1:6363 other 1 }",
        "rule { remote udp4://192.0.2.1:6363 whitelist { } whitelist { } }",
        "rules { }",
    ] {
        assert!(!problems(&bound(wrong)).is_empty(), "{wrong}");
    }
}

#[test]
fn auto_prefix_propagation_is_read() {
    let rib = |text: &str| with_unix(&format!("rib {{ {text} }}"));
    let propagate = |text: &str| config(&rib(text)).management.propagate;
    assert!(!propagate("readvertise_nlsr no").enabled);
    let defaults = propagate("auto_prefix_propagate { }");
    assert!(defaults.enabled && defaults.refresh_interval == Duration::from_secs(25));
    let all = propagate(
        "auto_prefix_propagate { cost 3
           timeout 5000
           refresh_interval 300
           base_retry_wait 10
           max_retry_wait 100 }",
    );
    assert_eq!((all.cost, all.timeout), (3, Duration::from_secs(5)));
    assert_eq!(all.refresh_interval, Duration::from_secs(300));
    let waits = (all.base_retry_wait, all.max_retry_wait);
    assert_eq!(waits, (Duration::from_secs(10), Duration::from_secs(100)));
}

#[test]
fn settings_that_only_nfd_rejects_are_accepted() {
    let twice = "face_system { tcp { port 7000 }\n tcp { port 7001 } }";
    assert_eq!(config(twice).listeners.tcp.port, 7001);
    let mut include = |_: &str| Ok("tables {\n cs_max_packets 7\n}".to_owned());
    let text = with_unix("#include tables.conf");
    let read =
        parse("nfd.conf", &text, Path::new(""), &FreePorts::default(), &mut include).unwrap();
    assert_eq!(read.config.tables.cs.capacity_packets, 7);
    let text = "face_system { tcp { local { whitelist {\n ifname lo\n} } } }";
    assert!(!config(text).listeners.tcp.loopback_is_local && !warnings(text).is_empty());
    assert!(config(&with_unix("")).management.authorizations.is_empty());
}

#[test]
fn settings_that_nfd_ignores_are_reported_with_their_line() {
    let reported = |text: &str, line: usize| {
        let text = with_unix(text);
        let warnings = warnings(&text);
        let begins = format!("nfd.conf:{line}: ");
        assert!(warnings.len() == 1 && warnings[0].starts_with(&begins), "{text}: {warnings:?}");
        config(&text)
    };
    reported("general {\n shell /bin/sh\n}", 2);
    let day = Duration::from_secs(86_400);
    for timeout in [0, 86_401, u32::MAX] {
        let text = format!("face_system {{ udp {{\n idle_timeout {timeout}\n}} }}");
        assert_eq!(reported(&text, 2).faces.idle_timeout, day, "{timeout}");
    }
    let ethernet = reported("face_system { ether {\n idle_timeout 0\n} }", 2).listeners.ethernet;
    assert_eq!(ethernet.idle_timeout, day);
    for section in ["tcp", "udp"] {
        let text = format!("face_system {{ {section} {{\n listen no\n port 0\n}} }}");
        let listeners = reported(&text, 3).listeners;
        assert!(!listeners.tcp.enabled && !listeners.udp.enabled);
    }
    let tcp = reported("face_system {\n tcp {\n port 0\n}\n}", 3).listeners.tcp;
    assert!(tcp.enabled && tcp.port != 0 && tcp.port != 6363, "{tcp:?}");
    let udp = reported("face_system {\n udp {\n listen yes\n port 0\n}\n}", 4).listeners.udp;
    assert!(udp.enabled && udp.port != 0 && udp.port != 6363, "{udp:?}");
    let text = "face_system {\n udp {\n mcast_port 6363\n}\n}";
    let multicast = reported(text, 3).listeners.multicast;
    assert!(multicast.enabled && multicast.groups.iter().all(|group| group.is_ipv6()));
    let text = "face_system {\n udp {\n enable_v6 no\n mcast_port 6363\n}\n}";
    assert!(!reported(text, 4).listeners.multicast.enabled);
    let text = "face_system {\n udp {\n listen no\n mcast_port 6363\n}\n}";
    assert!(warnings(&with_unix(text)).is_empty());
    let propagate = |key: &str| {
        let text = format!("rib {{ auto_prefix_propagate {{\n {key}\n}} }}");
        reported(&text, 2).management.propagate
    };
    let default = crate::Propagate { enabled: true, ..crate::Propagate::default() };
    assert_eq!(propagate("cost -1").cost, u64::MAX);
    assert_eq!(propagate("timeout 0").timeout, Duration::from_millis(100));
    assert_eq!(propagate("refresh_interval 0").refresh_interval, Duration::from_secs(1));
    for without_effect in ["cost x", "timeout -1", "refresh_interval many", "nonsense 1"] {
        assert_eq!(propagate(without_effect), default, "{without_effect}");
    }
    let text = "rib {\n auto_prefix_propagate {\n base_retry_wait 100\n max_retry_wait 10\n} }";
    let waits = reported(text, 2).management.propagate;
    assert_eq!((waits.base_retry_wait, waits.max_retry_wait), (waits.max_retry_wait, seconds(10)));
}

#[test]
fn missing_listeners_are_reported_with_the_file_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.conf");
    let reported = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        load(&path, &FreePorts::default()).unwrap_err().to_string()
    };
    let begins = format!("{}: ", path.display());
    for (content, output) in [
        (&b""[..], "the file is empty"),
        (b"; only a comment\n", "all listeners are off"),
        (b"\x06\xfd\xff", "binary file"),
        (b"[forwarder]\nworkers = 2\n", "this is TOML, not a configuration of NFD"),
    ] {
        let reported = reported(content);
        assert!(reported.starts_with(&begins) && reported.contains(output), "{reported}");
    }
}

#[test]
fn port_0_selects_one_free_port_for_each_forwarder() {
    let text = "face_system {\n tcp {\n port 0\n}\n}";
    let port = |ports: &FreePorts| {
        let read = parse("nfd.conf", text, Path::new(""), ports, &mut |_| Err(String::new()));
        read.unwrap().config.listeners.tcp.port
    };
    let first = FreePorts::default();
    let selected = port(&first);
    assert_eq!(port(&first.clone()), selected, "a reload keeps the port");
    // The kernel selects from thousands of ports: of ten selections, not all are the same.
    assert!((0..10).any(|_| port(&FreePorts::default()) != selected));
}
