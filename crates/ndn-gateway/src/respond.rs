//! From a request to its answer.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, LOCATION, RANGE, USER_AGENT, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode, Version};
use ndn_access::{AccessError, Catalog, ErrorKind, Resource};
use ndn_client::{ConnectionState, Endpoint};
use ndn_files::ListingEntry;
use ndn_packet::Name;
use ndn_sys::peer::StoppedProcess;
use ndn_types::PrincipalKey;
use rand::RngExt;
use tokio::sync::Notify;

use crate::access::Tokens;
use crate::access_log::Record;
use crate::answer::{ALLOWED, Content, HttpAnswer, refusal};
use crate::body::GatewayBody;
use crate::conditions::{ConditionResult, Validators};
use crate::details::Details;
use crate::failure::Failure;
use crate::hosts::is_host_allowed;
use crate::listing::{Entry, Format, Page, entries};
use crate::lookups::{Lookup, Lookups};
use crate::media_type::media_type;
use crate::path::{PathTarget, encode, parse_path};
use crate::range::{Range, RequestedRange, requested_range};
use crate::s3::{self, S3Target};
use crate::transfer::{Piece, Plan, start};
use crate::transfers::{TransferPermit, Transfers};

/// The NDN name, with version, of the content.
const NDN_NAME: HeaderName = HeaderName::from_static("ndn-name");
/// Maximum length of a listing in bytes.
const LISTING_LEN_MAX: usize = 16 << 20;
/// Maximum time that a request waits for others before it is rejected.
const QUEUE_TIME: Duration = Duration::from_secs(30);
/// A page may load a style and nothing else.
const LISTING_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");

/// The method of WebDAV that reads properties.
static PROPFIND: LazyLock<Method> =
    LazyLock::new(|| Method::from_bytes(b"PROPFIND").unwrap_or_default());
const DAV: HeaderName = HeaderName::from_static("dav");
/// Number of entries whose metadata is fetched at a time.
const DETAILS_AT_A_TIME: usize = 32;
/// Maximum number of entries of a page with sizes and times.
const DETAILS_MAX: usize = 10_000;

/// The result of a listing if the details of an entry cannot be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// All are left out.
    Omitted,
    Fails,
}

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) prefix: Name,
    pub(crate) catalog: Catalog,
    /// Further host names allowed over loopback.
    pub(crate) hosts: Vec<String>,
    /// The bucket of S3 clients.
    pub(crate) bucket: Option<String>,
    /// Tokens of clients.
    pub(crate) tokens: Tokens,
    /// Limits concurrent transfers.
    pub(crate) transfers: Arc<Transfers>,
    /// Limits concurrent look-ups of names.
    pub(crate) lookups: Arc<Lookups>,
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Its user or address, which its transfers and look-ups count for.
    pub(crate) principal: PrincipalKey,
    /// Ends the connection.
    pub(crate) end: Arc<Notify>,
    /// Connected over loopback.
    pub(crate) is_local: bool,
}

/// Answers a request.
pub(crate) async fn respond(
    shared: &Shared,
    client: &Client,
    request: &Parts,
    mut record: Record,
) -> Response<GatewayBody> {
    note_request(&mut record, request);
    let is_head = request.method == Method::HEAD;
    let answer = match answer(shared, client, request, &mut record).await {
        Ok(answer) => answer,
        Err(failure) => {
            record.fail(&failure.text);
            let path = request.uri.path();
            match shared.s3_target(path) {
                Some(_) => s3::refusal(&failure, path),
                None => refusal(&failure),
            }
        }
    };
    answer.finish(is_head, record)
}

fn note_request(record: &mut Record, request: &Parts) {
    record.note("method", request.method.as_str());
    record.note("path", request.uri.path());
    for name in [RANGE, USER_AGENT] {
        if let Some(field) = request.headers.get(&name) {
            record
                .note(&name.as_str().replace('-', "_"), &String::from_utf8_lossy(field.as_bytes()));
        }
    }
}

async fn answer(
    shared: &Shared,
    client: &Client,
    request: &Parts,
    record: &mut Record,
) -> Result<HttpAnswer, Failure> {
    let bad = |text: &str| Failure::new(StatusCode::BAD_REQUEST, text);
    if request.version >= Version::HTTP_11 && request.headers.get(HOST).is_none() {
        return Err(bad("the request has no Host field"));
    }
    if client.is_local && !shared.is_host_allowed(request) {
        let text = "this is not the host that the request is for (`--host` allows others)";
        return Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if !shared.tokens.allow(&request.headers) {
        let text = "a token is required (Authorization: Bearer, or as the password of any user)";
        return Err(Failure::new(StatusCode::UNAUTHORIZED, text));
    }
    if request.method == Method::OPTIONS {
        let mut answer = HttpAnswer::new(StatusCode::OK);
        answer.headers.insert(ALLOW, ALLOWED);
        answer.headers.insert(DAV, HeaderValue::from_static("1"));
        answer.set_length(0);
        return Ok(answer);
    }
    let s3_target = shared.s3_target(request.uri.path());
    let is_dav = request.method == *PROPFIND && s3_target.is_none();
    if !is_dav && !matches!(request.method, Method::GET | Method::HEAD) {
        let text = format!("{} is not possible here: files can only be read", request.method);
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    if !shared.is_connected() {
        return Err(Failure::disconnected());
    }
    let path = match s3_target {
        Some(S3Target::Bucket) => return shared.list_bucket(client, request).await,
        Some(S3Target::Object(path)) => path,
        None => request.uri.path(),
    };
    if let Some(bucket) = &shared.bucket
        && s3_target.is_none()
    {
        if path == "/" && s3::is_client(&request.headers) {
            return Ok(s3::buckets(bucket));
        }
        if s3::is_for_bucket(request) {
            return Ok(s3::no_such_bucket(path, bucket));
        }
    }
    let target = parse_path(&shared.prefix, path).map_err(|error| bad(&error.to_string()))?;
    if s3_target.is_some() && target.is_directory {
        return Err(Failure::not_found(path));
    }
    let answer = match shared.read(client, request, &target, record).await {
        // If the version changed after its metadata was fetched, there is new metadata now.
        Err(ReadFailure::Outdated) => shared.read(client, request, &target, record).await,
        answer => answer,
    };
    answer.map_err(|refused| match refused {
        // A failure of the forwarder does not imply anything about the server.
        ReadFailure::For(failure) if failure.status == StatusCode::GATEWAY_TIMEOUT => {
            shared.forwarder_failure().unwrap_or(failure)
        }
        ReadFailure::For(failure) if failure.status == StatusCode::NOT_FOUND => {
            Failure::not_found(path)
        }
        ReadFailure::For(failure) => failure,
        ReadFailure::Outdated => {
            let text = format!("{path} changes faster than it can be read");
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    })
}

/// Why a resource cannot be read.
enum ReadFailure {
    For(Failure),
    /// Its version no longer exists.
    Outdated,
}

impl From<AccessError> for ReadFailure {
    fn from(error: AccessError) -> Self {
        Self::For(Failure::from(error))
    }
}

impl From<Failure> for ReadFailure {
    fn from(failure: Failure) -> Self {
        Self::For(failure)
    }
}

impl Shared {
    fn is_connected(&self) -> bool {
        *self.endpoint.state().borrow() == ConnectionState::Connected
    }

    /// Why the forwarder answers nothing, if that is known.
    fn forwarder_failure(&self) -> Option<Failure> {
        if !self.is_connected() {
            return Some(Failure::disconnected());
        }
        let process = self.endpoint.forwarder_process();
        process.and_then(StoppedProcess::with_id).map(|_| Failure::stopped())
    }

    /// Whether all host names in the request are allowed.
    fn is_host_allowed(&self, request: &Parts) -> bool {
        let fields = request.headers.get_all(HOST).iter().map(|field| field.to_str().unwrap_or(""));
        let target = request.uri.authority().map(|authority| authority.as_str());
        fields.chain(target).all(|host| is_host_allowed(host, &self.hosts))
    }

    async fn read(
        &self,
        client: &Client,
        request: &Parts,
        target: &PathTarget,
        record: &mut Record,
    ) -> Result<HttpAnswer, ReadFailure> {
        let turn = self.turn(client).await?;
        let resource = self.catalog.find(&target.name).await?;
        drop(turn);
        record.note("name", &resource.name().to_uri());
        if request.method == *PROPFIND {
            return self.describe(client, request, target, &resource).await;
        }
        match (resource.details().is_directory, target.is_directory) {
            // A client of S3 lists prefixes; there is no object of this key.
            (true, _) if self.s3_target(request.uri.path()).is_some() => {
                Err(Failure::not_found(request.uri.path()).into())
            }
            (true, true) => self.list(client, request, target, &resource).await,
            (true, false) => Ok(with_slash(target)),
            (false, true) if !target.name.is_empty() => {
                let text = format!("{} is not a directory: leave the `/` away", request.uri.path());
                Err(Failure::new(StatusCode::NOT_FOUND, text).into())
            }
            (false, _) => self.send(client, request, target, resource).await,
        }
    }

    async fn list(
        &self,
        client: &Client,
        request: &Parts,
        target: &PathTarget,
        resource: &Resource,
    ) -> Result<HttpAnswer, ReadFailure> {
        let format = Format::of(&request.headers);
        let mut validators = Details::from(resource.details()).validators;
        // Each format is a separate representation with its own tag.
        let tag = validators.etag.trim_end_matches('"');
        validators.etag = format!("{tag}-{}\"", format.word());
        let mut answer = match validators.judge(&request.headers) {
            ConditionResult::NotModified => HttpAnswer::new(StatusCode::NOT_MODIFIED),
            ConditionResult::Failed => return Ok(precondition_failed()),
            ConditionResult::Proceed => HttpAnswer::new(StatusCode::OK),
        };
        if answer.status == StatusCode::OK {
            let permit = self.permit(client).await?;
            let entries = self.entries(target, resource).await?;
            let entries =
                self.with_details(client, (&target.name, entries), Missing::Omitted).await?;
            let (path, name) = (request.uri.path(), target.name.to_uri());
            let mut page = Box::new(Page::new(format, path, &name, entries));
            let length = page.length();
            answer.headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            answer.headers.insert(CONTENT_SECURITY_POLICY, LISTING_POLICY);
            answer.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            answer.set(NDN_NAME, &resource.name().to_uri());
            answer.set_length(length);
            answer.content = Content::Page(page, length, permit);
        }
        answer.headers.insert(VARY, HeaderValue::from_static("accept"));
        Ok(answer.with_validators(&validators))
    }

    /// Answers PROPFIND (RFC 4918, section 9.1): always all properties, of which WebDAV clients use those that they know.
    async fn describe(
        &self,
        client: &Client,
        request: &Parts,
        target: &PathTarget,
        resource: &Resource,
    ) -> Result<HttpAnswer, ReadFailure> {
        let depth = request.headers.get("depth").map(HeaderValue::as_bytes);
        let is_alone = depth == Some(b"0") || !resource.details().is_directory;
        if !is_alone && depth != Some(b"1") {
            let text = "properties of whole trees are not listed: use Depth 0 or 1";
            return Err(Failure::new(StatusCode::FORBIDDEN, text).into());
        }
        let permit = self.permit(client).await?;
        let entries = match is_alone {
            true => Vec::new(),
            false => {
                let entries = self.entries(target, resource).await?;
                self.with_details(client, (&target.name, entries), Missing::Fails).await?
            }
        };
        let mut href = request.uri.path().to_owned();
        if resource.details().is_directory && !href.ends_with('/') {
            href.push('/');
        }
        let file_name = target.name.as_ref().last().map(|last| last.value()).unwrap_or_default();
        let page = Page::dav(
            &href,
            resource.details().is_directory,
            file_name,
            &resource.details().into(),
            entries,
        );
        let mut page = Box::new(page);
        let length = page.length();
        let mut answer = HttpAnswer::new(StatusCode::MULTI_STATUS);
        answer.set(CONTENT_TYPE, Format::Dav.content_type());
        answer.set_length(length);
        answer.content = Content::Page(page, length, permit);
        Ok(answer)
    }

    /// Lists the bucket of S3, or one of its attributes.
    async fn list_bucket(&self, client: &Client, request: &Parts) -> Result<HttpAnswer, Failure> {
        let bucket = self.bucket.as_deref().unwrap_or_default();
        let list = match s3::Query::parse(request.uri.query().unwrap_or_default())? {
            s3::Query::Location => return Ok(s3::location()),
            s3::Query::List(list) => list,
        };
        if request.method == Method::HEAD {
            return Ok(HttpAnswer::new(StatusCode::OK));
        }
        let _permit = self.permit(client).await?;
        let directories = ClientDirectories { shared: self, client };
        let listing = list.list(&self.prefix, &directories).await?;
        let names = listing.objects.iter().map(|object| object.name.clone()).collect();
        let details = self.details(client, names).await?;
        Ok(list.answer(bucket, &listing, &details))
    }

    /// Details of these names, in their order.
    async fn details(
        &self,
        client: &Client,
        names: Vec<Name>,
    ) -> Result<Vec<Option<Details>>, Failure> {
        let describe = |name: Name| async move {
            let _turn = self.turn(client).await?;
            let found = self.catalog.describe(&name).await?;
            Ok(found.as_ref().map(Details::from))
        };
        let names = futures_util::stream::iter(names.into_iter().map(describe));
        names.buffered(DETAILS_AT_A_TIME).try_collect().await
    }

    /// The entries of a directory with their sizes and times; entries that do not exist any more are left out.
    async fn with_details(
        &self,
        client: &Client,
        (directory, entries): (&Name, Vec<ListingEntry>),
        missing: Missing,
    ) -> Result<Vec<Entry>, Failure> {
        if missing == Missing::Omitted && entries.len() > DETAILS_MAX {
            return Ok(entries.into_iter().map(|file| Entry { file, details: None }).collect());
        }
        let name_of = |entry: &ListingEntry| {
            let mut name = directory.clone();
            name.push_generic(&entry.file_name);
            name
        };
        match (self.details(client, entries.iter().map(name_of).collect()).await, missing) {
            (Ok(details), _) => {
                let entries = entries.into_iter().zip(details);
                let existing = entries.filter(|(_, details)| details.is_some());
                Ok(existing.map(|(file, details)| Entry { file, details }).collect())
            }
            (Err(failure), Missing::Fails) => Err(failure),
            (Err(_), Missing::Omitted) => {
                Ok(entries.into_iter().map(|file| Entry { file, details: None }).collect())
            }
        }
    }

    /// The bucket or object that a path denotes for clients of S3, if there is a bucket.
    fn s3_target<'a>(&self, path: &'a str) -> Option<S3Target<'a>> {
        s3::target_of(self.bucket.as_deref()?, path)
    }

    async fn entries(
        &self,
        target: &PathTarget,
        resource: &Resource,
    ) -> Result<Vec<ListingEntry>, ReadFailure> {
        let listing = resource.fetch(&self.endpoint).collect(LISTING_LEN_MAX).await;
        let listing = listing.map_err(|error| self.judge(&target.name, &error.into()))?;
        entries(&listing).map_err(|wrong| {
            let text = format!("{}: the listing has {wrong}", target.name);
            Failure::new(StatusCode::BAD_GATEWAY, text).into()
        })
    }

    /// Sends a file or a part of it.
    async fn send(
        &self,
        client: &Client,
        request: &Parts,
        target: &PathTarget,
        resource: Arc<Resource>,
    ) -> Result<HttpAnswer, ReadFailure> {
        let validators = Details::from(resource.details()).validators;
        match validators.judge(&request.headers) {
            ConditionResult::NotModified => {
                return Ok(HttpAnswer::new(StatusCode::NOT_MODIFIED).with_validators(&validators));
            }
            ConditionResult::Failed => return Ok(precondition_failed()),
            ConditionResult::Proceed => {}
        }
        let file_name = target.name.as_ref().last().map(|last| last.value()).unwrap_or_default();
        let ty = media_type(file_name);
        let requested_range = match resource.layout() {
            Some((size, _)) => requested_range_of(request, &validators, size),
            None => RequestedRange::Whole,
        };
        let Some((mut answer, plan, length)) = plan(&requested_range, ty, resource.details().size)
        else {
            let size = resource.details().size.unwrap_or(0);
            let text = format!("the file has {size} bytes: there is no such range");
            let mut answer = HttpAnswer::new(StatusCode::RANGE_NOT_SATISFIABLE).with_text(&text);
            answer.set(CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(answer);
        };
        let ranges = if resource.layout().is_some() { "bytes" } else { "none" };
        answer.headers.insert(ACCEPT_RANGES, HeaderValue::from_static(ranges));
        answer.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer.set(NDN_NAME, &resource.name().to_uri());
        if let Some(length) = length {
            answer.set_length(length);
        }
        if request.method == Method::GET && length != Some(0) {
            let permit = self.permit(client).await?;
            let chunks = start(&self.endpoint, resource, plan, permit).await;
            let chunks = chunks.map_err(|error| self.judge(&target.name, &error))?;
            answer.content = Content::Chunks(chunks, length);
        }
        Ok(answer.with_validators(&validators))
    }

    /// Converts a failed read; removes a file whose version no longer exists from the cache.
    fn judge(&self, name: &Name, error: &AccessError) -> ReadFailure {
        if error.kind() == ErrorKind::Changed {
            self.catalog.forget(name);
            return ReadFailure::Outdated;
        }
        ReadFailure::For(Failure::from(error))
    }

    /// Waits for a look-up of a name.
    async fn turn(&self, client: &Client) -> Result<Lookup, Failure> {
        let turn = self.lookups.acquire(client.principal);
        tokio::time::timeout(QUEUE_TIME, turn).await.map_err(|_| {
            let text = "limit of concurrent name look-ups of your address reached; try again later";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    async fn permit(&self, client: &Client) -> Result<TransferPermit, Failure> {
        let permit = self.transfers.acquire(client.principal, Arc::clone(&client.end));
        match tokio::time::timeout(QUEUE_TIME, permit).await {
            Ok(permit) => Ok(permit),
            Err(_) => {
                let text = "limit of transfers reached, of the gateway or of your address; try again later";
                Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, text))
            }
        }
    }
}

/// The directories of the bucket, as they are read for a client.
struct ClientDirectories<'a> {
    shared: &'a Shared,
    client: &'a Client,
}

impl s3::Directories for ClientDirectories<'_> {
    async fn entries(&self, name: &Name) -> Result<Option<Vec<(Vec<u8>, bool)>>, Failure> {
        let target = PathTarget { name: name.clone(), is_directory: true };
        let turn = self.shared.turn(self.client).await?;
        let resource = match self.shared.catalog.find(name).await {
            Err(error) if error.is_not_served() => return Ok(None),
            resource => resource?,
        };
        drop(turn);
        if !resource.details().is_directory {
            return Ok(None);
        }
        match self.shared.entries(&target, &resource).await {
            Ok(entries) => {
                let entries = entries.into_iter();
                Ok(Some(entries.map(|entry| (entry.file_name, entry.is_directory)).collect()))
            }
            // Removed or changed since its metadata was fetched.
            Err(ReadFailure::Outdated) => {
                let text = format!("{name} changes while it is listed");
                Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, text))
            }
            Err(ReadFailure::For(failure)) => Err(failure),
        }
    }
}

fn precondition_failed() -> HttpAnswer {
    HttpAnswer::new(StatusCode::PRECONDITION_FAILED)
        .with_text("the file is not in the state asked for")
}

/// Directories end with `/`, so that relative links in their listings work.
fn with_slash(target: &PathTarget) -> HttpAnswer {
    let mut answer =
        HttpAnswer::new(StatusCode::MOVED_PERMANENTLY).with_text("this is a directory");
    if let Some(last) = target.name.as_ref().last() {
        answer.set(LOCATION, &format!("./{}/", encode(last.value())));
    }
    answer
}

#[expect(clippy::disallowed_methods, reason = "validators are dates of the real world")]
fn requested_range_of(request: &Parts, validators: &Validators, size: u64) -> RequestedRange {
    // Range fields apply to GET only (RFC 9110, section 14.2).
    let field = request.headers.get(RANGE).filter(|_| request.method == Method::GET);
    let now: SystemTime = UNIX_EPOCH + ndn_sys::clock::wall_clock();
    match field.and_then(|field| field.to_str().ok()) {
        Some(field) if validators.allow_range(&request.headers, now) => {
            requested_range(field, size)
        }
        _ => RequestedRange::Whole,
    }
}

/// The head of the answer, what to send and its length; `None` if the range is not satisfiable.
fn plan(
    requested_range: &RequestedRange,
    ty: &str,
    size: Option<u64>,
) -> Option<(HttpAnswer, Plan, Option<u64>)> {
    let ranges = match requested_range {
        RequestedRange::Unsatisfiable => return None,
        RequestedRange::Whole => {
            let mut answer = HttpAnswer::new(StatusCode::OK);
            answer.set(CONTENT_TYPE, ty);
            let pieces = vec![Piece { head: Bytes::new(), range: None }];
            return Some((answer, Plan { pieces, tail: Bytes::new() }, size));
        }
        RequestedRange::Ranges(ranges) => ranges,
    };
    let size = size?;
    let content_range = |range: &Range| format!("bytes {}-{}/{size}", range.first, range.last);
    let mut answer = HttpAnswer::new(StatusCode::PARTIAL_CONTENT);
    if let [range] = ranges.as_slice() {
        answer.set(CONTENT_TYPE, ty);
        answer.set(CONTENT_RANGE, &content_range(range));
        let pieces = vec![Piece { head: Bytes::new(), range: Some(*range) }];
        return Some((answer, Plan { pieces, tail: Bytes::new() }, Some(range.bytes())));
    }
    // Random, so that the content cannot contain it (RFC 2046, section 5.1.1).
    let boundary = format!("{:032x}", rand::rng().random::<u128>());
    answer.set(CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
    let pieces: Vec<Piece> = ranges
        .iter()
        .map(|range| {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: {ty}\r\nContent-Range: {}\r\n\r\n",
                content_range(range)
            );
            Piece { head: head.into(), range: Some(*range) }
        })
        .collect();
    let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
    let heads: usize = pieces.iter().map(|piece| piece.head.len()).sum();
    let bytes: u64 = ranges.iter().map(|range| range.bytes()).sum();
    let length = u64::try_from(heads + tail.len()).unwrap_or(u64::MAX).saturating_add(bytes);
    Some((answer, Plan { pieces, tail }, Some(length)))
}
