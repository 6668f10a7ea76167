//! STORE and UID STORE: RFC 9051 §6.4.6, with UNCHANGEDSINCE of RFC 7162 §3.1.3.
//!
//! The FETCH responses are those of `sync`: what changed is told there, whoever changed it. Here it
//! is only decided what the client knows already (`.SILENT`) and what it is told although nothing
//! changed.

use posthaste_imap_codec::command::{StoreAction, StoreAnswer};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{Numbering, SequenceSet};
use posthaste_mail_model::{Flag, ModSeq, NumSet};
use posthaste_store::FlagChange;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::session::Ctx;
use crate::sync::{self, Silently};
use crate::table::Numbers;

/// A STORE.
pub(super) struct StoreCommand {
    pub(super) numbering: Numbering,
    pub(super) set: SequenceSet,
    pub(super) unchanged_since: Option<ModSeq>,
    pub(super) action: StoreAction,
    pub(super) answer: StoreAnswer,
    pub(super) flags: Vec<Flag>,
}

pub(super) async fn run(ctx: &mut Ctx<'_>, command: StoreCommand) -> Result<Reply, Failure> {
    ctx.selected.must_write()?;
    if command.unchanged_since.is_some() {
        // RFC 7162 §3.1: using it switches CONDSTORE on.
        ctx.enable_condstore();
    }
    let uids = ctx.selected.uids(&command.set, command.numbering)?;
    if uids.is_empty() {
        return Ok(DONE);
    }
    let change = match command.action {
        StoreAction::Replace => FlagChange::Replace,
        StoreAction::Add => FlagChange::Add,
        StoreAction::Remove => FlagChange::Remove,
    };
    let mailbox = &ctx.selected.mailbox;
    let stored = mailbox.store_flags(&uids, change, &command.flags, command.unchanged_since).await?;
    let (numbers, gone) = match command.numbering {
        // Expunged by others, and not told yet: the client means a message that is no more.
        Numbering::Seq => (Numbers::Held, uids.difference(&stored.view.existing(&uids))),
        // RFC 9051 §6.4.9: a UID nobody has is no error.
        Numbering::Uid => (Numbers::Free, NumSet::new()),
    };
    let gone = gone.difference(&stored.changed);
    let same = uids.difference(&stored.changed).difference(&stored.modified).difference(&gone);
    match command.answer {
        StoreAnswer::Silent => {
            let own = Silently { uids: &stored.changed, change, flags: &command.flags, with_modseq: true };
            ctx.announce(numbers, Some(&own)).await?;
            if command.unchanged_since.is_some() {
                // RFC 7162 §3.1.3: each message that passes the test is answered for, also with
                // `.SILENT`.
                let seqs = ctx.selected.announced.seqs_of_uids(&same);
                // To add no flags changes nothing: every row is as the client expects it.
                let own = Silently { uids: &same, change: FlagChange::Add, flags: &[], with_modseq: true };
                sync::tell_again(ctx.wire, ctx.selected, *ctx.enabled, &seqs, Some(&own)).await?;
            }
        }
        StoreAnswer::Flags => {
            ctx.announce(numbers, None).await?;
            tell_unchanged(ctx, &same).await?;
        }
    }
    let modified = (!stored.modified.is_empty())
        .then(|| Code::Modified(ctx.selected.in_numbering(&stored.modified, command.numbering)));
    if !gone.is_empty() {
        // RFC 2180 §4.2.2, RFC 7162 §3.1.3 (example 11): what is there was changed, and OK would
        // say all was.
        let code = modified.unwrap_or(Code::ExpungeIssued);
        return Ok(Reply::no(code, "Some of the messages are gone"));
    }
    Ok(match modified {
        Some(code) => Reply::ok("Some messages were changed by others").with(code),
        None => DONE,
    })
}

/// Messages that have been as asked already are answered for too.
async fn tell_unchanged(ctx: &mut Ctx<'_>, uids: &NumSet) -> Result<(), Failure> {
    let seqs = ctx.selected.announced.seqs_of_uids(uids);
    if seqs.is_empty() {
        return Ok(());
    }
    sync::tell_again(ctx.wire, ctx.selected, *ctx.enabled, &seqs, None).await
}
