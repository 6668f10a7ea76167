//! Names of accounts and mailboxes, as an administrator writes them.

use posthaste_mail_model::MailboxName;

use crate::config::Config;
use crate::failure::{Failure, Result};

/// An account name as the directory knows it: one without a domain gets the configured one.
pub(crate) fn full_name(name: &str, config: &Config) -> String {
    if name.contains('@') { name.to_owned() } else { format!("{name}@{}", config.domain) }
}

/// A mailbox name from the command line.
pub(crate) fn mailbox_name(text: &str) -> Result<MailboxName> {
    MailboxName::new(text).map_err(|source| Failure::Name { name: text.to_owned(), source })
}
