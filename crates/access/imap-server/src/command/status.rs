//! STATUS: RFC 9051 §6.3.11, with the items of RFC 7162, 7889, 8438 and 8474.

use posthaste_directory::Reading;
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::StatusItem;
use posthaste_imap_codec::response::{StatusValue, Untagged};
use posthaste_mail_model::{FlagSet, MailboxId};
use posthaste_store::{MailboxEntry, MailboxHead, StoreError};

use super::DONE;
use crate::heavy::{HEAD_STEPS, open_steps};
use crate::offload::{Threads, row_steps};
use crate::reply::{Failure, Reply};
use crate::resolve::ExistingMailbox;
use crate::rights::Act;
use crate::seen;
use crate::session::Session;
use crate::sync::reported_modseq;

pub(super) async fn run(
    session: &mut Session,
    mailbox: &MailboxArg,
    items: &[StatusItem],
) -> Result<Reply, Failure> {
    let ExistingMailbox { resolved, entry, .. } = session.asker()?.find(mailbox, Act::Read).await?;
    let head = session.service.store.status(&[entry.id]).await?.pop().flatten();
    let head = head.ok_or(StoreError::NoMailbox(entry.id))?;
    let entry = MailboxEntry { name: resolved.shown(&entry.name)?, ..entry };
    let reading = seen::reading(session.login()?, resolved.account(), entry.id);
    report(session, (&entry, reading), &head, items).await?;
    Ok(DONE)
}

/// Steps of a STATUS response. Some items need the rows of the mailbox, which is opened for them.
pub(super) fn steps(head: &MailboxHead, items: &[StatusItem]) -> u64 {
    let needs_rows = |item: &StatusItem| match item {
        StatusItem::Recent => head.first_recent < head.uid_next,
        StatusItem::DeletedStorage => head.counts.deleted > 0,
        StatusItem::Size => head.counts.without_items() > 0,
        _ => false,
    };
    let opened = if items.iter().any(needs_rows) { open_steps(head.counts.messages) } else { 0 };
    HEAD_STEPS + opened
}

/// Prints one STATUS response. `reading`: the mailbox is another account's.
pub(super) async fn report(
    session: &mut Session,
    (entry, reading): (&MailboxEntry, Option<Reading>),
    head: &MailboxHead,
    items: &[StatusItem],
) -> Result<(), Failure> {
    if items.contains(&StatusItem::HighestModSeq) {
        // RFC 7162 §3.1: requesting it switches CONDSTORE on.
        session.enable_condstore();
    }
    let recent = if items.contains(&StatusItem::Recent) {
        Box::pin(recent(session, entry.id, head)).await?
    } else {
        0
    };
    let reclaimed = match items.contains(&StatusItem::DeletedStorage) && head.counts.deleted > 0 {
        true => Box::pin(deleted_storage(session, entry.id)).await?,
        false => 0,
    };
    let unseen = match reading.filter(|_| items.contains(&StatusItem::Unseen)) {
        // Boxed: few mailboxes are those of others.
        Some(reading) => Box::pin(seen::unseen(threads(session)?, reading, head.counts.messages)).await?,
        None => head.counts.unseen,
    };
    let octets = match items.contains(&StatusItem::Size) && head.counts.without_items() > 0 {
        // Boxed: few mailboxes have such messages.
        true => Box::pin(octets(session, entry.id)).await?,
        false => head.counts.octets(),
    };
    let limit = session.service.options.append_bytes_max;
    let value = |item: &StatusItem| match item {
        StatusItem::Messages => StatusValue::Messages(head.counts.messages),
        StatusItem::Recent => StatusValue::Recent(recent),
        StatusItem::UidNext => StatusValue::UidNext(head.uid_next),
        StatusItem::UidValidity => StatusValue::UidValidity(entry.uid_validity),
        StatusItem::Unseen => StatusValue::Unseen(unseen),
        StatusItem::Deleted => StatusValue::Deleted(head.counts.deleted),
        StatusItem::DeletedStorage => StatusValue::DeletedStorage(reclaimed),
        StatusItem::Size => StatusValue::Size(octets),
        StatusItem::HighestModSeq => StatusValue::HighestModSeq(reported_modseq(head.modseq)),
        StatusItem::AppendLimit => StatusValue::AppendLimit(Some(limit)),
        StatusItem::MailboxId => StatusValue::MailboxId(entry.id.to_string()),
    };
    let items = items.iter().map(value).collect();
    session.wire.say(Untagged::Status { mailbox: MailboxArg::from(&entry.name), items });
    Ok(())
}

/// Messages that no session was notified of. Only the rows show how many UIDs at the end exist.
async fn recent(session: &Session, mailbox: MailboxId, head: &MailboxHead) -> Result<u32, Failure> {
    if head.first_recent >= head.uid_next {
        return Ok(0);
    }
    let mailbox = session.service.store.open(mailbox).await?;
    let (view, recent) = (mailbox.view(), mailbox.recent());
    let work = move || view.runs_of_uids(&recent).map(|(_, rows)| rows.len() as u32).sum();
    threads(session)?.run(u64::from(head.counts.messages), work).await
}

/// Octets of all messages: RFC 8438 §2. The rows of messages without items do not have them.
async fn octets(session: &Session, mailbox: MailboxId) -> Result<u64, Failure> {
    let mailbox = session.service.store.open(mailbox).await?;
    Ok(mailbox.all_sized().await?.counts().octets())
}

/// Octets of the messages that EXPUNGE would remove: RFC 9208 §4.1.4.
async fn deleted_storage(session: &Session, mailbox: MailboxId) -> Result<u64, Failure> {
    let view = session.service.store.open(mailbox).await?.view();
    let steps = row_steps(&view);
    let work = move || {
        let deleted = view.with_flags(FlagSet::DELETED, FlagSet::EMPTY);
        view.rows(&deleted).map(|(_, row)| u64::from(row.size())).sum()
    };
    threads(session)?.run(steps, work).await
}

/// Where the rows of a large mailbox are looked at.
fn threads(session: &Session) -> Result<Threads<'_>, Failure> {
    Ok(Threads { service: &session.service, account: session.login()?.id })
}
