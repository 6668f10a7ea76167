//! FETCH and UID FETCH: RFC 9051 §6.4.5, with CHANGEDSINCE and VANISHED of RFC 7162 and
//! PARTIAL of RFC 9394.
//!
//! ```text
//! items ── plan ──> rows only ──────────> line::of_row       a tight loop over the view's slices
//!                   summaries ─ walk ────> line::of_summary   copies out of the store's own memory
//!                   bodies ──── walk ────> body::print        pieces, as the client takes them
//! ```

mod body;
pub(crate) mod job;
mod line;
mod plan;
mod reader;

use std::sync::Arc;

use posthaste_imap_codec::command::{FetchItem, FetchModifiers};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Numbering, Tag, UidSet};
use posthaste_mail_model::{Flag, FlagSet, ModSeq, NumSet, Rights, SeqNum};
use posthaste_store::{FlagChange, StoreError, named_ranges};

use self::job::{FetchJob, NewMessages, annotations};
use self::plan::Plan;
use super::changes;
use super::walk::Unanswered;
use crate::message_limit::MessageLimit;
use crate::offload::{Threads, print_ranges, range_steps, row_steps, set_steps};
use crate::own::{Own, OwnChange};
use crate::reply::{Failure, Reply};
use crate::seen::FlagOrder;
use crate::session::Ctx;
use crate::sync::{self, since_modseq};
use crate::table::Numbers;

/// A FETCH.
pub(crate) struct FetchCommand {
    pub(crate) set: MessageSet,
    pub(crate) items: Vec<FetchItem>,
    pub(crate) modifiers: FetchModifiers,
}

/// Runs a FETCH.
pub(crate) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, command: FetchCommand) -> Result<Reply, Failure> {
    let FetchCommand { set, mut items, mut modifiers } = command;
    let numbering = set.numbering();
    if modifiers.vanished && !ctx.enabled.qresync {
        // RFC 7162 §3.2.6
        return Err(Reply::bad("Enable QRESYNC first").into());
    }
    modifiers.changed_since = modifiers.changed_since.map(since_modseq);
    add_implied(ctx, &mut items, numbering, &modifiers);
    if modifiers.vanished {
        // RFC 7162 §3.2.6. The grammar refuses it, too.
        let (MessageSet::Uid(uids), Some(since)) = (&set, modifiers.changed_since) else {
            return Err(Reply::bad("VANISHED is for UID FETCH with CHANGEDSINCE").into());
        };
        Box::pin(vanished(ctx, tag, uids, since)).await?;
    }
    let mut seqs = Box::pin(selected_messages(ctx, &set, &modifiers)).await?;
    ctx.limit_seqs(&mut seqs);
    // RFC 4314 §4: without the right, \Seen stays as it is.
    let may_set_seen = !ctx.selected.read_only && ctx.selected.rights.contains(Rights::SEEN);
    if may_set_seen && items.iter().any(FetchItem::sets_seen) {
        Box::pin(mark_seen(ctx, tag, &seqs, &mut items)).await?;
    }
    let view = Arc::clone(&ctx.selected.announced);
    let by = Threads { service: ctx.service, account: ctx.login.id };
    let reports = ctx.service.reports(tag);
    let rendering = annotations(by, ctx.selected, &mut items, &seqs);
    let rendered = ctx.wire.reporting(reports, rendering).await?;
    let plan = Plan::compile(&items).annotated(rendered);
    let reports = Some(reports);
    let job = FetchJob { plan: &plan, view: &view, seqs: &seqs, enabled: *ctx.enabled, by, reports };
    let Unanswered { expunged, unreadable } = job.print(ctx.wire, ctx.selected).await?;
    if items.contains(&FetchItem::ModSeq) && ctx.selected.held_since.is_some() {
        sync::report_modseq(ctx.wire, ctx.selected);
    }
    if !unreadable.is_empty() {
        return Ok(cannot_be_read(&unreadable));
    }
    if expunged > 0 && numbering == Numbering::Seq {
        // RFC 2180 §4.1.3: OK, also if none of them is there; the code says the rest
        // (RFC 5530 §3). A UID that does not exist is no error (RFC 9051 §6.4.9), and its EXPUNGE
        // is reported next.
        let text = match u64::from(expunged) < seqs.count() {
            true => "Some of the messages were expunged",
            false => "All of the messages were expunged",
        };
        return Ok(Reply::ok(text).with(Code::ExpungeIssued));
    }
    Ok(Reply::ok(""))
}

/// Adds the items that follow from the form of the command and from its modifiers.
fn add_implied(
    ctx: &mut Ctx<'_>,
    items: &mut Vec<FetchItem>,
    numbering: Numbering,
    modifiers: &FetchModifiers,
) {
    // RFC 9051 §6.4.9. UIDFETCH has the UID before the items (RFC 9586 §3.3).
    if numbering == Numbering::Uid && !ctx.enabled.uid_only && !items.contains(&FetchItem::Uid) {
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
    if items.contains(&FetchItem::ObjectIds) {
        // OBJECTID+ (draft 06 §7.5)
        ctx.enable_object_ids();
    }
}

/// The messages of the set, after PARTIAL and CHANGEDSINCE.
async fn selected_messages(
    ctx: &Ctx<'_>,
    set: &MessageSet,
    modifiers: &FetchModifiers,
) -> Result<NumSet<SeqNum>, Failure> {
    let mut seqs = match (modifiers.partial, set) {
        (Some(page), MessageSet::Uid(uids)) => {
            let (numbered, uids) = (ctx.selected.numbered(), uids.clone());
            ctx.threads().run(numbered.steps(set), move || numbered.page_of_uids(&uids, page)).await?
        }
        _ => ctx.selected.seqs(ctx.threads(), set).await?,
    };
    if let Some(since) = modifiers.changed_since {
        seqs = match modifiers.partial {
            // RFC 9394 §3.3. The page is taken first, so only its own rows are read.
            Some(_) => {
                let view = Arc::clone(&ctx.selected.announced);
                ctx.threads().run(set_steps(&seqs), move || sync::changed_among(&view, &seqs, since)).await?
            }
            None => {
                let view = Arc::clone(&ctx.selected.announced);
                let steps = row_steps(&view) + range_steps(seqs.ranges().len());
                ctx.threads().run(steps, move || seqs.intersection(&view.changed_since(since))).await?
            }
        };
    }
    if let (Some(limit), Some(page)) = (ctx.message_limit().process(), modifiers.partial) {
        // RFC 9738 §3.1: a page is refused before anything is done.
        let (first, last) = page.places();
        MessageLimit::refuse(limit, u64::from(last - first) + 1, None)?;
    }
    Ok(seqs)
}

/// FETCH of new messages for a client that is notified of them (RFC 5465 §5.2).
pub(crate) async fn report_new(
    ctx: &mut Ctx<'_>,
    items: Vec<FetchItem>,
    seqs: &NumSet<SeqNum>,
) -> Result<(), Failure> {
    let view = Arc::clone(&ctx.selected.announced);
    let by = Threads { service: ctx.service, account: ctx.login.id };
    let new = NewMessages { view: &view, seqs, enabled: *ctx.enabled, by };
    new.fetch(ctx.wire, ctx.selected, items).await
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
async fn vanished(ctx: &mut Ctx<'_>, tag: &Tag, uids: &UidSet, since: ModSeq) -> Result<(), Failure> {
    let looking = ctx.selected.mailbox.vanished_since(since);
    let (expunged, complete) = ctx.wire.reporting(ctx.service.reports(tag), looking).await?;
    let (numbered, uids) = (ctx.selected.numbered(), uids.clone());
    let set_steps = numbered.steps(&MessageSet::Uid(uids.clone()));
    let steps = match complete {
        true => set_steps + 3 * range_steps(expunged.ranges().len()),
        // The missing UIDs have as many ranges as the view has gaps.
        false => set_steps + row_steps(&numbered.view),
    };
    let work = move || {
        let (requested, view) = (numbered.uids_ever(&uids), &numbered.view);
        let expunged = if complete { expunged.intersection(&requested) } else { view.missing(&requested) };
        expunged.difference(&view.existing(&expunged))
    };
    let expunged = ctx.threads().run(steps, work).await?;
    if !expunged.is_empty() {
        ctx.wire.out().extend_from_slice(b"* VANISHED (EARLIER) ");
        print_ranges(ctx.wire, expunged.ranges()).await?;
        ctx.wire.out().extend_from_slice(b"\r\n");
    }
    Ok(())
}

/// Reading a body sets `\Seen`. The flags are sent with the body, in one response. RFC 9051 §6.4.5
/// shows it so, and curl takes the first FETCH response for its answer.
async fn mark_seen(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    seqs: &NumSet<SeqNum>,
    items: &mut Vec<FetchItem>,
) -> Result<(), Failure> {
    let (view, seqs) = (Arc::clone(&ctx.selected.announced), seqs.clone());
    let steps = 2 * range_steps(seqs.ranges().len()) + row_steps(&view);
    let work = move || {
        let unseen = view.with_flags(FlagSet::EMPTY, FlagSet::SEEN);
        view.uids_of_seqs(&seqs.intersection(&unseen))
    };
    let uids = ctx.threads().run(steps, work).await?;
    if uids.is_empty() {
        return Ok(());
    }
    let (change, flags) = (FlagChange::Add, &[Flag::Seen]);
    let order = FlagOrder { uids: &uids, change, flags, unchanged_since: None, held: None };
    match Box::pin(changes::store_flags(ctx, tag, order)).await {
        Ok(_) => {
            let seen = OwnChange { uids: &uids, change, flags, with_modseq: false };
            ctx.announce(tag, Numbers::Held, Own::Changed { uids: &uids, known: Some(&seen) }).await?;
            // RFC 7162 §3.2.4: MODSEQ and UID with any change, once CONDSTORE is enabled.
            let wanted = [
                (ctx.enabled.condstore && !ctx.enabled.uid_only, FetchItem::Uid),
                (true, FetchItem::Flags),
                (ctx.enabled.condstore, FetchItem::ModSeq),
            ];
            let missing = wanted.into_iter().filter(|(is_due, item)| *is_due && !items.contains(item));
            let missing: Vec<_> = missing.map(|(_, item)| item).collect();
            items.splice(0..0, missing);
            Ok(())
        }
        Err(Failure::Store(StoreError::Full(why) | StoreError::Unavailable(why))) => {
            // A full disk must not prevent reading.
            tracing::warn!(%why, "cannot set \\Seen on messages that were read");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
