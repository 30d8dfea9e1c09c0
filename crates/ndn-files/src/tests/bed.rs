//! A server of a temporary directory, and a consumer.

use std::path::Path;
use std::time::Duration;

use ndn_client::fetch::{Discovery, FetchError, FetchOptions};
use ndn_client::{Endpoint, EndpointOptions, ExpressError, InterestRequest, Request};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::DigestSigner;
use tempfile::TempDir;

use crate::{FileMetadata, FileServer, Mount, RootOptions, ServerOptions};

pub(super) struct Bed {
    pub(super) directory: TempDir,
    pub(super) server: FileServer,
    pub(super) consumer: Endpoint,
    producer: Endpoint,
}

pub(super) fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// `length` bytes, different for different seeds.
pub(super) fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 7 + i / 251 + seed * 31) % 256).unwrap()).collect()
}

/// Two endpoints at the ends of one stream; the second grants whatever the first registers.
pub(super) fn pair() -> (Endpoint, Endpoint) {
    let (one, other) = tokio::io::duplex(1 << 20);
    let endpoint = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Endpoint::from_stream(reader, writer, &EndpointOptions::default())
    };
    let (producer, consumer) = (endpoint(one), endpoint(other));
    let grant = |request: Request| {
        let name = request.name();
        let parameters = name.component(4).unwrap();
        let parameters = ControlParameters::decode(parameters.value()).unwrap();
        let content = ControlResponse::new(200, "OK").with_body(&parameters).to_vec();
        let data = DataBuilder::new(name).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    // It lives as long as the connection.
    std::mem::forget(consumer.attach(&name("/localhost/nfd"), grant).unwrap());
    (producer, consumer)
}

impl Bed {
    pub(super) async fn with(
        root: RootOptions,
        options: ServerOptions,
        segment_len: Option<usize>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (producer, consumer) = pair();
        let mut mount = Mount::open(name("/x"), directory.path(), root).unwrap();
        mount.segment_len = segment_len;
        let server = FileServer::start(&producer, vec![mount], &options).await.unwrap();
        Self { directory, server, consumer, producer }
    }

    /// A server of a directory that outlives it.
    pub(super) async fn of(served: &Path, options: ServerOptions) -> Self {
        let (producer, consumer) = pair();
        let mount = Mount::open(name("/x"), served, RootOptions::default()).unwrap();
        let server = FileServer::start(&producer, vec![mount], &options).await.unwrap();
        Self { directory: tempfile::tempdir().unwrap(), server, consumer, producer }
    }

    pub(super) async fn new() -> Self {
        Self::with(RootOptions::default(), ServerOptions::default(), None).await
    }

    pub(super) fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join(path)
    }

    pub(super) fn write(&self, path: &str, content: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) async fn express(
        &self,
        uri: &str,
        prefix: bool,
    ) -> Result<(ContentType, Vec<u8>), ExpressError> {
        let request = InterestRequest::new(name(uri))
            .can_be_prefix(prefix)
            .must_be_fresh(prefix)
            .lifetime(Duration::from_millis(if prefix { 10_000 } else { 1500 }));
        let received = self.consumer.express(&request).await?;
        let data = received.data();
        ndn_security::verify_data(&data, &ndn_security::DigestVerifier).unwrap();
        Ok((data.content_type(), data.content().unwrap_or_default().to_vec()))
    }

    /// Metadata of `uri`, or the content type of another answer.
    pub(super) async fn metadata(&self, uri: &str) -> Result<FileMetadata, ContentType> {
        let (content_type, content) =
            self.express(&format!("{uri}/32=metadata"), true).await.unwrap();
        match content_type {
            ContentType::BLOB => Ok(FileMetadata::decode(&content).unwrap()),
            other => Err(other),
        }
    }

    /// One packet by its exact name; `None` if nothing comes.
    pub(super) async fn packet(&self, uri: &str) -> Option<(ContentType, Vec<u8>)> {
        match self.express(uri, false).await {
            Ok(found) => Some(found),
            Err(ExpressError::Timeout { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    }

    pub(super) async fn fetch(&self, uri: &str) -> Result<Vec<u8>, FetchError> {
        let options = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
        let stream = self.consumer.fetch(&name(uri), &options).await?;
        stream.collect(usize::MAX).await
    }

    /// As someone who knows nothing of manifests fetches it.
    pub(super) async fn fetch_digest_only(&self, uri: &str) -> Vec<u8> {
        let options = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
        let stream = self.consumer.fetch(&name(uri), &options).await.unwrap();
        stream.collect(usize::MAX).await.unwrap()
    }

    /// Metadata, unverified.
    pub(super) async fn metadata_of(&self, uri: &str) -> FileMetadata {
        let options = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
        let found = self.consumer.find(&name(uri), &options).await.unwrap();
        FileMetadata::decode(found.metadata().unwrap()).unwrap()
    }

    /// The server's side of the connection.
    pub(super) fn producer(&self) -> &Endpoint {
        &self.producer
    }

    pub(super) fn count(&self, event: crate::Event) -> u64 {
        self.server.counters().count(event)
    }
}
