//! Directory listings as HTML and JSON.

use hyper::HeaderMap;
use hyper::header::ACCEPT;
use ndn_files::ListingEntry;
use serde_json::json;

use crate::path::encode;

/// How a listing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
}

impl Format {
    /// What the client likes better; HTML if it does not say.
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
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Json => "json",
        }
    }

    /// Writes the listing of the directory that a URL calls `path` and NDN calls `name`.
    pub(crate) fn write(self, path: &str, name: &str, entries: &[ListingEntry]) -> String {
        match self {
            Self::Html => html(path, name, entries),
            Self::Json => as_json(name, entries),
        }
    }
}

/// Quality (in thousandths) of a media type by Accept fields: the most specific range counts
/// (RFC 9110, section 12.5.1).
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

/// `0.5` as 500; what cannot be read counts as 0.
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

fn html(path: &str, name: &str, entries: &[ListingEntry]) -> String {
    let (path, name) = (escape(path), escape(name));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{path}</title>\n\
         <style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
         ul{{list-style:none;padding:0}}p{{color:#666;overflow-wrap:anywhere}}</style>\n\
         </head>\n<body>\n<h1>{path}</h1>\n<ul>\n"
    );
    if !path.trim_start_matches('/').is_empty() {
        page.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for entry in entries {
        let slash = if entry.is_directory { "/" } else { "" };
        let link = encode(&entry.file_name);
        let shown = escape(&String::from_utf8_lossy(&entry.file_name));
        // `./` keeps a name with a colon from being a scheme.
        page.push_str(&format!("<li><a href=\"./{link}{slash}\">{shown}{slash}</a></li>\n"));
    }
    page.push_str(&format!("</ul>\n<p>{name}</p>\n</body>\n</html>\n"));
    page
}

fn as_json(name: &str, entries: &[ListingEntry]) -> String {
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| {
            let slash = if entry.is_directory { "/" } else { "" };
            json!({
                "name": String::from_utf8_lossy(&entry.file_name),
                "type": if entry.is_directory { "directory" } else { "file" },
                // Names need not be UTF-8: this one is exact.
                "href": format!("./{}{slash}", encode(&entry.file_name)),
            })
        })
        .collect();
    let mut text = json!({ "name": name, "entries": entries }).to_string();
    text.push('\n');
    text
}

/// Text for HTML and XML, in content or between quotation marks. Control characters, which no HTML may
/// hold, become the replacement character.
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

    fn format_for(accept: &[&str]) -> Format {
        let mut headers = HeaderMap::new();
        for field in accept {
            headers.append(ACCEPT, field.parse().unwrap());
        }
        Format::of(&headers)
    }

    #[test]
    fn the_format_is_what_the_client_likes_better() {
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

    fn entries() -> Vec<ListingEntry> {
        let entry =
            |name: &[u8], is_directory| ListingEntry { file_name: name.into(), is_directory };
        vec![
            entry(b"<script>alert(\"1\")</script>", false),
            entry(b"a b&c'd", true),
            entry(b"javascript:alert(1)", false),
            entry(b"\xff\n", false),
        ]
    }

    #[test]
    fn nothing_of_a_file_name_is_markup() {
        let page = Format::Html.write("/<x>/", "/n/%3Cx%3E", &entries());
        assert!(!page.contains("<script") && !page.contains("<x>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"), "{page}");
        assert!(page.contains("href=\"./a%20b%26c%27d/\">a b&amp;c&#39;d/</a>"), "{page}");
        assert!(page.contains("href=\"./javascript%3Aalert%281%29\""), "{page}");
        assert!(page.contains("href=\"./%FF%0A\">\u{fffd}\u{fffd}</a>"), "{page}");
        assert!(page.contains("href=\"../\""));
        assert!(!Format::Html.write("/", "/n", &[]).contains("../"));
    }

    #[test]
    fn json_lists_the_same() {
        let listing = Format::Json.write("/", "/n", &entries());
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        assert_eq!(listing["name"], "/n");
        assert_eq!(listing["entries"][1]["name"], "a b&c'd");
        assert_eq!(listing["entries"][1]["type"], "directory");
        assert_eq!(listing["entries"][1]["href"], "./a%20b%26c%27d/");
        assert_eq!(listing["entries"][3]["href"], "./%FF%0A");
    }
}
