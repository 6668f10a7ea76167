//! Evaluates the difference of two views for each context, and reports the messages that entered or
//! left the result: RFC 5267 §4.3.2 to §4.3.4.
//!
//! Expunged messages are reported before EXPUNGE, while their sequence numbers are valid. The
//! others are reported after EXISTS and FETCH.

use std::pin::pin;
use std::time::Duration;

use posthaste_imap_codec::response::{Update, UpdateKind};
use posthaste_imap_codec::{Numbering, Tag};
use posthaste_mail_model::{AccountId, FlagSet, NumSet, SeqNum};
use posthaste_net::NetError;
use posthaste_store::{Difference, Row, StoreError, View};

use super::ordered::Run;
use super::{Context, Contexts, members, order, print};
use crate::command::fetch::job::NewMessages;
use crate::command::gather::Source;
use crate::command::search::criteria::{Question, Watched};
use crate::command::search::job::{self, Job};
use crate::enabled::Enabled;
use crate::heavy::{Pace, part_ended};
use crate::offload::Threads;
use crate::progress::{ProgressTimes, Reports};
use crate::reply::Failure;
use crate::selected::Selected;
use crate::service::ImapService;
use crate::turns::{LongWork, Turn};
use crate::wire::Wire;

/// Steps of finding a message in the view before.
const ROW_STEPS: u64 = 100;

/// The account for which messages are evaluated, and the service that does it.
#[derive(Clone, Copy)]
pub(crate) struct Searcher<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    /// The command at hand, if there is one. It reports that it continues (RFC 9585).
    pub(crate) tag: Option<&'s Tag>,
}

impl<'s> Searcher<'s> {
    /// The threads that do long work.
    pub(crate) fn threads(self) -> Threads<'s> {
        Threads { service: self.service, account: self.account }
    }

    /// The reports of the command at hand.
    pub(crate) fn reports(self) -> Option<Reports<'s>> {
        self.tag.map(|tag| self.service.reports(tag))
    }
}

/// Two views, what differs, and the extensions that the client has enabled.
pub(crate) struct ViewChange<'v> {
    pub(crate) old: &'v View,
    pub(crate) new: &'v View,
    pub(crate) diff: &'v Difference,
    pub(crate) enabled: Enabled,
}

/// The client that gets reports, and the session's turn to make them.
pub(crate) struct Reporter<'w, 's> {
    pub(crate) wire: &'w mut Wire,
    pub(crate) turn: &'w mut Turn<'s>,
    pub(crate) by: Searcher<'s>,
}

impl Reporter<'_, '_> {
    /// Does work between two responses, while the client is connected. If it takes long, the
    /// command at hand reports that it continues. Meanwhile the session has no turn, since the
    /// client may be slow to read the report. It takes one for the work after that.
    async fn work<T>(&mut self, after: LongWork, work: impl Future<Output = T>) -> Result<T, NetError> {
        let Some(reports) = self.by.reports() else { return self.wire.while_there(work).await };
        let clock = self.wire.clock().clone();
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = self.wire.while_there(work.as_mut()) => return done,
            () = clock.sleep(reports.times.first) => {}
        }
        self.turn.give();
        let times = ProgressTimes { first: Duration::ZERO, ..reports.times };
        let done = self.wire.while_reporting(Reports { times, ..reports }, work).await?;
        self.turn.take(after).await;
        Ok(done)
    }

    /// Sends a report. Meanwhile another session has the turn.
    async fn send(&mut self, context: (&Tag, Numbering), updates: &[Update]) -> Result<(), Failure> {
        self.turn.give();
        let (tag, numbering) = context;
        print::updates(self.wire, tag, numbering, updates).await
    }
}

/// Reports messages that are about to be reported as expunged (RFC 5267 §4.3.4). Nothing is read.
pub(crate) async fn report_expunged(
    to: &mut Reporter<'_, '_>,
    contexts: &mut Contexts,
    old: &View,
    expunged: &NumSet,
) -> Result<(), Failure> {
    let pace = &mut Pace::default();
    contexts.pending = contexts.pending.difference(expunged);
    for context in &mut contexts.list {
        to.turn.take(LongWork::Evaluated(expunged.count())).await;
        let mut dropped = NumSet::new();
        for uid in expunged.iter() {
            if context.members.remove(uid) {
                dropped.push(uid);
            }
            if pace.count(members::STEPS) {
                pace.rest().await;
            }
        }
        let (removed, _) = context.remove(old, &dropped, pace).await;
        to.send((&context.tag, context.numbering), removed.as_slice()).await?;
        part_ended().await;
    }
    to.turn.give();
    Ok(())
}

/// Evaluates the messages that came or changed, and reports those that match now and did not
/// before, or the reverse.
pub(crate) async fn report_changes(
    wire: &mut Wire,
    selected: &mut Selected,
    by: Searcher<'_>,
    step: &ViewChange<'_>,
) -> Result<(), Failure> {
    let mut contexts = std::mem::take(&mut selected.contexts);
    let outcome = contexts.refresh(wire, selected, by, step).await;
    contexts.tidy();
    selected.contexts = contexts;
    outcome
}

impl Contexts {
    /// Ends the contexts that need sequence numbers: after ENABLE UIDONLY none is sent (RFC 9586
    /// §3).
    pub(crate) fn end_numbered(&mut self, wire: &mut Wire) {
        self.list.retain(|context| {
            if context.numbering == Numbering::Seq {
                print::no_update(wire, &context.tag, "UIDONLY is enabled");
            }
            context.numbering == Numbering::Uid
        });
        self.tidy();
    }

    async fn refresh(
        &mut self,
        wire: &mut Wire,
        selected: &Selected,
        by: Searcher<'_>,
        step: &ViewChange<'_>,
    ) -> Result<(), Failure> {
        let (view, mut turn) = (step.new, Turn::of(by.threads()));
        let due = view.seqs_of_uids(&self.pending).union(&step.diff.arrived);
        let mut postponed = false;
        let mut at = 0;
        while let Some(context) = self.list.get_mut(at) {
            let source = Source { service: by.service, account: by.account, selected };
            let to = &mut Reporter { wire, turn: &mut turn, by };
            let updated = context.update(to, source, step, &due).await;
            turn.give();
            part_ended().await;
            let ended = match updated {
                Ok(UpdateOutcome::Done) => None,
                // The EXPUNGE of that message is reported next. Then the rest can be evaluated.
                Ok(UpdateOutcome::Postponed) => {
                    postponed = true;
                    None
                }
                Err(Failure::Store(error)) if is_passing(&error) => {
                    tracing::debug!(%error, "a result is brought up to date later");
                    postponed = true;
                    None
                }
                Err(Failure::Reply(reply)) => Some(reply.text.into_owned()),
                Err(Failure::Store(
                    error @ (StoreError::Corrupt(_) | StoreError::Body { .. } | StoreError::Unreadable(_)),
                )) => {
                    tracing::error!(%error, "a result cannot be kept up to date");
                    Some("A message cannot be read".to_owned())
                }
                Err(error) => return Err(error),
            };
            // The result may have grown.
            let ended = match ended {
                None if !self.pay(by.service, by.account) => {
                    Some("The result is too large to be kept up to date now".to_owned())
                }
                ended => ended,
            };
            match (ended, self.list.get(at)) {
                (Some(why), Some(context)) => {
                    print::no_update(wire, &context.tag, &why);
                    self.list.remove(at);
                }
                _ => at += 1,
            }
        }
        self.pending = NumSet::new();
        if postponed {
            self.pending = view.uids_of_seqs(&due.union(&step.diff.changed));
        }
        Ok(())
    }
}

/// Errors of the store that pass.
fn is_passing(error: &StoreError) -> bool {
    error.is_temporary()
}

/// The outcome of an update of a context.
enum UpdateOutcome {
    /// The result is up to date.
    Done,
    /// Somebody expunged a message that has to be read.
    Postponed,
}

impl Context {
    /// Evaluates the messages that are due and those whose change matters here.
    async fn update(
        &mut self,
        to: &mut Reporter<'_, '_>,
        source: Source<'_>,
        step: &ViewChange<'_>,
        due: &NumSet<SeqNum>,
    ) -> Result<UpdateOutcome, Failure> {
        let long = LongWork::Evaluated(due.count() + step.diff.changed.count());
        to.turn.take(long).await;
        // `kept` rejects criteria that depend on the time.
        let question = Question::compile(&self.key, source.selected, 0)?;
        let candidates = due.union(&concerned(step, question.watched()).await);
        if candidates.is_empty() {
            return Ok(UpdateOutcome::Done);
        }
        let mut evaluation = Job::new(source, question, Pace::default());
        let work = Box::pin(evaluation.matching(&candidates));
        let job::Matches { seqs, expunged } = to.work(long, work).await??;
        if expunged > 0 {
            return Ok(UpdateOutcome::Postponed);
        }
        let (mut added, mut dropped) = (NumSet::new(), NumSet::new());
        let pace = &mut Pace::default();
        for (seq, row) in step.new.rows(&candidates) {
            let uid = row.uid().value();
            match (seqs.contains(seq.value()), self.members.contains(uid)) {
                (true, false) => added.push(uid),
                (false, true) => dropped.push(uid),
                _ => {}
            }
            if pace.count(members::STEPS) {
                pace.rest().await;
            }
        }
        self.fetch_new(to, source, step, &added).await?;
        self.apply(to, (source, step.new), added, dropped).await
    }

    /// FETCH of the new messages that enter the result, if UPDATE named items. RFC 5465 §7: after
    /// EXISTS and before ESEARCH, and not of messages that enter because their flags changed.
    async fn fetch_new(
        &self,
        to: &mut Reporter<'_, '_>,
        source: Source<'_>,
        step: &ViewChange<'_>,
        added: &NumSet,
    ) -> Result<(), Failure> {
        if self.items.is_empty() || added.is_empty() || step.diff.arrived.is_empty() {
            return Ok(());
        }
        let seqs = step.new.seqs_of_uids(added).intersection(&step.diff.arrived);
        if seqs.is_empty() {
            return Ok(());
        }
        let Source { service, account, selected } = source;
        let by = Threads { service, account };
        let new = NewMessages { view: step.new, seqs: &seqs, enabled: step.enabled, by };
        // The turn is given up: the FETCH responses may wait for the client.
        to.turn.give();
        Box::pin(new.fetch(to.wire, selected, self.items.clone())).await?;
        to.turn.take(LongWork::Evaluated(added.count())).await;
        Ok(())
    }

    /// Takes messages into the result and out of it, and reports that.
    async fn apply(
        &mut self,
        to: &mut Reporter<'_, '_>,
        (source, view): (Source<'_>, &View),
        added: NumSet,
        dropped: NumSet,
    ) -> Result<UpdateOutcome, Failure> {
        let pace = &mut Pace::default();
        let (removed, stood) = self.remove(view, &dropped, pace).await;
        let mut updates: Vec<Update> = removed.into_iter().collect();
        if let Some(sorted) = &mut self.sorted
            && !added.is_empty()
        {
            let placing = Box::pin(order::add(source, &sorted.criteria, &mut sorted.order, &added, pace));
            let outcome = to.work(LongWork::Evaluated(added.count()), placing).await?;
            if !matches!(outcome, Ok(true)) {
                // Nothing has changed.
                sorted.order.put_back(&stood, pace).await;
                return outcome.map(|_| UpdateOutcome::Postponed);
            }
        }
        for uid in dropped.iter() {
            self.members.remove(uid);
            pace.worked(members::STEPS).await;
        }
        for uid in added.iter() {
            self.members.insert(uid);
            pace.worked(members::STEPS).await;
        }
        if !added.is_empty() {
            let places = match &self.sorted {
                Some(sorted) => {
                    let runs = sorted.order.runs(&added, pace).await;
                    // Places are printed from the first to the last, so the client already has
                    // everything before a place.
                    print::ordered(view, self.numbering, &runs, pace).await
                }
                None => print::unordered(view, self.numbering, &added, pace).await,
            };
            updates.push(Update { kind: UpdateKind::AddTo, places });
        }
        to.send((&self.tag, self.numbering), &updates).await?;
        Ok(UpdateOutcome::Done)
    }

    /// Takes messages out of the order. Returns what to report, if anything, and their earlier
    /// places.
    async fn remove(&mut self, view: &View, dropped: &NumSet, pace: &mut Pace) -> (Option<Update>, Vec<Run>) {
        if dropped.is_empty() {
            return (None, Vec::new());
        }
        let mut stood = Vec::new();
        let places = match &mut self.sorted {
            None => print::unordered(view, self.numbering, dropped, pace).await,
            Some(sorted) => {
                stood = sorted.order.runs(dropped, pace).await;
                sorted.order.remove(dropped, pace).await;
                // Places are printed from the last to the first, so that no removal shifts
                // another place.
                let last_first: Vec<Run> = stood.iter().rev().cloned().collect();
                print::ordered(view, self.numbering, &last_first, pace).await
            }
        };
        (Some(Update { kind: UpdateKind::RemoveFrom, places }), stood)
    }
}

/// The changed messages whose change may matter to criteria. A flag that no key names does not, so
/// a search for a text reads no message again because it was seen.
async fn concerned(step: &ViewChange<'_>, watched: Watched) -> NumSet<SeqNum> {
    let ViewChange { old, new, diff, .. } = step;
    if watched.modseq || diff.changed.is_empty() {
        return diff.changed.clone();
    }
    // The slots whose keyword is another one now.
    let renamed = new.head().keywords.renamed_since(&old.head().keywords);
    let matters = |before: FlagSet, now: FlagSet| {
        let differ = FlagSet::from_bits(before.bits() ^ now.bits());
        differ.intersects(watched.flags) || before.union(now).intersects(renamed)
    };
    let (mut concerned, mut pace) = (NumSet::new(), Pace::default());
    let mut old_rows = old.finder();
    for (seq, row) in new.rows(&diff.changed) {
        let before = old_rows.find(row.uid()).map(Row::flags);
        if before.is_none_or(|before| matters(before, row.flags())) {
            concerned.push(seq.value());
        }
        pace.worked(ROW_STEPS).await;
    }
    concerned
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::task::Poll;

    use posthaste_mail_model::Id;
    use posthaste_net::{Connection, Shutdown, Stream};

    use super::*;
    use crate::session::Session;
    use crate::size_tests::service;

    /// Without the turn, all sessions whose reports took long would compute at once.
    #[tokio::test]
    async fn a_session_has_no_turn_while_it_reports_and_takes_one_afterwards() {
        let mut service = service();
        service.options.progress = ProgressTimes { first: Duration::ZERO, every: Duration::from_secs(3600) };
        let (service, account, tag) = (Arc::new(service), AccountId(Id::new(1, 2)), Tag::new("a").unwrap());
        let (_client, server) = tokio::io::duplex(1 << 20);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
        let (_trigger, shutdown) = Shutdown::new();
        let mut session = Session::on(Arc::clone(&service), connection, shutdown);
        let by = Searcher { service: &service, account, tag: Some(&tag) };
        let (mut turn, long) = (Turn::of(by.threads()), LongWork::Evaluated(u64::MAX));
        turn.take(long).await;
        let mut to = Reporter { wire: &mut session.wire, turn: &mut turn, by };
        let other = async { drop(service.turns.acquire(account).await) };
        to.work(long, other).await.unwrap();
        let mut another = pin!(service.turns.acquire(account));
        let waits = poll_fn(|cx| Poll::Ready(another.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
    }
}
