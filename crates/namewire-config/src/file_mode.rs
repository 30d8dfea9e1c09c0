//! Permission bits of files as they are written: `"0666"`.

use std::fmt;
use std::str::FromStr;

/// Permission bits of a file, in octal as with chmod(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bits = u32::from_str_radix(text.trim_start_matches("0o"), 8).ok();
        bits.filter(|bits| *bits <= 0o777).map(Self).ok_or_else(|| {
            format!("expected permission bits in octal, such as \"0666\", found \"{text}\"")
        })
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04o}", self.0)
    }
}
