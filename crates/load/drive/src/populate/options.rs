//! The accounts to fill, and the mail to fill them with.

use posthaste_imap_client::net::Dialer;
use posthaste_load_workload::corpus::{Shares, Sizes, UserMail};

use crate::accounts::Accounts;
use crate::run::folder_name;
use crate::target::Target;

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
    /// The IMAP server: it gets the mail, unless `lmtp` is given, and counts it.
    pub imap: Target,
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
    /// How to connect.
    pub dialer: Dialer,
    /// Show progress.
    pub live: bool,
}
