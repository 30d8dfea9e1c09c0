use std::path::{Path, PathBuf};
use std::time::Duration;

use ndn_caching::PolicyKind;
use proptest::prelude::*;

use super::*;
use crate::declaration::arbitrary_table;
use crate::file::read;

fn problems_of(text: &str) -> Vec<String> {
    match parse("test.toml", text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn empty_file_has_the_defaults() {
    assert_eq!(parse("empty", "").unwrap(), Config::default());
}

#[test]
fn limits_are_enforced() {
    for (good, bad) in [
        ("tables.pit_capacity = 64", "tables.pit_capacity = 63"),
        ("tables.pit_capacity = 16777216", "tables.pit_capacity = 16777217"),
        ("tables.fib_capacity = 16", "tables.fib_capacity = 15"),
        ("tables.cs.capacity_packets = 0", "tables.cs.capacity_packets = -1"),
        ("tables.cs.capacity_packets = 16777216", "tables.cs.capacity_packets = 16777217"),
        ("tables.dead_nonce_lifetime = \"50ms\"", "tables.dead_nonce_lifetime = \"49ms\""),
        ("tables.dead_nonce_lifetime = \"1h\"", "tables.dead_nonce_lifetime = \"61min\""),
        ("forwarder.spin = \"1s\"", "forwarder.spin = \"2s\""),
        ("overload.mark_after = \"10us\"", "overload.mark_after = \"9us\""),
        ("overload.shed_after = \"10s\"", "overload.shed_after = \"11s\""),
        ("overload.interval = \"1ms\"", "overload.interval = \"999us\""),
        ("faces.mtu = \"64B\"", "faces.mtu = \"63B\""),
        ("faces.mtu = \"8.8kB\"", "faces.mtu = \"8801B\""),
        ("faces.receive_buffer = \"4KiB\"", "faces.receive_buffer = \"4095B\""),
        ("faces.send_buffer = \"1GiB\"", "faces.send_buffer = \"1025MiB\""),
        ("faces.send_queue = \"65KiB\"", "faces.send_queue = \"63KiB\""),
        ("listeners.tcp.port = 1", "listeners.tcp.port = 0"),
        ("listeners.udp.port = 65535", "listeners.udp.port = 65536"),
    ] {
        parse("good", good).unwrap_or_else(|error| panic!("{good}: {error}"));
        problems_of(bad);
    }
}

#[test]
fn settings_are_read_into_their_fields() {
    let text = r#"
        listeners.unix = { path = "/tmp/x.sock", mode = "0600" }
        listeners.udp.enabled = false
        listeners.tcp = { addresses = ["127.0.0.1"], port = 7000 }
        forwarder.cpus = [3]
        overload = { shed = "drop", mark_after = "1ms", answers_first = false }
        tables.cs = { capacity_packets = 5, capacity_bytes = "1MiB", policy = "priority_fifo", unsolicited = "admit-local" }
        tables.network_regions = ["/net/a", "/net/b"]
        faces.idle_timeout = "30s"
        log = { level = "warn", modules = { ndn_dataplane = "trace", "ndn_dataplane::worker" = "off" } }
        static_faces = [{ uri = "udp6://[2001:db8::1]:6363", pit_tokens = "always", persistency = "persistent" }]
        [[static_routes]]
        prefix = "/x"
        face = "udp6://[2001:db8::1]:6363"
        cost = 7
    "#;
    let config = parse("test", text).unwrap();
    assert_eq!(config.listeners.unix.mode, FileMode(0o600));
    assert_eq!(config.socket_path(), Some(PathBuf::from("/tmp/x.sock")));
    assert_eq!(config.control_socket_path(), Some(PathBuf::from("/tmp/x.control.sock")));
    assert!(!config.listeners.udp.enabled);
    assert_eq!(config.listeners.tcp.port, 7000);
    assert_eq!(config.forwarder.cpus, [3]);
    assert_eq!(config.forwarder.worker_count(4), 1, "one for each processor that is listed");
    assert_eq!(config.overload.shed, Shed::Drop);
    assert_eq!(config.overload.mark_after, Duration::from_millis(1));
    assert!(!config.overload.answers_first);
    assert_eq!(config.tables.cs.capacity_bytes, Some(ByteSize::mebibytes(1)));
    assert_eq!(config.tables.cs.policy, PolicyKind::PriorityFifo);
    assert_eq!(config.tables.cs.unsolicited, UnsolicitedPolicy::AdmitLocal);
    assert_eq!(config.faces.idle_timeout, Duration::from_secs(30));
    assert_eq!(config.log.modules["ndn_dataplane::worker"], LogLevel::Off);
    assert_eq!(config.static_faces[0].pit_tokens, PitTokens::Always);
    assert_eq!(config.static_faces[0].persistency, Persistency::Persistent);
    assert_eq!(config.static_routes[0].cost, 7);
}

#[test]
fn every_problem_is_reported_with_its_position() {
    let text = "[listeners.tcp]\nprt = 6363\nport = \"6363\"\n\n[tables.cs]\n  policy = \"mru\"\n[tabels]\n";
    assert_eq!(
        problems_of(text),
        [
            "test.toml:2:1: unknown key `prt` in `listeners.tcp` (did you mean `port`?)",
            "test.toml:3:8: `listeners.tcp.port`: expected a whole number, found \"6363\" in quotes",
            "test.toml:6:12: `tables.cs.policy`: `mru` is not one of \"lru\", \"priority-fifo\", \"priority_fifo\", \"lfu\", \"windowed-lfu\", \
             \"w-tinylfu\", \"s3-fifo\", \"sieve\", \"arc\", \"gdsf\", \"random\", \"vip\"",
            "test.toml:7:2: unknown key `tabels` (did you mean `tables`?)",
        ]
    );
}

#[test]
fn unknown_key_without_similar_key_lists_known_keys() {
    let found = problems_of("[pool]\nbanana = 1\n");
    assert_eq!(
        found,
        ["test.toml:2:1: unknown key `banana` in `pool` (known here: capacity, pages)"]
    );
}

#[test]
fn key_of_another_table_is_named_with_its_table() {
    for (text, help) in [
        ("[udp]\nport = 1", "`udp` (did you mean `[listeners.udp]`?)"),
        ("[unix]\nmode = 1", "`unix` (did you mean `[listeners.unix]`?)"),
        ("[route]\nprefix = 1", "`route` (did you mean `[[static_routes]]`?)"),
        ("[[face]]\nuri = 1", "(did you mean `faces`?)"),
        (
            "[tables]\ncs_capacity = 1",
            "(did you mean `tables.cs.capacity_packets` or `tables.cs.capacity_bytes`?)",
        ),
        ("pit_capacity = 1", "`pit_capacity` (did you mean `tables.pit_capacity`?)"),
        (
            "[tables]\ncapacity = 1",
            "(did you mean `tables.pit_capacity` or `tables.fib_capacity`?)",
        ),
        ("[pool]\nthreads = 1", "(known here: capacity, pages)"),
        ("[tables]\nfib_capcity = 16", "(did you mean `fib_capacity`?)"),
        ("[tables]\nfibcapacity = 16", "(did you mean `fib_capacity`?)"),
    ] {
        let found = problems_of(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(help), "{found:?}");
    }
}

#[test]
fn numbers_that_overflow_their_type_report_the_limits_of_the_setting() {
    for (text, bounds) in [
        ("listeners.tcp.port = -1", "between 1 and 65535"),
        ("listeners.tcp.port = 99999999", "between 1 and 65535"),
        ("limits.faces = -1", "between 1 and 1048576"),
        ("forwarder.workers = 0", "between 1 and 64"),
        ("forwarder.workers = -4", "between 1 and 64"),
        ("[[static_faces]]\nuri = \"udp4://192.0.2.1\"\nmtu = \"9kB\"", "between 64B and 8800B"),
        ("listeners.memif.dataroom = \"511B\"", "between 512B and 65535B"),
        ("listeners.memif.dataroom = 0x400", "`1024` has no unit: write \"1024B\" or \"1024KiB\""),
        ("faces.mtu = 1_500", "`1500` has no unit: write \"1500B\""),
        ("faces.idle_timeout = 0x10", "`16` has no unit: write \"16ms\" or \"16s\""),
        ("tables.pit_capacity = 0x10", "16 is out of range"),
        ("faces.receive_buffer = \"1B\"", "between 4KiB and 1GiB"),
        ("pool.capacity = \"0B\"", "between 4MiB and 1TiB"),
    ] {
        let found = problems_of(text);
        assert!(found.len() == 1 && found[0].contains(bounds), "{text}: {found:?}");
    }
}

#[test]
fn pool_must_fit_the_workers() {
    // The memory of the system is not checked here.
    let pool = parse("test", "pool.capacity = \"1TiB\"").unwrap().pool;
    assert!(pool.exceeds((1 << 40) - 1) && !pool.exceeds(1 << 40));
    let found = problems_of("forwarder.workers = 4\n\npool.capacity = \"12MiB\"");
    assert!(found[0].contains("3:17: ") && found[0].contains("16MiB; see line 1"), "{found:?}");
    parse("test", "forwarder.workers = 4\npool.capacity = \"16MiB\"").unwrap();
    // The default gives way to the number of workers.
    parse("test", "forwarder.workers = 64").unwrap();
}

#[test]
fn static_faces_can_have_host_names() {
    let config = parse(
        "test",
        "[[static_faces]]\nuri = \"udp://Router.example\"\n\
         [[static_routes]]\nprefix = \"/a\"\nface = \"udp://router.example:6363\"\n",
    )
    .unwrap();
    assert_eq!(config.static_faces[0].uri, config.static_routes[0].face);
    assert_eq!(config.static_faces[0].uri.to_string(), "udp://router.example:6363");
    let found = problems_of("[[static_faces]]\nuri = \"tcp://router.example:65536\"");
    assert!(found[0].contains("port"), "{found:?}");
    let found = problems_of("[[bound_faces]]\nremotes = [\"udp://router.example\"]");
    assert!(found[0].contains("host name"), "{found:?}");
}

#[test]
fn unknown_key_lists_each_table_once() {
    let found = problems_of("banana = 1\n");
    assert_eq!(found[0].matches("limits").count(), 1, "{found:?}");
    assert_eq!(problems_of("limits = 1").len(), 1, "{:?}", problems_of("limits = 1"));
}

#[test]
fn syntax_error_is_reported_with_its_position() {
    let found = problems_of("[log]\nlevel = \n");
    assert!(found[0].starts_with("test.toml:2:"), "{found:?}");
    assert!(
        problems_of("log.level = \"info\"\nlog.level = \"warn\"\n")[0]
            .ends_with(": the key `level` occurs twice")
    );
}

#[test]
fn threads_is_an_unknown_key() {
    let found = problems_of("[forwarder]\nthreads = \"each\"\n");
    assert!(found[0].starts_with("test.toml:2:") && found[0].contains("threads"), "{found:?}");
}

#[test]
fn worker_count_is_that_of_the_machine_unless_set() {
    for (text, on_four, on_many) in [
        ("", 4, WORKERS_MAX),
        ("forwarder.workers = \"auto\"", 4, WORKERS_MAX),
        ("forwarder.workers = 1", 1, 1),
        ("forwarder = { workers = \"auto\", cpus = [5, 7] }", 2, 2),
    ] {
        let forwarder = parse("test", text).unwrap().forwarder;
        assert_eq!(forwarder.worker_count(4), on_four, "{text}");
        assert_eq!(forwarder.worker_count(WORKERS_MAX), on_many, "{text}");
    }
}

#[test]
fn conflicting_settings_are_rejected() {
    for text in [
        "forwarder = { cpus = [0, 1], workers = 1 }",
        "forwarder.workers = \"many\"",
        "forwarder.workers = 65",
        "forwarder = { workers = 2, io_workers = 2 }",
        "forwarder = { cpus = [0], placement = \"P1\" }",
        "forwarder.placement = \"P5\"",
        "forwarder.cpus = [1, 1]",
        "forwarder.workers = 0",
        "faces = { reconnect_min = \"2s\", reconnect_max = \"1s\" }",
        "faces = { send_queue = \"64KiB\" }",
        "listeners.tcp.addresses = []",
    ] {
        problems_of(text);
    }
    parse("test", "faces = { send_queue = \"64KiB\", congestion_marking = false }").unwrap();
}

#[test]
fn incomplete_and_invalid_list_items_are_rejected() {
    for (text, place) in [
        ("[[static_routes]]\nprefix = \"/a\"\n", "`static_routes.face` is missing"),
        ("[[static_faces]]\n", "`static_faces.uri` is missing"),
        (
            "[[static_routes]]\nprefix = \"a\"\nface = \"udp4://192.0.2.1:6363\"\n",
            "names begin with `/`",
        ),
        ("[[static_faces]]\nuri = \"http://x\"\n", "face URI"),
        (
            "[[caching.vip.rules]]\nprefix = \"/a\"\n",
            "`caching.vip.rules.prefix`: a rule needs `components` or `block_segments`",
        ),
        (
            "[[caching.vip.rules]]\nprefix = \"/a\"\ncomponents = 1\nblock_segments = 10\n",
            "`caching.vip.rules.block_segments`: only rules without `components` have it",
        ),
        (
            "[[caching.vip.rules]]\nprefix = \"/a\"\nblock_segments = 0\n",
            "must lie between 1 and 1000000000",
        ),
        (
            "[[static_faces]]\nuri = \"udp6://[fe80::1]\"\n",
            "test.toml:2:7: `static_faces.uri`: udp6://[fe80::1]:6363 is a link-local address without an interface: write \
             one such as udp6://[fe80::1%eth0]:6363",
        ),
        (
            "[[static_routes]]\nprefix = \"/a\"\nface = \"tcp6://[fe80::1]:7\"\n",
            "is a link-local address without an interface",
        ),
        (
            "[[static_faces]]\nuri = \"udp4://239.1.1.1\"\n",
            "`static_faces.uri`: udp4://239.1.1.1:56363 is a multicast group, not a peer: groups are set in `[listeners.multicast]`",
        ),
        (
            "[[static_routes]]\nprefix = \"/a\"\nface = \"udp6://[ff02::1234%eth0]\"\n",
            "is a multicast group, not a peer",
        ),
        (
            "[[static_routes]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:6363\"\ncost = 1\n\
             [[static_routes]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:6363\"\ncost = 2\n",
            "/a by udp4://192.0.2.1:6363 has two routes that differ; see line 2",
        ),
        ("static_faces = 5", "expected tables"),
        ("static_faces = [5]", "expected a table"),
        ("[[strategy_choices]]\nprefix = \"/\"\n", "`strategy_choices.strategy` is missing"),
        ("[[strategy_choices]]\nprefix = \"/\"\nstrategy = \"/fast\"\n", "no strategy /fast"),
        (
            "[[strategy_choices]]\nprefix = \"/\"\nstrategy = \"/localhost/nfd/strategy/access/v=1/x~1\"\n",
            "strategy_choices.strategy",
        ),
        ("[log.modules]\n\"a b\" = \"info\"\n", "not the name of a module"),
        ("listeners.unix.mode = 438", "octal"),
        ("listeners.unix.mode = \"1777\"", "octal"),
        ("listeners = 3", "expected a table"),
    ] {
        let found = problems_of(text);
        assert!(found.iter().any(|line| line.contains(place)), "{text}: {found:?}");
    }
}

#[test]
fn rendered_error_shows_the_line() {
    let error = parse("namewire.toml", "[pool]\ncapacity = \"lots\"\n").unwrap_err();
    let rendered = error.render(false);
    assert!(rendered.contains("namewire.toml:2:12"), "{rendered}");
    assert!(rendered.contains("capacity = \"lots\""), "{rendered}");
}

#[test]
fn unreadable_file_is_named_in_the_error() {
    let error = load(Path::new("/nonexistent/namewire.toml")).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/namewire.toml: "), "{error}");
}

#[test]
fn nfd_conf_is_recognized() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.conf");
    for text in [
        "; NFD\ngeneral\n{\n}\ntables\n{\n  cs_max_packets 65536\n}\n",
        "general {\n}\nfoo { }\n",
        "log { default_level INFO } ; all\n",
        "#include \"faces.conf\"\nrib ; one brace is missing\n{\n",
    ] {
        std::fs::write(&path, text).unwrap();
        let error = load(&path).unwrap_err();
        assert_eq!(error.problems().len(), 1, "{text}");
        assert!(error.to_string().contains("`namewire config convert FILE`"), "{error}");
    }
    for text in
        ["general = 1\n", "log.level = \n", "logs {\n", "[tables]\nx\n", "forwarder\nworkers = 4\n"]
    {
        std::fs::write(&path, text).unwrap();
        assert!(!load(&path).unwrap_err().to_string().contains("--nfd-conf"), "{text}");
    }
}

#[test]
fn empty_authorizations_round_trip() {
    let read = |text: &str| parse("test", text).unwrap().management.authorizations;
    assert_eq!(read("management.authorizations = []"), []);
    assert_eq!(read("[management]\n"), Config::default().management.authorizations);
    let management = Management { authorizations: Vec::new(), ..Management::default() };
    let config = Config { management, ..Config::default() };
    assert_eq!(parse("test", &config.to_toml()).unwrap(), config);
}

#[test]
fn every_invalid_item_of_a_list_is_reported() {
    let text = "[[management.authorizations]]\ncertificate = \"any\"\nprivileges = [\"x1\", \"faces\", \"x2\"]\n";
    let output = parse("a.toml", text).unwrap_err().to_string();
    assert!(output.contains("x1") && output.contains("x2"), "{output}");
}

#[test]
fn default_settings_are_omitted_when_written() {
    assert_eq!(Config::default().to_toml(), "");
}

proptest! {
    #[test]
    fn configuration_round_trips(config in arbitrary_table::<Config>()) {
        let text = config.to_toml();
        let (again, problems) = read(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        prop_assert_eq!(&again, &config, "{}", text);
        // Each setting is valid by itself. Conflicts between them are those of the configuration.
        let conflicts: Vec<_> = config.conflicts().into_iter().map(|one| one.reason).collect();
        for problem in &problems {
            let is_quota = problem.message.contains("is more than") || problem.message.contains("is not enough");
            prop_assert!(is_quota || conflicts.contains(&problem.message), "{:?}\n{}", problem, text);
        }
    }
}
