//! The table of commands. It has the states in which each is legal, whether it reads message
//! sequence numbers, and whether EXPUNGE may be sent before it ends.
//!
//! It is one total function, so a command added to the grammar does not compile without its row
//! here.

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::{CommandBody, MessageSet, Numbering};

/// The states of a session: RFC 9051 §3. (Logout is the end of the session, not a state it waits
/// in.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No login yet.
    NotAuthenticated,
    /// Logged in.
    Authenticated,
    /// Logged in, with an open mailbox.
    Selected,
}

/// The states in which a command is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Legal {
    /// In every state: RFC 9051 §6.1.
    Anywhere,
    /// Before login only: RFC 9051 §6.2.
    BeforeLogin,
    /// After login, with or without a mailbox: RFC 9051 §6.3.
    AfterLogin,
    /// With a mailbox only: RFC 9051 §6.4.
    Selected,
}

impl Legal {
    /// Whether the command is legal in this state.
    pub(crate) const fn in_state(self, state: State) -> bool {
        match self {
            Self::Anywhere => true,
            Self::BeforeLogin => matches!(state, State::NotAuthenticated),
            Self::AfterLogin => matches!(state, State::Authenticated | State::Selected),
            Self::Selected => matches!(state, State::Selected),
        }
    }
}

/// The use that a command makes of message sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    /// The command uses none: all changes, EXPUNGE included, may be reported before it ends.
    Free,
    /// The command names messages by sequence number, or its answer does: no EXPUNGE until it has
    /// ended (RFC 9051 §7.5.1: FETCH, STORE, SEARCH).
    Held,
    /// The command opens, closes or ends something: no change of the mailbox is reported with it.
    Silent,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    /// The command's name, for answers and logs.
    pub(crate) name: &'static str,
    /// The states in which the command is legal.
    pub(crate) legal: Legal,
    /// The changes that may be reported with the command.
    pub(crate) numbers: Numbers,
}

const fn rule(name: &'static str, legal: Legal, numbers: Numbers) -> Rule {
    Rule { name, legal, numbers }
}

/// The row of a command.
pub(crate) fn rule_of(command: &CommandBody) -> Rule {
    use Legal::{AfterLogin, Anywhere, BeforeLogin, Selected};
    use Numbers::{Free, Held, Silent};
    match command {
        CommandBody::Capability => rule("CAPABILITY", Anywhere, Free),
        CommandBody::Noop => rule("NOOP", Anywhere, Free),
        CommandBody::Logout => rule("LOGOUT", Anywhere, Silent),
        CommandBody::Id(_) => rule("ID", Anywhere, Free),
        CommandBody::StartTls => rule("STARTTLS", BeforeLogin, Silent),
        CommandBody::Authenticate { .. } => rule("AUTHENTICATE", BeforeLogin, Silent),
        CommandBody::Login { .. } => rule("LOGIN", BeforeLogin, Silent),
        CommandBody::Unauthenticate => rule("UNAUTHENTICATE", AfterLogin, Silent),
        // RFC 5161 allows it before SELECT; a client that sends it later does no harm.
        CommandBody::Enable(_) => rule("ENABLE", AfterLogin, Free),
        CommandBody::CompressDeflate => rule("COMPRESS", AfterLogin, Silent),
        CommandBody::Select { .. } => rule("SELECT", AfterLogin, Silent),
        CommandBody::Create { .. } => rule("CREATE", AfterLogin, Free),
        CommandBody::Delete(_) => rule("DELETE", AfterLogin, Free),
        CommandBody::Rename { .. } => rule("RENAME", AfterLogin, Free),
        CommandBody::Subscribe(_) => rule("SUBSCRIBE", AfterLogin, Free),
        CommandBody::Unsubscribe(_) => rule("UNSUBSCRIBE", AfterLogin, Free),
        CommandBody::List(_) => rule("LIST", AfterLogin, Free),
        CommandBody::Lsub { .. } => rule("LSUB", AfterLogin, Free),
        CommandBody::Rlist { .. } => rule("RLIST", AfterLogin, Free),
        CommandBody::Rlsub { .. } => rule("RLSUB", AfterLogin, Free),
        CommandBody::Xlist { .. } => rule("XLIST", AfterLogin, Free),
        CommandBody::Namespace => rule("NAMESPACE", AfterLogin, Free),
        CommandBody::GetJmapAccess => rule("GETJMAPACCESS", AfterLogin, Free),
        CommandBody::Status { .. } => rule("STATUS", AfterLogin, Free),
        CommandBody::GetQuota(_) => rule("GETQUOTA", AfterLogin, Free),
        CommandBody::GetQuotaRoot(_) => rule("GETQUOTAROOT", AfterLogin, Free),
        CommandBody::SetQuota { .. } => rule("SETQUOTA", AfterLogin, Free),
        CommandBody::GetMetadata { .. } => rule("GETMETADATA", AfterLogin, Free),
        CommandBody::SetMetadata { .. } => rule("SETMETADATA", AfterLogin, Free),
        CommandBody::Acl(command) => rule(command.name(), AfterLogin, Free),
        CommandBody::Append { .. } => rule("APPEND", AfterLogin, Free),
        CommandBody::Notify(_) => rule("NOTIFY", AfterLogin, Free),
        CommandBody::GenUrlAuth(_) => rule("GENURLAUTH", AfterLogin, Free),
        CommandBody::ResetKey { .. } => rule("RESETKEY", AfterLogin, Free),
        CommandBody::UrlFetch(_) => rule("URLFETCH", AfterLogin, Free),
        CommandBody::Idle => rule("IDLE", AfterLogin, Free),
        CommandBody::Check => rule("CHECK", Selected, Free),
        // RFC 9051 §6.4.1: no EXPUNGE for what CLOSE removes.
        CommandBody::Close => rule("CLOSE", Selected, Silent),
        CommandBody::Unselect => rule("UNSELECT", Selected, Silent),
        CommandBody::UidBatches { .. } => rule("UIDBATCHES", Selected, Free),
        CommandBody::CancelUpdate(_) => rule("CANCELUPDATE", Selected, Free),
        // RFC 5255 §3.2, §4.7
        CommandBody::Language(_) => rule("LANGUAGE", Anywhere, Free),
        CommandBody::Comparator(_) => rule("COMPARATOR", AfterLogin, Free),
        CommandBody::MultiSearch(args) if may_name_numbers(&args.key) => rule("ESEARCH", AfterLogin, Held),
        CommandBody::MultiSearch(_) => rule("ESEARCH", AfterLogin, Free),
        CommandBody::Expunge { uids: None } => rule("EXPUNGE", Selected, Free),
        CommandBody::Expunge { uids: Some(_) } => rule("UID EXPUNGE", Selected, Free),
        CommandBody::Search(args) => match args.numbering {
            Numbering::Seq => rule("SEARCH", Selected, Held),
            // RFC 7162 §3.2.10.2: a criterion may name sequence numbers anyway.
            Numbering::Uid if may_name_numbers(&args.key) => rule("UID SEARCH", Selected, Held),
            Numbering::Uid => rule("UID SEARCH", Selected, Free),
        },
        // RFC 5256 §3: as for SEARCH.
        CommandBody::Sort(args) => match args.numbering {
            Numbering::Seq => rule("SORT", Selected, Held),
            Numbering::Uid if may_name_numbers(&args.key) => rule("UID SORT", Selected, Held),
            Numbering::Uid => rule("UID SORT", Selected, Free),
        },
        CommandBody::Thread(args) => match args.numbering {
            Numbering::Seq => rule("THREAD", Selected, Held),
            Numbering::Uid if may_name_numbers(&args.key) => rule("UID THREAD", Selected, Held),
            Numbering::Uid => rule("UID THREAD", Selected, Free),
        },
        CommandBody::Fetch { set: MessageSet::Seq(_), .. } => rule("FETCH", Selected, Held),
        CommandBody::Fetch { set: MessageSet::Uid(_), .. } => rule("UID FETCH", Selected, Free),
        CommandBody::Store { set, .. }
        | CommandBody::StoreAnnotations { set, .. }
        | CommandBody::StoreLabels { set, .. } => match set {
            MessageSet::Seq(_) => rule("STORE", Selected, Held),
            MessageSet::Uid(_) => rule("UID STORE", Selected, Free),
        },
        CommandBody::Copy { set: MessageSet::Seq(_), .. } => rule("COPY", Selected, Free),
        CommandBody::Copy { set: MessageSet::Uid(_), .. } => rule("UID COPY", Selected, Free),
        CommandBody::Replace { set: MessageSet::Seq(_), .. } => rule("REPLACE", Selected, Free),
        CommandBody::Replace { set: MessageSet::Uid(_), .. } => rule("UID REPLACE", Selected, Free),
        CommandBody::Move { set: MessageSet::Seq(_), .. } => rule("MOVE", Selected, Free),
        CommandBody::Move { set: MessageSet::Uid(_), .. } => rule("UID MOVE", Selected, Free),
    }
}

/// Whether a command names messages by sequence number, or requests such numbers. RFC 9586 §3.1,
/// §3.2, §3.5, §3.7 and §3.8 refuse that after ENABLE UIDONLY.
pub(crate) fn uses_numbers(command: &CommandBody) -> bool {
    let is_seq = |numbering, key| numbering == Numbering::Seq || names_numbers(key);
    match command {
        CommandBody::Search(args) => is_seq(args.numbering, &args.key),
        CommandBody::Sort(args) => is_seq(args.numbering, &args.key),
        CommandBody::MultiSearch(args) => names_numbers(&args.key),
        CommandBody::Thread(args) => is_seq(args.numbering, &args.key),
        CommandBody::Fetch { set, .. }
        | CommandBody::Store { set, .. }
        | CommandBody::StoreAnnotations { set, .. }
        | CommandBody::StoreLabels { set, .. }
        | CommandBody::Copy { set, .. }
        | CommandBody::Replace { set, .. }
        | CommandBody::Move { set, .. } => set.numbering() == Numbering::Seq,
        CommandBody::Select { params, .. } => {
            params.qresync.as_ref().is_some_and(|qresync| qresync.seq_match.is_some())
        }
        _ => false,
    }
}

/// Whether a key names sequence numbers, or a filter (RFC 5466) in it may do so.
fn may_name_numbers(key: &SearchKey) -> bool {
    match key {
        SearchKey::Filter(_) => true,
        SearchKey::And(keys) => keys.iter().any(may_name_numbers),
        SearchKey::Or(a, b) => may_name_numbers(a) || may_name_numbers(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => may_name_numbers(key),
        key => names_numbers(key),
    }
}

/// Whether a search names messages by sequence number.
pub(crate) fn names_numbers(key: &SearchKey) -> bool {
    match key {
        // `$` names messages in whichever numbering (RFC 5182 §2.1).
        SearchKey::Seq(set) => !set.0.ranges().is_empty(),
        SearchKey::And(keys) => keys.iter().any(names_numbers),
        SearchKey::Or(a, b) => names_numbers(a) || names_numbers(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_numbers(key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_states() {
        use State::{Authenticated, NotAuthenticated, Selected};
        for (legal, states) in [
            (Legal::Anywhere, [true, true, true]),
            (Legal::BeforeLogin, [true, false, false]),
            (Legal::AfterLogin, [false, true, true]),
            (Legal::Selected, [false, false, true]),
        ] {
            assert_eq!([NotAuthenticated, Authenticated, Selected].map(|s| legal.in_state(s)), states);
        }
    }

    #[test]
    fn a_close_is_silent_and_a_noop_free() {
        assert_eq!(rule_of(&CommandBody::Close).numbers, Numbers::Silent);
        assert_eq!(rule_of(&CommandBody::Noop).numbers, Numbers::Free);
    }
}
