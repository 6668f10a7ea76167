//! Prints events of mailboxes that are not selected: RFC 5465 §5.

use std::sync::Arc;

use posthaste_directory::{Account, Reading};
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::response::{ListAttribute, ListData, StatusValue, Untagged};
use posthaste_mail_model::{MailboxId, MailboxName, ModSeq, Uid};
use posthaste_store::{Counts, MailboxEntry, MailboxHead, MailboxList, MailboxNews, StoreError};

use super::group::{Events, events_of};
use super::names::Differences;
use super::others::FollowedMailboxes;
use super::{Notify, ReportedState, overflow};
use crate::enabled::Enabled;
use crate::heavy::Pace;
use crate::kept_memory::NoMemory;
use crate::listed::data_of;
use crate::mailbox_filter::FILTER_STEPS;
use crate::metadata_reports::ReportedMetadata;
use crate::offload::Threads;
use crate::progress::Reports;
use crate::reply::Failure;
use crate::resolve::Asker;
use crate::seen;
use crate::service::ImapService;
use crate::sync::reported_modseq;
use crate::turns::{LongWork, Turn};
use crate::wire::Wire;

/// Mailboxes whose heads are read at once for STATUS.
const STATUS_BATCH: usize = 256;

/// The session that gets the reports.
pub(crate) struct Listener<'s> {
    pub(crate) wire: &'s mut Wire,
    pub(crate) service: &'s ImapService,
    pub(crate) login: &'s Account,
    pub(crate) enabled: Enabled,
    /// The selected mailbox, and up to where its changes were reported.
    pub(crate) selected: Option<ReportedState>,
    /// The reports of the command at hand: it continues (RFC 9585).
    pub(crate) reports: Option<Reports<'s>>,
}

impl Listener<'_> {
    /// Does work between two responses. If it takes long, the command at hand reports that it
    /// continues.
    async fn work<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.wire.reporting_if(self.reports, work).await
    }
}

/// Whether reports continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reporting {
    Continues,
    /// The client got NOTIFICATIONOVERFLOW (RFC 5465 §5.8): it gets no more reports.
    Ended,
}

/// The values of a mailbox that a STATUS response reports.
struct StatusValues<'e> {
    entry: &'e MailboxEntry,
    counts: Counts,
    uid_next: Uid,
    modseq: ModSeq,
    /// Whether messages were added or expunged.
    messages: bool,
}

impl Notify {
    /// Whether there may be something to report. Reads nothing.
    pub(crate) fn is_due(&self, selected: Option<ReportedState>) -> bool {
        self.watch.has_changed()
            || self.others.as_ref().is_some_and(|others| others.has_changed())
            || self.annotations.is_some()
            || self.was_selected != selected
    }

    /// Waits until there may be something to report.
    pub(crate) async fn wait(&mut self) {
        let annotated = async {
            match &mut self.annotations {
                Some(known) => known.wait_for_changes().await,
                None => std::future::pending().await,
            }
        };
        let others = async {
            match &mut self.others {
                // Boxed: few sessions follow others.
                Some(others) => Box::pin(others.changed()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.watch.changed() => {}
            () = others => {}
            () = annotated => {}
        }
    }

    /// STATUS of every mailbox whose messages are followed (RFC 5465 §3.1).
    pub(crate) async fn status(&self, to: &mut Listener<'_>) -> Result<(), Failure> {
        let mut pace = Pace::default();
        let selected = to.selected.map(|state| state.mailbox);
        let mut followed = Vec::new();
        let is_reported = |entry: &&MailboxEntry| Some(entry.id) != selected && self.may_read(entry.id);
        for entry in self.list.entries.iter().filter(is_reported) {
            pace.worked(self.filter_steps()).await;
            let events = self.events(&entry.name);
            followed.extend(events.messages.then_some((entry, events)));
        }
        for batch in followed.chunks(STATUS_BATCH) {
            let ids: Vec<MailboxId> = batch.iter().map(|(entry, _)| entry.id).collect();
            let reading = to.service.store.status(&ids);
            let heads = to.work(reading).await?;
            // The client may be slow to read, so no keywords are held.
            let heads = heads.into_iter().map(|head| head.map(MailboxHead::without_keywords));
            let heads: Vec<_> = heads.collect();
            for (&(entry, events), head) in batch.iter().zip(heads) {
                let Some(head) = head else { continue };
                let counts = self.counts_of(to, entry.id, events, head.counts).await?;
                let Some(counts) = counts else { continue };
                let (uid_next, modseq) = (head.uid_next, head.modseq);
                report_status(to, events, &StatusValues { entry, counts, uid_next, modseq, messages: true });
                to.wire.relieve().await?;
            }
        }
        Ok(())
    }

    /// LIST of every mailbox whose messages the client follows but may not read: RFC 5465 §3.1.
    pub(crate) async fn without_access(&self, to: &mut Listener<'_>) -> Result<(), Failure> {
        if self.others.is_none() {
            return Ok(());
        }
        let mut pace = Pace::default();
        for entry in &self.list.entries {
            pace.worked(self.filter_steps()).await;
            if !self.may_read(entry.id) && self.events(&entry.name).messages {
                let mut line = data_of(&self.list, entry, &MailboxArg::from(&entry.name));
                line.attributes.insert(0, ListAttribute::NoAccess);
                to.wire.say(Untagged::List(line));
                to.wire.relieve().await?;
            }
        }
        Ok(())
    }

    /// Prints what happened since the last report.
    pub(crate) async fn report(&mut self, to: &mut Listener<'_>) -> Result<Reporting, Failure> {
        let max = to.service.options.notify_mailboxes_max;
        let own = std::mem::take(&mut self.own);
        let mut news = self.watch.take(max, &own);
        let own_before = std::mem::replace(&mut self.own_list, Arc::clone(&news.list));
        self.renew_others(to).await?;
        if let Some(others) = &mut self.others {
            news.overflow |= others.take(max, &own, &mut news.mailboxes);
        }
        let left = self.left(to.selected);
        self.was_selected = to.selected;
        if news.overflow {
            overflow(to.wire);
            return Ok(Reporting::Ended);
        }
        if let Some(left) = left
            && news.mailboxes.iter().all(|other| other.entry.id != left.entry.id)
        {
            news.mailboxes.push(left);
        }
        let list = self.list_now().await?;
        if !Arc::ptr_eq(&self.list, &list) {
            let old = std::mem::replace(&mut self.list, list);
            if self.request.names() {
                let threads = Threads { service: to.service, account: to.login.id };
                // Boxed: names change seldom.
                let lines = Box::pin(self.changed_names(threads, &old, &own_before)).await;
                let Some(lines) = lines else {
                    overflow(to.wire);
                    return Ok(Reporting::Ended);
                };
                for line in lines {
                    to.wire.say(Untagged::List(line));
                    to.wire.relieve().await?;
                }
            }
        }
        let mut pace = Pace::default();
        let selected = to.selected.map(|state| state.mailbox);
        let closed = self.closed.take();
        for MailboxNews { entry, counts, uid_next, modseq, messages } in news.mailboxes {
            if Some(entry.id) == selected || closed == Some(ReportedState { mailbox: entry.id, modseq }) {
                continue;
            }
            pace.worked(self.filter_steps()).await;
            let events = self.events(&entry.name);
            if events.messages && messages || events.flags {
                let counts = self.counts_of(to, entry.id, events, counts).await?;
                let Some(counts) = counts else { continue };
                report_status(
                    to,
                    events,
                    &StatusValues { entry: &entry, counts, uid_next, modseq, messages },
                );
                to.wire.relieve().await?;
            }
        }
        self.report_annotations(to).await?;
        Ok(Reporting::Continues)
    }

    /// The lines about names that differ from an earlier list; `None` if they are too many.
    async fn changed_names(
        &self,
        threads: Threads<'_>,
        old: &MailboxList,
        own_before: &MailboxList,
    ) -> Option<Vec<ListData>> {
        let (new, own) = (&*self.list, (own_before, &*self.own_list));
        let differences = Differences { old, new, own, groups: &self.request.groups };
        // All sessions of the account do the same now.
        let mut turn = Turn::of(threads);
        turn.take(LongWork::Names(old.entries.len() + new.entries.len())).await;
        differences.lines(threads.service.options.notify_mailboxes_max, &mut Pace::default()).await
    }

    /// The mailbox that was selected before, if it has changed since its last report.
    fn left(&self, selected: Option<ReportedState>) -> Option<MailboxNews> {
        let ReportedState { mailbox: id, modseq: reported } = self.was_selected?;
        if selected.is_some_and(|state| state.mailbox == id) {
            return None;
        }
        let of_others = || self.others.as_ref().and_then(|others| others.mailbox(id));
        self.watch.mailbox(id).or_else(of_others).filter(|mailbox| mailbox.modseq > reported)
    }

    /// Reads the rights in mailboxes of others again. A subscription may have been the first to
    /// one.
    async fn renew_others(&mut self, to: &mut Listener<'_>) -> Result<(), Failure> {
        let asker = Asker { service: to.service, login: to.login };
        match &mut self.others {
            Some(others) => {
                let renewing = Box::pin(others.renew(asker, &self.request.groups, &self.own_list));
                to.work(renewing).await
            }
            None => {
                let beginning =
                    Box::pin(FollowedMailboxes::begin(asker, &self.request.groups, &self.own_list));
                self.others = to.work(beginning).await?;
                Ok(())
            }
        }
    }

    /// The counts of a mailbox, with the messages of another account's that the user has not seen.
    /// `None` if its owner has deleted it meanwhile.
    async fn counts_of(
        &self,
        to: &mut Listener<'_>,
        mailbox: MailboxId,
        events: Events,
        counts: Counts,
    ) -> Result<Option<Counts>, Failure> {
        let Some(owner) = self.others.as_ref().and_then(|others| others.account_of(mailbox)) else {
            return Ok(Some(counts));
        };
        if !events.flags {
            return Ok(Some(counts));
        }
        let reading = Reading { owner, mailbox, reader: to.login.id };
        // Boxed: few sessions follow others.
        let threads = Threads { service: to.service, account: to.login.id };
        let counting = Box::pin(seen::unseen(threads, reading, counts.messages));
        match to.work(counting).await {
            Ok(unseen) => Ok(Some(Counts { unseen, ..counts })),
            Err(Failure::Store(StoreError::NoMailbox(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether STATUS may report a mailbox.
    fn may_read(&self, mailbox: MailboxId) -> bool {
        self.others.as_ref().is_none_or(|others| others.may_read(mailbox))
    }

    /// METADATA: RFC 5465 §5.6, §5.7.
    async fn report_annotations(&mut self, to: &mut Listener<'_>) -> Result<(), Failure> {
        let Some(mut known) = self.annotations.take() else { return Ok(()) };
        let reading = known.changes_since(to.service, to.login.id);
        let changes = to.work(reading).await;
        self.annotations = Some(known);
        let mut pace = Pace::default();
        for change in changes?.ok_or(NoMemory)? {
            pace.worked(self.filter_steps()).await;
            let is_wanted = match &change.mailbox {
                None => self.request.server_metadata,
                Some(name) => self.events(name).metadata,
            };
            if is_wanted {
                to.wire.say(change.response());
                to.wire.relieve().await?;
            }
        }
        Ok(())
    }

    /// Another extension reports annotations from now on.
    pub(crate) fn leave_annotations(&mut self) {
        self.annotations = None;
    }

    /// The annotations that were reported to the client.
    pub(crate) fn annotations(&mut self) -> Option<&mut ReportedMetadata> {
        self.annotations.as_deref_mut()
    }

    fn events(&self, name: &MailboxName) -> Events {
        events_of(&self.request.groups, name, &self.own_list)
    }

    fn filter_steps(&self) -> u64 {
        FILTER_STEPS * self.request.groups.len() as u64
    }
}

/// `* STATUS Lists (UIDVALIDITY 4 UIDNEXT 10000 MESSAGES 501)`: RFC 5465 §5.1 to §5.3.
fn report_status(to: &mut Listener<'_>, events: Events, state: &StatusValues<'_>) {
    let mut items = vec![StatusValue::UidValidity(state.entry.uid_validity)];
    if state.messages {
        items.push(StatusValue::UidNext(state.uid_next));
        items.push(StatusValue::Messages(state.counts.messages));
    }
    if events.flags {
        items.push(StatusValue::Unseen(state.counts.unseen));
    }
    // RFC 5465 §3.1 wants it with FlagChange, from every server that has CONDSTORE.
    if events.flags || to.enabled.condstore {
        items.push(StatusValue::HighestModSeq(reported_modseq(state.modseq)));
    }
    to.wire.say(Untagged::Status { mailbox: MailboxArg::from(&state.entry.name), items });
}
