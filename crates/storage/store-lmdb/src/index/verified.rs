//! Which summaries were verified a short while ago and are not verified again yet.
//!
//! A listing of 100,000 messages would otherwise spend half its time on checksums of bytes that
//! the listing before has verified. A summary never changes, and its key is never given to
//! another one. A copy may get a summary of its own, made from one that was verified. So a
//! verified summary stays verified unless memory or disk fails. Against such failures all bits
//! are cleared each minute, and each summary is verified again at its next read: no summary is
//! served that was not verified within [`TRUSTED_FOR`].
//!
//! One bit a message; reading and setting one takes no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_mail_model::MailboxId;

/// The time for which a check is valid. A minute spreads the cost of one check over all listings
/// of a busy minute. Ten minutes would gain nothing more and leave a failing disk unnoticed ten
/// times as long.
const TRUSTED_FOR: Duration = Duration::from_secs(60);
/// UIDs of one span of bits: 8 KiB, so that a folder of a million is sixteen of them.
const SPAN_UIDS: u32 = 1 << 16;
/// Spans remembered: 32 MiB in all, for some 250 million messages.
const SPANS_MAX: usize = 4096;

type Bits = [AtomicU64; SPAN_UIDS as usize / 64];

/// The verified summaries of all mailboxes.
#[derive(Default)]
pub(crate) struct Verified(Mutex<Spans>);

/// A mailbox, and the number of a span of its UIDs.
type SpanKey = (MailboxId, u32);

#[derive(Default)]
struct Spans {
    since: Option<Instant>,
    spans: HashMap<SpanKey, Arc<Bits>>,
}

/// The verified summaries of one mailbox, for one walk.
pub(crate) struct VerifiedWalk<'p> {
    verified: &'p Verified,
    mailbox: MailboxId,
    span: Option<(u32, Arc<Bits>)>,
}

impl Verified {
    /// The verified summaries of a mailbox.
    pub(crate) fn walk(&self, mailbox: MailboxId) -> VerifiedWalk<'_> {
        VerifiedWalk { verified: self, mailbox, span: None }
    }

    fn span(&self, mailbox: MailboxId, number: u32) -> Arc<Bits> {
        let now = Instant::now();
        let mut known = self.0.lock();
        let expired = known.since.is_none_or(|since| now.duration_since(since) > TRUSTED_FOR);
        if expired || known.spans.len() >= SPANS_MAX {
            known.spans.clear();
            known.since = Some(now);
        }
        let made = || Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Arc::clone(known.spans.entry((mailbox, number)).or_insert_with(made))
    }
}

impl VerifiedWalk<'_> {
    /// Whether the summary of a UID is intact: verified before, or by `check` now.
    #[inline]
    pub(crate) fn is_good(&mut self, uid: u32, check: impl FnOnce() -> bool) -> bool {
        let (number, at) = (uid / SPAN_UIDS, uid % SPAN_UIDS);
        let bits = match &self.span {
            Some((held, bits)) if *held == number => bits,
            _ => &self.span.insert((number, self.verified.span(self.mailbox, number))).1,
        };
        let Some(word) = bits.get(at as usize / 64) else { return check() };
        let bit = 1 << (at % 64);
        if word.load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        let good = check();
        if good {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        good
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn successful_proofs_are_cached_and_failures_are_not() {
        let verified = Verified::default();
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let mut walk = verified.walk(a);
        assert!(!walk.is_good(70_000, || false));
        assert!(walk.is_good(70_000, || true));
        assert!(walk.is_good(70_000, || false), "it was proved");
        assert!(!walk.is_good(70_001, || false) && !walk.is_good(4_464, || false));
        assert!(verified.walk(a).is_good(70_000, || false), "by another walk too");
        assert!(!verified.walk(b).is_good(70_000, || false), "of this mailbox alone");
    }

    #[test]
    fn after_its_time_everything_is_verified_again() {
        let verified = Verified::default();
        let mailbox = MailboxId(Id::new(1, 1));
        assert!(verified.walk(mailbox).is_good(1, || true));
        let long_ago = Instant::now().checked_sub(TRUSTED_FOR * 2);
        verified.0.lock().since = long_ago;
        assert!(!verified.walk(mailbox).is_good(1, || false));
    }
}
