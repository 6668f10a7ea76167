//! A change of one mailbox, resolved to what exactly becomes of it: what a store hands to an
//! engine.

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Keyword, KeywordTable, MailboxId, ModSeq, NumSet, Uid};
use std::sync::Arc;

use crate::head::{Counts, MailboxHead};
use crate::row::Row;

/// One commit on one mailbox: applied whole, if the mailbox is still at `expected`, or not at all.
///
/// Everything in it is already decided (UIDs, mod-sequences, counts), so that an engine only
/// writes.
#[derive(Debug, Clone)]
pub struct MailboxCommit {
    /// Which mailbox.
    pub mailbox: MailboxId,
    /// The mod-sequence this commit was made against; [`ModSeq::ZERO`] for a mailbox never changed.
    pub expected: ModSeq,
    /// The head after the commit: mod-sequence (higher than `expected`), UIDNEXT, keywords, counts.
    /// A slot has another keyword than before only if every message that has it is among `appended`
    /// and `changed`.
    pub head: MailboxHead,
    /// New messages, UIDs rising, all at or above the old UIDNEXT. Rows here and in `changed` have
    /// mod-sequences above `expected`; only a transfer, whose mailboxes nobody has open, brings
    /// those they had elsewhere, below the head's.
    pub appended: Vec<NewMessage>,
    /// Changed rows of messages that were there before, UIDs rising, each at most once.
    pub changed: Vec<Row>,
    /// Messages that go, by the mod-sequence at which they went (RFC 7162 §3.2.7), mod-sequences
    /// rising.
    pub expunged: Vec<(ModSeq, NumSet)>,
}

impl MailboxCommit {
    /// Counts after the commit.
    pub fn counts(&self) -> &Counts {
        &self.head.counts
    }
    /// Keywords after the commit.
    pub fn keywords(&self) -> &Arc<KeywordTable> {
        &self.head.keywords
    }
}

/// A message that enters a mailbox.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// Its row.
    pub row: Row,
    /// Its bytes' id: several mailboxes may hold one body.
    pub body: BodyId,
    /// When it came into this mailbox, unix seconds: SAVEDATE of RFC 8514.
    pub saved: i64,
    /// Where its bytes and summary come from.
    pub content: Content,
}

/// Where a new message's bytes and summary come from.
#[derive(Debug, Clone)]
pub enum Content {
    /// From outside. An engine that has a body of this id already (another recipient's commit
    /// brought it) does not write it again.
    New {
        /// The message, byte for byte.
        bytes: Bytes,
        /// What delivery made of it; opaque here.
        summary: Bytes,
    },
    /// From another place in the store; its body is shared, its summary copied by the engine.
    CopyOf {
        /// The mailbox that has it.
        mailbox: MailboxId,
        /// Its UID there.
        uid: Uid,
    },
}

/// Whether a commit was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Applied and on disk.
    Done,
    /// Not applied: the mailbox is at another mod-sequence by now, or a message to be copied is
    /// gone.
    Conflict,
}

/// What STORE does with its flags: RFC 9051 §6.4.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagChange {
    /// `FLAGS`
    Replace,
    /// `+FLAGS`
    Add,
    /// `-FLAGS`
    Remove,
}

/// The answer to an append: UIDs in the order of the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// UIDs given.
    pub uids: Vec<Uid>,
    /// The mailbox's mod-sequence after it.
    pub modseq: ModSeq,
    /// Keywords the mailbox has no room for: the messages came in without them. RFC 9051 §6.3.12
    /// asks that flags be set, and does not demand it; the messages matter more.
    pub left_out: Vec<Keyword>,
}
