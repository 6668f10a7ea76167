//! The limit of messages of a search: RFC 9738 §3.1, §3.3.
//!
//! The limit counts the messages that are searched, not those that match. The sets in the criteria
//! select the messages that are searched.

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::{Bound, SequenceSet, SetRange, UidSet};
use posthaste_mail_model::{NumSet, SeqNum};

use super::criteria::Question;
use crate::message_limit::{MessageLimit, lowest_uid};
use crate::reply::Failure;
use crate::selected::Stopped;
use crate::session::Ctx;

/// Restricts a search to the messages with the highest UIDs, and notes that.
pub(crate) fn apply(ctx: &mut Ctx<'_>, key: &mut SearchKey) -> Result<(), Failure> {
    let Some(searched) = searched(ctx, key)? else { return Ok(()) };
    if let Some((limit, kept)) = ctx.message_limit().cut(&searched)
        && let Some(lowest) = lowest_uid(&ctx.selected.announced, &kept)
    {
        ctx.selected.stopped = Some(Stopped { limit, lowest });
        let whole = std::mem::replace(key, SearchKey::All);
        // The upper end is a number, not `*`: new mail must not enter this set later.
        let ends = Bound::number(lowest.value()).zip(Bound::number(u32::MAX));
        let newest =
            ends.map(|(from, to)| SearchKey::Uid(UidSet(SequenceSet::Ranges(vec![SetRange { from, to }]))));
        *key = SearchKey::And(newest.into_iter().chain([whole]).collect());
    }
    Ok(())
}

/// Refuses SORT and THREAD of too many messages: they cannot answer for a part of the messages.
pub(crate) fn refuse(ctx: &mut Ctx<'_>, key: &SearchKey) -> Result<(), Failure> {
    match (ctx.message_limit().process(), searched(ctx, key)?) {
        (Some(limit), Some(searched)) => Ok(MessageLimit::refuse(limit, searched.count(), None)?),
        _ => Ok(()),
    }
}

/// The messages that a search looks at. `None` where no limit can be exceeded.
fn searched(ctx: &Ctx<'_>, key: &SearchKey) -> Result<Option<NumSet<SeqNum>>, Failure> {
    let view = &ctx.selected.announced;
    match ctx.message_limit().process() {
        Some(limit) if view.exists() > limit.get() => {}
        _ => return Ok(None),
    }
    // The sets do not depend on the time.
    let question = Question::compile(key, ctx.selected, 0)?;
    let within = question.criterion.within(view);
    Ok(Some(within.map_or_else(|| view.all(), |seqs| seqs.intersection(&view.all()))))
}
