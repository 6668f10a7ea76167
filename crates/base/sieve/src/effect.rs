//! The effects that a run requests on a message. The caller carries them out.

use posthaste_mime_summary::InBounds;

use crate::error::RunError;
use crate::notify::Mailto;

/// The number of a header that a message has: 0 is the one it came with, others are in
/// [`Outcome::headers`].
pub type Version = usize;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Keep it in the inbox.
    Keep {
        /// Flags to store it with.
        flags: Vec<String>,
        /// The message's header.
        version: Version,
        /// Whether no action requested it and no action cancelled it (RFC 5228 §2.10.2).
        is_implicit: bool,
    },
    /// Store it in a mailbox.
    FileInto {
        /// The mailbox.
        target: Target,
        /// The message's header.
        version: Version,
    },
    /// Send it on.
    Redirect {
        /// To this address.
        address: String,
        /// The message's header.
        version: Version,
    },
    /// Do nothing with it.
    Discard,
    /// Refuse it.
    Reject {
        /// The reason for the sender.
        reason: String,
        /// `ereject`: by a protocol error wherever possible, never silently (RFC 5429 §2.1).
        is_strict: bool,
    },
    /// Answer its sender.
    Vacation(Box<VacationReply>),
    /// Notify someone.
    Notify(Box<Notification>),
    /// Remember a key, so that it is a duplicate from now on (RFC 7352 §3).
    Remember {
        /// The key.
        key: String,
        /// For how long; `None` for the server's own default.
        seconds: Option<u64>,
    },
}

impl Effect {
    /// Bytes of its texts.
    pub(crate) fn texts_bytes(&self) -> usize {
        let of_target = |target: Option<&Target>| target.map_or(0, Target::texts_bytes);
        match self {
            Effect::Keep { flags, .. } => sum(flags),
            Effect::FileInto { target, .. } => target.texts_bytes(),
            Effect::Redirect { address: text, .. }
            | Effect::Reject { reason: text, .. }
            | Effect::Remember { key: text, .. } => text.len(),
            Effect::Discard => 0,
            Effect::Vacation(reply) => {
                let VacationReply { subject, reason, key, in_reply_to, from, .. } = &**reply;
                let optional = [in_reply_to, from].into_iter().flatten();
                sum([subject, reason, key]) + sum(optional) + of_target(reply.fcc.as_ref())
            }
            Effect::Notify(notification) => {
                let Notification { method, mailto, from, options, message, .. } = &**notification;
                let optional = [from, message, &mailto.body].into_iter().flatten();
                let fields: usize = mailto.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
                method.len() + fields + sum(options) + sum(optional) + of_target(notification.fcc.as_ref())
            }
        }
    }
}

/// Bytes of some texts.
fn sum<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    texts.into_iter().map(String::len).sum()
}

/// A mailbox to store into, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The mailbox's name.
    pub mailbox: String,
    /// Flags to store with.
    pub flags: Vec<String>,
    /// Whether to create the mailbox if it does not exist (RFC 5490 §3.2).
    pub create: bool,
    /// The mailbox with this id is preferred to the name (RFC 9042 §4).
    pub mailbox_id: Option<String>,
    /// A mailbox with this special use is preferred to the name (RFC 8579 §4).
    pub special_use: Option<String>,
}

impl Target {
    /// Bytes of its texts.
    fn texts_bytes(&self) -> usize {
        let optional = [&self.mailbox_id, &self.special_use].into_iter().flatten();
        self.mailbox.len() + sum(&self.flags) + sum(optional)
    }

    /// Whether it names the same mailbox. If no mailbox has the id or the use, the name is used,
    /// so all three count.
    pub(crate) fn is_same_mailbox(&self, other: &Self) -> bool {
        let named = (&self.mailbox, &self.mailbox_id, &self.special_use);
        named == (&other.mailbox, &other.mailbox_id, &other.special_use)
    }
}

/// A reply of `vacation`. RFC 5230 §5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacationReply {
    /// The address that the reply goes to: the reverse path.
    pub to: String,
    /// The From field, if the script gives one.
    pub from: Option<String>,
    /// Subject field.
    pub subject: String,
    /// The text, or a MIME entity with its header if `is_mime`.
    pub reason: String,
    /// Whether `reason` is a MIME entity.
    pub is_mime: bool,
    /// Message-ID of the message that is answered, for In-Reply-To and References.
    pub in_reply_to: Option<String>,
    /// Under which key and for how long to remember that this sender was answered (RFC 5230 §4.2);
    /// none means the server's own default, 0 not at all.
    pub key: String,
    /// See `key`.
    pub seconds: Option<u64>,
    /// The mailbox for a copy of the reply (RFC 8580).
    pub fcc: Option<Target>,
}

/// A notification. RFC 5435 §3, RFC 5436 §2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method's URI as it was written.
    pub method: String,
    /// The parsed URI.
    pub mailto: Mailto,
    /// The From field, if the script gives one.
    pub from: Option<String>,
    /// 1 is urgent, 2 normal, 3 unimportant.
    pub importance: u8,
    /// Options of the method as they were written.
    pub options: Vec<String>,
    /// The text; `None` for the method's own.
    pub message: Option<String>,
    /// The mailbox for a copy of the notification (RFC 8580).
    pub fcc: Option<Target>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The effects, in order. Never empty: a message that is neither kept nor stored nor sent nor
    /// refused is discarded explicitly.
    pub effects: Vec<Effect>,
    /// Headers that `addheader` and `deleteheader` made, each whole with its blank line: version 1
    /// first.
    pub headers: Vec<Vec<u8>>,
    /// The position of the body in the message as it came.
    pub body_start: usize,
    /// The reason why the run ended early. The effects are then the implicit keep alone (RFC 5228
    /// §2.10.6).
    pub error: Option<RunError>,
    /// The actions that were left out, and why: replies that RFC 5230 forbids, for example.
    pub notes: Vec<String>,
    /// Steps that the run took.
    pub steps: u64,
}

impl Outcome {
    /// Bytes of its headers and texts.
    pub fn memory_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(Vec::len).sum();
        let texts: usize = self.effects.iter().map(Effect::texts_bytes).sum();
        headers + texts + sum(&self.notes)
    }

    /// The header of a version; `None` for the one that the message came with.
    pub fn header(&self, version: Version) -> Option<&[u8]> {
        self.headers.get(version.checked_sub(1)?).map(Vec::as_slice)
    }

    /// The whole message with the header of a version; `None` for the one that it came with.
    pub fn edited(&self, version: Version, message: &[u8]) -> Option<Vec<u8>> {
        let body = message.in_bounds(self.body_start..);
        Some([self.header(version)?, body].concat())
    }
}
