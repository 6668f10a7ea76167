//! Which criteria can be kept up to date.
//!
//! The value of a criterion for a message must depend only on the message. Then it changes only
//! with the message, and the difference of two views shows the change.
//!
//! | criterion | what is done |
//! | --- | --- |
//! | sequence numbers, `$` | they name the messages they named when the command came (RFC 5267 §4.3) |
//! | UIDs | as they are |
//! | UIDs with `*` | refused: `*` names another message after each arrival |
//! | YOUNGER, OLDER | refused: they change with the clock |
//! | RECENT, NEW, OLD | refused: they depend on other sessions |
//! | X-GM-RAW | refused by the command: it may hold any of these |
//! | MODSEQ, flags | a message that changes is evaluated again |
//! | all others | they follow from the message's bytes, which never change |

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::{Bound, SequenceSet, SetRange, UidSet};
use posthaste_mail_model::{Flag, NumSet};

use crate::selected::Selected;

/// Bytes of the criteria of one context. They are compiled again for each change of the mailbox.
const CRITERIA_BYTES_MAX: usize = 64 * 1024;
const TOO_LONG: &str = "The criteria are too long to be kept";

/// Messages that all sets of sequence numbers together may name, each set by itself. Their UIDs are
/// found in one go, some 2 ms for so many. All messages of the largest mailbox are fewer.
const NUMBERED_MAX: u64 = 8_000_000;
const TOO_MANY: &str = "The criteria name too many messages to be kept";

/// What the sets of the keys may take. Each key may name `$`, which may have half as many ranges as
/// the mailbox has messages.
struct Room {
    bytes: usize,
    numbered: u64,
}

impl Room {
    const ALL: Self = Self { bytes: CRITERIA_BYTES_MAX, numbered: NUMBERED_MAX };

    /// Takes the bytes of a set from those that are left.
    fn hold(&mut self, uids: &NumSet) -> Result<(), &'static str> {
        let bytes = uids.ranges().len() * size_of::<SetRange>();
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TOO_LONG)?;
        Ok(())
    }

    /// Takes the messages of a set whose UIDs are about to be found.
    fn find(&mut self, messages: u64) -> Result<(), &'static str> {
        self.numbered = self.numbered.checked_sub(messages).ok_or(TOO_MANY)?;
        Ok(())
    }
}

/// Criteria that can be kept, and their bytes; or why they cannot.
pub(super) fn kept(key: &SearchKey, selected: &Selected) -> Result<(SearchKey, usize), &'static str> {
    let mut left = Room::ALL;
    let key = of(key, selected, &mut left)?;
    match bytes(&key) {
        bytes if bytes > CRITERIA_BYTES_MAX => Err(TOO_LONG),
        bytes => Ok((key, bytes)),
    }
}

/// `left`: what the sets of the other keys may take.
fn of(key: &SearchKey, selected: &Selected, left: &mut Room) -> Result<SearchKey, &'static str> {
    use SearchKey as K;
    Ok(match key {
        K::And(keys) => K::And(keys.iter().map(|key| of(key, selected, left)).collect::<Result<_, _>>()?),
        K::Or(a, b) => K::Or(boxed(a, selected, left)?, boxed(b, selected, left)?),
        K::Not(key) => K::Not(boxed(key, selected, left)?),
        K::Fuzzy(key) => K::Fuzzy(boxed(key, selected, left)?),
        K::Seq(set) => {
            let exists = selected.announced.exists();
            let seqs = set.resolve(exists);
            left.find(seqs.count().min(u64::from(exists)))?;
            let uids = selected.announced.uids_of_seqs(&seqs);
            left.hold(&uids)?;
            if set.0.has_saved() {
                left.hold(selected.saved_search.uids())?;
                named(&uids.union(selected.saved_search.uids()))
            } else {
                named(&uids)
            }
        }
        K::Uid(set) => {
            let is_open = |range: &SetRange| range.from == Bound::Largest || range.to == Bound::Largest;
            if set.0.ranges().iter().any(is_open) {
                return Err("A range of UIDs that ends in * is not kept up to date");
            }
            if set.0.has_saved() {
                left.hold(selected.saved_search.uids())?;
                named(&selected.uids_of(set))
            } else {
                key.clone()
            }
        }
        K::Younger(_) | K::Older(_) => return Err("YOUNGER and OLDER change with the clock"),
        K::Annotation(_) => return Err("Searches for annotations are not kept up to date"),
        K::Recent | K::New | K::Old => return Err("RECENT, NEW and OLD are not kept up to date"),
        _ => key.clone(),
    })
}

fn boxed(key: &SearchKey, selected: &Selected, left: &mut Room) -> Result<Box<SearchKey>, &'static str> {
    of(key, selected, left).map(Box::new)
}

/// The key that names these messages by UID.
pub(crate) fn named(uids: &NumSet) -> SearchKey {
    let bound = Bound::number;
    let range = |&(low, high): &(u32, u32)| Some(SetRange { from: bound(low)?, to: bound(high)? });
    let ranges: Vec<SetRange> = uids.ranges().iter().filter_map(range).collect();
    match ranges.is_empty() {
        // The grammar has no set without numbers.
        true => SearchKey::Not(Box::new(SearchKey::All)),
        false => SearchKey::Uid(UidSet(SequenceSet::Ranges(ranges))),
    }
}

/// Bytes of memory.
fn bytes(key: &SearchKey) -> usize {
    use SearchKey as K;
    let behind = match key {
        K::And(keys) => keys.iter().map(bytes).sum(),
        K::Or(a, b) => bytes(a) + bytes(b),
        K::Not(key) | K::Fuzzy(key) => bytes(key),
        K::Uid(UidSet(SequenceSet::Ranges(ranges))) => ranges.len() * size_of::<SetRange>(),
        K::Bcc(text) | K::Cc(text) | K::From(text) | K::Subject(text) | K::To(text) => text.len(),
        K::Body(text) | K::Text(text) | K::EmailId(text) | K::ThreadId(text) => text.len(),
        K::GmLabel(text) | K::GmRaw(text) => text.len(),
        K::Header(name, text) => name.len() + text.len(),
        K::ModSeq { entry, .. } => entry.as_ref().map_or(0, |entry| entry.name.len()),
        K::Has(Flag::Keyword(keyword)) | K::Lacks(Flag::Keyword(keyword)) => keyword.as_str().len(),
        _ => 0,
    };
    size_of::<SearchKey>() + behind
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1:*` four thousand times, in a mailbox of a million messages: a poll of 200 ms.
    #[test]
    fn sets_of_sequence_numbers_name_a_bounded_number_of_messages() {
        let mut room = Room::ALL;
        for _ in 0..8 {
            room.find(1_000_000).unwrap();
        }
        assert_eq!(room.find(1), Err(TOO_MANY));
        let many = NumSet::from_ranges((1..=CRITERIA_BYTES_MAX as u32).map(|n| (2 * n, 2 * n)));
        assert_eq!(room.hold(&many), Err(TOO_LONG));
        room.hold(&NumSet::range(1, 9)).unwrap();
    }
}
