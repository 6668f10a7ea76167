//! The differences of two lists of mailboxes, as LIST responses: RFC 5465 §5.4, §5.5.

use std::collections::{BTreeSet, HashMap, HashSet};

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

/// The responses so far, each name at most once.
struct Lines {
    made: Vec<ListData>,
    reported: BTreeSet<MailboxName>,
    max: usize,
}

impl Lines {
    /// Adds a line about a name that has none. `None` if they are too many.
    fn add(&mut self, name: &MailboxName, line: impl FnOnce() -> ListData) -> Option<()> {
        if self.reported.insert(name.clone()) {
            self.made.push(line());
        }
        (self.made.len() <= self.max).then_some(())
    }
}

impl Differences<'_> {
    /// The responses. `None` if there are more than `max`. Each name pays for the groups that it
    /// is compared with.
    ///
    /// A client may apply the lines in their order. So a name is reported as free before another
    /// mailbox takes it.
    pub(super) async fn lines(&self, max: usize, pace: &mut Pace) -> Option<Vec<ListData>> {
        let mut lines = Lines { made: Vec::new(), reported: BTreeSet::new(), max };
        let (removed, added) = self.entries(pace).await;
        let renames = self.renames((&removed, &added), max, pace).await?;
        for entry in &removed {
            pace.worked(LINE_STEPS).await;
            let is_free = self.new.find(&entry.name).is_none();
            if is_free && !renames.is_known(&entry.name) && self.wants_name(&entry.name, pace).await {
                lines.add(&entry.name, || self.absent(&entry.name))?;
            }
        }
        for Renamed { old_name, entry } in in_order(renames.reported) {
            pace.worked(LINE_STEPS).await;
            // RFC 5465 §5.4: a mailbox that was renamed comes with its old name.
            lines.add(&entry.name, || data_of(self.new, entry, &MailboxArg::from(old_name)))?;
        }
        for entry in renames.changed {
            pace.worked(LINE_STEPS).await;
            lines.add(&entry.name, || data_of(self.new, entry, &MailboxArg::from(&entry.name)))?;
        }
        let old_ids: HashSet<MailboxId> = removed.iter().map(|entry| entry.id).collect();
        for entry in &added {
            if !old_ids.contains(&entry.id) && self.wants_name(&entry.name, pace).await {
                lines.add(&entry.name, || data_of(self.new, entry, &MailboxArg::from(&entry.name)))?;
            }
        }
        let parents = removed.iter().chain(&added).filter_map(|entry| entry.name.parent());
        for parent in parents.collect::<BTreeSet<_>>() {
            pace.worked(LINE_STEPS).await;
            let differs = self.old.has_children(&parent) != self.new.has_children(&parent);
            if differs
                && self.old.find(&parent).is_some()
                && self.wants_name(&parent, pace).await
                && let Some(entry) = self.new.find(&parent)
            {
                lines.add(&parent, || data_of(self.new, entry, &MailboxArg::from(&parent)))?;
            }
        }
        let Lines { mut made, mut reported, .. } = lines;
        self.add_subscriptions(&mut made, &mut reported, pace).await;
        (made.len() <= max).then_some(made)
    }

    /// The mailboxes that have another name now. `None` if more than `max` of them have a line.
    async fn renames<'e>(
        &'e self,
        (removed, added): (&[&'e MailboxEntry], &[&'e MailboxEntry]),
        max: usize,
        pace: &mut Pace,
    ) -> Option<Renames<'e>> {
        let now: HashMap<MailboxId, &MailboxEntry> = added.iter().map(|&entry| (entry.id, entry)).collect();
        let mut renames = Renames::default();
        // They are sorted by name, so the levels above a mailbox come before it.
        for &old in removed {
            let Some(&entry) = now.get(&old.id) else { continue };
            pace.worked(LINE_STEPS + FILTER_STEPS).await;
            let is_inferred = renames.imply(&old.name, &entry.name);
            let is_changed = self.old.has_children(&old.name) != self.new.has_children(&entry.name);
            let is_wanted = (!is_inferred || is_changed) && self.wants_name(&entry.name, pace).await;
            match (is_wanted, is_inferred) {
                (false, _) => {}
                (true, true) => renames.changed.push(entry),
                (true, false) => renames.reported.push(Renamed { old_name: &old.name, entry }),
            }
            let known = (is_wanted || is_inferred).then_some(&entry.name);
            renames.known.insert(&old.name, known);
            if renames.reported.len() + renames.changed.len() > max {
                return None;
            }
        }
        Some(renames)
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

    /// A name that is no mailbox. Mailboxes below it may stay.
    fn absent(&self, name: &MailboxName) -> ListData {
        let mut attributes = vec![ListAttribute::NonExistent];
        if self.new.has_children(name) {
            attributes.push(ListAttribute::HasChildren);
        }
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

/// A mailbox, and the name that it had.
struct Renamed<'l> {
    old_name: &'l MailboxName,
    entry: &'l MailboxEntry,
}

/// The mailboxes that have another name now.
///
/// RFC 5465 §5.4: a mailbox below a renamed one has no line, as the client infers its name. It
/// has one if it did not move along.
#[derive(Default)]
struct Renames<'l> {
    /// Those with a line, by their old names.
    reported: Vec<Renamed<'l>>,
    /// Those whose name the client infers. It cannot infer that their `\HasChildren` changed.
    changed: Vec<&'l MailboxEntry>,
    /// The new names by the old ones; `None` where no line shows the new one.
    known: HashMap<&'l MailboxName, Option<&'l MailboxName>>,
}

impl Renames<'_> {
    /// Whether the client knows the new name of the mailbox that had this one.
    fn is_known(&self, old: &MailboxName) -> bool {
        self.known.get(old).is_some_and(Option::is_some)
    }

    /// Whether the line about a level above implies that `old` is `new` now. Only the nearest
    /// renamed level counts.
    fn imply(&self, old: &MailboxName, new: &MailboxName) -> bool {
        let mut levels = std::iter::successors(old.parent(), MailboxName::parent);
        let implied = levels.find_map(|level| {
            let known = *self.known.get(&level)?;
            Some(known.is_some_and(|known| below(old, &level) == below(new, known)))
        });
        implied.unwrap_or(false)
    }
}

/// The part of a name below a level.
fn below<'n>(name: &'n MailboxName, level: &MailboxName) -> Option<&'n str> {
    name.as_str().strip_prefix(level.as_str())
}

/// The renamed mailboxes in the order of their lines. One that was moved out of another renamed
/// mailbox comes before that. One whose name another mailbox took comes before that.
fn in_order(renames: Vec<Renamed<'_>>) -> Vec<Renamed<'_>> {
    let places: HashMap<&MailboxName, usize> =
        renames.iter().enumerate().map(|(place, renamed)| (renamed.old_name, place)).collect();
    let mut ordered = Vec::with_capacity(renames.len());
    let mut left: Vec<_> = renames.into_iter().map(Some).collect();
    for last in (0..left.len()).rev() {
        let (mut next, mut taken) = (Some(last), Vec::new());
        while let Some(renamed) = next.and_then(|place| left.get_mut(place)?.take()) {
            next = places.get(&renamed.entry.name).copied();
            taken.push(renamed);
        }
        ordered.extend(taken.into_iter().rev());
    }
    ordered
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

    /// Mailboxes with these numbers and names.
    fn numbered(mailboxes: &[(u64, &str)]) -> MailboxList {
        let mut list = list("x");
        let any = list.entries.swap_remove(0);
        let entry = |&(number, name): &(u64, &str)| MailboxEntry {
            id: MailboxId(Id::new(2, u128::from(number))),
            name: MailboxName::new(name).unwrap(),
            ..any.clone()
        };
        list.entries = mailboxes.iter().map(entry).collect();
        list.entries.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }

    /// The lines about the mailboxes of a filter.
    fn lines_of(filter: Filter, old: &[(u64, &str)], new: &[(u64, &str)]) -> Vec<String> {
        let (old, new) = (numbered(old), numbered(new));
        let groups = [Group { filter, events: Some(Events { names: true, ..Events::default() }) }];
        let differences = Differences { old: &old, new: &new, own: (&old, &new), groups: &groups };
        let (lines, _) = polled(differences.lines(10, &mut Pace::default()));
        let printed = |line: &ListData| {
            let was = line.old_name.as_ref().map(|old| format!(" was {}", old.text().unwrap()));
            let attributes: Vec<String> = line.attributes.iter().map(|one| format!("{one:?}")).collect();
            let name = line.mailbox.text().unwrap();
            format!("{} {name}{}", attributes.join(" "), was.unwrap_or_default())
        };
        lines.unwrap().iter().map(printed).collect()
    }

    /// RFC 5465 §5.4: OLDNAME names the mailbox that had the name before.
    #[test]
    fn a_rename_comes_before_the_mailbox_that_took_the_old_name() {
        let lines = lines_of(Filter::Personal, &[(0, "a")], &[(0, "b"), (1, "a")]);
        assert_eq!(lines, ["HasNoChildren b was a", "HasNoChildren a"]);
        let lines =
            lines_of(Filter::Personal, &[(0, "a"), (1, "b"), (2, "c")], &[(0, "d"), (1, "a"), (2, "b")]);
        assert_eq!(lines, ["HasNoChildren d was a", "HasNoChildren a was b", "HasNoChildren b was c"]);
        // No order is right for two that exchange their names. Each has its line.
        let mut lines = lines_of(Filter::Personal, &[(0, "a"), (1, "b")], &[(0, "b"), (1, "a")]);
        lines.sort();
        assert_eq!(lines, ["HasNoChildren a was b", "HasNoChildren b was a"]);
    }

    /// RFC 5465 §5.4: "No additional MailboxName events are sent for children in this case."
    #[test]
    fn mailboxes_below_a_renamed_one_have_no_line() {
        let lines = lines_of(
            Filter::Personal,
            &[(0, "a"), (1, "a b"), (2, "a/b"), (3, "a/b/c"), (4, "a/d/e")],
            &[(0, "z"), (1, "a b"), (2, "z/b"), (3, "z/b/c"), (4, "z/d/e")],
        );
        assert_eq!(lines, ["HasChildren z was a"]);
        // However many they are.
        let (mut old, mut new) = (list("a"), list("b"));
        for (list, name) in [(&mut old, "a"), (&mut new, "b")] {
            let top = MailboxEntry {
                id: MailboxId(Id::new(3, 0)),
                name: MailboxName::new(name).unwrap(),
                ..list.entries[0].clone()
            };
            list.entries.insert(0, top);
        }
        let events = Some(Events { names: true, ..Events::default() });
        let groups = [Group { filter: Filter::Personal, events }];
        let differences = Differences { old: &old, new: &new, own: (&old, &new), groups: &groups };
        let (lines, _) = polled(differences.lines(1, &mut Pace::default()));
        assert_eq!(lines.unwrap().len(), 1);
    }

    #[test]
    fn a_deleted_mailbox_may_leave_mailboxes_below_it() {
        let lines = lines_of(Filter::Personal, &[(0, "a"), (1, "a/b")], &[(1, "a/b")]);
        assert_eq!(lines, ["NonExistent HasChildren a"]);
    }

    #[test]
    fn what_a_client_cannot_infer_from_the_line_above_has_its_own() {
        // One was moved out of `a`, one is removed, and one has children now.
        let old = [(0, "a"), (1, "a/b"), (2, "a/b/c"), (3, "a/d"), (4, "a/e")];
        let new = [(0, "z"), (1, "y"), (2, "y/c"), (4, "z/e"), (5, "z/e/f")];
        let expected = [
            "NonExistent a/d",
            "HasChildren y was a/b",
            "HasChildren z was a",
            "HasChildren z/e",
            "HasNoChildren z/e/f",
        ];
        assert_eq!(lines_of(Filter::Personal, &old, &new), expected);
        // The line above is not for this client.
        let only = Filter::Mailboxes(BTreeSet::from([MailboxName::new("z/e").unwrap()]));
        assert_eq!(lines_of(only, &old, &new), ["HasChildren z/e was a/e"]);
    }
}
