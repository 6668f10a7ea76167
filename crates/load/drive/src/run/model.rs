//! A virtual user's model of its account, with which every answer is compared.

use std::collections::BTreeSet;

use posthaste_load_workload::Random;
use posthaste_load_workload::corpus::Serial;

/// Names of folders the instrument makes begin so; only these are renamed and deleted.
const FOLDER_PREFIX: &str = "phl-";

/// Whether a mailbox is one that the instrument made.
pub fn is_ours(name: &str) -> bool {
    without_prefix(name).starts_with(FOLDER_PREFIX)
}

/// A name without the prefix of a server on which all folders are below INBOX (RFC 2342): Courier.
fn without_prefix(name: &str) -> &str {
    name.strip_prefix("INBOX").and_then(|rest| rest.get(1..)).unwrap_or(name)
}

/// The name of folder `n` (from 1) that `populate` fills.
pub fn folder_name(n: u32) -> String {
    format!("{FOLDER_PREFIX}folder-{n}")
}

/// One message known to be in a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message's UID.
    pub uid: u32,
    /// The message's serial number; 0 if not known.
    pub serial: Serial,
    /// The message's system flags as bits; `None` if not known.
    pub flags: Option<u8>,
}

/// `\Seen` among [`Message::flags`].
pub const SEEN: u8 = 1;
/// `\Deleted`.
pub const DELETED: u8 = 2;

/// One mailbox.
#[derive(Clone, Debug, Default)]
pub struct MailboxModel {
    /// The mailbox's name.
    pub name: String,
    /// The mailbox's UIDVALIDITY; 0 if not known.
    pub validity: u32,
    /// The number of messages in the mailbox; `None` if not known.
    pub exists: Option<u32>,
    /// The messages known, from sequence number 1 on: all of them, or a first part.
    pub messages: Vec<Message>,
    /// The number of them that a client has shown as new.
    pub shown: usize,
}

impl MailboxModel {
    /// A mailbox of which only the name is known.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// One just created, empty.
    pub fn created(name: &str) -> Self {
        Self { exists: Some(0), ..Self::named(name) }
    }

    /// Whether it is INBOX, to which other users and the outside send mail.
    pub fn is_inbox(&self) -> bool {
        self.name.eq_ignore_ascii_case("INBOX")
    }

    /// Whether every message in it is known.
    pub fn is_known(&self) -> bool {
        self.exists == Some(self.messages.len() as u32)
    }

    /// The mailbox's number of messages as far as known.
    pub fn count(&self) -> u32 {
        self.exists.unwrap_or(self.messages.len() as u32)
    }

    /// A message by UID.
    pub fn by_uid(&mut self, uid: u32) -> Option<&mut Message> {
        let at = self.messages.binary_search_by_key(&uid, |m| m.uid).ok()?;
        self.messages.get_mut(at)
    }

    /// Records a message added by COPY, MOVE or APPEND; its UID if the server reported it.
    /// In INBOX it stays unknown until it is listed: mail may have arrived between it and the last
    /// one known.
    pub fn added(&mut self, uid: Option<u32>, serial: Serial, flags: Option<u8>) {
        let known = self.is_known() && !self.is_inbox();
        self.exists = self.exists.map(|n| n.saturating_add(1));
        match uid {
            Some(uid) if known && self.messages.last().is_none_or(|m| m.uid < uid) => {
                self.messages.push(Message { uid, serial, flags });
            }
            _ => {}
        }
    }

    /// Takes note of an EXPUNGE response.
    pub fn removed(&mut self, sequence: u32) -> Option<Message> {
        let index = sequence.checked_sub(1)? as usize;
        self.exists = self.exists.map(|n| n.saturating_sub(1));
        if index >= self.messages.len() {
            return None;
        }
        if index < self.shown {
            self.shown -= 1;
        }
        Some(self.messages.remove(index))
    }
}

/// An account.
#[derive(Clone, Debug, Default)]
pub struct AccountModel {
    /// The account's mailboxes, INBOX first; empty until listed.
    pub mailboxes: Vec<MailboxModel>,
    /// The selected one.
    pub current: Option<usize>,
    /// The message chosen last, for steps that speak of the same one.
    pub same: Vec<u32>,
    /// Whether the selected mailbox was opened by EXAMINE.
    pub read_only: bool,
    /// Whether a CREATE, DELETE or RENAME failed: then the names are unknown.
    pub uncertain_names: bool,
    /// The message sent last; 0 for none.
    pub last_sent: Serial,
    /// Names of mailboxes that were selected because they were not selected before.
    pub not_fresh: BTreeSet<String>,
    /// Number of the mailbox created last.
    created: u32,
    /// The beginning of folder names on this server.
    prefix: String,
}

/// The beginning of the names of mailboxes that steps create; a number follows.
const NEW_PREFIX: &str = "phl-new-";

impl AccountModel {
    /// The selected mailbox.
    pub fn current(&mut self) -> Option<&mut MailboxModel> {
        self.mailboxes.get_mut(self.current?)
    }

    /// The selected mailbox, to look at.
    pub fn here(&self) -> Option<&MailboxModel> {
        self.mailboxes.get(self.current?)
    }

    /// Sets its mailboxes: INBOX and these.
    pub fn listed<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.mailboxes = names.map(MailboxModel::named).collect();
        let names = || self.mailboxes.iter().map(|m| m.name.as_str());
        let numbers = names().filter_map(|name| without_prefix(name).strip_prefix(NEW_PREFIX)?.parse().ok());
        self.created = numbers.chain([self.created]).max().unwrap_or_default();
        if let Some(ours) = names().find(|name| is_ours(name)) {
            let prefix = ours.strip_suffix(without_prefix(ours)).unwrap_or_default();
            self.prefix = prefix.to_owned();
        }
        self.inbox();
    }

    /// A name that no mailbox has, nor had in this run. Servers may refuse to delete two of one
    /// name within a second (Cyrus renames what is deleted after name and second).
    pub fn new_name(&mut self) -> String {
        self.created += 1;
        format!("{}{NEW_PREFIX}{}", self.prefix, self.created)
    }

    /// INBOX, made known if it was not.
    pub fn inbox(&mut self) -> usize {
        match self.mailboxes.iter().position(MailboxModel::is_inbox) {
            Some(at) => at,
            None => {
                self.mailboxes.insert(0, MailboxModel::named("INBOX"));
                self.current = self.current.map(|c| c + 1);
                0
            }
        }
    }

    /// A mailbox by name, made known if it was not.
    pub fn named(&mut self, name: &str) -> usize {
        match self.mailboxes.iter().position(|m| m.name == name) {
            Some(at) => at,
            None => {
                self.mailboxes.push(MailboxModel::named(name));
                self.mailboxes.len() - 1
            }
        }
    }

    /// A random mailbox but this one, with room below `max` messages.
    pub fn random(&self, random: &mut Random, but: Option<usize>, max: u32) -> Option<usize> {
        let fits = |(at, m): &(usize, &MailboxModel)| Some(*at) != but && m.count() < max;
        let candidates: Vec<usize> =
            self.mailboxes.iter().enumerate().filter(fits).map(|(at, _)| at).collect();
        random.pick(&candidates).copied()
    }

    /// A random mailbox that may be renamed or deleted.
    pub fn expendable(&self, random: &mut Random) -> Option<usize> {
        let fits = |(at, m): &(usize, &MailboxModel)| Some(*at) != self.current && is_ours(&m.name);
        let candidates: Vec<usize> =
            self.mailboxes.iter().enumerate().filter(fits).map(|(at, _)| at).collect();
        random.pick(&candidates).copied()
    }

    /// A mailbox of the instrument's own that was not selected as a fresh one before.
    pub fn fresh(&self) -> Option<usize> {
        self.mailboxes.iter().position(|m| is_ours(&m.name) && !self.not_fresh.contains(&m.name))
    }

    /// Forgets a mailbox.
    pub fn remove(&mut self, at: usize) -> Option<MailboxModel> {
        if at >= self.mailboxes.len() {
            return None;
        }
        self.current = match self.current {
            Some(c) if c == at => None,
            Some(c) if c > at => Some(c - 1),
            other => other,
        };
        Some(self.mailboxes.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_may_have_as_many_messages_as_a_number_can_say() {
        let mut mailbox = MailboxModel { exists: Some(u32::MAX), ..MailboxModel::named("x") };
        mailbox.added(None, 1, None);
        assert_eq!(mailbox.count(), u32::MAX);
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut account = AccountModel::default();
        account.listed(["phl-folder-90", "phl-new-7", "phl-new-12", "phl-new-x"].into_iter());
        assert_eq!(account.mailboxes[0].name, "INBOX");
        let newest = account.named("phl-new-12");
        account.remove(newest);
        assert_eq!(account.new_name(), "phl-new-13");
        account.listed(["phl-new-7"].into_iter());
        assert_eq!(account.new_name(), "phl-new-14");
    }

    #[test]
    fn folders_below_inbox_are_ours_and_so_are_new_ones() {
        let mut account = AccountModel::default();
        account.listed(["INBOX", "INBOX.Trash", "INBOX.phl-folder-1", "INBOX.phl-new-3"].into_iter());
        assert_eq!(account.new_name(), "INBOX.phl-new-4");
        assert!(is_ours("phl-folder-1") && is_ours("INBOX/phl-new-1"));
        assert!(!is_ours("INBOX") && !is_ours("INBOX.Trash") && !is_ours("INBOXphl"));
        assert_eq!(account.expendable(&mut Random::new(1, 1)).map(|at| at >= 2), Some(true));
    }

    #[test]
    fn each_mailbox_is_fresh_once() {
        let mut account = AccountModel::default();
        account.listed(["INBOX", "phl-folder-1", "Trash", "phl-folder-2"].into_iter());
        let mut names = Vec::new();
        while let Some(at) = account.fresh() {
            names.push(account.mailboxes[at].name.clone());
            account.not_fresh.insert(account.mailboxes[at].name.clone());
        }
        assert_eq!(names, ["phl-folder-1", "phl-folder-2"]);
    }

    #[test]
    fn removing_keeps_the_selection() {
        let names = ["INBOX", "phl-a", "phl-b"];
        let mailboxes = names.iter().map(|n| MailboxModel::created(n)).collect();
        let mut account = AccountModel { mailboxes, current: Some(2), ..AccountModel::default() };
        account.remove(1);
        assert_eq!(account.here().unwrap().name, "phl-b");
        assert_eq!(account.expendable(&mut Random::new(1, 1)), None);
    }

    #[test]
    fn a_mailbox_follows_what_is_added_and_removed() {
        let mut mailbox = MailboxModel::created("x");
        mailbox.added(Some(5), 50, Some(0));
        mailbox.added(Some(6), 60, None);
        assert!(mailbox.is_known());
        assert_eq!(mailbox.removed(1).unwrap().serial, 50);
        mailbox.added(None, 70, None);
        assert!(!mailbox.is_known() && mailbox.count() == 2);
    }
}
