//! Captures read by tshark with the dissector of Namewire.

use std::path::Path;
use std::process::Command;

use crate::process::run_to_end;
use crate::program::program;

/// The fields of the packets of a capture that a display filter selects, a line for each packet. The dissector is installed
/// in the home directory `home`.
///
/// # Panics
/// The dissector is not installed, tshark fails, or it finds a malformed packet or a fault of the dissector.
#[must_use]
pub fn dissect_with_tshark(
    home: &Path,
    capture: &Path,
    filter: &str,
    fields: &[&str],
) -> Vec<Vec<String>> {
    let mut install = Command::new(program());
    install.args(["capture", "--install-dissector"]).env("HOME", home).env_remove("XDG_DATA_HOME");
    let installed = run_to_end(install);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let script = home.join(".local/lib/wireshark/plugins/namewire-ndn.lua");
    let mut tshark = Command::new("tshark");
    // By root, scripts of the home directory may be refused.
    tshark.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(capture);
    tshark.args(["-Y", filter, "-T", "fields", "-e", "_ws.malformed", "-e", "_ws.lua.text"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = run_to_end(tshark);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let of_line = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let faults = [fields.next(), fields.next()];
        let is_faultless = faults.iter().all(|fault| fault.as_deref() == Some(""));
        assert!(is_faultless, "{shown}");
        fields.collect()
    };
    shown.lines().map(of_line).collect()
}
