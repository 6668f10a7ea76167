//! The failures of a transaction, the party at fault, and the name under which each is counted.

use posthaste_imap_client::Error;

use super::mailer::MailerError;

/// RFC 5530 §3: a subsystem the server needs is away. It is unknown whether the server carried
/// out the last command, as after a lost connection.
fn is_unavailable(text: &str) -> bool {
    text.contains("[UNAVAILABLE]")
}

/// The reason why a transaction did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection cannot be used further.
    #[error("{0}")]
    Connection(#[from] Error),
    /// The server answered NO or BAD.
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
            Self::Refused { text, .. } if is_unavailable(text) => "unavailable",
            Self::Refused { .. } => "refused",
            Self::Wrong(_) => "wrong-answer",
            Self::Mail(error) => error.kind(),
            Self::NotDelivered(_) => "not-delivered",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the session has to be given up. After a wrong answer too: what is known about the
    /// mailbox is no longer known, and one fault would be counted again and again.
    pub(super) fn ends_session(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Wrong(_) | Self::Stopped => true,
            Self::Refused { text, .. } => is_unavailable(text),
            _ => false,
        }
    }

    /// Whether the command was certainly not carried out.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { text, .. } => !is_unavailable(text),
            Self::Mail(error) => error.is_refusal(),
            _ => false,
        }
    }

    /// Whether this shows a server, or a part that it needs, that is not available for a while.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Connection(Error::Refused { text, .. }) | Self::Refused { text, .. } => {
                is_unavailable(text)
            }
            Self::Connection(error) => !matches!(error, Error::Garbage { .. } | Error::Tls { .. }),
            Self::Mail(MailerError::Connection(_) | MailerError::Closed) => true,
            // RFC 5321 §4.2.1: 4yz is a transient refusal.
            Self::Mail(MailerError::Refused { reply, .. }) => reply.starts_with('4'),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_differs_from_a_fault() {
        let refused = |text: &str| Failure::Refused { command: "NOOP".into(), text: text.into() };
        let away = refused("NO [UNAVAILABLE] Try again");
        assert!(away.is_outage() && away.ends_session() && !away.is_refusal());
        let refusal = refused("NO [OVERQUOTA] Full");
        assert!(!refusal.is_outage() && !refusal.ends_session() && refusal.is_refusal());
        let wrong = Failure::Wrong("UID 3 twice".into());
        assert!(!wrong.is_outage() && wrong.ends_session());
        assert!(Failure::Connection(Error::Closed { bye: None }).is_outage());
        let garbage = Error::Garbage { what: "a tag", line: "x".into() };
        assert!(!Failure::Connection(garbage).is_outage());
        let mail = |reply: &str| MailerError::Refused { command: "DATA", reply: reply.into() };
        assert!(Failure::Mail(mail("451 4.3.0 later")).is_outage());
        assert!(!Failure::Mail(mail("550 5.1.1 who?")).is_outage());
    }
}
