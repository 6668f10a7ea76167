//! The tagged response of a command: a status, a code, a sentence. One total map turns every error
//! into a response.
//!
//! Handlers return `Result<Reply, Failure>`. No code decides by the text of an error.

use std::borrow::Cow;

use posthaste_delivery::DeliveryError;
use posthaste_directory::DirectoryError;
use posthaste_imap_codec::MailboxArgError;
use posthaste_imap_codec::response::{Code, Status, StatusKind};
use posthaste_mail_model::KeywordError;
use posthaste_net::NetError;
use posthaste_store::{StoreError, named_ranges};

/// The end of a command: RFC 9051 §7.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    /// OK, NO or BAD.
    pub(crate) kind: StatusKind,
    /// The response code, for programs.
    pub(crate) code: Option<Code>,
    /// The text, for people.
    pub(crate) text: Cow<'static, str>,
}

/// The tagged OK of a command that needs no further text.
pub(crate) const DONE: Reply = Reply::ok("");

impl Reply {
    /// `OK text`
    pub(crate) const fn ok(text: &'static str) -> Self {
        Self { kind: StatusKind::Ok, code: None, text: Cow::Borrowed(text) }
    }

    /// `NO [code] text`
    pub(crate) fn no(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: StatusKind::No, code: Some(code), text: text.into() }
    }

    /// `BAD text`
    pub(crate) fn bad(text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: StatusKind::Bad, code: None, text: text.into() }
    }

    /// Adds a response code.
    pub(crate) fn with(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// The reply as the codec prints it.
    pub(crate) fn status(self, tag: Option<posthaste_imap_codec::Tag>) -> Status {
        // Error texts may come from the system or a database. They must not break the line or
        // contain more than ASCII (RFC 3501 §9, text; RFC 9051 §9 allows UTF-8 after ENABLE
        // only).
        let text = if self.text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            self.text
        } else {
            let printed = |c: char| match c {
                ' '..='~' => c,
                _ if c.is_ascii() => ' ',
                _ => '?',
            };
            self.text.chars().map(printed).collect::<String>().into()
        };
        Status { tag, kind: self.kind, code: self.code, text }
    }
}

/// The reason why a command does not end in OK.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Delivery refused a message.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// An invalid mailbox name.
    #[error(transparent)]
    Name(#[from] MailboxArgError),
    /// The connection is lost: nothing can be answered.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The session has to end. The client gets this reason in BYE.
    #[error("{0}")]
    Bye(&'static str),
    /// The handler chose the reply.
    #[error("{}", .0.text)]
    Reply(Box<Reply>),
}

impl From<Reply> for Failure {
    fn from(reply: Reply) -> Self {
        Self::Reply(Box::new(reply))
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Store(error) => error.into(),
            DirectoryError::Busy(_) => StoreError::Busy.into(),
            error => StoreError::Corrupt(error.to_string()).into(),
        }
    }
}

/// The action after a failed command.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The client gets the reply and the session continues.
    Answer(Reply),
    /// The client gets BYE and the session ends.
    Bye(&'static str),
    /// The connection is closed without an answer.
    HangUp(NetError),
}

impl Failure {
    /// The total map from failures to outcomes.
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Net(error) => Verdict::HangUp(error),
            Self::Bye(text) => Verdict::Bye(text),
            Self::Reply(reply) => Verdict::Answer(*reply),
            Self::Name(error) => Verdict::Answer(Reply::no(Code::Cannot, error.to_string())),
            Self::Store(error) => Verdict::Answer(of_store(&error)),
            Self::Delivery(error) => Verdict::Answer(of_delivery(&error)),
        }
    }

    /// A wait for the client that failed. BYE is sent if the client can still read it
    /// (RFC 9051 §5.4).
    pub(crate) fn of_wait(error: NetError) -> Self {
        match error {
            NetError::TimedOut(_) => Self::Bye("Idle for too long"),
            NetError::InputFull { .. } => Self::Bye("Too many commands were sent at once"),
            other => Self::Net(other),
        }
    }

    /// Adds TRYCREATE if the mailbox does not exist: the client could create it. Commands that
    /// add messages to a mailbox use this (RFC 9051 §6.3.12, §6.4.7).
    pub(crate) fn try_create(self) -> Self {
        match self {
            Self::Store(StoreError::NoSuchName | StoreError::NoMailbox(_))
            | Self::Delivery(DeliveryError::Store(StoreError::NoSuchName | StoreError::NoMailbox(_))) => {
                Reply::no(Code::TryCreate, "No mailbox of that name").into()
            }
            other => other,
        }
    }
}

/// The reply for each error of the store: RFC 5530 and RFC 9051 §7.1 define the codes.
fn of_store(error: &StoreError) -> Reply {
    let code = match error {
        StoreError::NoMailbox(_) | StoreError::NoSuchName | StoreError::AccountRemoved => Code::NonExistent,
        StoreError::NameTaken => Code::AlreadyExists,
        StoreError::Name(_) | StoreError::Refused(_) => Code::Cannot,
        StoreError::Keyword(KeywordError::NotAnAtom) => return Reply::bad(error.to_string()),
        StoreError::Keyword(KeywordError::TooLong | KeywordError::TableFull) => Code::Limit,
        StoreError::OverQuota | StoreError::TooManyMailboxes { .. } => Code::OverQuota,
        StoreError::TooLarge { .. } => Code::TooBig,
        StoreError::UidsExhausted | StoreError::UidValiditiesExhausted | StoreError::FolderFull { .. } => {
            Code::Limit
        }
        StoreError::Busy => Code::InUse,
        // RFC 5530 §3: for now, and not a limit of the user.
        StoreError::TooManyOpen => Code::Unavailable,
        StoreError::Full(why) => {
            tracing::error!(%why, "the disk is full");
            return Reply::no(Code::Unavailable, "The disk is full: delete messages, or try again later");
        }
        StoreError::Unavailable(why) => {
            tracing::error!(%why, "storage is unavailable: commands fail until this cause is removed");
            // The system's error text goes to the log only: clients must not see paths.
            return Reply::no(Code::Unavailable, "Storage is unavailable, try again later");
        }
        StoreError::Corrupt(what) => {
            tracing::error!(%what, "damaged record: run `posthaste check`");
            return Reply::no(Code::Corruption, "A stored record is damaged and is not served");
        }
        StoreError::Unreadable(uids) => {
            tracing::error!(uids = %named_ranges(uids), "summaries cannot be read: run `posthaste check`");
            let text = format!("Stored data of UID {} is damaged", named_ranges(uids));
            return Reply::no(Code::Corruption, text);
        }
        // It is expunged, and a new message has come.
        StoreError::Superseded(_) => return Reply::no(Code::ExpungeIssued, "The message has a new UID"),
        StoreError::Body { uid, body, why } => {
            tracing::error!(%uid, %body, %why, "body cannot be read: run `posthaste check`");
            return Reply::no(Code::Corruption, format!("Message {uid} cannot be read"));
        }
    };
    Reply::no(code, capitalised(&error.to_string()))
}

/// The reply for each reason to refuse a message.
fn of_delivery(error: &DeliveryError) -> Reply {
    let code = match error {
        DeliveryError::Store(error) => return of_store(error),
        DeliveryError::TooLarge { .. } => Code::TooBig,
        DeliveryError::Busy => Code::Unavailable,
        DeliveryError::TooMuchAtOnce { .. } => Code::Limit,
        DeliveryError::OverQuota { .. } | DeliveryError::TooManyMessages { .. } => Code::OverQuota,
        DeliveryError::Interrupted(why) => {
            tracing::error!(%why, "a message could not be stored");
            return Reply::no(Code::ServerBug, "The message could not be stored");
        }
    };
    Reply::no(code, capitalised(&error.to_string()))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{BodyId, Id, MailboxId, NameError, NumSet, Uid};

    use super::*;

    fn answer(error: impl Into<Failure>) -> (StatusKind, Option<Code>) {
        match error.into().verdict() {
            Verdict::Answer(reply) => (reply.kind, reply.code),
            Verdict::Bye(text) => panic!("ends the session: {text}"),
            Verdict::HangUp(error) => panic!("hangs up: {error}"),
        }
    }

    #[test]
    fn every_store_error_has_its_code() {
        let id = Id::new(1, 1);
        for (error, kind, code) in [
            (StoreError::NoMailbox(MailboxId(id)), StatusKind::No, Some(Code::NonExistent)),
            (StoreError::NoSuchName, StatusKind::No, Some(Code::NonExistent)),
            (StoreError::AccountRemoved, StatusKind::No, Some(Code::NonExistent)),
            (StoreError::NameTaken, StatusKind::No, Some(Code::AlreadyExists)),
            (StoreError::Name(NameError::Dots), StatusKind::No, Some(Code::Cannot)),
            (StoreError::Refused("no"), StatusKind::No, Some(Code::Cannot)),
            (StoreError::Keyword(KeywordError::NotAnAtom), StatusKind::Bad, None),
            (StoreError::Keyword(KeywordError::TableFull), StatusKind::No, Some(Code::Limit)),
            (StoreError::OverQuota, StatusKind::No, Some(Code::OverQuota)),
            (StoreError::TooManyMailboxes { limit: 1 }, StatusKind::No, Some(Code::OverQuota)),
            (StoreError::TooLarge { what: "message", limit: 1 }, StatusKind::No, Some(Code::TooBig)),
            (StoreError::UidsExhausted, StatusKind::No, Some(Code::Limit)),
            (StoreError::UidValiditiesExhausted, StatusKind::No, Some(Code::Limit)),
            (StoreError::FolderFull { limit: 1 }, StatusKind::No, Some(Code::Limit)),
            (StoreError::Busy, StatusKind::No, Some(Code::InUse)),
            (StoreError::TooManyOpen, StatusKind::No, Some(Code::Unavailable)),
            (StoreError::Full("no space".into()), StatusKind::No, Some(Code::Unavailable)),
            (StoreError::Unavailable("disk failed".into()), StatusKind::No, Some(Code::Unavailable)),
            (StoreError::Corrupt("x".into()), StatusKind::No, Some(Code::Corruption)),
            (StoreError::Unreadable(NumSet::range(1, 1)), StatusKind::No, Some(Code::Corruption)),
            (StoreError::Superseded(String::new()), StatusKind::No, Some(Code::ExpungeIssued)),
            (
                StoreError::Body { uid: Uid::MIN, body: BodyId(id), why: String::new() },
                StatusKind::No,
                Some(Code::Corruption),
            ),
        ] {
            assert_eq!(answer(error.clone()), (kind, code), "{error}");
        }
    }

    #[test]
    fn every_delivery_error_has_its_code() {
        for (error, code) in [
            (DeliveryError::TooLarge { len: 2, limit: 1 }, Code::TooBig),
            (DeliveryError::Busy, Code::Unavailable),
            (DeliveryError::TooMuchAtOnce { limit: 1 }, Code::Limit),
            (DeliveryError::OverQuota { used: 1, limit: 1, more: 1 }, Code::OverQuota),
            (DeliveryError::TooManyMessages { used: 1, limit: 1, more: 1 }, Code::OverQuota),
            (DeliveryError::Interrupted(String::new()), Code::ServerBug),
            (DeliveryError::Store(StoreError::OverQuota), Code::OverQuota),
        ] {
            assert_eq!(answer(error), (StatusKind::No, Some(code)));
        }
    }

    #[test]
    fn a_missing_target_can_be_created() {
        let failure = Failure::from(StoreError::NoSuchName).try_create();
        assert_eq!(answer(failure), (StatusKind::No, Some(Code::TryCreate)));
        let failure = Failure::from(StoreError::OverQuota).try_create();
        assert_eq!(answer(failure), (StatusKind::No, Some(Code::OverQuota)));
    }

    #[test]
    fn a_text_never_breaks_the_line() {
        let reply = Reply::bad("two\r\nlines".to_owned());
        assert_eq!(reply.status(None).text, "two  lines");
        assert_eq!(Reply::bad("Größe\0".to_owned()).status(None).text, "Gr??e ");
    }
}
