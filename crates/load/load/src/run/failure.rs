//! What can go wrong in a transaction, by whose fault and under which name it is counted.

use super::mailer::MailerError;
use posthaste_imap_client::Error;

/// Why a transaction did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection cannot be used further.
    #[error("{0}")]
    Connection(#[from] Error),
    /// The server said NO or BAD.
    #[error("{command} was refused: {text}")]
    Refused {
        /// The command.
        command: String,
        /// The server's words.
        text: String,
    },
    /// The server's answer is not true.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// Mail could not be sent.
    #[error("{0}")]
    Mail(#[from] MailerError),
    /// A message sent was not there in time.
    #[error("{0}")]
    NotDelivered(String),
    /// The run ended meanwhile: nobody's fault, not counted.
    #[error("the run ended")]
    Stopped,
}

impl Failure {
    /// The kind under which it is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connection(error) => error.kind(),
            Self::Refused { .. } => "refused",
            Self::Wrong(_) => "wrong-answer",
            Self::Mail(error) => error.kind(),
            Self::NotDelivered(_) => "not-delivered",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the session has to be given up. After a wrong answer too: what is known about the mailbox is no
    /// longer known, and one fault would be counted again and again.
    pub fn ends_session(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::Wrong(_) | Self::Stopped)
    }
}
