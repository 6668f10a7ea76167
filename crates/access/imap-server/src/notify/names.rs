//! What differs between two lists of mailboxes, as LIST responses: RFC 5465 §5.4, §5.5.

use std::collections::{BTreeSet, HashMap};

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{ListAttribute, ListData};
use posthaste_mail_model::{MailboxId, MailboxName, SEPARATOR};
use posthaste_store::{MailboxEntry, MailboxList};

use super::{Group, group_of};
use crate::listed::data_of;

/// Steps of comparing one name of each list.
pub(super) const NAME_STEPS: u64 = 300;

/// The differences of two lists that are wanted.
pub(super) struct Differences<'l> {
    pub(super) old: &'l MailboxList,
    pub(super) new: &'l MailboxList,
    pub(super) groups: &'l [Group],
}

impl Differences<'_> {
    /// The responses, each name at most once.
    pub(super) fn lines(&self) -> Vec<ListData> {
        let mut lines = Vec::new();
        let mut told = BTreeSet::new();
        let (gone, come) = self.entries();
        let old_names: HashMap<MailboxId, &MailboxName> = gone.iter().map(|e| (e.id, &e.name)).collect();
        let new_ids: BTreeSet<MailboxId> = come.iter().map(|e| e.id).collect();
        for entry in &come {
            if !self.wants_name(&entry.name) {
                continue;
            }
            // RFC 5465 §5.4: a mailbox that was renamed comes with its old name.
            let old_name = old_names.get(&entry.id).copied().unwrap_or(&entry.name);
            lines.push(data_of(self.new, entry, &MailboxArg::from(old_name)));
            told.insert(entry.name.clone());
        }
        for entry in &gone {
            // An old name is told by OLDNAME, if the new one may be told.
            let renamed = new_ids.contains(&entry.id)
                && come.iter().any(|new| new.id == entry.id && self.wants_name(&new.name));
            let is_free = self.new.find(&entry.name).is_none();
            if is_free && !renamed && self.wants_name(&entry.name) && told.insert(entry.name.clone()) {
                lines.push(self.absent(&entry.name));
            }
        }
        let parents = gone.iter().chain(&come).filter_map(|entry| entry.name.parent());
        for parent in parents.collect::<BTreeSet<_>>() {
            let differs = self.old.has_children(&parent) != self.new.has_children(&parent);
            if differs
                && self.old.find(&parent).is_some()
                && self.wants_name(&parent)
                && let Some(entry) = self.new.find(&parent)
                && told.insert(parent.clone())
            {
                lines.push(data_of(self.new, entry, &MailboxArg::from(&parent)));
            }
        }
        for name in self.old.subscribed.symmetric_difference(&self.new.subscribed) {
            let group =
                group_of(self.groups, name, self.new).or_else(|| group_of(self.groups, name, self.old));
            if group.is_some_and(|group| group.subscriptions) && told.insert(name.clone()) {
                lines.push(match self.new.find(name) {
                    Some(entry) => data_of(self.new, entry, &MailboxArg::from(name)),
                    None => self.absent(name),
                });
            }
        }
        lines
    }

    /// Entries of the old list that the new one has not, and the reverse. Both are in order of
    /// their names, so that one pass finds them.
    fn entries(&self) -> (Vec<&MailboxEntry>, Vec<&MailboxEntry>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let (mut old, mut new) = (self.old.entries.iter().peekable(), self.new.entries.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return (gone, come),
                (Some(a), Some(b)) if a.name == b.name => {
                    if a.id != b.id {
                        gone.push(*a);
                        come.push(*b);
                    }
                    old.next();
                    new.next();
                }
                (Some(a), b) if b.is_none_or(|b| a.name < b.name) => gone.extend(old.next()),
                _ => come.extend(new.next()),
            }
        }
    }

    fn wants_name(&self, name: &MailboxName) -> bool {
        group_of(self.groups, name, self.new).is_some_and(|group| group.names)
    }

    /// A name that is no mailbox.
    fn absent(&self, name: &MailboxName) -> ListData {
        let mut attributes = vec![ListAttribute::NonExistent];
        if self.new.subscribed.contains(name) {
            attributes.push(ListAttribute::Subscribed);
        }
        ListData {
            attributes,
            separator: Some(SEPARATOR),
            mailbox: MailboxArg::from(name),
            child_info: posthaste_imap_codec::command::ListSelection::default(),
            old_name: None,
        }
    }
}
