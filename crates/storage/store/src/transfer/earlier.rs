//! Whether a source is at an earlier state than the one that was copied, as after a return to a
//! snapshot of its file system.
//!
//! The numbers of a store only rise. The last UIDVALIDITY of an account (RFC 9051 §2.3.1.1), the
//! UIDNEXT of a mailbox and its mod-sequence (RFC 7162 §3.1) never fall. So a target that has a
//! higher one has mail, or flags, that the source lost. A copy would remove them.
//!
//! The mod-sequence of a target's head does not show this: the commits of a transfer raise it above
//! the source's. The mod-sequences of its rows are those of the source.

use posthaste_mail_model::{MailboxId, ModSeq};

use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::row::Row;

/// The reason of a refusal.
pub(super) const EARLIER: StoreError = StoreError::Refused(
    "the source is at an earlier state than the one that was copied, and newer mail or flags would be removed \
     from the target",
);

/// Refuses a mailbox if the target, which has it at `place`, has a UID, or a change of flags, that
/// the source has not reached.
pub(super) async fn refuse_earlier(
    (from, id): (&dyn Engine, MailboxId),
    (to, place): (&dyn Engine, MailboxId),
) -> Result<()> {
    let (here, there) = (from.heads(&[id]).await?, to.heads(&[place]).await?);
    let ([Some(here)], [Some(there)]) = (&here[..], &there[..]) else { return Ok(()) };
    if here.uid_next < there.uid_next {
        return Err(EARLIER);
    }
    if there.modseq <= here.modseq {
        return Ok(());
    }
    let mut last = ModSeq::ZERO;
    let mut visit = |rows: &[Row]| last = rows.iter().map(Row::modseq).fold(last, ModSeq::max);
    to.load(place, &mut visit).await?;
    if here.modseq < last { Err(EARLIER) } else { Ok(()) }
}
