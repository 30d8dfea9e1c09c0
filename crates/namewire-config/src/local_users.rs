//! The users whose programs on loopback TCP are local applications.

use toml::de::DeValue;

use crate::value::{Value, expected, quoted};

/// Users whose programs have local faces on loopback TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalUsers {
    /// All programs, also those whose users the kernel does not name.
    Any,
    /// Root, the user of the forwarder, and these, by name or number.
    Listed(Vec<String>),
}

impl Value for LocalUsers {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("any") => Ok(Self::Any),
            Some(_) => Err(expected("\"any\" or a list of users", value)),
            None => Vec::from_toml(value).map(Self::Listed),
        }
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Self::Any => Some(quoted("any")),
            Self::Listed(users) => users.to_toml(),
        }
    }

    fn type_name() -> String {
        "`\"any\"`, or list: user".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        let users = |users: &[&str]| Self::Listed(users.iter().map(|&user| user.into()).collect());
        vec![Self::Any, users(&[]), users(&["alice", "1001"])]
    }
}
