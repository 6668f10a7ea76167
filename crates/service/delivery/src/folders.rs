//! Folders with very many messages: a line in the log for each opening.
//!
//! The limit over which nothing more comes in is the store's
//! ([`posthaste_store::StoreOptions::folder_messages_max`]), because a commit alone knows how many
//! messages there are.

use std::net::IpAddr;

use posthaste_mail_model::MailboxName;
use posthaste_metrics::Counter;

use crate::deliver::Delivery;

/// A folder that a client opens.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The account's name.
    pub account: &'a str,
    /// The folder.
    pub folder: &'a MailboxName,
    /// Messages in it.
    pub items: u32,
    /// The address of the client.
    pub client: IpAddr,
    /// `imap`, `pop3`.
    pub protocol: &'static str,
    /// The own limit of the account that has the folder, if it has one.
    pub warn: Option<u32>,
}

impl Opening<'_> {
    /// Whether this is worth a line under a limit; 0 for none.
    const fn is_over(&self, limit: u64) -> bool {
        limit > 0 && self.items as u64 > limit
    }
}

impl Delivery {
    /// Logs a line if the folder has more messages than its account's own limit, or than
    /// `folder_messages_warn` of the options where it has none.
    pub fn folder_opened(&self, opening: &Opening<'_>) {
        let limit = opening.warn.map_or(self.options().folder_messages_warn, u64::from);
        if opening.is_over(limit) {
            posthaste_metrics::count(Counter::LargeFolders, 1);
            let Opening { account, folder, items, client, protocol, warn: _ } = *opening;
            let client = client.to_canonical();
            tracing::warn!(
                target: "posthaste::folders", %client, %protocol, items, limit, account, folder = folder.as_str(),
                "a folder over `limits.folder_messages_warn` was opened: its owner should archive or delete mail"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_the_limit_is_worth_a_line() {
        let folder = MailboxName::inbox();
        let opening = |items| Opening {
            account: "ana",
            folder: &folder,
            items,
            client: IpAddr::from([192, 0, 2, 1]),
            protocol: "imap",
            warn: None,
        };
        assert!(opening(11).is_over(10) && !opening(10).is_over(10));
        assert!(!opening(u32::MAX).is_over(0));
    }
}
