//! How a FETCH response begins.

use posthaste_imap_codec::print;
use posthaste_mail_model::SeqNum;
use posthaste_store::Row;

use crate::enabled::Enabled;

/// `* 3 FETCH (`, or `* 7 UIDFETCH (` (RFC 9586 §3.3), which names the message by its UID.
#[inline]
pub(crate) fn begin_fetch(out: &mut Vec<u8>, enabled: Enabled, seq: SeqNum, row: &Row) {
    let (number, name): (u32, &[u8]) = match enabled.uid_only {
        true => (row.uid().value(), b" UIDFETCH ("),
        false => (seq.value(), b" FETCH ("),
    };
    out.extend_from_slice(b"* ");
    print::number(out, u64::from(number));
    out.extend_from_slice(name);
}
