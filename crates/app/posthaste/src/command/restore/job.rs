//! What a restore is about to do, and the record that describes it.

use std::collections::BTreeSet;

use posthaste_directory::{Account, Address};
use posthaste_mail_model::AccountId;
use serde::{Deserialize, Serialize};

use crate::command::ends::StorePair;

/// `restore/<name>`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RestoreRecord {
    pub account: String,
    pub fresh: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid_validity: Option<u32>,
    pub source: String,
    pub done: bool,
    /// The mail that the backup could not read, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

pub(super) fn underway_name(account: &str) -> String {
    format!("restore/{account}")
}

/// An account of the backup on its way into the store.
pub(super) struct AccountToRestore {
    pub account: Account,
    /// The account's name in the store.
    pub name: String,
    pub source: String,
    /// The id it has in the store, if a restore that was cut off chose one.
    pub chosen: Option<RestoreRecord>,
    /// Whether a restore was cut off right after it made the account visible. By now its owner
    /// may use its mail.
    pub visible: bool,
}

/// The accounts of a backup that are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of them, with the settings of the store.
    All,
    /// Those that the administrator names, and nothing else.
    Named,
}

pub(super) struct RestoreJob {
    pub ends: StorePair,
    /// No UID was given since the backup was made.
    pub keeps_uid_validity: bool,
    pub scope: Scope,
    /// The ids of all accounts in the store.
    pub account_ids: BTreeSet<AccountId>,
    /// The address that is configured for mail to postmasters.
    pub postmaster: Option<Address>,
}
