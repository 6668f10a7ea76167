//! What SORT and THREAD compare of a message, and the values that segments have of a mailbox.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_imap_codec::response::Address;
use posthaste_imap_codec::{EnvelopeList, first_address};
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_mime_summary::{SummaryRef, decode_words, fold_into, order_into};
use posthaste_search_index::{Front, SortKeys, TEXTS};
use posthaste_store::Result;
use sha2::{Digest, Sha256};

use crate::index::SearchIndex;
use crate::{places, stored};

/// Bytes of a text that are kept. A longer one keeps its beginning and a digest of the whole. So
/// equal texts stay equal and different ones different. Those that differ only behind the beginning
/// stand next to each other, in an order that means nothing and is always the same.
const TEXT_BYTES_MAX: usize = 1000;
/// Bytes of such a digest.
const DIGEST_LEN: usize = 16;

/// A text that messages are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SortField {
    /// RFC 5256 §3: the mailbox of the first address of From.
    From,
    /// The same of To.
    To,
    /// The same of Cc.
    Cc,
    /// RFC 5256 §2.1.
    Subject,
    /// RFC 5957 §4.
    DisplayFrom,
    /// RFC 5957 §4.
    DisplayTo,
}

impl SortField {
    /// All of them, in the order in which segments have them.
    pub const ALL: [Self; TEXTS] =
        [Self::From, Self::To, Self::Cc, Self::Subject, Self::DisplayFrom, Self::DisplayTo];
}

/// Makes the texts of one message after the other. It keeps its buffers.
#[derive(Debug, Default)]
pub struct SortTexts {
    envelope: Vec<u8>,
    folded: Vec<u8>,
}

impl SortTexts {
    /// Appends the text of a message for a key, as SORT compares it. Returns its whole length.
    pub fn append(&mut self, key: SortField, summary: &SummaryRef<'_>, into: &mut Vec<u8>) -> usize {
        let start = into.len();
        self.append_whole(key, summary, into);
        let len = into.len() - start;
        if len > TEXT_BYTES_MAX {
            let digest = Sha256::digest(&into[start..]);
            into.truncate(start + TEXT_BYTES_MAX - DIGEST_LEN);
            into.extend(digest.iter().take(DIGEST_LEN));
        }
        len
    }

    /// The same, however long the text is.
    pub fn append_whole(&mut self, key: SortField, summary: &SummaryRef<'_>, into: &mut Vec<u8>) {
        let Self { envelope, folded } = self;
        let list = match key {
            SortField::From => return order_into(summary.sort_from(), into),
            SortField::To => return order_into(summary.sort_to(), into),
            SortField::Cc => return order_into(summary.sort_cc(), into),
            SortField::Subject => return order_into(summary.base_subject(), into),
            SortField::DisplayFrom => EnvelopeList::From,
            SortField::DisplayTo => EnvelopeList::To,
        };
        envelope.clear();
        folded.clear();
        summary.envelope().append_to(envelope);
        if let Some(address) = first_address(envelope, list) {
            display(&address, folded);
        }
        order_into(folded, into);
    }
}

/// RFC 5957 §3: the name, decoded; without one the address.
fn display(address: &Address<'_>, folded: &mut Vec<u8>) {
    if let Some(name) = &address.name {
        fold_into(&decode_words(name), folded);
    }
    if folded.is_empty()
        && let Some(mailbox) = &address.mailbox
    {
        fold_into(&String::from_utf8_lossy(mailbox), folded);
        if let Some(host) = &address.host {
            folded.push(b'@');
            fold_into(&String::from_utf8_lossy(host), folded);
        }
    }
}

/// Makes the sort keys of one message after the other. It keeps its buffers.
#[derive(Debug, Default)]
pub(crate) struct SortKeysOf {
    texts: SortTexts,
    bytes: Vec<u8>,
    references: Vec<[u8; 8]>,
}

impl SortKeysOf {
    /// The sort keys of a message.
    pub(crate) fn summary(&mut self, summary: &SummaryRef<'_>) -> SortKeys<'_> {
        self.bytes.clear();
        let ends = SortField::ALL.map(|key| {
            self.texts.append(key, summary, &mut self.bytes);
            self.bytes.len()
        });
        self.references.clear();
        self.references.extend(summary.reference_hashes().map(u64::to_le_bytes));
        let mut start = 0;
        SortKeys {
            sent: summary.sent().map(|sent| sent.unix_s),
            id: summary.message_id_hash(),
            is_reply: summary.is_reply(),
            references: &self.references,
            texts: ends.map(|end| &self.bytes[std::mem::replace(&mut start, end)..end]),
        }
    }
}

/// The segments of a mailbox whose sort keys are read, one after the other.
pub struct StoredSortKeys {
    index: SearchIndex,
    mailbox: MailboxId,
    left: std::vec::IntoIter<(Uid, BodyId)>,
}

/// The sort keys of one segment.
pub struct SegmentSortKeys {
    /// The front of the segment, verified.
    bytes: Bytes,
}

impl SegmentSortKeys {
    /// Its messages and their values.
    pub fn front(&self) -> Option<Front<'_>> {
        Front::verified(&self.bytes)
    }
}

impl SearchIndex {
    /// The sort keys that the segments of a mailbox have. A message's keys never change, so they
    /// are right for every view of the mailbox. Without an index, there are none.
    #[boxed]
    pub async fn sort_keys(&self, mailbox: MailboxId) -> Result<StoredSortKeys> {
        let place = places::of(mailbox);
        let has_segments = self.shared.is_on
            && self.shared.store.status(&[place]).await?.into_iter().flatten().next().is_some();
        let listed = match has_segments {
            true => stored::list(&self.shared.store, mailbox).await?.0,
            false => Vec::new(),
        };
        Ok(StoredSortKeys { index: self.clone(), mailbox, left: listed.into_iter() })
    }
}

impl StoredSortKeys {
    /// Those of the next segment. A damaged one is removed and left out.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<SegmentSortKeys>> {
        let Self { index, mailbox, left } = self;
        for (uid, body) in left {
            match stored::read_front(&index.shared.store, body).await? {
                Some(bytes) => return Ok(Some(SegmentSortKeys { bytes })),
                None => index.remove_damaged(*mailbox, &NumSet::range(uid.value(), uid.value())).await?,
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{World, replace_the_segment, texts};

    /// A message with fields that differ from one to the next; of one in 50 the keys are too long.
    fn message(n: usize) -> String {
        let references: String = (0..n % 7).map(|m| format!(" <{}@r>", n * 10 + m)).collect();
        let subject = if n.is_multiple_of(50) { "long ".repeat(150) } else { format!("subject {}", n % 9) };
        let re = if n.is_multiple_of(3) { "Re: " } else { "" };
        let date =
            if n.is_multiple_of(4) { String::new() } else { format!("Date: {} Jan 2024\r\n", n % 28 + 1) };
        format!(
            "From: =?utf-8?q?N=C3=A4me?= {n} <from{}@x>\r\nTo: to{n}@y\r\nSubject: {re}{subject}\r\n\
             {date}Message-ID: <{n}@id>\r\nReferences:{references}\r\n\r\ntext\r\n",
            n % 5
        )
    }

    /// For each UID the keys in the segments: those of the message. Returns how many there are.
    async fn compare(world: &World) -> usize {
        let (index, mut texts, mut found) = (world.index(), SortKeysOf::default(), 0);
        let mut stored = index.sort_keys(world.id()).await.unwrap();
        while let Some(segment) = stored.next().await.unwrap() {
            let front = segment.front().unwrap();
            let links = front.keys().links();
            for ((ordinal, uid), link) in front.uids().enumerate().zip(links) {
                let summary = posthaste_delivery::summarize(message(uid as usize).as_bytes());
                let expected = texts.summary(&SummaryRef::new(&summary).unwrap());
                let Some(link) = link else {
                    assert!(expected.texts.concat().len() > 500, "UID {uid} has no keys");
                    continue;
                };
                let of = |field: SortField| {
                    let column = front.keys().texts(field as usize);
                    column.text(column.number(ordinal))
                };
                assert_eq!(SortKeys { texts: SortField::ALL.map(of), ..link }, expected, "UID {uid}");
                assert_eq!(front.keys().sent(ordinal), expected.sent);
                found += 1;
            }
        }
        found
    }

    #[tokio::test]
    async fn segments_have_the_keys_of_their_messages() {
        let world = World::new().await;
        assert_eq!(compare(&world).await, 0);
        let index = world.index();
        for part in 0..5 {
            world.append((1..=260).map(|n| message(part * 260 + n)).collect()).await;
            index.update(world.id()).await.unwrap();
            // All but those with long keys, whether segments were merged or not.
            assert_eq!(compare(&world).await, (part + 1) * 260 - (part + 1) * 260 / 50);
        }
        let expunged = NumSet::range(1, 1000);
        world.mailbox.remove(&expunged).await.unwrap();
        while index.work(world.id(), Uid::MIN).await.unwrap() != crate::work::Turn::Done {}
        assert!(compare(&world).await < 600, "segments lose what is expunged");
    }

    #[tokio::test]
    async fn a_segment_with_a_damaged_front_is_removed_and_made_again() {
        let flipped = |bytes: &mut Vec<u8>| bytes[300] ^= 1;
        let old = |bytes: &mut Vec<u8>| {
            let at = bytes.windows(8).position(|eight| eight == b"PHSEARC\x04").unwrap();
            bytes[at + 7] = 3;
        };
        for change in [&flipped as &dyn Fn(&mut Vec<u8>), &old] {
            let world = World::new().await;
            world.append((1..=300).map(message).collect()).await;
            world.index().update(world.id()).await.unwrap();
            assert_eq!(compare(&world).await, 294);
            replace_the_segment(&world, change).await;
            assert_eq!(compare(&world).await, 0);
            world.index().update(world.id()).await.unwrap();
            assert_eq!(compare(&world).await, 294);
        }
    }

    #[tokio::test]
    async fn without_an_index_there_are_no_keys() {
        let mut world = World::new().await;
        world.add(texts(0..300)).await;
        let index = SearchIndex::off(world.store.clone());
        assert!(index.sort_keys(world.id()).await.unwrap().next().await.unwrap().is_none());
    }

    #[test]
    fn long_texts_keep_their_difference() {
        let subject = |tail: &str| format!("Subject: {}{tail}\r\n\r\n", "x".repeat(50_000));
        let text = |message: &str| {
            let summary = posthaste_delivery::summarize(message.as_bytes());
            let (mut texts, mut text) = (SortTexts::default(), Vec::new());
            texts.append(SortField::Subject, &SummaryRef::new(&summary).unwrap(), &mut text);
            text
        };
        let (a, b) = (text(&subject("")), text(&subject("y")));
        assert!(a != b && a.len() <= TEXT_BYTES_MAX && b.len() <= TEXT_BYTES_MAX);
        assert_eq!(a, text(&subject("")));
    }
}
