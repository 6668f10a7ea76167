//! The state of a mailbox without its rows.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, KeywordTable, ModSeq, Uid};

use crate::row::{OCTETS_BITS, Row};

/// The counts that STATUS reports of a mailbox without loading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages.
    pub messages: u32,
    /// Messages without `\Seen`.
    pub unseen: u32,
    /// Messages with `\Deleted` (RFC 9051 §6.3.11).
    pub deleted: u32,
    /// The low [`OCTETS_BITS`] bits are [`Counts::octets`], the others [`Counts::without_items`].
    pub bytes: u64,
}

impl Counts {
    /// Counts one more message.
    pub fn add(&mut self, row: &Row) {
        self.count(row, 1);
    }

    /// Counts one message fewer.
    pub fn remove(&mut self, row: &Row) {
        self.count(row, -1);
    }

    fn count(&mut self, row: &Row, by: i32) {
        let add = |n: &mut u32, counts_it: bool| *n = n.saturating_add_signed(if counts_it { by } else { 0 });
        self.messages = self.messages.saturating_add_signed(by);
        add(&mut self.unseen, !row.flags().contains(FlagSet::SEEN));
        add(&mut self.deleted, row.flags().contains(FlagSet::DELETED));
        let weight = row.weight();
        self.bytes =
            if by > 0 { self.bytes.saturating_add(weight) } else { self.bytes.saturating_sub(weight) };
    }

    /// Octets of all messages (RFC 8438). For messages without items, the octets that were sent.
    pub const fn octets(&self) -> u64 {
        self.bytes & ((1 << OCTETS_BITS) - 1)
    }

    /// Messages whose items delivery did not make ([`Row::lacks_items`]).
    pub const fn without_items(&self) -> u32 {
        (self.bytes >> OCTETS_BITS) as u32
    }
}

/// The state of a mailbox without its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxHead {
    /// Mod-sequence of the last commit: HIGHESTMODSEQ. [`ModSeq::ZERO`] if there never was one.
    pub modseq: ModSeq,
    /// The UID the next message will get.
    pub uid_next: Uid,
    /// Messages from this UID on were reported to no session yet: `\Recent` of RFC 3501 §2.3.2. It
    /// is advisory and is saved with the next commit made for another reason.
    pub first_recent: Uid,
    /// Keywords by slot.
    pub keywords: Arc<KeywordTable>,
    /// Counts.
    pub counts: Counts,
}

impl MailboxHead {
    /// The head without its keywords, which take up to 10 KiB: for those who hold many heads.
    #[must_use]
    pub fn without_keywords(self) -> Self {
        Self { keywords: Arc::default(), ..self }
    }
}

impl Default for MailboxHead {
    /// A mailbox that was created and never changed.
    fn default() -> Self {
        Self {
            modseq: ModSeq::ZERO,
            uid_next: Uid::MIN,
            first_recent: Uid::MIN,
            keywords: Arc::default(),
            counts: Counts::default(),
        }
    }
}
