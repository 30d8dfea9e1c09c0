#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admission;
mod calls;
mod counters;
mod exposition;
mod graphql;
mod metrics;
mod pages;
mod respond;
mod server;
mod shared;
mod tokens;

pub use counters::{HttpCounters, HttpValues};
pub use graphql::sdl as schema_definition;
pub use server::{HttpListener, HttpServer};
pub use tokens::{FIRST_NAME, Role, TOKENS_MAX, Token, TokenFile};
