//! `namewire control`: tokens and schema of the HTTP API.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use namewire_http::{FIRST_NAME, Role, Token, TokenFile};

use crate::cli::arguments::positive_duration;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table};
use crate::process::{HAS_HTTP_API, WITHOUT_HTTP_API};

/// Manage the HTTP API of a forwarder
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Command {
    Token(TokenOptions),
    Schema(SchemaOptions),
}

/// Print, create, renew or revoke a token of the HTTP API
///
/// Without options, prints the token that the first start of the API made. Changes take effect at once. The file of
/// tokens belongs to the user of the forwarder; only that user and root can read it.
#[derive(Args, Debug)]
pub(in crate::cli) struct TokenOptions {
    /// Name of the token, which the forwarder logs with each change
    #[arg(long, value_name = "NAME", default_value = FIRST_NAME)]
    name: String,
    /// Create a token with this role: read, operate or admin
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["revoke", "list"])]
    role: Option<Role>,
    /// The time after which a created or renewed token expires, such as 720h [default: never]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    expires: Option<Duration>,
    /// Replace the token by a new one of the same role; the old one is not valid any more
    #[arg(long, conflicts_with_all = ["role", "revoke", "list"])]
    renew: bool,
    /// Remove the token
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// List names, roles and expiries
    #[arg(long)]
    list: bool,
    /// Configuration file of the forwarder, whose `control.http.tokens` names the file of tokens
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// File of tokens [default: http-tokens in the state directory]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Print the schema of the GraphQL API in the schema definition language
#[derive(Args, Debug)]
pub(in crate::cli) struct SchemaOptions {}

pub(in crate::cli) fn run(command: &Command) -> Outcome {
    match command {
        Command::Token(options) => options.run(),
        Command::Schema(SchemaOptions {}) => {
            if !HAS_HTTP_API {
                return Err(Failure::Failed(WITHOUT_HTTP_API.to_owned()));
            }
            let schema = namewire_http::schema_definition().map_err(Failure::Failed)?;
            Ok(output::print_line(schema.trim_end())?)
        }
    }
}

impl TokenOptions {
    fn run(&self) -> Outcome {
        let file = self.token_file()?;
        let failed = |error: std::io::Error| Failure::Failed(error.to_string());
        let mut tokens = file.read().map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::NotFound {
                " (the first start with the HTTP API makes it; --config or --file names another file)"
            } else if error.kind() == std::io::ErrorKind::PermissionDenied {
                " (it belongs to the user of the forwarder)"
            } else {
                ""
            };
            Failure::Input(format!("{error}{hint}"))
        })?;
        if self.list {
            return list(&tokens);
        }
        let at = tokens.iter().position(|token| token.name == self.name);
        let missing = || {
            let name = &self.name;
            Failure::Failed(format!(
                "there is no token {name}; --role creates one, --list lists them"
            ))
        };
        match (self.role, at) {
            (Some(_), Some(_)) => {
                let name = &self.name;
                let reason = format!("there is a token {name} already; --renew replaces it");
                return Err(Failure::Failed(reason));
            }
            (Some(role), None) => {
                tokens.push(Token::new(&self.name, role, self.expires_s()).map_err(failed)?);
                file.write(&tokens).map_err(failed)?;
                return print_last(&tokens);
            }
            (None, _) => {}
        }
        let at = at.ok_or_else(missing)?;
        if self.revoke {
            tokens.remove(at);
            return file.write(&tokens).map_err(failed);
        }
        if self.renew {
            let role = tokens.remove(at).role;
            tokens.push(Token::new(&self.name, role, self.expires_s()).map_err(failed)?);
            file.write(&tokens).map_err(failed)?;
            return print_last(&tokens);
        }
        if self.expires.is_some() {
            return Err(Failure::Usage("--expires needs --role or --renew".to_owned()));
        }
        Ok(output::print_line(&tokens[at].secret)?)
    }

    fn token_file(&self) -> Outcome<TokenFile> {
        if let Some(file) = &self.file {
            return Ok(TokenFile::new(file));
        }
        let settings = match &self.config {
            Some(config) => super::config::load(config)?.0.control.http,
            None => crate::config::Http::default(),
        };
        let file = settings.token_file().ok_or_else(|| {
            Failure::Usage("there is no state directory: name the file with --file".to_owned())
        })?;
        Ok(TokenFile::new(file))
    }

    fn expires_s(&self) -> Option<u64> {
        let now_s = ndn_sys::clock::wall_clock().as_secs();
        self.expires.map(|after| now_s.saturating_add(after.as_secs()))
    }
}

fn print_last(tokens: &[Token]) -> Outcome {
    let secret = tokens.last().map(|token| token.secret.as_str()).unwrap_or_default();
    Ok(output::print_line(secret)?)
}

fn list(tokens: &[Token]) -> Outcome {
    let mut table = Table::new(&["NAME", "ROLE", "EXPIRES"]);
    let now_s = ndn_sys::clock::wall_clock().as_secs();
    for token in tokens {
        let expiry = match token.expires_s {
            None => "never".to_owned(),
            Some(end_s) if end_s <= now_s => "expired".to_owned(),
            Some(end_s) => {
                let left = Duration::from_secs(end_s - now_s);
                format!("in {}", crate::config::format_duration(left))
            }
        };
        table.row(vec![token.name.clone(), token.role.to_string(), expiry]);
    }
    Ok(table.print("no tokens")?)
}
