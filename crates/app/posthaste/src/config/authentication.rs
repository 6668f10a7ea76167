//! The section `authentication`: verification of the senders of mail from other hosts.

use std::time::Duration;

use posthaste_authentication::Policy;
use posthaste_directory::Network;
use serde::Deserialize;

use super::values::{networks, timeout};

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Authentication {
    pub enabled: bool,
    pub dmarc: DmarcPolicy,
    #[serde(deserialize_with = "timeout")]
    pub timeout: Duration,
    #[serde(deserialize_with = "networks")]
    pub trusted_networks: Vec<Network>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmarcPolicy {
    Honour,
    Report,
}

impl From<DmarcPolicy> for Policy {
    fn from(set: DmarcPolicy) -> Self {
        match set {
            DmarcPolicy::Honour => Self::Honour,
            DmarcPolicy::Report => Self::Report,
        }
    }
}
