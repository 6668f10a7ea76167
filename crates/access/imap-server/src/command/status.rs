//! STATUS: RFC 9051 §6.3.11, with the items of RFC 7162, 7889, 8438 and 8474, of OBJECTID+ and of
//! X-CREATEDMODSEQ.

use posthaste_directory::Reading;
use posthaste_imap_codec::command::StatusItem;
use posthaste_imap_codec::response::{StatusValue, Untagged};
use posthaste_imap_codec::{MailboxArg, Tag};
use posthaste_mail_model::{FlagSet, MailboxId, ModSeq};
use posthaste_store::{MailboxEntry, MailboxHead, StoreError};

use super::DONE;
use crate::heavy::{HEAD_STEPS, open_steps};
use crate::object_ids;
use crate::offload::{Threads, row_steps};
use crate::reply::{Failure, Reply};
use crate::resolve::ExistingMailbox;
use crate::rights::Act;
use crate::seen;
use crate::session::Session;
use crate::sync::reported_modseq;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    items: &[StatusItem],
) -> Result<Reply, Failure> {
    activate(session, items);
    let (asker, wire, reports) = session.reporting(tag)?;
    let finding = Box::pin(asker.find(mailbox, Act::Read));
    let ExistingMailbox { resolved, entry, .. } = wire.reporting(reports, finding).await?;
    let head = heads(session, tag, &[entry.id]).await?.pop().flatten();
    let head = head.ok_or(StoreError::NoMailbox(entry.id))?;
    let entry = MailboxEntry { name: resolved.shown(&entry.name)?, ..entry };
    let reading = seen::reading(session.login()?, resolved.account(), entry.id);
    report(session, tag, (&entry, reading), &head, items).await?;
    Ok(DONE)
}

/// OBJECTID+ (draft 06 §7.4): requesting its item activates it, before any response.
pub(super) fn activate(session: &mut Session, items: &[StatusItem]) {
    if items.contains(&StatusItem::ObjectIds) {
        session.enable_object_ids();
    }
}

/// The heads of mailboxes, without keywords: a session holds them while its client reads.
pub(super) async fn heads(
    session: &mut Session,
    tag: &Tag,
    mailboxes: &[MailboxId],
) -> Result<Vec<Option<MailboxHead>>, Failure> {
    let reports = session.service.reports(tag);
    let reading = session.service.store.status(mailboxes);
    let heads = session.wire.reporting(reports, reading).await?;
    Ok(heads.into_iter().map(|head| head.map(MailboxHead::without_keywords)).collect())
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
    tag: &Tag,
    (entry, reading): (&MailboxEntry, Option<Reading>),
    head: &MailboxHead,
    items: &[StatusItem],
) -> Result<(), Failure> {
    if items.contains(&StatusItem::HighestModSeq) {
        // RFC 7162 §3.1: requesting it switches CONDSTORE on.
        session.enable_condstore();
    }
    let account = session.login()?.id;
    let owner = reading.map_or(account, |reading| reading.owner);
    let threads = Threads { service: &session.service, account };
    let counting = Counts::read(threads, (entry.id, reading), head, items);
    let reports = session.service.reports(tag);
    let Counts { recent, reclaimed, unseen, octets } = session.wire.reporting(reports, counting).await?;
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
        // Each mailbox counts its own changes, from here on.
        StatusItem::CreatedModSeq => StatusValue::CreatedModSeq(reported_modseq(ModSeq::ZERO)),
        StatusItem::AppendLimit => StatusValue::AppendLimit(Some(limit)),
        StatusItem::MailboxId => StatusValue::MailboxId(entry.id.to_string()),
        // OBJECTID+ (draft 06 §11.8): the account is the owner's.
        StatusItem::ObjectIds => StatusValue::ObjectIds(object_ids::of_mailbox(owner, Some(entry.id))),
    };
    let items = items.iter().map(value).collect();
    session.wire.say(Untagged::Status { mailbox: MailboxArg::from(&entry.name), items });
    Ok(())
}

/// Items that the head alone may not have.
struct Counts {
    recent: u32,
    reclaimed: u64,
    unseen: u32,
    octets: u64,
}

impl Counts {
    async fn read(
        threads: Threads<'_>,
        (mailbox, reading): (MailboxId, Option<Reading>),
        head: &MailboxHead,
        items: &[StatusItem],
    ) -> Result<Self, Failure> {
        let recent = match items.contains(&StatusItem::Recent) {
            true => Box::pin(recent(threads, mailbox, head)).await?,
            false => 0,
        };
        let reclaimed = match items.contains(&StatusItem::DeletedStorage) && head.counts.deleted > 0 {
            true => Box::pin(deleted_storage(threads, mailbox)).await?,
            false => 0,
        };
        let unseen = match reading.filter(|_| items.contains(&StatusItem::Unseen)) {
            // Boxed: few mailboxes are those of others.
            Some(reading) => Box::pin(seen::unseen(threads, reading, head.counts.messages)).await?,
            None => head.counts.unseen,
        };
        let octets = match items.contains(&StatusItem::Size) && head.counts.without_items() > 0 {
            // Boxed: few mailboxes have such messages.
            true => Box::pin(octets(threads, mailbox)).await?,
            false => head.counts.octets(),
        };
        Ok(Self { recent, reclaimed, unseen, octets })
    }
}

/// Messages that no session was notified of. Only the rows show how many UIDs at the end exist.
async fn recent(threads: Threads<'_>, mailbox: MailboxId, head: &MailboxHead) -> Result<u32, Failure> {
    if head.first_recent >= head.uid_next {
        return Ok(0);
    }
    let mailbox = match threads.service.store.open_for(threads.account, mailbox).await {
        // RFC 3501 §2.3.2: a message counts as recent if that cannot be determined.
        Err(StoreError::TooManyOpen) => {
            let added = head.uid_next.value() - head.first_recent.value();
            return Ok(added.min(head.counts.messages));
        }
        opened => opened?,
    };
    let (view, recent) = (mailbox.view(), mailbox.recent());
    let work = move || view.runs_of_uids(&recent).map(|(_, rows)| rows.len() as u32).sum();
    threads.run(u64::from(head.counts.messages), work).await
}

/// Octets of all messages: RFC 8438 §2. The rows of messages without items do not have them.
async fn octets(threads: Threads<'_>, mailbox: MailboxId) -> Result<u64, Failure> {
    let mailbox = threads.service.store.open_for(threads.account, mailbox).await?;
    Ok(mailbox.all_sized().await?.counts().octets())
}

/// Octets of the messages that EXPUNGE would remove: RFC 9208 §4.1.4.
async fn deleted_storage(threads: Threads<'_>, mailbox: MailboxId) -> Result<u64, Failure> {
    let view = threads.service.store.open_for(threads.account, mailbox).await?.view();
    let steps = row_steps(&view);
    let work = move || {
        let deleted = view.with_flags(FlagSet::DELETED, FlagSet::EMPTY);
        view.rows(&deleted).map(|(_, row)| u64::from(row.size())).sum()
    };
    threads.run(steps, work).await
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::Tag;

    use crate::pause_tests::Paused;

    /// NOTIFY held 256 heads with 59 keywords of 128 octets each while its client read nothing.
    #[tokio::test]
    async fn heads_are_held_without_keywords() {
        let mut paused = Paused::begin().await;
        paused.run("SELECT m0").await;
        paused.run("STORE 1 +FLAGS.SILENT (kept)").await;
        let mailbox = paused.session.selected.as_ref().unwrap().mailbox.id();
        let stored = paused.session.service.store.status(&[mailbox]).await.unwrap();
        let stored = stored[0].clone().unwrap();
        assert!(!stored.keywords.keywords().is_empty());
        let tag = Tag::new("a").unwrap();
        let heads = super::heads(&mut paused.session, &tag, &[mailbox]).await.unwrap();
        assert_eq!(heads, [Some(stored.without_keywords())]);
        assert!(heads[0].as_ref().unwrap().keywords.keywords().is_empty());
    }
}
