//! The errors below the protocols.

use posthaste_mail_model::{BodyId, KeywordError, MailboxId, NameError, NumSet, Uid};

/// Shorthand of this crate and the engines.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Every failure that a protocol has to answer. The protocol chooses the text. The variant
/// separates invalid requests from failures of the server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No mailbox with that id: it was deleted, perhaps while it was selected.
    #[error("mailbox {0} does not exist")]
    NoMailbox(MailboxId),
    /// No mailbox with that name in this account.
    #[error("no mailbox of that name")]
    NoSuchName,
    /// The account was removed, so no mailbox is created in it.
    #[error("the account was removed")]
    AccountRemoved,
    /// The name is taken.
    #[error("a mailbox of that name exists already")]
    NameTaken,
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The operation is not allowed on this mailbox (INBOX deleted, children in the way).
    #[error("{0}")]
    Refused(&'static str),
    /// An invalid keyword, or one more than the mailbox may have.
    #[error(transparent)]
    Keyword(#[from] KeywordError),
    /// The account's storage or message limit would be exceeded.
    #[error("the account's quota would be exceeded")]
    OverQuota,
    /// A list, folder or message over a limit of the store.
    #[error("{what} is over the limit of {limit}")]
    TooLarge {
        /// The quantity that was too large.
        what: &'static str,
        /// The limit in the unit that `what` names.
        limit: u64,
    },
    /// The account has reached its limit of mailboxes (RFC 9208 §5.3), or would exceed it. No
    /// mailbox was created.
    #[error(
        "the account may have {limit} mailboxes at most: delete some, or let an administrator raise its limit"
    )]
    TooManyMailboxes {
        /// The account's limit.
        limit: u64,
    },
    /// The mailbox has reached the store's limit of messages, or would exceed it. Nothing was
    /// added.
    #[error("the folder may hold {limit} messages: delete or move some")]
    FolderFull {
        /// The number of messages that the folder may hold.
        limit: u32,
    },
    /// The rows of open mailboxes have no room for this one, or for new messages of it. Nothing
    /// was read or added.
    #[error("too many messages are in open mailboxes: close some, or try again later")]
    TooManyOpen,
    /// A mailbox whose 2^32 - 1 UIDs are all used up.
    #[error("the mailbox has used up its UIDs: copy its mail to a new mailbox")]
    UidsExhausted,
    /// The last UIDVALIDITY of an account was 2^32 - 1, so no mailbox can be created in it.
    #[error("the account has used up its UIDVALIDITYs: copy its mail to a new account, and check the clock")]
    UidValiditiesExhausted,
    /// Other clients changed the same unit repeatedly; nothing was done.
    #[error("too many changes at once; try again")]
    Busy,
    /// The disk is full. Nothing was done. Reading continues, and mail can be deleted. Holds the
    /// system's message.
    #[error("the disk is full ({0}): free space on it, or delete mail")]
    Full(String),
    /// The disk fails or is read-only, or the database is unreachable. Nothing was done; reading
    /// may continue.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// A record whose checksum or form is wrong. It is never served.
    #[error("damaged record: {0}")]
    Corrupt(String),
    /// Messages that exist and whose summaries cannot be read.
    #[error("the summaries of these messages are damaged: UID {}", named_ranges(.0))]
    Unreadable(NumSet),
    /// An earlier version of this program showed clients other bytes of a rich message. It becomes
    /// a new message, with a new UID.
    #[error("an earlier version of this program converted the message differently: {0}")]
    Superseded(String),
    /// The message's body is missing or unreadable.
    #[error("the body {body} of message {uid} cannot be read: {why}")]
    Body {
        /// The message's UID.
        uid: Uid,
        /// The message's body.
        body: BodyId,
        /// The reason.
        why: String,
    },
}

/// Most ranges of UIDs in an error text: 20, some 200 characters. A reply line with ten times as
/// many helps no reader.
const NAMED_RANGES_MAX: usize = 20;

/// The first ranges of a set, for an error text, and how many more there are.
pub fn named_ranges(uids: &NumSet) -> String {
    let named: NumSet = NumSet::from_ranges(uids.ranges().iter().copied().take(NAMED_RANGES_MAX));
    match uids.count() - named.count() {
        0 => named.to_string(),
        more => format!("{named} and {more} more"),
    }
}

impl StoreError {
    /// Whether a later retry may succeed without a repair.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Busy | Self::Full(_) | Self::Unavailable(_) | Self::TooManyOpen)
    }

    /// The error, with the message whose body is damaged.
    pub(crate) fn of_body(self, uid: Uid, body: BodyId) -> Self {
        match self {
            Self::Corrupt(why) => Self::Body { uid, body, why },
            other => other,
        }
    }

    /// Whether something in the store is damaged. Other requests may succeed.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Unreadable(_) | Self::Body { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_a_bounded_number_of_messages() {
        let few = StoreError::Unreadable(NumSet::from_ranges([(3, 3), (5, 7)]));
        assert_eq!(few.to_string(), "the summaries of these messages are damaged: UID 3,5:7");
        let many = StoreError::Unreadable((1..=100).step_by(2).collect());
        assert!(many.to_string().ends_with("37,39 and 30 more"), "{many}");
    }
}
