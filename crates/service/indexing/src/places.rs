//! Where the segments of a mailbox are: in a mailbox of their own, whose id is the mailbox's with
//! its first bit set. Ids begin with a time, whose first bit is 0 until the year 6429.
//!
//! Segments are in a hidden mailbox of an account that has no record: the only mailbox of the
//! account with the same id. So no client can log in to it or list it. A record of the directory
//! names the mailboxes that have segments.

use posthaste_mail_model::{AccountId, Id, MailboxId};

/// The first bit of an id.
const FIRST_BIT: u8 = 0x80;

/// Names of records that say which mailboxes have segments.
pub(crate) const MARKERS: &str = "search-index/";

/// The mailbox with the segments of this one.
pub(crate) fn of(mailbox: MailboxId) -> MailboxId {
    MailboxId(with_first_bit(mailbox.0))
}

/// Whether this is a mailbox with segments of another.
pub(crate) fn is_place(mailbox: MailboxId) -> bool {
    of(mailbox) == mailbox
}

/// The account that has nothing but that mailbox.
pub(crate) fn account(mailbox: MailboxId) -> AccountId {
    AccountId(with_first_bit(mailbox.0))
}

/// The record that says that this mailbox has segments.
pub(crate) fn marker(mailbox: MailboxId) -> String {
    format!("{MARKERS}{}", mailbox.0)
}

/// The mailbox of such a record.
pub(crate) fn marked(name: &str) -> Option<MailboxId> {
    Id::parse(name.strip_prefix(MARKERS)?).map(MailboxId)
}

fn with_first_bit(id: Id) -> Id {
    let mut bytes = id.to_bytes();
    if let Some(first) = bytes.first_mut() {
        *first |= FIRST_BIT;
    }
    Id::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_has_a_place_that_no_other_id_has() {
        let mailbox = MailboxId(Id::new(1_800_000_000_000, 7));
        assert!(is_place(of(mailbox)) && !is_place(mailbox));
        assert_eq!(account(mailbox).0, of(mailbox).0);
        assert_eq!(marked(&marker(mailbox)), Some(mailbox));
        assert_eq!(marked("search-index/x"), None);
    }
}
