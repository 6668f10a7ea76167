//! DELETE: RFC 9051 §6.3.5.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::Code;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::session::Session;

/// A mailbox that is selected in this session is unselected first.
pub(super) async fn run(session: &mut Session, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let account = session.login()?.id;
    let name = mailbox.name()?;
    let list = session.service.store.list(account).await?;
    let id = list.find(&name).map(|entry| entry.id);
    if id.is_none() && list.has_children(&name) {
        // RFC 9051 §6.3.5: a parent level disappears with the last mailbox below it, not earlier.
        return Err(Reply::no(Code::HasChildren, "Mailboxes below that name are in the way").into());
    }
    session.service.store.delete(account, &name).await?;
    if let Some(id) = id {
        // RFC 5464 §4.1. The mailbox is deleted, even if its annotations stay: nobody finds them
        // any more.
        if let Err(error) = session.service.directory.remove_annotations(account, id).await {
            tracing::warn!(%error, "annotations of a deleted mailbox were left behind");
        }
    }
    if session.selected.as_ref().is_some_and(|selected| Some(selected.mailbox.id()) == id) {
        session.selected = None;
        session.wire.say_code(Code::Closed, "The selected mailbox was deleted");
    }
    Ok(DONE)
}
