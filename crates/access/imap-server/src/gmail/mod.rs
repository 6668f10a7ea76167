//! X-GM-EXT-1: Gmail's extension of IMAP, for clients and migration tools that were written for it.
//!
//! * X-GM-MSGID is made of EMAILID, and X-GM-THRID of THREADID: numbers of 63 bits.
//! * X-GM-LABELS: see [`labels`].
//! * X-GM-RAW: see [`raw`]. Before a search begins, [`search`] replaces it and labels by other
//!   keys. Queries that these cannot express are in [`attachments`].

pub(crate) mod attachments;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub(crate) mod labels;
mod raw;
pub(crate) mod search;
pub(crate) mod searched;

use posthaste_mail_model::BodyId;

use crate::thread_id::ThreadId;

/// X-GM-MSGID.
pub(crate) fn message_number(body: BodyId) -> u64 {
    // FNV-1a, as for Message-IDs: 63 bits, so that clients with signed numbers can hold them.
    let step = |hash: u64, b: u8| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    body.0.to_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step) >> 1
}

/// X-GM-THRID.
pub(crate) fn thread_number(thread: ThreadId) -> u64 {
    match thread {
        ThreadId::Root(hash) => hash >> 1,
        ThreadId::Alone(body) => message_number(body),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn numbers_fit_a_signed_one() {
        for n in 0..1000 {
            let body = BodyId(Id::new(n, u128::from(n) << 70));
            assert!(i64::try_from(message_number(body)).is_ok());
        }
        assert_eq!(thread_number(ThreadId::Root(u64::MAX)), i64::MAX as u64);
    }
}
