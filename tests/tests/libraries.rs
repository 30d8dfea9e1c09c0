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

/// The page shows the scripts that are run here.
#[test]
fn page_shows_the_tested_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/data/libraries.md")).unwrap();
    for script in ["tutorial", "segments"] {
        let path = root.join(format!("tests/interop/python/{script}.py"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(page.contains(&format!("```python\n{text}```")), "{script}.py");
    }
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
