//! Functions for a fuzzer to call with arbitrary bytes.
//!
//! A function panics when something is wrong: because the code under test does, or because what it
//! gave breaks a rule that holds for all inputs. To add a target, write a function, name it in
//! [`TARGETS`] and put a few small inputs into `corpus/<name>/`.
#![forbid(unsafe_code)]

mod catalogue;
mod configuration;
mod disk;
mod ethernet;
mod file_service;
mod gateway;
mod http_api;
mod keys;
mod link;
mod management;
mod memif;
mod name_uri;
mod packet;
mod stream;
mod trust_rules;
mod vip;
mod websocket;

pub use catalogue::catalogue;
pub use configuration::configuration;
pub use disk::disk;
pub use ethernet::ethernet;
pub use file_service::file_service;
pub use gateway::gateway;
pub use http_api::http_api;
pub use keys::keys;
pub use link::link;
pub use management::management;
pub use memif::memif;
pub use name_uri::name_uri;
pub use packet::packet;
pub use stream::stream;
pub use trust_rules::trust_rules;
pub use vip::vip;
pub use websocket::websocket;

/// A function for arbitrary bytes.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("packet", packet),
    ("name_uri", name_uri),
    ("management", management),
    ("link", link),
    ("stream", stream),
    ("websocket", websocket),
    ("ethernet", ethernet),
    ("memif", memif),
    ("configuration", configuration),
    ("keys", keys),
    ("file_service", file_service),
    ("catalogue", catalogue),
    ("trust_rules", trust_rules),
    ("gateway", gateway),
    ("disk", disk),
    ("http_api", http_api),
    ("vip", vip),
];

/// The target called `name`.
#[must_use]
pub const fn find_target(name: &str) -> Option<Target> {
    let mut rest = TARGETS;
    while let [(other, target), others @ ..] = rest {
        if is_equal(other.as_bytes(), name.as_bytes()) {
            return Some(*target);
        }
        rest = others;
    }
    None
}

/// Comparison of slices that constants can use.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => *a == *b && is_equal(one, other),
        _ => false,
    }
}
