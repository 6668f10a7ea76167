//! UIDBATCHES (RFC 10022): ranges of UIDs with the same number of messages each, from the newest
//! message on.
//!
//! So a client without sequence numbers can request any number of messages at a time. A batch costs
//! a look-up of one message.

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::response::{Code, Untagged};
use posthaste_mail_model::{SeqNum, Uid};
use posthaste_store::View;

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::session::Ctx;

/// Messages that a batch must have at least.
const SIZE_MIN: u32 = 500;
/// Messages in all the batches that a client may name.
const MESSAGES_MAX: u64 = 100_000;

pub(super) fn run(
    ctx: &mut Ctx<'_>,
    tag: &Tag,
    size: u32,
    wanted: Option<(u32, u32)>,
) -> Result<Reply, Failure> {
    // Batches as small as the limit (RFC 9738) can be named in one command.
    let least = ctx.message_limit().process().map_or(SIZE_MIN, |limit| limit.get().min(SIZE_MIN));
    if size < least {
        let text = format!("A batch has at least {least} messages");
        return Err(Reply::no(Code::TooFew, text).into());
    }
    let (first, last) = wanted.unwrap_or((1, u32::MAX));
    if first > last {
        return Err(Reply::bad("The first batch comes after the last").with(Code::ClientBug).into());
    }
    let messages = (u64::from(last - first) + 1) * u64::from(size);
    if wanted.is_some() && messages > MESSAGES_MAX {
        let text = format!("The requested batches may have at most {MESSAGES_MAX} messages");
        return Err(Reply::no(Code::TooMany, text).into());
    }
    let batches = batches(&ctx.selected.announced, size, first, last);
    ctx.wire.say(Untagged::UidBatches { tag: tag.clone(), batches });
    Ok(DONE)
}

/// Highest and lowest UID of each batch. They leave no UID out: a batch begins below the one
/// before, and the last one ends at 1.
fn batches(view: &View, size: u32, first: u32, last: u32) -> Vec<(Uid, Uid)> {
    let mut batches = Vec::new();
    let exists = view.exists();
    let lowest_of = |batch: u32| {
        let after = u64::from(batch) * u64::from(size);
        let seq = u64::from(exists).checked_sub(after).and_then(|seq| u32::try_from(seq).ok())?;
        SeqNum::new(seq + 1).filter(|_| seq > 0).and_then(|seq| view.uid_of(seq))
    };
    let mut high = match first {
        1 => view.last_uid(),
        _ => lowest_of(first - 1).and_then(|uid| Uid::new(uid.value() - 1)),
    };
    for batch in first..=last {
        let Some(from) = high else { break };
        let low = lowest_of(batch);
        batches.push((from, low.unwrap_or(Uid::MIN)));
        high = low.and_then(|uid| Uid::new(uid.value() - 1));
    }
    batches
}
