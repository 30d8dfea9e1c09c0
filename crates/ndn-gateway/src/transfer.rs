//! File content, fetched at the rate of the client.

use std::sync::Arc;

use bytes::Bytes;
use ndn_access::{AccessError, RangeReader, Resource};
use ndn_client::Endpoint;
use tokio::sync::mpsc;

use crate::range::Range;
use crate::transfers::TransferPermit;

/// Segments queued for the client, besides those that the fetch holds.
const CHANNEL_CAPACITY: usize = 32;

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
pub(crate) type Chunks = mpsc::Receiver<Result<Bytes, AccessError>>;

/// Starts to fetch and waits for the first content, so that an immediate failure can still be
/// reported by a status code. The fetch ends when the receiver is dropped.
pub(crate) async fn start(
    endpoint: &Endpoint,
    resource: Arc<Resource>,
    plan: Plan,
    permit: TransferPermit,
) -> Result<Chunks, AccessError> {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let mut pieces = plan.pieces.into_iter();
    let first = match pieces.next() {
        Some(piece) => {
            let mut reader = open(endpoint, &resource, piece.range);
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
                pump(&sender, &mut open(&endpoint, &resource, piece.range)).await?;
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

fn open(endpoint: &Endpoint, resource: &Resource, range: Option<Range>) -> RangeReader {
    RangeReader::open(endpoint, resource, range.map(|range| range.first..range.last + 1))
}

/// Why sending stops.
enum Stop {
    Closed,
    Failed(AccessError),
}

async fn send(sender: &mpsc::Sender<Result<Bytes, AccessError>>, chunk: Bytes) -> Result<(), Stop> {
    if chunk.is_empty() {
        return Ok(());
    }
    sender.send(Ok(chunk)).await.map_err(|_| Stop::Closed)
}

async fn pump(
    sender: &mpsc::Sender<Result<Bytes, AccessError>>,
    reader: &mut RangeReader,
) -> Result<(), Stop> {
    while let Some(chunk) = reader.next().await.map_err(Stop::Failed)? {
        send(sender, chunk).await?;
    }
    Ok(())
}
