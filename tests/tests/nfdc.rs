//! `namewire nfdc` beside the `nfdc` of NFD: the same words in, the same words out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use namewire_tests::{
    Forwarder, Process, Settings, program, run_to_end, skip_unless_found, wait_until,
};

/// Commands in order, what they print and their exit status, as nfdc 24.07 does it (its standard
/// output, faces and times left out).
const SESSION: &[(&str, &str, i32)] = &[
    (
        "face create udp4://127.0.0.1:9",
        "face-created id=ID local=udp4://127.0.0.1:PORT remote=udp4://127.0.0.1:9 persistency=persistent reliability=off congestion-marking=on congestion-marking-interval=100ms default-congestion-threshold=65536B mtu=8800\n",
        0,
    ),
    (
        "face create udp4://127.0.0.1:9",
        "face-exists id=ID local=udp4://127.0.0.1:PORT remote=udp4://127.0.0.1:9 persistency=persistent reliability=off congestion-marking=on congestion-marking-interval=100ms default-congestion-threshold=65536B mtu=8800\n",
        0,
    ),
    (
        "face create remote udp4://127.0.0.1:9 persistency permanent mtu 1400",
        "face-updated id=ID local=udp4://127.0.0.1:PORT remote=udp4://127.0.0.1:9 persistency=permanent reliability=off congestion-marking=on congestion-marking-interval=100ms default-congestion-threshold=65536B mtu=1400\n",
        0,
    ),
    (
        "face list scheme udp4",
        "faceid=ID remote=udp4://127.0.0.1:9 local=udp4://127.0.0.1:PORT congestion={base-marking-interval=100ms default-threshold=65536B} mtu=1400 counters={in={0i 0d 0n 0B} out={0i 0d 0n 0B}} flags={non-local permanent point-to-point congestion-marking}\n",
        0,
    ),
    (
        "route add /a udp4://127.0.0.1:9",
        "route-add-accepted prefix=/a nexthop=ID origin=static cost=0 flags=child-inherit expires=never\n",
        0,
    ),
    (
        "route add prefix /b nexthop udp4://127.0.0.1:9 origin nlsr cost 5 no-inherit capture expires 60000000",
        "route-add-accepted prefix=/b nexthop=ID origin=nlsr cost=5 flags=capture expires=60000000ms\n",
        0,
    ),
    (
        "route list origin static",
        "prefix=/a nexthop=ID origin=static cost=0 flags=child-inherit expires=never\n",
        0,
    ),
    (
        "route show /a",
        "prefix=/a nexthop=ID origin=static cost=0 flags=child-inherit expires=never\n",
        0,
    ),
    ("route show /none", "", 6),
    ("route add /c tcp4://127.0.0.1:1", "", 1),
    ("route add /c 99999", "", 3),
    ("route remove /a udp4://127.0.0.1:9", "route-removed prefix=/a nexthop=ID origin=static\n", 0),
    ("route remove /a udp4://127.0.0.1:10", "", 3),
    (
        "strategy set /a /localhost/nfd/strategy/multicast",
        "strategy-set prefix=/a strategy=/localhost/nfd/strategy/multicast/v=5\n",
        0,
    ),
    ("strategy show /a/b", "  prefix=/a\nstrategy=/localhost/nfd/strategy/multicast/v=5\n", 0),
    ("strategy set /a /nosuch", "", 7),
    ("strategy unset /a", "strategy-unset prefix=/a\n", 0),
    ("strategy unset /", "", 2),
    ("cs config capacity 100 admit off", "cs-config-updated capacity=100 admit=off serve=on\n", 0),
    (
        "cs config capacity 65536 admit on serve off",
        "cs-config-updated capacity=65536 admit=on serve=off\n",
        0,
    ),
    ("cs erase /x", "cs-erased prefix=/x count=0\n", 0),
    ("cs erase /x count 0", "", 1),
    ("face show 99999", "", 3),
    ("face create udp://127.0.0.1 mtu x", "", 2),
    (
        "face destroy udp4://127.0.0.1:9",
        "face-destroyed id=ID local=udp4://127.0.0.1:PORT remote=udp4://127.0.0.1:9 persistency=permanent reliability=off congestion-marking=off\n",
        0,
    ),
    ("face destroy udp4://127.0.0.1:9", "", 3),
    ("face list remote udp4://127.0.0.1:9", "", 3),
    // It stays for the lists.
    (
        "face create udp4://127.0.0.1:11",
        "face-created id=ID local=udp4://127.0.0.1:PORT remote=udp4://127.0.0.1:11 persistency=persistent reliability=off congestion-marking=on congestion-marking-interval=100ms default-congestion-threshold=65536B mtu=8800\n",
        0,
    ),
];

/// The lists and reports.
const LISTS: [&str; 10] = [
    "status",
    "status report",
    "status report xml",
    "channel list",
    "fib list",
    "cs",
    "face list",
    "route list",
    "strategy list",
    "help",
];

/// A UDP socket for the faces, and no traffic.
fn forwarder() -> Forwarder {
    Settings::new().udp().start()
}

fn ours(forwarder: &Forwarder, line: &str) -> Output {
    let mut arguments = vec!["nfdc"];
    arguments.extend(line.split(' '));
    forwarder.run(&arguments)
}

fn real(forwarder: &Forwarder, line: &str) -> Output {
    real_at(&forwarder.unix(), forwarder.directory(), line)
}

fn real_at(transport: &str, home: &Path, line: &str) -> Output {
    let mut command = Command::new("nfdc");
    command.args(line.split(' ')).env("NDN_CLIENT_TRANSPORT", transport).env("HOME", home);
    run_to_end(command)
}

/// Standard output without what differs from run to run: numbers of faces, ports, times, counters.
fn normalized(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_inclusive([' ', '\n', '>'])
        .map(|word| {
            let (word, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
            let fixed = match word.split_once('=') {
                Some((key @ ("id" | "faceid" | "nexthop"), _)) => format!("{key}=ID"),
                Some(("local", uri)) => {
                    format!("local={}:PORT", uri.rsplit_once(':').map_or(uri, |(front, _)| front))
                }
                _ => word.to_owned(),
            };
            fixed + end
        })
        .collect()
}

#[test]
fn nfdc_session_prints_the_text_of_nfdc() {
    let forwarder = forwarder();
    for (line, expected, status) in SESSION {
        let output = ours(&forwarder, line);
        let stated = String::from_utf8_lossy(&output.stderr);
        assert_eq!(normalized(&output), *expected, "{line}: {stated}");
        assert_eq!(output.status.code(), Some(*status), "{line}: {stated}");
        assert_eq!(stated.is_empty(), *status == 0, "{line}: {stated}");
    }
}

#[test]
fn nfdc_of_nfd_reads_the_same_state() {
    if !skip_unless_found("nfdc") {
        return;
    }
    let (forwarder, other) = (forwarder(), forwarder());
    for (line, expected, status) in SESSION {
        let output = real(&forwarder, line);
        let stated = String::from_utf8_lossy(&output.stderr);
        assert_eq!(normalized(&output), *expected, "{line}: {stated}");
        assert_eq!(output.status.code(), Some(*status), "{line}: {stated}");
        // Standard error is the same, too, but for codes that depend on the library.
        let own = ours(&other, line);
        let own_stderr = String::from_utf8_lossy(&own.stderr);
        if !stated.contains("Error ") {
            assert_eq!(own_stderr, stated, "{line}");
        }
    }
    for line in LISTS {
        let (theirs, own) = (real(&forwarder, line), ours(&forwarder, line));
        assert_eq!(stable(&own), stable(&theirs), "{line}");
        assert!(!stable(&own).is_empty(), "{line}: nothing is compared");
    }
}

/// A configuration that NFD and Namewire start with, with a UDP port and the strategy choices that Namewire
/// makes by itself.
const NFD_CONF: &str = "
log { default_level NONE }
tables { cs_max_packets 65536 strategy_choice {
 / /localhost/nfd/strategy/best-route
 /ndn/broadcast /localhost/nfd/strategy/multicast
 /localhost /localhost/nfd/strategy/multicast
 /localhost/nfd /localhost/nfd/strategy/best-route
} }
face_system { unix { path SOCKET } udp { listen yes port PORT enable_v6 no mcast no } }
authorizations { authorize { certfile any privileges { faces
 fib
 cs
 strategy-choice
} } }
rib { localhost_security { trust-anchor { type any } } }
";

/// Lines of lists that differ on purpose: the program itself, and the FIB entry of NFD's RIB, which is an
/// application of its own there.
fn is_known_difference(line: &str) -> bool {
    let line = line.trim_start();
    let starts = [
        "version=",
        "<version>",
        "nFibEntries=",
        "<nFibEntries>",
        "/localhost/nfd/rib nexthops={",
        "<prefix>/localhost/nfd/rib</prefix>",
    ];
    starts.iter().any(|start| line.starts_with(start))
}

/// A line without what differs: numbers of faces; and the application that is NFD's RIB has the route to
/// management, by a face with a number of its own.
fn fixed(line: &str) -> String {
    if let Some((front, rest)) = line.split_once("faceid=")
        && rest.contains("remote=udp")
    {
        let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        return format!("{front}faceid=ID{rest}");
    }
    let Some((front, rest)) = line.split_once("nexthop=") else { return line.to_owned() };
    if !line.trim_start().trim_start_matches("prefix=").starts_with("/localhost/nfd ") {
        return line.to_owned();
    }
    format!("{front}nexthop=ID{}", rest.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

/// The lines of a list that are compared.
fn comparable(line: &str, printed: &Output) -> Vec<String> {
    let lines = stable(printed).into_iter().filter(|line| !is_known_difference(line));
    let lines = lines.map(|line| fixed(&line));
    if line.ends_with("xml") {
        // NFD's RIB has a face and a FIB entry of its own: of many lines each.
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        lines.dedup();
        return lines;
    }
    // NFD has strategy choices in the order of a hash table. They are the last of a report.
    let (mut choices, mut lines): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.contains(" strategy=/localhost/nfd/strategy/"));
    choices.sort_unstable();
    lines.extend(choices);
    lines
}

/// Lists without a line that is compared would be the same whatever they say.
fn check_compared(line: &str, compared: &[String]) {
    assert!(!compared.is_empty(), "{line}: nothing is compared");
    let has = |word: &str| compared.iter().filter(|line| line.contains(word)).count();
    if matches!(line, "strategy list" | "status report") {
        assert_eq!(has("strategy=/localhost/nfd/strategy/"), 4, "{line}: {compared:?}");
    }
    if matches!(line, "face list" | "status report") {
        let face = "remote=udp4://127.0.0.1:11 local=udp4://127.0.0.1:PORT";
        assert_eq!(has(face), 1, "{line}: {compared:?}");
    }
    if matches!(line, "route list" | "fib list" | "status report") {
        assert!(has("/localhost/nfd ") > 0, "{line}: {compared:?}");
    }
}

#[test]
fn own_nfdc_prints_the_state_of_nfd_equally() {
    if !(skip_unless_found("nfdc") && skip_unless_found("nfd")) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let start = |name: &str, command: &[&str]| {
        let mut complaint = String::new();
        // Between choosing a free port and binding it, somebody else may take it.
        for _ in 0..5 {
            let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let (socket, conf) =
                (directory.path().join(name), directory.path().join(format!("{name}.conf")));
            let text = NFD_CONF.replace("SOCKET", socket.to_str().unwrap());
            std::fs::write(&conf, text.replace("PORT", &port.to_string())).unwrap();
            let mut started = Command::new(command[0]);
            started.args(&command[1..]).arg(&conf).env("HOME", directory.path());
            let mut process = Process::start(name, started, directory.path());
            let transport = format!("unix://{}", socket.display());
            let answers = wait_until("it to answer or to end", || {
                let listed = real_at(&transport, directory.path(), "face list");
                let is_over = listed.status.success() || !process.is_running();
                is_over.then(|| listed.status.success())
            });
            if answers {
                return (process, transport, port);
            }
            complaint = process.stderr();
        }
        panic!("{name} does not start, on five ports:\n{complaint}");
    };
    let (_nfd, nfd, port) = start("nfd", &["nfd", "--config"]);
    // Its RIB is an application that comes later.
    wait_until("NFD's RIB", || {
        let listed = real_at(&nfd, directory.path(), "route list");
        String::from_utf8_lossy(&listed.stdout).contains("/localhost/nfd").then_some(())
    });
    // On another port: both run at once.
    let run = [program().to_str().unwrap(), "run", "--nfd-conf"];
    let (_namewire, namewire, other) = start("namewire", &run);
    for (line, expected, status) in SESSION {
        // There is no TCP in this configuration; and NFD repeats for a second what it has said of a face
        // that is gone since.
        if line.contains("tcp4")
            || (line.starts_with("face") && expected.is_empty() && *status == 3)
        {
            continue;
        }
        let is_expected = |output: &Output| {
            normalized(output) == *expected && output.status.code() == Some(*status)
        };
        for transport in [&nfd, &namewire] {
            let print = || real_at(transport, directory.path(), line);
            if line.contains("list") || line.contains("show") {
                // Within a second NFD repeats the list that it has made last.
                wait_until(line, || is_expected(&print()).then_some(()));
            } else {
                let output = print();
                assert!(is_expected(&output), "{transport}: {line}: {output:?}");
            }
        }
    }
    for line in LISTS {
        let list = |transport: &str, port: u16| -> Vec<String> {
            let printed = real_at(transport, directory.path(), line);
            let compared = comparable(line, &printed).into_iter();
            let compared = compared.map(|line| line.replace(transport, "unix://SOCKET"));
            compared.map(|line| line.replace(&format!(":{port}"), ":PORT")).collect()
        };
        let is_same = || list(&namewire, other) == list(&nfd, port);
        wait_until(&format!("{line} to be the same"), || is_same().then_some(()));
        check_compared(line, &list(&nfd, port));
    }
}

/// Without counters, times and the face of the one who asks.
fn stable(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).replace("><", ">\n<");
    let is_volatile = |line: &str| {
        [
            "Time",
            "uptime",
            "nIn",
            "nOut",
            "Satisfied",
            "nsatisfied",
            "nMisses",
            "nHits",
            "nPit",
            "nNameTree",
            "nCsEntries",
            "nEntries",
            "fd://",
            "<nInterests>",
            "<nData>",
            "<nNacks>",
            "Bytes>",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    // The face of the one who asks is another each time.
    let faces = |line: &str| line.starts_with("<faceId>");
    text.lines()
        .filter(|line| !is_volatile(line) && !faces(line))
        .map(|line| match line.split_once(" counters=") {
            Some((front, _)) => front.to_owned(),
            None => line.to_owned(),
        })
        .collect()
}

#[test]
fn batch_stops_at_the_first_failure() {
    let forwarder = forwarder();
    let file = forwarder.directory().join("batch");
    std::fs::write(
        &file,
        "# a comment\nstrategy set /a /localhost/nfd/strategy/multicast\n\n\
         face destroy 99999\nstrategy set /b /localhost/nfd/strategy/multicast\n",
    )
    .unwrap();
    let output = forwarder.run(&["nfdc", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let stated = String::from_utf8_lossy(&output.stderr);
    assert!(stated.contains("Failed to execute command on line 2 of the batch file"), "{stated}");
    let list = String::from_utf8(ours(&forwarder, "strategy list").stdout).unwrap();
    assert!(list.contains("prefix=/a ") && !list.contains("prefix=/b "), "{list}");
    std::fs::write(&file, "face nonsense\n").unwrap();
    let output = forwarder.run(&["nfdc", "--batch", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn reports_are_well_formed() {
    let forwarder = forwarder();
    let xml = String::from_utf8(ours(&forwarder, "status report xml").stdout).unwrap();
    assert!(xml.starts_with("<?xml version=\"1.0\"?><nfdStatus xmlns="), "{xml}");
    assert!(xml.ends_with("</strategyChoices></nfdStatus>"), "{xml}");
    let json = ours(&forwarder, "status report json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["cs"]["capacity"], 65_536);
    assert!(!json["faces"].as_array().unwrap().is_empty());
    let wrong = ours(&forwarder, "status report yaml");
    assert_eq!(wrong.status.code(), Some(2));
}
