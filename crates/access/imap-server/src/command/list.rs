//! LIST in its basic and extended forms: RFC 9051 §6.3.9, RFC 5258, RFC 5819 (STATUS), RFC 6154 (SPECIAL-USE).
//!
//! Names come from three sources: mailboxes; levels above mailboxes that are none themselves; subscriptions, whose
//! names need not exist. They are gathered in one sorted pass, then each is asked whether it is selected.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_imap_codec::command::{ListArgs, ListSelection, ListSyntax, StatusItem};
use posthaste_imap_codec::response::{ListAttribute, ListData, Untagged};
use posthaste_imap_codec::{ListMatcher, MailboxArg};
use posthaste_mail_model::{MailboxName, SEPARATOR};
use posthaste_store::{MailboxEntry, MailboxList};

use super::{DONE, mailboxes, status};
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// Mailboxes whose heads are read at once for RETURN (STATUS).
const STATUS_BATCH: usize = 64;

pub(super) async fn run(session: &mut Session, args: &ListArgs) -> Result<Reply, Failure> {
    if asks_separator(args) {
        session.wire.out().extend_from_slice(b"* LIST (\\Noselect) \"/\" \"\"\r\n");
        return Ok(DONE);
    }
    let account = session.login()?.id;
    let list = session.service.store.list(account).await?;
    let found = select(&list, args);
    if args.returns.status.is_empty() {
        for one in found {
            session.wire.say(Untagged::List(one.data));
            session.wire.relieve().await?;
        }
        return Ok(DONE);
    }
    for batch in found.chunks(STATUS_BATCH) {
        tell_with_status(session, batch, &args.returns.status).await?;
    }
    Ok(DONE)
}

/// `LIST "" ""`: RFC 9051 §6.3.9, basic syntax only.
fn asks_separator(args: &ListArgs) -> bool {
    args.syntax == ListSyntax::Basic && args.patterns.iter().all(|pattern| pattern.text() == Ok(""))
}

/// RFC 5819: STATUS after the LIST of each mailbox that can be selected.
async fn tell_with_status(
    session: &mut Session,
    batch: &[Found<'_>],
    items: &[StatusItem],
) -> Result<(), Failure> {
    let ids: Vec<_> = batch.iter().filter_map(|one| one.entry).map(|entry| entry.id).collect();
    let mut heads = session.service.store.status(&ids).await?.into_iter();
    for one in batch {
        session.wire.say(Untagged::List(one.data.clone()));
        if let Some(entry) = one.entry
            && let Some(Some(head)) = heads.next()
        {
            status::tell(session, entry, &head, items).await?;
        }
        session.wire.relieve().await?;
    }
    Ok(())
}

/// One line of the answer.
pub(super) struct Found<'l> {
    data: ListData,
    entry: Option<&'l MailboxEntry>,
}

/// What is known of a name.
#[derive(Default)]
struct Known<'l> {
    entry: Option<&'l MailboxEntry>,
    subscribed: bool,
    /// Below it are mailboxes, names that are subscribed, mailboxes with a special use.
    has_children: bool,
    below: ListSelection,
}

/// The lines of the answer, in order of their names.
pub(super) fn select<'l>(list: &'l MailboxList, args: &ListArgs) -> Vec<Found<'l>> {
    let reference = args.reference.text().unwrap_or_default();
    let mut matchers: Vec<ListMatcher> = args
        .patterns
        .iter()
        .filter_map(|pattern| pattern.text().ok())
        .map(|pattern| ListMatcher::new(reference, pattern))
        .collect();
    known_names(list)
        .iter()
        .filter(|(name, _)| matchers.iter_mut().any(|matcher| matcher.matches(name.as_str())))
        .filter_map(|(name, known)| line(name, known, args))
        .collect()
}

/// Every name there is something to say of.
fn known_names(list: &MailboxList) -> BTreeMap<MailboxName, Known<'_>> {
    let mut names: BTreeMap<MailboxName, Known<'_>> = BTreeMap::new();
    for entry in &list.entries {
        names.entry(entry.name.clone()).or_default().entry = Some(entry);
        let special = entry.special_use.is_some();
        for parent in parents(&entry.name) {
            let parent = names.entry(parent).or_default();
            parent.has_children = true;
            parent.below.special_use |= special;
        }
    }
    for name in &list.subscribed {
        names.entry(name.clone()).or_default().subscribed = true;
        for parent in parents(name) {
            names.entry(parent).or_default().below.subscribed = true;
        }
    }
    names
}

fn parents(name: &MailboxName) -> impl Iterator<Item = MailboxName> {
    std::iter::successors(name.parent(), MailboxName::parent)
}

/// The line of a name, if it is selected: RFC 5258 §3.1.
fn line<'l>(name: &MailboxName, known: &Known<'l>, args: &ListArgs) -> Option<Found<'l>> {
    let want = args.selection;
    let special = known.entry.is_some_and(|entry| entry.special_use.is_some());
    let itself = if want.subscribed || want.special_use {
        (!want.subscribed || known.subscribed) && (!want.special_use || special)
    } else {
        // Levels that are only there for what is below them are shown; names that are only subscribed are not.
        known.entry.is_some() || known.has_children
    };
    // RFC 5258 §3.5: with RECURSIVEMATCH, parents of what is selected, and which option selects it there.
    let child_info = ListSelection {
        subscribed: want.recursive_match && want.subscribed && known.below.subscribed,
        special_use: want.recursive_match && want.special_use && known.below.special_use,
        ..ListSelection::default()
    };
    let below = child_info.subscribed || child_info.special_use;
    (itself || below).then(|| Found {
        data: ListData { child_info, ..told(name, known, args.returns.subscribed || want.subscribed) },
        entry: known.entry,
    })
}

/// A name with its attributes: RFC 9051 §7.3.1. Children and special uses are told unasked, as clients expect.
fn told(name: &MailboxName, known: &Known<'_>, subscriptions: bool) -> ListData {
    let mut attributes = Vec::with_capacity(4);
    if known.entry.is_none() {
        // RFC 5258 §3: implies \Noselect, which clients of RFC 3501 know it by.
        attributes.extend([ListAttribute::NonExistent, ListAttribute::NoSelect]);
    }
    if known.has_children {
        attributes.push(ListAttribute::HasChildren);
    } else {
        attributes.push(ListAttribute::HasNoChildren);
    }
    if subscriptions && known.subscribed {
        attributes.push(ListAttribute::Subscribed);
    }
    if let Some(special_use) = known.entry.and_then(|entry| entry.special_use) {
        attributes.push(ListAttribute::Use(mailboxes::told_use(special_use)));
    }
    ListData {
        attributes,
        separator: Some(SEPARATOR),
        mailbox: MailboxArg::from(name),
        child_info: ListSelection::default(),
        old_name: None,
    }
}

/// One mailbox, as SELECT, CREATE and RENAME tell it in rev2: with the name the client knows it by, where that is
/// another (RFC 9051 §6.3.9.7, OLDNAME).
pub(super) fn data_of(list: &MailboxList, entry: &MailboxEntry, asked: &MailboxArg) -> ListData {
    let known = Known {
        entry: Some(entry),
        subscribed: list.subscribed.contains(&entry.name),
        has_children: list.has_children(&entry.name),
        below: ListSelection::default(),
    };
    let other = asked.text() != Ok(entry.name.as_str());
    ListData { old_name: other.then(|| asked.clone()), ..told(&entry.name, &known, true) }
}

/// The lines of LSUB (RFC 3501 §6.3.9): subscribed names, and where a pattern ends in `%`, the level that stands for
/// those below it.
pub(super) fn subscribed(list: &MailboxList, reference: &str, pattern: &str) -> Vec<ListData> {
    let mut matcher = ListMatcher::new(reference, pattern);
    let mut lines: BTreeMap<MailboxName, bool> = BTreeMap::new();
    let mut seen: BTreeSet<MailboxName> = BTreeSet::new();
    for name in &list.subscribed {
        if matcher.matches(name.as_str()) {
            lines.insert(name.clone(), true);
        } else {
            for parent in parents(name).filter(|parent| seen.insert(parent.clone())) {
                if matcher.matches(parent.as_str()) {
                    lines.entry(parent).or_insert(false);
                }
            }
        }
    }
    let data = |(name, itself): (MailboxName, bool)| ListData {
        attributes: if itself { Vec::new() } else { vec![ListAttribute::NoSelect] },
        separator: Some(SEPARATOR),
        mailbox: MailboxArg::from(&name),
        child_info: ListSelection::default(),
        old_name: None,
    };
    lines.into_iter().map(data).collect()
}
