//! What is measured of this program.

/// Files of the tree, and the bytes of each.
pub(super) const TREE_FILES: u64 = 10_000;
pub(super) const TREE_FILE_BYTES: u64 = 10_000;
/// Longest file of other programs, which are slower, and of what has to fit the Content Store.
const PART_BYTES: u64 = 256 << 20;

/// How a fetch is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A manifest that the server has made before.
    Manifest,
    /// A manifest that it has still to make.
    ManifestCold,
    /// DigestSha256 of each segment.
    Digest,
    /// Nothing is verified.
    Unverified,
    /// HMAC with SHA-256 of each segment.
    Hmac,
    /// ECDSA of each segment.
    Ecdsa,
    /// Ed25519 of each segment.
    Ed25519,
}

impl Mode {
    const ALL: [Self; 7] = [
        Self::Manifest,
        Self::ManifestCold,
        Self::Digest,
        Self::Unverified,
        Self::Hmac,
        Self::Ecdsa,
        Self::Ed25519,
    ];

    /// What the fetcher verifies by.
    pub(super) fn verified(self) -> &'static str {
        match self {
            Self::Manifest | Self::ManifestCold => "manifest",
            Self::Unverified => "nothing",
            Self::Digest | Self::Hmac | Self::Ecdsa | Self::Ed25519 => self.name(),
        }
    }

    /// What is fetched: signatures of each segment take long, and are compared by a shorter file.
    fn what(self) -> What {
        match self {
            Self::Manifest | Self::ManifestCold | Self::Digest | Self::Unverified => What::File,
            Self::Hmac | Self::Ecdsa | Self::Ed25519 => What::Part,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::ManifestCold => "manifest-cold",
            Self::Digest => "digest",
            Self::Unverified => "unverified",
            Self::Hmac => "hmac",
            Self::Ecdsa => "ecdsa",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// What is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The file.
    File,
    /// A shorter one.
    Part,
    /// A shorter one that the forwarder's Content Store has.
    Cached,
    /// A directory of many small files.
    Tree,
}

impl What {
    /// The name below the directory that is served.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Part | Self::Cached => "part",
            Self::Tree => "tree",
        }
    }

    /// Content bytes, where the whole file has `bytes`.
    pub(super) fn bytes(self, bytes: u64) -> u64 {
        match self {
            Self::File => bytes,
            Self::Part | Self::Cached => bytes.min(PART_BYTES),
            Self::Tree => TREE_FILES * TREE_FILE_BYTES,
        }
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) what: What,
    /// The fetcher's connection is UDP; the server's never is, because who is not local may not register.
    pub(super) udp: bool,
    /// Content bytes of a segment; `None`: as `serve` has it.
    pub(super) segment_len: Option<usize>,
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let manifest = Case {
        name: String::new(),
        mode: Mode::Manifest,
        what: What::File,
        udp: false,
        segment_len: None,
    };
    let named = |name: &str, case: Case| Case { name: format!("namewire-{name}"), ..case };
    let mut cases: Vec<Case> = Mode::ALL
        .into_iter()
        .map(|mode| {
            let case = Case { mode, what: mode.what(), ..manifest.clone() };
            named(&format!("unix-{}", mode.name()), case)
        })
        .collect();
    for kibibytes in [1, 2, 4, 8] {
        let segment_len = Some(kibibytes * 1024);
        let name = format!("unix-segments-{kibibytes}k");
        cases.push(named(&name, Case { segment_len, what: What::Part, ..manifest.clone() }));
    }
    cases.push(named("unix-cached", Case { what: What::Cached, ..manifest.clone() }));
    cases.push(named("unix-tree", Case { what: What::Tree, ..manifest.clone() }));
    let udp = Case { udp: true, what: What::Part, ..manifest };
    cases.push(named("udp-segments-1300", Case { segment_len: Some(1300), ..udp.clone() }));
    cases.push(named("udp-segments-8k", Case { segment_len: Some(8192), ..udp }));
    cases
}
