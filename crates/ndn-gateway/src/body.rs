//! Bodies of responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use ndn_access::AccessError;

use crate::access_log::Record;
use crate::listing::Page;
use crate::transfer::Chunks;
use crate::transfers::TransferPermit;

/// A body, and the log record of its request, written when the body ends.
#[derive(Debug)]
pub(crate) struct GatewayBody {
    content: Content,
    record: Record,
}

#[derive(Debug)]
enum Content {
    /// Nothing, or nothing left.
    Empty,
    Whole(Bytes),
    /// A page, its remaining length, and the permit that ends with it.
    Page(Box<Page>, u64, TransferPermit),
    /// Chunks in order of arrival; the length if known.
    Chunks(Chunks, Option<u64>),
}

impl GatewayBody {
    pub(crate) fn empty(record: Record) -> Self {
        Self { content: Content::Empty, record }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>, record: Record) -> Self {
        Self { content: Content::Whole(bytes.into()), record }
    }

    pub(crate) fn page(
        page: Box<Page>,
        length: u64,
        permit: TransferPermit,
        record: Record,
    ) -> Self {
        Self { content: Content::Page(page, length, permit), record }
    }

    /// `length` is the remaining length, if known.
    pub(crate) fn chunks(chunks: Chunks, length: Option<u64>, record: Record) -> Self {
        Self { content: Content::Chunks(chunks, length), record }
    }
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = AccessError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AccessError>>> {
        let polled = match std::mem::replace(&mut self.content, Content::Empty) {
            Content::Empty => return Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(bytes))),
            Content::Page(mut page, length, permit) => {
                let piece = page.next();
                let taken = piece.as_ref().and_then(|piece| u64::try_from(piece.len()).ok());
                if !page.is_done() {
                    let left = length.saturating_sub(taken.unwrap_or(0));
                    self.content = Content::Page(page, left, permit);
                }
                Poll::Ready(piece.map(Ok))
            }
            Content::Chunks(mut chunks, length) => {
                let polled = chunks.poll_recv(context);
                let left = match &polled {
                    Poll::Pending => Some(length),
                    Poll::Ready(Some(Ok(chunk))) => {
                        let taken = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                        Some(length.map(|length| length.saturating_sub(taken)))
                    }
                    Poll::Ready(_) => None,
                };
                if let Some(left) = left {
                    self.content = Content::Chunks(chunks, left);
                }
                polled
            }
        };
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.record.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(bytes))) => {
                self.record.sent(bytes.len());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Some(Err(error))) => {
                self.record.fail(&error.to_string());
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Page(_, length, _) => *length == 0,
            Content::Chunks(_, length) => *length == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Content::Page(_, length, _) | Content::Chunks(_, Some(length)) => {
                SizeHint::with_exact(*length)
            }
            Content::Chunks(_, None) => SizeHint::default(),
        }
    }
}
