//! Publishes segmented objects with RDR metadata.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_packet::tlv::{append_name, append_nested, append_number};
use ndn_packet::{
    ComponentType, ContentType, DataBuilder, Interest, MAX_PACKET_SIZE, Name, NameRef, types,
};
use ndn_security::{DigestSigner, SignError, Signer, data_len_max};
use ndn_types::duration_ms;
use thiserror::Error;

use crate::content::Content;
use crate::fetch::METADATA;
use crate::handle::Handle;
use crate::manage::CommandError;
use crate::register::{RegisterError, Registration};
use crate::shared::{Handler, Request};

/// Maximum number of requests queued for a blocking thread; more are dropped.
const QUEUE_LEN_MAX: usize = 4096;

/// Publication options.
#[derive(Clone)]
pub struct PublishOptions {
    /// Version; `None`: that at the end of the name, or the current time in milliseconds since 1970.
    pub version: Option<u64>,
    /// Content bytes per segment.
    pub segment_len: usize,
    /// FreshnessPeriod of the segments.
    pub freshness: Duration,
    /// FreshnessPeriod of the metadata; short, so that a new version is found soon.
    pub metadata_freshness: Duration,
    /// Signs every segment and the metadata.
    pub signer: Arc<dyn Signer>,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self {
            version: None,
            segment_len: 8000,
            freshness: Duration::from_secs(10),
            metadata_freshness: Duration::from_millis(10),
            signer: Arc::new(DigestSigner),
        }
    }
}

impl std::fmt::Debug for PublishOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublishOptions").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Why an object cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A packet would exceed the maximum size.
    #[error(
        "segments of {segment_len} bytes make packets above {MAX_PACKET_SIZE} bytes; at most \
         {segment_len_max} fit this name and signature"
    )]
    SegmentTooLong {
        /// Requested segment length.
        segment_len: usize,
        /// Maximum segment length.
        segment_len_max: usize,
    },
    /// The name ends in the number of a segment.
    #[error(
        "{name}: {} is the number of a segment; segments are numbered below the name and the version of an object",
        name.as_ref().last().map_or_else(String::new, |last| last.to_string())
    )]
    SegmentName {
        /// The name.
        name: Name,
    },
    /// The name ends in two versions.
    #[error("{name}: it ends in two versions, and an object has one")]
    TwoVersions {
        /// The name.
        name: Name,
    },
    /// The name ends in another version than the options have.
    #[error("{name}: its version is {own}, and that of the options {other}")]
    OtherVersion {
        /// The name.
        name: Name,
        /// The version at its end.
        own: u64,
        /// The version of the options.
        other: u64,
    },
    /// The prefix cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// The name of an object without version, and its version, if there is one: a version at the end of the name is that of the
/// object, as consumers take it for that, and ask for segments below it.
///
/// # Errors
/// `SegmentName`, `TwoVersions`, `OtherVersion`.
pub fn split_version(
    name: &Name,
    version: Option<u64>,
) -> Result<(Name, Option<u64>), PublishError> {
    let own = name.as_ref().last().and_then(|last| last.as_version());
    let object = if own.is_some() { name.as_ref().parent() } else { name.as_ref() }.to_name();
    if object.as_ref().segment().is_some() {
        return Err(PublishError::SegmentName { name: object });
    }
    if object.as_ref().ends_in_version() {
        return Err(PublishError::TwoVersions { name: name.clone() });
    }
    match (own, version) {
        (Some(own), Some(other)) if own != other => {
            Err(PublishError::OtherVersion { name: name.clone(), own, other })
        }
        _ => Ok((object, own.or(version))),
    }
}

/// One version of an object, in segments that are encoded and signed on request: it answers
/// `<name>/<version>/<segment>`, `<name>/32=metadata`, and discovery of either by prefix; and `<name>/<version>/32=metadata`, as
/// file servers do. A segment that cannot be read, because its file has been truncated, is answered with an application Nack.
pub struct SegmentedObject {
    inner: Arc<Inner>,
    /// Whether segments are encoded on the connection task, because that takes little time.
    inline: bool,
}

struct Inner {
    name: Name,
    versioned: Name,
    content: Content,
    segment_len: usize,
    final_segment: u64,
    freshness_ms: u64,
    metadata_freshness_ms: u64,
    signer: Arc<dyn Signer>,
    segments_served: AtomicU64,
    bytes_served: AtomicU64,
    /// A segment could not be read, which is logged once.
    is_unreadable: AtomicBool,
    queue: Mutex<RequestQueue>,
}

#[derive(Default)]
struct RequestQueue {
    waiting: VecDeque<(Request, RequestedPart)>,
    /// Whether a blocking thread is running.
    running: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedPart {
    /// Below the name, or below that with the version.
    Metadata {
        versioned: bool,
    },
    Segment(u64),
}

impl SegmentedObject {
    /// An object named `name`. A version at its end is that of the object.
    ///
    /// # Errors
    /// `SegmentName`, `TwoVersions`, `OtherVersion`, `SegmentTooLong`.
    pub fn new(
        name: &Name,
        content: Content,
        options: &PublishOptions,
    ) -> Result<Self, PublishError> {
        let segment_len = options.segment_len.max(1);
        let per_segment = u64::try_from(segment_len).unwrap_or(u64::MAX);
        let (name, version) = split_version(name, options.version)?;
        let mut versioned = name.clone();
        versioned.push_version(version.unwrap_or_else(crate::real_time::unix_ms));
        let inline = matches!(content, Content::Bytes(_)) && !options.signer.is_slow();
        let inner = Inner {
            name,
            versioned,
            final_segment: content.len().div_ceil(per_segment).saturating_sub(1),
            content,
            segment_len,
            freshness_ms: duration_ms(options.freshness),
            metadata_freshness_ms: duration_ms(options.metadata_freshness),
            signer: Arc::clone(&options.signer),
            segments_served: AtomicU64::new(0),
            bytes_served: AtomicU64::new(0),
            is_unreadable: AtomicBool::new(false),
            queue: Mutex::default(),
        };
        inner.check_packet_len()?;
        Ok(Self { inner: Arc::new(inner), inline })
    }
}

impl Handler for SegmentedObject {
    fn handle(&self, request: Request) {
        let Some(requested) = self.inner.classify(&request.interest()) else {
            return;
        };
        if self.inline {
            self.inner.answer(
                &request,
                requested,
                &mut Scratch::default(),
                |request, data, signer, _| request.answer_with(data, signer),
            );
        } else {
            Inner::enqueue(&self.inner, request, requested);
        }
    }
}

impl std::fmt::Debug for SegmentedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentedObject")
            .field("name", &self.inner.versioned)
            .finish_non_exhaustive()
    }
}

/// Buffers for reuse.
#[derive(Default)]
struct Scratch {
    content: Vec<u8>,
    packet: Vec<u8>,
}

impl Inner {
    /// The part of the object that an Interest requests.
    fn classify(&self, interest: &Interest<'_>) -> Option<RequestedPart> {
        let name = interest.name();
        let versioned = self.versioned.as_ref();
        let is_metadata =
            |name: NameRef<'_>| interest.can_be_prefix() && name.last() == Some(METADATA);
        if name.len() == versioned.len() + 1 && name.starts_with(versioned) {
            if is_metadata(name) {
                return Some(RequestedPart::Metadata { versioned: true });
            }
            let segment = name.last()?.as_segment()?;
            return (segment <= self.final_segment).then_some(RequestedPart::Segment(segment));
        }
        if !interest.can_be_prefix() {
            return None;
        }
        if name == versioned || name == self.name.as_ref() {
            return Some(RequestedPart::Segment(0));
        }
        let is_metadata = name.parent() == self.name.as_ref() && is_metadata(name);
        is_metadata.then_some(RequestedPart::Metadata { versioned: false })
    }

    /// Encodes the Data and passes it to `send`.
    fn answer(
        &self,
        request: &Request,
        requested: RequestedPart,
        scratch: &mut Scratch,
        send: impl Fn(&Request, &DataBuilder<'_>, &dyn Signer, &mut Vec<u8>) -> Result<(), SignError>,
    ) {
        let signer = self.signer.as_ref();
        let sent = match requested {
            RequestedPart::Metadata { versioned } => {
                let mut name = if versioned { &self.versioned } else { &self.name }.clone();
                name.push(METADATA).push_version(crate::real_time::unix_ms()).push_segment(0);
                scratch.content.clear();
                append_name(&mut scratch.content, self.versioned.as_ref());
                // As file servers do: consumers need not request segments beyond the last one to learn it.
                append_nested(&mut scratch.content, types::FINAL_BLOCK_ID, |out| {
                    append_number(out, ComponentType::SEGMENT.tlv_type(), self.final_segment);
                });
                let data = DataBuilder::new(name.as_ref())
                    .freshness_ms(self.metadata_freshness_ms)
                    .final_segment(0)
                    .content(&scratch.content);
                send(request, &data, signer, &mut scratch.packet)
            }
            RequestedPart::Segment(segment) => {
                let (offset, length) = self.extent(segment);
                let mut name = self.versioned.clone();
                name.push_segment(segment);
                match self.content.read(offset, length, &mut scratch.content) {
                    Ok(content) => {
                        let data = self.segment_builder(&name, content);
                        self.segments_served.fetch_add(1, Ordering::Relaxed);
                        let length = u64::try_from(length).unwrap_or(0);
                        self.bytes_served.fetch_add(length, Ordering::Relaxed);
                        send(request, &data, signer, &mut scratch.packet)
                    }
                    Err(error) => {
                        self.warn_unreadable(segment, &error);
                        let nack = DataBuilder::new(name.as_ref())
                            .content_type(ContentType::NACK)
                            .freshness_ms(self.metadata_freshness_ms);
                        send(request, &nack, signer, &mut scratch.packet)
                    }
                }
            }
        };
        if let Err(error) = sent {
            tracing::warn!(name = %request.name(), %error, "an answer cannot be made");
        }
    }

    fn warn_unreadable(&self, segment: u64, error: &std::io::Error) {
        if self.is_unreadable.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_truncated = error.kind() == std::io::ErrorKind::UnexpectedEof;
        let reason = match is_truncated {
            true => "the file has been truncated".to_owned(),
            false => error.to_string(),
        };
        tracing::warn!(
            name = %self.versioned,
            segment,
            reason,
            "segments cannot be read, and consumers get application Nacks"
        );
    }

    fn segment_builder<'a>(&'a self, name: &'a Name, content: &'a [u8]) -> DataBuilder<'a> {
        DataBuilder::new(name.as_ref())
            .freshness_ms(self.freshness_ms)
            .final_segment(self.final_segment)
            .content(content)
    }

    /// Offset and length of a segment's content.
    fn extent(&self, segment: u64) -> (u64, usize) {
        let per_segment = u64::try_from(self.segment_len).unwrap_or(u64::MAX);
        let offset = segment.saturating_mul(per_segment);
        let rest = self.content.len().saturating_sub(offset).min(per_segment);
        (offset, usize::try_from(rest).unwrap_or(self.segment_len))
    }

    fn check_packet_len(&self) -> Result<(), PublishError> {
        let mut name = self.versioned.clone();
        name.push_segment(self.final_segment);
        let content = vec![0; self.extent(0).1];
        let length = data_len_max(&self.segment_builder(&name, &content), self.signer.as_ref());
        if length <= MAX_PACKET_SIZE {
            return Ok(());
        }
        let excess = length - MAX_PACKET_SIZE;
        Err(PublishError::SegmentTooLong {
            segment_len: self.segment_len,
            segment_len_max: content.len().saturating_sub(excess),
        })
    }

    /// Queues a request for a blocking thread; one runs while the queue is not empty.
    fn enqueue(this: &Arc<Self>, request: Request, requested: RequestedPart) {
        let mut queue = this.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() >= QUEUE_LEN_MAX {
            tracing::debug!(name = %request.name(), "too many Interests wait, one is dropped");
            return;
        }
        queue.waiting.push_back((request, requested));
        if !std::mem::replace(&mut queue.running, true) {
            let this = Arc::clone(this);
            tokio::task::spawn_blocking(move || this.work());
        }
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        loop {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((request, requested)) = queue.waiting.pop_front() else {
                queue.running = false;
                return;
            };
            drop(queue);
            self.answer(&request, requested, &mut scratch, Request::answer_blocking);
        }
    }
}

/// A published object; dropping it ends its service.
#[derive(Debug)]
pub struct PublishedObject {
    registration: Registration,
    object: SegmentedObject,
}

impl PublishedObject {
    /// Registers the name of `object` and answers with it.
    ///
    /// # Errors
    /// `Register`.
    pub(crate) async fn start(
        handle: &Handle,
        object: SegmentedObject,
    ) -> Result<Self, PublishError> {
        let served = SegmentedObject { inner: Arc::clone(&object.inner), inline: object.inline };
        let registration = Registration::attach(handle, &object.inner.name, served)?;
        Ok(Self { registration: registration.register().await?, object })
    }

    /// Name with version.
    #[must_use]
    pub fn versioned_name(&self) -> &Name {
        &self.object.inner.versioned
    }

    /// Number of the last segment.
    #[must_use]
    pub fn final_segment(&self) -> u64 {
        self.object.inner.final_segment
    }

    /// Number of segments sent.
    #[must_use]
    pub fn segments_served(&self) -> u64 {
        self.object.inner.segments_served.load(Ordering::Relaxed)
    }

    /// Number of content bytes sent.
    #[must_use]
    pub fn bytes_served(&self) -> u64 {
        self.object.inner.bytes_served.load(Ordering::Relaxed)
    }

    /// Stops serving and waits until the forwarder has removed the route, or the connection has ended.
    ///
    /// # Errors
    /// When the forwarder refuses, or does not answer within a second.
    pub async fn unpublish(self) -> Result<(), CommandError> {
        self.registration.unregister().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_at_the_end_of_a_name_is_that_of_the_object() {
        let versioned = |uri: &str, version| {
            let options = PublishOptions { version, ..PublishOptions::default() };
            let content = Content::Bytes(bytes::Bytes::new());
            let object = SegmentedObject::new(&uri.parse().unwrap(), content, &options)?;
            Ok::<_, PublishError>((
                object.inner.name.to_string(),
                object.inner.versioned.to_string(),
            ))
        };
        let of = |name: &str, versioned: &str| Ok((name.to_owned(), versioned.to_owned()));
        assert_eq!(versioned("/a/v=7", None), of("/a", "/a/v=7"));
        assert_eq!(versioned("/a/v=7", Some(7)), of("/a", "/a/v=7"));
        assert_eq!(versioned("/a", Some(7)), of("/a", "/a/v=7"));
        assert_eq!(versioned("/v=1/seg=2/a", Some(7)), of("/v=1/seg=2/a", "/v=1/seg=2/a/v=7"));
        assert_eq!(versioned("/", Some(7)), of("/", "/v=7"));
        for (uri, version, reason) in [
            ("/a/v=7", Some(8), "/a/v=7: its version is 7, and that of the options 8"),
            ("/a/v=7/v=8", None, "/a/v=7/v=8: it ends in two versions, and an object has one"),
            ("/a/seg=3", None, "/a/seg=3: seg=3 is the number of a segment; "),
            ("/a/seg=3/v=7", None, "/a/seg=3: seg=3 is the number of a segment; "),
        ] {
            let refused = versioned(uri, version).unwrap_err().to_string();
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}
