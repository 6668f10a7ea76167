//! Errors of the directory. Every text names the record, the field and the remedy.

use posthaste_store::StoreError;

use crate::account::{FORWARDS_MAX, MAILBOX_REFERRAL_BYTES_MAX, MAILBOX_REFERRALS_MAX};
use crate::address::AddressError;
use crate::limits::{APP_PASSWORDS_MAX, CERTIFICATES_MAX, EXPANSION_MAX, LABEL_CHARS_MAX, MEMBERS_MAX};

/// Shorthand of this crate.
pub type Result<T, E = DirectoryError> = std::result::Result<T, E>;

/// Every failure of administration and look-up. A failed login is a [`crate::LoginError`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum DirectoryError {
    /// A name or address that cannot be.
    #[error("'{text}' is not a valid address: {why}")]
    Address {
        /// As it was given.
        text: String,
        /// The fault.
        why: AddressError,
    },
    /// The name is an account's already.
    #[error("account '{0}' exists already: change it with `account set` or `account passwd`")]
    AccountExists(String),
    /// No account of that name.
    #[error("there is no account '{0}': `account list` shows all names, `account add` makes one")]
    NoAccount(String),
    /// The address is an alias already.
    #[error("'{alias}' is an alias of '{account}' already: remove the alias first")]
    AliasExists {
        /// The address.
        alias: String,
        /// The account that has it.
        account: String,
    },
    /// No such alias.
    #[error("there is no alias '{0}': `account show` lists the aliases of an account")]
    NoAlias(String),
    /// The address is a group already.
    #[error("'{0}' is a group already: `group remove` removes it")]
    GroupExists(String),
    /// No such group.
    #[error("there is no group '{0}': `group list` shows all")]
    NoGroup(String),
    /// Too few or too many members.
    #[error(
        "a group has 1 to {MEMBERS_MAX} members, and at most {EXPANSION_MAX} addresses with those of groups within it, not {0}"
    )]
    GroupSize(usize),
    /// A group that is among its own members.
    #[error("group '{0}' contains itself, through a group among its members: remove that group")]
    GroupLoop(String),
    /// The owner of a group would get no reports.
    #[error(
        "the owner '{0}' is not an account or another group here, nor an address in another domain: reports could \
         not be delivered"
    )]
    GroupOwner(String),
    /// Too few or too many addresses.
    #[error("mail is forwarded to 1 to {FORWARDS_MAX} addresses, not to {0}: a group may have more")]
    ForwardSize(usize),
    /// A wrong label of an app password.
    #[error(
        "a label has 1 to {LABEL_CHARS_MAX} characters and no control characters: say what the password is for"
    )]
    Label,
    /// The label of another app password of the account.
    #[error("the account has an app password '{0}' already: choose another label, or remove that one first")]
    LabelTaken(String),
    /// No such app password.
    #[error("the account has no app password '{0}': `account app-password list` shows all")]
    NoAppPassword(String),
    /// The account has the largest number of app passwords.
    #[error("an account has at most {APP_PASSWORDS_MAX} app passwords: remove one that is not used")]
    TooManyAppPasswords,
    /// The account has as many referrals of mailboxes as it can have, or they are too long in all.
    #[error(
        "an account has at most {MAILBOX_REFERRALS_MAX} referrals of mailboxes, of \
         {MAILBOX_REFERRAL_BYTES_MAX} octets in all: remove one first"
    )]
    TooManyReferrals,
    /// The certificate is in the list of another account.
    #[error("this certificate is in the list of '{0}': remove it there first")]
    CertificateTaken(String),
    /// The account does not list it.
    #[error("the account does not list this certificate: `account show` names those that it lists")]
    NoCertificate,
    /// The account lists the largest number of certificates.
    #[error("an account lists at most {CERTIFICATES_MAX} certificates: remove one that is not used")]
    TooManyCertificates,
    /// The check of a token failed: it may be valid or not.
    #[error("tokens cannot be checked: {0}")]
    Tokens(String),
    /// A password that cannot be.
    #[error("the password cannot be used: {0}")]
    Password(&'static str),
    /// The record was changed by others each time it was tried.
    #[error("record '{0}' is being changed by others at the same time: try again")]
    Busy(String),
    /// A record this program cannot read.
    #[error("directory record '{record}' cannot be read: {why}")]
    Record {
        /// The name of the record.
        record: String,
        /// The fault.
        why: String,
    },
    /// Hashing failed: no memory or no randomness.
    #[error("a password could not be hashed: {0}")]
    Hashing(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DirectoryError {
    /// Whether a later attempt may succeed without a repair.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Store(e) => e.is_temporary(),
            Self::Busy(_) | Self::Hashing(_) | Self::Tokens(_) => true,
            _ => false,
        }
    }
}
