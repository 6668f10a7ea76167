//! EXPUNGE and UID EXPUNGE: RFC 9051 §6.4.3, §6.4.9.

use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{Tag, UidSet};
use posthaste_mail_model::{FlagSet, NumSet};

use super::DONE;
use crate::annotate::reader_of;
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
    let mut only = uids.map(|set| ctx.selected.uids_of(set));
    if let Some(uids) = &mut only
        && ctx.message_limit().process().is_some()
    {
        // RFC 9738 §3.1 limits UID EXPUNGE alone. Only the messages that would be expunged count.
        let view = ctx.selected.mailbox.view();
        let deleted = view.with_flags(FlagSet::DELETED, FlagSet::EMPTY);
        *uids = view.uids_of_seqs(&view.seqs_of_uids(uids).intersection(&deleted));
        ctx.limit_uids(uids);
    }
    let reports = ctx.service.reports(tag);
    let expunging = Box::pin(ctx.selected.mailbox.expunge(only.as_ref()));
    let expunged = ctx.wire.reporting(reports, expunging).await?;
    forget(ctx, &expunged.uids).await;
    ctx.announce(Numbers::Free, Own::Expunged(&expunged.uids)).await?;
    // RFC 7162 §3.2.10.2: the client's new HIGHESTMODSEQ.
    if ctx.enabled.qresync && !expunged.uids.is_empty() {
        return Ok(DONE.with(Code::HighestModSeq(ctx.selected.synchronised_to())));
    }
    Ok(DONE)
}
