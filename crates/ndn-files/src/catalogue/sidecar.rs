//! Free metadata of a file, from the file `NAME.meta.json` beside it.

use serde_json::Value;

use super::format::{FIELDS_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};

/// End of the names of these files.
pub(super) const SUFFIX: &[u8] = b".meta.json";
/// Maximum length of such a file in bytes.
pub(super) const LEN_MAX: u64 = 64 << 10;

/// The fields of a sidecar file: an object of JSON whose values are strings, numbers and truth values.
pub(super) fn parse(text: &[u8]) -> Result<Vec<(String, String)>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else {
        return Err("it is not an object of JSON".to_owned());
    };
    if object.len() > FIELDS_MAX {
        return Err(format!("it has more than {FIELDS_MAX} fields"));
    }
    let mut fields = Vec::new();
    for (key, value) in object {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(is_true) => is_true.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(format!("`{key}` is neither a string nor a number nor true or false"));
            }
        };
        if key.is_empty() || key.len() > KEY_LEN_MAX || text.len() > VALUE_LEN_MAX {
            return Err(format!(
                "a key has 1 to {KEY_LEN_MAX} bytes, and a value at most {VALUE_LEN_MAX}"
            ));
        }
        fields.push((key, text));
    }
    fields.sort_unstable();
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_structure_are_fields() {
        let fields =
            parse(br#"{"run": 3, "detector": "CMS", "good": true, "energy": 13.6}"#).unwrap();
        let expected = [("detector", "CMS"), ("energy", "13.6"), ("good", "true"), ("run", "3")];
        assert_eq!(fields, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn other_files_are_rejected() {
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(VALUE_LEN_MAX + 1));
        let many: Vec<String> = (0..=FIELDS_MAX).map(|n| format!("\"{n}\": 1")).collect();
        let many = format!("{{{}}}", many.join(","));
        for text in ["", "[]", "3", "{\"a\": [1]}", "{\"a\": null}", "{\"\": 1}", "{", &long, &many]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text:.20}");
        }
    }
}
