//! An account as the rest of the server sees it: everything but how its password is checked.

use posthaste_mail_model::AccountId;
use serde::{Deserialize, Serialize};

/// How an account's new messages are stored. A change is for mail that comes from then on. Clients
/// see the same bytes in every format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As MIME. Rich mail (TNEF, `winmail.dat`) is converted at delivery.
    Mime,
    /// As rich mail. MIME is converted to TNEF at delivery. Signed and encrypted mail stays as
    /// sent.
    Rich,
    /// As sent. Rich mail is converted when a client reads it.
    #[default]
    Keep,
}

/// When the items of rich mail are made: ENVELOPE, BODYSTRUCTURE, RFC822.SIZE and the rest of the
/// summary. For mail that is stored as MIME they are always made at delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precompute {
    /// At delivery, which converts each rich message once.
    #[default]
    Delivery,
    /// At the first request, and then kept.
    FirstFetch,
    /// At each request.
    Never,
}

/// How messages are stored: what the server has for all accounts, or an account for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FormatSettings {
    /// The form.
    pub format: Format,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it.
    pub keep_original: bool,
}

/// The state of an account's Sieve scripts, from its record. It is read with the account, so mail
/// for an account without a script costs no further read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptState {
    /// The name of the active script; `None` if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Counts the changes of all its scripts; compiled forms are cached under it.
    pub changes: u64,
}

impl ScriptState {
    /// Whether there never was a script.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How many messages one IMAP command may process (RFC 9738).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLimits {
    /// Any command: MESSAGELIMIT. 0 is no limit, `None` what the server has for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// A command that adds messages: SAVELIMIT. Means nothing where `process` is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<u32>,
}

impl CommandLimits {
    /// Whether the account has none of its own.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How many messages each folder of an account may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderLimits {
    /// Opening a folder with more is logged. 0 is never, `None` what the server has for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<u32>,
    /// A folder with this many takes no more. 0 is no limit, `None` what the server has for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

impl FolderLimits {
    /// Whether the account has none of its own.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where mail for an account is sent, in addition to its mailboxes or instead of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Addresses, here or elsewhere, in normal form.
    pub to: Vec<String>,
    /// Whether the account keeps a copy.
    pub keep: bool,
}

/// Addresses of a forward at most: it is read with the account.
pub const FORWARDS_MAX: usize = 100;

/// Which server has an account: RFC 2221.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Referral {
    /// The URL of the server (RFC 5092), with the user's name there. The directory does not read
    /// it.
    pub url: String,
    /// Whether IMAP logins here succeed all the same, for mailboxes that others share with the
    /// account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admits: bool,
}

/// Which server has a mailbox of an account, and all below it: RFC 2193.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailboxReferral {
    /// The name of the mailbox here, in normal form.
    pub mailbox: String,
    /// The URL of the mailbox there (RFC 5092), with the user's name there. The directory does not
    /// read it.
    pub url: String,
}

/// Referrals of an account's mailboxes at most. They are read with the account.
pub const MAILBOX_REFERRALS_MAX: usize = 100;
/// Octets of all their names and URLs at most, for the same reason.
pub const MAILBOX_REFERRAL_BYTES_MAX: usize = 32 * 1024;

/// An account, as its record was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its lasting id: what mailboxes hang from.
    pub id: AccountId,
    /// Its name in normal form: an address, or a plain name.
    pub name: String,
    /// Octets it may hold; `None` for no limit of its own.
    pub quota_bytes: Option<u64>,
    /// Messages it may hold; `None` for no limit of its own.
    pub quota_messages: Option<u64>,
    /// How many messages one IMAP command may process.
    pub command_limits: CommandLimits,
    /// Mailboxes it may have; `None` for no limit of its own.
    pub quota_mailboxes: Option<u64>,
    /// How many messages each of its folders may have.
    pub folder_limits: FolderLimits,
    /// How its messages are stored; `None` for what the server has for all.
    pub format: Option<Format>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it; also where
    /// the server does that for all.
    pub keep_original: bool,
    /// Whether logins and mail are refused.
    pub disabled: bool,
    /// Whether other users see the account's mailboxes in the namespace `Shared/`. Logins to it
    /// are refused.
    pub shared: bool,
    /// When it was made, unix seconds.
    pub created: i64,
    /// Counts its passwords: sessions of an earlier one end.
    pub password_changes: u64,
    /// Which of its Sieve scripts is active. Boxed: accounts are held by value in many places.
    pub scripts: Box<ScriptState>,
    /// Where its mail is sent on to, if it is.
    pub forward: Option<Box<Forward>>,
    /// Which server has its mailboxes, if it is another one.
    pub referral: Option<Box<Referral>>,
    /// Which of its mailboxes other servers have, by name.
    pub mailbox_referrals: Box<[MailboxReferral]>,
    /// Whether it may set the quotas of all accounts of its domain by IMAP (RFC 9208).
    pub sets_quotas: bool,
    /// Counts the changes of its record; caches are keyed by it.
    pub version: u64,
}

impl Account {
    /// How its messages are stored. `server`: what the server has for all.
    pub fn stored_as(&self, server: FormatSettings) -> FormatSettings {
        match self.format {
            Some(format) => FormatSettings { format, keep_original: self.keep_original },
            None => FormatSettings { keep_original: server.keep_original || self.keep_original, ..server },
        }
    }

    /// The domain of its name; `None` for a plain name.
    pub fn domain(&self) -> Option<&str> {
        self.name.rsplit_once('@').map(|(_, domain)| domain)
    }

    /// Whether it may set the quotas of that account: of its own domain alone.
    pub fn may_set_quotas_of(&self, other: &Self) -> bool {
        self.sets_quotas && self.domain().is_some() && self.domain() == other.domain()
    }
}

/// The options of `account add` other than name and password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewAccount {
    /// Octets it may hold; `None` for no limit of its own.
    pub quota_bytes: Option<u64>,
    /// Messages it may hold; `None` for no limit of its own.
    pub quota_messages: Option<u64>,
    /// How many messages one IMAP command may process.
    pub command_limits: CommandLimits,
    /// Mailboxes it may have; `None` for no limit of its own.
    pub quota_mailboxes: Option<u64>,
    /// How many messages each of its folders may have.
    pub folder_limits: FolderLimits,
    /// How its messages are stored; `None` for what the server has for all.
    pub format: Option<Format>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it.
    pub keep_original: bool,
    /// Whether other users see the account's mailboxes in the namespace `Shared/`.
    pub shared: bool,
    /// Whether it may set the quotas of all accounts of its domain by IMAP.
    pub sets_quotas: bool,
}

/// The changes of `account set`; `None` leaves a field as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountChange {
    /// A new quota; `Some(None)` lifts it.
    pub quota_bytes: Option<Option<u64>>,
    /// The limit of messages.
    pub quota_messages: Option<Option<u64>>,
    /// Messages that one IMAP command may process; `Some(None)` is what the server has for all.
    pub command_limit: Option<Option<u32>>,
    /// The limit of messages for commands that add messages.
    pub save_limit: Option<Option<u32>>,
    /// The limit of mailboxes.
    pub quota_mailboxes: Option<Option<u64>>,
    /// Messages in a folder whose opening is logged; `Some(None)` is what the server has for all.
    pub folder_warn: Option<Option<u32>>,
    /// Messages that a folder may have; `Some(None)` is what the server has for all.
    pub folder_max: Option<Option<u32>>,
    /// A new format; `Some(None)` is what the server has for all.
    pub format: Option<Option<Format>>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it.
    pub keep_original: Option<bool>,
    /// Whether logins and mail are refused.
    pub disabled: Option<bool>,
    /// Whether it may set the quotas of all accounts of its domain by IMAP.
    pub sets_quotas: Option<bool>,
}
