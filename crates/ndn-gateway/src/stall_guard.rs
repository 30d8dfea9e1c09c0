//! Ends a connection whose client receives data too slowly.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail when the peer receives less than the minimum rate.
///
/// Only time in which a write waits counts: a client is not blamed for data that is not available
/// yet.
#[derive(Debug)]
pub struct StallGuard<S> {
    stream: S,
    timeout: Duration,
    /// Minimum number of bytes to be received per period of waiting.
    bytes_min: u64,
    /// Waiting time since that number was last received, without the current wait.
    waited: Duration,
    /// Bytes received meanwhile.
    taken: u64,
    waiting_since: Option<Instant>,
    /// Set while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    /// In `timeout` of waiting, `rate_min` bytes per second must be received.
    #[must_use]
    pub fn new(stream: S, timeout: Duration, rate_min: u32) -> Self {
        let bytes_min = u64::from(rate_min).saturating_mul(timeout.as_secs()).max(1);
        Self {
            stream,
            timeout,
            bytes_min,
            waited: Duration::ZERO,
            taken: 0,
            waiting_since: None,
            deadline: None,
        }
    }

    /// Result of a write, as [`Self::watch`] returns it.
    fn count(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let polled = self.watch(context, polled);
        if let Poll::Ready(Ok(taken)) = polled {
            self.taken = self.taken.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
            if self.taken >= self.bytes_min {
                (self.waited, self.taken) = (Duration::ZERO, 0);
            }
        }
        polled
    }

    /// Result of a write, or an error if it has waited too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            if let Some(since) = self.waiting_since.take() {
                self.waited += since.elapsed();
            }
            return polled;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let until = since + self.timeout.saturating_sub(self.waited);
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => {
                let text = "the client takes too little";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stalled_client_is_disconnected() {
        let (client, server) = tokio::io::duplex(1000);
        let mut guarded = StallGuard::new(server, Duration::from_secs(60), 10);
        let started = Instant::now();
        let error = guarded.write_all(&[0; 2000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 60);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_client_above_the_minimum_rate_is_served() {
        let (mut client, server) = tokio::io::duplex(1000);
        // Receives 10 bytes per second.
        let mut guarded = StallGuard::new(server, Duration::from_secs(60), 8);
        let writer = tokio::spawn(async move { guarded.write_all(&[7; 5000]).await });
        let mut taken = 0;
        let mut buffer = [0; 500];
        while taken < 5000 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            taken += client.read(&mut buffer).await.unwrap();
        }
        writer.await.unwrap().unwrap();
    }

    /// Slow progress is not sufficient: it would hold a transfer forever.
    #[tokio::test(start_paused = true)]
    async fn client_below_the_minimum_rate_is_disconnected() {
        let (mut client, server) = tokio::io::duplex(1000);
        let mut guarded = StallGuard::new(server, Duration::from_secs(60), 100);
        let started = Instant::now();
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 10];
            while client.read(&mut buffer).await.is_ok_and(|taken| taken > 0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let error = guarded.write_all(&[0; 100_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(62));
        drop(guarded);
        reader.await.unwrap();
    }

    /// Time without available data does not count.
    #[tokio::test(start_paused = true)]
    async fn slow_content_does_not_count_against_the_client() {
        let (mut client, server) = tokio::io::duplex(100);
        let mut guarded = StallGuard::new(server, Duration::from_secs(60), 100);
        let reader = tokio::spawn(async move {
            let mut content = Vec::new();
            client.read_to_end(&mut content).await.map(|_| content.len())
        });
        for _ in 0..20 {
            guarded.write_all(&[0; 200]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(50)).await;
        }
        drop(guarded);
        assert_eq!(reader.await.unwrap().unwrap(), 4000);
    }
}
