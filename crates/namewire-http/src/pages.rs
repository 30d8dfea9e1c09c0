//! The status pages. They are modules for browsers as they stand in `pages/`, without a build step; everything that they
//! show comes from `/graphql`.

use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use crate::shared::{Body, text};

/// Path, content type and content of each file.
const FILES: [(&str, &str, &str); 13] = [
    ("/", "text/html; charset=utf-8", include_str!("../pages/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../pages/style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("../pages/app.js")),
    ("/api.js", "text/javascript; charset=utf-8", include_str!("../pages/api.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("../pages/chart.js")),
    ("/frame.js", "text/javascript; charset=utf-8", include_str!("../pages/frame.js")),
    ("/parts.js", "text/javascript; charset=utf-8", include_str!("../pages/parts.js")),
    ("/names.js", "text/javascript; charset=utf-8", include_str!("../pages/names.js")),
    (
        "/applications.js",
        "text/javascript; charset=utf-8",
        include_str!("../pages/applications.js"),
    ),
    ("/capture.js", "text/javascript; charset=utf-8", include_str!("../pages/capture.js")),
    ("/log.js", "text/javascript; charset=utf-8", include_str!("../pages/log.js")),
    ("/tasks.js", "text/javascript; charset=utf-8", include_str!("../pages/tasks.js")),
    ("/benchmarks.js", "text/javascript; charset=utf-8", include_str!("../pages/benchmarks.js")),
];

/// Pages load nothing from elsewhere, and are not shown in others.
pub(crate) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// Content type and content of the file at a path, if there is one.
#[must_use]
pub fn page_file(path: &str) -> Option<(&'static str, &'static str)> {
    let (_, kind, content) = FILES.into_iter().find(|(own, ..)| *own == path)?;
    Some((kind, content))
}

/// The response with the file at a path, if there is one.
pub(crate) fn page(path: &str) -> Option<Response<Body>> {
    let (kind, content) = page_file(path)?;
    let mut response = text(StatusCode::OK, content);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum length of what a browser loads before it shows the first page.
    const FIRST_PAINT_MAX: usize = 200 << 10;

    #[test]
    fn all_files_together_are_short_even_without_compression() {
        let total: usize = FILES.iter().map(|(.., content)| content.len()).sum();
        assert!(total > 0 && total <= FIRST_PAINT_MAX, "{total} bytes");
        // All modules that are imported are there.
        for (path, _, content) in FILES {
            for rest in content.split(" from \"").skip(1) {
                let imported = rest.split('"').next().unwrap_or_default();
                assert!(page_file(imported).is_some(), "{path} imports {imported}");
            }
        }
    }
}
