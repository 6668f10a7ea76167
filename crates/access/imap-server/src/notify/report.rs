//! Prints what happened in mailboxes that are not selected: RFC 5465 §5.

use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{StatusValue, Untagged};
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq, Uid};
use posthaste_store::{Counts, MailboxEntry, MailboxNews};

use super::names::{Differences, NAME_STEPS};
use super::{Group, Notify, group_of, overflow};
use crate::annotations::Known;
use crate::enabled::Enabled;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::mailbox_filter::FILTER_STEPS;
use crate::reply::Failure;
use crate::service::ImapService;
use crate::sync::reported_modseq;
use crate::wire::Wire;

/// Mailboxes whose heads are read at once for STATUS.
const STATUS_BATCH: usize = 256;

/// The session that is told.
pub(crate) struct Listener<'s> {
    pub(crate) wire: &'s mut Wire,
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    pub(crate) enabled: Enabled,
    /// The selected mailbox, and up to where its changes were reported.
    pub(crate) selected: Option<(MailboxId, ModSeq)>,
}

/// Whether the client is told of more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goes {
    On,
    /// It was told that it will not be.
    Ended,
}

/// What STATUS says of a mailbox.
struct State<'e> {
    entry: &'e MailboxEntry,
    counts: Counts,
    uid_next: Uid,
    modseq: ModSeq,
    /// Whether messages came or went.
    messages: bool,
}

impl Notify {
    /// Whether there may be something to report. Reads nothing.
    pub(crate) fn is_due(&self, selected: Option<(MailboxId, ModSeq)>) -> bool {
        self.watch.has_changed() || self.annotations.is_some() || self.was_selected != selected
    }

    /// Waits until there may be something to report.
    pub(crate) async fn wait(&mut self) {
        let annotated = async {
            match &mut self.annotations {
                Some(known) => known.wait_for_changes().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.watch.changed() => {}
            () = annotated => {}
        }
    }

    /// STATUS of every mailbox whose messages are followed (RFC 5465 §3.1).
    pub(crate) async fn status(&self, to: &mut Listener<'_>) -> Result<(), Failure> {
        let mut pace = Pace::default();
        let selected = to.selected.map(|(id, _)| id);
        let mut followed = Vec::new();
        for entry in self.list.entries.iter().filter(|entry| Some(entry.id) != selected) {
            pace.worked(self.filter_steps()).await;
            followed
                .extend(self.group(&entry.name).filter(|group| group.messages).map(|group| (entry, group)));
        }
        for batch in followed.chunks(STATUS_BATCH) {
            let ids: Vec<MailboxId> = batch.iter().map(|(entry, _)| entry.id).collect();
            let heads = to.service.store.status(&ids).await?;
            for ((entry, group), head) in batch.iter().zip(heads) {
                let Some(head) = head else { continue };
                let (counts, uid_next, modseq) = (head.counts, head.uid_next, head.modseq);
                tell(to, group, &State { entry, counts, uid_next, modseq, messages: true });
                to.wire.relieve().await?;
            }
        }
        Ok(())
    }

    /// Prints what happened since the last report.
    pub(crate) async fn report(&mut self, to: &mut Listener<'_>) -> Result<Goes, Failure> {
        let max = to.service.options.notify_mailboxes_max;
        let mut news = self.watch.take(max, &std::mem::take(&mut self.own));
        let left = self.left(to.selected);
        self.was_selected = to.selected;
        if news.overflow {
            overflow(to.wire);
            return Ok(Goes::Ended);
        }
        if let Some(left) = left
            && news.mailboxes.iter().all(|other| other.entry.id != left.entry.id)
        {
            news.mailboxes.push(left);
        }
        if !std::sync::Arc::ptr_eq(&self.list, &news.list) {
            let old = std::mem::replace(&mut self.list, news.list);
            if self.wish.names() {
                let steps = NAME_STEPS * (old.entries.len() + self.list.entries.len()) as u64;
                Pace::default().worked(steps.min(SLICE_STEPS)).await;
                let differences = Differences { old: &old, new: &self.list, groups: &self.wish.groups };
                let lines = differences.lines();
                if lines.len() > max {
                    overflow(to.wire);
                    return Ok(Goes::Ended);
                }
                for line in lines {
                    to.wire.say(Untagged::List(line));
                    to.wire.relieve().await?;
                }
            }
        }
        let mut pace = Pace::default();
        let selected = to.selected.map(|(id, _)| id);
        let closed = self.closed.take();
        for MailboxNews { entry, counts, uid_next, modseq, messages } in news.mailboxes {
            if Some(entry.id) == selected || closed == Some((entry.id, modseq)) {
                continue;
            }
            pace.worked(self.filter_steps()).await;
            if let Some(group) = self.group(&entry.name)
                && (group.messages && messages || group.flags)
            {
                tell(to, group, &State { entry: &entry, counts, uid_next, modseq, messages });
                to.wire.relieve().await?;
            }
        }
        self.report_annotations(to).await?;
        Ok(Goes::On)
    }

    /// The mailbox that was selected and is no longer, if it has changed since it was reported.
    fn left(&self, selected: Option<(MailboxId, ModSeq)>) -> Option<MailboxNews> {
        let (id, reported) = self.was_selected?;
        if selected.is_some_and(|(selected, _)| selected == id) {
            return None;
        }
        self.watch.mailbox(id).filter(|mailbox| mailbox.modseq > reported)
    }

    /// METADATA: RFC 5465 §5.6, §5.7.
    async fn report_annotations(&mut self, to: &mut Listener<'_>) -> Result<(), Failure> {
        let Some(mut known) = self.annotations.take() else { return Ok(()) };
        let changes = known.changes_since(to.service, to.account).await;
        self.annotations = Some(known);
        for change in changes? {
            let Untagged::MetadataChanged { mailbox, .. } = &change else { continue };
            let is_wanted = match mailbox.text() {
                Ok("") => self.wish.server_metadata,
                _ => mailbox.name().is_ok_and(|name| self.group(&name).is_some_and(|group| group.metadata)),
            };
            if is_wanted {
                to.wire.say(change);
                to.wire.relieve().await?;
            }
        }
        Ok(())
    }

    /// The annotations are reported by another extension from now on.
    pub(crate) fn leave_annotations(&mut self) {
        self.annotations = None;
    }

    /// The annotations that the client was told of.
    pub(crate) fn annotations(&mut self) -> Option<&mut Known> {
        self.annotations.as_deref_mut()
    }

    fn group(&self, name: &MailboxName) -> Option<&Group> {
        group_of(&self.wish.groups, name, &self.list)
    }

    fn filter_steps(&self) -> u64 {
        FILTER_STEPS * self.wish.groups.len() as u64
    }
}

/// `* STATUS Lists (UIDVALIDITY 4 UIDNEXT 10000 MESSAGES 501)`: RFC 5465 §5.1 to §5.3.
fn tell(to: &mut Listener<'_>, group: &Group, state: &State<'_>) {
    let mut items = vec![StatusValue::UidValidity(state.entry.uid_validity)];
    if state.messages {
        items.push(StatusValue::UidNext(state.uid_next));
        items.push(StatusValue::Messages(state.counts.messages));
    }
    if group.flags {
        items.push(StatusValue::Unseen(state.counts.unseen));
    }
    if to.enabled.condstore {
        items.push(StatusValue::HighestModSeq(reported_modseq(state.modseq)));
    }
    to.wire.say(Untagged::Status { mailbox: MailboxArg::from(&state.entry.name), items });
}
