//! The reader of configuration files.

use namewire_config as config;

/// Reads text as a configuration. What is accepted passes its own check; what is refused can be
/// told with its place, in both forms.
pub(crate) fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match config::parse("fuzz.toml", text) {
        Ok(config) => assert!(config.conflicts().is_empty(), "what is accepted passes the check"),
        Err(error) => {
            assert!(!error.problems().is_empty(), "a refusal has a reason");
            for problem in error.problems() {
                // What has none is about a setting that the text does not have.
                let Some(span) = &problem.span else { continue };
                assert!(span.start <= span.end && span.end <= text.len());
                let (line, column) = error.position(span.start);
                assert!(line >= 1 && column >= 1);
            }
            assert!(!error.to_string().is_empty());
            assert!(!error.render(false).is_empty());
        }
    }
}
