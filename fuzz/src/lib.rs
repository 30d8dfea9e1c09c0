//! Functions for a fuzzer to call with arbitrary bytes.
//!
//! A function panics when something is wrong: because the code under test does, or because what it
//! gave breaks a rule that holds for all inputs. To add a target, write a function, name it in
//! [`TARGETS`] and put a few small inputs into `corpus/<name>/`.
#![forbid(unsafe_code)]

mod ethernet;
mod link;
mod memif;
mod name_uri;
mod packet;
mod parsers;
#[cfg(feature = "services")]
mod services;
mod stream;
mod websocket;

/// A function for arbitrary bytes.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus, in tables.
pub const TARGETS: &[&[(&str, Target)]] = &[
    &[
        ("packet", packet::packet),
        ("parsers", parsers::parsers),
        ("name_uri", name_uri::name_uri),
        ("link", link::link),
        ("stream", stream::stream),
        ("websocket", websocket::websocket),
        ("ethernet", ethernet::ethernet),
        ("memif", memif::memif),
    ],
    #[cfg(feature = "services")]
    services::TARGETS,
];

/// The target called `name`.
#[must_use]
pub const fn find_target(name: &str) -> Option<Target> {
    let mut tables = TARGETS;
    while let [table, others @ ..] = tables {
        let mut rest = *table;
        while let [(other, target), others @ ..] = rest {
            if is_equal(other.as_bytes(), name.as_bytes()) {
                return Some(*target);
            }
            rest = others;
        }
        tables = others;
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
