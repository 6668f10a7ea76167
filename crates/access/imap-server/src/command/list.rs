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
    /// The mailbox, if STATUS is to be told of it.
    entry: Option<&'l MailboxEntry>,
}

/// What is known of a name.
#[derive(Default)]
struct Known<'l> {
    entry: Option<&'l MailboxEntry>,
    subscribed: bool,
    /// Below it are mailboxes.
    has_children: bool,
    /// It matches a pattern.
    matches: bool,
    /// It is what the selection options ask for.
    selected: bool,
    /// Something below it is.
    selected_below: bool,
    /// Something below it is and matches no pattern: the answer shows it by this name alone.
    hidden_below: bool,
}

/// The lines of the answer, in order of their names.
pub(super) fn select<'l>(list: &'l MailboxList, args: &ListArgs) -> Vec<Found<'l>> {
    let reference = args.reference.text().unwrap_or_default();
    let mut matchers: Vec<ListMatcher> = args
        .patterns
        .iter()
        .filter_map(|pattern| pattern.text().ok())
        // RFC 9051 §6.3.9: in the extended syntax empty patterns are ignored, whatever the reference is; in the basic
        // one an empty pattern does not come here.
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| ListMatcher::new(reference, pattern))
        .collect();
    let mut names = known_names(list);
    let mut selected = Vec::new();
    for (name, known) in &mut names {
        known.matches = matchers.iter_mut().any(|matcher| matcher.matches(name.as_str()));
        known.selected = is_selected(known, args.selection);
        if known.selected {
            selected.push((name.clone(), known.matches));
        }
    }
    for (name, matches) in &selected {
        for parent in parents(name) {
            if let Some(parent) = names.get_mut(&parent) {
                parent.selected_below = true;
                parent.hidden_below |= !matches;
            }
        }
    }
    names
        .iter()
        .filter(|(_, known)| known.matches)
        .filter_map(|(name, known)| line(name, known, args))
        .collect()
}

/// Whether a name is what the selection options ask for: RFC 5258 §3.1. Without any, names that exist are.
fn is_selected(known: &Known<'_>, want: ListSelection) -> bool {
    if !want.subscribed && !want.special_use {
        return known.entry.is_some();
    }
    let special = known.entry.is_some_and(|entry| entry.special_use.is_some());
    (!want.subscribed || known.subscribed) && (!want.special_use || special)
}

/// Every name there is something to say of.
fn known_names(list: &MailboxList) -> BTreeMap<MailboxName, Known<'_>> {
    let mut names: BTreeMap<MailboxName, Known<'_>> = BTreeMap::new();
    for entry in &list.entries {
        names.entry(entry.name.clone()).or_default().entry = Some(entry);
        for parent in parents(&entry.name) {
            names.entry(parent).or_default().has_children = true;
        }
    }
    for name in &list.subscribed {
        names.entry(name.clone()).or_default().subscribed = true;
        for parent in parents(name) {
            names.entry(parent).or_default();
        }
    }
    names
}

fn parents(name: &MailboxName) -> impl Iterator<Item = MailboxName> {
    std::iter::successors(name.parent(), MailboxName::parent)
}

/// The line of a name that matches, if it is selected or stands for what is below it: RFC 5258 §3.3. A level that is
/// no mailbox is shown only in place of mailboxes that match no pattern themselves: `%` shows it, `*` does not (the
/// examples of RFC 3501 §6.3.4 have it so too).
fn line<'l>(name: &MailboxName, known: &Known<'l>, args: &ListArgs) -> Option<Found<'l>> {
    let want = args.selection;
    let by_option = want.subscribed || want.special_use;
    // RFC 5258 §3.5: with RECURSIVEMATCH, which options select what is below.
    let tells_below = want.recursive_match && known.selected_below;
    let child_info = ListSelection {
        subscribed: tells_below && want.subscribed,
        special_use: tells_below && want.special_use,
        ..ListSelection::default()
    };
    let subscriptions = args.returns.subscribed || want.subscribed;
    // RFC 9051 §9, mbx-list-sflag: only one of the two in a response. Clients of RFC 3501 know the second alone.
    let absent = match args.syntax {
        ListSyntax::Extended => ListAttribute::NonExistent,
        ListSyntax::Basic => ListAttribute::NoSelect,
    };
    let stands_for_others = known.hidden_below && (!by_option || want.recursive_match);
    (known.selected || stands_for_others).then(|| Found {
        data: ListData { child_info, ..told(name, known, subscriptions, absent) },
        // RFC 5819 §2: STATUS is told of what is selected, not of parents that CHILDINFO is told of.
        entry: known.entry.filter(|_| known.selected),
    })
}

/// A name with its attributes: RFC 9051 §7.3.1. Children and special uses are told unasked, as clients expect.
/// `absent` is told of a level that is no mailbox.
fn told(name: &MailboxName, known: &Known<'_>, subscriptions: bool, absent: ListAttribute) -> ListData {
    let mut attributes = Vec::with_capacity(4);
    if known.entry.is_none() {
        attributes.push(absent);
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
        ..Known::default()
    };
    let other = asked.text() != Ok(entry.name.as_str());
    ListData {
        old_name: other.then(|| asked.clone()),
        ..told(&entry.name, &known, true, ListAttribute::NonExistent)
    }
}

/// The lines of LSUB (RFC 3501 §6.3.9): subscribed names, and where a pattern has a `%`, the level that stands for
/// those below it.
pub(super) fn subscribed(list: &MailboxList, reference: &str, pattern: &str) -> Vec<ListData> {
    let mut matcher = ListMatcher::new(reference, pattern);
    let mut lines: BTreeMap<MailboxName, bool> = BTreeMap::new();
    let mut seen: BTreeSet<MailboxName> = BTreeSet::new();
    let levels = reference.contains('%') || pattern.contains('%');
    for name in &list.subscribed {
        if matcher.matches(name.as_str()) {
            lines.insert(name.clone(), true);
        } else if levels {
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
