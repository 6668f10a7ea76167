//! The commands that change the list of mailboxes, and NAMESPACE: RFC 9051 §6.3.4 –
//! §6.3.8, §6.3.10.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_imap_codec::response::{Code, Untagged};
use posthaste_mail_model::MailboxName;
use posthaste_store::SpecialUse;

use super::{DONE, list};
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// CREATE, with the USE of RFC 6154 §3.
pub(super) async fn create(
    session: &mut Session,
    mailbox: &MailboxArg,
    special_use: &[Use],
) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.create_name()?;
    let special_use = match special_use {
        [] => None,
        [one] => Some(stored_use(one).ok_or_else(|| no_use("This special use is not supported"))?),
        _ => return Err(no_use("A mailbox has at most one special use").into()),
    };
    let entry = session.service.store.create(account, &name, special_use).await?;
    if mailbox.text() != Ok(entry.name.as_str()) {
        report_name(session, &entry.name, mailbox).await?;
    }
    // RFC 8474 §4.1
    Ok(DONE.with(Code::MailboxId(entry.id.to_string())))
}

fn no_use(text: &'static str) -> Reply {
    Reply::no(Code::UseAttr, text)
}

/// Maps a special use of the protocol to that of the store. `\All` and `\Flagged` are views over
/// other mailboxes, which this server does not have. A mailbox that only carries the attribute
/// would mislead clients.
fn stored_use(given: &Use) -> Option<SpecialUse> {
    match given {
        Use::Archive => Some(SpecialUse::Archive),
        Use::Drafts => Some(SpecialUse::Drafts),
        Use::Junk => Some(SpecialUse::Junk),
        Use::Sent => Some(SpecialUse::Sent),
        Use::Trash => Some(SpecialUse::Trash),
        Use::All | Use::Flagged | Use::Important | Use::Other(_) => None,
    }
}

/// Maps a special use of the store to that of the protocol.
pub(super) fn special_use_attribute(stored: SpecialUse) -> Use {
    match stored {
        SpecialUse::All => Use::All,
        SpecialUse::Archive => Use::Archive,
        SpecialUse::Drafts => Use::Drafts,
        SpecialUse::Flagged => Use::Flagged,
        SpecialUse::Junk => Use::Junk,
        SpecialUse::Sent => Use::Sent,
        SpecialUse::Trash => Use::Trash,
    }
}

/// DELETE. A mailbox that is selected in this session is unselected first.
pub(super) async fn delete(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.name()?;
    let list = session.service.store.list(account).await?;
    let id = list.find(&name).map(|entry| entry.id);
    if id.is_none() && list.has_children(&name) {
        // RFC 9051 §6.3.5: a parent level disappears with the last mailbox below it, not earlier.
        return Err(Reply::no(Code::HasChildren, "Mailboxes below that name are in the way").into());
    }
    session.service.store.delete(account, &name).await?;
    if session.selected.as_ref().is_some_and(|selected| Some(selected.mailbox.id()) == id) {
        session.selected = None;
        session.wire.say_code(Code::Closed, "The selected mailbox was deleted");
    }
    Ok(DONE)
}

/// RENAME. Renaming INBOX moves its messages and leaves INBOX empty.
pub(super) async fn rename(
    session: &mut Session,
    from: &MailboxArg,
    to: &MailboxArg,
) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let (from_name, to_name) = (from.name()?, to.create_name()?);
    session.service.store.rename(account, &from_name, &to_name).await?;
    report_name(session, &to_name, from).await?;
    Ok(DONE)
}

/// In rev2, reports a mailbox under its new name, with the old name: RFC 9051 §6.3.4, §6.3.6.
async fn report_name(
    session: &mut Session,
    name: &MailboxName,
    requested: &MailboxArg,
) -> Result<(), Failure> {
    if !session.enabled.rev2 {
        return Ok(());
    }
    let list = session.service.store.list(session.login()?.id).await?;
    if let Some(entry) = list.find(name) {
        session.wire.say(Untagged::List(list::data_of(&list, entry, requested)));
    }
    Ok(())
}

/// SUBSCRIBE. A name need not exist (RFC 9051 §6.3.7).
pub(super) async fn subscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    session.service.store.subscribe(account, &mailbox.create_name()?).await?;
    Ok(DONE)
}

/// UNSUBSCRIBE.
pub(super) async fn unsubscribe(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    session.service.store.unsubscribe(account, &mailbox.create_name()?).await?;
    Ok(DONE)
}

/// NAMESPACE: the user's own mailboxes only.
pub(super) fn namespace(session: &mut Session) -> Reply {
    session.wire.out().extend_from_slice(b"* NAMESPACE ((\"\" \"/\")) NIL NIL\r\n");
    DONE
}
