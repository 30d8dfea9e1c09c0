//! Code that producer and consumer share: names by the convention for segmented objects.
#![forbid(unsafe_code)]

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ndn_protocol::name::{KeywordNameComponent, SegmentNameComponent, VersionNameComponent};
use ndn_protocol::{Name, NameComponent};

/// Runs an application to its end. One thread: with more, the library may miss an answer that comes
/// before the asking task listens.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// The name prefix and the path on the command line.
pub fn arguments(program: &str, path: &str) -> (String, String) {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(prefix), Some(file), None) => (prefix, file),
        _ => {
            eprintln!("usage: {program} NAME-PREFIX {path}");
            std::process::exit(2);
        }
    }
}

/// The name with one more component.
pub fn append(name: &Name, component: NameComponent) -> Name {
    let mut longer = name.clone();
    longer.components.push(component);
    longer
}

/// `32=metadata`.
pub fn metadata() -> NameComponent {
    NameComponent::KeywordNameComponent(KeywordNameComponent::new(Bytes::from_static(b"metadata")))
}

/// `seg=index`.
pub fn segment(index: usize) -> NameComponent {
    NameComponent::SegmentNameComponent(SegmentNameComponent::from(index))
}

/// `v=` the microseconds since 1970.
pub fn version_now() -> NameComponent {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NameComponent::VersionNameComponent(VersionNameComponent::from(now.as_micros() as u64))
}

/// The number of a segment component.
pub fn segment_number(component: &NameComponent) -> Option<usize> {
    match component {
        NameComponent::SegmentNameComponent(segment) => {
            usize::try_from(u64::from(segment.segment_number.clone())).ok()
        }
        _ => None,
    }
}
