//! Conditional requests (RFC 9110, section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

/// Validators of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Strong entity tag, with quotation marks.
    pub(crate) etag: String,
    /// Time of the last change, if known.
    pub(crate) modified: Option<SystemTime>,
}

/// Result of evaluating the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    /// They hold, or there are none.
    Proceed,
    /// 304: the client has the current state.
    NotModified,
    /// 412
    Failed,
}

impl Validators {
    /// `modified_ns` is in nanoseconds since 1970; HTTP uses whole seconds.
    pub(crate) fn new(etag: String, modified_ns: Option<u64>) -> Self {
        let modified = modified_ns.map(|ns| UNIX_EPOCH + Duration::from_secs(ns / 1_000_000_000));
        Self { etag, modified }
    }

    /// Evaluates the conditions of a GET or HEAD in the order of RFC 9110, section 13.2.2.
    pub(crate) fn judge(&self, headers: &HeaderMap) -> ConditionResult {
        if let Some(matches) = self.any_of(headers, &IF_MATCH, Comparison::Strong) {
            if !matches {
                return ConditionResult::Failed;
            }
        } else if let (Some(date), Some(modified)) =
            (date(headers, &IF_UNMODIFIED_SINCE), self.modified)
            && modified > date
        {
            return ConditionResult::Failed;
        }
        if let Some(matches) = self.any_of(headers, &IF_NONE_MATCH, Comparison::Weak) {
            if matches {
                return ConditionResult::NotModified;
            }
        } else if let (Some(date), Some(modified)) =
            (date(headers, &IF_MODIFIED_SINCE), self.modified)
            && modified <= date
        {
            return ConditionResult::NotModified;
        }
        ConditionResult::Proceed
    }

    /// Whether If-Range allows ranges. `now` is the current time.
    pub(crate) fn allow_range(&self, headers: &HeaderMap, now: SystemTime) -> bool {
        let Some(field) = headers.get(IF_RANGE) else {
            return true;
        };
        let Ok(field) = field.to_str() else {
            return false;
        };
        let field = field.trim();
        if field.starts_with('"') {
            return field == self.etag;
        }
        // A time is a strong validator only if the file can have had no other state in that second
        // (section 8.8.2.2).
        let is_settled = |modified: SystemTime| {
            now.duration_since(modified).is_ok_and(|age| age >= Duration::from_secs(2))
        };
        let reported = httpdate::parse_http_date(field).ok();
        self.modified.is_some_and(|modified| reported == Some(modified) && is_settled(modified))
    }

    /// Whether one of the tags in a field matches; `None` without such a field.
    fn any_of(
        &self,
        headers: &HeaderMap,
        name: &HeaderName,
        comparison: Comparison,
    ) -> Option<bool> {
        let mut fields = headers.get_all(name).iter().peekable();
        fields.peek()?;
        Some(fields.any(|field| {
            field.to_str().is_ok_and(|field| list_contains(field, &self.etag, comparison))
        }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags contains `etag`, or is `*`.
fn list_contains(list: &str, etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim();
    if rest == "*" {
        return true;
    }
    // Tags may contain commas within their quotation marks.
    while !rest.is_empty() {
        let (is_weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(end) = tag.strip_prefix('"').and_then(|tag| tag.find('"')) else {
            return false;
        };
        let (tag, after) = tag.split_at(end + 2);
        if tag == etag && !(is_weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    false
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
    const BEFORE: &str = "Fri, 31 Dec 1999 23:59:59 GMT";
    const AFTER: &str = "Sat, 01 Jan 2000 00:00:01 GMT";

    fn validators() -> Validators {
        Validators::new("\"v7\"".to_owned(), Some(946_684_800_500_000_000))
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn conditions_are_evaluated_in_the_specified_order() {
        use ConditionResult::{Failed, NotModified, Proceed};
        for (fields, verdict) in [
            (&[][..], Proceed),
            (&[("if-none-match", "\"v7\"")], NotModified),
            (&[("if-none-match", "W/\"v7\"")], NotModified),
            (&[("if-none-match", "\"a,b\", \"v7\"")], NotModified),
            (&[("if-none-match", "\"a\""), ("if-none-match", "\"v7\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"v70\"")], Proceed),
            (&[("if-none-match", "v7")], Proceed),
            // The tag takes precedence over the date.
            (&[("if-none-match", "\"v6\""), ("if-modified-since", AFTER)], Proceed),
            (&[("if-modified-since", MODIFIED)], NotModified),
            (&[("if-modified-since", AFTER)], NotModified),
            (&[("if-modified-since", BEFORE)], Proceed),
            (&[("if-modified-since", "yesterday")], Proceed),
            (&[("if-match", "\"v7\"")], Proceed),
            (&[("if-match", "W/\"v7\"")], Failed),
            (&[("if-match", "\"v6\"")], Failed),
            (&[("if-match", "*")], Proceed),
            (&[("if-unmodified-since", MODIFIED)], Proceed),
            (&[("if-unmodified-since", BEFORE)], Failed),
            (&[("if-match", "\"v7\""), ("if-none-match", "\"v7\"")], NotModified),
        ] {
            assert_eq!(validators().judge(&headers(fields)), verdict, "{fields:?}");
        }
        let undated = Validators::new("\"v7\"".to_owned(), None);
        assert_eq!(undated.judge(&headers(&[("if-modified-since", AFTER)])), Proceed);
    }

    #[test]
    fn if_range_requires_the_current_version() {
        let modified = UNIX_EPOCH + Duration::from_secs(946_684_800);
        let later = modified + Duration::from_secs(60);
        for (field, now, allowed) in [
            ("\"v7\"", later, true),
            ("W/\"v7\"", later, false),
            ("\"v6\"", later, false),
            (MODIFIED, later, true),
            (MODIFIED, modified, false),
            (AFTER, later, false),
            (BEFORE, later, false),
            ("", later, false),
        ] {
            let headers = headers(&[("if-range", field)]);
            assert_eq!(validators().allow_range(&headers, now), allowed, "{field}");
        }
        assert!(validators().allow_range(&HeaderMap::new(), later));
    }
}
