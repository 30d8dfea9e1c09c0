//! Where the program under test is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `namewire` program: that of `NAMEWIRE_BIN`, or the one of this build, brought up to date once
/// per test binary.
///
/// # Panics
/// It cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("NAMEWIRE_BIN") {
        Some(path) => PathBuf::from(path),
        None => build("namewire"),
    })
}

/// The `namewire-bench` program: the one beside that of `NAMEWIRE_BIN`, or the one of this build, beside [`program`],
/// brought up to date once per test binary.
///
/// # Panics
/// It cannot be built.
pub fn bench_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("NAMEWIRE_BIN") {
        Some(path) => Path::new(&path).with_file_name("namewire-bench"),
        None => {
            program();
            build("namewire-bench")
        }
    })
}

/// Cargo builds no programs of other packages for a package's tests, so ask it to. It has released
/// its lock by the time tests run.
fn build(name: &str) -> PathBuf {
    let directory = target_directory();
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", name, "--bin", name]);
    command.current_dir(root());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "{name} cannot be built: {status}");
    directory.join(name)
}

/// The directory of the running test, without `deps`: target/debug or target/release.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    test.ancestors().nth(2).expect("target/<profile>/deps/<test>").to_owned()
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}
