//! The sections `mta_sts` and `reports`: what this server reports to other domains about TLS and
//! about their mail.

use std::time::Duration;

use posthaste_authentication::sts::{Mode, Published};
use serde::Deserialize;

use super::values::period;

/// The longest that others keep a policy (RFC 8461 §3.2).
const MAX_AGE_MAX: Duration = Duration::from_secs(31_557_600);
/// Less than a day lets a policy end while mail waits (RFC 8461 §3.2 advises weeks).
const MAX_AGE_MIN: Duration = Duration::from_secs(86_400);

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MtaSts {
    pub mode: StsMode,
    #[serde(deserialize_with = "period")]
    pub max_age: Duration,
    pub mx: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StsMode {
    Enforce,
    Testing,
    None,
}

impl MtaSts {
    /// The policy that is served, for a server of this name.
    pub fn published(&self, host: &str) -> Published {
        let mode = match self.mode {
            StsMode::Enforce => Mode::Enforce,
            StsMode::Testing => Mode::Testing,
            StsMode::None => Mode::None,
        };
        let mx = if self.mx.is_empty() { vec![host.to_owned()] } else { self.mx.clone() };
        Published { mode, mx, max_age_s: self.max_age.as_secs() }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !(MAX_AGE_MIN..=MAX_AGE_MAX).contains(&self.max_age) {
            return Err("`mta_sts.max_age` must be from 1 day to 1 year".into());
        }
        let is_host = |mx: &String| {
            let name = mx.strip_prefix("*.").unwrap_or(mx);
            posthaste_directory::normal_domain(name).is_ok_and(|normal| normal == name)
        };
        match self.mx.iter().find(|mx| !is_host(mx)) {
            Some(mx) => {
                Err(format!("`mta_sts.mx`: {mx:?} is not a host; write for example \"mx.example.org\""))
            }
            None => Ok(()),
        }
    }
}

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Reports {
    pub tls: bool,
    pub dmarc: bool,
    #[serde(deserialize_with = "period")]
    pub period: Duration,
}

impl Reports {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.period.as_secs() {
            0 => Err("`reports.period` must be at least 1 s; others expect a day".into()),
            _ => Ok(()),
        }
    }
}
