//! LSUB: RFC 3501 §6.3.9. IMAP4rev2 removed it, but clients of rev1 still use it. RLSUB shows
//! mailboxes of other servers, too (RFC 2193 §5.2).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use posthaste_imap_codec::command::ListSelection;
use posthaste_imap_codec::response::{ListAttribute, ListData, Untagged};
use posthaste_imap_codec::{ListMatcher, ListPattern, MailboxArg, Tag};
use posthaste_mail_model::{MailboxName, SEPARATOR};
use posthaste_net::BytePermit;
use posthaste_store::MailboxList;

use super::DONE;
use super::list::{
    CountedNames, DERIVED_MAX, INLINE_NAMES_MAX, NAME_BYTES, NAME_STEPS, Stepwise, in_pieces, parents, pay,
    too_many_levels,
};
use crate::freed::free;
use crate::heavy::SLICE_STEPS;
use crate::list_memory::Levels;
use crate::listed::print_lines;
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// The names that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LsubNames {
    /// Subscriptions here: LSUB.
    Local,
    /// Mailboxes of other servers, too: RLSUB.
    Everywhere,
}

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    (reference, pattern): (&MailboxArg, &ListPattern),
    shown: LsubNames,
) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let reading = Box::pin(asker.service.store.list(asker.login.id));
    let mut mailboxes = wire.reporting(reports, reading).await?;
    if shown == LsubNames::Everywhere {
        let mut all = MailboxList::clone(&mailboxes);
        all.subscribed.extend(referred::names(session.login()?));
        mailboxes = Arc::new(all);
    }
    let (reference, pattern) = (reference.text()?, pattern.text()?);
    let mut found = subscribed(session, tag, mailboxes, (reference, pattern)).await?;
    // The lines are made one by one: each has a copy of its name.
    let lines = std::iter::from_fn(|| {
        let (name, itself) = found.names.pop_first()?;
        // A name that is not subscribed itself is above others.
        Some(line(&name, if itself { &[] } else { &[ListAttribute::NoSelect] }))
    });
    print_lines(&mut session.wire, lines).await?;
    Ok(DONE)
}

/// The names of LSUB (RFC 3501 §6.3.9): subscribed names, and for a pattern with `%` the levels
/// that represent the names below them.
async fn subscribed(
    session: &mut Session,
    tag: &Tag,
    list: Arc<MailboxList>,
    (reference, pattern): (&str, &str),
) -> Result<Subscribed, Failure> {
    let mut found = Subscribed::new(list, reference, pattern);
    let subscribed = if found.shows_levels { Levels::Shown } else { Levels::LeftOut };
    let names = CountedNames { list: &found.list, entries: None, subscribed };
    let paid = pay(session, tag, None, names).await?;
    found.paid = paid;
    if found.list.subscribed.len() <= INLINE_NAMES_MAX
        && found.list.subscribed.iter().map(|name| found.steps(name)).sum::<u64>() <= SLICE_STEPS
    {
        while found.step()?.is_some() {}
        return Ok(found);
    }
    let (service, account) = (Arc::clone(&session.service), session.login()?.id);
    let work = in_pieces(&service, account, found);
    let reports = service.reports(tag);
    Box::pin(session.wire.while_reporting(reports, work)).await?
}

/// The line of a name.
fn line(name: &MailboxName, attributes: &[ListAttribute]) -> Untagged {
    Untagged::Lsub(ListData {
        attributes: attributes.to_vec(),
        separator: Some(SEPARATOR),
        mailbox: MailboxArg::from(name),
        child_info: ListSelection::default(),
        old_name: None,
    })
}

/// Finds the names that LSUB shows, one subscription in each step.
struct Subscribed {
    list: Arc<MailboxList>,
    matcher: ListMatcher,
    words: u64,
    /// The pattern may show levels above subscriptions.
    shows_levels: bool,
    /// The name of the last step.
    last: Option<MailboxName>,
    /// The names of the answer, and whether each is a subscription itself.
    names: BTreeMap<MailboxName, bool>,
    /// Levels that were looked at.
    seen: BTreeSet<MailboxName>,
    /// Memory for all of them.
    paid: Option<BytePermit>,
}

impl Drop for Subscribed {
    /// Sixty thousand names are not freed on the session's thread.
    fn drop(&mut self) {
        let bytes = (self.names.len() + self.seen.len()) * NAME_BYTES;
        let names = (std::mem::take(&mut self.names), std::mem::take(&mut self.seen));
        free((names, self.paid.take()), bytes);
    }
}

impl Subscribed {
    fn new(list: Arc<MailboxList>, reference: &str, pattern: &str) -> Self {
        Self {
            list,
            matcher: ListMatcher::new(reference, pattern),
            words: ((reference.len() + pattern.len()) / 64 + 1) as u64,
            shows_levels: reference.contains('%') || pattern.contains('%'),
            last: None,
            names: BTreeMap::new(),
            seen: BTreeSet::new(),
            paid: None,
        }
    }

    /// The most steps that a name takes.
    fn steps(&self, name: &MailboxName) -> u64 {
        let levels = 1 + name.as_str().matches(SEPARATOR).count() as u64;
        (NAME_STEPS + name.as_str().len() as u64 * self.words) * levels
    }
}

impl Stepwise for Subscribed {
    fn step(&mut self) -> Result<Option<u64>, Failure> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let Some(name) = self.list.subscribed.range((after, Bound::Unbounded)).next().cloned() else {
            self.seen = BTreeSet::new();
            return Ok(None);
        };
        let steps = self.steps(&name);
        if self.matcher.matches(name.as_str()) {
            self.names.insert(name.clone(), true);
        } else if self.shows_levels {
            // A level that was added has its parents added too.
            for parent in parents(&name).take_while(|parent| self.seen.insert(parent.clone())) {
                if self.matcher.matches(parent.as_str()) {
                    self.names.entry(parent).or_insert(false);
                }
            }
            if self.seen.len() > DERIVED_MAX {
                return Err(too_many_levels());
            }
        }
        self.last = Some(name);
        Ok(Some(steps))
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{AccountId, Id};

    use super::super::list::HEAVY_STEPS;
    use super::*;

    #[test]
    fn lsub_takes_a_step_for_each_subscription() {
        let mut list = MailboxList::empty(AccountId(Id::new(1, 1)));
        for n in 0..300 {
            list.subscribed.insert(MailboxName::new(&format!("s{n}{}", "/l".repeat(31))).unwrap());
        }
        let mut found = Subscribed::new(Arc::new(list), "", "s1%");
        let mut count = 0;
        while let Some(steps) = found.step().unwrap() {
            assert!(steps < HEAVY_STEPS / 100, "a piece has many names: {steps}");
            count += 1;
        }
        assert_eq!(count, 300);
        assert_eq!(found.names.len(), 111, "s1, s10 to s19, s100 to s199");
        assert!(found.names.values().all(|itself| !itself));
    }
}
