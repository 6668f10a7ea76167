//! The section `retention`: rules that move or delete old mail.

use std::time::Duration;

use posthaste_retention::{Action, AgeFrom, Rule};
use serde::{Deserialize, Deserializer};

use super::values::{age, period};

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Retention {
    #[serde(deserialize_with = "period")]
    pub every: Duration,
    pub rules: Vec<RetentionRule>,
}

/// A retention rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRule {
    #[serde(default = "everybody")]
    pub accounts: Vec<String>,
    pub mailbox: String,
    #[serde(default, deserialize_with = "some_age")]
    pub older_than: Option<Duration>,
    #[serde(default)]
    pub keep_newest: Option<u32>,
    #[serde(default = "yes")]
    pub keep_flagged: bool,
    #[serde(default)]
    pub age_from: Option<RuleAgeFrom>,
    pub action: RuleAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    Trash,
    Archive,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAgeFrom {
    Received,
    Saved,
}

fn everybody() -> Vec<String> {
    vec!["*".to_owned()]
}

const fn yes() -> bool {
    true
}

fn some_age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    age(from).map(Some)
}

impl Retention {
    /// The rules, in order.
    pub fn rules(&self) -> Vec<Rule> {
        self.rules.iter().map(RetentionRule::rule).collect()
    }

    /// Checks rules that the types do not express.
    pub(super) fn check(&self) -> Result<(), String> {
        for (number, rule) in self.rules().iter().enumerate() {
            rule.check().map_err(|error| format!("rule {} of `retention.rules`: {error}", number + 1))?;
        }
        Ok(())
    }
}

impl RetentionRule {
    fn rule(&self) -> Rule {
        Rule {
            accounts: self.accounts.clone(),
            mailbox: self.mailbox.clone(),
            older_than: self.older_than,
            keep_newest: self.keep_newest,
            keep_flagged: self.keep_flagged,
            age_from: self.age_from.map(|from| match from {
                RuleAgeFrom::Received => AgeFrom::Received,
                RuleAgeFrom::Saved => AgeFrom::Saved,
            }),
            action: self.action.into(),
        }
    }
}

impl From<RuleAction> for Action {
    fn from(set: RuleAction) -> Self {
        match set {
            RuleAction::Trash => Self::Trash,
            RuleAction::Archive => Self::Archive,
            RuleAction::Delete => Self::Delete,
        }
    }
}
