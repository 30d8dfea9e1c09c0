//! Targets beside frames and packets: what services, operators and users read.

mod capture;
mod catalogue;
mod configuration;
mod disk;
mod file_service;
mod gateway;
mod http_api;
mod keys;
mod management;
mod trust_rules;
mod vip;

use crate::Target;

/// Every target by the name of its corpus.
pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("management", management::management),
    ("capture", capture::capture),
    ("configuration", configuration::configuration),
    ("keys", keys::keys),
    ("file_service", file_service::file_service),
    ("catalogue", catalogue::catalogue),
    ("trust_rules", trust_rules::trust_rules),
    ("gateway", gateway::gateway),
    ("disk", disk::disk),
    ("http_api", http_api::http_api),
    ("vip", vip::vip),
];
