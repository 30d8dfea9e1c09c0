//! Threads for requests to origins.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

/// Threads; they wait for the network and decrypt.
const THREADS: usize = 2;

/// A runtime that may be dropped anywhere.
#[derive(Debug)]
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("origin").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it ends with its owner").handle()
    }

    /// Waits for a request, at most for `limit`; `None` if it takes longer. For threads outside of runtimes.
    pub(crate) fn wait<T>(&self, limit: Duration, request: impl Future<Output = T>) -> Option<T> {
        self.handle().block_on(async { tokio::time::timeout(limit, request).await.ok() })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
