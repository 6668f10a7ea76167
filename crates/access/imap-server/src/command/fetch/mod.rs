//! FETCH and UID FETCH: RFC 9051 §6.4.5, with CHANGEDSINCE and VANISHED of RFC 7162.
//!
//! ```text
//! items ── plan ──> rows only ──────────> line::of_row       a tight loop over the view's slices
//!                   summaries ─ batches ─> line::of_summary   copies out of the store's own memory
//!                   bodies ──── batches ─> body::print        pieces, as the client takes them
//! ```

mod body;
mod line;
mod plan;
mod reader;

use std::ops::ControlFlow;
use std::sync::Arc;

use posthaste_imap_codec::command::{FetchItem, FetchModifiers};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{Numbering, SequenceSet, print};
use posthaste_mail_model::{AccountId, BodyId, Flag, FlagSet, NumSet, SeqNum};
use posthaste_mime_summary::SummaryRef;
use posthaste_store::{FlagChange, Row, StoreError, View, named_ranges};

use self::line::{StoredMessage, Subject};
use self::plan::{Plan, Reads};
use self::reader::{Bodies, Reader};
use crate::batches::Batches;
use crate::flag_names::FlagNames;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::session::Ctx;
use crate::sync::{self, OwnChange, since_modseq};
use crate::table::Numbers;
use crate::wire::{OUT_BYTES, Wire};

/// Rows printed between two checks of the output buffer: 40 KiB of the shortest lines.
const ROWS_PER_RELIEF: usize = 1024;
/// Bytes of summaries kept in one batch for messages whose bodies are read afterwards.
const ASIDE_BYTES_MAX: usize = 64 * 1024;

/// A FETCH.
pub(crate) struct FetchCommand {
    pub(crate) numbering: Numbering,
    pub(crate) set: SequenceSet,
    pub(crate) items: Vec<FetchItem>,
    pub(crate) modifiers: FetchModifiers,
}

/// Runs a FETCH.
pub(crate) async fn run(ctx: &mut Ctx<'_>, command: FetchCommand) -> Result<Reply, Failure> {
    let FetchCommand { numbering, set, mut items, mut modifiers } = command;
    if modifiers.vanished && !ctx.enabled.qresync {
        // RFC 7162 §3.2.6
        return Err(Reply::bad("QRESYNC is to be enabled first").into());
    }
    modifiers.changed_since = modifiers.changed_since.map(since_modseq);
    if numbering == Numbering::Uid && !items.contains(&FetchItem::Uid) {
        // RFC 9051 §6.4.9
        items.insert(0, FetchItem::Uid);
    }
    if modifiers.changed_since.is_some() && !items.contains(&FetchItem::ModSeq) {
        // RFC 7162 §3.1.4.1
        items.push(FetchItem::ModSeq);
    }
    if items.contains(&FetchItem::ModSeq) {
        // RFC 7162 §3.1
        ctx.enable_condstore();
    }
    if modifiers.vanished {
        vanished(ctx, &set, &modifiers).await?;
    }
    let mut seqs = ctx.selected.seqs(&set, numbering)?;
    if let Some(since) = modifiers.changed_since {
        seqs = seqs.intersection(&ctx.selected.announced.changed_since(since));
    }
    if !ctx.selected.read_only && items.iter().any(FetchItem::sets_seen) {
        mark_seen(ctx, &seqs, &mut items).await?;
    }
    let plan = Plan::compile(&items);
    let view = Arc::clone(&ctx.selected.announced);
    let job = Job {
        plan: &plan,
        view: &view,
        seqs: &seqs,
        with_recent: !ctx.enabled.rev2,
        service: ctx.service,
        account: ctx.login.id,
    };
    let (expunged, unreadable) = match plan.reads {
        Reads::Rows => job.rows(ctx.wire, ctx.selected).await?,
        // Boxed: no other command needs as much memory, and without the box every command would
        // reserve as much.
        Reads::Summaries | Reads::Bodies => Box::pin(job.summaries(ctx.wire, ctx.selected)).await?,
    };
    if items.contains(&FetchItem::ModSeq) && ctx.selected.held_since.is_some() {
        sync::report_modseq(ctx.wire, ctx.selected);
    }
    if !unreadable.is_empty() {
        return Ok(cannot_be_read(&unreadable));
    }
    if expunged > 0 && numbering == Numbering::Seq {
        // RFC 5530 §3, RFC 9051 §7.1. A UID that does not exist is no error (§6.4.9), and its
        // EXPUNGE is reported next.
        return Ok(Reply::no(Code::ExpungeIssued, "Some of the messages were expunged"));
    }
    Ok(Reply::ok(""))
}

/// The reply of a FETCH that answered all messages but these. RFC 9051 §6.4.5: NO, "can't fetch
/// that data"; the responses before it remain valid. RFC 5530 §3: CORRUPTION says that a person
/// has to repair something and that a retry is useless. UNAVAILABLE would make clients retry, and
/// SERVERBUG would blame the program.
fn cannot_be_read(unreadable: &NumSet) -> Reply {
    let named = named_ranges(unreadable);
    Reply::no(
        Code::Corruption,
        format!("Stored data of UID {named} is damaged; all other messages were sent"),
    )
}

/// RFC 7162 §3.2.6.
async fn vanished(ctx: &mut Ctx<'_>, set: &SequenceSet, modifiers: &FetchModifiers) -> Result<(), Failure> {
    let requested = ctx.selected.uid_set_ever(set);
    let since = modifiers.changed_since.unwrap_or_default();
    let (expunged, complete) = ctx.selected.mailbox.vanished_since(since).await?;
    let view = &ctx.selected.announced;
    let expunged = if complete { expunged.intersection(&requested) } else { view.missing(&requested) };
    let expunged = expunged.difference(&view.existing(&expunged));
    if !expunged.is_empty() {
        let out = ctx.wire.out();
        out.extend_from_slice(b"* VANISHED (EARLIER) ");
        print::num_set(out, &expunged);
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// Whether an error means that one message's data is damaged, which says nothing about other
/// messages.
fn is_of_one_message(error: &StoreError) -> bool {
    matches!(error, StoreError::Body { .. } | StoreError::Corrupt(_))
}

/// Reading a body sets `\Seen`. The flags are sent with the body, in one response: RFC 9051 §6.4.5
/// shows it so, and curl takes the first FETCH response for its answer.
async fn mark_seen(ctx: &mut Ctx<'_>, seqs: &NumSet, items: &mut Vec<FetchItem>) -> Result<(), Failure> {
    let view = &ctx.selected.announced;
    let unseen = seqs.intersection(&view.with_flags(FlagSet::EMPTY, FlagSet::SEEN));
    if unseen.is_empty() {
        return Ok(());
    }
    let uids = view.uids_of_seqs(&unseen);
    match ctx.selected.mailbox.store_flags(&uids, FlagChange::Add, &[Flag::Seen], None).await {
        Ok(_) => {
            let change = FlagChange::Add;
            let seen = OwnChange { uids: &uids, change, flags: &[Flag::Seen], with_modseq: false };
            ctx.announce(Numbers::Held, Some(&seen)).await?;
            // RFC 7162 §3.2.4: MODSEQ and UID with any change, once CONDSTORE is enabled.
            let wanted = [
                (ctx.enabled.condstore, FetchItem::Uid),
                (true, FetchItem::Flags),
                (ctx.enabled.condstore, FetchItem::ModSeq),
            ];
            let missing = wanted.into_iter().filter(|(is_due, item)| *is_due && !items.contains(item));
            let missing: Vec<_> = missing.map(|(_, item)| item).collect();
            items.splice(0..0, missing);
            Ok(())
        }
        Err(StoreError::Full(why) | StoreError::Unavailable(why)) => {
            // A full disk must not prevent reading.
            tracing::warn!(%why, "cannot set \\Seen on messages that were read");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// A compiled FETCH and its messages.
struct Job<'j> {
    plan: &'j Plan,
    view: &'j View,
    seqs: &'j NumSet,
    /// IMAP4rev2 has no `\Recent`.
    with_recent: bool,
    service: &'j ImapService,
    account: AccountId,
}

/// A message whose body is read after the walk over summaries has paused.
struct PendingBody {
    seq: SeqNum,
    row: Row,
    body: BodyId,
    saved: i64,
    summary: std::ops::Range<usize>,
}

impl Job<'_> {
    fn subject<'r>(&self, selected: &Selected, seq: SeqNum, row: &'r Row) -> Subject<'r> {
        Subject { seq, row, recent: self.with_recent && selected.is_recent(row.uid()) }
    }

    fn bodies<'b>(&'b self, selected: &'b Selected) -> Bodies<'b> {
        Bodies { service: self.service, account: self.account, mailbox: &selected.mailbox }
    }

    async fn rows(&self, wire: &mut Wire, selected: &Selected) -> Result<(u32, NumSet), Failure> {
        let mut names = FlagNames::new(&self.view.head().keywords);
        for (first, rows) in self.view.runs(self.seqs) {
            let mut next = Some(first);
            for rows in rows.chunks(ROWS_PER_RELIEF) {
                let out = wire.out();
                for row in rows {
                    let Some(seq) = next else { break };
                    line::of_row(out, self.plan, &mut names, self.subject(selected, seq, row));
                    next = seq.next();
                }
                wire.relieve().await?;
            }
        }
        Ok((0, NumSet::new()))
    }

    /// Returns how many messages were expunged meanwhile, and which cannot be read.
    async fn summaries(&self, wire: &mut Wire, selected: &Selected) -> Result<(u32, NumSet), Failure> {
        let mut names = FlagNames::new(&self.view.head().keywords);
        let mut batches = Batches::new(self.view, self.seqs);
        let (mut pending, mut kept) = (Vec::new(), Vec::new());
        let always_aside = self.plan.reads == Reads::Bodies;
        let mut pace = Pace::default();
        while batches.more() {
            pending.clear();
            kept.clear();
            let (mut damaged, out) = (Vec::new(), wire.out());
            let mut steps = 0;
            let mut each = |seq: SeqNum, row: &Row, stored: posthaste_store::Stored<'_>| {
                let summary = match SummaryRef::new(stored.summary) {
                    Ok(summary) => summary,
                    Err(error) => {
                        tracing::error!(uid = %stored.uid, %error, "a stored summary has an unknown format; run `posthaste check`");
                        damaged.push(stored.uid);
                        return ControlFlow::Continue(());
                    }
                };
                // Responses stay in order: once one message waits for its body, the messages after
                // it wait too.
                let cost = self.plan.steps_of(&summary);
                steps += cost;
                let is_long = cost > SLICE_STEPS;
                if always_aside || is_long || !pending.is_empty() || line::needs_body(self.plan, &summary) {
                    let start = kept.len();
                    kept.extend_from_slice(stored.summary);
                    let summary = start..kept.len();
                    pending.push(PendingBody {
                        seq,
                        row: *row,
                        body: stored.body,
                        saved: stored.saved,
                        summary,
                    });
                } else {
                    let subject = self.subject(selected, seq, row);
                    let kept = StoredMessage { body: stored.body, saved: stored.saved, summary };
                    line::of_summary(out, self.plan, &mut names, subject, kept);
                }
                match out.len() >= OUT_BYTES || kept.len() >= ASIDE_BYTES_MAX || steps > SLICE_STEPS {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            batches.visit(&selected.mailbox, &mut each).await?;
            damaged.into_iter().for_each(|uid| batches.note_unreadable(uid));
            pace.worked(steps.min(2 * SLICE_STEPS)).await;
            for waiting in &pending {
                let bytes = kept.get(waiting.summary.clone()).unwrap_or_default();
                let Ok(summary) = SummaryRef::new(bytes) else { continue };
                let subject = self.subject(selected, waiting.seq, &waiting.row);
                let kept = StoredMessage { body: waiting.body, saved: waiting.saved, summary };
                let is_long = self.plan.steps_of(&summary) > SLICE_STEPS;
                if is_long || line::needs_body(self.plan, &summary) {
                    let reader = Reader::new(self.bodies(selected), &waiting.row, waiting.body);
                    match body::print(wire, reader, self.plan, &mut names, subject, kept, &mut pace).await {
                        // No byte of this response was sent yet, so the walk can go on with the
                        // next message.
                        Err(Failure::Store(error)) if is_of_one_message(&error) => {
                            tracing::error!(%error, "a message cannot be fetched");
                            batches.note_unreadable(waiting.row.uid());
                        }
                        printed => printed?,
                    }
                } else {
                    line::of_summary(wire.out(), self.plan, &mut names, subject, kept);
                }
            }
            wire.relieve().await?;
        }
        Ok((batches.expunged(), batches.unreadable()))
    }
}
