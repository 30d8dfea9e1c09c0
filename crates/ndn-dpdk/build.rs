//! Builds the C shim over libdpdk, if the feature `dpdk` is on.

fn main() {
    println!("cargo:rerun-if-changed=c/shim.c");
    println!("cargo:rerun-if-changed=c/shim.h");
    #[cfg(feature = "dpdk")]
    shim();
}

#[cfg(feature = "dpdk")]
fn shim() {
    let mut build = cc::Build::new();
    build.file("c/shim.c").opt_level(2).flag("-Wall").flag("-Wextra").flag("-Werror");
    // Not only paths: DPDK's headers want the instructions that it was built for.
    for flag in ask_pkg_config("--cflags") {
        build.flag(&flag);
    }
    build.compile("namewire_dpdk_shim");
    for flag in ask_pkg_config("--libs-only-L") {
        println!("cargo:rustc-link-search=native={}", flag.trim_start_matches("-L"));
    }
    // Drivers are plug-ins, which DPDK loads when it starts.
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}

#[cfg(feature = "dpdk")]
fn ask_pkg_config(question: &str) -> Vec<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let answer = std::process::Command::new(&program)
        .args([question, "libdpdk >= 22.11"])
        .output()
        .unwrap_or_else(|error| panic!("the feature `dpdk` needs {program}: {error}"));
    assert!(
        answer.status.success(),
        "the feature `dpdk` needs libdpdk 22.11 (Debian: libdpdk-dev): {}",
        String::from_utf8_lossy(&answer.stderr)
    );
    String::from_utf8_lossy(&answer.stdout).split_ascii_whitespace().map(str::to_owned).collect()
}
