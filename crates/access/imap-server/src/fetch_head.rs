//! How a FETCH response begins.

use posthaste_imap_codec::print::Line;
use posthaste_mail_model::SeqNum;
use posthaste_store::Row;

use crate::enabled::Enabled;

/// `* 3 FETCH (`, or `* 7 UIDFETCH (` (RFC 9586 §3.3), which names the message by its UID.
#[inline(always)]
pub(crate) fn begin_fetch(line: &mut Line<'_>, enabled: Enabled, seq: SeqNum, row: &Row) {
    line.put(b"* ");
    if enabled.uid_only {
        line.number(u64::from(row.uid().value()));
        line.put(b" UIDFETCH (");
    } else {
        line.number(u64::from(seq.value()));
        line.put(b" FETCH (");
    }
}
