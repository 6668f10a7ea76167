//! How many messages one command processes: MESSAGELIMIT and SAVELIMIT (RFC 9738).
//!
//! | command | with more messages |
//! | --- | --- |
//! | FETCH, STORE, MOVE, UID EXPUNGE, SEARCH | those with the highest UIDs are processed, and the answer names the lowest of them |
//! | ESEARCH in several mailboxes | the same, for all of them together |
//! | COPY, SORT, THREAD, APPEND, a page of UID FETCH | refused: in part they would mean something else |
//! | EXPUNGE, CLOSE, STATUS | not limited (RFC 9738 §3.1) |
//!
//! A command that stops leaves a note in [`Selected::stopped`](crate::selected::Selected::stopped).
//! The end of the command turns it into the code.

use std::num::NonZeroU32;

use posthaste_directory::Account;
use posthaste_imap_codec::PageRange;
use posthaste_imap_codec::response::{Code, Status, StatusKind};
use posthaste_mail_model::{NumSet, SeqNum, Uid};
use posthaste_store::View;

use crate::options::ImapOptions;
use crate::reply::Reply;
use crate::selected::Stopped;
use crate::session::Session;
use crate::wire::Wire;

/// The limits of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageLimit {
    /// No limit.
    None,
    /// MESSAGELIMIT: for every command.
    Process(NonZeroU32),
    /// SAVELIMIT: for COPY and APPEND.
    Save(NonZeroU32),
}

impl MessageLimit {
    /// The limits of an account: its own, or those of the server.
    pub(crate) fn of(account: &Account, options: &ImapOptions) -> Self {
        let limits = account.command_limits;
        let process = NonZeroU32::new(limits.process.unwrap_or(options.message_limit));
        let save = NonZeroU32::new(limits.save.unwrap_or(options.save_limit));
        // RFC 9738 §3: never both.
        match (process, save) {
            (Some(limit), _) => Self::Process(limit),
            (None, Some(limit)) => Self::Save(limit),
            (None, None) => Self::None,
        }
    }

    /// The capability: RFC 9738 §3.
    pub(crate) fn capability(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Process(limit) => Some(format!(" MESSAGELIMIT={limit}")),
            Self::Save(limit) => Some(format!(" SAVELIMIT={limit}")),
        }
    }

    /// The most messages that any command processes.
    pub(crate) fn process(self) -> Option<NonZeroU32> {
        match self {
            Self::Process(limit) => Some(limit),
            Self::None | Self::Save(_) => None,
        }
    }

    /// The most messages that a command adds.
    pub(crate) fn save(self) -> Option<NonZeroU32> {
        match self {
            Self::Process(limit) | Self::Save(limit) => Some(limit),
            Self::None => None,
        }
    }

    /// The part of a set that is processed, at its end; `None` if it is the whole set.
    pub(crate) fn cut<N>(self, set: &NumSet<N>) -> Option<(NonZeroU32, NumSet<N>)> {
        let limit = self.process()?;
        (set.count() > u64::from(limit.get())).then(|| (limit, newest(set, limit)))
    }

    /// Refuses commands that cannot be done in part: RFC 9738 §3.1, §3.3.
    pub(crate) fn refuse(limit: NonZeroU32, count: u64, lowest: Option<Uid>) -> Result<(), Reply> {
        if count <= u64::from(limit.get()) {
            return Ok(());
        }
        let text = format!("One command takes at most {limit} messages: name fewer");
        Err(Reply::no(Code::MessageLimit(limit.get(), lowest), text))
    }
}

/// The last `count` messages of a set.
pub(crate) fn newest<N>(set: &NumSet<N>, count: NonZeroU32) -> NumSet<N> {
    PageRange::Last(NonZeroU32::MIN, count).of(set)
}

/// The UID of the first of these messages.
pub(crate) fn lowest_uid(view: &View, seqs: &NumSet<SeqNum>) -> Option<Uid> {
    let first = seqs.first().and_then(SeqNum::new)?;
    view.uid_of(first)
}

/// Says that a command stopped: in its response, or before it if that has a code of its own
/// (RFC 9738 §3.1).
pub(crate) fn report(wire: &mut Wire, stopped: Stopped, reply: &mut Reply) {
    let code = Code::MessageLimit(stopped.limit.get(), Some(stopped.lowest));
    const TEXT: &str = "Messages below this UID were not processed";
    if reply.kind == StatusKind::Ok && reply.code.is_none() {
        reply.code = Some(code);
        reply.text = TEXT.into();
        return;
    }
    wire.say_status(Status { tag: None, kind: StatusKind::No, code: Some(code), text: TEXT.into() });
}

impl Session {
    /// The limits that hold now.
    pub(crate) fn message_limit(&self) -> MessageLimit {
        match &self.login {
            Some(account) => MessageLimit::of(account, &self.service.options),
            None => MessageLimit::None,
        }
    }
}

impl crate::session::Ctx<'_> {
    /// The limits that hold now.
    pub(crate) fn message_limit(&self) -> MessageLimit {
        MessageLimit::of(self.login, &self.service.options)
    }

    /// Leaves out those of these messages of the announced view that exceed the limit, and notes
    /// that.
    pub(crate) fn limit_seqs(&mut self, seqs: &mut NumSet<SeqNum>) {
        if let Some((limit, kept)) = self.message_limit().cut(seqs) {
            let lowest = lowest_uid(&self.selected.announced, &kept);
            self.selected.stopped = lowest.map(|lowest| Stopped { limit, lowest });
            *seqs = kept;
        }
    }

    /// Like [`Self::limit_seqs`], for a set of UIDs that exist.
    pub(crate) fn limit_uids(&mut self, uids: &mut NumSet) {
        if let Some((limit, kept)) = self.message_limit().cut(uids) {
            self.selected.stopped = kept.first().and_then(Uid::new).map(|lowest| Stopped { limit, lowest });
            *uids = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_processes_the_end_of_a_set() {
        let limit = NonZeroU32::new(3).unwrap();
        let set: NumSet = NumSet::from_ranges([(1, 2), (5, 6), (9, 9)]);
        let (_, kept) = MessageLimit::Process(limit).cut(&set).unwrap();
        assert_eq!(kept, NumSet::from_ranges([(5, 6), (9, 9)]));
        assert_eq!(MessageLimit::Process(limit).cut(&kept), None);
        assert_eq!(MessageLimit::Save(limit).cut(&set), None);
        assert_eq!(MessageLimit::None.cut(&set), None);
    }
}
