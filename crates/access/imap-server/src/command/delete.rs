//! DELETE: RFC 9051 §6.3.5.

use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, Tag};
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::StoreError;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::resolve::Asker;
use crate::rights::Act;
use crate::service::ImapService;
use crate::session::Session;

/// A mailbox that is selected in this session is unselected first.
pub(super) async fn run(session: &mut Session, tag: &Tag, mailbox: &MailboxArg) -> Result<Reply, Failure> {
    let (asker, wire, reports) = session.reporting(tag)?;
    let id = wire.reporting(reports, Box::pin(delete(asker, mailbox))).await?;
    if session.selected.as_ref().is_some_and(|selected| selected.mailbox.id() == id) {
        session.selected = None;
        session.wire.say_code(Code::Closed, "The selected mailbox was deleted");
    }
    Ok(DONE)
}

/// Deletes a mailbox, and returns its id. Another session may give the name to another mailbox
/// meanwhile. That one stays, because nobody has checked the right in it.
async fn delete(asker: Asker<'_>, mailbox: &MailboxArg) -> Result<MailboxId, Failure> {
    let service = asker.service;
    let resolved = asker.resolve(mailbox.name()?).await?;
    let list = service.store.list(resolved.owner).await?;
    let Some(entry) = list.find(&resolved.name) else {
        // RFC 4314 §6: no answer shows which names others have.
        if resolved.others.is_some() || !list.has_children(&resolved.name) {
            return Err(StoreError::NoSuchName.into());
        }
        // RFC 9051 §6.3.5: a parent level disappears with the last mailbox below it, not earlier.
        return Err(Reply::no(Code::HasChildren, "The name has mailboxes below it: delete them first").into());
    };
    let id = entry.id;
    Act::Delete.permit(resolved.rights(id))?;
    let deleted = service.store.delete_if(resolved.owner, &resolved.name, |mailbox| mailbox == id).await;
    deleted.map_err(|error| match error {
        // As above: mailboxes below the name of one that another session has just deleted.
        StoreError::Refused(_) if resolved.others.is_some() && !resolved.name.is_inbox() => {
            StoreError::NoSuchName
        }
        other => other,
    })?;
    forget(service, resolved.owner, id).await;
    Ok(id)
}

/// RFC 5464 §4.1, RFC 4314 §4: annotations and rights go with the mailbox. It is deleted, even if
/// their removal fails: nobody finds them any more.
async fn forget(service: &ImapService, owner: AccountId, mailbox: MailboxId) {
    let directory = &service.directory;
    if let Err(error) = directory.metadata().remove(owner, mailbox).await {
        tracing::warn!(%error, "annotations of a deleted mailbox were not removed");
    }
    if let Err(error) = directory.acls().remove(owner, mailbox).await {
        tracing::warn!(%error, "the access control list of a deleted mailbox was not removed");
    }
    if let Err(error) = directory.url_keys().forget(owner, mailbox).await {
        tracing::warn!(%error, "the URL key of a deleted mailbox was not removed");
    }
    if let Err(error) = directory.seen().forget(owner, mailbox).await {
        tracing::warn!(%error, "the \\Seen flags of other users in a deleted mailbox were not removed");
    }
    if let Err(error) = directory.message_annotations().forget_mailbox(owner, mailbox).await {
        tracing::warn!(%error, "annotations of messages in a deleted mailbox were not removed");
    }
    service.shared.note_change();
}
