//! Cases of this project's programs.

/// Number of files in the tree, and bytes of each.
pub(super) const TREE_FILES: u64 = 10_000;
pub(super) const TREE_FILE_BYTES: u64 = 10_000;
/// Maximum file length for slower programs, and for content that must fit into the Content Store.
const PART_BYTES: u64 = 256 << 20;

/// Verification of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A manifest that the server has created before.
    Manifest,
    /// A manifest that the server still has to create.
    ManifestCold,
    /// DigestSha256 of each segment.
    Digest,
    /// No verification.
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

    /// Returns the signature that the fetcher verifies.
    pub(super) fn verified(self) -> &'static str {
        match self {
            Self::Manifest | Self::ManifestCold => "manifest",
            Self::Unverified => "nothing",
            Self::Digest | Self::Hmac | Self::Ecdsa | Self::Ed25519 => self.name(),
        }
    }

    /// Returns the content of the case: segment signatures are slow and use a shorter file.
    fn what(self) -> FetchedContent {
        match self {
            Self::Manifest | Self::ManifestCold | Self::Digest | Self::Unverified => {
                FetchedContent::File
            }
            Self::Hmac | Self::Ecdsa | Self::Ed25519 => FetchedContent::Part,
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

/// Content of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchedContent {
    /// The file.
    File,
    /// A shorter file.
    Part,
    /// A shorter file in the forwarder's Content Store.
    Cached,
    /// A directory of many small files.
    Tree,
}

impl FetchedContent {
    /// Returns the name below the served directory.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Part | Self::Cached => "part",
            Self::Tree => "tree",
        }
    }

    /// Returns the content bytes if the whole file has `bytes`.
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
    pub(super) what: FetchedContent,
    /// The fetcher connects over UDP; the server never does, because a remote application may not register prefixes.
    pub(super) udp: bool,
    /// Content bytes of a segment; `None`: the default of `serve`.
    pub(super) segment_len: Option<usize>,
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let manifest = Case {
        name: String::new(),
        mode: Mode::Manifest,
        what: FetchedContent::File,
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
        cases.push(named(
            &name,
            Case { segment_len, what: FetchedContent::Part, ..manifest.clone() },
        ));
    }
    cases.push(named("unix-cached", Case { what: FetchedContent::Cached, ..manifest.clone() }));
    cases.push(named("unix-tree", Case { what: FetchedContent::Tree, ..manifest.clone() }));
    let udp = Case { udp: true, what: FetchedContent::Part, ..manifest };
    cases.push(named("udp-segments-1300", Case { segment_len: Some(1300), ..udp.clone() }));
    cases.push(named("udp-segments-8k", Case { segment_len: Some(8192), ..udp }));
    cases
}
