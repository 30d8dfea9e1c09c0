//! Files that commands read. One that is missing, cannot be read or is invalid is a mistake of the command line: see
//! [`Failure::input`].

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use super::failure::{Failure, Outcome};
use super::output;

/// Reads a file, or standard input for `-`.
pub(super) fn read(file: impl AsRef<Path>) -> Outcome<Vec<u8>> {
    let file = file.as_ref();
    let mut bytes = Vec::new();
    let read = match is_standard_input(file) {
        true => io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        false => std::fs::read(file),
    };
    read.map_err(|error| Failure::input(shown(file), error))
}

/// As [`read`], of `what`, which is not empty. At a terminal, says that this is waited for.
pub(super) fn read_some(file: impl AsRef<Path>, what: &str) -> Outcome<Vec<u8>> {
    let file = file.as_ref();
    if is_standard_input(file) && io::stdin().is_terminal() {
        output::note(&format_args!("namewire: paste {what}, then press Ctrl-D on a new line"));
    }
    let bytes = read(file)?;
    match bytes.trim_ascii().is_empty() {
        true => Err(Failure::input(shown(file), format_args!("it is empty; expected {what}"))),
        false => Ok(bytes),
    }
}

/// Reads a file of text, or standard input for `-`.
pub(super) fn read_text(file: impl AsRef<Path>) -> Outcome<String> {
    let file = file.as_ref();
    let text = match is_standard_input(file) {
        true => io::read_to_string(io::stdin().lock()).map_err(crate::config::text_file::in_words),
        false => crate::config::text_file::read(file),
    };
    text.map_err(|error| Failure::input(shown(file), error))
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The name of an input for people.
pub(super) fn shown(file: &Path) -> std::path::Display<'_> {
    let shown = if is_standard_input(file) { Path::new("standard input") } else { file };
    shown.display()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_input_files_are_wrong_usage() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let missing = read(&file).unwrap_err();
        assert_eq!(missing.to_string(), format!("{}: No such file or directory", file.display()));
        std::fs::write(&file, b"\x06\xfd\xff").unwrap();
        assert_eq!(read(&file).unwrap(), b"\x06\xfd\xff");
        let binary = read_text(&file).unwrap_err();
        assert!(binary.to_string().contains("binary file"), "{binary}");
        assert_eq!((missing.status(), binary.status()), (2, 2));
        std::fs::write(&file, b" \n").unwrap();
        let empty = read_some(&file, "a certificate in Base64").unwrap_err();
        assert!(empty.to_string().ends_with("file: it is empty; expected a certificate in Base64"));
        assert_eq!(empty.status(), 2);
    }
}
