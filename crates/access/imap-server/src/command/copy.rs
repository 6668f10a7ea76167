//! COPY and MOVE, by sequence number or UID: RFC 9051 §6.4.7, §6.4.8.

use std::pin::Pin;
use std::sync::Arc;

use posthaste_delivery::{QuotaReservation, Usage};
use posthaste_directory::{Account, Reading};
use posthaste_filter::{Cause, Event};
use posthaste_imap_codec::response::{Code, Status, StatusKind};
use posthaste_imap_codec::{MailboxArg, MessageSet, Numbering, Tag, UidRanges};
use posthaste_mail_model::{ModSeq, NumSet, Rights, Uid, UidValidity};
use posthaste_store::{Copied, Destination, Mailbox, Moved, OwnArrivals, StoreError, View};

use super::append::done_without;
use crate::annotate::carry::{self, CarriedAnnotations, CopyOrMove};
use crate::annotate::reader::AnnotationReader;
use crate::annotate::reader_of;
use crate::begun::{Begun, reporting_after};
use crate::message_limit::{MessageLimit, newest};
use crate::offload::{Threads, print_status, set_steps};
use crate::own::Own;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ExistingMailbox};
use crate::rights::{Act, changeable, shows_uids, without_usage};
use crate::seen::{self, CarriedSeen};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::session::Ctx;
use crate::table::Numbers;

pub(super) async fn copy(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    set: &MessageSet,
    target: &MailboxArg,
) -> Result<Reply, Failure> {
    let uids = Arc::new(ctx.selected.uids(ctx.threads(), set).await?);
    let to = target_of(ctx, tag, target).await?;
    if uids.is_empty() {
        return Ok(Reply::ok("No messages to copy"));
    }
    bounded(ctx, &uids)?;
    if let Some(limit) = ctx.message_limit().save() {
        let lowest = newest(&uids, limit).first().and_then(Uid::new);
        MessageLimit::refuse(limit, uids.count(), lowest)?;
    }
    let (begun, selected) = (Begun::of(ctx.wire), &*ctx.selected);
    let from = CopySource { service: ctx.service, login: ctx.login, selected, begun: &begun };
    let change: StoreCall<Copied> = |source, uids, target| target.copy_from(source, uids);
    let copying = carry_out(from, (&uids, set.numbering()), &to, CopyOrMove::Copy, change);
    let reports = ctx.service.reports(tag);
    let copying = Box::pin(reporting_after(ctx.wire, reports, &begun, copying));
    let (copied, carried, annotations) = copying.await??;
    let CopyTarget { target, validity, rights, owner, .. } = to;
    let kept = (carried.note(ctx.service, &copied), annotations.copied(&copied));
    Box::pin(keep_beside(ctx, tag, (&target, &copied), kept)).await;
    happened(ctx, tag, &target, (&owner, Cause::Copy, &copied.uids)).await?;
    if copied.uids.is_empty() {
        return all_expunged(set.numbering());
    }
    let reply = done_without(copied.left_out.len());
    Ok(match copy_uid((validity, rights), &copied) {
        Some(code) => reply.with(code),
        None => reply,
    })
}

pub(super) async fn move_(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    set: &MessageSet,
    target: &MailboxArg,
) -> Result<Reply, Failure> {
    ctx.selected.must_write()?;
    ctx.selected.permit(Act::TakeAway)?;
    let mut uids = ctx.selected.uids(ctx.threads(), set).await?;
    let to = target_of(ctx, tag, target).await?;
    if uids.is_empty() {
        return Ok(Reply::ok("No messages to move"));
    }
    ctx.limit_uids(&mut uids);
    bounded(ctx, &uids)?;
    let uids = Arc::new(uids);
    let (begun, selected) = (Begun::of(ctx.wire), &*ctx.selected);
    let from = CopySource { service: ctx.service, login: ctx.login, selected, begun: &begun };
    let change: StoreCall<Moved> = |source, uids, target| source.move_to(uids, target);
    let moving = carry_out(from, (&uids, set.numbering()), &to, CopyOrMove::Move, change);
    let reports = ctx.service.reports(tag);
    let moving = Box::pin(reporting_after(ctx.wire, reports, &begun, moving));
    let (moved, carried, annotations) = moving.await??;
    let CopyTarget { target, validity, rights, owner, .. } = to;
    let kept = (carried.note(ctx.service, &moved.copied), annotations.moved(&moved));
    Box::pin(keep_beside(ctx, tag, (&target, &moved.copied), kept)).await;
    happened(ctx, tag, &target, (&owner, Cause::Copy, &moved.copied.uids)).await?;
    if moved.copied.uids.is_empty() {
        return all_expunged(set.numbering());
    }
    // RFC 9051 §6.4.8: COPYUID precedes the EXPUNGEs, so that the client still knows which
    // messages the numbers mean.
    if let Some(code) = copy_uid((validity, rights), &moved.copied) {
        let moved_to = Status { tag: None, kind: StatusKind::Ok, code: Some(code), text: "Moved".into() };
        print_status(ctx.wire, moved_to).await?;
    }
    let reply = done_without(moved.copied.left_out.len());
    ctx.announce(tag, Numbers::Free, Own::Expunged(&moved.expunged.uids)).await?;
    if ctx.enabled.qresync {
        return Ok(reply.with(Code::HighestModSeq(ctx.selected.synchronised_to())));
    }
    Ok(reply)
}

/// Refuses what would take too much memory. A client that copies a mailbox into itself again and
/// again doubles it each time.
fn bounded(ctx: &Ctx<'_>, uids: &NumSet) -> Result<(), Failure> {
    let max = ctx.service.copied_max();
    if uids.count() > max {
        let text = format!("One command copies or moves at most {max} messages: name fewer of them");
        return Err(Reply::no(Code::Limit, text).into());
    }
    Ok(())
}

/// Reserves the quota of messages that are about to come to a mailbox in which the user has these
/// rights. It may wait for others to end.
pub(super) async fn reserve_quota(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    (owner, rights): (&Account, Rights),
    usage: Usage,
) -> Result<QuotaReservation, Failure> {
    let reports = ctx.service.reports(tag);
    let reserving = ctx.service.delivery.reserve_quota(owner, usage);
    let reserved = ctx.wire.reporting(reports, reserving).await;
    reserved.map_err(|error| without_usage(error.into(), rights))
}

/// Where messages come from, and whose session copies them.
#[derive(Clone, Copy)]
struct CopySource<'s, 'v> {
    service: &'s ImapService,
    login: &'s Account,
    selected: &'v Selected,
    /// Set when the command has its turn and its memory: from then on it does not end with its
    /// client.
    begun: &'v Begun,
}

/// A copy or a move for which everything is reserved.
struct ReadyCopy<'s> {
    /// It holds the memory and the quota.
    target: Destination,
    carried: CarriedSeen,
    annotations: CarriedAnnotations<'s>,
}

/// A call of the store that copies or moves messages from one mailbox to another.
type StoreCall<T> = for<'a> fn(
    &'a Mailbox,
    &'a NumSet,
    &'a Destination,
) -> Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Copies or moves messages. Returns what they take along, which is not written yet. What this
/// reserves is released when it ends: before the client has read a report, and before scripts run.
async fn carry_out<'s, T>(
    from: CopySource<'s, '_>,
    (uids, numbering): (&Arc<NumSet>, Numbering),
    to: &CopyTarget,
    way: CopyOrMove,
    change: StoreCall<T>,
) -> Result<(T, CarriedSeen, CarriedAnnotations<'s>), Failure> {
    let ready = ready(from, (uids, numbering), to, way).await?;
    // It may have waited for quota, or read many annotations.
    from.begun.begin()?;
    let changed = change(&from.selected.mailbox, uids, &ready.target).await;
    let changed = changed.map_err(|error| without_usage(not_copied(&ready.target, error), to.rights))?;
    Ok((changed, ready.carried, ready.annotations))
}

/// Reserves what a copy or a move needs, and reads what the messages take along.
async fn ready<'s>(
    from: CopySource<'s, '_>,
    (uids, numbering): (&Arc<NumSet>, Numbering),
    to: &CopyTarget,
    way: CopyOrMove,
) -> Result<ReadyCopy<'s>, Failure> {
    let CopySource { service, login, selected, begun } = from;
    let threads = Threads { service, account: login.id };
    let held = Box::pin(service.reserve_to_copy(login.id, uids.count())).await?;
    begun.begin()?;
    let usage = Box::pin(usage_if_all_there((selected, threads), uids, numbering)).await?;
    let from_owner = selected.owner.as_ref().map_or(login.id, |owner| owner.id);
    let reserved = match way {
        // It leaves the account as full as it was.
        CopyOrMove::Move if to.owner.id == from_owner => None,
        // Copies count against the quota as any other mail.
        _ => {
            let reserved = service.delivery.reserve_quota(&to.owner, usage).await;
            reserved.map_err(|error| without_usage(error.into(), to.rights))?.until_stored()
        }
    };
    let reader = reader_of(service, login.id, selected);
    let of_target = AnnotationReader { owner: to.owner.id, mailbox: to.target.id(), ..reader };
    // Boxed: all sessions would hold its state.
    let annotations = Box::pin(CarriedAnnotations::read(reader, uids, (of_target, to.rights), way)).await?;
    let target = (to.target.clone(), to.rights);
    let (target, carried) = Box::pin(seen::carry((selected, threads), uids, target, to.reading)).await?;
    let target = target.with_permit(held).holding(reserved);
    Ok(ReadyCopy { target, carried, annotations })
}

/// Writes what is kept beside messages that were added: the user's `\Seen` flags in a mailbox of
/// another account, and annotations. The client is warned of what could not be written.
pub(super) async fn keep_beside(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    (target, added): (&Destination, &Copied),
    (noting, annotating): (
        impl Future<Output = Result<Option<ModSeq>, Failure>>,
        impl Future<Output = Result<(), Failure>>,
    ),
) {
    let keeping = async { (noting.await, annotating.await) };
    let (noted, written) = ctx.wire.reporting(ctx.service.reports(tag), keeping).await;
    carry::warn(written, ctx.wire);
    let touched = seen::warn(noted, ctx.wire);
    note_own(ctx, target, added, touched);
}

/// Messages that the session itself adds are not reported to it: RFC 5465 §5. `touched` is the
/// mod-sequence of their `\Seen` flags, if these have one of their own.
fn note_own(ctx: &mut Ctx<'_>, target: &Destination, copied: &Copied, touched: Option<ModSeq>) {
    if let Some(notify) = &mut ctx.notify {
        let (mailbox, count) = (target.id(), copied.uids.count() as u32);
        let here = ctx.selected.mailbox.id() == mailbox;
        let own = OwnArrivals { mailbox, modseq: copied.modseq, count, touched };
        notify.note_own(own, here.then_some(&copied.uids));
    }
}

/// Runs the script of the mailbox that received messages (RFC 6785).
pub(super) async fn happened(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    target: &Destination,
    (owner, cause, uids): (&Account, Cause, &NumSet),
) -> Result<(), Failure> {
    let event = Event { owner, user: ctx.login, mailbox: target.id(), cause, uids, flags: &[] };
    let reports = ctx.service.reports(tag);
    ctx.wire.while_reporting(reports, ctx.service.happened(event)).await?;
    Ok(())
}

/// The quota that messages take.
fn usage(view: &View, uids: &NumSet) -> Usage {
    let rows = view.rows_of_uids(uids);
    rows.fold(Usage::default(), |sum, (_, row)| Usage {
        bytes: sum.bytes + u64::from(row.size()),
        messages: sum.messages + 1,
    })
}

/// A mailbox that receives messages.
pub(super) struct CopyTarget {
    pub(super) target: Destination,
    pub(super) validity: UidValidity,
    pub(super) rights: Rights,
    /// The account that the messages count for.
    pub(super) owner: Account,
    /// The reader, if the mailbox is another account's.
    pub(super) reading: Option<Reading>,
}

/// The mailbox that receives the messages. If there is none, the client may create it.
pub(super) async fn target_of(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    target: &MailboxArg,
) -> Result<CopyTarget, Failure> {
    let reports = ctx.service.reports(tag);
    let finding = Box::pin(find_target(ctx.asker(), target));
    ctx.wire.reporting(reports, finding).await.map_err(Failure::try_create)
}

/// RFC 4314 §4: messages take along the flags that could be set there.
async fn find_target(asker: Asker<'_>, target: &MailboxArg) -> Result<CopyTarget, Failure> {
    let Asker { service, login } = asker;
    let ExistingMailbox { resolved, entry, rights } = asker.find(target, Act::Insert).await?;
    let target = service.store.destination_for(login.id, entry.id).carrying(changeable(rights));
    let reading = seen::reading(login, resolved.account(), entry.id);
    let owner = asker.owner(&resolved).await?.into_owned();
    target.note_owner_limit(owner.folder_limits.max);
    Ok(CopyTarget { target, validity: entry.uid_validity, rights, owner, reading })
}

/// If the target was deleted since the list was read, the client may create it.
/// RFC 9051 §6.4.7.
pub(super) fn not_copied(target: &Destination, error: StoreError) -> Failure {
    let is_target_deleted = matches!(error, StoreError::NoMailbox(id) if id == target.id());
    let failure = Failure::from(error);
    if is_target_deleted { failure.try_create() } else { failure }
}

/// The COPYUID code of RFC 4315 §3 for messages that were copied, if these rights show their UIDs.
fn copy_uid((validity, rights): (UidValidity, Rights), copied: &Copied) -> Option<Code> {
    let ranges = |set: &NumSet| UidRanges::from(set);
    shows_uids(rights).then(|| Code::CopyUid(validity, ranges(&copied.source), ranges(&copied.uids)))
}

/// The quota that messages take. A set of sequence numbers means messages that this session
/// reported. All of them are copied, or none (RFC 9051 §6.4.7). That also holds if others have
/// expunged some of them and this session has not reported that yet (RFC 2180 §4.4.1).
async fn usage_if_all_there(
    (selected, threads): (&Selected, Threads<'_>),
    uids: &Arc<NumSet>,
    numbering: Numbering,
) -> Result<Usage, Failure> {
    let (view, newest) = (Arc::clone(&selected.announced), selected.mailbox.view());
    let (uids, steps) = (Arc::clone(uids), 2 * set_steps(uids));
    let work = move || {
        let all_there = numbering == Numbering::Uid || newest.existing(&uids) == *uids;
        all_there.then(|| usage(&view, &uids))
    };
    let usage = threads.run(steps, work).await?;
    usage.ok_or_else(|| Reply::no(Code::ExpungeIssued, "Some of these messages were expunged").into())
}

/// The reply when other sessions have expunged all of the messages. A UID that does not exist is no
/// error: RFC 9051 §6.4.9.
fn all_expunged(numbering: Numbering) -> Result<Reply, Failure> {
    match numbering {
        Numbering::Seq => Err(Reply::no(Code::ExpungeIssued, "All of these messages were expunged").into()),
        Numbering::Uid => Ok(Reply::ok("These messages were expunged")),
    }
}
