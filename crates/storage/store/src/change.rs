//! A resolved change of one mailbox: the exact rows and messages that a store hands to an engine.

use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Keyword, KeywordTable, MailboxId, ModSeq, NumSet, Uid};

use crate::head::{Counts, MailboxHead};
use crate::row::Row;

/// The mod-sequence of an expunge, and the UIDs of its messages (RFC 7162 §3.2.7).
pub type ExpungedUids = (ModSeq, NumSet);

/// A commit on one mailbox. It is applied whole if the mailbox is still at `expected`, or not at
/// all.
///
/// Everything in it is already decided (UIDs, mod-sequences, counts), so that an engine only
/// writes.
#[derive(Debug, Clone)]
pub struct MailboxCommit {
    /// The mailbox that is changed.
    pub mailbox: MailboxId,
    /// The mod-sequence this commit was made against; [`ModSeq::ZERO`] for a mailbox that was
    /// never changed.
    pub expected: ModSeq,
    /// The head after the commit: mod-sequence (higher than `expected`), UIDNEXT, keywords, counts.
    /// A slot has another keyword than before only if every message that has it is among `appended`
    /// and `changed`.
    pub head: MailboxHead,
    /// New messages in UID order, all at or above the old UIDNEXT. Rows here and in `changed` have
    /// mod-sequences above `expected`. Only a transfer, whose mailboxes nobody has open, keeps the
    /// mod-sequences of the source, which are below the head's.
    pub appended: Vec<NewMessage>,
    /// Changed rows of existing messages in UID order, each at most once.
    pub changed: Vec<Row>,
    /// Expunged messages, by ascending mod-sequence.
    pub expunged: Vec<ExpungedUids>,
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
    /// The message's row.
    pub row: Row,
    /// The id of the body, which several mailboxes may share.
    pub body: BodyId,
    /// The time when the message came into this mailbox, unix seconds: SAVEDATE of RFC 8514.
    pub saved: i64,
    /// The mod-sequence with which the message came into this mailbox, at most the row's:
    /// CREATEDMODSEQ of Cyrus. [`ModSeq::ZERO`] if it is not known.
    pub created: ModSeq,
    /// The source of the message's bytes and summary.
    pub content: Content,
}

/// The source of a new message's bytes and summary.
#[derive(Debug, Clone)]
pub enum Content {
    /// A message from outside. An engine need not rewrite a body that it has under this id, for
    /// example from another recipient's commit. One whose [`crate::Engine::recode`] may take the
    /// rich original away does so if these bytes have it ([`crate::form::restores`]), and
    /// otherwise keeps the stored form.
    New {
        /// The message, byte for byte.
        bytes: Bytes,
        /// The summary that delivery made; opaque here.
        summary: Bytes,
    },
    /// From another place in the store. Its body is shared, and the engine copies its summary.
    CopyOf {
        /// The mailbox of the copied message.
        mailbox: MailboxId,
        /// The message's UID in that mailbox.
        uid: Uid,
    },
}

/// Whether a commit was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Applied and on disk.
    Done,
    /// Not applied: the mailbox is at another mod-sequence now, or a message to be copied no longer
    /// exists.
    Conflict,
}

/// The action of STORE with its flags: RFC 9051 §6.4.6.
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
    /// The assigned UIDs.
    pub uids: Vec<Uid>,
    /// The mailbox's mod-sequence after the append.
    pub modseq: ModSeq,
    /// Keywords that did not fit into the mailbox's table: the messages were stored without them.
    /// RFC 9051 §6.3.12 does not demand that all flags are set, and losing a keyword is better
    /// than losing the message. Of many, only the first are here.
    pub left_out: Vec<Keyword>,
}
