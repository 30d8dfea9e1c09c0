//! The installation: the systemd unit, the Debian packages, releases, the image.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namewire_tests::{program, run_to_end, run_to_end_within, skip_unless_found};

#[test]
fn systemd_accepts_the_unit() {
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
fn program_accepts_the_options_of_the_unit() {
    let unit = include_str!("../../dist/namewire.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut command = Command::new(program());
    command.args(start.split(' ').skip(1).filter(|word| !word.starts_with('$'))).arg("--help");
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The stages of the Dockerfile, without building it: what is copied is there, and options exist.
#[test]
fn paths_in_the_dockerfile_exist() {
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
fn debian_packages_install_and_are_removed() {
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
    assert_eq!(install.len(), 3, "{install:?}");
    dpkg(&root, &[&["--install"], &install[..]].concat());
    assert_eq!(dpkg(&root, &["--verify", "namewire"]), "", "files are as they were packaged");

    for name in ["namewire", "nfd-autoreg", "ndnpeek"] {
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
        "usr/share/doc/namewire/wireshark/ndn.lua",
        "etc/default/namewire",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/namewire.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/namewire run "), "{unit}");
    dpkg(&root, &["--purge", "namewire-nfd-compat", "namewire-ndn-tools", "namewire"]);
    assert!(!root.join("usr/bin").exists() && !root.join("etc/default/namewire").exists());
}

/// A release signed by a key of its own, the public keys, and where the archive is.
struct Release {
    directory: PathBuf,
    keys: PathBuf,
    archive: PathBuf,
}

fn run(command: Command) -> String {
    // Archives of a program with debug information take half a minute to compress on a processor of their own.
    let output = run_to_end_within(Duration::from_secs(300), command);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn make_release(work: &Path) -> Release {
    let home = work.join("gnupg");
    std::fs::DirBuilder::new().mode(0o700).create(&home).unwrap();
    let gpg = |arguments: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--passphrase", ""]).args(arguments);
        command.env("GNUPGHOME", &home);
        run(command)
    };
    gpg(&["--quick-generate-key", "Releases <releases@example.net>", "ed25519", "sign", "never"]);
    let keys = work.join("keys.gpg");
    gpg(&["--output", keys.to_str().unwrap(), "--export"]);
    let directory = work.join("release");
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(source.join("scripts/package-release"));
    command.arg(program()).arg(&directory).arg("releases@example.net");
    command
        .env("GNUPGHOME", &home)
        .env("DEB_COMPRESSION", "none")
        .env("SOURCE_DATE_EPOCH", "1700000000");
    run(command);
    let mut stop = Command::new("gpgconf");
    stop.args(["--kill", "gpg-agent"]).env("GNUPGHOME", &home);
    run(stop);
    let archive = std::fs::read_dir(&directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| {
            path.extension().is_some_and(|extension| extension == "gz")
                && path.to_string_lossy().contains("linux")
        })
        .unwrap();
    Release { directory, keys, archive }
}

fn install(release: &Release, prefix: &Path) -> std::process::Output {
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 077; exec sh \"$0\" \"$@\""])
        .arg(release.directory.join("install.sh"));
    command.arg("--key").arg(&release.keys).arg("--prefix").arg(prefix).arg(&release.directory);
    run_to_end(command)
}

/// Replaces the first occurrence of a text in a file.
fn replace(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_release_installs_if_its_signature_and_digests_are_valid() {
    if !["gpg", "gpgv", "dpkg-scanpackages"].into_iter().all(skip_unless_found) {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let release = make_release(work.path());
    // The same program and time give the same release, but for the keys and signatures.
    let other = tempfile::tempdir().unwrap();
    let again = make_release(other.path());
    for (one, two) in [
        (&release.archive, &again.archive),
        (&release.directory.join("Release"), &again.directory.join("Release")),
    ] {
        assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap(), "{}", one.display());
    }
    let prefix = work.path().join("prefix");
    let output = install(&release, &prefix);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut command = Command::new(prefix.join("bin/namewire"));
    command.arg("--version");
    assert!(run(command).starts_with("namewire "));
    let unit = std::fs::read_to_string(prefix.join("lib/systemd/system/namewire.service")).unwrap();
    assert!(
        unit.contains(&format!("\nExecStart={}/bin/namewire run ", prefix.display())),
        "{unit}"
    );

    // apt reads the same directory, and verifies the same signature.
    if skip_unless_found("apt-get") {
        let root = work.path().join("apt");
        for directory in [
            "etc/apt",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "var/lib/dpkg",
        ] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        let source = format!(
            "deb [signed-by={}] file:{} ./",
            release.keys.display(),
            release.directory.display()
        );
        std::fs::write(root.join("etc/apt/sources.list"), source).unwrap();
        let apt = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let status = root.join("var/lib/dpkg/status");
            command.arg("-o").arg(format!("Dir={}", root.display()));
            command.arg("-o").arg(format!("Dir::State::status={}", status.display()));
            command.args(["-o", "APT::Sandbox::User="]).args(arguments);
            run(command)
        };
        apt("apt-get", &["--error-on=any", "update"]);
        let policy = apt("apt-cache", &["policy", "namewire", "namewire-nfd-compat"]);
        let candidate = concat!("Candidate: ", env!("CARGO_PKG_VERSION"));
        assert_eq!(policy.matches(candidate).count(), 2, "{policy}");
    }

    // A second time: over files that are there, and through directories that are links.
    std::fs::create_dir(prefix.join("share/elsewhere")).unwrap();
    std::fs::rename(prefix.join("share/man"), prefix.join("share/elsewhere/man")).unwrap();
    std::os::unix::fs::symlink("elsewhere/man", prefix.join("share/man")).unwrap();
    let output = install(&release, &prefix);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(prefix.join("share/man").is_symlink());
    let mode = std::fs::metadata(prefix.join("bin/namewire")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);

    let elsewhere = work.path().join("elsewhere");
    let refused = |release: &Release, reason: &str| {
        let output = install(release, &elsewhere);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && complaint.contains(reason), "{complaint}");
        assert!(!elsewhere.exists(), "nothing is installed: {complaint}");
    };
    let archive = std::fs::read(&release.archive).unwrap();
    let mut other = archive.clone();
    other.push(0);
    std::fs::write(&release.archive, other).unwrap();
    refused(&release, "its digest is not the one in InRelease");
    std::fs::write(&release.archive, archive).unwrap();
    replace(&release.directory.join("InRelease"), "Suite: stable", "Suite: stapled");
    refused(&release, "no valid signature by a key in");
}
