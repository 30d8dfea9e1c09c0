//! Media types by file name extension.

/// Extensions in lower case, and their types. The default is octets.
const TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("toml", "application/toml"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file.
pub(crate) fn media_type(file_name: &[u8]) -> &'static str {
    let ending = file_name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let found = TYPES.iter().find(|(known, _)| {
        ending.len() < file_name.len() && known.as_bytes().eq_ignore_ascii_case(ending)
    });
    found.map_or("application/octet-stream", |(_, ty)| ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_determines_the_type() {
        assert_eq!(media_type(b"a.b.PNG"), "image/png");
        assert_eq!(media_type(b"index.html"), "text/html; charset=utf-8");
        for unknown in [&b"png"[..], b"", b"a.", b"a.root", b"\xff.\xff"] {
            assert_eq!(media_type(unknown), "application/octet-stream");
        }
    }

    #[test]
    fn extensions_are_sorted() {
        assert!(TYPES.is_sorted());
    }
}
