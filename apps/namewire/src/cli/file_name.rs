//! Names of files as text that commands take, and that people read.

use ndn_packet::{Component, ComponentType, Name};

/// The name of a file as a component of a name on the command line. `%`, control characters, which could change the terminal,
/// and bytes that are no text are escaped, as is a name that would be another component (`v=1`).
pub(super) fn file_name(name: &[u8]) -> String {
    let mut text = String::new();
    let escape = |bytes: &[u8], text: &mut String| {
        bytes.iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    };
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character.is_control() {
                escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut text);
            } else {
                text.push(character);
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    let mut value = Vec::new();
    let parsed = Component::parse_uri(&text, &mut value);
    match parsed == Ok(ComponentType::GENERIC) && value == name {
        true => text,
        false => Component::generic(name).to_string(),
    }
}

/// The path of a file below a directory, each part as by [`file_name`]; `.` is the directory itself.
pub(super) fn path(path: &[u8]) -> String {
    let part = |part: &[u8]| if part == b"." { ".".to_owned() } else { file_name(part) };
    path.split(|byte| *byte == b'/').map(part).collect::<Vec<_>>().join("/")
}

/// Explains a component of a name that is a number, such as `v=1`: a file may be called so. `None` if there is none.
pub(super) fn with_numbers_as_files(name: &Name) -> Option<String> {
    let kind = |ty: ComponentType| match ty.number_prefix()? {
        "v" => Some("version"),
        "seg" => Some("segment number"),
        "off" => Some("byte offset"),
        "t" => Some("timestamp"),
        _ => Some("sequence number"),
    };
    let (number, kind) = name.components().find_map(|part| Some((part, kind(part.ty())?)))?;
    let mut file = Name::new();
    for part in name.components() {
        match part.ty().number_prefix() {
            Some(_) => file.push_generic(part.to_string()),
            None => file.push(part),
        };
    }
    Some(format!("{number} is a {kind}; the name of a file that is called so is {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_names_of_the_files() {
        for (name, text) in [
            (&b"run-2.csv"[..], "run-2.csv"),
            (b"with space", "with space"),
            ("größe".as_bytes(), "größe"),
            (b"line\nfeed\x1b[2J", "line%0Afeed%1B[2J"),
            (b"50%41", "50%2541"),
            (b"\xff\xfe", "%FF%FE"),
            (b"v=1", "v%3D1"),
            (b"a=b", "a%3Db"),
            (b"54=x", "54%3Dx"),
            (b"...", "......"),
        ] {
            assert_eq!(file_name(name), text);
            let read: Name = format!("/x/{text}").parse().unwrap();
            assert_eq!(read.component(1), Some(Component::generic(name)));
        }
        assert_eq!(path(b"d\n/v=1"), "d%0A/v%3D1");
        assert_eq!(path(b"."), ".");
    }

    #[test]
    fn files_that_are_called_as_numbers_are_named() {
        let explained = |name: &str| with_numbers_as_files(&name.parse().unwrap());
        assert_eq!(
            explained("/site/v=1/seg=2/file").unwrap(),
            "v=1 is a version; the name of a file that is called so is /site/v%3D1/seg%3D2/file"
        );
        assert!(explained("/site/seg=2").unwrap().starts_with("seg=2 is a segment number; "));
        assert_eq!(explained("/site/v%3D1"), None);
    }
}
