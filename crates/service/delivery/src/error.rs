//! Why a message was refused, independent of the protocol.

use posthaste_store::StoreError;

/// The reason why a message was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeliveryError {
    /// The message is over the server's limit.
    #[error("the message has {len} octets; the limit is {limit}")]
    TooLarge {
        /// The octets of the message.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// The account has no room for it.
    #[error("the account uses {used} of its {limit} octets and has no room for {more} more")]
    OverQuota {
        /// Octets in use, those of summaries included.
        used: u64,
        /// The account's limit.
        limit: u64,
        /// Octets requested.
        more: u64,
    },
    /// The server has no memory to process the message at the moment.
    #[error("too many large messages are arriving; try again later")]
    Busy,
    /// The summaries of the messages of one command take more memory than one command may.
    #[error(
        "the messages have too many parts and addresses to be appended at once (over {limit} octets); append fewer at a time"
    )]
    TooMuchAtOnce {
        /// Octets of their summaries at most.
        limit: usize,
    },
    /// The account has reached its limit of messages.
    #[error("the account holds {used} of its {limit} messages and has no room for {more} more")]
    TooManyMessages {
        /// Messages it holds.
        used: u64,
        /// The account's limit.
        limit: u64,
        /// Messages requested.
        more: u64,
    },
    /// The work was interrupted by the server's own shutdown, or by a panic while it read this
    /// message.
    #[error("the message could not be processed: {0}")]
    Interrupted(String),
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The kind of a [`DeliveryError`], from which SMTP and LMTP choose their reply. IMAP maps the
/// error itself.
///
/// | kind | SMTP, LMTP |
/// | --- | --- |
/// | `TooLarge` | 552 5.3.4 |
/// | `OverQuota` | 452 4.2.2 (552 5.2.2 if the quota is not to be waited for) |
/// | `NoMailbox` | 550 5.2.1 |
/// | `Unavailable` | 452 4.3.1 |
/// | `Refused` | 554 5.6.0 |
/// | `ServerBug` | 451 4.3.0 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Over the message limit; a retry will fail too.
    TooLarge,
    /// Over the account's quota or the folder's limit; may succeed once its owner deletes mail.
    OverQuota,
    /// The mailbox no longer exists.
    NoMailbox,
    /// Storage is busy, full or unreachable; a retry may succeed.
    Unavailable,
    /// The request is invalid; a retry will fail too.
    Refused,
    /// Something is damaged here; the sender should keep the message for now.
    ServerBug,
}

impl DeliveryError {
    /// The kind of the error.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::TooLarge { .. } | Self::TooMuchAtOnce { .. } => Kind::TooLarge,
            Self::OverQuota { .. } | Self::TooManyMessages { .. } => Kind::OverQuota,
            Self::Busy => Kind::Unavailable,
            Self::Interrupted(_) => Kind::ServerBug,
            Self::Store(error) => match error {
                StoreError::TooLarge { .. } => Kind::TooLarge,
                StoreError::OverQuota
                | StoreError::TooManyMailboxes { .. }
                | StoreError::FolderFull { .. } => Kind::OverQuota,
                StoreError::NoMailbox(_) | StoreError::NoSuchName => Kind::NoMailbox,
                StoreError::Busy | StoreError::Full(_) | StoreError::Unavailable(_) => Kind::Unavailable,
                StoreError::NameTaken
                | StoreError::Name(_)
                | StoreError::Refused(_)
                | StoreError::Keyword(_)
                | StoreError::Superseded(_)
                | StoreError::UidsExhausted
                | StoreError::UidValiditiesExhausted => Kind::Refused,
                StoreError::Corrupt(_) | StoreError::Unreadable(_) | StoreError::Body { .. } => {
                    Kind::ServerBug
                }
            },
        }
    }

    /// Whether the sender should retry later.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.kind(), Kind::OverQuota | Kind::Unavailable | Kind::ServerBug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_kind() {
        let temporary = [
            (DeliveryError::OverQuota { used: 1, limit: 1, more: 1 }, Kind::OverQuota),
            (DeliveryError::Busy, Kind::Unavailable),
            (DeliveryError::TooManyMessages { used: 1, limit: 1, more: 1 }, Kind::OverQuota),
            (StoreError::FolderFull { limit: 1 }.into(), Kind::OverQuota),
            (StoreError::TooManyMailboxes { limit: 1 }.into(), Kind::OverQuota),
            (StoreError::Busy.into(), Kind::Unavailable),
            (StoreError::Full("no space".into()).into(), Kind::Unavailable),
            (StoreError::Unavailable("disk failed".into()).into(), Kind::Unavailable),
            (StoreError::Corrupt("row".into()).into(), Kind::ServerBug),
            (DeliveryError::Interrupted("shutdown".into()), Kind::ServerBug),
        ];
        let lasting = [
            (DeliveryError::TooLarge { len: 2, limit: 1 }, Kind::TooLarge),
            (DeliveryError::TooMuchAtOnce { limit: 1 }, Kind::TooLarge),
            (StoreError::TooLarge { what: "octets", limit: 1 }.into(), Kind::TooLarge),
            (StoreError::NoSuchName.into(), Kind::NoMailbox),
            (StoreError::UidsExhausted.into(), Kind::Refused),
            (StoreError::UidValiditiesExhausted.into(), Kind::Refused),
        ];
        assert!(temporary.iter().all(|(error, kind)| error.kind() == *kind && error.is_temporary()));
        assert!(lasting.iter().all(|(error, kind)| error.kind() == *kind && !error.is_temporary()));
    }
}
