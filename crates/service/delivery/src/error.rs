//! Why a message was refused, independent of the protocol.

use posthaste_directory::DirectoryError;
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
pub enum ErrorKind {
    /// Over the message limit; a retry will fail too.
    TooLarge,
    /// Over the account's quota or the folder's limit; may succeed once its owner deletes mail.
    OverQuota,
    /// The mailbox or the account no longer exists.
    NoMailbox,
    /// Storage is busy, full or unreachable; a retry may succeed.
    Unavailable,
    /// The request is invalid; a retry will fail too.
    Refused,
    /// Something is damaged here; the sender should keep the message for now.
    ServerBug,
}

impl From<DirectoryError> for DeliveryError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Store(error) => error.into(),
            error => Self::Interrupted(error.to_string()),
        }
    }
}

impl DeliveryError {
    /// The kind of the error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } | Self::TooMuchAtOnce { .. } => ErrorKind::TooLarge,
            Self::OverQuota { .. } | Self::TooManyMessages { .. } => ErrorKind::OverQuota,
            Self::Busy => ErrorKind::Unavailable,
            Self::Interrupted(_) => ErrorKind::ServerBug,
            Self::Store(error) => match error {
                StoreError::TooLarge { .. } => ErrorKind::TooLarge,
                StoreError::OverQuota
                | StoreError::TooManyMailboxes { .. }
                | StoreError::FolderFull { .. } => ErrorKind::OverQuota,
                StoreError::NoMailbox(_) | StoreError::NoSuchName | StoreError::AccountRemoved => {
                    ErrorKind::NoMailbox
                }
                StoreError::Busy
                | StoreError::Full(_)
                | StoreError::Unavailable(_)
                | StoreError::TooManyOpen => ErrorKind::Unavailable,
                StoreError::NameTaken
                | StoreError::Name(_)
                | StoreError::Refused(_)
                | StoreError::Keyword(_)
                | StoreError::Superseded(_)
                | StoreError::UidsExhausted
                | StoreError::UidValiditiesExhausted => ErrorKind::Refused,
                StoreError::Corrupt(_) | StoreError::Unreadable(_) | StoreError::Body { .. } => {
                    ErrorKind::ServerBug
                }
            },
        }
    }

    /// Whether the sender should retry later.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.kind(), ErrorKind::OverQuota | ErrorKind::Unavailable | ErrorKind::ServerBug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_kind() {
        let temporary = [
            (DeliveryError::OverQuota { used: 1, limit: 1, more: 1 }, ErrorKind::OverQuota),
            (DeliveryError::Busy, ErrorKind::Unavailable),
            (DeliveryError::TooManyMessages { used: 1, limit: 1, more: 1 }, ErrorKind::OverQuota),
            (StoreError::FolderFull { limit: 1 }.into(), ErrorKind::OverQuota),
            (StoreError::TooManyMailboxes { limit: 1 }.into(), ErrorKind::OverQuota),
            (StoreError::Busy.into(), ErrorKind::Unavailable),
            (StoreError::TooManyOpen.into(), ErrorKind::Unavailable),
            (StoreError::Full("no space".into()).into(), ErrorKind::Unavailable),
            (StoreError::Unavailable("disk failed".into()).into(), ErrorKind::Unavailable),
            (StoreError::Corrupt("row".into()).into(), ErrorKind::ServerBug),
            (DeliveryError::Interrupted("shutdown".into()), ErrorKind::ServerBug),
        ];
        let lasting = [
            (DeliveryError::TooLarge { len: 2, limit: 1 }, ErrorKind::TooLarge),
            (DeliveryError::TooMuchAtOnce { limit: 1 }, ErrorKind::TooLarge),
            (StoreError::TooLarge { what: "octets", limit: 1 }.into(), ErrorKind::TooLarge),
            (StoreError::NoSuchName.into(), ErrorKind::NoMailbox),
            (StoreError::AccountRemoved.into(), ErrorKind::NoMailbox),
            (StoreError::UidsExhausted.into(), ErrorKind::Refused),
            (StoreError::UidValiditiesExhausted.into(), ErrorKind::Refused),
        ];
        assert!(temporary.iter().all(|(error, kind)| error.kind() == *kind && error.is_temporary()));
        assert!(lasting.iter().all(|(error, kind)| error.kind() == *kind && !error.is_temporary()));
    }
}
