//! The steps transactions are made of. In a file: `{ do = "fetch", messages = "all", items = "UID
//! FLAGS" }`.

/// A step of a transaction, its words parsed.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionStep {
    /// CAPABILITY.
    Capability,
    /// A command of the workload's own words, sent as it is and expected to be answered OK.
    Raw(String),
    /// NOOP.
    Noop,
    /// CHECK.
    Check,
    /// `LIST "" pattern`.
    List(String),
    /// STATUS of a mailbox.
    Status(Mailbox, String),
    /// SELECT or EXAMINE.
    Select {
        /// The mailbox.
        mailbox: Mailbox,
        /// EXAMINE.
        examine: bool,
    },
    /// UNSELECT.
    Unselect,
    /// FETCH of these messages; bodies are verified.
    Fetch(Messages, String),
    /// SEARCH; the answer is compared with the model.
    Search(Criterion),
    /// STORE.
    Store {
        /// The messages to change.
        messages: Messages,
        /// `+FLAGS`, `-FLAGS` or `FLAGS`, with or without `.SILENT`.
        how: String,
        /// The flags between the parentheses.
        flags: String,
    },
    /// COPY to a mailbox.
    Copy(Messages, Mailbox),
    /// MOVE to a mailbox (COPY, STORE and EXPUNGE where the server has no MOVE).
    Move(Messages, Mailbox),
    /// EXPUNGE.
    Expunge,
    /// APPEND of a new message.
    Append(Mailbox),
    /// CREATE of a new mailbox.
    Create,
    /// DELETE of a mailbox other than INBOX and the selected one.
    Delete,
    /// RENAME of such a one.
    Rename,
    /// IDLE for this many seconds.
    Idle(f64),
    /// A new message by SMTP, LMTP or submission.
    Send {
        /// The recipient.
        to: Recipient,
    },
    /// Wait until the message last sent by this user is in its own INBOX, seconds at most.
    AwaitDelivery(f64),
    /// A pause inside the transaction: seconds.
    Pause(f64),
    /// POP3 STAT.
    Stat,
    /// POP3 UIDL, compared with STAT.
    Uidl,
    /// POP3 RETR of messages, verified.
    Retr(Messages),
    /// POP3 DELE of the message that was retrieved last.
    Dele,
}

/// The mailbox that a step names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// The selected one.
    Current,
    /// INBOX.
    Inbox,
    /// Any.
    Random,
    /// Any but the selected one.
    Other,
    /// One that the instrument made, and that this user has not selected yet in this run.
    Fresh,
    /// By name.
    Named(String),
}

/// Messages of the selected mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Messages {
    /// `1:*`.
    All,
    /// One at random.
    One,
    /// The one chosen by the last step that chose.
    Same,
    /// The highest UID.
    Last,
    /// The last n.
    LastN(u32),
    /// The same number of last messages as the last choice: their copies.
    LastSame,
    /// n in a row, at random.
    Range(u32),
    /// Messages that came since the mailbox was last listed.
    New,
    /// One without \Seen.
    Unseen,
}

/// The criterion of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The subject of a message known to be there.
    Subject,
    /// UNSEEN.
    Unseen,
    /// DELETED.
    Deleted,
    /// As written; only the form of the answer is checked.
    Raw(String),
}

/// The recipient of mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A random account of the run.
    Random,
    /// The virtual user's own account.
    Own,
    /// A random account of the run, but not the virtual user's own.
    Other,
}

/// Words for `mailbox`.
pub(super) const MAILBOX_WORDS: &[&str] = &["current", "inbox", "random", "other", "fresh"];
/// Words for `messages`.
pub(super) const MESSAGES_WORDS: &[&str] =
    &["all", "one", "same", "last", "last:N", "last:same", "range:N", "new", "unseen"];
/// Words for `to` of `send`.
pub(super) const RECIPIENT_WORDS: &[&str] = &["random", "self", "other"];

impl Mailbox {
    /// The mailbox with this word; a name is written `=Name`.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "current" => Self::Current,
            "inbox" => Self::Inbox,
            "random" => Self::Random,
            "other" => Self::Other,
            "fresh" => Self::Fresh,
            name => Self::Named(name.strip_prefix('=')?.to_owned()),
        })
    }
}

impl Messages {
    /// Parses a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "all" => Self::All,
            "one" => Self::One,
            "same" => Self::Same,
            "last" => Self::Last,
            "new" => Self::New,
            "unseen" => Self::Unseen,
            other => match other.split_once(':')? {
                ("last", "same") => Self::LastSame,
                ("last", n) => Self::LastN(n.parse().ok()?),
                ("range", n) => Self::Range(n.parse().ok()?),
                _ => return None,
            },
        })
    }
}

impl Criterion {
    /// The criterion with this word; anything in capitals is sent as it is.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "subject" => Self::Subject,
            "unseen" => Self::Unseen,
            "deleted" => Self::Deleted,
            raw if raw.starts_with(|c: char| c.is_ascii_uppercase()) => Self::Raw(raw.to_owned()),
            _ => return None,
        })
    }
}

impl Recipient {
    /// Parses a word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "random" => Some(Self::Random),
            "self" => Some(Self::Own),
            "other" => Some(Self::Other),
            _ => None,
        }
    }
}

impl TransactionStep {
    /// The name under which its commands are counted.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Capability => "CAPABILITY",
            Self::Raw(_) => "(raw)",
            Self::Noop => "NOOP",
            Self::Check => "CHECK",
            Self::List(_) => "LIST",
            Self::Status(..) => "STATUS",
            Self::Select { examine: false, .. } => "SELECT",
            Self::Select { examine: true, .. } => "EXAMINE",
            Self::Unselect => "UNSELECT",
            Self::Fetch(..) => "FETCH",
            Self::Search(_) => "SEARCH",
            Self::Store { .. } => "STORE",
            Self::Copy(..) => "COPY",
            Self::Move(..) => "MOVE",
            Self::Expunge => "EXPUNGE",
            Self::Append(_) => "APPEND",
            Self::Create => "CREATE",
            Self::Delete => "DELETE",
            Self::Rename => "RENAME",
            Self::Idle(_) => "IDLE",
            Self::Send { .. } => "send",
            Self::AwaitDelivery(_) => "await-delivery",
            Self::Pause(_) => "pause",
            Self::Stat => "STAT",
            Self::Uidl => "UIDL",
            Self::Retr(_) => "RETR",
            Self::Dele => "DELE",
        }
    }

    /// Whether it belongs to POP3.
    pub fn is_pop3(&self) -> bool {
        matches!(self, Self::Stat | Self::Uidl | Self::Retr(_) | Self::Dele)
    }

    /// Whether it belongs to IMAP.
    pub(crate) fn is_imap(&self) -> bool {
        !self.is_pop3() && !matches!(self, Self::Send { .. } | Self::Pause(_))
    }
}
