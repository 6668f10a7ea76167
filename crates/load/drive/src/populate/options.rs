//! The accounts to fill, and the mail to fill them with.

use posthaste_imap_client::net::Dialer;
use posthaste_load_workload::corpus::{Shares, Sizes, UserMail};

use crate::accounts::Accounts;
use crate::run::folder_name;
use crate::target::{Scheme, Target};

/// The messages of an account after it was filled.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Mailbox and number of messages.
    pub mailboxes: Vec<(String, u32)>,
    /// Sizes of generated messages.
    pub sizes: Sizes,
    /// The shares of special mail among them.
    pub shares: Shares,
}

impl Contents {
    /// INBOX and this many folders.
    pub fn new(inbox: u32, folders: u32, per_folder: u32, sizes: Sizes) -> Self {
        let mut mailboxes = vec![("INBOX".to_owned(), inbox)];
        mailboxes.extend((1..=folders).map(|n| (folder_name(n), per_folder)));
        Self { mailboxes, sizes, shares: Shares::default() }
    }

    /// The same with these shares of special mail.
    #[must_use]
    pub fn with_shares(self, shares: Shares) -> Self {
        Self { shares, ..self }
    }

    /// Messages in all.
    pub fn messages(&self) -> u64 {
        self.mailboxes.iter().map(|m| u64::from(m.1)).sum()
    }
}

/// The accounts to fill, and how.
pub struct PopulateOptions {
    /// The server. One of IMAP gets the mail, unless `lmtp` is given, and counts it. One of POP3
    /// only counts what `lmtp` delivers.
    pub server: Target,
    /// Deliver INBOX mail by LMTP or SMTP instead.
    pub lmtp: Option<Target>,
    /// The accounts.
    pub accounts: Accounts,
    /// The contents of each account afterwards.
    pub contents: Contents,
    /// Seed of the corpus.
    pub seed: u64,
    /// The user's own mail instead of generated.
    pub mail: Option<UserMail>,
    /// Accounts filled at the same time.
    pub parallel: usize,
    /// The settings of connections.
    pub dialer: Dialer,
    /// Show progress.
    pub live: bool,
}

impl PopulateOptions {
    /// Whether the accounts can be filled by these ways.
    ///
    /// # Errors
    /// The missing way.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.server.scheme != Scheme::Pop3 {
            return Ok(());
        }
        if self.lmtp.is_none() {
            return Err(
                "POP3 takes no mail, so the accounts cannot be filled: name lmtp://, smtp:// or imap:// as well",
            );
        }
        match self.contents.mailboxes.iter().skip(1).any(|(_, messages)| *messages > 0) {
            true => {
                Err("mail that is delivered comes into INBOX, and folders must be filled, too: name imap://")
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_imap_client::net::Trust;

    use super::*;

    #[test]
    fn a_server_without_imap_is_filled_by_delivery_and_in_inbox_alone() {
        let check = |server: &str, lmtp: Option<&str>, folders: u32| {
            let options = PopulateOptions {
                server: server.parse().unwrap(),
                lmtp: lmtp.map(|url| url.parse().unwrap()),
                accounts: Accounts::parse("u").unwrap(),
                contents: Contents::new(5, folders, 2, Sizes::Html),
                seed: 1,
                mail: None,
                parallel: 1,
                dialer: Dialer::new(Trust::Anyone, Duration::from_secs(1)).unwrap(),
                live: false,
            };
            options.check()
        };
        assert_eq!(check("imap://h", None, 3), Ok(()));
        assert_eq!(check("pop3://h", Some("lmtp://h"), 0), Ok(()));
        assert!(check("pop3://h", None, 0).unwrap_err().contains("lmtp://"));
        assert!(check("pop3://h", Some("smtp://h"), 1).unwrap_err().contains("imap://"));
    }
}
