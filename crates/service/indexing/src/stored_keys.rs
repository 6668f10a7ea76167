//! The sort keys that the segments of a mailbox have.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_search_index::Front;
use posthaste_store::Result;

use crate::index::SearchIndex;
use crate::{places, stored};

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
    /// The messages of the segment, and their values.
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
    /// The sort keys of the next segment. A damaged segment is removed and left out.
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
    use posthaste_mime_summary::SummaryRef;
    use posthaste_search_index::SortKeys;

    use super::*;
    use crate::sort_keys::{SortField, SortKeysOf};
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
        while index.work(world.id(), Uid::MIN).await.unwrap() != crate::work::WorkOutcome::Done {}
        assert!(compare(&world).await < 600, "segments lose what is expunged");
    }

    #[tokio::test]
    async fn a_segment_with_a_damaged_front_is_removed_and_made_again() {
        let flipped = |bytes: &mut Vec<u8>| bytes[300] ^= 1;
        let old = |bytes: &mut Vec<u8>| {
            let at = bytes.windows(8).position(|eight| eight == b"PHSEARC\x07").unwrap();
            bytes[at + 7] = 4;
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
}
