//! What is installed beside the program: the systemd unit, the Debian packages, the image.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{program, run_to_end, skip_unless_found};

#[test]
fn the_unit_is_one_that_systemd_takes() {
    if !skip_unless_found("systemd-analyze") {
        return;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let unit = std::fs::read_to_string(root.join("dist/namewire.service")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(program(), bin.join("namewire")).unwrap();
    let installed = directory.path().join("namewire.service");
    let unit = unit.replace("@PREFIX@", directory.path().to_str().unwrap());
    std::fs::write(&installed, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&installed);
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !printed.contains("namewire.service:"), "{printed}");
    // What the sandbox leaves open, from 0 to 10 (tenths here): it talks to the network and to users.
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--threshold=20"]).arg(&installed);
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    let is_old = printed.contains("unrecognized option");
    assert!(output.status.success() || is_old, "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_options_of_the_unit_are_those_of_the_program() {
    let unit = include_str!("../../dist/namewire.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut command = Command::new(program());
    command.args(start.split(' ').skip(1).filter(|word| !word.starts_with('$'))).arg("--help");
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The stages of the Dockerfile, without building it: what is copied is there, and options exist.
#[test]
fn the_dockerfile_names_what_is_there() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("Dockerfile")).unwrap();
    let toolchain = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let version = channel.trim_matches('"').trim_end_matches(".0");
    assert!(text.contains(&format!("FROM rust:{version}-")), "the toolchain is {version}");
    let entry = text.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    let arguments = text.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let entry: Vec<String> = serde_json::from_str(entry).unwrap();
    let arguments: Vec<String> = serde_json::from_str(arguments).unwrap();
    assert_eq!(entry, ["/usr/bin/namewire"]);
    let mut command = Command::new(program());
    command.args(arguments).arg("--help");
    assert!(run_to_end(command).status.success());
}

fn dpkg(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", directory.display()));
    // Its libraries are those of the host, and so are its scripts.
    command.args(["--force-not-root", "--force-depends", "--force-script-chrootless"]);
    command.args(arguments).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = run_to_end(command);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dpkg {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_debian_packages_install_and_go_away() {
    if !["dpkg", "dpkg-deb", "ldconfig", "start-stop-daemon"].into_iter().all(skip_unless_found) {
        return;
    }
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = tempfile::tempdir().unwrap();
    let (packages, root) = (directory.path().join("packages"), directory.path().join("root"));
    for part in ["updates", "info", "triggers"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(part)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let mut command = Command::new(source.join("scripts/package-deb"));
    command.arg(program()).arg(&packages).env("DEB_COMPRESSION", "none");
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files: Vec<_> =
        std::fs::read_dir(&packages).unwrap().map(|file| file.unwrap().path()).collect();
    let install: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
    assert_eq!(install.len(), 2, "{install:?}");
    dpkg(&root, &[&["--install"], &install[..]].concat());
    assert_eq!(dpkg(&root, &["--verify", "namewire"]), "", "files are as they were packaged");

    for name in ["namewire", "nfd-autoreg"] {
        let mut command = Command::new(root.join("usr/bin").join(name));
        command.arg("--version");
        let output = run_to_end(command);
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("namewire "), "{name}");
    }
    for file in [
        "lib/systemd/system/namewire.service",
        "usr/share/bash-completion/completions/namewire",
        "usr/share/zsh/vendor-completions/_namewire",
        "usr/share/fish/vendor_completions.d/namewire.fish",
        "usr/share/man/man1/namewire-run.1.gz",
        "usr/share/doc/namewire/copyright",
        "etc/default/namewire",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/namewire.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/namewire run "), "{unit}");
    dpkg(&root, &["--purge", "namewire-nfd-compat", "namewire"]);
    assert!(!root.join("usr/bin").exists() && !root.join("etc/default/namewire").exists());
}
