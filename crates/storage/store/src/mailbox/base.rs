//! The base of a change: the known state of its mailbox, and how much of it a change
//! needs.

use std::sync::Arc;

use posthaste_mail_model::ModSeq;

use crate::head::MailboxHead;
use crate::view::View;

/// The base of a change.
#[derive(Clone)]
pub(super) enum Base {
    /// The head alone: enough to add messages.
    Head(MailboxHead),
    /// Head and rows.
    View(Arc<View>),
}

impl Base {
    pub fn head(&self) -> &MailboxHead {
        match self {
            Self::Head(head) => head,
            Self::View(view) => view.head(),
        }
    }

    pub fn modseq(&self) -> ModSeq {
        self.head().modseq
    }
}

/// The part of a mailbox's state that a change needs. Each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needs {
    /// The head, for new messages.
    Head,
    /// The rows, for changed flags and expunged messages.
    Rows,
    /// Rows that were compared with the engine's.
    NewestRows,
}
