//! Values for tests: ids, pseudo-random numbers, a head.

use std::sync::Arc;

use posthaste_mail_model::{BodyId, Id, Keyword, KeywordTable, ModSeq, Uid};

use crate::head::{Counts, MailboxHead};

/// An id no other run has: stores of clusters outlive a test run.
pub fn new_id() -> Id {
    let mut random = [0; 16];
    getrandom::fill(&mut random).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Id::new(now.as_millis() as u64, u128::from_le_bytes(random))
}

/// As [`new_id`].
pub fn new_body_id() -> BodyId {
    BodyId(new_id())
}

pub(crate) const fn modseq(n: u64) -> ModSeq {
    ModSeq::new(n).unwrap()
}

/// A small generator of pseudo-random numbers (the finaliser of MurmurHash3 over a counter): enough
/// to choose steps.
#[derive(Clone)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 33)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// A head in which every field has a value of its own: for tests of how engines store it.
pub fn sample_head() -> MailboxHead {
    let keywords = vec![Keyword::new("$Junk").unwrap(), Keyword::new("later").unwrap()];
    MailboxHead {
        modseq: ModSeq::new(77).unwrap(),
        uid_next: Uid::new(5).unwrap(),
        keywords: Arc::new(KeywordTable::from_keywords(keywords).unwrap()),
        counts: Counts { messages: 4, unseen: 3, deleted: 2, bytes: 1 << 40 },
        ..MailboxHead::default()
    }
}
