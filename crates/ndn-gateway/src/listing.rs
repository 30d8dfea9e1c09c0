//! Directory listings as HTML, JSON and properties of WebDAV.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use ndn_files::{ListingEntry, parse_listing};

use crate::access_log::rfc_3339;
use crate::details::Details;
use crate::media_type::media_type;
use crate::path::encode;

/// Version of the JSON, as of that of commands (docs/reference/json.md).
const JSON_SCHEMA: u64 = 1;
const DAV_HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";

/// Approximate length of the chunks of a page in bytes.
const PIECE_LEN: usize = 32 << 10;

/// Maximum number of entries in a listing.
const ENTRIES_MAX: usize = 100_000;

/// The entries of a listing, or why it is invalid.
pub(crate) fn entries(listing: &[u8]) -> Result<Vec<ListingEntry>, String> {
    // Counted first: each entry takes much more than its bytes.
    let count = listing.iter().filter(|byte| **byte == 0).count();
    if count > ENTRIES_MAX {
        return Err(format!("{count} entries, and {ENTRIES_MAX} are the most that are shown"));
    }
    parse_listing(listing).ok_or_else(|| "an entry that is not a file name".to_owned())
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) file: ListingEntry,
    /// `None` if they are not known.
    pub(crate) details: Option<Details>,
}

/// Format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
    /// Properties of WebDAV (RFC 4918).
    Dav,
}

impl Format {
    /// The format that the client prefers; HTML by default.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let accepted: Vec<&str> =
            headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok()).collect();
        let json = quality(&accepted, "application", "json");
        let html = quality(&accepted, "text", "html");
        if json > html { Self::Json } else { Self::Html }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Dav => "application/xml; charset=utf-8",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Json => "json",
            Self::Dav => "dav",
        }
    }

    fn begin(self, path: &str, name: &str) -> String {
        match self {
            Self::Html => html_head(path),
            Self::Json => {
                format!("{{\"schema\":{JSON_SCHEMA},\"name\":{},\"entries\":[", json_text(name))
            }
            Self::Dav => DAV_HEAD.to_owned(),
        }
    }

    /// Writes one entry. Names need not be UTF-8: links are exact. As `encode` leaves no colon, a name is not taken for a
    /// scheme in a relative link.
    fn entry(self, page: &mut String, path: &str, is_first: bool, entry: &Entry) {
        let Entry { file, details } = entry;
        let slash = if file.is_directory { "/" } else { "" };
        let link = encode(&file.file_name);
        let shown = String::from_utf8_lossy(&file.file_name);
        let size = details.as_ref().and_then(|details| details.size);
        let modified_ns = details.as_ref().and_then(|details| details.modified_ns);
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Html => {
                let shown = escape(&shown);
                let size = size.map(|size| format!(" <span>{size} bytes</span>"));
                let time = modified_ns
                    .map(|ns| format!(" <time>{}</time>", rfc_3339(Duration::from_nanos(ns))));
                let (size, time) = (size.unwrap_or_default(), time.unwrap_or_default());
                writeln!(page, "<li><a href=\"{link}{slash}\">{shown}{slash}</a>{size}{time}</li>")
            }
            Self::Json => {
                let comma = if is_first { "" } else { "," };
                let entry = serde_json::json!({
                    "name": shown,
                    "type": if file.is_directory { "directory" } else { "file" },
                    "href": format!("{link}{slash}"),
                    "bytes": size,
                    "modified_ns": modified_ns,
                });
                write!(page, "{comma}{entry}")
            }
            Self::Dav => {
                let details = details.as_ref();
                properties(
                    page,
                    &format!("{path}{link}{slash}"),
                    file.is_directory,
                    &shown,
                    details,
                )
            }
        };
    }

    fn end(self, name: &str) -> String {
        match self {
            Self::Html => format!("</ul>\n<p>{}</p>\n</body>\n</html>\n", escape(name)),
            Self::Json => "]}\n".to_owned(),
            Self::Dav => "</D:multistatus>\n".to_owned(),
        }
    }
}

/// The properties of one resource.
fn properties(
    page: &mut String,
    href: &str,
    is_directory: bool,
    shown: &str,
    details: Option<&Details>,
) -> std::fmt::Result {
    let kind = if is_directory { "<D:collection/>" } else { "" };
    write!(
        page,
        "<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:displayname>{}</D:displayname>\
         <D:resourcetype>{kind}</D:resourcetype>",
        escape(shown)
    )?;
    if !is_directory {
        write!(page, "<D:getcontenttype>{}</D:getcontenttype>", media_type(shown.as_bytes()))?;
    }
    if let Some(details) = details {
        if let Some(size) = details.size.filter(|_| !is_directory) {
            write!(page, "<D:getcontentlength>{size}</D:getcontentlength>")?;
        }
        if let Some(modified) = details.validators.modified {
            let modified = httpdate::fmt_http_date(modified);
            write!(page, "<D:getlastmodified>{modified}</D:getlastmodified>")?;
        }
        write!(page, "<D:getetag>{}</D:getetag>", escape(&details.validators.etag))?;
    }
    page.push_str("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n");
    Ok(())
}

/// Text as a string of JSON.
fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A listing as a page, generated in chunks: a page is several times as long as the listing.
#[derive(Debug)]
pub(crate) struct Page {
    format: Format,
    path: String,
    name: String,
    /// Of WebDAV: the properties of the directory, or of the file that is listed alone.
    own: String,
    entries: Vec<Entry>,
    written: usize,
    is_done: bool,
}

impl Page {
    /// The listing of the directory with URL path `path` and NDN name `name`.
    pub(crate) fn new(format: Format, path: &str, name: &str, entries: Vec<Entry>) -> Self {
        let (path, name) = (path.to_owned(), name.to_owned());
        Self { format, path, name, own: String::new(), entries, written: 0, is_done: false }
    }

    /// The properties of a file or directory of WebDAV at `href`, followed by those of its entries.
    pub(crate) fn dav(
        href: &str,
        is_directory: bool,
        shown: &[u8],
        details: &Details,
        entries: Vec<Entry>,
    ) -> Self {
        let mut page = Self::new(Format::Dav, href, "", entries);
        let shown = String::from_utf8_lossy(shown);
        // Writing to a string cannot fail.
        let _ = properties(&mut page.own, href, is_directory, &shown, Some(details));
        page
    }

    /// Length of the page in bytes. The page is generated to measure it, and not kept.
    pub(crate) fn length(&mut self) -> u64 {
        let mut length = 0;
        for piece in self.by_ref() {
            length += u64::try_from(piece.len()).unwrap_or(0);
        }
        (self.written, self.is_done) = (0, false);
        length
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }
}

/// The chunks of the page.
impl Iterator for Page {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let mut piece = String::new();
        if self.written == 0 {
            piece = self.format.begin(&self.path, &self.name);
            piece.push_str(&self.own);
        }
        while piece.len() < PIECE_LEN {
            let Some(entry) = self.entries.get(self.written) else {
                piece.push_str(&self.format.end(&self.name));
                self.is_done = true;
                break;
            };
            self.format.entry(&mut piece, &self.path, self.written == 0, entry);
            self.written += 1;
        }
        Some(piece.into())
    }
}

/// Quality (in thousandths) of a media type in Accept fields: the most specific range applies (RFC
/// 9110, section 12.5.1).
fn quality(accepted: &[&str], ty: &str, subtype: &str) -> u32 {
    let mut best = (0, 0);
    for range in accepted.iter().flat_map(|field| field.split(',')) {
        let mut parameters = range.split(';').map(str::trim);
        let Some((its_type, its_subtype)) = parameters.next().and_then(|ty| ty.split_once('/'))
        else {
            continue;
        };
        let specificity = if its_type.eq_ignore_ascii_case(ty) {
            match its_subtype {
                "*" => 2,
                its_subtype if its_subtype.eq_ignore_ascii_case(subtype) => 3,
                _ => continue,
            }
        } else if (its_type, its_subtype) == ("*", "*") {
            1
        } else {
            continue;
        };
        let weight = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.eq_ignore_ascii_case("q").then(|| thousandths(value))
        });
        best = best.max((specificity, weight.unwrap_or(1000)));
    }
    best.1
}

/// `0.5` as 500; invalid values count as 0.
fn thousandths(weight: &str) -> u32 {
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    if whole == "1" {
        return 1000;
    }
    let is_fraction = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if whole != "0" || !is_fraction {
        return 0;
    }
    format!("{fraction:0<3}").parse().unwrap_or(0)
}

fn html_head(path: &str) -> String {
    let shown = escape(path);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{shown}</title>\n\
         <style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
         ul{{list-style:none;padding:0}}p{{color:#666;overflow-wrap:anywhere}}</style>\n\
         </head>\n<body>\n<h1>{shown}</h1>\n<ul>\n"
    );
    if !path.trim_start_matches('/').is_empty() {
        page.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    page
}

/// Escapes text for HTML and XML, in content or attributes. Control characters, which HTML does not
/// allow, become the replacement character.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Validators;

    fn format_for(accept: &[&str]) -> Format {
        let mut headers = HeaderMap::new();
        for field in accept {
            headers.append(ACCEPT, field.parse().unwrap());
        }
        Format::of(&headers)
    }

    #[test]
    fn accept_header_selects_the_format() {
        for (accept, format) in [
            (&[][..], Format::Html),
            (&["*/*"], Format::Html),
            (&["application/json"], Format::Json),
            (&["Application/JSON"], Format::Json),
            (&["application/*"], Format::Json),
            (&["text/html, application/json"], Format::Html),
            (&["text/html;q=0.8, application/json"], Format::Json),
            (&["application/json;q=0.5, text/html;q=0.25"], Format::Json),
            (&["text/html", "application/json;q=0.9"], Format::Html),
            (&["*/*;q=0.1, application/json"], Format::Json),
            (&["application/json;q=0, */*"], Format::Html),
            (&["application/json;q=x"], Format::Html),
            (&["nonsense"], Format::Html),
        ] {
            assert_eq!(format_for(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn huge_listings_are_rejected() {
        let names = (0..ENTRIES_MAX).map(|number| format!("{number}\0"));
        let mut listing = names.collect::<String>().into_bytes();
        assert_eq!(super::entries(&listing).unwrap().len(), ENTRIES_MAX);
        listing.extend_from_slice(b"b\0");
        assert!(super::entries(&listing).unwrap_err().contains("100001 entries"));
        assert!(super::entries(b"../\0").unwrap_err().contains("not a file name"));
    }

    fn entries() -> Vec<Entry> {
        let entry = |name: &[u8], is_directory| Entry {
            file: ListingEntry { file_name: name.into(), is_directory },
            details: (!is_directory).then(|| Details {
                size: Some(7),
                modified_ns: Some(1_709_210_096_000_000_000),
                validators: Validators::new("\"v1\"".to_owned(), None),
            }),
        };
        vec![
            entry(b"<script>alert(\"1\")</script>", false),
            entry(b"a b&c'd", true),
            entry(b"javascript:alert(1)", false),
            entry(b"\xff\n", false),
        ]
    }

    fn written(format: Format, path: &str, name: &str, entries: Vec<Entry>) -> String {
        let mut page = Page::new(format, path, name, entries);
        let length = page.length();
        let mut text = Vec::new();
        for piece in page {
            assert!(piece.len() < 2 * PIECE_LEN, "{}", piece.len());
            text.extend_from_slice(&piece);
        }
        assert_eq!(u64::try_from(text.len()).unwrap(), length);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn long_listings_are_generated_in_chunks() {
        let entry = |index: usize| Entry {
            file: ListingEntry {
                file_name: format!("\"{index}").into_bytes(),
                is_directory: index % 2 == 1,
            },
            details: None,
        };
        let json = written(Format::Json, "/", "/n", (0..5000).map(entry).collect());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let read = json["entries"].as_array().unwrap();
        assert_eq!(read.len(), 5000);
        for (index, read) in read.iter().enumerate() {
            assert_eq!(read["name"], format!("\"{index}"));
        }
        let html = written(Format::Html, "/", "/n", (0..5000).map(entry).collect());
        assert_eq!(html.matches("<li>").count(), 5000);
        assert_eq!(html.matches("<h1>").count(), 1);
    }

    #[test]
    fn file_names_are_escaped() {
        let page = written(Format::Html, "/<x>/", "/n/%3Cx%3E", entries());
        assert!(!page.contains("<script") && !page.contains("<x>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"), "{page}");
        assert!(page.contains("href=\"a%20b%26c%27d/\">a b&amp;c&#39;d/</a>"), "{page}");
        assert!(page.contains("href=\"javascript%3Aalert%281%29\""), "{page}");
        assert!(
            page.contains("href=\"%FF%0A\">\u{fffd}\u{fffd}</a> <span>7 bytes</span>"),
            "{page}"
        );
        assert!(page.contains("href=\"../\""));
        assert!(!written(Format::Html, "/", "/n", Vec::new()).contains("../"));
    }

    #[test]
    fn json_listing_has_the_same_entries() {
        let listing = written(Format::Json, "/", "/n", entries());
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        assert_eq!((&listing["name"], &listing["schema"]), (&"/n".into(), &1.into()));
        assert_eq!(listing["entries"][0]["bytes"], 7);
        assert_eq!(listing["entries"][0]["modified_ns"], 1_709_210_096_000_000_000_u64);
        assert!(listing["entries"][1]["bytes"].is_null());
        assert_eq!(listing["entries"][1]["name"], "a b&c'd");
        assert_eq!(listing["entries"][1]["type"], "directory");
        assert_eq!(listing["entries"][1]["href"], "a%20b%26c%27d/");
        assert_eq!(listing["entries"][3]["href"], "%FF%0A");
    }

    #[test]
    fn properties_of_webdav_are_those_of_the_entries() {
        let details = entries().remove(0).details.unwrap();
        let mut page = Page::dav("/d/", true, b"d", &details, entries());
        let length = page.length();
        let text: Vec<u8> = page.flatten().collect();
        assert_eq!(u64::try_from(text.len()).unwrap(), length);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("<D:response>").count(), 5, "{text}");
        assert!(text.contains("<D:href>/d/</D:href>"), "{text}");
        assert!(text.contains("<D:href>/d/a%20b%26c%27d/</D:href>"), "{text}");
        assert_eq!(text.matches("<D:collection/>").count(), 2, "{text}");
        assert_eq!(text.matches("<D:getcontentlength>7</D:getcontentlength>").count(), 3, "{text}");
        assert!(!text.contains("<script"), "{text}");
    }
}
