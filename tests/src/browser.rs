//! A page with NDNts in a headless browser.

use std::path::Path;
use std::process::Command;

use crate::peers::{found_on_path, skip};
use crate::process::{Process, run_to_end};
use crate::program::root;
use crate::wait_until;

const BROWSER: &str = "chromium";

/// Whether there is a browser. If not, says so loudly; where `CI` is set, that fails the test.
///
/// # Panics
/// As said.
#[must_use]
pub fn browser_found() -> bool {
    let bundler = root().join("tests/interop/browser/node_modules/.bin/esbuild");
    let missing = if !found_on_path(BROWSER) {
        format!("{BROWSER} is not on PATH (make setup installs it for root)")
    } else if !bundler.exists() {
        format!("{} does not exist (make setup installs it)", bundler.display())
    } else {
        return true;
    };
    let must = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!must, "no page can be shown: {missing}");
    skip("browser", &missing);
    false
}

/// Returns the output of `tests/interop/js/page.js` in a browser: the length of the object `name`, and its checksum.
/// The address of a forwarder with WebTransport ends in `&certificate=` and the hash.
///
/// The page reports a failure, or nothing.
#[must_use]
pub fn fetch_by_page(forwarder: &str, name: &str, directory: &Path) -> String {
    let script = directory.join("page.js");
    let mut bundle = Command::new(root().join("tests/interop/browser/node_modules/.bin/esbuild"));
    bundle.current_dir(root().join("tests/interop/js"));
    bundle.args(["page.js", "--bundle", "--log-level=warning"]);
    bundle.arg(format!("--outfile={}", script.display()));
    let bundled = run_to_end(bundle);
    assert!(bundled.status.success(), "{}", String::from_utf8_lossy(&bundled.stderr));
    let page = directory.join("page.html");
    std::fs::write(&page, "<!doctype html><meta charset=utf-8><script src=page.js></script>\n")
        .unwrap();
    let mut browser = Command::new(BROWSER);
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    browser.arg(format!("--user-data-dir={}", directory.join("browser").display()));
    browser.arg(format!("file://{}?forwarder={forwarder}&name={name}", page.display()));
    browser.env("HOME", directory);
    let process = Process::start("browser", browser, directory);
    wait_until("the page to fetch", || {
        let output = process.stderr();
        assert!(!output.contains("FAILED"), "{output}");
        let start = output.find("FETCHED ")? + "FETCHED ".len();
        let end = start + output[start..].find('.')?;
        Some(output[start..end].to_owned())
    })
}
