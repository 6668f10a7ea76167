//! The log lines of logins: one form for every protocol, so that one pattern matches them.
//!
//! ```text
//! login failed address=192.0.2.1 protocol=imap session=2a reason=credentials account="ana"
//! logged in address=192.0.2.1 protocol=imap session=2b by=password account="ana@example.org"
//! ```
//!
//! `contrib/fail2ban` holds the pattern. Text that the client chose (the account) comes last and in
//! quotes, with quotes and line ends in it escaped. So a client cannot forge a line that names
//! another address.

use std::net::IpAddr;

use crate::grant::Login;
use crate::login_error::{LoginFailure, NO_TOKEN};

/// Characters of an account's name that are logged: the longest address has 254 octets (RFC 5321
/// §4.5.3.1.3).
const NAME_MAX: usize = 254;

/// The client and the session of a login.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The client's address.
    pub address: IpAddr,
    /// `imap`, `submission`.
    pub protocol: &'static str,
    /// The connection's number, which this process gives once.
    pub session: u64,
}

impl Source {
    /// Logs a successful login. The event has a name because it is frequent: `posthaste-logging`
    /// writes these in batches.
    pub fn succeeded(&self, login: &Login) {
        let address = self.address.to_canonical();
        let (protocol, session, by) = (self.protocol, format_args!("{:x}", self.session), login.by);
        tracing::info!(name: "login", target: "posthaste::login", %address, %protocol, %session, %by, account = ?shown(&login.account.name), "logged in");
    }

    /// Logs a login that was right, and that another server has to take (RFC 2221).
    pub fn referred(&self, login: &Login, url: &str) {
        let address = self.address.to_canonical();
        let (protocol, session, by) = (self.protocol, format_args!("{:x}", self.session), login.by);
        tracing::info!(target: "posthaste::login", %address, %protocol, %session, %by, url, account = ?shown(&login.account.name), "login referred");
    }

    /// Logs a login that was refused. `account`: the name that was requested, empty if there was
    /// none.
    pub fn failed(&self, account: &str, failure: &LoginFailure) {
        let address = self.address.to_canonical();
        let (protocol, session) = (self.protocol, format_args!("{:x}", self.session));
        let (reason, account) = (failure.reason(), shown(account));
        tracing::info!(target: "posthaste::login", %address, %protocol, %session, %reason, ?account, "login failed");
    }
}

/// A name cut to a bounded length.
fn shown(account: &str) -> &str {
    match account.char_indices().nth(NAME_MAX) {
        Some((end, _)) => &account[..end],
        None => account,
    }
}

impl LoginFailure {
    /// The reason as one word for the log.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Disabled => "disabled",
            Self::AuthorizationId => "authorization",
            Self::Malformed(_) => "malformed",
            Self::ChannelBinding(_) => "binding",
            Self::Certificate => "certificate",
            Self::Token(NO_TOKEN) => "no-token",
            Self::Token(_) => "token",
            Self::Expired => "expired",
            Self::Scope => "scope",
            Self::UnknownMechanism => "mechanism",
            Self::EncryptionRequired => "encryption",
            Self::TooMany => "throttled",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(shown("ana"), "ana");
        assert_eq!(shown(&"\u{20ac}".repeat(300)).chars().count(), 254);
    }
}
