//! Wireshark lists the forwarder as an interface, and captures from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use namewire_tests::{Process, Settings, program, run_to_end, skip_unless_found, wait_until};

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
    let options = ["-o", control.as_str(), "-o", "extcap.namewire.name:/seen"];
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

#[test]
fn other_interfaces_and_capture_filters_are_refused() {
    let extcap = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("extcap").args(arguments);
        run_to_end(command)
    };
    let options = extcap(&["--extcap-config", "--extcap-interface", "namewire"]);
    let printed = String::from_utf8_lossy(&options.stdout);
    assert!(printed.contains("{call=--name}") && printed.contains("{call=--control}"), "{printed}");
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
