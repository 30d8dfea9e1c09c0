//! The Python package, by its own tests, against a forwarder and `namewire serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namewire_tests::{
    Forwarder, Peer, Process, Settings, Transport, noise, program, require, run_to_end,
    run_to_end_within, skip_unless_found,
};
use serde_json::{Value, json};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Copies the package with the native module of this build to `directory`, as pip installs it.
fn install(directory: &Path) {
    let package = directory.join("namewire");
    fs::create_dir(&package).unwrap();
    let sources = Path::new(ROOT).join("bindings/python/python/namewire");
    for entry in fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, package.join(path.file_name().unwrap())).unwrap();
        }
    }
    let library = program().with_file_name("lib_namewire.so");
    assert!(library.is_file(), "`cargo build --workspace` makes {}", library.display());
    fs::copy(library, package.join("_namewire.abi3.so")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let described = directory.join(format!("namewire-{version}.dist-info"));
    fs::create_dir(&described).unwrap();
    let metadata = format!("Metadata-Version: 2.4\nName: namewire\nVersion: {version}\n");
    fs::write(described.join("METADATA"), metadata).unwrap();
    let entry_points = "[fsspec.specs]\nndn = namewire.filesystem:FileSystem\n";
    fs::write(described.join("entry_points.txt"), entry_points).unwrap();
}

/// Makes the wheel of an installed package.
fn make_wheel(packages: &Path, directory: &Path) -> PathBuf {
    let version = env!("CARGO_PKG_VERSION");
    let described = packages.join(format!("namewire-{version}.dist-info"));
    let wheel = directory.join(format!("namewire-{version}-cp311-abi3-linux_x86_64.whl"));
    let mut command = Command::new("python3");
    command.args(["-m", "zipfile", "--create"]).arg(&wheel).arg(packages.join("namewire"));
    command.arg(&described);
    assert!(run_to_end(command).status.success());
    wheel
}

#[test]
fn debian_package_and_release_have_the_python_package() {
    if !["dpkg-deb", "dpkg-scanpackages"].into_iter().all(skip_unless_found) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("packages")).unwrap();
    install(&path("packages"));
    let wheel = make_wheel(&path("packages"), directory.path());
    let mut command = Command::new(Path::new(ROOT).join("scripts/package-release"));
    command.arg(program()).arg(path("release")).args(["", ""]).arg(&wheel);
    command.env("DEB_COMPRESSION", "none").env("SOURCE_DATE_EPOCH", "1700000000");
    let ended = run_to_end_within(Duration::from_secs(300), command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let release: Vec<_> =
        fs::read_dir(path("release")).unwrap().map(|file| file.unwrap().path()).collect();
    let found = |text: &str| {
        let has = |file: &&PathBuf| file.file_name().unwrap().to_string_lossy().contains(text);
        release.iter().find(has).unwrap_or_else(|| panic!("no {text} in {release:?}"))
    };
    assert_eq!(fs::read(found(".whl")).unwrap(), fs::read(&wheel).unwrap());
    let mut command = Command::new("tar");
    command.arg("--list").arg("--file").arg(found("-linux-"));
    let listed = String::from_utf8(run_to_end(command).stdout).unwrap();
    assert!(listed.contains("/share/namewire/namewire-"), "{listed}");
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").arg(found("python3-namewire")).arg(path("root"));
    assert!(run_to_end(command).status.success());
    let mut command = Command::new(Path::new(ROOT).join(".venv/bin/python"));
    let script = "import namewire, importlib.metadata as m\n\
                  assert m.version('namewire') == namewire.__version__, m.version('namewire')\n\
                  with namewire.Forwarder() as f, f.client().publish('/a', b'content'):\n\
                  \x20   print(f.client().fetch('/a'), namewire.__file__)";
    command.args(["-c", script]).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", path("root/usr/lib/python3/dist-packages"));
    let ended = run_to_end(command);
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(printed.starts_with("b'content' "), "{printed}{ended:?}");
    assert!(printed.contains("dist-packages/namewire"), "{printed}");
}

/// A cargo for maturin, which compiles the package alone and so all crates anew: it has the library of this build instead. Crates for
/// other platforms may not have been downloaded.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = rustc ] && exec cat "$NAMEWIRE_COMPILED"
[ "$1" = metadata ] && set -- "$@" --filter-platform "$(uname -m)-unknown-linux-gnu"
exec "$NAMEWIRE_CARGO" "$@"
"#;

/// The message of cargo about the compiled package.
fn compiled(library: &Path) -> Value {
    let manifest = Path::new(ROOT).join("bindings/python/Cargo.toml").canonicalize().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    command.arg("--manifest-path").arg(&manifest);
    let printed: Value = serde_json::from_slice(&run_to_end(command).stdout).unwrap();
    let packages = printed["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "namewire-python").unwrap();
    let targets = package["targets"].as_array().unwrap();
    let target = targets.iter().find(|target| target["name"] == "_namewire").unwrap();
    json!({
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": manifest,
        "target": target,
        "profile": {
            "opt_level": "0", "debuginfo": 0, "debug_assertions": true, "overflow_checks": true, "test": false,
        },
        "features": [],
        "filenames": [library],
        "executable": null,
        "fresh": true,
    })
}

#[test]
fn wheel_is_packaged_by_maturin_from_the_compiled_library() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    // maturin may change what it packages.
    let library = path("lib_namewire.so");
    fs::copy(program().with_file_name("lib_namewire.so"), &library).unwrap();
    fs::write(path("compiled"), format!("{}\n", compiled(&library))).unwrap();
    fs::write(path("cargo"), CARGO).unwrap();
    fs::set_permissions(path("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    let places = std::env::var_os("PATH").unwrap_or_default();
    let places = [directory.path().to_owned()].into_iter().chain(std::env::split_paths(&places));
    let mut command = Command::new(Path::new(ROOT).join(".venv/bin/maturin"));
    command.args(["build", "--profile", "dev", "--offline", "--manifest-path"]);
    command.arg(Path::new(ROOT).join("bindings/python/Cargo.toml"));
    command.arg("--out").arg(path("wheels")).env("PATH", std::env::join_paths(places).unwrap());
    command.env("CARGO", path("cargo")).env("CARGO_TARGET_DIR", path("target"));
    command.env("NAMEWIRE_CARGO", env!("CARGO")).env("NAMEWIRE_COMPILED", path("compiled"));
    let made = run_to_end_within(Duration::from_secs(300), command);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new(Path::new(ROOT).join("scripts/check-wheel"));
    command.arg(path("wheels")).env("NAMEWIRE", program());
    let checked = run_to_end_within(Duration::from_secs(300), command);
    let printed = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{printed}{}", String::from_utf8_lossy(&checked.stderr));
    assert!(printed.contains("fetched 1000000 bytes from"), "{printed}");
    assert!(printed.contains("/site-packages/namewire/"), "{printed}");
}

/// Serves the same files as `/trusted`, signed by an identity that the rules of the returned file trust.
fn serve_trusted(forwarder: &Forwarder, served: &str) -> (Process, PathBuf) {
    let home = forwarder.directory();
    let with_home = |arguments: &[&str]| {
        let mut command = forwarder.command(arguments);
        command.env("HOME", home).env_remove("NDN_CLIENT_PIB").env_remove("NDN_CLIENT_TPM");
        command
    };
    let certificate = run_to_end(with_home(&["key", "gen", "/lab"]));
    assert!(certificate.status.success(), "{certificate:?}");
    fs::write(home.join("root.cert"), certificate.stdout).unwrap();
    let rules = home.join("lab.rules");
    fs::write(&rules, "anchor root.cert\ndata /trusted/** by /lab\n").unwrap();
    let serve = with_home(&["serve", served, "--prefix", "/trusted", "--identity", "/lab"]);
    let mut server = Process::start("trusted", serve, home);
    server.wait_for_output("serving ");
    (server, rules)
}

#[test]
fn python_package_passes_its_tests() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory().to_owned();
    let [served, packages] = ["served", "packages"].map(|name| directory.join(name));
    for directory in [&served, &packages] {
        fs::create_dir(directory).unwrap();
    }
    install(&packages);
    let keys = ["own", "other"].map(|name| {
        let [private, public] =
            ["", ".public"].map(|kind| directory.join(format!("{name}{kind}.pem")));
        let openssl = |arguments: &[&str], output: &Path| {
            let mut command = Command::new("openssl");
            command.args(arguments).arg("-out").arg(output);
            assert!(run_to_end(command).status.success(), "openssl {arguments:?}");
        };
        openssl(&["genpkey", "-algorithm", "ed25519"], &private);
        openssl(&["pkey", "-in", private.to_str().unwrap(), "-pubout"], &public);
        (private, public)
    });
    let [path, key] = [&served, &keys[0].0].map(|path| path.display().to_string());
    let serve = ["serve", path.as_str(), "--prefix", "/files", "--sign", key.as_str()];
    let mut server = forwarder.spawn("server", &serve);
    server.wait_for_output("serving ");
    let (_trusted, rules) = serve_trusted(&forwarder, &path);
    let mut command = Command::new(Path::new(ROOT).join(".venv/bin/python"));
    command.args(["-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "tests"]);
    command.current_dir(Path::new(ROOT).join("bindings/python"));
    command.env("NDN_CLIENT_TRANSPORT", forwarder.unix()).env("PYTHONPATH", &packages);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NAMEWIRE_SERVED", &served);
    command.env("NAMEWIRE_KEY", &keys[0].1).env("NAMEWIRE_OTHER_KEY", &keys[1].1);
    command.env("NAMEWIRE_PRIVATE_KEY", &keys[0].0).env("NAMEWIRE_RULES", rules);
    // They check types, run a notebook, and start clusters of processes.
    let ended = run_to_end_within(Duration::from_secs(900), command);
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(printed.contains(" passed") && !printed.contains("skipped"), "{printed}");
}

/// Serves an object, and a directory with it, until it is ended.
const PUBLISH: &str = "
import signal, sys, namewire
content = open(sys.argv[1] + '/object', 'rb').read()
client = namewire.Client()
published = client.publish('/made/object', content)
served = client.serve_directory('/made/files', sys.argv[1])
print('READY', flush=True)
signal.pause()
";

/// Reads an object by its name in each way, and compares it with a file.
const READ: &str = "
import sys, namewire
content = open(sys.argv[1], 'rb').read()
client = namewire.Client(timeout=20)
assert client.fetch(sys.argv[2]) == content
with client.open(sys.argv[2], buffering=0) as file:
    assert file.size == len(content)
    file.seek(500_000)
    assert file.read(70_000) == content[500_000:570_000]
assert namewire.FileSystem(timeout=20).cat(sys.argv[2]) == content
";

#[test]
fn applications_of_other_projects_exchange_objects_with_the_python_package() {
    let peers = [Peer::Python, Peer::Ndnts];
    if !require(&peers) {
        return;
    }
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let [served, packages] = ["served", "packages"].map(|name| directory.join(name));
    for directory in [&served, &packages] {
        fs::create_dir(directory).unwrap();
    }
    install(&packages);
    let (file, object) = (served.join("object"), noise(5, 1 << 20));
    fs::write(&file, &object).unwrap();
    let python = |script: &str| {
        let mut command = Command::new(Path::new(ROOT).join(".venv/bin/python"));
        command.args(["-c", script]).env("NDN_CLIENT_TRANSPORT", forwarder.unix());
        command.env("PYTHONPATH", &packages).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let mut command = python(PUBLISH);
    command.arg(&served);
    let mut publisher = Process::start("publisher", command, directory);
    publisher.wait_for_output("READY");
    let unix = Transport(forwarder.unix());
    for peer in peers {
        for name in ["/made/object", "/made/files/object"] {
            assert!(peer.fetch(&unix, name, directory) == object, "{} of {name}", peer.name());
        }
        let name = format!("/peer/{}", peer.name());
        let _producer = peer.produce(&unix, &name, &file, directory);
        let mut command = python(READ);
        command.arg(&file).arg(&name);
        let read = run_to_end(command);
        assert!(read.status.success(), "{}: {}", name, String::from_utf8_lossy(&read.stderr));
    }
}
