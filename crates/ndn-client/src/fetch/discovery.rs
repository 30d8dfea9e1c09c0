//! Version discovery: from an object's name to the name of its latest version.

use std::time::Duration;

use bytes::Bytes;
use ndn_packet::tlv::Reader;
use ndn_packet::{Component, ContentType, Convention, Name, NameRef, types};

use super::verified::express_verified;
use super::{FetchError, FetchOptions, UncheckedSignature, Verification};
use crate::express::{ExpressError, InterestRequest};
use crate::handle::Handle;
use crate::pending::ReceivedData;

/// Keyword component of metadata, of the Realtime Data Retrieval protocol.
pub(crate) const METADATA: Component<'static> = Component::keyword(b"metadata");
/// Time for metadata before the object itself is requested as well.
const METADATA_HEAD_START: Duration = Duration::from_millis(300);

/// The method of finding the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discovery {
    /// None if the name ends in a version; otherwise by metadata, and by the object's prefix if
    /// there is no answer for metadata. Immediately by prefix if the name ends in a version of
    /// [`Convention::Marked`], or another component that looks like one.
    #[default]
    Auto,
    /// RDR metadata only.
    Metadata,
    /// An Interest for the object's prefix only.
    Prefix,
    /// The name has no version: segments follow it directly.
    None,
}

/// An object with a known version: the result of [`Endpoint::find`](crate::Endpoint::find).
#[derive(Debug, Clone)]
pub struct FoundObject {
    /// The name that segment numbers follow.
    pub(crate) prefix: Name,
    /// Naming convention of segments.
    pub(crate) convention: Convention,
    /// Final segment, if it is known already.
    pub(crate) final_segment: Option<u64>,
    /// A segment, or the whole object, received during discovery.
    pub(crate) data: Option<ReceivedData>,
    /// Whether `data` is the whole object, which is not segmented.
    pub(crate) whole: bool,
    /// Content of the metadata with the version.
    pub(crate) metadata: Option<Bytes>,
    /// The verification of the metadata.
    verified_by: Verification,
    /// The signature of the Data by which it was found, if it was not checked.
    unchecked: Option<UncheckedSignature>,
}

impl FoundObject {
    /// Segment numbers use the convention of the version at the end of the name.
    fn of_name(prefix: Name) -> Self {
        let convention = if ends_in_marked_version(prefix.as_ref()) {
            Convention::Marked
        } else {
            Convention::Typed
        };
        Self {
            prefix,
            convention,
            final_segment: None,
            data: None,
            whole: false,
            metadata: None,
            verified_by: Verification::Skip,
            unchecked: None,
        }
    }

    /// An object whose name and last segment are known: a segment that states another last one ends
    /// a fetch.
    #[must_use]
    pub fn known(name: Name, final_segment: u64) -> Self {
        Self { final_segment: Some(final_segment), ..Self::of_name(name) }
    }

    /// Content of the metadata, if the version was found by metadata.
    #[must_use]
    pub fn metadata(&self) -> Option<&Bytes> {
        self.metadata.as_ref()
    }

    /// Whether the metadata was verified by this verifier alone: then its other fields need no
    /// further signature.
    #[must_use]
    pub fn metadata_is_verified_by(&self, verification: &Verification) -> bool {
        self.metadata.is_some() && self.verified_by.is_same_verifier(verification)
    }

    /// The signature of the Data by which the object was found, if the options of the search left it unchecked.
    #[must_use]
    pub fn unchecked(&self) -> Option<&UncheckedSignature> {
        self.unchecked.as_ref()
    }

    /// Name of the object with its version; segment numbers follow it.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.prefix
    }

    /// Naming convention of segments: that of the segment found by prefix, else that of the
    /// FinalBlockId in the metadata, else that of the version at the end of the name.
    #[must_use]
    pub fn convention(&self) -> Convention {
        self.convention
    }

    /// The name of a segment.
    #[must_use]
    pub fn segment_name(&self, segment: u64) -> Name {
        let mut name = self.prefix.clone();
        self.convention.push_segment(&mut name, segment);
        name
    }

    /// The final segment, if known.
    #[must_use]
    pub fn final_segment(&self) -> Option<u64> {
        self.final_segment
    }

    /// Takes the final segment from the FinalBlockId of a segment, unless it is known.
    pub fn note_final_segment(&mut self, segment: &ReceivedData) {
        let last = segment.data().final_block_id();
        let stated = last.and_then(|last| self.convention.segment_of(&last));
        self.final_segment = self.final_segment.or(stated);
    }

    /// Whether the object is segmented; one that is not is a single Data, received already.
    #[must_use]
    pub fn is_segmented(&self) -> bool {
        !self.whole
    }
}

pub(crate) async fn discover(
    handle: &Handle,
    name: &Name,
    options: &FetchOptions,
) -> Result<FoundObject, FetchError> {
    match options.discovery {
        Discovery::None => Ok(FoundObject::of_name(name.clone())),
        Discovery::Auto if name.as_ref().ends_in_version() => {
            Ok(FoundObject::of_name(name.clone()))
        }
        Discovery::Metadata => by_metadata(handle, name, options).await,
        Discovery::Prefix => by_prefix(handle, name, options).await,
        Discovery::Auto => {
            // Both together take no longer than one of them may.
            let timeout = options.lifetime.saturating_mul(options.discovery_attempts());
            // A component that looks like a version of the older convention most likely is one.
            let is_version = ends_in_marked_version(name.as_ref());
            let head_start =
                if is_version { Duration::ZERO } else { METADATA_HEAD_START.min(timeout / 2) };
            let metadata = by_metadata(handle, name, options);
            let prefix = async {
                tokio::time::sleep(head_start).await;
                tokio::time::timeout(timeout - head_start, by_prefix(handle, name, options))
                    .await
                    .unwrap_or_else(|_| Err(unanswered(name, options, timeout)))
            };
            tokio::pin!(metadata, prefix);
            tokio::select! {
                biased;
                found = &mut metadata => match found {
                    // Stated by the producer.
                    Err(error @ FetchError::NotFound { .. }) => Err(error),
                    // Signed by a key that is not allowed; another producer may have the object.
                    Err(error @ FetchError::Verification { .. }) => {
                        let grace = options.discovery_interval();
                        let found = tokio::time::timeout(grace, prefix).await;
                        found.ok().and_then(Result::ok).ok_or(error)
                    }
                    Err(_) => prefix.await,
                    found => found,
                },
                found = &mut prefix => match found {
                    Ok(found) => Ok(found),
                    // A missing answer for metadata is less specific than an answer that fails
                    // verification.
                    Err(error @ FetchError::Verification { .. }) => match metadata.await {
                        Err(FetchError::Discovery(_)) => Err(error),
                        found => found,
                    },
                    Err(_) => metadata.await,
                },
            }
        }
    }
}

fn ends_in_marked_version(name: NameRef<'_>) -> bool {
    name.last().is_some_and(|last| Convention::Marked.version_of(&last).is_some())
}

fn unanswered(name: &Name, options: &FetchOptions, waited: Duration) -> FetchError {
    FetchError::Discovery(ExpressError::Timeout {
        name: name.to_string(),
        attempts: options.discovery_attempts(),
        waited,
    })
}

/// The latest Data of this prefix.
async fn ask(
    handle: &Handle,
    name: &Name,
    must_be_fresh: bool,
    options: &FetchOptions,
) -> Result<ReceivedData, FetchError> {
    let request = InterestRequest::new(name.clone()).can_be_prefix(true);
    answer_to(handle, request.must_be_fresh(must_be_fresh), options).await
}

/// The latest Data of this name.
async fn ask_exactly(
    handle: &Handle,
    name: &Name,
    options: &FetchOptions,
) -> Result<ReceivedData, FetchError> {
    answer_to(handle, InterestRequest::new(name.clone()).must_be_fresh(true), options).await
}

async fn answer_to(
    handle: &Handle,
    request: InterestRequest,
    options: &FetchOptions,
) -> Result<ReceivedData, FetchError> {
    let request = request
        .lifetime(options.lifetime)
        .retransmission_interval(options.discovery_interval())
        .retransmissions(options.discovery_retransmissions);
    let timeout = options.lifetime.saturating_mul(options.discovery_attempts());
    let received = express_verified(handle, request, timeout, options).await;
    let received = received.map_err(|error| match error {
        ExpressError::Verification { name, reason } => FetchError::Verification { name, reason },
        other @ (ExpressError::Timeout { .. }
        | ExpressError::Nack { .. }
        | ExpressError::NotListening { .. }
        | ExpressError::Closed
        | ExpressError::Encode(_)
        | ExpressError::TooLong(_)
        | ExpressError::Sign(_)) => FetchError::Discovery(other),
    })?;
    let data = received.data();
    if data.content_type() == ContentType::NACK {
        let content = received.content();
        return Err(FetchError::NotFound { name: object_of(data.name()).to_uri(), content });
    }
    Ok(received)
}

/// The object whose metadata has this name; the name itself if it is not one of metadata.
fn object_of(name: NameRef<'_>) -> Name {
    name.components().take_while(|component| *component != METADATA).collect()
}

async fn by_metadata(
    handle: &Handle,
    name: &Name,
    options: &FetchOptions,
) -> Result<FoundObject, FetchError> {
    let mut metadata_name = name.clone();
    metadata_name.push(METADATA);
    let received = ask(handle, &metadata_name, true, options).await;
    let received = received.map_err(|error| of_object(error, name))?;
    let content = received.content();
    let malformed = || FetchError::MalformedMetadata { name: received.data().name().to_uri() };
    let found = parse_metadata(&content).ok_or_else(malformed)?;
    let verified_by = options.verification.clone();
    let unchecked = options.verification.unchecked(&received.data());
    Ok(FoundObject { metadata: Some(content), verified_by, unchecked, ..found })
}

/// A Nack for the metadata of an object is one for the object.
fn of_object(error: FetchError, name: &Name) -> FetchError {
    if let FetchError::Discovery(ExpressError::Nack { reason, .. }) = error {
        return FetchError::Discovery(ExpressError::Nack { name: name.to_uri(), reason });
    }
    error
}

/// Content of metadata: a Name, followed by a FinalBlockId in the file-server protocol.
fn parse_metadata(content: &[u8]) -> Option<FoundObject> {
    let mut reader = Reader::new(content);
    let name = NameRef::from_tlv(&reader.read_expected(types::NAME).ok()?).ok()?;
    let mut found = FoundObject::of_name(name.to_name());
    if let Ok(Some(final_block_id)) = reader.read_if(types::FINAL_BLOCK_ID) {
        let component = final_block_id.reader().read().ok()?;
        let last = Component::from_tlv(&component).ok()?;
        found.final_segment = last.as_segment_or_marked();
        if found.final_segment.is_some() {
            found.convention = Convention::of_segment(&last).unwrap_or_default();
        }
    }
    Some(found)
}

/// Whether exactly a version and a segment number, in this order, follow the object's name.
fn is_of_object(found: NameRef<'_>, name_len: usize) -> bool {
    let mut at = name_len;
    if found.component(at).is_some_and(|next| next.as_version_or_marked().is_some()) {
        at += 1;
    }
    if found.component(at).is_some_and(|next| next.as_segment_or_marked().is_some()) {
        at += 1;
    }
    at == found.len()
}

async fn by_prefix(
    handle: &Handle,
    name: &Name,
    options: &FetchOptions,
) -> Result<FoundObject, FetchError> {
    // A version does not change, and its producer may be gone.
    let any = ends_in_marked_version(name.as_ref());
    let mut received = ask(handle, name, !any, options).await?;
    if any && received.data().name().len() > name.len() + 1 {
        // It only looked like a version: find the latest version below it.
        received = ask(handle, name, true, options).await?;
    }
    // Below the name is something else, which by its name could be taken for the object's content:
    // metadata, or the entries of a directory. A producer that answers every name under its prefix
    // has answered the Interest for metadata so; its answer is in caches, and the object is one Data.
    if !is_of_object(received.data().name(), name.len()) {
        received = ask_exactly(handle, name, options).await?;
    }
    let data = received.data();
    let found = data.name();
    let convention = found.last().and_then(|last| Convention::of_segment(&last));
    let segmented = convention.filter(|_| found.len() > name.len());
    let prefix = if segmented.is_some() { found.parent() } else { found }.to_name();
    let mut object = FoundObject::of_name(prefix);
    object.convention = segmented.unwrap_or(object.convention);
    object.note_final_segment(&received);
    object.whole = segmented.is_none();
    object.unchecked = options.verification.unchecked(&received.data());
    object.data = Some(received.clone());
    Ok(object)
}

#[cfg(test)]
mod tests {
    use ndn_packet::tlv::{append_name, append_tlv};

    use super::*;

    #[test]
    fn only_version_and_segment_may_follow_the_object_name() {
        for (found, expected) in [
            ("/a", true),
            ("/a/v=1", true),
            ("/a/seg=0", true),
            ("/a/v=1/seg=0", true),
            ("/a/seg=0/v=1", false),
            ("/a/v=1/v=2", false),
            ("/a/v=1/seg=0/x", false),
            ("/a/b/v=1/seg=0", false),
            ("/a/32=metadata/v=1/seg=0", false),
            ("/a/%FD%01", true),
            ("/a/%00%00", true),
            ("/a/%FD%01/%00%00", true),
            ("/a/v=1/%00%00", true),
            ("/a/%00%00/%FD%01", false),
            ("/a/%FD%01/%00%00/x", false),
            ("/a/32=metadata/%FD%01/%00%00", false),
        ] {
            assert_eq!(
                is_of_object(Name::from_uri(found).unwrap().as_ref(), 1),
                expected,
                "{found}"
            );
        }
    }

    #[test]
    fn metadata_may_contain_a_final_block_id() {
        let name = Name::from_uri("/file/v=7").unwrap();
        let mut content = Vec::new();
        append_name(&mut content, name.as_ref());
        let found = parse_metadata(&content).unwrap();
        assert_eq!((found.prefix.clone(), found.final_segment), (name, None));
        append_tlv(&mut content, types::FINAL_BLOCK_ID, &[50, 1, 9]);
        append_tlv(&mut content, 0xf500, &[1]);
        assert_eq!(parse_metadata(&content).unwrap().final_segment, Some(9));
        assert!(parse_metadata(&[]).is_none());
        assert!(parse_metadata(&[7, 5, 0]).is_none());
    }
}
