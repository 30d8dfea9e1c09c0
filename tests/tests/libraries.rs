//! The programs of the page about other libraries (`docs/data/libraries.md`), from a home directory without a key
//! chain.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use namewire_tests::{
    Forwarder, Peer, Process, Settings, Transport, noise, require, run_to_end, run_to_end_within,
    wait_until,
};

/// A forwarder, and a home directory in which the page's first two commands were run.
struct Bed {
    forwarder: Forwarder,
}

impl Bed {
    fn new() -> Option<Self> {
        if !require(&[Peer::Python]) {
            return None;
        }
        let bed = Self { forwarder: Settings::new().udp().start() };
        for arguments in [&["Init-Pib"][..], &["New-Item", "/me"]] {
            succeed(bed.with_home(Command::new(python_tool("pyndnsec"))).args(arguments));
        }
        Some(bed)
    }

    fn home(&self) -> &Path {
        self.forwarder.directory()
    }

    fn with_home(&self, mut command: Command) -> Command {
        command.env("NDN_CLIENT_TRANSPORT", self.forwarder.unix()).env("HOME", self.home());
        command
    }

    /// Starts a program, and waits for its route.
    fn serve(&self, name: &str, command: Command, prefix: &str) -> Process {
        let process = Process::start(name, self.with_home(command), self.home());
        wait_until(&format!("a route to {prefix}"), || {
            self.forwarder.output(&["route", "list"]).contains(prefix).then_some(())
        });
        process
    }
}

fn python_tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin").join(name)
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    output
}

/// The scripts that the page shows.
const SCRIPTS: [&str; 2] = ["tutorial.py", "segments.py"];

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/data/libraries.md");
    std::fs::read_to_string(path).unwrap()
}

fn script(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python");
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// The page shows the scripts that are run here.
#[test]
fn page_shows_the_tested_programs() {
    for name in SCRIPTS {
        assert!(page().contains(&format!("```python\n{}```", script(name))), "{name}");
    }
}

/// In their order, from a home directory without a key chain.
#[test]
fn commands_of_the_page_print_what_it_shows() {
    if !require(&[Peer::Python]) {
        return;
    }
    let forwarder = Settings::new().start();
    let home = forwarder.directory();
    for name in SCRIPTS {
        std::fs::write(home.join(name), script(name)).unwrap();
    }
    let (data, content, bin) = (home.join("data"), noise(6, 100_000), home.join("bin"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("run.root"), &content).unwrap();
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(namewire_tests::program(), bin.join("namewire")).unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", bin.display(), python_tool("").display());
    let page = page().replace("unix:///run/nfd/nfd.sock", &forwarder.unix());
    let page = page.replace("/srv/data", &data.display().to_string());
    let (mut settings, mut servers, mut count) = (String::new(), Vec::new(), 0);
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for command in blocks.flat_map(|block| block.split("$ ").skip(1)) {
        let (line, expected) = command.split_once('\n').unwrap();
        let shell = |line: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{settings}exec {line}")]).current_dir(home);
            shell.env("HOME", home).env("PATH", &path);
            shell
        };
        if line.starts_with("export ") {
            settings += &format!("{line}\n");
        } else if let Some(server) = line.strip_suffix(" &") {
            servers.push(Process::start(&format!("server-{count}"), shell(server), home));
        } else {
            // A server that was just started may not be ready.
            wait_until(line, || {
                let output = run_to_end_within(Duration::from_secs(10), shell(line));
                let printed = String::from_utf8_lossy(&output.stdout);
                let is_expected = expected.is_empty() || printed.trim_end() == expected.trim_end();
                (output.status.success() && is_expected).then_some(())
            });
        }
        count += 1;
    }
    assert!(std::fs::read(home.join("run.root")).unwrap() == content);
    assert_eq!((count, servers.len()), (8, 2));
}

#[test]
fn data_of_a_producer_without_metadata_is_fetched() {
    let Some(bed) = Bed::new() else { return };
    let _producer = bed.serve("tutorial", Peer::Python.interop("tutorial"), "/example/testApp");
    // Twice: the answer to the Interest for metadata is in the Content Store by then.
    for name in ["/example/testApp/greeting", "/example/testApp/greeting", "/example/testApp"] {
        let output = bed.forwarder.run(&["get", name]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaint}");
        assert_eq!(output.stdout, b"Hello, world!", "{name}");
    }
}

#[test]
fn segment_fetcher_of_python_ndn_fetches_a_served_file() {
    let Some(bed) = Bed::new() else { return };
    let directory = bed.home().join("data");
    std::fs::create_dir(&directory).unwrap();
    let content = noise(3, 100_000);
    std::fs::write(directory.join("run.root"), &content).unwrap();
    let mut serve = Command::new(namewire_tests::program());
    serve.arg("serve").arg(&directory).args(["--prefix", "/site/data"]);
    let _server = bed.serve("serve", serve, "/site/data");
    let fetch = || {
        let mut command = bed.with_home(Peer::Python.interop("segments"));
        command.arg("/site/data/run.root");
        let output = run_to_end_within(Duration::from_secs(10), command);
        output.status.success().then_some(output.stdout)
    };
    assert!(wait_until("the file", fetch) == content);
    // The current version, after a change. While segment 0 of the former one is fresh in the Content Store, the fetcher
    // does not end: it takes the application Nacks in place of further segments for segments.
    let changed = noise(4, 30_000);
    std::fs::write(directory.join("run.root"), &changed).unwrap();
    wait_until("the changed file", || fetch().filter(|fetched| *fetched == changed));
}

/// `pynfdc` signs its requests for datasets, and sends parameters with them.
#[test]
fn pynfdc_manages_the_forwarder() {
    let Some(bed) = Bed::new() else { return };
    let run = |arguments: &[&str]| {
        let mut command = bed.with_home(Command::new(python_tool("pynfdc")));
        command.args(arguments);
        run_to_end(command)
    };
    let pynfdc = |arguments: &[&str]| {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}{complaint}");
        text
    };
    let status = pynfdc(&["Get-Status"]);
    assert!(status.contains("namewire"), "{status}");
    // It creates the face, and does not print the response: python-ndn 0.5 expects another order of its fields than NFD's.
    let _ = run(&["New-Face", "udp4://127.0.0.1:6399"]);
    let faces = pynfdc(&["Get-Face"]);
    assert!(faces.contains("udp4://127.0.0.1:6399"), "{faces}");
    let face_id = bed.forwarder.json(&["face", "list"]);
    let face_id = face_id.as_array().unwrap().iter().find_map(|face| {
        (face["remote_uri"] == "udp4://127.0.0.1:6399").then(|| face["face_id"].to_string())
    });
    let face_id = face_id.unwrap();
    assert!(pynfdc(&["Get-Face", &face_id]).contains("udp4://127.0.0.1:6399"));
    pynfdc(&["New-Route", "/pynfdc/route", &face_id]);
    let routes = pynfdc(&["Get-Route"]);
    assert!(routes.contains("/pynfdc/route"), "{routes}");
    pynfdc(&["Set-Strategy", "/pynfdc", "multicast"]);
    let strategies = pynfdc(&["Get-Strategy"]);
    assert!(strategies.contains("/pynfdc"), "{strategies}");
    pynfdc(&["Remove-Strategy", "/pynfdc"]);
    assert!(!pynfdc(&["Get-Strategy"]).contains("/pynfdc"));
    pynfdc(&["Remove-Route", "/pynfdc/route", &face_id]);
    assert!(!pynfdc(&["Get-Route"]).contains("/pynfdc/route"));
    pynfdc(&["Remove-Face", &face_id]);
    assert!(!pynfdc(&["Get-Face"]).contains("udp4://127.0.0.1:6399"));
}

/// As producers and consumers.
#[test]
fn ndnts_and_ndn_cxx_need_no_key_chain() {
    for peer in [Peer::Ndnts, Peer::Chunks] {
        if !require(&[peer]) {
            continue;
        }
        let forwarder = Settings::new().start();
        let transport = Transport(forwarder.unix());
        let (served, home) = (forwarder.directory().join("data"), tempfile::tempdir().unwrap());
        std::fs::create_dir(&served).unwrap();
        let content = noise(5, 100_000);
        let file = served.join("run.root");
        std::fs::write(&file, &content).unwrap();
        let directory = served.display().to_string();
        let mut server = forwarder.spawn("serve", &["serve", &directory, "--prefix", "/site/data"]);
        server.wait_for_output("serving ");
        let _producer = peer.produce(&transport, "/of/peer", &file, home.path());
        assert!(peer.fetch(&transport, "/site/data/run.root", home.path()) == content, "{peer:?}");
        let fetched = forwarder.directory().join("fetched");
        let _ = forwarder.output(&["get", "/of/peer", "-o", &fetched.display().to_string()]);
        assert!(std::fs::read(&fetched).unwrap() == content, "{peer:?}");
    }
}
