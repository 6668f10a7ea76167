//! THREADID: RFC 8474 §5.2, derived from the message itself.
//!
//! The identifier of a thread is that of its first message: the first Message-ID of References, or
//! In-Reply-To, or the message's own. So it needs no state, a COPY and a MOVE keep it, and it is
//! the same in all mailboxes. A message without any of them is a thread of its own, by its body.
//!
//! Two replies to one message may be in two threads. That happens if one of them names only the
//! message that it answers, and that message is not the first of its thread. THREAD=REFERENCES
//! joins these threads.

use std::fmt;

use posthaste_mail_model::{BodyId, Id};
use posthaste_mime_summary::SummaryRef;

/// The identifier of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThreadId {
    /// The hash of the first message's Message-ID.
    Root(u64),
    /// A message that nothing refers to.
    Alone(BodyId),
}

impl ThreadId {
    /// The thread of a message.
    pub(crate) fn of(summary: &SummaryRef<'_>, body: BodyId) -> Self {
        let root = summary.reference_hashes().next().or_else(|| summary.message_id_hash());
        root.map_or(Self::Alone(body), Self::Root)
    }

    /// Reads an identifier; `None` if no thread can have it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(body) = text.strip_prefix('A') {
            return Id::parse(body).map(|id| Self::Alone(BodyId(id)));
        }
        let digits = text.strip_prefix('T').filter(|digits| digits.len() == 16)?;
        // Identifiers are compared octet by octet (RFC 8474 §4).
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, 16).ok().map(Self::Root))?
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(hash) => write!(f, "T{hash:016x}"),
            Self::Alone(body) => write!(f, "A{body}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_as_they_are_printed() {
        for id in [ThreadId::Root(0), ThreadId::Root(u64::MAX), ThreadId::Alone(BodyId(Id::new(7, 9)))] {
            let text = id.to_string();
            assert_eq!(ThreadId::parse(&text), Some(id), "{text}");
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')), "{text}");
        }
        for text in ["", "T", "T1", "T00000000000000FF", "T+000000000000001", "A", "Axyz", "M1"] {
            assert_eq!(ThreadId::parse(text), None, "{text}");
        }
    }
}
