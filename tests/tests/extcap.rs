//! Wireshark lists the forwarder as an interface, and captures from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use namewire_tests::{
    Forwarder, Process, Settings, dissect_with_tshark, program, run_to_end, skip_unless_found,
    wait_until, wire,
};
use ndn_packet::InterestBuilder;

/// tshark of a user with this home directory.
fn tshark(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("tshark");
    command.env("HOME", home).env_remove("XDG_CONFIG_HOME").args(arguments);
    command
}

#[test]
fn wireshark_lists_the_forwarder_and_captures_from_it() {
    if !skip_unless_found("tshark") {
        return;
    }
    let forwarder = Settings::new().start_program();
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    // Of version 4.0, and of later ones.
    for place in [".config/wireshark/extcap", ".local/lib/wireshark/extcap"] {
        std::fs::create_dir_all(home.join(place)).unwrap();
        let link = home.join(place).join("namewire-extcap");
        std::os::unix::fs::symlink(program(), link).unwrap();
    }
    let listed = run_to_end(tshark(home, &["-D"]));
    let printed = String::from_utf8_lossy(&listed.stdout);
    assert!(printed.contains("namewire (Namewire forwarder)"), "{printed}");
    let types = run_to_end(tshark(home, &["-L", "-i", "namewire"]));
    let printed = [types.stdout, types.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("EN10MB"), "{printed}");

    let socket = forwarder.unix();
    let capture = ["-i", "namewire", "-l", "-T", "fields", "-e", "eth.type", "-c", "3"];
    let control = Path::new(socket.strip_prefix("unix://").unwrap()).with_extension("control.sock");
    let control = format!("extcap.namewire.control:{}", control.display());
    let options = [
        "-o",
        control.as_str(),
        "-o",
        "extcap.namewire.name:/seen",
        "-o",
        "extcap.namewire.sample:2",
    ];
    let command = tshark(home, &[&capture[..], &options].concat());
    let mut capture = Process::start("tshark", command, directory.path());
    // Interests go out until three packets were captured.
    let mut number = 0;
    wait_until("tshark to have captured", || {
        number += 1;
        let _ = forwarder.run(&["peek", &format!("/seen/{number}"), "-l", "10ms"]);
        let _ = forwarder.run(&["peek", &format!("/other/{number}"), "-l", "10ms"]);
        (!capture.is_running()).then_some(())
    });
    let types = capture.stdout();
    assert!(
        types.lines().count() == 3 && types.lines().all(|one| one == "0x8624"),
        "{}",
        capture.everything()
    );
}

/// Captures at a forwarder while an Interest for `/seen/SCHEME` arrives over each transport, a URI, until all were captured;
/// tshark has to show each with the URI of its peer.
fn check_capture(forwarder: &Forwarder, transports: &[(&str, &str)]) {
    let file = forwarder.directory().join("transports.pcapng");
    let arguments = ["capture", "--name", "/seen", "-w", file.to_str().unwrap()];
    let mut capture = forwarder.spawn("capture", &arguments);
    for (scheme, transport) in transports {
        let name = wire::name(&format!("/seen/{scheme}"));
        let _websocket = wait_until(scheme, || {
            let mut connection = None;
            match transport.strip_prefix("ws://") {
                Some(address) => connection = Some(send_by_websocket(address, &name)),
                None => {
                    let name = name.to_uri();
                    let peek = ["peek", &name, "-l", "50ms", "--transport", transport];
                    let _ = forwarder.run(&peek);
                }
            }
            let bytes = std::fs::read(&file).unwrap_or_default();
            let value = name.value();
            bytes.windows(value.len()).any(|window| window == value).then_some(connection)
        });
    }
    capture.signal(rustix::process::Signal::INT);
    assert!(capture.wait().success(), "{}", capture.everything());
    let home = forwarder.directory().join("home");
    let fields = ["ndn.name", "frame.interface_name"];
    let shown = dissect_with_tshark(&home, &file, "ndn.type == \"Interest\"", &fields);
    for (scheme, _) in transports {
        let name = format!("/seen/{scheme}");
        let is_of = |fields: &Vec<String>| fields[0] == name && fields[1].contains(scheme);
        assert!(shown.iter().any(is_of), "{scheme}: {shown:?}");
    }
}

/// Sends an Interest over a WebSocket; its face lives as long as the connection.
fn send_by_websocket(address: &str, name: &ndn_packet::Name) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(namewire_tests::TIMEOUT)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let interest = InterestBuilder::new(name.as_ref()).nonce(1);
    let mut packet = vec![0; interest.encoded_len()];
    let _ = interest.write(&mut packet).unwrap();
    // A binary frame whose mask is 0.
    let length = u8::try_from(packet.len()).unwrap();
    stream.write_all(&[&[0x82, 0x80 | length, 0, 0, 0, 0][..], &packet].concat()).unwrap();
    stream
}

#[test]
fn tshark_dissects_captures_of_all_transports() {
    if !skip_unless_found("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif.sock");
    let memif = format!("[listeners.memif]\nenabled = true\npath = {socket:?}\n");
    let forwarder = Settings::new().tcp().udp().toml(&memif).start();
    let (unix, tcp) = (forwarder.unix(), forwarder.tcp());
    let udp = tcp.replace("tcp4", "udp4");
    let memif = format!("memif://{}", socket.display());
    check_capture(
        &forwarder,
        &[("unix", &unix), ("tcp4", &tcp), ("udp4", &udp), ("memif", &memif)],
    );
    let forwarder = Settings::new().websocket().webtransport().start();
    let (websocket, webtransport) = (forwarder.websocket(), forwarder.webtransport());
    check_capture(&forwarder, &[("wsclient", &websocket), ("quic", &webtransport)]);
}

#[test]
fn tshark_dissects_a_capture_from_a_pipe() {
    if !skip_unless_found("tshark") {
        return;
    }
    let forwarder = Settings::new().start_program();
    let home = forwarder.directory().join("home");
    std::fs::create_dir(&home).unwrap();
    let capture = ["capture", "--name", "/piped", "--snap-length", "40B", "-c", "2", "-w", "-"];
    let capture = forwarder.command(&capture);
    let mut command = Command::new("sh");
    let fields = "-T fields -e eth.type -e frame.cap_len -e frame.interface_name";
    let pipe = format!("\"$0\" \"$@\" | tshark -r - {fields}");
    command.arg("-c").arg(pipe).arg(capture.get_program()).args(capture.get_args());
    command.envs(capture.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("HOME", &home).env_remove("XDG_CONFIG_HOME");
    let mut dissected = Process::start("tshark", command, forwarder.directory());
    let name = format!("/piped/{}", "x".repeat(100));
    wait_until("two packets", || {
        let _ = forwarder.run(&["peek", &name, "-l", "10ms"]);
        (!dissected.is_running()).then_some(())
    });
    let printed = dissected.stdout();
    let is_expected = |line: &str| line.starts_with("0x8624\t54\tunix://");
    assert!(
        printed.lines().count() == 2 && printed.lines().all(is_expected),
        "{}",
        dissected.everything()
    );
}

#[test]
fn capture_goes_on_in_numbered_files_that_tshark_reads() {
    let forwarder = Settings::new().start_program();
    let file = forwarder.directory().join("packets.pcapng").display().to_string();
    let rotation = ["--rotate-size", "600B", "--files", "2", "--name", "/rotated"];
    let mut capture =
        forwarder.spawn("capture", &[&["capture", "-w", &file][..], &rotation].concat());
    // By number; names have the time, too.
    let files = || {
        let files = std::fs::read_dir(forwarder.directory()).unwrap();
        let numbered = files.filter_map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_prefix("packets_")?;
            let number: u32 = name.split('_').next()?.parse().ok()?;
            Some((number, path))
        });
        numbered.collect::<std::collections::BTreeMap<_, _>>()
    };
    // Several may begin between two checks.
    wait_until("a fifth file", || {
        let _ = forwarder.run(&["peek", "/rotated", "-l", "10ms"]);
        files().range(5..).next().map(drop)
    });
    capture.signal(rustix::process::Signal::INT);
    assert!(capture.wait().success(), "{}", capture.everything());
    let files = files();
    let kept: Vec<u32> = files.keys().copied().collect();
    assert!(kept.len() == 2 && kept[1] == kept[0] + 1, "{kept:?}");
    let home = forwarder.directory().join("home");
    for path in files.into_values() {
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(length <= 700, "{length} bytes, with the statistics at the end");
        if skip_unless_found("tshark") {
            let shown =
                dissect_with_tshark(&home, &path, "ndn", &["ndn.name", "frame.interface_name"]);
            assert!(shown.iter().all(|fields| fields[0] == "/rotated"), "{shown:?}");
            assert!(!shown.is_empty() && shown[0][1].starts_with("unix://"), "{shown:?}");
        }
    }
}

#[test]
fn other_interfaces_and_capture_filters_are_refused() {
    let extcap = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("extcap").args(arguments);
        run_to_end(command)
    };
    let options = extcap(&["--extcap-config", "--extcap-interface", "namewire"]);
    let printed = String::from_utf8_lossy(&options.stdout);
    for option in ["--name", "--sample", "--control"] {
        assert!(printed.contains(&format!("{{call={option}}}")), "{printed}");
    }
    for (arguments, reason) in [
        (&["--extcap-dlts", "--extcap-interface", "eth0"][..], "eth0 is not an interface"),
        (&["--extcap-interface", "namewire", "--extcap-capture-filter", "udp"], "not supported"),
        (&["--capture", "--extcap-interface", "namewire"], "--fifo"),
        (&[], "Wireshark runs this command"),
    ] {
        let refused = extcap(arguments);
        let printed = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && printed.contains(reason), "{arguments:?}: {printed}");
    }
}
