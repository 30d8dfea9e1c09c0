#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admission;
mod calls;
mod connections;
mod counters;
mod exposition;
mod file_version;
#[doc(hidden)]
pub mod fuzzing;
mod graphql;
mod metrics;
mod pages;
mod program_metrics;
mod remote_write;
mod respond;
mod running_process;
mod server;
mod shared;
mod site;
mod tasks;
mod tls;
mod tokens;

pub use counters::{HttpCounters, HttpValues};
pub use graphql::sdl as schema_definition;
pub use pages::page_file;
pub use program_metrics::{ProgramMetric, serve_metrics};
pub use remote_write::{MetricsPush, PushTarget};
pub use server::{HttpListener, HttpServer};
pub use site::{Site, SiteBody, SiteReply, SiteRequest, SiteServer};
pub use tasks::TaskPrograms;
pub use tokens::{FIRST_NAME, Role, TOKENS_MAX, Token, TokenFile};
