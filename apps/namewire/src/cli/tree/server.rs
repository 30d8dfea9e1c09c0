//! The server of a copy, which is asked whether it still answers before the copy is given up.

use std::sync::Arc;

use ndn_client::Endpoint;
use ndn_client::fetch::{FetchError, FetchOptions};
use ndn_packet::Name;

use super::fetched::{Outage, TreeProgress};
use crate::cli::diagnose;
use crate::cli::failure::Failure;
use crate::cli::fetch_file::asking;

/// The server of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// Name of the directory that is copied.
    pub(super) directory: &'a Name,
    pub(super) fetching: &'a FetchOptions,
    pub(super) progress: &'a Arc<TreeProgress>,
}

impl Server<'_> {
    /// The outage, unless the server answers: then only the transfer has failed.
    pub(super) async fn confirmed(self, outage: Option<Outage>) -> Option<Outage> {
        let outage = outage?;
        let options = FetchOptions { discovery_retransmissions: 1, ..asking(self.fetching) };
        match self.endpoint.find(self.directory, &options).await {
            Err(FetchError::Discovery(_) | FetchError::Failed { .. } | FetchError::Closed) => {
                Some(outage)
            }
            // Metadata that cannot be used is an answer, too.
            Ok(_) | Err(_) => {
                self.progress.note_answer();
                None
            }
        }
    }

    /// The failure of the copy in an outage; `consequence` says what that means.
    pub(super) async fn failure(self, outage: Outage, consequence: &str) -> Failure {
        let cause = diagnose::cause(self.endpoint, self.directory).await;
        outage.failure(self.directory, cause.as_ref(), consequence)
    }
}
