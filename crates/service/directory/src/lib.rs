//! Logins, and the routing of mail by address.
//!
//! Accounts and aliases are small named records in the store ([`posthaste_store::Engine`]'s
//! directory calls). They are read again for each login and each recipient, which takes about a
//! microsecond. So `posthaste account passwd`, run in another process, takes effect at the next
//! login. It also counts for logins that have begun: each reads the record again at its end
//! (`confirm`). Open sessions end by their [`Lease`]. The cache of verified passwords is keyed by
//! the version of the record from which each was made.
//!
//! | record | content |
//! | --- | --- |
//! | `account/<name>` | an [`Account`] with its credentials |
//! | `alias/<address>` | the account an address belongs to |
//! | `group/<address>` | the members of a group; `group/@<domain>` for a whole domain |
//! | `domain/<domain>` | present for each domain that ever had one of these: decides between "no such user" and "not ours" |
//! | `sieve/<account id>/script/<hash of its name>` | one of an account's Sieve scripts |
//! | `metadata/<account id>/<mailbox id>` | the annotations of one of an account's mailboxes (RFC 5464); `…/server` for those of the server |
//! | `annotate/<keeper's id>/<owner's id>/<mailbox id>/<UID>` | the annotations of a message (RFC 5257) that an account keeps |
//! | `annotated/<owner's id>/<mailbox id>` | the accounts that keep annotations of a mailbox's messages |
//! | `acl/<account id>/<mailbox id>` | who may do what, in addition to the owner, in a mailbox (RFC 4314) |
//! | `grant/<hash>/<account id>` | present where an account's lists may name somebody |
//! | `sharing/of/<account id>` | how many entries an account's lists have; its version counts their changes |
//! | `sharing/changes` | its version counts the changes of all those lists |
//! | `sharing/named/<account id>` | how many accounts a user has named in lists |
//! | `certificate/<fingerprint>` | the account that lists a client certificate |
//! | `used/<account id>/<id>` | when an app password was used last |
//! | `urlauth/<account id>/<mailbox id>` | the key of a mailbox's authorised URLs (RFC 4467) |
//! | `seen/<owner's id>/<mailbox id>/<reader's id>/<block>` | what a user has seen in a mailbox of another one |
//! | `secret/decoy` | a key from which the salts shown for unknown users are made |
//!
//! Modules depend on each other in one direction. `records` reads and writes the records. Each
//! kind of record is a struct over it, in a module of its own. `directory` holds them all.
//! `login` and `accounts` are on top: they use several kinds for one login or account.
//!
//! Invariants: a password is never kept, nor logged. Answers and their times do not show whether
//! a user exists. Nothing in here sleeps: a [`LoginError`] carries the delay that its caller must
//! wait.
//!
//! Not in here: sockets, protocol syntax, mailboxes.

mod account;
mod accounts;
mod acl;
mod address;
mod adopted;
mod aliases;
mod annotation_error;
mod annotations;
mod app_password;
mod attempt;
mod certificate;
mod certificate_login;
mod confirm;
mod credential;
#[cfg(test)]
mod credential_tests;
mod directory;
mod error;
mod forward;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod grant;
mod group;
mod hashing;
mod journal;
mod lease;
mod limits;
mod login;
mod login_error;
mod memory;
mod message_annotations;
mod network;
mod orphans;
mod own_limits;
mod parsed;
mod password;
mod postmaster;
mod recent;
mod record;
mod records;
mod resolve;
pub mod sasl;
mod scram_keys;
mod script_record;
mod scripts;
mod seen;
mod settings;
mod shared_groups;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod throttle;
mod token;
mod token_login;
pub mod unix_time;
mod url_keys;
mod verified;

pub use account::{
    Account, AccountChange, CommandLimits, FolderLimits, Format, FormatSettings, Forward,
    MAILBOX_REFERRAL_BYTES_MAX, MAILBOX_REFERRALS_MAX, MailboxReferral, NewAccount, Precompute, QuotaRight,
    Referral, ScriptState,
};
pub use acl::{
    ACCOUNT_ENTRIES_MAX, ACL_ENTRIES_MAX, Acl, AclError, Acls, Identifier, NAMED_MAX, SHARING_ACCOUNTS_MAX,
    Sharer, Sharing, Who, copy_acls, same_acls,
};
pub use address::{Address, AddressError, normal_domain, registered_domain};
pub use aliases::{Alias, Aliases};
pub use annotation_error::AnnotationError;
pub use annotations::{
    ACCOUNT_ANNOTATION_BYTES_MAX, ANNOTATIONS_MAX, Annotated, Annotations, Entry,
    MAILBOX_ANNOTATION_BYTES_MAX, Metadata, copy_annotations, same_annotations,
};
pub use app_password::AppPasswords;
pub use certificate::{Certificates, parse_fingerprint, print_fingerprint};
pub use credential::{AppPassword, NewAppPassword};
pub use directory::Directory;
pub use error::{DirectoryError, Result};
pub use grant::{AppPasswordId, By, Client, Fingerprint, Login, Service};
pub use group::{Expansion, Groups, Target};
pub use hashing::hashes_at_once;
pub use journal::Source;
pub use lease::{Lease, revoked};
pub use limits::ANNOTATION_BYTES_MAX;
pub use login_error::{LoginError, LoginFailure};
pub use memory::{ARC_BYTES, allocated};
pub use message_annotations::{
    ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX, ANNOTATING_ACCOUNTS_MAX, Before, Copies, Keeping,
    MESSAGE_ANNOTATION_BYTES_MAX, MESSAGE_ANNOTATIONS_MAX, MESSAGE_BYTES_MAX, MessageAnnotationRecords,
    MessageAnnotations, NewValue, OnConflict, Relocated, Scope, WithAnnotations, Written,
};
pub use network::Network;
pub use own_limits::OwnLimitChanges;
pub use password::Policy;
pub use recent::Recent;
pub use resolve::{Recipient, ResolveError};
pub use script_record::{SCRIPT_BYTES_MAX, Script, ScriptKeys, records_of};
pub use scripts::{SCRIPT_NAME_CHARS_MAX, SCRIPTS_MAX, ScriptError, Scripts};
pub use seen::{PendingSeen, Reading, SeenFlags, SeenMessages, copy_seen};
pub use settings::{CertificateLogins, LoginSettings};
pub use shared_groups::Group;
pub use token::{Granted, TokenCheck, TokenError};
pub use url_keys::{UrlKey, UrlKeys};

/// Bytes that the tables of failed logins and of remembered passwords take at most.
pub const LOGINS_BYTES_MAX: u64 = throttle::SCORES_BYTES_MAX + verified::REMEMBERED_BYTES_MAX;
