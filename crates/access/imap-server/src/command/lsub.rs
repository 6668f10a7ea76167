//! LSUB: RFC 3501 §6.3.9. IMAP4rev2 removed it, but clients of rev1 still use it. RLSUB shows
//! mailboxes of other servers, too (RFC 2193 §5.2).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use posthaste_imap_codec::command::ListSelection;
use posthaste_imap_codec::response::{ListAttribute, ListData, Untagged};
use posthaste_imap_codec::{ListMatcher, ListPattern, MailboxArg, Tag};
use posthaste_mail_model::{MailboxName, SEPARATOR};
use posthaste_store::MailboxList;

use super::DONE;
use super::list::{DERIVED_MAX, INLINE_NAMES_MAX, NAME_STEPS, Stepwise, in_pieces, parents, too_many_levels};
use crate::heavy::SLICE_STEPS;
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
    let lines = subscribed(session, tag, mailboxes, (reference, pattern)).await?;
    print_lines(&mut session.wire, lines.into_iter().map(Untagged::Lsub)).await?;
    Ok(DONE)
}

/// The lines of LSUB (RFC 3501 §6.3.9): subscribed names, and for a pattern with `%` the levels
/// that represent the names below them.
async fn subscribed(
    session: &mut Session,
    tag: &Tag,
    list: Arc<MailboxList>,
    (reference, pattern): (&str, &str),
) -> Result<Vec<ListData>, Failure> {
    let mut found = Subscribed::new(list, reference, pattern);
    if found.list.subscribed.len() <= INLINE_NAMES_MAX
        && found.list.subscribed.iter().map(|name| found.steps(name)).sum::<u64>() <= SLICE_STEPS
    {
        while found.step()?.is_some() {}
        return Ok(found.lines());
    }
    let (service, account) = (Arc::clone(&session.service), session.login()?.id);
    let work = async {
        let found = in_pieces(&service, account, found).await?;
        service.heavy.run(account, move || found.lines()).await
    };
    let reports = service.reports(tag);
    Box::pin(session.wire.while_reporting(reports, work)).await?
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
        }
    }

    /// The most steps that a name takes.
    fn steps(&self, name: &MailboxName) -> u64 {
        let levels = 1 + name.as_str().matches(SEPARATOR).count() as u64;
        (NAME_STEPS + name.as_str().len() as u64 * self.words) * levels
    }

    fn lines(self) -> Vec<ListData> {
        let data = |(name, itself): (MailboxName, bool)| ListData {
            attributes: if itself { Vec::new() } else { vec![ListAttribute::NoSelect] },
            separator: Some(SEPARATOR),
            mailbox: MailboxArg::from(&name),
            child_info: ListSelection::default(),
            old_name: None,
        };
        self.names.into_iter().map(data).collect()
    }
}

impl Stepwise for Subscribed {
    fn step(&mut self) -> Result<Option<u64>, Failure> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let Some(name) = self.list.subscribed.range((after, Bound::Unbounded)).next().cloned() else {
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
        let lines = found.lines();
        assert_eq!(lines.len(), 111, "s1, s10 to s19, s100 to s199");
        assert!(lines.iter().all(|line| line.attributes == [ListAttribute::NoSelect]));
    }
}
