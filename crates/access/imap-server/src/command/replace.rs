//! REPLACE and UID REPLACE (RFC 8508): a new message replaces an old one in one step.
//!
//! A client that saves a draft again needs no APPEND, STORE and EXPUNGE. No session ever sees both
//! messages, or neither: one commit adds the new one and expunges the old one, as in a MOVE.

use std::sync::Arc;

use posthaste_delivery::{Prepared, SummariesHeld, Usage};
use posthaste_directory::Reading;
use posthaste_filter::Cause;
use posthaste_imap_codec::command::AppendMessage;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxArg, MessageSet, Numbering, Tag, UidRanges};
use posthaste_mail_model::{AccountId, ModSeq, NumSet, Uid};
use posthaste_store::IncomingMessage;

use super::append::{annotations_of, done_without, is_empty, whole};
use super::catenate::Assembly;
use super::copy::{CopyTarget, happened, keep_beside, not_copied, reserve_quota, target_of};
use super::expunge::forget;
use super::urlauth::UrlSource;
use crate::annotate::reader::AnnotationReader;
use crate::begun::Begun;
use crate::own::Own;
use crate::reply::{Failure, Reply};
use crate::rights::{Act, permitted, shows_uids, without_usage};
use crate::seen;
use crate::service::ImapService;
use crate::session::{Ctx, Session, logged_in};
use crate::table::Numbers;

pub(super) async fn run(
    session: &mut Session,
    tag: &Tag,
    set: &MessageSet,
    (target, mut message): (&MailboxArg, AppendMessage),
) -> Result<Reply, Failure> {
    let mut ctx = session.ctx()?;
    ctx.selected.must_write()?;
    ctx.selected.permit(Act::TakeAway)?;
    // As for APPEND (RFC 3502 §3).
    if is_empty(&message) {
        return Err(Reply::no(Code::Cannot, "REPLACE cancelled by an empty message").into());
    }
    let uids = ctx.selected.uids(ctx.threads(), set).await?;
    let no_such = || Reply::no(Code::NonExistent, "There is no such message");
    let uid = uids.first().and_then(Uid::new).ok_or_else(no_such)?;
    let CopyTarget { target, validity, rights, owner, reading } = target_of(&mut ctx, tag, target).await?;
    let values = annotations_of(&message, rights)?;
    message.flags = permitted(message.flags, rights);
    let reading = reading.filter(|_| seen::take_out(&mut message.flags));
    // The memory of the assembly is held until the message is stored.
    let (mut assembly, begun) = (Assembly::new(), Begun::of(&session.wire));
    let (new, held) = prepared(session, &begun, tag, &mut assembly, message).await?;
    let mut ctx = session.ctx()?;
    let more = growth(&ctx, uid, owner.id, new.bytes.len() as u64);
    // An account that is over its quota may still make a message smaller.
    let reserved = match more == Usage::default() {
        true => None,
        false => reserve_quota(&mut ctx, tag, (&owner, rights), more).await?.until_stored(),
    };
    // The commit goes on if the session ends, and so does what is reserved for it.
    let storing = target.clone().holding(Some(Arc::new(held))).holding(reserved);
    let reader =
        AnnotationReader { service: ctx.service, login: ctx.login.id, owner: owner.id, mailbox: target.id() };
    Box::pin(reader.check_new(std::slice::from_ref(&values))).await?;
    begun.begin()?;
    let replacing = Box::pin(ctx.selected.mailbox.replace(uid, &storing, new));
    let replaced = ctx.wire.reporting(ctx.service.reports(tag), replacing).await;
    let replaced = replaced.map_err(|error| without_usage(not_copied(&target, error), rights))?;
    // The script of a mailbox waits for memory of its own.
    drop(storing);
    if replaced.copied.uids.is_empty() {
        // The message to replace does not exist, so nothing is added.
        return Err(match set.numbering() {
            Numbering::Seq => Reply::no(Code::ExpungeIssued, "The message was expunged").into(),
            Numbering::Uid => no_such().into(),
        });
    }
    let uids = &replaced.copied.uids;
    let noting = note_seen(ctx.service, reading, uids);
    let annotating = reader.write_new(uids.iter().zip([values]).collect());
    Box::pin(keep_beside(&mut ctx, tag, (&target, &replaced.copied), (noting, annotating))).await;
    forget(&ctx, &replaced.expunged.uids).await;
    happened(&mut ctx, tag, &target, (&owner, Cause::Append, uids)).await?;
    let reply = done_without(replaced.copied.left_out.len());
    // RFC 8508 §4.3: APPENDUID precedes the EXPUNGE.
    if shows_uids(rights) {
        let code = Code::AppendUid(validity, UidRanges::from(uids));
        ctx.wire.say_code(code, "The new message is stored");
    }
    ctx.announce(tag, Numbers::Free, Own::Expunged(&replaced.expunged.uids)).await?;
    if ctx.enabled.qresync {
        return Ok(reply.with(Code::HighestModSeq(ctx.selected.synchronised_to())));
    }
    Ok(reply)
}

/// The new message, parsed, and the memory of its summary.
async fn prepared(
    session: &mut Session,
    begun: &Begun,
    tag: &Tag,
    assembly: &mut Assembly,
    message: AppendMessage,
) -> Result<(IncomingMessage, SummariesHeld), Failure> {
    let reports = session.service.reports(tag);
    let account = logged_in(session.login.as_deref())?;
    let source = UrlSource::of(&session.service, account, session.selected.as_ref());
    let preparing = async {
        let new = vec![whole(source, assembly, message).await?];
        Ok::<_, Failure>(source.service.delivery.incoming_all(account.id, new).await?)
    };
    let preparing = begun.unless_login_ends(Box::pin(preparing));
    let Prepared { messages, held } = session.wire.reporting(reports, preparing).await?;
    let missing = || Reply::no(Code::ServerBug, "The prepared message is missing");
    Ok((messages.into_iter().next().ok_or_else(missing)?, held))
}

/// Writes the user's `\Seen` flag in a mailbox of another account.
async fn note_seen(
    service: &ImapService,
    reading: Option<Reading>,
    uids: &NumSet,
) -> Result<Option<ModSeq>, Failure> {
    match reading {
        Some(reading) => seen::note(service, reading, uids).await,
        None => Ok(None),
    }
}

/// RFC 8508 §3.4: how much the owner's usage grows. The old message makes room for the new one.
fn growth(ctx: &Ctx<'_>, uid: Uid, owner: AccountId, bytes: u64) -> Usage {
    let old = ctx.selected.announced.row_of_uid(uid).map_or(0, |(_, row)| u64::from(row.size()));
    match owner == ctx.selected_owner() {
        true => Usage { bytes: bytes.saturating_sub(old), messages: 0 },
        false => Usage { bytes, messages: 1 },
    }
}
