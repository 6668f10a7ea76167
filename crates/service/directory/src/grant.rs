//! A successful login: the account and the credential.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::account::Account;

/// The protocols that users log in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
    /// Submission (RFC 6409).
    Submission,
    /// ManageSieve (RFC 5804).
    Sieve,
}

impl Service {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Imap, Self::Pop3, Self::Submission, Self::Sieve];

    /// The protocol's word in logs, records and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Pop3 => "pop3",
            Self::Submission => "submission",
            Self::Sieve => "sieve",
        }
    }
}

/// The client of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The address at the other end.
    pub address: IpAddr,
    /// The protocol.
    pub service: Service,
}

/// The id of one of an account's app passwords: no other one of the account has, or had, the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppPasswordId(pub u64);

impl fmt::Display for AppPasswordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// SHA-256 of a certificate, DER.
pub type Fingerprint = [u8; 32];

/// The credential of a login. When it is removed, sessions end: see [`crate::Lease`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// The account's password, by whichever mechanism.
    Password,
    /// An app password.
    AppPassword(AppPasswordId),
    /// A client certificate that names the account, which lists none.
    Certificate(Fingerprint),
    /// A client certificate that the account lists.
    ListedCertificate(Fingerprint),
    /// An OAuth access token.
    Token,
}

impl fmt::Display for By {
    /// One word, for the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password => f.write_str("password"),
            Self::AppPassword(id) => write!(f, "app-password:{id}"),
            // Enough to find the certificate by.
            Self::Certificate([a, b, c, d, ..]) | Self::ListedCertificate([a, b, c, d, ..]) => {
                write!(f, "certificate:{a:02x}{b:02x}{c:02x}{d:02x}")
            }
            Self::Token => f.write_str("token"),
        }
    }
}

/// A login that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The account, as its record was read.
    pub account: Arc<Account>,
    /// The credential.
    pub by: By,
    /// The time when the login ends by itself, unix seconds.
    pub until: Option<u64>,
}

impl Login {
    /// A login that ends only by a change of its account.
    pub const fn new(account: Arc<Account>, by: By) -> Self {
        Self { account, by, until: None }
    }
}

/// The login of a credential that was right, by the account's record as it was read then. The
/// record may have changed since, so only `Directory::confirm` lets the client in.
#[derive(Debug)]
pub(crate) struct Proven(pub Login);

impl Proven {
    /// A login that ends only by a change of its account.
    pub const fn new(account: Arc<Account>, by: By) -> Self {
        Self(Login::new(account, by))
    }
}
