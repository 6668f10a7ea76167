//! STORE and UID STORE of annotations: RFC 5257 §4.5, with UNCHANGEDSINCE of RFC 7162 §3.1.3.

use std::ops::ControlFlow;

use posthaste_delivery::has_part;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Numbering, ValueChange};
use posthaste_mail_model::{ModSeq, NumSet};
use posthaste_mime_summary::SummaryRef;
use posthaste_store::{FlagChange, Stored};

use super::DONE;
use crate::annotate::{self, reader_of};
use crate::heavy::Pace;
use crate::reply::{Failure, Reply};
use crate::session::Ctx;
use crate::sync::OwnChange;
use crate::table::Numbers;

/// Messages whose structures are looked at between two pauses, and the steps that each takes.
const PARTS_BATCH: usize = 16;
const STRUCTURE_STEPS: u64 = 100_000;

pub(super) async fn run(
    ctx: &mut Ctx<'_>,
    set: &MessageSet,
    unchanged_since: Option<ModSeq>,
    changes: &[ValueChange],
) -> Result<Reply, Failure> {
    if ctx.selected.examined {
        return Err(Reply::no(Code::ReadOnly, "The mailbox was opened by EXAMINE").into());
    }
    let parts = annotate::check_names(changes)?;
    annotate::permit(ctx.selected.rights, changes)?;
    if unchanged_since.is_some() {
        // RFC 7162 §3.1: using it switches CONDSTORE on.
        ctx.enable_condstore();
    }
    let mut uids = ctx.selected.uids(set)?;
    ctx.limit_uids(&mut uids);
    if uids.is_empty() {
        return Ok(DONE);
    }
    check_parts(ctx, &uids, &parts).await?;
    let mut modified = NumSet::new();
    let mailbox = std::sync::Arc::clone(&ctx.selected.mailbox);
    if unchanged_since.is_some() {
        // The test and the change are one step. Annotations are apart, so the mod-sequences rise
        // before they are written: a later test fails.
        let tested = mailbox.touch(&uids, unchanged_since).await?;
        uids = uids.difference(&tested.modified);
        modified = tested.modified;
    }
    let view = mailbox.view();
    let there = view.existing(&uids);
    let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
    let values = annotate::reader::new_values(changes);
    // A message that arrived meanwhile is not in this view.
    let next = view.head().uid_next.value();
    let is_there = |uid: u32| {
        uid >= next || posthaste_mail_model::Uid::new(uid).is_some_and(|uid| view.row_of_uid(uid).is_some())
    };
    let written = reader.write(&there, &values, &is_there).await;
    // Also after a failure: some messages may have their values.
    let touched = mailbox.touch(&there, None).await?;
    if let Some(known) = &mut ctx.selected.annotations
        && let Err(error) = known.note_own(reader, &there).await
    {
        tracing::warn!(%error, "changes of annotations are no longer reported to a session");
        ctx.selected.annotations = None;
    }
    let (numbers, expunged) = match set.numbering() {
        Numbering::Seq => (Numbers::Held, uids.difference(&there)),
        // RFC 9051 §6.4.9: a UID that does not exist is no error.
        Numbering::Uid => (Numbers::Free, NumSet::new()),
    };
    // RFC 5257 §4.5: as if it were .SILENT, but with MODSEQ.
    let own = OwnChange { uids: &touched.changed, change: FlagChange::Add, flags: &[], with_modseq: true };
    ctx.announce(numbers, Some(&own)).await?;
    written?;
    if !modified.is_empty() {
        let code = Code::Modified(ctx.selected.in_numbering(&modified, set.numbering()));
        return Ok(Reply::ok("Some messages were changed by others").with(code));
    }
    if !expunged.is_empty() {
        // RFC 2180 §4.2.1
        return Ok(Reply::ok("Some of the messages were expunged").with(Code::ExpungeIssued));
    }
    Ok(DONE)
}

/// RFC 5257 §3.2.1: the part of an entry must be one of the message.
async fn check_parts(ctx: &Ctx<'_>, uids: &NumSet, parts: &[Vec<u32>]) -> Result<(), Failure> {
    if parts.is_empty() {
        return Ok(());
    }
    let mut pace = Pace::default();
    let all: Vec<u32> = uids.iter().collect();
    for batch in all.chunks(PARTS_BATCH) {
        let (batch, mut missing): (NumSet, bool) = (batch.iter().copied().collect(), false);
        let mut visit = |stored: Stored<'_>| {
            let structure = SummaryRef::new(stored.summary).map(|summary| summary.body_structure().to_vec());
            missing |= structure.is_ok_and(|printed| !parts.iter().all(|path| has_part(&printed, path)));
            if missing { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        ctx.selected.mailbox.summaries(&batch, &mut visit).await?.refuse()?;
        if missing {
            return Err(Reply::bad("A message has no such part").into());
        }
        pace.worked(STRUCTURE_STEPS * batch.count()).await;
    }
    Ok(())
}
