//! OBJECTID+ (draft-ietf-mailmaint-imap-objectid-bis-06): ids in one list, the ids of accounts, and
//! SELECT by ids. In comments of this crate, "draft 06" is that draft.
//!
//! The first use of the extension activates it, and `* ENABLED OBJECTID+` comes before the answer
//! (§2.2). Until then, clients of RFC 8474 get what that has.
//!
//! The id of an account stays the same whatever its name becomes. It has the time at which it was
//! made and 80 random bits (§14.2). A user sees the ids of other accounts only with mailboxes in
//! which the user has rights (§14.3).

use posthaste_imap_codec::ObjectIds;
use posthaste_mail_model::{AccountId, Id, MailboxId};

use crate::enabled::Enabled;
use crate::wire::Wire;

/// Before the id of an account. §11.1: an id should begin with a letter.
const ACCOUNT: char = 'u';

/// Activates the extension. The client is notified once (§2.2).
pub(crate) fn activate(wire: &mut Wire, enabled: &mut Enabled) {
    if !std::mem::replace(&mut enabled.object_ids, true) {
        wire.say_line(&["* ENABLED OBJECTID+"]);
    }
}

/// The ids of a mailbox: SELECT, CREATE, RENAME and STATUS (§3). A level that is no mailbox, and
/// was renamed, has only an account.
pub(crate) fn of_mailbox(owner: AccountId, mailbox: Option<MailboxId>) -> ObjectIds {
    let mut ids = Vec::with_capacity(2);
    ids.extend(mailbox.map(|mailbox| ("MAILBOXID".to_owned(), mailbox.to_string())));
    ids.push(("ACCOUNTID".to_owned(), format!("{ACCOUNT}{owner}")));
    ObjectIds(ids)
}

/// The ids by which a client selects a mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WantedMailbox {
    /// The mailbox.
    pub(crate) mailbox: MailboxId,
    /// Its owner. Without it, the id of the mailbox suffices: it is unique in the server.
    pub(crate) owner: Option<AccountId>,
}

impl WantedMailbox {
    /// The ids of SELECT and EXAMINE (§7.1). `None` if no mailbox can have them.
    pub(crate) fn of(ids: &ObjectIds) -> Option<Self> {
        let mailbox = MailboxId(Id::parse(ids.id("MAILBOXID")?)?);
        let owner = match ids.id("ACCOUNTID") {
            Some(text) => Some(AccountId(Id::parse(text.strip_prefix(ACCOUNT)?)?)),
            None => None,
        };
        Some(Self { mailbox, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_printed() {
        let (owner, mailbox) = (AccountId(Id::new(7, 9)), MailboxId(Id::new(8, 10)));
        let ids = of_mailbox(owner, Some(mailbox));
        assert_eq!(WantedMailbox::of(&ids), Some(WantedMailbox { mailbox, owner: Some(owner) }));
        let is_valid = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric());
        assert!(ids.0.iter().all(|(_, id)| is_valid(id)), "{ids:?}");
        assert_eq!(WantedMailbox::of(&of_mailbox(owner, None)), None);
        let alone = ObjectIds(ids.0[..1].to_vec());
        assert_eq!(WantedMailbox::of(&alone), Some(WantedMailbox { mailbox, owner: None }));
    }

    #[test]
    fn ids_that_nothing_has() {
        let (mailbox, account) =
            (MailboxId(Id::new(8, 10)).to_string(), AccountId(Id::new(7, 9)).to_string());
        let (mailbox, capitals) = (mailbox.as_str(), mailbox.to_ascii_uppercase());
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, id)| ((*key).to_owned(), (*id).to_owned()));
            WantedMailbox::of(&ObjectIds(pairs.collect()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("MAILBOXID", "F1")]), None);
        // Ids are compared with regard to case (§10).
        assert_eq!(of(&[("MAILBOXID", capitals.as_str())]), None);
        for account in ["u", "u1a48e8e3", account.as_str()] {
            assert_eq!(of(&[("MAILBOXID", mailbox), ("ACCOUNTID", account)]), None, "{account}");
        }
        // Keys that are unknown are passed over.
        assert!(of(&[("X-NEW", "1"), ("MAILBOXID", mailbox), ("EMAILID", "2")]).is_some());
    }
}
