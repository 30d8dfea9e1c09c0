//! The server and a consumer, connected to each other without a forwarder between them.

mod bed;
mod confinement;
mod examples;
mod manifests;
mod receiving;
mod replicas;
mod service;
mod versions;
