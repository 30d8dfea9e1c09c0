//! Patterns of names: `/lab/<site>/files/**`.

use ndn_packet::{Component, Name, NameRef};

/// A pattern of names.
#[derive(Debug, Clone)]
pub(super) struct NamePattern {
    items: Vec<Item>,
    /// Whether it ends in `**`.
    is_open: bool,
}

#[derive(Debug, Clone)]
enum Item {
    /// One component, as a name.
    Literal(Name),
    /// `*`
    Any,
    /// `<name>`, by its number in the rule.
    Variable(usize),
}

/// The values of the variables of a rule.
pub(super) type Bindings<'a> = Vec<Option<Component<'a>>>;

impl NamePattern {
    /// Parses a pattern. Variables have their indices in `variables`, to which new ones are added.
    pub(super) fn new(text: &str, variables: &mut Vec<String>) -> Result<Self, String> {
        let Some(body) = text.strip_prefix('/') else {
            return Err(format!("`{text}` does not begin with `/`"));
        };
        let mut pattern = Self { items: Vec::new(), is_open: false };
        for part in body.split('/').filter(|_| !body.is_empty()) {
            if pattern.is_open {
                return Err(format!("`{text}`: nothing can follow `**`"));
            }
            match part {
                "**" => pattern.is_open = true,
                "*" => pattern.items.push(Item::Any),
                _ => pattern
                    .items
                    .push(item(part, variables).map_err(|why| format!("`{text}`: {why}"))?),
            }
        }
        Ok(pattern)
    }

    /// Whether the name matches; binds unbound variables, and compares the others.
    pub(super) fn matches<'a>(&self, name: NameRef<'a>, bindings: &mut Bindings<'a>) -> bool {
        let length = name.len();
        if length < self.items.len() || (!self.is_open && length > self.items.len()) {
            return false;
        }
        self.items.iter().zip(name.components()).all(|(item, component)| match item {
            Item::Any => true,
            Item::Literal(literal) => literal.as_ref().component(0) == Some(component),
            Item::Variable(number) => match bindings.get_mut(*number) {
                Some(Some(bound)) => *bound == component,
                Some(free) => {
                    *free = Some(component);
                    true
                }
                None => false,
            },
        })
    }

    /// The pattern with the values of its variables.
    pub(super) fn describe(&self, bindings: &Bindings<'_>) -> String {
        let mut text = String::new();
        for item in &self.items {
            match item {
                Item::Any => text.push_str("/*"),
                Item::Literal(literal) => text.push_str(&literal.to_uri()),
                Item::Variable(number) => match bindings.get(*number) {
                    Some(Some(bound)) => {
                        let mut name = Name::new();
                        name.push(*bound);
                        text.push_str(&name.to_uri());
                    }
                    Some(None) | None => text.push_str("/*"),
                },
            }
        }
        if self.is_open {
            text.push_str("/**");
        }
        if text.is_empty() { "/".to_owned() } else { text }
    }
}

fn item(part: &str, variables: &mut Vec<String>) -> Result<Item, String> {
    if let Some(variable) = part.strip_prefix('<') {
        let variable = variable.strip_suffix('>').unwrap_or_default();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if variable.is_empty() || !variable.bytes().all(is_word) {
            return Err(format!("`{part}` is not a variable such as `<site>`"));
        }
        let known = variables.iter().position(|known| known == variable);
        return Ok(Item::Variable(known.unwrap_or_else(|| {
            variables.push(variable.to_owned());
            variables.len() - 1
        })));
    }
    if part.is_empty() {
        return Err("a component is empty".to_owned());
    }
    let name = Name::from_uri(&format!("/{part}")).map_err(|error| format!("`{part}`: {error}"))?;
    Ok(Item::Literal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let mut variables = Vec::new();
        let pattern = NamePattern::new(pattern, &mut variables).unwrap();
        let mut bindings = vec![None; variables.len()];
        pattern.matches(Name::from_uri(name).unwrap().as_ref(), &mut bindings)
    }

    #[test]
    fn patterns_match_component_by_component() {
        assert!(matches("/", "/") && !matches("/", "/a"));
        assert!(matches("/a/*/c", "/a/b/c") && !matches("/a/*/c", "/a/c"));
        assert!(matches("/a/**", "/a") && matches("/a/**", "/a/b/c") && !matches("/a/**", "/b"));
        assert!(matches("/**", "/") && matches("/**", "/a/b"));
        assert!(!matches("/a", "/ab") && !matches("/a", "/a/b"));
        assert!(matches("/a%20b", "/a%20b"));
        assert!(matches("/<x>/b/<x>", "/a/b/a") && !matches("/<x>/b/<x>", "/a/b/c"));
        assert!(matches("/32=metadata", "/32=metadata") && !matches("/metadata", "/32=metadata"));
    }

    #[test]
    fn malformed_pattern_is_refused() {
        for wrong in ["a", "/**/a", "/a//b", "/<>", "/<a b>", "/<a", "/a/", "/%zz"] {
            assert!(NamePattern::new(wrong, &mut Vec::new()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn description_shows_the_values_of_variables() {
        let mut variables = Vec::new();
        let data = NamePattern::new("/lab/<site>/**", &mut variables).unwrap();
        let key = NamePattern::new("/lab/<site>/*/server", &mut variables).unwrap();
        let name = Name::from_uri("/lab/a%20b/files/x").unwrap();
        let mut bindings = vec![None; variables.len()];
        assert!(data.matches(name.as_ref(), &mut bindings));
        assert_eq!(key.describe(&bindings), "/lab/a%20b/*/server");
        assert_eq!(data.describe(&vec![None]), "/lab/*/**");
    }
}
