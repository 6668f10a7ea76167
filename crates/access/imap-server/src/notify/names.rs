//! The differences of two lists of mailboxes, as LIST responses: RFC 5465 §5.4, §5.5.

use std::collections::{BTreeSet, HashMap};

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{ListAttribute, ListData};
use posthaste_mail_model::{MailboxId, MailboxName, SEPARATOR};
use posthaste_store::{MailboxEntry, MailboxList};

use super::group::{Group, events_of};
use crate::heavy::Pace;
use crate::listed::data_of;
use crate::mailbox_filter::FILTER_STEPS;

/// Steps of comparing one name of each list.
const NAME_STEPS: u64 = 300;

/// Steps of looking names up in both lists and of making a line.
const LINE_STEPS: u64 = 1000;

/// The differences of two lists that are wanted.
pub(super) struct Differences<'l> {
    pub(super) old: &'l MailboxList,
    pub(super) new: &'l MailboxList,
    /// The user's own lists then and now.
    pub(super) own: (&'l MailboxList, &'l MailboxList),
    pub(super) groups: &'l [Group],
}

impl Differences<'_> {
    /// The responses, each name at most once. `None` if there are more than `max`. Each name pays
    /// for the groups that it is compared with.
    pub(super) async fn lines(&self, max: usize, pace: &mut Pace) -> Option<Vec<ListData>> {
        let mut lines = Vec::new();
        let mut reported = BTreeSet::new();
        let (removed, added) = self.entries(pace).await;
        let old_names: HashMap<MailboxId, &MailboxName> = removed.iter().map(|e| (e.id, &e.name)).collect();
        // The new mailboxes, and whether the client may see their names.
        let mut visible: HashMap<MailboxId, bool> = HashMap::with_capacity(added.len());
        // A rename frees a name, and a new mailbox may take it. A client that applies the lines in
        // their order keeps both only if the rename comes first.
        let has_old_name = |entry: &&&MailboxEntry| old_names.contains_key(&entry.id);
        let (renamed, created): (Vec<_>, Vec<_>) = added.iter().partition(has_old_name);
        for entry in renamed.into_iter().chain(created) {
            let is_wanted = self.wants_name(&entry.name, pace).await;
            visible.insert(entry.id, is_wanted);
            if !is_wanted {
                continue;
            }
            // RFC 5465 §5.4: a mailbox that was renamed comes with its old name.
            let old_name = old_names.get(&entry.id).copied().unwrap_or(&entry.name);
            lines.push(data_of(self.new, entry, &MailboxArg::from(old_name)));
            reported.insert(entry.name.clone());
            if lines.len() > max {
                return None;
            }
        }
        for entry in &removed {
            // OLDNAME reports an old name, if the client may see the new one.
            let is_renamed = visible.get(&entry.id).copied().unwrap_or(false);
            let is_free = self.new.find(&entry.name).is_none();
            if is_free
                && !is_renamed
                && self.wants_name(&entry.name, pace).await
                && reported.insert(entry.name.clone())
            {
                lines.push(self.absent(&entry.name));
                if lines.len() > max {
                    return None;
                }
            }
            pace.worked(LINE_STEPS).await;
        }
        let parents = removed.iter().chain(&added).filter_map(|entry| entry.name.parent());
        for parent in parents.collect::<BTreeSet<_>>() {
            pace.worked(LINE_STEPS).await;
            let differs = self.old.has_children(&parent) != self.new.has_children(&parent);
            if differs
                && self.old.find(&parent).is_some()
                && self.wants_name(&parent, pace).await
                && let Some(entry) = self.new.find(&parent)
                && reported.insert(parent.clone())
            {
                lines.push(data_of(self.new, entry, &MailboxArg::from(&parent)));
            }
        }
        self.add_subscriptions(&mut lines, &mut reported, pace).await;
        (lines.len() <= max).then_some(lines)
    }

    /// Adds the names whose subscription has changed.
    async fn add_subscriptions(
        &self,
        lines: &mut Vec<ListData>,
        reported: &mut BTreeSet<MailboxName>,
        pace: &mut Pace,
    ) {
        for name in self.old.subscribed.symmetric_difference(&self.new.subscribed) {
            pace.worked(2 * self.groups_steps()).await;
            // The filter SUBSCRIBED contains the mailbox before the change or after it.
            let is_wanted = |own| events_of(self.groups, name, own).subscriptions;
            if (is_wanted(self.own.1) || is_wanted(self.own.0)) && reported.insert(name.clone()) {
                lines.push(match self.new.find(name) {
                    Some(entry) => data_of(self.new, entry, &MailboxArg::from(name)),
                    None => self.absent(name),
                });
            }
        }
    }

    /// Entries that only the old list has, and those that only the new one has. Both lists are
    /// sorted by name, so that one pass finds them.
    async fn entries(&self, pace: &mut Pace) -> (Vec<&MailboxEntry>, Vec<&MailboxEntry>) {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let (mut old, mut new) = (self.old.entries.iter().peekable(), self.new.entries.iter().peekable());
        loop {
            pace.worked(NAME_STEPS).await;
            match (old.peek(), new.peek()) {
                (None, None) => return (removed, added),
                (Some(a), Some(b)) if a.name == b.name => {
                    if a.id != b.id {
                        removed.push(*a);
                        added.push(*b);
                    }
                    old.next();
                    new.next();
                }
                (Some(a), b) if b.is_none_or(|b| a.name < b.name) => removed.extend(old.next()),
                _ => added.extend(new.next()),
            }
        }
    }

    async fn wants_name(&self, name: &MailboxName, pace: &mut Pace) -> bool {
        pace.worked(LINE_STEPS + self.groups_steps()).await;
        events_of(self.groups, name, self.own.1).names
    }

    fn groups_steps(&self) -> u64 {
        FILTER_STEPS * self.groups.len() as u64
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use posthaste_mail_model::{AccountId, Id, UidValidity};

    use super::super::group::Events;
    use super::*;
    use crate::heavy::SLICE_STEPS;
    use crate::mailbox_filter::Filter;

    const NAMES: u64 = 400;

    fn list(parent: &str) -> MailboxList {
        let mut list = MailboxList::empty(AccountId(Id::new(1, 1)));
        for n in 0..NAMES {
            list.entries.push(MailboxEntry {
                id: MailboxId(Id::new(2, u128::from(n))),
                name: MailboxName::new(&format!("{parent}/{n:04}")).unwrap(),
                uid_validity: UidValidity::new(1).unwrap(),
                special_use: None,
            });
        }
        list
    }

    /// The result of the future, and the number of its polls.
    fn polled<T>(work: impl Future<Output = T>) -> (T, u64) {
        let mut work = pin!(work);
        for polls in 1.. {
            if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return (value, polls);
            }
        }
        unreachable!("the loop has no end")
    }

    #[test]
    fn a_renamed_parent_is_compared_in_pieces() {
        let (old, new) = (list("a"), list("b"));
        let events = Some(Events { names: true, ..Events::default() });
        let group = |filter| Group { filter, events };
        let mut groups: Vec<Group> = (0..63).map(|_| group(Filter::Mailboxes(BTreeSet::new()))).collect();
        groups.push(group(Filter::Personal));
        let differences = Differences { old: &old, new: &new, own: (&old, &new), groups: &groups };
        let mut pace = Pace::default();
        let (lines, polls) = polled(differences.lines(NAMES as usize, &mut pace));
        assert_eq!(lines.unwrap().len() as u64, NAMES, "each once, under its new name");
        assert!(polls > NAMES * 64 * FILTER_STEPS / SLICE_STEPS / 2, "{polls} polls");
        let (lines, fewer) = polled(differences.lines(10, &mut Pace::default()));
        assert!(lines.is_none() && fewer < polls / 2, "too many are found early: {fewer} polls");
    }

    /// RFC 5465 §5.4: OLDNAME names the mailbox that had the name before.
    #[test]
    fn a_rename_comes_before_the_mailbox_that_took_the_old_name() {
        let (mut old, mut new) = (list("x"), list("x"));
        let named = |name: &str, of: &MailboxEntry| MailboxEntry {
            name: MailboxName::new(name).unwrap(),
            ..of.clone()
        };
        old.entries = vec![named("a", &old.entries[0])];
        new.entries = vec![named("a", &new.entries[1]), named("b", &new.entries[0])];
        let events = Some(Events { names: true, ..Events::default() });
        let groups = [Group { filter: Filter::Personal, events }];
        let differences = Differences { old: &old, new: &new, own: (&old, &new), groups: &groups };
        let (lines, _) = polled(differences.lines(10, &mut Pace::default()));
        let lines = lines.unwrap();
        let names = |line: &ListData| (line.mailbox.clone(), line.old_name.clone());
        let named = MailboxArg::from_text;
        assert_eq!(
            lines.iter().map(names).collect::<Vec<_>>(),
            [(named("b"), Some(named("a"))), (named("a"), None)]
        );
    }
}
