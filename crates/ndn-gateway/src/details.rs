//! Properties of files in listings and answers.

use ndn_packet::{Convention, Name};

use crate::conditions::Validators;

/// The properties of an entry that a listing states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Details {
    /// Length in bytes; files only.
    pub(crate) size: Option<u64>,
    /// Time of the last change, in nanoseconds since 1970.
    pub(crate) modified_ns: Option<u64>,
    pub(crate) validators: Validators,
}

impl From<&ndn_access::Details> for Details {
    fn from(details: &ndn_access::Details) -> Self {
        let (size, modified_ns) = (details.size, details.modified_ns);
        Self { size, modified_ns, validators: Validators::new(tag(&details.name), modified_ns) }
    }
}

/// The entity tag of an object with this name.
fn tag(name: &Name) -> String {
    let last = name.as_ref().last();
    let version = last.and_then(|last| last.as_version());
    let marked = last.and_then(|last| Convention::Marked.version_of(&last));
    match (version, marked) {
        (Some(version), _) => format!("\"v{version}\""),
        // The same number would be another version.
        (None, Some(version)) => format!("\"m{version}\""),
        (None, None) => {
            // Without a version, the content under this name may change.
            let digest = ndn_security::sha256(name.value());
            let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("\"n{digest}\"")
        }
    }
}
