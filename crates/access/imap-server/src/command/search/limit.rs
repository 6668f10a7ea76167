//! The limit of messages of a search: RFC 9738 §3.1, §3.3.
//!
//! The limit counts the messages that are searched, not those that match. The sets in the criteria
//! select the messages that are searched.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{Bound, SequenceSet, SetRange, UidSet};
use posthaste_mail_model::{MailboxName, NumSet, SeqNum, Uid};

use super::criteria::Question;
use crate::command::gather::Source;
use crate::message_limit::{MessageLimit, lowest_uid, newest};
use crate::reply::{Failure, Reply};
use crate::selected::Stopped;
use crate::session::Ctx;

/// Restricts a search to the messages with the highest UIDs, and notes that.
pub(crate) async fn apply(ctx: &mut Ctx<'_>, key: &mut SearchKey) -> Result<(), Failure> {
    let Some(searched) = searched(ctx, key).await? else { return Ok(()) };
    if let Some((limit, kept)) = ctx.message_limit().cut(&searched)
        && let Some(lowest) = lowest_uid(&ctx.selected.announced, &kept)
    {
        ctx.selected.stopped = Some(Stopped { limit, lowest });
        from_uid(lowest, key);
    }
    Ok(())
}

/// Restricts a search to the messages from this UID on.
fn from_uid(lowest: Uid, key: &mut SearchKey) {
    let whole = std::mem::replace(key, SearchKey::All);
    // The upper end is a number, not `*`: once these messages are expunged, `*` may be below the
    // lower end. New mail is in this set.
    let ends = Bound::number(lowest.value()).zip(Bound::number(u32::MAX));
    let newest =
        ends.map(|(from, to)| SearchKey::Uid(UidSet(SequenceSet::Ranges(vec![SetRange { from, to }]))));
    *key = SearchKey::And(newest.into_iter().chain([whole]).collect());
}

/// The number of messages that a search through several mailboxes may still examine.
pub(crate) struct Budget {
    limit: NonZeroU32,
    left: u32,
    /// The last mailbox that was searched, and the lowest UID that was.
    last: Option<(MailboxName, Uid)>,
    /// Whether messages of that mailbox were left out.
    is_cut: bool,
}

impl Budget {
    pub(crate) fn new(limit: NonZeroU32) -> Self {
        Self { limit, left: limit.get(), last: None, is_cut: false }
    }

    /// Whether nothing more may be looked at.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Takes the messages of one mailbox that a search looks at. If they are too many, the search
    /// is restricted to those with the highest UIDs.
    pub(crate) async fn take(
        &mut self,
        source: Source<'_>,
        name: &MailboxName,
        key: &mut Cow<'_, SearchKey>,
    ) -> Result<(), Failure> {
        let (view, mut searched) = (&source.selected.announced, searched_in(source, key).await?);
        if let Some(left) = NonZeroU32::new(self.left).filter(|left| searched.count() > u64::from(left.get()))
        {
            searched = newest(&searched, left);
            self.is_cut = true;
        }
        if let Some(lowest) = lowest_uid(view, &searched) {
            self.left = self.left.saturating_sub(searched.count() as u32);
            self.last = Some((name.clone(), lowest));
            if self.is_cut {
                from_uid(lowest, key.to_mut());
            }
        }
        Ok(())
    }

    /// The reply to a search that stopped before its end; none if it did not. RFC 9738 §3.1: the
    /// code has the lowest UID, and the text says of which mailbox it is.
    pub(crate) fn stopped(&self, is_more_to_search: IsMore) -> Option<Reply> {
        let (name, lowest) = self.last.as_ref()?;
        let text = match (self.is_cut, is_more_to_search) {
            (false, IsMore::No) => return None,
            (true, IsMore::No) => format!("Messages of {name} below this UID were not searched"),
            (true, IsMore::Yes) => {
                format!("Messages of {name} below this UID and the mailboxes after it were not searched")
            }
            (false, IsMore::Yes) => format!("The mailboxes after {name} were not searched"),
        };
        let code = Code::MessageLimit(self.limit.get(), Some(*lowest));
        Some(Reply { text: text.into(), ..Reply::ok("").with(code) })
    }
}

/// Whether mailboxes are left in which nothing was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsMore {
    No,
    Yes,
}

/// Refuses SORT and THREAD of too many messages: they cannot answer for a part of the messages.
pub(crate) async fn refuse(ctx: &mut Ctx<'_>, key: &SearchKey) -> Result<(), Failure> {
    match (ctx.message_limit().process(), searched(ctx, key).await?) {
        (Some(limit), Some(searched)) => Ok(MessageLimit::refuse(limit, searched.count(), None)?),
        _ => Ok(()),
    }
}

/// The messages that a search looks at. `None` where no limit can be exceeded.
async fn searched(ctx: &mut Ctx<'_>, key: &SearchKey) -> Result<Option<NumSet<SeqNum>>, Failure> {
    match ctx.message_limit().process() {
        Some(limit) if ctx.selected.announced.exists() > limit.get() => {}
        _ => return Ok(None),
    }
    let source = Source { service: ctx.service, account: ctx.login.id, selected: ctx.selected };
    Box::pin(searched_in(source, key)).await.map(Some)
}

/// The messages of one mailbox that a search looks at. A set that it names may have half a million
/// ranges.
async fn searched_in(source: Source<'_>, key: &SearchKey) -> Result<NumSet<SeqNum>, Failure> {
    let view = Arc::clone(&source.selected.announced);
    // Sets of messages do not depend on the time, so any time will do.
    let question = Box::pin(Question::compiled(source, key, 0)).await?;
    // Each set is looked up, and compared with all messages.
    let steps = 2 * question.within_steps();
    let work = move || {
        let within = question.criterion.within(&view);
        within.map_or_else(|| view.all(), |seqs| seqs.intersection(&view.all()))
    };
    source.threads().run(steps, work).await
}
