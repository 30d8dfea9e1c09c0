//! Modules that log.

/// Modules that log.
pub const LOG_MODULES: [&str; 13] = [
    "namewire",
    "ndn_client",
    "ndn_dataplane",
    "ndn_face",
    "ndn_files",
    "ndn_forwarding",
    "ndn_gateway",
    "ndn_management",
    "ndn_ring",
    "ndn_security",
    "ndn_sys",
    "ndn_table",
    "ndn_webtransport",
];

/// Libraries of others that log what nobody but their authors wants to know at the levels debug and trace: there
/// only what is asked for by name.
pub const LOG_LIBRARIES: [&str; 7] =
    ["h3", "quinn", "quinn_proto", "quinn_udp", "rustls", "tokio", "wtransport"];

/// Checks that a text names a module that may log, or a part of one, such as `ndn_table::fib`.
///
/// # Errors
/// What is wrong with it, and which modules there are.
pub fn check_module(text: &str) -> Result<(), String> {
    let first = text.split("::").next().unwrap_or_default();
    let is_known = LOG_MODULES.contains(&first) || LOG_LIBRARIES.contains(&first);
    match is_module(text) && is_known {
        true => Ok(()),
        false => Err(format!(
            "`{text}` is not the name of a module; there are {}, parts of them, such as ndn_table::fib, and of \
             libraries {}",
            LOG_MODULES.join(", "),
            LOG_LIBRARIES.join(", ")
        )),
    }
}

/// Whether a text has the form of a module path, such as `ndn_face` or `ndn_table::fib`.
fn is_module(text: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split("::").all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_log_are_known_by_name() {
        for known in ["ndn_face", "ndn_table::fib", "quinn_proto::connection", "ndn_webtransport"] {
            assert_eq!(check_module(known), Ok(()), "{known}");
        }
        for unknown in ["", "ndn", "ndn_fase", "ndn_face::", "ndn_face:fib", "a b", "serde"] {
            assert!(check_module(unknown).is_err(), "{unknown}");
        }
    }
}
