//! One forwarding shard as a state machine: pipelines and strategies.
#![forbid(unsafe_code)]
