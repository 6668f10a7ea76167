//! IMAP URLs: RFC 5092, with the authorisation of RFC 4467 (URLAUTH).
//!
//! A URL here names a message or a part of one, as CATENATE, URLFETCH and BURL need. It is absolute
//! (`imap://ana@example.org/INBOX/;UID=3`), a path on this server (`/INBOX/;UID=3`), or relative to
//! a mailbox (`;UID=3/;SECTION=1`). URLs that name only a mailbox, a search or a server are not
//! such URLs. Relative names of mailboxes are not supported, either.
//!
//! Mailbox names are UTF-8 in percent encoding, independent of the encoding of names on the
//! connection (§8).

mod parse;
mod print;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use posthaste_mail_model::{Uid, UidValidity};

use crate::Section;

pub(crate) use parse::{decoded, server_and_path};
pub(crate) use print::encode;

/// Bytes of a URL. The longest name of a mailbox takes some 3,000 in percent encoding, and a list
/// of header fields as many. Twice as much names nothing that exists.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// A URL of a message, or of a part of one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ImapUrl {
    /// The server, and the user there; `None` for this server.
    pub server: Option<UrlServer>,
    /// The mailbox; `None` for the current one, only without a server.
    pub mailbox: Option<UrlMailbox>,
    /// The message; `None` for the current one, only without a mailbox.
    pub uid: Option<Uid>,
    /// The requested section; `None` for the whole message.
    pub section: Option<Section>,
    /// The range of its bytes.
    pub partial: Option<UrlPartial>,
    /// The users that may use the URL, and the proof of it.
    pub auth: Option<UrlAuth>,
}

/// `imap://user;AUTH=type@host:port`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlServer {
    /// `enc-user`
    pub user: Option<String>,
    /// `;AUTH=`: a SASL mechanism in capitals, or `*`.
    pub mechanism: Option<String>,
    /// The host, in small letters.
    pub host: String,
    /// The port, if it is named.
    pub port: Option<u16>,
}

/// `enc-mailbox [uidvalidity]`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlMailbox {
    /// The mailbox's name; never empty.
    pub name: String,
    /// `;UIDVALIDITY=`
    pub uid_validity: Option<UidValidity>,
}

/// `;PARTIAL=offset.count`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UrlPartial {
    /// First byte, from 0.
    pub offset: u64,
    /// The largest number of bytes; `None` for all from there on.
    pub count: Option<NonZeroU64>,
}

/// `;EXPIRE=…;URLAUTH=access:mechanism:token`: RFC 4467 §3.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlAuth {
    /// `;EXPIRE=`: from then on the URL is void, seconds since 1970.
    pub expires: Option<i64>,
    /// The users that may use it.
    pub access: UrlAccess,
    /// The proof; `None` in a URL that has none yet.
    pub proof: Option<UrlProof>,
}

/// The users that may use a URL: RFC 4467 §3.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UrlAccess {
    /// `submit+user`: submission on behalf of this user.
    Submit(String),
    /// `user+user`: this user.
    User(String),
    /// `authuser`: every user who has logged in, but not as anonymous.
    AuthUser,
    /// `anonymous`: everybody.
    Anonymous,
}

/// `:mechanism:token`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlProof {
    /// The mechanism in capitals: `INTERNAL` is the one that RFC 4467 defines.
    pub mechanism: String,
    /// The token: hexadecimal digits as they are.
    pub token: String,
}

/// The reason why a text is not such a URL. `Display` is fit for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the URL is longer than 8192 bytes")]
    TooLong,
    /// A `%` that is not followed by two digits, or what it says is not UTF-8 or holds a control.
    #[error("the URL has a character that it may not have, or a wrong percent encoding")]
    Encoding,
    /// Another scheme, or a host or user that cannot be.
    #[error("the URL names no IMAP server")]
    Server,
    /// A mailbox without a message, or a search.
    #[error("the URL names no message: it needs ;UID=")]
    NoMessage,
    /// A server alone.
    #[error("the URL names no mailbox")]
    NoMailbox,
    /// A path without its `/` in front.
    #[error("the name of the mailbox in the URL has no / in front")]
    RelativeMailbox,
    /// Something else than the parameters above, or out of their order.
    #[error("a parameter of the URL is unknown, has a wrong value or is in the wrong place")]
    Parameter,
}

const DAY_SECONDS: i64 = 86_400;
