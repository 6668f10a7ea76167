//! NOTIFY: RFC 5465 §8. Filters of mailboxes, for ESEARCH too: RFC 7377 §3.

use super::parse_fetch::items_of_new;
use super::parse_words::mailbox;
use super::{CommandBody, Event, EventGroup, MailboxFilter, Notify};
use crate::cursor::{Cursor, Parsed, Word};
use crate::limits::{EVENT_GROUPS_MAX, LIST_ITEMS_MAX};
use crate::{MailboxArg, NameEncoding};

/// `"NOTIFY" SP ("NONE" / "SET" [SP "STATUS"] SP event-groups)`
pub(super) fn notify(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    if c.eat_word(b"NONE") {
        return Ok(CommandBody::Notify(Notify::None));
    }
    if !c.eat_word(b"SET") {
        return c.fail("SET or NONE");
    }
    c.sp()?;
    let status = c.eat_word(b"STATUS");
    if status {
        c.sp()?;
    }
    let mut groups = vec![group(c, names)?];
    while c.more()? {
        if groups.len() == EVENT_GROUPS_MAX {
            return c.limit("NOTIFY takes at most 64 groups of events");
        }
        groups.push(group(c, names)?);
    }
    Ok(CommandBody::Notify(Notify::Set { status, groups }))
}

/// `"(" filter-mailboxes SP events ")"`
fn group(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<EventGroup> {
    c.expect(b'(', "a group of events in parentheses")?;
    let mailboxes = filter(c, names)?;
    c.sp()?;
    let events = match c.eat_word(b"NONE") {
        true => Vec::new(),
        false => {
            let at = c.clone();
            let events = c.list(LIST_ITEMS_MAX, "Too many events", event)?;
            if events.is_empty() {
                return at.fail("at least one event, or NONE");
            }
            events
        }
    };
    c.expect(b')', ") after the events")?;
    Ok(EventGroup { mailboxes, events })
}

/// `filter-mailboxes`. RFC 7377 §3 adds SUBTREE-ONE to the grammar of RFC 5465.
pub(super) fn filter(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<MailboxFilter> {
    let at = c.clone();
    let some = |c: &mut Cursor<'_>| {
        c.sp()?;
        mailboxes(c, names)
    };
    Ok(match c.word().as_bytes() {
        b"SELECTED" => MailboxFilter::Selected,
        b"SELECTED-DELAYED" => MailboxFilter::SelectedDelayed,
        b"INBOXES" => MailboxFilter::Inboxes,
        b"PERSONAL" => MailboxFilter::Personal,
        b"SUBSCRIBED" => MailboxFilter::Subscribed,
        b"SUBTREE" => MailboxFilter::Subtree(some(c)?),
        b"SUBTREE-ONE" => MailboxFilter::SubtreeOne(some(c)?),
        b"MAILBOXES" => MailboxFilter::Mailboxes(some(c)?),
        _ => {
            return at.fail(
                "SELECTED, SELECTED-DELAYED, INBOXES, PERSONAL, SUBSCRIBED, SUBTREE, SUBTREE-ONE or MAILBOXES",
            );
        }
    })
}

/// `one-or-more-mailbox`
fn mailboxes(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Vec<MailboxArg>> {
    if c.peek() != Some(b'(') {
        return Ok(vec![mailbox(c, names)?]);
    }
    let at = c.clone();
    let many = c.list(LIST_ITEMS_MAX, "Too many mailboxes", |c| mailbox(c, names))?;
    if many.is_empty() { at.fail("at least one mailbox") } else { Ok(many) }
}

/// `event`
fn event(c: &mut Cursor<'_>) -> Parsed<Event> {
    let atom = c.atom("an event, such as MessageNew")?;
    let word = Word::new(atom);
    if word.as_bytes() == b"MESSAGENEW" {
        return Ok(Event::MessageNew(items_of_new(c)?));
    }
    let known = Event::BARE.iter().find(|event| event.name().as_bytes().eq_ignore_ascii_case(atom));
    match known {
        Some(event) => Ok(event.clone()),
        None => Ok(Event::Other(c.text(atom)?)),
    }
}
