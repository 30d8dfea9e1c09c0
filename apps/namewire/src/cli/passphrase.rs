//! Prompts for a passphrase at the terminal without echo.

use std::io::{self, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use super::failure::{Failure, Outcome};

/// Longest passphrase, bytes.
const LENGTH_MAX: usize = 1024;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// Prompts at standard input, which is a terminal.
pub(super) fn ask(prompt: &str) -> Outcome<String> {
    let mut error = io::stderr().lock();
    // Disable echo before the prompt appears.
    let quiet = Quiet::begin()?;
    write!(error, "{prompt}")?;
    error.flush()?;
    let typed = read_line(io::stdin().lock().bytes());
    // The end of the line was not echoed either.
    writeln!(error)?;
    drop(quiet);
    typed
}

/// A terminal in raw mode without echo. Ctrl-C must not terminate the program in this mode.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Input before the prompt counts.
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The error cannot be handled.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Reads a line and applies its corrections.
fn read_line(bytes: impl Iterator<Item = io::Result<u8>>) -> Outcome<String> {
    let mut line: Vec<u8> = Vec::new();
    for byte in bytes {
        match byte? {
            b'\n' | b'\r' => return text(line),
            CTRL_C => return Err(Failure::Interrupted),
            CTRL_D if line.is_empty() => break,
            CTRL_D => return text(line),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // Delete all bytes of a character.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            _ if line.len() == LENGTH_MAX => {
                return Err(Failure::Usage("the passphrase is too long".to_owned()));
            }
            byte => line.push(byte),
        }
    }
    match line.is_empty() {
        true => Err(Failure::Usage("no passphrase was given".to_owned())),
        false => text(line),
    }
}

fn text(line: Vec<u8>) -> Outcome<String> {
    String::from_utf8(line)
        .map_err(|_| Failure::Usage("the passphrase is not valid UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Outcome<String> {
        read_line(bytes.iter().copied().map(Ok))
    }

    #[test]
    fn corrections_are_applied_to_the_line() {
        for (bytes, line) in [
            (&b"secret\n"[..], "secret"),
            (b"secret\rmore\n", "secret"),
            (b"secrex\x7ft\n", "secret"),
            ("s\u{e4}\u{8}ecret\n".as_bytes(), "secret"),
            (b"\x7f\x08wrong\x15secret\n", "secret"),
            (b"secret\x04", "secret"),
            (b"secret", "secret"),
            (b"\n", ""),
        ] {
            assert_eq!(typed(bytes).unwrap(), line, "{bytes:?}");
        }
    }

    #[test]
    fn interrupt_and_end_of_input_cancel() {
        assert!(matches!(typed(b"half\x03"), Err(Failure::Interrupted)));
        for bytes in [&b"\x04"[..], b"", b"\xff\n", &[b'x'; LENGTH_MAX + 1]] {
            assert!(matches!(typed(bytes), Err(Failure::Usage(_))), "{bytes:?}");
        }
    }
}
