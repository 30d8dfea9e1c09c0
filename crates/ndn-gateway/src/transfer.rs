//! File content, fetched at the rate of the client.

use std::sync::Arc;

use bytes::Bytes;
use ndn_client::Endpoint;
use ndn_client::fetch::{FetchError, ObjectStream};
use tokio::sync::mpsc;

use crate::catalog::Resource;
use crate::failure::Failure;
use crate::range::Range;
use crate::transfers::TransferPermit;

/// Segments queued for the client, besides those that the fetch holds.
const CHANNEL_CAPACITY: usize = 32;

/// Why content ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{name}: a segment has another length than the metadata says")]
    Irregular { name: String },
}

impl From<&ReadError> for Failure {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Fetch(error) => Self::from(error),
            ReadError::Irregular { .. } => {
                Self::new(hyper::StatusCode::BAD_GATEWAY, error.to_string())
            }
        }
    }
}

/// A part of a response: `head` precedes the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) head: Bytes,
    /// `None`: the whole content, of any length.
    pub(crate) range: Option<Range>,
}

/// The body to send: the pieces, then `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) tail: Bytes,
}

/// Content in transit; ends with the last chunk or an error.
pub(crate) type Chunks = mpsc::Receiver<Result<Bytes, ReadError>>;

/// Starts to fetch and waits for the first content, so that an immediate failure can still be
/// reported by a status code. The fetch ends when the receiver is dropped.
pub(crate) async fn start(
    endpoint: &Endpoint,
    resource: Arc<Resource>,
    plan: Plan,
    permit: TransferPermit,
) -> Result<Chunks, ReadError> {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let mut pieces = plan.pieces.into_iter();
    let first = match pieces.next() {
        Some(piece) => {
            let mut reader = Reader::open(endpoint, &resource, piece.range);
            let chunk = reader.next().await?;
            Some((piece.head, reader, chunk))
        }
        None => None,
    };
    let endpoint = endpoint.clone();
    tokio::spawn(async move {
        let pump = async {
            if let Some((head, mut reader, chunk)) = first {
                send(&sender, head).await?;
                if let Some(chunk) = chunk {
                    send(&sender, chunk).await?;
                    pump(&sender, &mut reader).await?;
                }
            }
            for piece in pieces {
                send(&sender, piece.head).await?;
                pump(&sender, &mut Reader::open(&endpoint, &resource, piece.range)).await?;
            }
            send(&sender, plan.tail).await
        };
        tokio::select! {
            // The client has disconnected: the fetch ends, too.
            () = sender.closed() => {}
            result = pump => if let Err(Stop::Failed(error)) = result {
                let _ = sender.send(Err(error)).await;
            },
        }
        drop(permit);
    });
    Ok(receiver)
}

/// Why sending stops.
enum Stop {
    Closed,
    Failed(ReadError),
}

async fn send(sender: &mpsc::Sender<Result<Bytes, ReadError>>, chunk: Bytes) -> Result<(), Stop> {
    if chunk.is_empty() {
        return Ok(());
    }
    sender.send(Ok(chunk)).await.map_err(|_| Stop::Closed)
}

async fn pump(
    sender: &mpsc::Sender<Result<Bytes, ReadError>>,
    reader: &mut Reader,
) -> Result<(), Stop> {
    while let Some(chunk) = reader.next().await.map_err(Stop::Failed)? {
        send(sender, chunk).await?;
    }
    Ok(())
}

/// Reads a range of a file.
struct Reader {
    stream: ObjectStream,
    layout: Option<(u64, u64)>,
    range: Option<Range>,
    /// Start of the next segment.
    offset: u64,
}

impl Reader {
    fn open(endpoint: &Endpoint, resource: &Resource, range: Option<Range>) -> Self {
        let mut fetching = resource.fetching.clone();
        let layout = resource.layout();
        let mut first_segment = 0;
        if let (Some((_, segment_size)), Some(range)) = (layout, range) {
            first_segment = range.first / segment_size;
            fetching.config.last_segment_needed = Some(range.last / segment_size);
        }
        let offset = layout.map_or(0, |(_, segment_size)| first_segment * segment_size);
        let stream = endpoint.fetch_found(resource.found.clone(), first_segment, &fetching);
        Self { stream, layout, range, offset }
    }

    /// The next bytes of the range; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        let irregular =
            |stream: &ObjectStream| Err(ReadError::Irregular { name: stream.name().to_uri() });
        let Some((size, segment_size)) = self.layout else {
            return Ok(self.stream.next().await?);
        };
        let range = self.range.unwrap_or(Range { first: 0, last: size.saturating_sub(1) });
        if self.offset > range.last || self.offset >= size {
            return Ok(None);
        }
        let Some(chunk) = self.stream.next().await? else {
            return irregular(&self.stream);
        };
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if length != segment_size.min(size - self.offset) {
            return irregular(&self.stream);
        }
        let position = |byte: u64| usize::try_from(byte.clamp(0, length)).unwrap_or(chunk.len());
        let start = position(range.first.saturating_sub(self.offset));
        let end = position(range.last + 1 - self.offset);
        self.offset += length;
        Ok(Some(chunk.slice(start..end)))
    }
}
