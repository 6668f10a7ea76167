//! The keys of SORT and THREAD, of all messages of a segment.
//!
//! The values are in columns, in the order of the messages. *Head*: the number of references (4);
//! for each text key, how many different texts there are (4) and their bytes (4). *Columns*: the
//! flags (1 each), the dates (8 each), the hashes of Message-IDs (8 each), the counts of references
//! (2 each), all references (8 each). *Text columns*, one for each key: the number of each
//! message's text (2 each), the end of each text (4 each), the texts. Numbers are little-endian.
//!
//! This module does not know what a date or a text means: the caller gives them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Texts of a message: one for each key that compares texts.
pub const TEXTS: usize = 6;

/// Bytes that the packed values of one message take at most. A message with more has no values in
/// its segment, and its reader computes them.
const PACKED_MAX: usize = 512;
/// Bytes of a packed message before its references: flags, date, Message-ID, count.
const PACKED_HEAD: usize = 1 + 8 + 8 + 2;

const HEAD_LEN: usize = 4 + TEXTS * 8;

/// The segment has values of the message.
const HAS_VALUES: u8 = 1;
/// The message has a date.
const HAS_DATE: u8 = 2;
/// The message has a Message-ID.
const HAS_ID: u8 = 4;
/// The subject marks a reply.
const IS_REPLY: u8 = 8;

/// The keys of SORT and THREAD of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortKeys<'k> {
    /// The time when the message was sent, in seconds since 1970.
    pub sent: Option<i64>,
    /// The hash of its Message-ID.
    pub id: Option<u64>,
    /// Whether its subject marks a reply or a forward.
    pub is_reply: bool,
    /// Hashes of the identifiers to which it refers, little-endian.
    pub references: &'k [[u8; 8]],
    /// A text for each key.
    pub texts: [&'k [u8]; TEXTS],
}

impl<'k> SortKeys<'k> {
    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        HAS_VALUES
            | flag(self.sent.is_some(), HAS_DATE)
            | flag(self.id.is_some(), HAS_ID)
            | flag(self.is_reply, IS_REPLY)
    }

    /// The values as bytes; `None` if they are too long.
    pub(crate) fn pack(&self) -> Option<Box<[u8]>> {
        let texts: usize = self.texts.iter().map(|text| 2 + text.len()).sum();
        let len = PACKED_HEAD + self.references.len() * 8 + texts;
        if len > PACKED_MAX {
            return None;
        }
        let mut packed = Vec::with_capacity(len);
        packed.push(self.flags());
        packed.extend_from_slice(&self.sent.unwrap_or(0).to_le_bytes());
        packed.extend_from_slice(&self.id.unwrap_or(0).to_le_bytes());
        packed.extend_from_slice(&(self.references.len() as u16).to_le_bytes());
        packed.extend_from_slice(self.references.as_flattened());
        for text in self.texts {
            packed.extend_from_slice(&(text.len() as u16).to_le_bytes());
            packed.extend_from_slice(text);
        }
        Some(packed.into())
    }

    /// Reads the bytes of [`pack`](Self::pack); `None` for other bytes.
    pub(crate) fn unpack(packed: &'k [u8]) -> Option<Self> {
        let (&flags, rest) = packed.split_first()?;
        let (sent, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (references, mut rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*count)) * 8)?;
        let mut keys = Self::of(flags, *sent, *id, references.as_chunks().0);
        for text in &mut keys.texts {
            let (len, after) = rest.split_first_chunk()?;
            (*text, rest) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        }
        rest.is_empty().then_some(keys)
    }

    fn of(flags: u8, sent: [u8; 8], id: [u8; 8], references: &'k [[u8; 8]]) -> Self {
        Self {
            sent: (flags & HAS_DATE != 0).then_some(i64::from_le_bytes(sent)),
            id: (flags & HAS_ID != 0).then_some(u64::from_le_bytes(id)),
            is_reply: flags & IS_REPLY != 0,
            references,
            texts: [&[]; TEXTS],
        }
    }
}

/// The columns of some messages, as a segment stores them.
#[derive(Debug, Clone, Copy)]
pub struct KeyTable<'b> {
    flags: &'b [u8],
    sent: &'b [[u8; 8]],
    ids: &'b [[u8; 8]],
    counts: &'b [[u8; 2]],
    references: &'b [[u8; 8]],
    texts: [TextColumn<'b>; TEXTS],
}

/// The texts of one key: each different one once.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextColumn<'b> {
    numbers: &'b [[u8; 2]],
    ends: &'b [[u8; 4]],
    bytes: &'b [u8],
}

impl<'b> TextColumn<'b> {
    /// The number of different texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of a message's text, by the message's ordinal in the segment. It is below
    /// [`Self::len`] if the segment [has](KeyTable::has) the message's values.
    pub fn number(&self, message: usize) -> usize {
        let number = self.numbers.get(message);
        debug_assert!(number.is_some(), "the segment has no message {message}");
        number.map_or(usize::MAX, |number| usize::from(u16::from_le_bytes(*number)))
    }

    /// A text by its number. `is_sound` has checked the ends of the texts.
    pub fn text(&self, number: usize) -> &'b [u8] {
        let end = |at: usize| self.ends.get(at).map(|end| u32::from_le_bytes(*end) as usize);
        let start = number.checked_sub(1).map_or(Some(0), end);
        let text = start.zip(end(number)).and_then(|(start, end)| self.bytes.get(start..end));
        debug_assert!(text.is_some(), "the segment has no text {number}");
        text.unwrap_or_default()
    }

    fn is_sound(&self, flags: &[u8]) -> bool {
        let ends = self.ends.iter().map(|end| u32::from_le_bytes(*end) as usize);
        let has_text = |(message, flags): (usize, &u8)| {
            flags & HAS_VALUES == 0 || self.number(message) < self.ends.len()
        };
        ends.clone().is_sorted()
            && ends.clone().next_back().unwrap_or(0) == self.bytes.len()
            && flags.iter().enumerate().all(has_text)
    }
}

impl<'b> KeyTable<'b> {
    /// The columns of this many messages, which fill the bytes. `None` if they do not.
    pub(crate) fn read(messages: usize, bytes: &'b [u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let mut counts = head.as_chunks::<4>().0.iter().map(|count| u32::from_le_bytes(*count) as usize);
        let mut count = move || counts.next().unwrap_or(0);
        let mut take = |len: usize| -> Option<&'b [u8]> {
            let (taken, left) = rest.split_at_checked(len)?;
            rest = left;
            Some(taken)
        };
        let references = count();
        let mut table = Self {
            flags: take(messages)?,
            sent: take(messages * 8)?.as_chunks().0,
            ids: take(messages * 8)?.as_chunks().0,
            counts: take(messages * 2)?.as_chunks().0,
            references: take(references * 8)?.as_chunks().0,
            texts: [TextColumn::default(); TEXTS],
        };
        for column in &mut table.texts {
            let (texts, text_bytes) = (count(), count());
            column.numbers = take(messages * 2)?.as_chunks().0;
            column.ends = take(texts * 4)?.as_chunks().0;
            column.bytes = take(text_bytes)?;
        }
        (rest.is_empty() && table.is_sound()).then_some(table)
    }

    fn is_sound(&self) -> bool {
        let counted: usize = self.counts.iter().map(|count| usize::from(u16::from_le_bytes(*count))).sum();
        counted == self.references.len() && self.texts.iter().all(|column| column.is_sound(self.flags))
    }

    /// Whether it has the values of a message, by its ordinal in the segment.
    pub fn has(&self, message: usize) -> bool {
        self.flags.get(message).is_some_and(|flags| flags & HAS_VALUES != 0)
    }

    /// The time when a message was sent, in seconds since 1970.
    pub fn sent(&self, message: usize) -> Option<i64> {
        let flags = self.flags.get(message)?;
        (flags & HAS_DATE != 0).then(|| i64::from_le_bytes(self.sent[message]))
    }

    /// The texts of a key.
    pub fn texts(&self, key: usize) -> TextColumn<'b> {
        self.texts.get(key).copied().unwrap_or_default()
    }

    /// Date, Message-ID and references of each message, without its texts.
    pub fn links(&self) -> impl Iterator<Item = Option<SortKeys<'b>>> + 'b {
        let (mut left, sent, ids) = (self.references, self.sent, self.ids);
        self.flags.iter().zip(self.counts).enumerate().map(move |(message, (flags, count))| {
            let (references, rest) = left.split_at_checked(usize::from(u16::from_le_bytes(*count)))?;
            left = rest;
            let (sent, id) = (sent.get(message)?, ids.get(message)?);
            (flags & HAS_VALUES != 0).then(|| SortKeys::of(*flags, *sent, *id, references))
        })
    }

    /// The sort keys of each message.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Option<SortKeys<'b>>> + 'b {
        let texts = self.texts;
        self.links().enumerate().map(move |(message, keys)| {
            keys.map(|keys| SortKeys {
                texts: texts.map(|column| column.text(column.number(message))),
                ..keys
            })
        })
    }
}

/// The columns of messages, on their way into a segment.
#[derive(Debug, Default)]
pub(crate) struct KeyColumns {
    flags: Vec<u8>,
    sent: Vec<u8>,
    ids: Vec<u8>,
    counts: Vec<u8>,
    references: Vec<u8>,
    texts: [NewTextColumn; TEXTS],
}

#[derive(Debug, Default)]
struct NewTextColumn {
    numbers: Vec<u8>,
    ends: Vec<u8>,
    bytes: Vec<u8>,
    /// Keyed, so that no sender can choose texts with equal hashes.
    known: HashMap<Box<[u8]>, u16, RandomState>,
}

impl NewTextColumn {
    fn push(&mut self, text: &[u8]) {
        let number = match self.known.get(text) {
            Some(number) => *number,
            None => {
                let number = self.known.len() as u16;
                self.known.insert(text.into(), number);
                self.bytes.extend_from_slice(text);
                self.ends.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
                number
            }
        };
        self.numbers.extend_from_slice(&number.to_le_bytes());
    }
}

impl KeyColumns {
    /// Adds the values of the next message, if there are any.
    pub(crate) fn push(&mut self, keys: Option<SortKeys<'_>>) {
        let Some(keys) = keys else {
            self.flags.push(0);
            self.sent.extend_from_slice(&[0; 8]);
            self.ids.extend_from_slice(&[0; 8]);
            self.counts.extend_from_slice(&[0; 2]);
            self.texts.iter_mut().for_each(|column| column.numbers.extend_from_slice(&[0; 2]));
            return;
        };
        self.flags.push(keys.flags());
        self.sent.extend_from_slice(&keys.sent.unwrap_or(0).to_le_bytes());
        self.ids.extend_from_slice(&keys.id.unwrap_or(0).to_le_bytes());
        self.counts.extend_from_slice(&(keys.references.len() as u16).to_le_bytes());
        self.references.extend_from_slice(keys.references.as_flattened());
        self.texts.iter_mut().zip(keys.texts).for_each(|(column, text)| column.push(text));
    }

    /// The columns as they are stored.
    pub(crate) fn finish(self) -> Vec<u8> {
        let Self { flags, sent, ids, counts, references, texts } = self;
        let mut bytes = Vec::new();
        let mut number = |number: usize| bytes.extend_from_slice(&(number as u32).to_le_bytes());
        number(references.len() / 8);
        for column in &texts {
            number(column.ends.len() / 4);
            number(column.bytes.len());
        }
        for column in [flags, sent, ids, counts, references] {
            bytes.extend_from_slice(&column);
        }
        for column in texts {
            bytes.extend_from_slice(&column.numbers);
            bytes.extend_from_slice(&column.ends);
            bytes.extend_from_slice(&column.bytes);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    struct Message {
        sent: Option<i64>,
        id: Option<u64>,
        is_reply: bool,
        references: Vec<[u8; 8]>,
        texts: Vec<Vec<u8>>,
    }

    impl Message {
        fn keys(&self) -> SortKeys<'_> {
            let mut texts: [&[u8]; TEXTS] = [&[]; TEXTS];
            texts.iter_mut().zip(&self.texts).for_each(|(to, text)| *to = text);
            let Self { sent, id, is_reply, ref references, .. } = *self;
            SortKeys { sent, id, is_reply, references, texts }
        }
    }

    fn message() -> impl Strategy<Value = Message> {
        let text = prop::collection::vec(0u8..4, 0..70);
        let references = prop::collection::vec(any::<[u8; 8]>(), 0..12);
        let texts = prop::collection::vec(text, TEXTS);
        (any::<Option<i64>>(), any::<Option<u64>>(), any::<bool>(), references, texts).prop_map(
            |(sent, id, is_reply, references, texts)| Message { sent, id, is_reply, references, texts },
        )
    }

    properties! {
        #[test]
        fn packed_keys_are_unpacked(message in message()) {
            let keys = message.keys();
            match keys.pack() {
                Some(packed) => {
                    prop_assert!(packed.len() <= PACKED_MAX);
                    prop_assert_eq!(SortKeys::unpack(&packed), Some(keys));
                    prop_assert_eq!(SortKeys::unpack(&packed[..packed.len() - 1]), None);
                }
                None => {
                    let texts: usize = message.texts.iter().map(Vec::len).sum();
                    prop_assert!(texts + message.references.len() * 8 > PACKED_MAX - PACKED_HEAD - 12);
                }
            }
        }

        #[test]
        fn columns_have_the_values_of_their_messages(
            messages in prop::collection::vec(prop::option::of(message()), 0..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut columns = KeyColumns::default();
            messages.iter().for_each(|message| columns.push(message.as_ref().map(Message::keys)));
            let bytes = columns.finish();
            let table = KeyTable::read(messages.len(), &bytes).unwrap();
            let expected: Vec<_> = messages.iter().map(|message| message.as_ref().map(Message::keys)).collect();
            prop_assert_eq!(table.messages().collect::<Vec<_>>(), expected.clone());
            for (ordinal, keys) in expected.into_iter().enumerate() {
                prop_assert_eq!(table.has(ordinal), keys.is_some());
                prop_assert_eq!(table.sent(ordinal), keys.and_then(|keys| keys.sent));
            }
            prop_assert!(KeyTable::read(messages.len() + 1, &bytes).is_none());
            let cut = cut.index(bytes.len());
            prop_assert!(KeyTable::read(messages.len(), &bytes[..cut]).is_none());
        }
    }
}
