//! The shard as a whole: against a model under random traffic, and case by case.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]
#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod bed;
mod cases;
mod differential;
mod disorder;
mod model;
mod random;
mod recorder;
mod timing;
mod traffic;
mod wire;
mod world;
