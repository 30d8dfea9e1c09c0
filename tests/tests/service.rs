//! What is installed beside the program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("namewire.service:"), "{said}");
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
