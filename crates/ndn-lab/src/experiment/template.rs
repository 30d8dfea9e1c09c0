//! Texts with places for values: `{policy}` is the level of the factor `policy`, `{{` and `}}` are braces.

use std::collections::BTreeMap;

/// Values by name.
pub type Values = BTreeMap<String, String>;

/// A text with places for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

impl Template {
    /// Parses the text.
    ///
    /// # Errors
    /// A brace without its other one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if let Some(next) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = next;
                continue;
            }
            let Some((name, next)) = after.split_once('}').filter(|_| brace == "{") else {
                return Err(format!(
                    "\"{text}\": '{brace}' without its other brace; '{brace}{brace}' is a brace"
                ));
            };
            if !literal.is_empty() {
                parts.push(Part::Text(core::mem::take(&mut literal)));
            }
            parts.push(Part::Value(name.to_owned()));
            rest = next;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// Names of the values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with these values. A value that is absent stays a name in braces.
    #[must_use]
    pub fn fill(&self, values: &Values) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(name) => values.get(name).cloned().unwrap_or_else(|| format!("{{{name}}}")),
        };
        self.parts.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_and_doubled_braces_are_braces() {
        let values: Values = [("a", "1"), ("b", "{a}")].map(|(k, v)| (k.into(), v.into())).into();
        for (text, filled, names) in [
            ("", "", 0),
            ("plain", "plain", 0),
            ("{a}", "1", 1),
            ("x{a}y{b}", "x1y{a}", 2),
            ("{{a}} {a}", "{a} 1", 1),
            ("{{{a}}}", "{1}", 1),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!(template.fill(&values), filled, "{text}");
            assert_eq!(template.names().count(), names, "{text}");
        }
        for text in ["{", "}", "a{b", "a}b", "{a} }"] {
            assert!(Template::parse(text).unwrap_err().contains(text), "{text}");
        }
    }
}
