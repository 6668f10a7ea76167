//! An account as the rest of the server sees it: everything but how its password is checked.

use posthaste_mail_model::AccountId;
use posthaste_net::{LimitedAccount, OwnLimits};
use serde::{Deserialize, Serialize};

use crate::memory::{ARC_BYTES, allocated};
use crate::own_limits::OwnLimitChanges;

/// The form in which an account's new messages are stored. A change affects only mail that comes
/// after it. Clients see the same bytes in every form.
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

/// The time when the items of rich mail are made: ENVELOPE, BODYSTRUCTURE, RFC822.SIZE and the
/// rest of the summary. Mail that is stored as MIME always gets them at delivery.
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

/// The settings for stored messages: the server's for all accounts, or those of one account.
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

/// The numbers of messages that one IMAP command may process (RFC 9738).
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

/// The numbers of messages that each folder of an account may have.
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

/// The addresses to which mail for an account is sent, with or without a copy in its mailboxes.
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

/// The server that has an account: RFC 2221.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Referral {
    /// The URL of the server (RFC 5092), with the user's name there. The directory does not read
    /// it.
    pub url: String,
    /// Whether IMAP logins here succeed anyway, for mailboxes that others share with the account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admits: bool,
}

/// The server that has a mailbox of an account, and all mailboxes below it: RFC 2193.
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
    /// The account's lasting id. Mailboxes belong to this id.
    pub id: AccountId,
    /// The account's name in normal form: an address, or a plain name.
    pub name: String,
    /// The octets that the account may hold; `None` for no limit of its own.
    pub quota_bytes: Option<u64>,
    /// The messages that the account may hold; `None` for no limit of its own.
    pub quota_messages: Option<u64>,
    /// The numbers of messages that one IMAP command may process.
    pub command_limits: CommandLimits,
    /// The mailboxes that the account may have; `None` for no limit of its own.
    pub quota_mailboxes: Option<u64>,
    /// The numbers of messages that each of the account's folders may have.
    pub folder_limits: FolderLimits,
    /// The limits of connections, commands, bytes and sent mail that the account has in place of
    /// the server's. Boxed: few accounts have any, and then never an empty one.
    pub own_limits: Option<Box<OwnLimits>>,
    /// The form in which messages are stored; `None` for the server's.
    pub format: Option<Format>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it; also where
    /// the server does that for all.
    pub keep_original: bool,
    /// Whether logins and mail are refused.
    pub disabled: bool,
    /// Whether other users see the account's mailboxes in the namespace `Shared/`. Logins to it
    /// are refused.
    pub shared: bool,
    /// The time when the account was made, unix seconds.
    pub created: i64,
    /// The number of password changes. Sessions of an earlier password end.
    pub password_changes: u64,
    /// The state of the account's Sieve scripts. Boxed: accounts are held by value in many
    /// places.
    pub scripts: Box<ScriptState>,
    /// The addresses to which mail for the account is sent on, if any.
    pub forward: Option<Box<Forward>>,
    /// The server that has the account's mailboxes, if it is another one.
    pub referral: Option<Box<Referral>>,
    /// The mailboxes of the account that other servers have, by name.
    pub mailbox_referrals: Box<[MailboxReferral]>,
    /// Whether the account may set the quotas of all accounts of its domain by IMAP (RFC 9208).
    pub sets_quotas: bool,
    /// The version of the account's record. Caches use it in their keys.
    pub version: u64,
}

impl Account {
    /// The settings for the account's stored messages. `server`: the server's for all accounts. An
    /// account with a format of its own keeps rich originals, too, if the server keeps them: a
    /// discarded one cannot be made again.
    pub fn stored_as(&self, server: FormatSettings) -> FormatSettings {
        FormatSettings {
            format: self.format.unwrap_or(server.format),
            keep_original: server.keep_original || self.keep_original,
        }
    }

    /// The domain of the account's name; `None` for a plain name.
    pub fn domain(&self) -> Option<&str> {
        self.name.rsplit_once('@').map(|(_, domain)| domain)
    }

    /// The account as its limits see it.
    pub fn limited(&self) -> LimitedAccount<'_> {
        let own = self.own_limits.as_deref();
        LimitedAccount { id: self.id.0.to_bytes(), name: &self.name, own, version: self.version }
    }

    /// Bytes of memory that an account in an `Arc` takes, with all that belongs to it.
    pub fn memory_bytes(&self) -> usize {
        let text = |text: &String| allocated(text.capacity());
        let forward = self.forward.as_deref().map_or(0, |Forward { to, .. }| {
            let list = allocated(size_of::<Forward>()) + allocated(to.capacity() * size_of::<String>());
            list + to.iter().map(text).sum::<usize>()
        });
        let referral = self.referral.as_deref();
        let referral = referral.map_or(0, |one| allocated(size_of::<Referral>()) + text(&one.url));
        let of_mailboxes = self.mailbox_referrals.iter().map(|one| text(&one.mailbox) + text(&one.url));
        let of_mailboxes = allocated(size_of_val(&*self.mailbox_referrals)) + of_mailboxes.sum::<usize>();
        let script = allocated(size_of::<ScriptState>()) + self.scripts.active.as_ref().map_or(0, text);
        let limits = self.own_limits.as_deref().map_or(0, |_| allocated(size_of::<OwnLimits>()));
        let own = allocated(ARC_BYTES + size_of::<Self>()) + text(&self.name);
        own + script + forward + referral + of_mailboxes + limits
    }

    /// Whether the account may set the quotas of that account. Both must have the same domain.
    pub fn may_set_quotas_of(&self, other: &Self) -> bool {
        self.sets_quotas && self.domain().is_some() && self.domain() == other.domain()
    }
}

/// The options of `account add` other than name and password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewAccount {
    /// The octets that the account may hold; `None` for no limit of its own.
    pub quota_bytes: Option<u64>,
    /// The messages that the account may hold; `None` for no limit of its own.
    pub quota_messages: Option<u64>,
    /// The numbers of messages that one IMAP command may process.
    pub command_limits: CommandLimits,
    /// The mailboxes that the account may have; `None` for no limit of its own.
    pub quota_mailboxes: Option<u64>,
    /// The numbers of messages that each of the account's folders may have.
    pub folder_limits: FolderLimits,
    /// The limits that the account has in place of the server's.
    pub own_limits: OwnLimits,
    /// The form in which messages are stored; `None` for the server's.
    pub format: Option<Format>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it.
    pub keep_original: bool,
    /// Whether other users see the account's mailboxes in the namespace `Shared/`.
    pub shared: bool,
    /// Whether the account may set the quotas of all accounts of its domain by IMAP.
    pub sets_quotas: bool,
}

/// Whether an account that comes from another store keeps [`Account::sets_quotas`], a right over
/// other accounts, and its age. The oldest account may get the mail of postmasters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaRight {
    /// It keeps the right, in the domain that it had, and its age.
    Keep,
    /// It has no such right, and is new.
    Drop,
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
    /// The limits that the account has in place of the server's.
    pub own_limits: OwnLimitChanges,
    /// A new format; `Some(None)` is what the server has for all.
    pub format: Option<Option<Format>>,
    /// Whether [`Format::Mime`] keeps the rich message as well as the MIME made of it.
    pub keep_original: Option<bool>,
    /// Whether logins and mail are refused.
    pub disabled: Option<bool>,
    /// Whether it may set the quotas of all accounts of its domain by IMAP.
    pub sets_quotas: Option<bool>,
}
