//! A rule: its folders, its messages, and their target.

use std::time::Duration;

use posthaste_imap_codec::ListMatcher;
use posthaste_store::{MailboxEntry, SpecialUse};

/// Where chosen messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Into the folder with the use `\Trash`, which is created if it is missing.
    Trash,
    /// Into a folder for the month of the internal date, such as `Archive/2026-11`, below the one
    /// with the use `\Archive`; created if it is missing.
    Archive,
    /// Nowhere: they are expunged.
    Delete,
}

/// The date from which a message's age counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeFrom {
    /// The internal date: when it was received.
    Received,
    /// The save date (RFC 8514): when it came into this folder.
    Saved,
}

/// A rule chooses messages that meet all its conditions. It has at least one of `older_than` and
/// `keep_newest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Accounts, with `*` for any characters: `*@example.org`.
    pub accounts: Vec<String>,
    /// Folders: a pattern as of LIST (RFC 9051 §6.3.9), where `%` matches one level and `*` any
    /// number; or a special use such as `\Trash`.
    pub mailbox: String,
    /// Chooses messages of more than this age.
    pub older_than: Option<Duration>,
    /// Chooses all but this many newest messages, by internal date.
    pub keep_newest: Option<u32>,
    /// Keeps messages with `\Flagged`.
    pub keep_flagged: bool,
    /// The date from which the age counts. `None`: the save date in the folders `\Trash` and
    /// `\Junk`, and the internal date elsewhere.
    pub age_from: Option<AgeFrom>,
    /// Where messages go.
    pub action: Action,
}

/// A fault of a rule. The text names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It would choose all messages.
    #[error("it has neither `older_than` nor `keep_newest`: set one of them")]
    NoCondition,
    /// No folder is named.
    #[error(
        "`mailbox` is empty: name a folder, a pattern such as \"Lists/*\", or a use such as \"\\\\Trash\""
    )]
    NoMailbox,
    /// No such use.
    #[error(
        "`mailbox` = \"{0}\" is not a special use; there are \\Archive, \\Drafts, \\Junk, \\Sent, \\Trash"
    )]
    NoUse(String),
    /// Nothing can be chosen.
    #[error("`accounts` is empty: name accounts, or \"*\" for all")]
    NoAccounts,
    /// The trash cannot be emptied into itself.
    #[error("`action` = \"trash\" has no effect in \\Trash: set \"delete\"")]
    TrashToTrash,
}

impl Rule {
    /// Checks rules that the types do not express.
    pub fn check(&self) -> Result<(), RuleError> {
        if self.accounts.is_empty() {
            return Err(RuleError::NoAccounts);
        }
        if self.mailbox.is_empty() {
            return Err(RuleError::NoMailbox);
        }
        if self.mailbox.starts_with('\\') && self.special_use().is_none() {
            return Err(RuleError::NoUse(self.mailbox.clone()));
        }
        if self.special_use() == Some(SpecialUse::Trash) && self.action == Action::Trash {
            return Err(RuleError::TrashToTrash);
        }
        match (self.older_than, self.keep_newest) {
            (None, None) => Err(RuleError::NoCondition),
            _ => Ok(()),
        }
    }

    /// Whether the rule is for an account of this name.
    pub fn is_for_account(&self, name: &str) -> bool {
        self.accounts.iter().any(|pattern| ListMatcher::new("", pattern).matches(name))
    }

    /// Whether the rule is for this folder.
    pub fn is_for_folder(&self, entry: &MailboxEntry) -> bool {
        match self.special_use() {
            Some(wanted) => entry.special_use == Some(wanted),
            None => ListMatcher::new("", &self.mailbox).matches(entry.name.as_str()),
        }
    }

    /// Whether the rule is for the INBOX, which has no special use.
    pub(crate) fn is_for_inbox(&self) -> bool {
        self.special_use().is_none() && ListMatcher::new("", &self.mailbox).matches("INBOX")
    }

    /// Whether the rule is for all accounts.
    pub(crate) fn is_for_all_accounts(&self) -> bool {
        self.accounts.iter().any(|pattern| pattern == "*")
    }

    /// The date from which ages count in this folder.
    pub fn age_from(&self, entry: &MailboxEntry) -> AgeFrom {
        self.age_from.unwrap_or(match entry.special_use {
            Some(SpecialUse::Trash | SpecialUse::Junk) => AgeFrom::Saved,
            _ => AgeFrom::Received,
        })
    }

    /// The use that `mailbox` names (RFC 6154 §2). `\All` and `\Flagged` are views of other
    /// folders' messages: no folder here has them.
    fn special_use(&self) -> Option<SpecialUse> {
        let uses = [
            (r"\Archive", SpecialUse::Archive),
            (r"\Drafts", SpecialUse::Drafts),
            (r"\Junk", SpecialUse::Junk),
            (r"\Sent", SpecialUse::Sent),
            (r"\Trash", SpecialUse::Trash),
        ];
        uses.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(&self.mailbox)).map(|(_, wanted)| wanted)
    }
}
