//! The selected state: an open mailbox and the one view of it that was reported to the client.
//!
//! Every sequence number that the client sends or receives is a position in
//! [`Selected::announced`]. Nothing else in a session maps sequence numbers. Its memory does not
//! grow with the folder, because the view is shared.

use std::num::NonZeroU32;
use std::sync::Arc;

use posthaste_delivery::Holding;
use posthaste_directory::Account;
use posthaste_imap_codec::{MessageSet, Numbering, PageRange, SeqSet, UidSet};
use posthaste_mail_model::{AccountId, ModSeq, NumSet, ResponseNum, Rights, SeqNum, Uid};
use posthaste_metrics::OpenFolder;
use posthaste_store::{Mailbox, SessionEnd, View, ViewHolder};

use crate::annotate::reported::ReportedAnnotations;
use crate::contexts::Contexts;
use crate::offload::{ROW_STEPS, Threads, range_steps};
use crate::own::Quiet;
use crate::reply::{Failure, Reply};
use crate::rights::Act;
use crate::saved_search::{SavedSearch, SavedUids};
use crate::seen_overlay::SeenOverlay;

/// Ranges of `\Recent` UIDs a session remembers: 8 KiB. Only sessions that claim new mail
/// alternately for weeks reach it; the oldest UIDs then stop being recent.
const RECENT_RANGES_MAX: usize = 1024;

/// The point at which a command stopped at the limit of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The limit.
    pub(crate) limit: NonZeroU32,
    /// The lowest UID that it processed.
    pub(crate) lowest: Uid,
}

/// The messages that sets of numbers in a command refer to. Large sets are resolved on another
/// thread, so this is shared.
#[derive(Clone)]
pub(crate) struct Numbered {
    /// The view that was reported to the client.
    pub(crate) view: Arc<View>,
    /// `$`, as UIDs.
    pub(crate) saved: SavedUids,
}

impl Numbered {
    /// The sequence numbers of the messages that a command names.
    pub(crate) fn seqs(&self, set: &MessageSet) -> Result<NumSet<SeqNum>, Reply> {
        match set {
            MessageSet::Seq(set) => self.seqs_of(set),
            MessageSet::Uid(set) => Ok(self.view.seqs_of_uids(&self.uids_of(set))),
        }
    }

    /// The UIDs of the messages that a command names, as far as they exist in the reported view.
    pub(crate) fn uids(&self, set: &MessageSet) -> Result<NumSet, Reply> {
        match set {
            MessageSet::Seq(set) => Ok(self.view.uids_of_seqs(&self.seqs_of(set)?)),
            MessageSet::Uid(set) => Ok(self.view.existing(&self.uids_of(set))),
        }
    }

    /// A set of sequence numbers. A sequence number that does not exist is a client error. "This
    /// includes "*" if the selected mailbox is empty" (RFC 9051 §9, seq-number).
    fn seqs_of(&self, set: &SeqSet) -> Result<NumSet<SeqNum>, Reply> {
        if self.view.exists() == 0 && !set.0.ranges().is_empty() {
            return Err(Reply::bad("There is no message: the mailbox is empty"));
        }
        let seqs = set.resolve(self.view.exists());
        match seqs.last() {
            Some(last) if last > self.view.exists() => Err(Reply::bad(format!("There is no message {last}"))),
            _ if set.0.has_saved() => Ok(seqs.union(&self.view.seqs_of_uids(&self.saved))),
            _ => Ok(seqs),
        }
    }

    /// A set of UIDs with its `*` replaced by a number. The UIDs need not exist: one that does not
    /// is no error (RFC 9051 §6.4.9).
    pub(crate) fn uids_of(&self, set: &UidSet) -> NumSet {
        set.resolve(self.view.last_uid(), &self.saved)
    }

    /// The same for expunged messages. `*` is the last UID ever assigned, since the client's last
    /// message may have been expunged (RFC 7162 §3.2.6).
    pub(crate) fn uids_ever(&self, set: &UidSet) -> NumSet {
        set.resolve(Uid::new(self.view.head().uid_next.value() - 1), &self.saved)
    }

    /// The sequence numbers of one page of the messages that a UID FETCH names (RFC 9394 §3.3).
    /// Each range is looked up by its two ends, so the cost does not grow with the folder.
    pub(crate) fn page_of_uids(&self, set: &UidSet, page: PageRange) -> NumSet<SeqNum> {
        let view = &self.view;
        // How many messages have a UID up to this one.
        let up_to = |uid: u32| match uid.checked_add(1).and_then(Uid::new) {
            Some(after) => view.rank(after),
            None => view.exists(),
        };
        let mut seqs = NumSet::new();
        for &(low, high) in self.uids_of(set).ranges() {
            let (before, last) = (up_to(low.saturating_sub(1)), up_to(high));
            if before < last {
                seqs.push_range(before + 1, last);
            }
        }
        page.of(&seqs)
    }

    /// Steps of resolving a set. Without `$`, a set has as many ranges as a line can name.
    pub(crate) fn steps(&self, set: &MessageSet) -> u64 {
        let set = match set {
            MessageSet::Seq(set) => &set.0,
            MessageSet::Uid(set) => &set.0,
        };
        let saved = if set.has_saved() { self.saved.ranges().len() } else { 0 };
        range_steps(set.ranges().len() + saved)
    }

    /// Steps of finding the UIDs of a set. The rows between two gaps of the UIDs are looked at one
    /// by one.
    fn uids_steps(&self, set: &MessageSet) -> u64 {
        let (written, largest) = match set {
            MessageSet::Seq(set) => (&set.0, self.view.exists()),
            MessageSet::Uid(set) => (&set.0, self.view.last_uid().map_or(0, Uid::value)),
        };
        let saved = if written.has_saved() { self.saved.count() } else { 0 };
        let named = written.ranges().iter().map(|range| range.count(largest)).sum::<u64>() + saved;
        self.steps(set) + named.min(u64::from(self.view.exists())) * ROW_STEPS
    }
}

/// A selected mailbox.
pub(crate) struct Selected {
    /// The mailbox.
    pub(crate) mailbox: Arc<Mailbox>,
    /// The view that was reported to the client. It may contain expunged messages until an EXPUNGE
    /// can be sent.
    pub(crate) announced: Arc<View>,
    /// Whether `announced` was replaced since the views were counted.
    pub(crate) is_moved: bool,
    /// Counts the views for the account.
    pub(crate) holder: Option<ViewHolder>,
    /// The rights of the session in it.
    pub(crate) rights: Rights,
    /// The owner of the mailbox, if that is another account.
    pub(crate) owner: Option<Box<Account>>,
    /// The INBOX of the account that logged in.
    pub(crate) is_inbox: bool,
    /// Opened by EXAMINE, or without a right to change anything.
    pub(crate) read_only: bool,
    /// Opened by EXAMINE.
    pub(crate) examined: bool,
    /// Whether it was opened by SELECT (ANNOTATE).
    pub(crate) annotate: bool,
    /// The annotations that the client knows, after SELECT (ANNOTATE) or NOTIFY.
    pub(crate) annotations: Option<Box<ReportedAnnotations>>,
    /// While an EXPUNGE is held back: the mod-sequence up to which everything was reported
    /// (RFC 7162 §3.2).
    pub(crate) held_since: Option<ModSeq>,
    /// `$`, as UIDs: RFC 9051 §6.4.4.1.
    pub(crate) saved_search: SavedSearch,
    /// UIDs that are `\Recent` here (RFC 3501 §2.3.2).
    pub(crate) recent: NumSet,
    /// The changes that reports leave out, as NOTIFY says.
    pub(crate) quiet: Quiet,
    /// Messages below this UID were reported to a client that wants items of new messages
    /// (RFC 5465 §5.2).
    pub(crate) notified_to: Uid,
    /// The point at which a command stopped at the limit of messages (RFC 9738 §3.1).
    pub(crate) stopped: Option<Stopped>,
    /// The messages that the user has seen, in a mailbox of another account.
    pub(crate) overlay: Option<Box<SeenOverlay>>,
    /// Results that are kept up to date (RFC 5267 §4.3). They are as of the announced view.
    pub(crate) contexts: Contexts,
    /// The large message that the client reads in pieces.
    pub(crate) holding: Holding,
}

impl Selected {
    /// A mailbox in its newest view, as by EXAMINE.
    pub(crate) fn of(mailbox: Arc<Mailbox>) -> Self {
        let announced = mailbox.view();
        Self {
            notified_to: announced.head().uid_next,
            announced,
            is_moved: false,
            holder: None,
            mailbox,
            rights: Rights::ALL,
            owner: None,
            is_inbox: false,
            read_only: true,
            examined: true,
            annotate: false,
            annotations: None,
            held_since: None,
            saved_search: SavedSearch::default(),
            recent: NumSet::new(),
            quiet: Quiet::default(),
            stopped: None,
            overlay: None,
            contexts: Contexts::default(),
            holding: Holding::default(),
        }
    }

    /// Counts the views for an account from now on. If the account holds too many old views, and
    /// these are among the oldest, `end` ends the session.
    pub(crate) fn count_for(&mut self, account: AccountId, end: &Arc<SessionEnd>) {
        self.holder = Some(self.mailbox.holder(account, end));
        self.is_moved = true;
        self.count_views();
    }

    /// Counts the views, if they were replaced. Call it when a command has ended: until then it
    /// may hold older ones.
    pub(crate) fn count_views(&mut self) {
        if std::mem::take(&mut self.is_moved)
            && let Some(holder) = &self.holder
        {
            match &self.overlay {
                None => holder.holds(&[&self.announced]),
                Some(overlay) => holder.holds(&overlay.views_with(&self.announced)),
            }
        }
    }

    /// The open folder, as the cost of commands is counted.
    pub(crate) fn metered(&self) -> OpenFolder {
        OpenFolder { messages: self.announced.exists(), is_inbox: self.is_inbox }
    }

    /// The messages that sets of numbers refer to.
    pub(crate) fn numbered(&self) -> Numbered {
        Numbered { view: Arc::clone(&self.announced), saved: self.saved_search.uids().clone() }
    }

    /// The sequence numbers of the messages that a command names.
    pub(crate) async fn seqs(
        &self,
        threads: Threads<'_>,
        set: &MessageSet,
    ) -> Result<NumSet<SeqNum>, Failure> {
        let (numbered, set) = (self.numbered(), set.clone());
        Ok(threads.run(numbered.steps(&set), move || numbered.seqs(&set)).await??)
    }

    /// The UIDs of the messages that a command names, as far as they exist in the reported view.
    pub(crate) async fn uids(&self, threads: Threads<'_>, set: &MessageSet) -> Result<NumSet, Failure> {
        let (numbered, set) = (self.numbered(), set.clone());
        Ok(threads.run(numbered.uids_steps(&set), move || numbered.uids(&set)).await??)
    }

    /// A set of UIDs with its `*` replaced by a number. The UIDs need not exist: one that does not
    /// is no error (RFC 9051 §6.4.9).
    pub(crate) fn uids_of(&self, set: &UidSet) -> NumSet {
        set.resolve(self.announced.last_uid(), self.saved_search.uids())
    }

    /// The mod-sequence up to which everything was reported: the client's HIGHESTMODSEQ.
    pub(crate) fn synchronised_to(&self) -> ModSeq {
        self.held_since.unwrap_or_else(|| self.announced.modseq())
    }

    /// A set of UIDs in the numbering of the client's command, for its response.
    pub(crate) async fn in_numbering(
        &self,
        threads: Threads<'_>,
        uids: NumSet,
        numbering: Numbering,
    ) -> Result<NumSet<ResponseNum>, Failure> {
        let (view, steps) = (Arc::clone(&self.announced), range_steps(uids.ranges().len()));
        match numbering {
            Numbering::Seq => threads.run(steps, move || view.seqs_of_uids(&uids).into_response()).await,
            Numbering::Uid => Ok(uids.into_response()),
        }
    }

    /// Whether reports leave out changes of flags. With too many annotations, only MODSEQ shows
    /// that some have changed. Then a client that requests AnnotationChange also gets the changes
    /// of flags.
    pub(crate) fn leaves_out_flags(&self) -> bool {
        self.quiet.flags && (self.quiet.annotations || self.annotations.is_some())
    }

    /// Whether a message is `\Recent` in this session.
    #[inline]
    pub(crate) fn is_recent(&self, uid: Uid) -> bool {
        !self.recent.is_empty() && self.recent.contains(uid.value())
    }

    /// Claims `\Recent` for new messages. EXAMINE shows it and claims nothing (RFC 3501 §6.3.2).
    pub(crate) fn claim_recent(&mut self) {
        let mut taken = if self.read_only { self.mailbox.recent() } else { self.mailbox.take_recent() };
        if taken.is_empty() {
            return;
        }
        if self.recent.ranges().len() < RECENT_RANGES_MAX {
            taken = self.recent.union(&taken);
        }
        self.recent = taken;
    }

    /// The number of announced messages that are `\Recent`.
    pub(crate) fn recent_count(&self) -> u32 {
        if self.recent.is_empty() {
            return 0;
        }
        self.announced.runs_of_uids(&self.recent).map(|(_, rows)| rows.len() as u32).sum()
    }

    /// Commands that change messages need SELECT.
    pub(crate) fn must_write(&self) -> Result<(), Failure> {
        if self.read_only {
            let code = posthaste_imap_codec::response::Code::ReadOnly;
            return Err(
                Reply::no(code, "The mailbox was opened by EXAMINE, or is not yours to change").into()
            );
        }
        Ok(())
    }

    /// Whether the session may do that with its messages.
    pub(crate) fn permit(&self, act: Act) -> Result<(), Failure> {
        act.permit(self.rights)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::SequenceSet;
    use posthaste_mail_model::FlagSet;
    use posthaste_store::{MailboxHead, Row, ViewBuilder};

    use super::*;

    #[test]
    fn uids_with_gaps_are_counted_by_message() {
        let mut builder = ViewBuilder::default();
        for uid in (1..=1000).map(|n| Uid::new(2 * n).unwrap()) {
            builder.push(Row::new(uid, 1, 1, FlagSet::EMPTY, ModSeq::new(1).unwrap()));
        }
        let uid_next = Uid::new(2001).unwrap();
        let view = Arc::new(builder.finish(MailboxHead { uid_next, ..MailboxHead::default() }));
        let saved = SavedSearch::default().uids().clone();
        let numbered = Numbered { view, saved };
        for numbering in [Numbering::Seq, Numbering::Uid] {
            let set = MessageSet::new(numbering, SequenceSet::all());
            assert_eq!(numbered.uids_steps(&set), numbered.steps(&set) + 1000 * ROW_STEPS);
        }
    }
}
