//! STORE and UID STORE: RFC 9051 §6.4.6, with UNCHANGEDSINCE of RFC 7162 §3.1.3.
//!
//! `sync` sends the FETCH responses, for changes of all sessions. This file only decides which
//! changes need no report (`.SILENT`) and which messages are reported although nothing changed.

use std::sync::Arc;

use posthaste_filter::{Cause, Event};
use posthaste_imap_codec::command::{StoreAction, StoreAnswer};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Numbering, Tag};
use posthaste_mail_model::{Flag, ModSeq, NumSet, Rights};
use posthaste_sharing::right_of;
use posthaste_store::{FlagChange, FlagsStored};

use super::{DONE, changes};
use crate::offload::range_steps;
use crate::own::{Own, OwnChange};
use crate::reply::{Failure, Reply};
use crate::rights::{changeable, no_right, permitted};
use crate::seen::FlagOrder;
use crate::selected::Selected;
use crate::session::Ctx;
use crate::sync;
use crate::table::Numbers;

/// A STORE.
pub(super) struct StoreCommand {
    pub(super) set: MessageSet,
    pub(super) unchanged_since: Option<ModSeq>,
    pub(super) action: StoreAction,
    pub(super) answer: StoreAnswer,
    pub(super) flags: Vec<Flag>,
}

pub(super) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, mut command: StoreCommand) -> Result<Reply, Failure> {
    ctx.selected.must_write()?;
    let instead = permitted_change(ctx.selected, &mut command)?;
    if command.unchanged_since.is_some() {
        // RFC 7162 §3.1: using it switches CONDSTORE on.
        ctx.enable_condstore();
    }
    let mut uids = ctx.selected.uids(ctx.threads(), &command.set).await?;
    ctx.limit_uids(&mut uids);
    if uids.is_empty() {
        return Ok(DONE);
    }
    let uids = Arc::new(uids);
    let stored = Arc::new(store(ctx, tag, &command, instead, &uids).await?);
    let event = Event {
        owner: ctx.selected.owner.as_deref().unwrap_or(ctx.login),
        user: ctx.login,
        mailbox: ctx.selected.mailbox.id(),
        cause: Cause::Flag,
        uids: &stored.changed,
        flags: &command.flags,
    };
    let reports = ctx.service.reports(tag);
    ctx.wire.while_reporting(reports, ctx.service.happened(event)).await?;
    let numbers = match command.set.numbering() {
        Numbering::Seq => Numbers::Held,
        Numbering::Uid => Numbers::Free,
    };
    let steps = 6 * range_steps(uids.ranges().len());
    let (numbering, of, all) = (command.set.numbering(), Arc::clone(&stored), Arc::clone(&uids));
    let NotChanged { there, same } =
        ctx.threads().run(steps, move || NotChanged::of(&all, &of, numbering)).await?;
    match command.answer {
        StoreAnswer::Silent => {
            let (change, flags) = (change_of(command.action), &*command.flags);
            let own = OwnChange { uids: &stored.changed, change, flags, with_modseq: true };
            ctx.announce(tag, numbers, Own::Changed { uids: &uids, known: Some(&own) }).await?;
            if command.unchanged_since.is_some() {
                // RFC 7162 §3.1.3: each message that passes the test gets a response, also with
                // `.SILENT`.
                let (view, uids) = (Arc::clone(&ctx.selected.announced), same.clone());
                let steps = range_steps(same.ranges().len());
                let seqs = Box::pin(ctx.threads().run(steps, move || view.seqs_of_uids(&uids))).await?;
                // Adding no flags changes nothing, so every row counts as expected by the client.
                let own = OwnChange { uids: &same, change: FlagChange::Add, flags: &[], with_modseq: true };
                sync::report_messages(ctx.wire, ctx.selected, *ctx.enabled, &seqs, Some(&own)).await?;
            }
        }
        StoreAnswer::Flags => {
            ctx.announce(tag, numbers, Own::Changed { uids: &uids, known: None }).await?;
            report_unchanged(ctx, &same).await?;
        }
    }
    let modified = Box::pin(modified(ctx, &stored.modified, numbering)).await?;
    Ok(reply(modified, there))
}

/// The MODIFIED code: the messages that others had changed (RFC 7162 §3.1.3).
pub(super) async fn modified(
    ctx: &Ctx<'_>,
    uids: &NumSet,
    numbering: Numbering,
) -> Result<Option<Code>, Failure> {
    if uids.is_empty() {
        return Ok(None);
    }
    let numbers = ctx.selected.in_numbering(ctx.threads(), uids.clone(), numbering).await?;
    Ok(Some(Code::Modified(numbers)))
}

/// The part of a command's messages that still exist.
enum Remaining {
    All,
    /// Other sessions expunged the rest, and this session has not reported that yet.
    Some,
    None,
}

/// The messages of the command that were not changed.
struct NotChanged {
    there: Remaining,
    /// The messages whose flags already were as requested.
    same: NumSet,
}

impl NotChanged {
    fn of(uids: &NumSet, stored: &FlagsStored, numbering: Numbering) -> Self {
        let expunged = match numbering {
            // The sequence numbers name messages that no longer exist.
            Numbering::Seq => uids.difference(&stored.view.existing(uids)).difference(&stored.changed),
            // RFC 9051 §6.4.9: a UID that does not exist is no error.
            Numbering::Uid => NumSet::new(),
        };
        let same = uids.difference(&stored.changed).difference(&stored.modified).difference(&expunged);
        let there = match expunged.count() {
            0 => Remaining::All,
            count if count < uids.count() => Remaining::Some,
            _ => Remaining::None,
        };
        Self { there, same }
    }
}

/// Changes the flags, in one step or in two.
async fn store(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    command: &StoreCommand,
    instead: LimitedChange,
    uids: &NumSet,
) -> Result<FlagsStored, Failure> {
    let unchanged_since = command.unchanged_since;
    match instead {
        LimitedChange::Nothing => {
            let (change, flags) = (change_of(command.action), &*command.flags);
            let order = FlagOrder { uids, change, flags, unchanged_since, held: None };
            Box::pin(changes::store_flags(ctx, tag, order)).await
        }
        LimitedChange::RemoveFirst => {
            let flags = &*others_than(&command.flags, ctx.selected);
            let order = FlagOrder { uids, change: FlagChange::Remove, flags, unchanged_since, held: None };
            let removed = Box::pin(changes::store_flags(ctx, tag, order)).await?;
            let rest = uids.difference(&removed.modified);
            let (change, flags) = (FlagChange::Add, &*command.flags);
            let order = FlagOrder { uids: &rest, change, flags, unchanged_since: None, held: None };
            let added = Box::pin(changes::store_flags(ctx, tag, order)).await?;
            Ok(FlagsStored {
                changed: removed.changed.union(&added.changed),
                modified: removed.modified,
                ..added
            })
        }
    }
}

fn change_of(action: StoreAction) -> FlagChange {
    match action {
        StoreAction::Replace => FlagChange::Replace,
        StoreAction::Add => FlagChange::Add,
        StoreAction::Remove => FlagChange::Remove,
    }
}

/// The reply when others changed or expunged some of the messages.
///
/// RFC 2180 §4.2.1 has OK with `.SILENT`. Without it, §4.2.2 recommends NO if all of the messages
/// were expunged. §4.2.3 allows it if some were. But the client has nothing to correct. Clients
/// that share a mailbox would get failures for changes that nobody misses. Messages that exist
/// were changed, and their FETCH responses say so. The code says the rest (RFC 5530 §3).
fn reply(modified: Option<Code>, there: Remaining) -> Reply {
    let expunged =
        |text: &'static str, code: Option<Code>| Reply::ok(text).with(code.unwrap_or(Code::ExpungeIssued));
    match (there, modified) {
        (Remaining::All, None) => DONE,
        (Remaining::All, Some(code)) => Reply::ok("Some messages were changed by others").with(code),
        (Remaining::Some, code) => expunged("Some of the messages were expunged", code),
        (Remaining::None, code) => expunged("All of the messages were expunged", code),
    }
}

/// The changes that are made with few rights.
enum LimitedChange {
    /// As it is.
    Nothing,
    /// Other flags that may be changed are removed, and then these are set.
    RemoveFirst,
}

/// RFC 4314 §4: flags that may not be changed stay as they are. It is an error only if none of the
/// flags may be changed.
fn permitted_change(selected: &Selected, command: &mut StoreCommand) -> Result<LimitedChange, Failure> {
    let rights = selected.rights;
    if rights == Rights::ALL && selected.overlay.is_none() {
        return Ok(LimitedChange::Nothing);
    }
    let is_replaced = command.action == StoreAction::Replace;
    let flags = std::mem::take(&mut command.flags);
    let missing = flags.iter().map(right_of).find(|needed| !rights.contains(*needed));
    command.flags = permitted(flags, rights);
    match missing {
        Some(missing) if command.flags.is_empty() => Err(no_right(missing)),
        _ if is_replaced && changeable(rights).is_empty() => Err(no_right(Rights::WRITE)),
        _ if is_replaced => Ok(LimitedChange::RemoveFirst),
        _ => Ok(LimitedChange::Nothing),
    }
}

/// The flags of the mailbox that may be changed, without these.
fn others_than(flags: &[Flag], selected: &Selected) -> Vec<Flag> {
    let all = selected.announced.head().keywords.flags_of(changeable(selected.rights));
    all.filter(|flag| !flags.contains(flag)).collect()
}

/// Also reports messages whose flags already were as requested.
async fn report_unchanged(ctx: &mut Ctx<'_>, uids: &NumSet) -> Result<(), Failure> {
    let (view, uids) = (Arc::clone(&ctx.selected.announced), uids.clone());
    let seqs = ctx.threads().run(range_steps(uids.ranges().len()), move || view.seqs_of_uids(&uids)).await?;
    if seqs.is_empty() {
        return Ok(());
    }
    sync::report_messages(ctx.wire, ctx.selected, *ctx.enabled, &seqs, None).await
}
