//! The section `screening`: checks of other hosts before their mail is read.

use std::net::Ipv4Addr;
use std::time::Duration;

use posthaste_directory::normal_domain;
use posthaste_milter::Milter;
use posthaste_scanner::Rspamd;
use posthaste_screening::{BlockList, GreetingRule, RateLimits, ScreeningOptions};
use serde::Deserialize;

use super::values::{period, timeout};

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Screening {
    pub block_lists: Vec<List>,
    #[serde(deserialize_with = "timeout")]
    pub timeout: Duration,
    pub greeting: Greeting,
    pub messages_per_address: u64,
    pub messages_per_sender: u64,
    pub unknown_recipients: u64,
    #[serde(deserialize_with = "period")]
    pub greylist: Duration,
    pub rspamd: String,
    #[serde(deserialize_with = "timeout")]
    pub rspamd_timeout: Duration,
    pub rspamd_failure: RspamdFailure,
    pub milters: Vec<MilterAt>,
}

/// A program that sees each message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MilterAt {
    pub at: String,
    #[serde(default = "MilterAt::within", deserialize_with = "timeout")]
    pub timeout: Duration,
    #[serde(default = "MilterAt::failure")]
    pub failure: RspamdFailure,
}

impl MilterAt {
    /// Postfix waits this long for each answer; content filters may query others in turn.
    const fn within() -> Duration {
        Duration::from_secs(30)
    }

    const fn failure() -> RspamdFailure {
        RspamdFailure::Defer
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RspamdFailure {
    Accept,
    Defer,
}

/// A DNS list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    pub zone: String,
    #[serde(default)]
    pub answers: Vec<Ipv4Addr>,
    #[serde(default)]
    pub action: ListAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListAction {
    #[default]
    Refuse,
    Junk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Greeting {
    Off,
    Basic,
    Strict,
}

impl Screening {
    /// The longest wait that an unknown host may get: hosts give mail up after days, and some
    /// after hours.
    const GREYLIST_MAX: Duration = Duration::from_secs(3600);

    /// Checks rules that the types do not express.
    pub(super) fn check(&self) -> Result<(), String> {
        for list in &self.block_lists {
            if normal_domain(&list.zone).is_err() || !list.zone.contains('.') {
                return Err(format!("`screening.block_lists`: `{}` is not a domain", list.zone));
            }
            if let Some(answer) = list.answers.iter().find(|answer| !answer.is_loopback()) {
                let zone = &list.zone;
                return Err(format!(
                    "`screening.block_lists`: `{zone}` never answers {answer}: write addresses in 127.0.0.0/8"
                ));
            }
        }
        self.rspamd()?;
        self.milters()?;
        if self.greylist > Self::GREYLIST_MAX {
            return Err("`screening.greylist` must be at most 1 h: some hosts stop trying after that".into());
        }
        Ok(())
    }

    /// The scanner of messages; nothing if it is not set.
    pub fn rspamd(&self) -> Result<Option<Rspamd>, String> {
        if self.rspamd.is_empty() {
            return Ok(None);
        }
        let rspamd = Rspamd::new(&self.rspamd, self.rspamd_timeout);
        rspamd.map(Some).map_err(|error| format!("`screening.rspamd`: {error}"))
    }

    /// The programs that see each message, in their order.
    pub fn milters(&self) -> Result<Vec<(Milter, RspamdFailure)>, String> {
        let milter = |milter: &MilterAt| {
            let place = milter.at.parse().map_err(|error| format!("`screening.milters`: {error}"))?;
            Ok((Milter::new(place, milter.timeout), milter.failure))
        };
        self.milters.iter().map(milter).collect()
    }

    /// The settings as the crate has them, except for the name and the hosts that are trusted.
    pub fn options(&self) -> ScreeningOptions {
        let list = |list: &List| BlockList {
            zone: list.zone.clone(),
            answers: list.answers.clone(),
            refuses: list.action == ListAction::Refuse,
        };
        ScreeningOptions {
            block_lists: self.block_lists.iter().map(list).collect(),
            within: self.timeout,
            greeting: match self.greeting {
                Greeting::Off => GreetingRule::Off,
                Greeting::Basic => GreetingRule::Basic,
                Greeting::Strict => GreetingRule::Strict,
            },
            rates: RateLimits {
                messages_per_address: self.messages_per_address,
                messages_per_sender: self.messages_per_sender,
                unknown_recipients_per_address: self.unknown_recipients,
            },
            greylist_delay: self.greylist,
            ..ScreeningOptions::default()
        }
    }
}
