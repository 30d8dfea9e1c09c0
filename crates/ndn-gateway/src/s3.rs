//! Reading as from Amazon S3: listings (ListBuckets, ListObjectsV2) and failures as XML. Objects are read as files.

use std::fmt::Write as _;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use ndn_packet::Name;

use crate::access_log::rfc_3339;
use crate::answer::HttpAnswer;
use crate::details::Details;
use crate::failure::Failure;
use crate::listing::escape;
use crate::path::{decode, encode, parse_path};

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
const XML_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
/// Maximum number of keys in an answer.
const KEYS_MAX: usize = 1000;
/// Maximum number of directories that are read for an answer; the next request continues.
const DIRECTORIES_MAX: usize = 256;
/// Maximum number of entries of a path of directories, all together.
const WAITING_MAX: usize = 200_000;

/// The bucket or object that a URL denotes for clients of S3.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum S3Target<'a> {
    /// The bucket.
    Bucket,
    /// An object, by the path of its file.
    Object(&'a str),
}

/// The target of a path below `/bucket`; `None` for other paths.
pub(crate) fn target_of<'a>(bucket: &str, path: &'a str) -> Option<S3Target<'a>> {
    let rest = path.trim_start_matches('/').strip_prefix(bucket)?;
    match rest {
        "" | "/" => Some(S3Target::Bucket),
        rest if rest.starts_with('/') => Some(S3Target::Object(rest)),
        _ => None,
    }
}

/// Whether the client is one of S3: it signs its requests, or its library numbers them.
pub(crate) fn is_client(headers: &HeaderMap) -> bool {
    // Not all that begins with `x-amz-`: caches of Amazon add fields to the requests of browsers.
    let is_signed =
        ["x-amz-date", "x-amz-content-sha256"].iter().any(|name| headers.contains_key(*name));
    is_signed || headers.keys().any(|name| name.as_str().starts_with("amz-sdk-"))
}

/// Whether a request that is not for the bucket is for another one, as a listing or the headers show.
pub(crate) fn is_for_bucket(request: &Parts) -> bool {
    let query = request.uri.query().unwrap_or_default();
    let lists = query.split('&').any(|part| part.starts_with("list-type="));
    request.uri.path() != "/" && (lists || is_client(&request.headers))
}

/// There is no bucket of the name at the beginning of this path.
pub(crate) fn no_such_bucket(path: &str, bucket: &str) -> HttpAnswer {
    let name = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    error(StatusCode::NOT_FOUND, "NoSuchBucket", &format!("the only bucket is {bucket}"), name)
}

/// A list of the one bucket.
pub(crate) fn buckets(bucket: &str) -> HttpAnswer {
    let bucket = escape(bucket);
    xml(
        StatusCode::OK,
        &format!(
            "<ListAllMyBucketsResult xmlns=\"{NAMESPACE}\"><Owner><ID>namewire</ID></Owner><Buckets><Bucket>\
             <Name>{bucket}</Name><CreationDate>1970-01-01T00:00:00.000Z</CreationDate></Bucket></Buckets>\
             </ListAllMyBucketsResult>"
        ),
    )
}

/// The place of the bucket: the default one.
pub(crate) fn location() -> HttpAnswer {
    xml(StatusCode::OK, &format!("<LocationConstraint xmlns=\"{NAMESPACE}\"/>"))
}

/// A failure in the form of S3.
pub(crate) fn refusal(failure: &Failure, path: &str) -> HttpAnswer {
    let code = match failure.status {
        StatusCode::BAD_REQUEST => "InvalidArgument",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "AccessDenied",
        StatusCode::NOT_FOUND => "NoSuchKey",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::PRECONDITION_FAILED => "PreconditionFailed",
        StatusCode::RANGE_NOT_SATISFIABLE => "InvalidRange",
        StatusCode::SERVICE_UNAVAILABLE => "SlowDown",
        StatusCode::NOT_IMPLEMENTED => "NotImplemented",
        _ => "InternalError",
    };
    error(failure.status, code, &failure.text, path)
}

fn error(status: StatusCode, code: &str, text: &str, resource: &str) -> HttpAnswer {
    let (text, resource) = (escape(text), escape(resource));
    xml(
        status,
        &format!(
            "<Error><Code>{code}</Code><Message>{text}</Message><Resource>{resource}</Resource></Error>"
        ),
    )
}

fn xml(status: StatusCode, content: &str) -> HttpAnswer {
    HttpAnswer::new(status).with_content("application/xml", format!("{XML_HEAD}{content}\n"))
}

/// The arguments of ListObjectsV2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListRequest {
    prefix: Vec<u8>,
    /// Keys with a `/` after the prefix are listed up to it.
    is_delimited: bool,
    /// Only keys after this one.
    after: Vec<u8>,
    keys_max: usize,
    is_url_encoded: bool,
}

/// The operation that a query requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Query {
    List(ListRequest),
    Location,
}

impl Query {
    /// Reads the query of a request for the bucket.
    pub(crate) fn parse(query: &str) -> Result<Self, Failure> {
        let bad = |text: &str| Failure::new(StatusCode::BAD_REQUEST, text);
        let mut request = ListRequest {
            prefix: Vec::new(),
            is_delimited: false,
            after: Vec::new(),
            keys_max: KEYS_MAX,
            is_url_encoded: false,
        };
        let mut token = None;
        let mut is_version_2 = false;
        for argument in query.split('&').filter(|argument| !argument.is_empty()) {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            let value = decode(&value.replace('+', " "));
            let value = value.map_err(|error| bad(&format!("{key}: {error}")))?;
            match key {
                "location" => return Ok(Self::Location),
                "list-type" => is_version_2 = value == b"2",
                "prefix" => request.prefix = value,
                "delimiter" if value.is_empty() => {}
                "delimiter" if value == b"/" => request.is_delimited = true,
                "delimiter" => return Err(bad("the only delimiter is /")),
                "start-after" => request.after = value,
                // Encoded once more in the answer that it is from.
                "continuation-token" => {
                    let text = String::from_utf8_lossy(&value).into_owned();
                    let key = decode(&text);
                    token =
                        Some(key.map_err(|error| bad(&format!("continuation-token: {error}")))?);
                }
                "encoding-type" => request.is_url_encoded = value == b"url",
                "max-keys" => {
                    let number =
                        std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                    let number: usize = number.ok_or_else(|| bad("max-keys is not a number"))?;
                    request.keys_max = number.min(KEYS_MAX);
                }
                "fetch-owner" | "x-id" => {}
                // Signatures in the query are not checked.
                other if other.to_ascii_lowercase().starts_with("x-amz-") => {}
                other => {
                    let text = format!("{other} is not supported: objects are listed and read");
                    return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, text));
                }
            }
        }
        if !is_version_2 && !query.is_empty() {
            let text = "only version 2 of listings is supported (list-type=2)";
            return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, text));
        }
        if let Some(token) = token {
            request.after = token;
        }
        Ok(Self::List(request))
    }
}

/// An object of a listing.
#[derive(Debug)]
pub(crate) struct Object {
    key: Vec<u8>,
    pub(crate) name: Name,
}

/// A page of a listing.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Object>,
    common_prefixes: Vec<Vec<u8>>,
    /// The key after which the next page begins, if there is one.
    next: Option<Vec<u8>>,
}

/// Reads the entries of a directory.
pub(crate) trait Directories {
    /// The entries: file names, and whether they are directories; `None` if there is no such directory.
    async fn entries(&self, name: &Name) -> Result<Option<Vec<(Vec<u8>, bool)>>, Failure>;
}

impl ListRequest {
    /// Walks the tree in the order of keys, which is that of their bytes.
    pub(crate) async fn list(
        &self,
        root: &Name,
        directories: &impl Directories,
    ) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        if self.keys_max == 0 {
            return Ok(listing);
        }
        // Up to the last `/`, the prefix is a path of directories.
        let parent_len = self.prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let parent = &self.prefix[..parent_len];
        let path = format!("/{}", encode_path(parent));
        // A key that cannot be a path is none.
        let Ok(target) = parse_path(root, &path) else { return Ok(listing) };
        let mut read = 0;
        // Entries that are still to be visited, the next one last.
        let mut waiting = vec![(parent.to_vec(), target.name, true)];
        while let Some((key, name, is_directory)) = waiting.pop() {
            let is_parent = key.len() == parent_len;
            if !is_parent && !key.starts_with(&self.prefix) {
                continue;
            }
            let is_rolled_up = is_directory && self.is_delimited && !is_parent;
            // Keys in a directory may come after one that begins with its name.
            let has_later = is_directory
                && self.after.starts_with(&key)
                && !(is_rolled_up && key == self.after);
            let is_past = key <= self.after && !has_later;
            if is_past && !is_parent {
                continue;
            }
            let is_full = listing.objects.len() + listing.common_prefixes.len() >= self.keys_max;
            if is_full || (read == DIRECTORIES_MAX && is_directory && !is_rolled_up) {
                listing.next = Some(listing.last_before(&key, is_full));
                return Ok(listing);
            }
            if is_rolled_up {
                listing.common_prefixes.push(key);
            } else if is_directory {
                read += 1;
                let Some(mut entries) = directories.entries(&name).await? else { continue };
                let keyed = |(file_name, is_directory): (Vec<u8>, bool)| {
                    let mut name = name.clone();
                    name.push_generic(&file_name);
                    let slash: &[u8] = if is_directory { b"/" } else { b"" };
                    ([&key[..], &file_name, slash].concat(), name, is_directory)
                };
                let mut below: Vec<_> = entries.drain(..).map(keyed).collect();
                if waiting.len() + below.len() > WAITING_MAX {
                    let text = format!("{name}: the tree has too many entries");
                    return Err(Failure::new(StatusCode::BAD_GATEWAY, text));
                }
                below.sort_unstable_by(|one, other| other.0.cmp(&one.0));
                waiting.extend(below);
            } else {
                listing.objects.push(Object { key, name });
            }
        }
        Ok(listing)
    }

    /// The answer. Objects without details do not exist any more.
    pub(crate) fn answer(
        &self,
        bucket: &str,
        listing: &Listing,
        details: &[Option<Details>],
    ) -> HttpAnswer {
        let shown = |key: &[u8]| match self.is_url_encoded {
            true => encode_path(key),
            false => escape(&String::from_utf8_lossy(key)),
        };
        let objects: Vec<_> = listing
            .objects
            .iter()
            .zip(details)
            .filter_map(|(object, details)| Some((object, details.as_ref()?)))
            .collect();
        let mut page = format!(
            "<ListBucketResult xmlns=\"{NAMESPACE}\"><Name>{}</Name><Prefix>{}</Prefix><MaxKeys>{}</MaxKeys>\
             <KeyCount>{}</KeyCount><IsTruncated>{}</IsTruncated>",
            escape(bucket),
            shown(&self.prefix),
            self.keys_max,
            objects.len() + listing.common_prefixes.len(),
            listing.next.is_some()
        );
        // Writing to a string cannot fail.
        if self.is_delimited {
            page.push_str("<Delimiter>/</Delimiter>");
        }
        if self.is_url_encoded {
            page.push_str("<EncodingType>url</EncodingType>");
        }
        if let Some(next) = &listing.next {
            let next = encode(next);
            let _ = write!(page, "<NextContinuationToken>{next}</NextContinuationToken>");
        }
        for (object, details) in objects {
            let time = rfc_3339(Duration::from_nanos(details.modified_ns.unwrap_or(0)));
            let _ = write!(
                page,
                "<Contents><Key>{}</Key><LastModified>{time}</LastModified><ETag>{}</ETag><Size>{}</Size>\
                 <StorageClass>STANDARD</StorageClass></Contents>",
                shown(&object.key),
                escape(&details.validators.etag),
                details.size.unwrap_or(0)
            );
        }
        for prefix in &listing.common_prefixes {
            let prefix = shown(prefix);
            let _ = write!(page, "<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>");
        }
        page.push_str("</ListBucketResult>");
        xml(StatusCode::OK, &page)
    }
}

impl Listing {
    /// The key after which a page continues that ends before `next`: the last one of this page, or the directory itself,
    /// whose contents come after its key.
    fn last_before(&self, next: &[u8], is_full: bool) -> Vec<u8> {
        if !is_full {
            return next.to_vec();
        }
        let object = self.objects.last().map(|object| &object.key);
        object.max(self.common_prefixes.last()).cloned().unwrap_or_default()
    }
}

/// A key as a path of a URL: all but `/` and unreserved characters are encoded.
fn encode_path(key: &[u8]) -> String {
    key.split(|byte| *byte == b'/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A tree of files, by their keys.
    struct Tree(BTreeMap<String, Vec<(Vec<u8>, bool)>>);

    impl Tree {
        fn new(files: &[&str]) -> Self {
            let mut directories: BTreeMap<String, Vec<(Vec<u8>, bool)>> = BTreeMap::new();
            directories.entry("/x".to_owned()).or_default();
            for file in files {
                let mut path = "/x".to_owned();
                let parts: Vec<&str> = file.split('/').collect();
                for (index, part) in parts.iter().enumerate() {
                    let entry = (part.as_bytes().to_vec(), index + 1 < parts.len());
                    let entries = directories.entry(path.clone()).or_default();
                    if !entries.contains(&entry) {
                        entries.push(entry);
                    }
                    path = format!("{path}/{part}");
                }
            }
            Self(directories)
        }
    }

    impl Directories for Tree {
        async fn entries(&self, name: &Name) -> Result<Option<Vec<(Vec<u8>, bool)>>, Failure> {
            Ok(self.0.get(&name.to_uri()).cloned())
        }
    }

    /// All keys and common prefixes of a query, over all of its pages.
    fn listed(files: &[&str], query: &str) -> (Vec<String>, Vec<String>) {
        let (tree, root) = (Tree::new(files), Name::from_uri("/x").unwrap());
        let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let mut query = format!("list-type=2&{query}");
        for _ in 0..100 {
            let Ok(Query::List(request)) = Query::parse(&query) else { panic!("{query}") };
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let page = runtime.block_on(request.list(&root, &tree)).unwrap();
            assert!(page.objects.len() + page.common_prefixes.len() <= request.keys_max);
            keys.extend(page.objects.iter().map(|object| text(&object.key)));
            prefixes.extend(page.common_prefixes.iter().map(|key| text(key)));
            let Some(next) = page.next else { return (keys, prefixes) };
            // As a client encodes it once more.
            let token = encode(encode(&next).as_bytes());
            query = query.split("&continuation-token").next().unwrap().to_owned();
            query.push_str(&format!("&continuation-token={token}"));
        }
        panic!("the listing does not end");
    }

    const FILES: &[&str] = &["a", "a-b", "a/b", "a/c/d", "a/c0", "b/x", "ü b"];

    #[test]
    fn keys_are_listed_in_their_order() {
        let mut sorted = FILES.to_vec();
        // Keys are files and not directories.
        sorted.remove(0);
        sorted.sort_unstable();
        let files = sorted.clone();
        for size in [1, 2, 3, 1000] {
            let (keys, prefixes) = listed(&files, &format!("max-keys={size}"));
            assert_eq!(
                (keys, prefixes),
                (sorted.iter().map(|&key| key.to_owned()).collect(), Vec::new()),
                "{size}"
            );
        }
        assert_eq!(listed(&files, "prefix=a/c").0, ["a/c/d", "a/c0"]);
        assert_eq!(listed(&files, "prefix=a/c/").0, ["a/c/d"]);
        assert_eq!(listed(&files, "prefix=%C3%BC+").0, ["ü b"]);
        assert_eq!(listed(&files, "start-after=a/b").0, ["a/c/d", "a/c0", "b/x", "ü b"]);
        assert!(listed(&files, "prefix=none/").0.is_empty());
        assert!(listed(&files, "prefix=../").0.is_empty());
        assert!(listed(&files, "max-keys=0").0.is_empty());
    }

    #[test]
    fn directories_are_common_prefixes_with_a_delimiter() {
        let files = &FILES[1..];
        for size in [1, 2, 1000] {
            let (keys, prefixes) = listed(files, &format!("delimiter=/&max-keys={size}"));
            assert_eq!(
                (keys, prefixes),
                (vec!["a-b".to_owned(), "ü b".to_owned()], vec!["a/".to_owned(), "b/".to_owned()])
            );
        }
        let (keys, prefixes) = listed(files, "delimiter=/&prefix=a/");
        assert_eq!(
            (keys, prefixes),
            (vec!["a/b".to_owned(), "a/c0".to_owned()], vec!["a/c/".to_owned()])
        );
        assert_eq!(listed(files, "delimiter=/&prefix=a").1, ["a/"]);
    }

    #[test]
    fn trees_of_many_directories_are_listed_over_several_pages() {
        let files: Vec<String> =
            (0..3 * DIRECTORIES_MAX).map(|index| format!("{index:04}/f")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        assert_eq!(listed(&files, "").0, files);
    }

    #[test]
    fn other_requests_are_refused() {
        for query in ["list-type=1", "prefix=a", "versions", "uploads", "list-type=2&delimiter=-"] {
            assert!(Query::parse(query).is_err(), "{query}");
        }
        assert_eq!(Query::parse("location").ok(), Some(Query::Location));
        assert!(Query::parse("").is_ok(), "HeadBucket");
        assert_eq!(target_of("data", "/data"), Some(S3Target::Bucket));
        assert_eq!(target_of("data", "/data/"), Some(S3Target::Bucket));
        assert_eq!(target_of("data", "/data/a/b"), Some(S3Target::Object("/a/b")));
        assert_eq!((target_of("data", "/database"), target_of("data", "/")), (None, None));
    }

    #[test]
    fn text_of_keys_is_escaped() {
        let Ok(Query::List(mut request)) = Query::parse("list-type=2&prefix=%3Ca") else {
            panic!()
        };
        let listing = Listing {
            objects: vec![Object { key: b"<a&b".to_vec(), name: Name::new() }],
            ..Listing::default()
        };
        let details = Details {
            size: Some(7),
            modified_ns: Some(1_709_210_096_000_000_000),
            validators: crate::conditions::Validators::new("\"v1\"".to_owned(), None),
        };
        let text = |request: &ListRequest| {
            let answer = request.answer("data", &listing, &[Some(details.clone())]);
            let crate::answer::Content::Whole(bytes) = answer.content else { panic!() };
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let page = text(&request);
        assert!(
            page.contains(
                "<Key>&lt;a&amp;b</Key><LastModified>2024-02-29T12:34:56.000Z</LastModified>"
            ),
            "{page}"
        );
        assert!(
            page.contains("<Size>7</Size>") && page.contains("<KeyCount>1</KeyCount>"),
            "{page}"
        );
        request.is_url_encoded = true;
        assert!(text(&request).contains("<Key>%3Ca%26b</Key>"));
        let gone = request.answer("data", &listing, &[None]);
        let crate::answer::Content::Whole(gone) = gone.content else { panic!() };
        assert!(String::from_utf8(gone.to_vec()).unwrap().contains("<KeyCount>0</KeyCount>"));
    }

    proptest! {
        #[test]
        fn pages_of_any_size_are_the_sorted_keys(
            files in prop::collection::btree_set("[ab-]{1,2}(/[ab-]{1,2}){0,2}", 1..20),
            size in 1_usize..5,
        ) {
            // A file is not also a directory.
            let is_directory = |file: &str| files.iter().any(|other| other.starts_with(&format!("{file}/")));
            let files: Vec<&str> = files.iter().map(String::as_str).filter(|file| !is_directory(file)).collect();
            prop_assert_eq!(listed(&files, &format!("max-keys={size}")).0, files);
        }
    }
}
