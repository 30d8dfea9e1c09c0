//! Names of files as text that commands take, and that people read.

use ndn_packet::{Component, ComponentType, Name};

use super::output::changes_terminal;

/// The name of a file as a component of a name on the command line. `%`, characters that could change the terminal, blanks at
/// the ends and bytes that are no text are escaped, as is a name that would be another component (`v=1`).
pub(super) fn file_name(name: &[u8]) -> String {
    let mut text = String::new();
    let escape = |bytes: &[u8], text: &mut String| {
        bytes.iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    };
    let is_blank = |byte: &u8| *byte == b' ';
    let blanks_before = name.iter().take_while(|byte| is_blank(byte)).count();
    let blanks_after = name[blanks_before..].iter().rev().take_while(|byte| is_blank(byte)).count();
    let inner = &name[blanks_before..name.len() - blanks_after];
    escape(&name[..blanks_before], &mut text);
    for chunk in inner.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || changes_terminal(character) {
                escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut text);
            } else {
                text.push(character);
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    escape(&name[name.len() - blanks_after..], &mut text);
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

/// A name as text, the names of files in it as by [`file_name`].
pub(super) fn name(name: &Name) -> String {
    let part = |part: Component<'_>| match part.ty() {
        ComponentType::GENERIC => file_name(part.value()),
        _ => part.to_string(),
    };
    name.components().map(|one| format!("/{}", part(one))).collect()
}

/// The meaning of components of a type that are numbers, such as `v=1`.
fn kind_of_number(ty: ComponentType) -> Option<&'static str> {
    Some(match ty.number_prefix()? {
        "v" => "version",
        "seg" => "segment number",
        "off" => "byte offset",
        "t" => "timestamp",
        _ => "sequence number",
    })
}

/// Explains a number at the end of a name: a file may be called so. `None` if there is none.
pub(super) fn with_number_as_file(name: &Name) -> Option<String> {
    let last = name.as_ref().last()?;
    let kind = kind_of_number(last.ty())?;
    let mut file = name.as_ref().parent().to_name();
    file.push_generic(last.to_string());
    Some(format!("{last} is a {kind}; the name of a file that is called so is {file}"))
}

/// Explains the numbers in a name that a server does not take for a path: some may be those of its prefix. `None` if there are
/// none.
pub(super) fn numbers_as_files(name: &Name) -> Option<String> {
    let numbers = name.components().filter_map(|part| Some((part, kind_of_number(part.ty())?)));
    let numbers: Vec<_> = numbers.collect();
    let kinds = numbers.iter().map(|(number, kind)| format!("{number} is a {kind}"));
    let escaped = numbers.iter().map(|(number, _)| file_name(number.to_string().as_bytes()));
    let [kinds, escaped] = [kinds.collect::<Vec<_>>(), escaped.collect()].map(|all| all.join(", "));
    (!numbers.is_empty())
        .then(|| format!("{kinds}; if a file or directory is called so, write {escaped}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_names_of_the_files() {
        for (name, text) in [
            (&b"run-2.csv"[..], "run-2.csv"),
            (b"with space", "with space"),
            (b"  two blanks ", "%20%20two blanks%20"),
            (b" ", "%20"),
            ("a\u{202e}b".as_bytes(), "a%E2%80%AEb"),
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
        let listed: Name = "/site/t=5/v%3D1/with space/größe".parse().unwrap();
        assert_eq!(name(&listed), "/site/t=5/v%3D1/with space/größe");
    }

    #[test]
    fn files_that_are_called_as_numbers_are_named() {
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        let explained = |uri| with_number_as_file(&name(uri));
        assert_eq!(
            explained("/sensor/t=1700000000/v=1").unwrap(),
            "v=1 is a version; the name of a file that is called so is /sensor/t=1700000000/v%3D1"
        );
        assert!(explained("/site/seg=2").unwrap().starts_with("seg=2 is a segment number; "));
        assert_eq!(
            [explained("/site/v%3D1"), explained("/site/v=1/file"), explained("/")],
            [None, None, None]
        );
        let explained = |uri| numbers_as_files(&name(uri));
        assert_eq!(
            explained("/site/t=5/v=1/file").unwrap(),
            "t=5 is a timestamp, v=1 is a version; if a file or directory is called so, write t%3D5, v%3D1"
        );
        assert_eq!(explained("/site/v%3D1"), None);
    }
}
