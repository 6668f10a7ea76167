//! EXPUNGE and UID EXPUNGE: RFC 9051 §6.4.3, §6.4.9.

use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MessageSet, Tag, UidSet};
use posthaste_mail_model::{FlagSet, NumSet};

use super::{DONE, changes};
use crate::annotate::reader_of;
use crate::offload::row_steps;
use crate::own::Own;
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::session::Ctx;
use crate::table::Numbers;

/// Forgets the annotations of expunged messages (RFC 5257).
pub(super) async fn forget(ctx: &Ctx<'_>, uids: &NumSet) {
    if !uids.is_empty() {
        // Boxed: all sessions would hold its state.
        Box::pin(reader_of(ctx.service, ctx.login.id, ctx.selected).forget(uids)).await;
    }
}

pub(super) async fn run(ctx: &mut Ctx<'_>, tag: &Tag, uids: Option<&UidSet>) -> Result<Reply, Failure> {
    ctx.selected.must_write()?;
    ctx.selected.permit(Act::Expunge)?;
    let only = match uids {
        Some(set) => Some(named(ctx, set).await?),
        None => None,
    };
    let reader = reader_of(ctx.service, ctx.login.id, ctx.selected);
    let from = (reader, &*ctx.selected.mailbox);
    let expunged = Box::pin(changes::expunge(ctx.wire, from, tag, only.as_ref())).await?;
    ctx.announce(tag, Numbers::Free, Own::Expunged(&expunged.uids)).await?;
    // RFC 7162 §3.2.10.2: the client's new HIGHESTMODSEQ.
    if ctx.enabled.qresync && !expunged.uids.is_empty() {
        return Ok(DONE.with(Code::HighestModSeq(ctx.selected.synchronised_to())));
    }
    Ok(DONE)
}

/// The UIDs that UID EXPUNGE names, as far as the limit of messages lets it process them.
async fn named(ctx: &mut Ctx<'_>, set: &UidSet) -> Result<NumSet, Failure> {
    let (numbered, set) = (ctx.selected.numbered(), set.clone());
    let steps = numbered.steps(&MessageSet::Uid(set.clone()));
    if ctx.message_limit().process().is_none() {
        return ctx.threads().run(steps, move || numbered.uids_of(&set)).await;
    }
    // RFC 9738 §3.1 limits UID EXPUNGE alone. Only the messages that would be expunged count.
    let view = ctx.selected.mailbox.view();
    let steps = 3 * steps + row_steps(&view);
    let work = move || {
        let deleted = view.with_flags(FlagSet::DELETED, FlagSet::EMPTY);
        view.uids_of_seqs(&view.seqs_of_uids(&numbered.uids_of(&set)).intersection(&deleted))
    };
    let mut uids = ctx.threads().run(steps, work).await?;
    ctx.limit_uids(&mut uids);
    Ok(uids)
}
