//! `\Seen` in mailboxes of others: each user has their own there (RFC 4314 §4).
//!
//! A session in such a mailbox works with views that *overlay* those of the store: all flags but
//! `\Seen` are the mailbox's. FETCH, SEARCH, SORT, and the reports of changes read such a view like
//! any other. A session in its user's own mailbox has no overlay, and no extra cost.
//!
//! Invariants: a user's `\Seen` flags are written first, then the mod-sequences of these messages
//! rise. So a session that reports a mod-sequence has read the change of the flags. The same holds
//! for `\Seen` of new messages, which are there before their flags. The record of the flags says
//! that they are pending until the mod-sequences have risen. After a crash between the two
//! steps, the user's next session in the mailbox raises them, before it reports anything.

use std::sync::Arc;

use posthaste_directory::{Account, PendingSeen, Reading};
use posthaste_mail_model::{Flag, FlagSet, ModSeq, NumSet, Rights};
use posthaste_store::{Copied, Destination, FlagChange, FlagsStored, HeldPermit, Mailbox, StoreError, View};

use crate::heavy::Pace;
use crate::offload::{RANGE_STEPS, Threads, range_steps, set_steps};
use crate::reply::Failure;
use crate::rights::changeable;
use crate::seen_overlay::SeenOverlay;
use crate::selected::Selected;
use crate::service::ImapService;
use crate::wire::Wire;

/// Overlays the user's `\Seen` flags on a mailbox of another account that was just opened.
pub(crate) async fn lay_over(
    service: &ImapService,
    reading: Reading,
    selected: &mut Selected,
) -> Result<(), Failure> {
    let threads = Threads { service, account: reading.reader };
    let there = uids_of(threads, &selected.announced).await?;
    let mut known = service.directory.seen().read(reading, &there).await?;
    if !known.pending.is_empty() && raise_missed(service, reading, selected, &known.pending).await {
        // The flags are read after the mod-sequences: another session may have changed both.
        let there = uids_of(threads, &selected.announced).await?;
        known = service.directory.seen().read(reading, &there).await?;
    }
    let overlay = SeenOverlay::begin(threads, (reading, known.seen), Arc::clone(&selected.announced)).await?;
    selected.announced = overlay.shown();
    selected.overlay = Some(Box::new(overlay));
    Ok(())
}

/// The UIDs of all messages of a view.
async fn uids_of(threads: Threads<'_>, view: &Arc<View>) -> Result<NumSet, Failure> {
    let (view, steps) = (Arc::clone(view), u64::from(view.exists()));
    threads.run(steps, move || view.uids_of_seqs(&view.all())).await
}

/// Raises the mod-sequences that a crash has left behind the flags, and shows the view that has
/// them. Returns whether it did. If the store cannot do it, as on a full disk, the mailbox opens
/// without it, and the next session tries again.
async fn raise_missed(
    service: &ImapService,
    reading: Reading,
    selected: &mut Selected,
    missed: &PendingSeen,
) -> bool {
    match selected.mailbox.touch(missed.uids(), None).await {
        Ok(touched) => {
            complete(service, reading, missed).await;
            selected.notified_to = touched.view.head().uid_next;
            selected.announced = touched.view;
            true
        }
        Err(error) => {
            tracing::warn!(%error, "\\Seen flags of a shared mailbox did not get a new mod-sequence");
            false
        }
    }
}

/// Notes that the mod-sequences have risen. If that fails, the user's next session raises them
/// once more.
async fn complete(service: &ImapService, reading: Reading, changed: &PendingSeen) {
    if let Err(error) = service.directory.seen().complete(reading, changed).await {
        tracing::warn!(%error, "cannot record that \\Seen flags of a shared mailbox got a new mod-sequence");
    }
}

/// The number of messages of another account's mailbox that a user has not seen: UNSEEN of
/// STATUS.
pub(crate) async fn unseen(threads: Threads<'_>, reading: Reading, messages: u32) -> Result<u32, Failure> {
    let service = threads.service;
    if !service.directory.seen().has_any(reading).await? {
        return Ok(messages);
    }
    let view = service.store.open_for(threads.account, reading.mailbox).await?.current().await?;
    let there = uids_of(threads, &view).await?;
    let seen = service.directory.seen().read(reading, &there).await?.seen.count();
    let exists = view.exists();
    Ok(exists - u32::try_from(seen).unwrap_or(u32::MAX).min(exists))
}

/// Flags that STORE adds or removes.
pub(crate) struct FlagOrder<'o> {
    pub(crate) uids: &'o NumSet,
    pub(crate) change: FlagChange,
    pub(crate) flags: &'o [Flag],
    pub(crate) unchanged_since: Option<ModSeq>,
    /// The permit that its commits hold until they have ended.
    pub(crate) held: Option<HeldPermit>,
}

/// Changes flags of the selected mailbox; in a mailbox of another account `\Seen` for the user
/// alone, and then nothing is replaced.
pub(crate) async fn store_flags(
    service: &ImapService,
    selected: &mut Selected,
    order: FlagOrder<'_>,
) -> Result<FlagsStored, Failure> {
    let FlagOrder { uids, change, flags, unchanged_since, held } = order;
    let Selected { mailbox, overlay, .. } = selected;
    let holding = held.map(|held| mailbox.with_permit(Some(held)));
    let mailbox: &Mailbox = holding.as_ref().unwrap_or(mailbox);
    let Some(overlay) = overlay else {
        return Ok(mailbox.store_flags(uids, change, flags, unchanged_since).await?);
    };
    debug_assert_ne!(change, FlagChange::Replace);
    let others: Vec<Flag> = flags.iter().filter(|flag| **flag != Flag::Seen).cloned().collect();
    let mut stored = if others.is_empty() && unchanged_since.is_none() {
        let view = mailbox.current().await?;
        FlagsStored { modified: NumSet::new(), changed: NumSet::new(), modseq: view.modseq(), view }
    } else {
        // Without other flags, this finds those that others have changed.
        mailbox.store_flags(uids, change, &others, unchanged_since).await?
    };
    if others.len() == flags.len() {
        return Ok(stored);
    }
    let (view, all, modified) = (Arc::clone(&stored.view), uids.clone(), stored.modified.clone());
    let steps = 3 * range_steps(all.ranges().len());
    let threads = Threads { service, account: overlay.reading.reader };
    let rest = threads.run(steps, move || view.existing(&all).difference(&modified)).await?;
    let seen = service.directory.seen().among(overlay.reading, &rest).await?;
    let mut differ = match change {
        FlagChange::Remove => seen,
        FlagChange::Add | FlagChange::Replace => threads.difference(rest, seen).await?,
    };
    if unchanged_since.is_some() {
        // RFC 7162 §3.1.3: the test and the change of mod-sequences are one commit. The flags are
        // separate records and are written later. A test that comes meanwhile fails, because the
        // mod-sequences have risen.
        let untested = threads.difference(differ.clone(), stored.changed.clone()).await?;
        let tested = mailbox.touch(&untested, unchanged_since).await?;
        differ = threads.difference(differ, tested.modified.clone()).await?;
        stored.modified = threads.union(stored.modified, tested.modified).await?;
    }
    if differ.is_empty() {
        return Ok(stored);
    }
    let written = service.directory.seen().set(overlay.reading, &differ, change == FlagChange::Add).await?;
    let touched = mailbox.touch(&differ, None).await?;
    complete(service, overlay.reading, &written).await;
    overlay.mark_own(touched.modseq, touched.changed.clone(), change);
    let changed = threads.union(stored.changed, touched.changed).await?;
    Ok(FlagsStored { modified: stored.modified, changed, modseq: touched.modseq, view: touched.view })
}

/// The flag `\Seen` when messages of the selected mailbox are copied or moved.
pub(crate) struct CarriedSeen {
    /// UIDs in the source of messages that the user has seen, if they must be noted afterwards.
    noted: Option<(Reading, NumSet)>,
}

/// Prepares the mailbox that messages are copied to. `reading`: if it is another account's.
pub(crate) async fn carry(
    (selected, threads): (&Selected, Threads<'_>),
    uids: &Arc<NumSet>,
    (target, rights): (Destination, Rights),
    reading: Option<Reading>,
) -> Result<(Destination, CarriedSeen), Failure> {
    if selected.overlay.is_none() && reading.is_none() {
        return Ok((target, CarriedSeen { noted: None }));
    }
    let (view, uids, steps) = (Arc::clone(&selected.announced), Arc::clone(uids), set_steps(uids));
    let work = move || {
        let rows = view.rows_of_uids(&uids);
        let seen = rows.filter(|(_, row)| row.flags().contains(FlagSet::SEEN));
        seen.map(|(_, row)| row.uid().value()).collect::<NumSet>()
    };
    let seen = threads.run(steps, work).await?;
    let target = target.carrying(changeable(rights).difference(FlagSet::SEEN));
    Ok(match reading {
        // One's own: the copies have the flag itself.
        None => (target.seeing(seen), CarriedSeen { noted: None }),
        Some(_) if !rights.contains(Rights::SEEN) => (target, CarriedSeen { noted: None }),
        Some(reading) => (target, CarriedSeen { noted: Some((reading, seen)) }),
    })
}

impl CarriedSeen {
    /// Records which copies the user has seen: as [`note`].
    pub(crate) async fn note(
        self,
        service: &ImapService,
        copied: &Copied,
    ) -> Result<Option<ModSeq>, Failure> {
        let Some((reading, seen)) = self.noted else { return Ok(None) };
        let (mut uids, mut pace) = (NumSet::new(), Pace::default());
        for (from, to) in copied.source.iter().zip(copied.uids.iter()) {
            if seen.contains(from) {
                uids.push(to);
            }
            pace.worked(RANGE_STEPS).await;
        }
        note(service, reading, &uids).await
    }
}

/// Takes `\Seen` out of the flags of a message that is added to a mailbox of another account.
/// Returns whether it was there.
pub(crate) fn take_out(flags: &mut Vec<Flag>) -> bool {
    let before = flags.len();
    flags.retain(|flag| *flag != Flag::Seen);
    flags.len() < before
}

/// Notes that a user has seen messages that were just added, and raises their mod-sequences.
/// Other sessions of the user may have learnt of the messages before (RFC 7162 §3.1). Returns the
/// mod-sequence, if a message got it. The messages exist even if this fails.
pub(crate) async fn note(
    service: &ImapService,
    reading: Reading,
    uids: &NumSet,
) -> Result<Option<ModSeq>, Failure> {
    if uids.is_empty() {
        return Ok(None);
    }
    let written = service.directory.seen().set(reading, uids, true).await;
    // Also after a failure: the flags of some of the messages may be written.
    let touched = match service.store.open_for(reading.reader, reading.mailbox).await {
        Ok(mailbox) => mailbox.touch(uids, None).await,
        Err(error) => Err(error),
    };
    if let Err(StoreError::NoMailbox(_)) = &touched {
        // It may have been deleted before the flags were written: they are removed.
        service.directory.seen().forget(reading.owner, reading.mailbox).await?;
        return Ok(None);
    }
    if let Err(StoreError::TooManyOpen) = &touched {
        // No session here has it open. The user's next one raises the mod-sequences.
        return written.map(|_| None).map_err(Failure::from);
    }
    let (written, touched) = (written?, touched?);
    complete(service, reading, &written).await;
    Ok((!touched.changed.is_empty()).then_some(touched.modseq))
}

/// Warns the client if `\Seen` of new messages could not be written. These are there: it would
/// send or copy them again. RFC 9051 §7.1.2: after an untagged NO, a command may still succeed.
pub(crate) fn warn(noted: Result<Option<ModSeq>, Failure>, wire: &mut Wire) -> Option<ModSeq> {
    noted.unwrap_or_else(|error| {
        tracing::warn!(%error, "new messages of a shared mailbox lack the user's flag Seen");
        wire.say_line(&["* NO The new messages lack \\Seen, which could not be written"]);
        None
    })
}

/// A user's reading of a mailbox, if it is another account's.
pub(crate) fn reading(
    login: &Account,
    owner: Option<&Account>,
    mailbox: posthaste_mail_model::MailboxId,
) -> Option<Reading> {
    owner.map(|owner| Reading { owner: owner.id, mailbox, reader: login.id })
}
