//! Encoding of indexes and pages.

use ndn_packet::tlv::{Reader, Tlv, append_name, append_nested, append_number, append_tlv};
use ndn_packet::{DecodeError, Name, NameRef, types};
use ndn_security::Sha256Digest;

use crate::path::path_of;

/// Version of the format.
const FORMAT: u64 = 1;
/// Maximum number of replicas.
pub(crate) const REPLICAS_MAX: usize = 16;
/// Maximum number of pages.
pub(crate) const PAGES_MAX: usize = 1 << 16;
/// Maximum number of entries of a page.
pub(crate) const ENTRIES_MAX: usize = 1024;
/// Maximum length of a page in bytes.
pub(crate) const PAGE_LEN_MAX: usize = 1 << 20;
/// Maximum length of an index in bytes.
pub(crate) const INDEX_LEN_MAX: usize = 8 << 20;
/// Maximum number of fields of an entry.
pub(crate) const FIELDS_MAX: usize = 64;
/// Maximum length of the key of a field in bytes.
pub(crate) const KEY_LEN_MAX: usize = 128;
/// Maximum length of the value of a field in bytes.
pub(crate) const VALUE_LEN_MAX: usize = 4096;

/// TLV types. Those that are even are skipped by readers that do not know them.
mod types_here {
    pub(super) const SIZE: u32 = 0xF502;
    pub(super) const MTIME: u32 = 0xF50C;
    pub(super) const FORMAT: u32 = 0xF541;
    pub(super) const REPLICA: u32 = 0xF542;
    pub(super) const PAGE: u32 = 0xF543;
    pub(super) const LENGTH: u32 = 0xF545;
    pub(super) const COUNT: u32 = 0xF547;
    pub(super) const ENTRY: u32 = 0xF549;
    pub(super) const VERSION: u32 = 0xF54B;
    pub(super) const DIGEST: u32 = 0xF54D;
    pub(super) const FIELD: u32 = 0xF54E;
    pub(super) const KEY: u32 = 0xF54F;
    pub(super) const VALUE: u32 = 0xF551;
}

/// Why a catalogue is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// Malformed.
    #[error("malformed catalogue: {0}")]
    Malformed(#[from] DecodeError),
    /// A later version of the format.
    #[error("the catalogue has format {0}; this program reads format {FORMAT}")]
    Format(u64),
    /// More than a limit allows.
    #[error("the catalogue has too many or too long {0}")]
    TooMany(&'static str),
    /// Inconsistent.
    #[error("contradictory catalogue: {0}")]
    Contradiction(&'static str),
    /// It cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] ndn_client::fetch::FetchError),
}

/// A page of a catalogue, as the index lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageReference {
    /// SHA-256 of the page, which is its name, too.
    pub digest: Sha256Digest,
    /// Length in bytes.
    pub length: u64,
    /// Number of entries.
    pub entries: u64,
}

/// The index of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueIndex {
    /// Name that the paths of entries follow.
    pub prefix: Name,
    /// Other names under which the same files are served.
    pub replicas: Vec<Name>,
    /// The pages, in the order of their entries.
    pub pages: Vec<PageReference>,
}

impl CatalogueIndex {
    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.pages.iter().fold(0, |sum, page| sum.saturating_add(page.entries))
    }

    /// As the content of an object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        append_number(&mut out, types_here::FORMAT, FORMAT);
        append_name(&mut out, self.prefix.as_ref());
        for replica in &self.replicas {
            append_nested(&mut out, types_here::REPLICA, |out| append_name(out, replica.as_ref()));
        }
        for page in &self.pages {
            append_nested(&mut out, types_here::PAGE, |out| {
                append_tlv(out, types_here::DIGEST, &page.digest);
                append_number(out, types_here::LENGTH, page.length);
                append_number(out, types_here::COUNT, page.entries);
            });
        }
        out
    }

    /// Parses the content of an object, which is untrusted input.
    ///
    /// # Errors
    /// All of [`CatalogueError`] but `Fetch`.
    pub fn decode(content: &[u8]) -> Result<Self, CatalogueError> {
        if content.len() > INDEX_LEN_MAX {
            return Err(CatalogueError::TooMany("bytes"));
        }
        let mut reader = Reader::new(content);
        check_format(&mut reader)?;
        let prefix = NameRef::from_tlv(&reader.read_expected(types::NAME)?)?.to_name();
        let mut index = Self { prefix, replicas: Vec::new(), pages: Vec::new() };
        while let Some(element) = reader.next_tlv()? {
            match element.ty() {
                types_here::REPLICA => {
                    let name = element.reader().read_only(types::NAME)?;
                    push(&mut index.replicas, REPLICAS_MAX, "replicas", || {
                        Ok(NameRef::from_tlv(&name)?.to_name())
                    })?;
                }
                types_here::PAGE => {
                    push(&mut index.pages, PAGES_MAX, "pages", || PageReference::of(&element))?;
                }
                _ => element.skip_unrecognized()?,
            }
        }
        Ok(index)
    }
}

impl PageReference {
    fn of(element: &Tlv<'_>) -> Result<Self, CatalogueError> {
        let mut reader = element.reader();
        let digest = *reader.read_expected(types_here::DIGEST)?.array()?;
        let length = reader.read_expected(types_here::LENGTH)?.number()?;
        let entries = reader.read_expected(types_here::COUNT)?.number()?;
        skip_rest(&mut reader)?;
        if length > PAGE_LEN_MAX as u64 || entries > ENTRIES_MAX as u64 || entries == 0 {
            return Err(CatalogueError::TooMany("entries of a page"));
        }
        Ok(Self { digest, length, entries })
    }
}

/// A file in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Path below the prefix: generic components that are file names.
    pub path: Name,
    /// Version.
    pub version: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change, in nanoseconds since 1970.
    pub mtime_ns: u64,
    /// SHA-256 of the content, if the server has read it.
    pub digest: Option<Sha256Digest>,
    /// Free metadata: keys and values, in the order of the keys.
    pub fields: Vec<(String, String)>,
}

impl CatalogueEntry {
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        append_nested(out, types_here::ENTRY, |out| {
            append_name(out, self.path.as_ref());
            append_number(out, types_here::VERSION, self.version);
            append_number(out, types_here::SIZE, self.size);
            append_number(out, types_here::MTIME, self.mtime_ns);
            if let Some(digest) = &self.digest {
                append_tlv(out, types_here::DIGEST, digest);
            }
            for (key, value) in &self.fields {
                append_nested(out, types_here::FIELD, |out| {
                    append_tlv(out, types_here::KEY, key.as_bytes());
                    append_tlv(out, types_here::VALUE, value.as_bytes());
                });
            }
        });
    }

    fn of(element: &Tlv<'_>) -> Result<Self, CatalogueError> {
        let mut reader = element.reader();
        let path = NameRef::from_tlv(&reader.read_expected(types::NAME)?)?;
        // Consumers make local paths of it.
        if path.is_empty() || path_of(path, true).is_err() {
            return Err(CatalogueError::Contradiction("a path that is no path of a file"));
        }
        let version = reader.read_expected(types_here::VERSION)?.number()?;
        let size = reader.read_expected(types_here::SIZE)?.number()?;
        let mtime_ns = reader.read_expected(types_here::MTIME)?.number()?;
        let digest = reader.read_if(types_here::DIGEST)?;
        let digest = digest.map(|digest| digest.array().copied()).transpose()?;
        let mut fields: Vec<(String, String)> = Vec::new();
        while let Some(inner) = reader.next_tlv()? {
            if inner.ty() == types_here::FIELD {
                push(&mut fields, FIELDS_MAX, "fields", || field(&inner))?;
            } else {
                inner.skip_unrecognized()?;
            }
        }
        if !fields.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(CatalogueError::Contradiction("fields out of order"));
        }
        Ok(Self { path: path.to_name(), version, size, mtime_ns, digest, fields })
    }
}

/// A page of these entries, which are in the order of their paths.
#[must_use]
pub fn encode_page(entries: &[CatalogueEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    append_number(&mut out, types_here::FORMAT, FORMAT);
    entries.iter().for_each(|entry| entry.append_to(&mut out));
    out
}

/// Parses a page, which is untrusted input.
///
/// # Errors
/// All of [`CatalogueError`] but `Fetch`.
pub fn decode_page(content: &[u8]) -> Result<Vec<CatalogueEntry>, CatalogueError> {
    if content.len() > PAGE_LEN_MAX {
        return Err(CatalogueError::TooMany("bytes"));
    }
    let mut reader = Reader::new(content);
    check_format(&mut reader)?;
    let mut entries: Vec<CatalogueEntry> = Vec::new();
    while let Some(element) = reader.next_tlv()? {
        if element.ty() == types_here::ENTRY {
            push(&mut entries, ENTRIES_MAX, "entries of a page", || CatalogueEntry::of(&element))?;
        } else {
            element.skip_unrecognized()?;
        }
    }
    if !entries.is_sorted_by(|one, other| one.path < other.path) {
        return Err(CatalogueError::Contradiction("entries out of order"));
    }
    Ok(entries)
}

fn check_format(reader: &mut Reader<'_>) -> Result<(), CatalogueError> {
    match reader.read_expected(types_here::FORMAT)?.number()? {
        FORMAT => Ok(()),
        format => Err(CatalogueError::Format(format)),
    }
}

fn field(element: &Tlv<'_>) -> Result<(String, String), CatalogueError> {
    let mut reader = element.reader();
    let key = reader.read_expected(types_here::KEY)?.text()?.to_owned();
    let value = reader.read_expected(types_here::VALUE)?.text()?.to_owned();
    skip_rest(&mut reader)?;
    if key.is_empty() || key.len() > KEY_LEN_MAX || value.len() > VALUE_LEN_MAX {
        return Err(CatalogueError::TooMany("bytes of a field"));
    }
    Ok((key, value))
}

fn skip_rest(reader: &mut Reader<'_>) -> Result<(), CatalogueError> {
    while let Some(element) = reader.next_tlv()? {
        element.skip_unrecognized()?;
    }
    Ok(())
}

/// Adds an element, unless there are `most` already.
fn push<T>(
    list: &mut Vec<T>,
    most: usize,
    what: &'static str,
    read: impl FnOnce() -> Result<T, CatalogueError>,
) -> Result<(), CatalogueError> {
    if list.len() >= most {
        return Err(CatalogueError::TooMany(what));
    }
    list.push(read()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(path: &str) -> CatalogueEntry {
        CatalogueEntry {
            path: Name::from_uri(path).unwrap(),
            version: 7,
            size: 1 << 40,
            mtime_ns: 1_795_375_635_999_000_000,
            digest: Some([7; 32]),
            fields: vec![
                ("detector".to_owned(), "CMS".to_owned()),
                ("run".to_owned(), "3".to_owned()),
            ],
        }
    }

    fn index() -> CatalogueIndex {
        let page = |digest| PageReference { digest: [digest; 32], length: 100, entries: 2 };
        CatalogueIndex {
            prefix: Name::from_uri("/site/data").unwrap(),
            replicas: vec![Name::from_uri("/mirror/data").unwrap()],
            pages: vec![page(1), page(2)],
        }
    }

    #[test]
    fn encoding_round_trips() {
        assert_eq!(CatalogueIndex::decode(&index().encode()), Ok(index()));
        assert_eq!(index().entries(), 4);
        let bare = CatalogueEntry { digest: None, fields: Vec::new(), ..entry("/b/c") };
        let entries = vec![entry("/a"), bare, entry("/b/d")];
        assert_eq!(decode_page(&encode_page(&entries)), Ok(entries));
    }

    #[test]
    fn wrong_pages_are_rejected() {
        let order = [entry("/b"), entry("/a")];
        assert!(matches!(decode_page(&encode_page(&order)), Err(CatalogueError::Contradiction(_))));
        let twice = [entry("/a"), entry("/a")];
        assert!(matches!(decode_page(&encode_page(&twice)), Err(CatalogueError::Contradiction(_))));
        // `.....` is `..`, `...` is the empty component.
        for path in ["/", "/a/...../b", "/a/...", "/a%2Fb", "/32=ls"] {
            let found = decode_page(&encode_page(&[entry(path)]));
            assert!(matches!(found, Err(CatalogueError::Contradiction(_))), "{path}: {found:?}");
        }
        let fields = vec![("b".to_owned(), String::new()), ("a".to_owned(), String::new())];
        let found = decode_page(&encode_page(&[CatalogueEntry { fields, ..entry("/a") }]));
        assert!(matches!(found, Err(CatalogueError::Contradiction(_))));
        let many: Vec<_> = (10_000..10_000 + ENTRIES_MAX + 1)
            .map(|n| CatalogueEntry { fields: Vec::new(), ..entry(&format!("/{n}")) })
            .collect();
        let found = decode_page(&encode_page(&many));
        assert_eq!(found, Err(CatalogueError::TooMany("entries of a page")));
        let mut later = Vec::new();
        append_number(&mut later, types_here::FORMAT, 2);
        assert_eq!(decode_page(&later), Err(CatalogueError::Format(2)));
        assert!(matches!(decode_page(&[]), Err(CatalogueError::Malformed(_))));
    }

    #[test]
    fn unknown_elements_are_skipped_unless_they_are_critical() {
        let mut content = index().encode();
        append_number(&mut content, 0xF5FE, 7);
        assert_eq!(CatalogueIndex::decode(&content), Ok(index()));
        append_number(&mut content, 0xF5FF, 7);
        assert!(matches!(CatalogueIndex::decode(&content), Err(CatalogueError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn damaged_bytes_do_not_panic(cut in 0_usize..400, flip in any::<(usize, u8)>()) {
            for mut content in [index().encode(), encode_page(&[entry("/a"), entry("/b/c")])] {
                let at = flip.0 % content.len();
                content[at] ^= flip.1;
                content.truncate(cut);
                let _ = CatalogueIndex::decode(&content);
                let _ = decode_page(&content);
            }
        }
    }
}
