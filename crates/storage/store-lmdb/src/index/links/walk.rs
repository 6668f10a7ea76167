//! Walks along records with neighbouring UIDs.

use std::ops::Range;

use posthaste_mail_model::MailboxId;
use posthaste_store::{Result, StoreError};

use crate::index::chunk::uid_of;
use crate::index::summaries::record::Origin;
use crate::index::summaries::table::Cursor;
use crate::index::{Indexed, damaged};

/// Largest gap of UIDs that is stepped over: a step costs some 30 ns, a seek some 400.
pub(crate) const GAP: u32 = 12;

/// Splits messages into runs that one cursor can walk. A run is in one mailbox, its UIDs ascend,
/// and no gap between them is above [`GAP`].
pub(crate) fn runs(of: &[Origin]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = of.get(start..).filter(|rest| !rest.is_empty())?;
        let follows = |pair: &&[Origin]| {
            let ((a, low), (b, high)) = (pair[0], pair[1]);
            a == b && low < high && high - low <= GAP
        };
        let run = start..start + 1 + rest.windows(2).take_while(follows).count();
        start = run.end;
        Some(run)
    })
}

/// The record of a UID, which the walk has not passed yet.
pub(super) fn next_of<'t>(there: &mut Cursor<'t>, mailbox: MailboxId, uid: u32) -> Result<&'t [u8]> {
    loop {
        let (key, value) = there.next().ok_or_else(bad(mailbox, uid))?.indexed()?;
        match uid_of(mailbox, key) {
            Some(at) if at == uid => return Ok(value),
            Some(at) if at < uid => {}
            _ => return Err(bad(mailbox, uid)()),
        }
    }
}

pub(super) fn bad(mailbox: MailboxId, uid: u32) -> impl FnOnce() -> StoreError {
    move || damaged(format_args!("summary of UID {uid} in mailbox {mailbox}"))()
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn runs_end_where_a_cursor_would_have_to_jump() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let of = [(a, 1), (a, 2), (a, 14), (a, 27), (b, 28), (b, 28), (b, 5)];
        assert!(runs(&of).eq([0..3, 3..4, 4..5, 5..6, 6..7]));
        assert_eq!(runs(&[]).count(), 0);
    }
}
