//! Prints the responses of a FETCH: those of the command, and those of new messages that the
//! client requested in advance (RFC 5465 §5.2, §7).

use posthaste_delivery::LargeMessage;
use posthaste_imap_codec::command::FetchItem;
use posthaste_mail_model::{NumSet, SeqNum};
use posthaste_store::{Row, View};

use super::body::{self, Printer};
use super::line::{self, Subject};
use super::plan::{Plan, Reads};
use super::reader::{Bodies, MessageReader};
use crate::annotate::reader_of;
use crate::annotate::render::{self, Rendered};
use crate::command::walk::{Deferred, LongOutcome, Pass, Unanswered, VisitOutcome, Visited, Walk};
use crate::enabled::Enabled;
use crate::flag_names::FlagNames;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::offload::Threads;
use crate::progress::Reports;
use crate::reply::Failure;
use crate::selected::Selected;
use crate::service::ImapService;
use crate::wire::{OUT_BYTES, Wire};

/// Rows printed between two checks of the output buffer: 40 KiB of the shortest lines.
const ROWS_PER_RELIEF: usize = 1024;

/// New messages of the selected mailbox.
pub(crate) struct NewMessages<'n> {
    pub(crate) view: &'n View,
    pub(crate) seqs: &'n NumSet<SeqNum>,
    pub(crate) enabled: Enabled,
    pub(crate) by: Threads<'n>,
}

impl NewMessages<'_> {
    /// FETCH of what the client requested of new messages. Sets no `\Seen`. A message that was
    /// expunged or cannot be read is left out: a FETCH of the client reports it.
    pub(crate) async fn fetch(
        &self,
        wire: &mut Wire,
        selected: &Selected,
        mut items: Vec<FetchItem>,
    ) -> Result<(), Failure> {
        let Self { view, seqs, enabled, by } = *self;
        if !enabled.uid_only && !items.contains(&FetchItem::Uid) {
            items.insert(0, FetchItem::Uid);
        }
        let rendered = annotations(by, selected, &mut items, seqs).await?;
        let plan = Plan::compile(&items).annotated(rendered);
        let job = FetchJob { plan: &plan, view, seqs, enabled, by, reports: None };
        job.print(wire, selected).await.map(drop)
    }
}

/// The annotations to print. Most commands request none.
pub(super) async fn annotations(
    by: Threads<'_>,
    selected: &Selected,
    items: &mut Vec<FetchItem>,
    seqs: &NumSet<SeqNum>,
) -> Result<Vec<Rendered>, Failure> {
    if !items.iter().any(|item| matches!(item, FetchItem::Annotation(_))) {
        return Ok(Vec::new());
    }
    // An item requested twice is answered once.
    let all = std::mem::take(items);
    all.into_iter().for_each(|item| {
        if !items.contains(&item) {
            items.push(item)
        }
    });
    let reader = reader_of(by.service, by.account, selected);
    let uids = selected.announced.uids_of_seqs(seqs);
    Box::pin(render::render(reader, items, &uids)).await
}

/// Whether a message was printed.
enum Printed {
    Yes,
    /// The message was expunged after it was deferred.
    Expunged,
}

/// A compiled FETCH and its messages.
pub(super) struct FetchJob<'j> {
    pub(super) plan: &'j Plan,
    pub(super) view: &'j View,
    pub(super) seqs: &'j NumSet<SeqNum>,
    pub(super) enabled: Enabled,
    pub(super) by: Threads<'j>,
    /// The command's reports, if it is one.
    pub(super) reports: Option<Reports<'j>>,
}

impl FetchJob<'_> {
    /// Prints the responses. Returns the messages that have none.
    pub(super) async fn print(&self, wire: &mut Wire, selected: &Selected) -> Result<Unanswered, Failure> {
        match self.plan.reads_of(self.view) {
            Reads::Rows => self.rows(wire, selected).await,
            // Boxed: no other command needs as much memory, and without the box every command
            // would reserve as much.
            Reads::Summaries | Reads::Bodies => Box::pin(self.summaries(wire, selected)).await,
        }
    }

    #[inline]
    fn subject<'r>(&self, selected: &Selected, seq: SeqNum, row: &'r Row) -> Subject<'r> {
        let enabled = self.enabled;
        // IMAP4rev2 has no `\Recent`.
        Subject { seq, row, recent: !enabled.rev2 && selected.is_recent(row.uid()), enabled }
    }

    fn bodies<'b>(&'b self, selected: &'b Selected) -> Bodies<'b> {
        let Threads { service, account } = self.by;
        Bodies { service, account, mailbox: &selected.mailbox }
    }

    async fn rows(&self, wire: &mut Wire, selected: &Selected) -> Result<Unanswered, Failure> {
        let mut names = FlagNames::new(&self.view.head().keywords);
        for (first, rows) in self.view.runs(self.seqs) {
            let mut next = Some(first);
            for rows in rows.chunks(ROWS_PER_RELIEF) {
                for row in rows {
                    let Some(seq) = next else { break };
                    line::of_row(wire.out(), self.plan, &mut names, self.subject(selected, seq, row));
                    next = seq.next();
                    // A message may have many long keywords or annotations.
                    if wire.is_full() {
                        wire.relieve().await?;
                    }
                }
                wire.relieve().await?;
            }
        }
        Ok(Unanswered::none())
    }

    async fn summaries(&self, wire: &mut Wire, selected: &Selected) -> Result<Unanswered, Failure> {
        let names = FlagNames::new(&self.view.head().keywords);
        let mut printer = Printer { plan: self.plan, names, pace: Pace::default(), first: self.reports };
        let mut walk = Walk::new(&selected.mailbox, self.view, self.seqs);
        let reads_bodies = self.plan.reads == Reads::Bodies;
        while walk.more() {
            let (out, Printer { names, pace, first, .. }) = (wire.out(), &mut printer);
            let each = |message: Visited<'_>, pass: &mut Pass| {
                pass.steps += self.plan.steps_of(&message.stored.summary);
                // Responses stay in order: once one message waits for its body, the messages
                // after it wait too.
                if reads_bodies || pass.has_deferred || self.must_wait(&message) {
                    return VisitOutcome::Deferred;
                }
                let subject = self.subject(selected, message.seq, message.row);
                *first = None;
                line::of_summary(out, self.plan, names, subject, message.stored);
                if out.len() >= OUT_BYTES { VisitOutcome::Full } else { VisitOutcome::Done }
            };
            walk.visit(pace, each).await?;
            let (deferred, faults) = walk.deferred();
            for message in deferred.iter() {
                let printed = match message.is_long() {
                    true => Box::pin(self.long_offloaded(wire, selected, &mut printer, message)).await,
                    false => {
                        self.deferred(wire, selected, &mut printer, message).await.map(|()| Printed::Yes)
                    }
                };
                // A message that cannot be read fails before any byte of its response is printed.
                if let Some(Printed::Expunged) = faults.collect(message.row.uid(), printed)? {
                    faults.expunged();
                }
            }
            wire.relieve().await?;
        }
        Ok(walk.end())
    }

    /// Whether a message's body is read, or the response is long or takes long: then it is
    /// printed item by item, as the client reads it.
    fn must_wait(&self, message: &Visited<'_>) -> bool {
        let summary = &message.stored.summary;
        self.plan.steps_of(summary) > SLICE_STEPS
            || self.plan.printed_max(summary) > OUT_BYTES
            || line::needs_body(self.plan, summary)
    }

    /// Prints a message that was deferred, and whose summary is long. Its memory is reserved
    /// until the client has read the response.
    async fn long_offloaded(
        &self,
        wire: &mut Wire,
        selected: &Selected,
        printer: &mut Printer<'_>,
        message: Deferred<'_>,
    ) -> Result<Printed, Failure> {
        let reading = message.read_long(self.by, &selected.mailbox);
        let read = wire.wait_for(reading, printer.first).await??;
        let LongOutcome::Read(long) = read else { return Ok(Printed::Expunged) };
        self.deferred(wire, selected, printer, message.with(Some(&long))).await?;
        Ok(Printed::Yes)
    }

    /// Holds a message that the client may read in pieces.
    async fn hold(&self, selected: &Selected, message: &Visited<'_>) {
        let (mailbox, body, bytes) = (&selected.mailbox, message.stored.body, u64::from(message.row.size()));
        let large = LargeMessage { mailbox, body, bytes };
        let ImapService { held, reads, .. } = self.by.service;
        held.hold(&selected.holding, self.by.account, reads, large).await;
    }

    /// Prints a message that was deferred.
    async fn deferred(
        &self,
        wire: &mut Wire,
        selected: &Selected,
        printer: &mut Printer<'_>,
        message: Deferred<'_>,
    ) -> Result<(), Failure> {
        let message = message.read()?;
        let subject = self.subject(selected, message.seq, message.row);
        if self.must_wait(&message) {
            let reader = MessageReader::new(self.bodies(selected), message.row, &message.stored);
            if reader.is_large() && self.plan.reads == Reads::Bodies {
                wire.wait_for(Box::pin(self.hold(selected, &message)), printer.first).await?;
            }
            return body::print(wire, reader, printer, subject, message.stored).await;
        }
        printer.first = None;
        line::of_summary(wire.out(), self.plan, &mut printer.names, subject, message.stored);
        wire.relieve().await?;
        Ok(())
    }
}
