//! STORE and UID STORE of annotations: RFC 5257 §4.5, with UNCHANGEDSINCE of RFC 7162 §3.1.3.

use std::ops::ControlFlow;
use std::sync::Arc;

use posthaste_delivery::has_parts;
use posthaste_directory::{NewValue, OnConflict};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Numbering, Tag, ValueChange};
use posthaste_mail_model::{ModSeq, NumSet, Uid};
use posthaste_mime_summary::SummaryRef;
use posthaste_store::{FlagChange, FlagsStored, Mailbox, Place, Stored};

use super::{DONE, store};
use crate::annotate::reader::AnnotationReader;
use crate::annotate::{self, reader_of};
use crate::begun::{Begun, reporting_after};
use crate::copies::CHANGED_FREE;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::own::{Own, OwnChange};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::session::Ctx;
use crate::table::Numbers;

/// Messages whose structures are read at a time, and octets of structures from which on no further
/// one is read with them. A structure has 8 MiB at most.
const PARTS_BATCH: usize = 16;
const PARTS_BATCH_OCTETS: usize = 128 * 1024;
/// Octets of a structure that are copied in a step. The longest batch takes about a slice.
const COPIED_OCTETS: u64 = 4;
/// Steps of an octet of a structure that is parsed, and of a number of a part.
const OCTET_STEPS: u64 = 12;
const PATH_STEPS: u64 = 100;
/// Octets of a structure in memory, for each one that is printed.
const TREE_SHARE: u64 = 8;

pub(super) async fn run(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    set: &MessageSet,
    (unchanged_since, changes): (Option<ModSeq>, &[ValueChange]),
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
    let mut uids = ctx.selected.uids(ctx.threads(), set).await?;
    ctx.limit_uids(&mut uids);
    if uids.is_empty() {
        return Ok(DONE);
    }
    let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
    let values = annotate::reader::new_values(changes);
    let mailbox = Arc::clone(&ctx.selected.mailbox);
    let begun = Begun::of(ctx.wire);
    let writing = Box::pin(async {
        // Before it holds memory: summaries that are made here take memory of the same budget.
        check_parts(reader, &uids, parts).await?;
        // The mod-sequences of all these messages rise, as by a STORE of flags.
        let held = match uids.count() > CHANGED_FREE {
            true => Some(reader.service.reserve_to_change(reader.login, uids.count()).await?),
            false => None,
        };
        begun.begin()?;
        let mailbox = mailbox.with_permit(held);
        Changed::of((reader, &mailbox), &uids, unchanged_since, &values).await
    });
    let reports = ctx.service.reports(tag);
    let changed = Box::pin(reporting_after(ctx.wire, reports, &begun, writing)).await??;
    let Changed { tested, there, modified, touched, withdrawn, written } = changed;
    note_own(ctx.selected, reader, &there).await;
    let (numbers, expunged) = match set.numbering() {
        Numbering::Seq => (Numbers::Held, tested.difference(&there)),
        // RFC 9051 §6.4.9: a UID that does not exist is no error.
        Numbering::Uid => (Numbers::Free, NumSet::new()),
    };
    // RFC 5257 §4.5: the responses are those of `.SILENT`, but with MODSEQ.
    let own = OwnChange { uids: &touched, change: FlagChange::Add, flags: &[], with_modseq: true };
    ctx.announce(tag, numbers, Own::Changed { uids: &touched, known: Some(&own) }).await?;
    written?;
    let code = store::modified(ctx, &modified, set.numbering()).await?;
    reply(code, &withdrawn, &expunged)
}

/// The outcome of a command.
struct Changed {
    /// The messages that passed the test of their mod-sequences, and those of them that existed.
    tested: NumSet,
    there: NumSet,
    /// The messages that others had changed.
    modified: NumSet,
    /// The messages whose mod-sequences have risen.
    touched: NumSet,
    /// The messages that were expunged before they had their values.
    withdrawn: NumSet,
    written: Result<(), Failure>,
}

impl Changed {
    async fn of(
        (reader, mailbox): (AnnotationReader<'_>, &Mailbox),
        uids: &NumSet,
        unchanged_since: Option<ModSeq>,
        values: &[NewValue],
    ) -> Result<Self, Failure> {
        let view = mailbox.view();
        // A message that arrived meanwhile is not in this view.
        let next = view.head().uid_next.value();
        let is_there =
            |uid: u32| uid >= next || Uid::new(uid).is_some_and(|uid| view.row_of_uid(uid).is_some());
        // The stored values are read before the mod-sequences are tested. A value that others
        // write between that test and this command's write is found by its record.
        let planned = reader.plan(&view.existing(uids), values, &is_there).await?;
        let (mut modified, mut others, mut tested) = (NumSet::new(), OnConflict::Follow, uids.clone());
        if unchanged_since.is_some() {
            // The test and the change of mod-sequences are one commit. Annotations are separate
            // records and are written later. A test that comes meanwhile fails, because the
            // mod-sequences have risen.
            modified = touch_in_rounds(reader, mailbox, uids, unchanged_since).await?;
            (tested, others) = (uids.difference(&modified), OnConflict::Refuse);
        }
        let there = view.existing(&tested).intersection(&mailbox.view().existing(&tested));
        let written = planned.write(&there, others).await;
        if let Ok(written) = &written {
            modified = written.iter().fold(modified, |all, part| all.union(&part.left));
        }
        // This is done after a failure, too: some messages may have their values.
        let mut touched: Option<FlagsStored> = None;
        for round in there.slices(reader.service.changed_max()) {
            if let Some(mut now) = reader.touch(&round, &[]).await? {
                if let Some(before) = touched {
                    now.changed = now.changed.union(&before.changed);
                }
                touched = Some(now);
            }
        }
        // These messages were expunged or moved meanwhile. The session that did so may have found
        // no values to remove or move.
        let withdrawn = touched.as_ref().map(|touched| there.difference(&touched.view.existing(&there)));
        let withdrawn = withdrawn.unwrap_or_default();
        if !withdrawn.is_empty()
            && let Ok(written) = &written
        {
            planned.withdraw(written, &withdrawn).await;
        }
        let touched = touched.map(|touched| touched.changed).unwrap_or_default();
        Ok(Self { tested, there, modified, touched, withdrawn, written: written.map(drop) })
    }
}

/// Raises the mod-sequences of messages that did not change since one, in rounds of as many as one
/// commit may take. Returns those that changed.
async fn touch_in_rounds(
    reader: AnnotationReader<'_>,
    mailbox: &Mailbox,
    uids: &NumSet,
    unchanged_since: Option<ModSeq>,
) -> Result<NumSet, Failure> {
    let mut modified = NumSet::new();
    for round in uids.slices(reader.service.changed_max()) {
        modified = modified.union(&mailbox.touch(&round, unchanged_since).await?.modified);
    }
    Ok(modified)
}

/// Notes that the client knows the values that it has set.
async fn note_own(selected: &mut Selected, reader: AnnotationReader<'_>, uids: &NumSet) {
    if let Some(known) = &mut selected.annotations
        && let Err(error) = known.note_own(reader, uids).await
    {
        tracing::warn!(%error, "a session no longer gets reports of annotation changes");
        selected.annotations = None;
    }
}

/// The reply. `withdrawn` were expunged before they had their values, `expunged` before the
/// command.
fn reply(code: Option<Code>, withdrawn: &NumSet, expunged: &NumSet) -> Result<Reply, Failure> {
    if !withdrawn.is_empty() {
        // RFC 2180 §4.2.2
        const WHY: &str = "Some of the messages were expunged before they had their annotations";
        return Err(Reply::no(code.unwrap_or(Code::ExpungeIssued), WHY).into());
    }
    if let Some(code) = code {
        return Ok(Reply::ok("Some messages were changed by others").with(code));
    }
    if !expunged.is_empty() {
        // RFC 2180 §4.2.1
        return Ok(Reply::ok("Some of the messages were expunged").with(Code::ExpungeIssued));
    }
    Ok(DONE)
}

/// RFC 5257 §3.2.1: the part of an entry must be one of the message.
async fn check_parts(
    reader: AnnotationReader<'_>,
    uids: &NumSet,
    parts: Vec<Vec<u32>>,
) -> Result<(), Failure> {
    if parts.is_empty() {
        return Ok(());
    }
    let (parts, mut pace): (Arc<[Vec<u32>]>, _) = (parts.into(), Pace::default());
    let (all, mut at): (Vec<u32>, usize) = (uids.iter().collect(), 0);
    while let Some(&first) = all.get(at) {
        let batch = &all[at..all.len().min(at + PARTS_BATCH)];
        let (mut last, mut octets) = (batch.last().copied().unwrap_or(first), 0);
        let mut structures: Vec<Vec<u8>> = Vec::new();
        let mut visit = |stored: Stored<'_>| {
            let Ok(summary) = SummaryRef::new(stored.summary) else { return ControlFlow::Continue(()) };
            structures.push(summary.body_structure().to_vec());
            octets += summary.body_structure().len();
            if octets < PARTS_BATCH_OCTETS {
                return ControlFlow::Continue(());
            }
            last = stored.uid.value();
            ControlFlow::Break(())
        };
        let batch: NumSet = batch.iter().copied().collect();
        let (store, login) = (&reader.service.store, Place::Account(reader.login));
        store.made_summaries(login, reader.mailbox, &batch, &mut visit).await?.refuse()?;
        pace.worked(octets as u64 / COPIED_OCTETS).await;
        for structure in structures {
            if !are_parts(reader, structure, &parts, &mut pace).await? {
                return Err(Reply::bad("A message lacks a part that the command names").into());
            }
        }
        at += all[at..].partition_point(|uid| *uid <= last);
    }
    Ok(())
}

/// Whether a message of this structure has these parts.
async fn are_parts(
    reader: AnnotationReader<'_>,
    structure: Vec<u8>,
    parts: &Arc<[Vec<u32>]>,
    pace: &mut Pace,
) -> Result<bool, Failure> {
    let paths: u64 = parts.iter().map(|path| path.len() as u64 + 1).sum();
    let steps = structure.len() as u64 * OCTET_STEPS + paths * PATH_STEPS;
    if steps <= SLICE_STEPS {
        let found = has_parts(&structure, parts);
        pace.worked(steps).await;
        return Ok(found);
    }
    // The parsed structure takes a multiple of its octets.
    let needed = structure.len() as u64 * TREE_SHARE;
    let (login, parts) = (reader.login, Arc::clone(parts));
    let _paid = reader.service.reserve_to_read(login, needed).await?;
    reader.service.heavy.run(login, move || has_parts(&structure, &parts)).await
}
