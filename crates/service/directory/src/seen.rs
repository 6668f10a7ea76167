//! The `\Seen` flags of users in mailboxes of others: each user has separate ones there (RFC 4314
//! §4).
//!
//! | record | content |
//! | --- | --- |
//! | `seen/<owner's id>/<mailbox id>/<reader's id>/<block>` | 1 octet, the version 1; a bit for each UID of the block, the lowest first, without the zeros at the end |
//! | the same, with pending flags | 1 octet, the version 2; the length of the first bits in 2 octets, most significant first; a bit for each UID whose flag is pending; the bits as in version 1 |
//!
//! A block has 4,096 UIDs, so a record has at most 1,027 octets. A change costs the same however
//! many messages the mailbox has. UIDs of expunged messages stay in it, because no UID is assigned
//! twice.
//!
//! A changed flag is *pending* until the mod-sequence of its message has risen: that is another
//! commit. A crash between the two leaves it pending, and the next session raises the
//! mod-sequence (RFC 7162 §3.1). Only the change that wrote a version of a record completes it. So
//! no flag is completed that another change has written since. Versions never begin again: a record
//! without a bit stays.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id, MailboxId, NumSet};
use posthaste_store::{
    CommitOutcome, DirectoryEntry, DirectoryPages, Engine, TargetIds, set_directory_entry,
};

use crate::error::{DirectoryError, Result};
use crate::records::{Records, TRIES};

/// The form of a record without pending flags.
const COMPLETE: u8 = 1;
/// The form of a record with pending flags.
const WITH_PENDING: u8 = 2;
/// UIDs of a block. Twice as many would double what each change writes; half as many, the records
/// that opening a mailbox reads.
const BLOCK: u32 = 4096;
/// Records per engine call: 64 KiB, or 128 KiB if all have pending flags. Also those that are read
/// between two pauses for other tasks: some 2 ms.
const PAGE: usize = 128;
/// Ranges of UIDs that are divided into blocks between two pauses for other tasks.
const RANGES_AT_ONCE: usize = 20_000;

/// A mailbox, and the account that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The owner of the mailbox.
    pub owner: AccountId,
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The account that reads it.
    pub reader: AccountId,
}

impl Reading {
    fn prefix(self) -> String {
        format!("{}{}/", of_mailbox(self.owner, self.mailbox), self.reader)
    }

    fn record(self, block: u32) -> String {
        format!("{}{block:05x}", self.prefix())
    }
}

fn of_owner(owner: AccountId) -> String {
    format!("seen/{owner}/")
}

fn of_mailbox(owner: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}/", of_owner(owner))
}

fn unreadable(record: &str) -> DirectoryError {
    let why = "it has another form, or is damaged: restore it from a backup".into();
    DirectoryError::Record { record: record.to_owned(), why }
}

/// The messages that a reader has seen.
#[derive(Debug, Default)]
pub struct SeenMessages {
    /// Their UIDs.
    pub seen: NumSet,
    /// The flags that a crash may have left without a mod-sequence.
    pub pending: PendingSeen,
}

/// Changed flags. The mod-sequences of their messages have to rise next.
#[derive(Debug, Default)]
pub struct PendingSeen {
    uids: NumSet,
    /// The versions of the blocks' records that have them.
    versions: BTreeMap<u32, u64>,
}

impl PendingSeen {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// The UIDs of the messages.
    pub fn uids(&self) -> &NumSet {
        &self.uids
    }
}

/// The bits of a record.
#[derive(Default)]
struct Bits<'e> {
    seen: &'e [u8],
    pending: &'e [u8],
}

/// Reads a record.
fn bits(entry: &DirectoryEntry) -> Result<Bits<'_>> {
    let read = match entry.value.split_first() {
        Some((&COMPLETE, seen)) => Some(Bits { seen, pending: &[] }),
        Some((&WITH_PENDING, rest)) => rest.split_first_chunk::<2>().and_then(|(len, rest)| {
            let parts = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)));
            parts.map(|(pending, seen)| Bits { seen, pending })
        }),
        _ => None,
    };
    let fits = |bits: &[u8]| bits.len() <= BLOCK as usize / 8;
    let read = read.filter(|bits| fits(bits.seen) && fits(bits.pending));
    read.ok_or_else(|| unreadable(&entry.name))
}

/// The content of a record.
fn content(seen: &[u8], pending: &[u8]) -> Bytes {
    if pending.is_empty() {
        return Bytes::from([&[COMPLETE][..], seen].concat());
    }
    // A block has 512 octets.
    let [high, low] = (pending.len() as u16).to_be_bytes();
    Bytes::from([&[WITH_PENDING, high, low][..], pending, seen].concat())
}

/// Adds those UIDs of a block that are among `there` to those that rise up to it.
fn push(seen: &mut NumSet, block: u32, bits: &[u8], there: &NumSet) {
    let (first, last) = (block * BLOCK, block * BLOCK + (BLOCK - 1));
    let ranges = there.ranges();
    let from = ranges.partition_point(|(_, high)| *high < first);
    for &(low, high) in ranges.iter().skip(from).take_while(|(low, _)| *low <= last) {
        for uid in low.max(first)..=high.min(last) {
            let at = (uid - first) as usize;
            if bits.get(at / 8).is_some_and(|octet| octet & (1 << (at % 8)) != 0) {
                seen.push(uid);
            }
        }
    }
}

/// The bits of a record with these UIDs added or removed, all of which are of this block.
fn edited(old: &[u8], block: u32, uids: &NumSet, is_seen: bool) -> Vec<u8> {
    let mut bits = old.to_vec();
    bits.resize(BLOCK as usize / 8, 0);
    for uid in uids.iter() {
        let at = (uid - block * BLOCK) as usize;
        let (octet, bit) = (&mut bits[at / 8], 1_u8 << (at % 8));
        *octet = if is_seen { *octet | bit } else { *octet & !bit };
    }
    let len = bits.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    bits.truncate(len);
    bits
}

/// The blocks of UIDs, each with its part of them.
async fn blocks(uids: &NumSet) -> BTreeMap<u32, NumSet> {
    let mut blocks = BTreeMap::<u32, NumSet>::new();
    for (at, &(low, high)) in uids.ranges().iter().enumerate() {
        for block in low / BLOCK..=high / BLOCK {
            let (first, last) = (block * BLOCK, block * BLOCK + (BLOCK - 1));
            blocks.entry(block).or_default().push_range(low.max(first), high.min(last));
        }
        pause_after(RANGES_AT_ONCE, at).await;
    }
    blocks
}

/// Lets other tasks run after each so many steps: an engine that answers at once never does.
async fn pause_after(steps: usize, step: usize) {
    if step % steps == steps - 1 {
        tokio::task::yield_now().await;
    }
}

/// The flags `\Seen` of users in mailboxes of others.
pub struct SeenFlags {
    records: Records,
}

impl SeenFlags {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// Whether a reader may have seen any message.
    #[boxed]
    pub async fn has_any(&self, reading: Reading) -> Result<bool> {
        Ok(!self.records.names(&reading.prefix(), None, 1).await?.is_empty())
    }

    /// The messages among `there` that a reader has seen, and their pending flags: those of a
    /// change under way, and those that a crash has left. The records also have UIDs of messages
    /// that were expunged, without a bound. These are left out.
    #[boxed]
    pub async fn read(&self, reading: Reading, there: &NumSet) -> Result<SeenMessages> {
        let (prefix, mut read) = (reading.prefix(), SeenMessages::default());
        let mut pages = DirectoryPages::new(self.records.engine(), prefix.clone(), PAGE);
        while let Some(page) = pages.next().await? {
            for entry in &page {
                let block = entry.name.strip_prefix(&prefix).and_then(|n| u32::from_str_radix(n, 16).ok());
                let block = block.filter(|block| *block <= u32::MAX / BLOCK);
                let (block, bits) = (block.ok_or_else(|| unreadable(&entry.name))?, bits(entry)?);
                push(&mut read.seen, block, bits.seen, there);
                if !bits.pending.is_empty() {
                    push(&mut read.pending.uids, block, bits.pending, there);
                    read.pending.versions.insert(block, entry.version);
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(read)
    }

    /// The UIDs of `uids` whose messages a reader has seen. Reads a record for each 4,096 UIDs.
    #[boxed]
    pub async fn among(&self, reading: Reading, uids: &NumSet) -> Result<NumSet> {
        let mut seen = NumSet::new();
        for (at, block) in blocks(uids).await.into_keys().enumerate() {
            if let Some(entry) = self.records.entry(&reading.record(block)).await? {
                push(&mut seen, block, bits(&entry)?.seen, uids);
            }
            pause_after(PAGE, at).await;
        }
        Ok(seen)
    }

    /// Remembers that a reader has seen messages, or has not. Call [`Self::complete`] once the
    /// mod-sequences of these messages have risen.
    #[boxed]
    pub async fn set(&self, reading: Reading, uids: &NumSet, is_seen: bool) -> Result<PendingSeen> {
        let mut changed = PendingSeen { uids: uids.clone(), versions: BTreeMap::new() };
        for (block, uids) in blocks(uids).await {
            if let Some(version) = self.set_in(&reading.record(block), block, &uids, is_seen).await? {
                changed.versions.insert(block, version);
            }
        }
        Ok(changed)
    }

    /// Changes a record. Returns its version, unless it was so already.
    async fn set_in(&self, name: &str, block: u32, uids: &NumSet, is_seen: bool) -> Result<Option<u64>> {
        for _ in 0..TRIES {
            let entry = self.records.entry(name).await?;
            let old = entry.as_ref().map(bits).transpose()?.unwrap_or_default();
            let new = edited(old.seen, block, uids, is_seen);
            if new == old.seen {
                return Ok(None);
            }
            let value = content(&new, &edited(old.pending, block, uids, true));
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            if self.records.put(name.to_owned(), expected, Some(value)).await? == CommitOutcome::Done {
                return Ok(Some(expected + 1));
            }
        }
        Err(DirectoryError::Busy(name.to_owned()))
    }

    /// Notes that the mod-sequences of these messages have risen. A record that has changed since
    /// stays as it is: the next session may raise mod-sequences once more.
    #[boxed]
    pub async fn complete(&self, reading: Reading, changed: &PendingSeen) -> Result<()> {
        for (block, uids) in blocks(&changed.uids).await {
            let Some(version) = changed.versions.get(&block).copied() else { continue };
            let name = reading.record(block);
            let entry = self.records.entry(&name).await?;
            let Some(entry) = entry.filter(|entry| entry.version == version) else { continue };
            let old = bits(&entry)?;
            let value = content(old.seen, &edited(old.pending, block, &uids, false));
            self.records.put(name, version, Some(value)).await?;
        }
        Ok(())
    }

    /// Forgets what readers have seen in a mailbox that was deleted.
    #[boxed]
    pub async fn forget(&self, owner: AccountId, mailbox: MailboxId) -> Result<()> {
        self.forget_all(&of_mailbox(owner, mailbox)).await
    }

    /// Forgets what readers have seen in all mailboxes of an account.
    pub(crate) async fn forget_owner(&self, owner: AccountId) -> Result<()> {
        self.forget_all(&of_owner(owner)).await
    }

    async fn forget_all(&self, prefix: &str) -> Result<()> {
        loop {
            let page = self.records.scan(prefix, None, PAGE).await?;
            for entry in &page {
                let (name, expected) = (entry.name.clone(), entry.version);
                // After a conflict with another change, the next page shows the record again.
                self.records.put(name, expected, None).await?;
            }
            if page.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Makes what readers have seen in an account's mailboxes the same in another store, whose
/// mailboxes `places` names. Readers have the same ids there.
#[boxed]
pub async fn copy_seen(
    from: &dyn Engine,
    owner: AccountId,
    to: &dyn Engine,
    places: &TargetIds,
) -> Result<()> {
    let mut pages = DirectoryPages::new(from, of_owner(owner), PAGE);
    while let Some(page) = pages.next().await? {
        for entry in &page {
            let (mailbox, rest) = parts(owner, &entry.name)?;
            let Some(place) = places.place_of_record(mailbox) else { continue };
            if places.checks_records() {
                bits(entry)?;
            }
            let name = format!("{}{rest}", of_mailbox(places.account, place));
            set_directory_entry(to, &name, Some(entry.value.clone())).await?;
        }
    }
    // Removes marks that were removed at the source since an earlier copy.
    let here: BTreeMap<MailboxId, MailboxId> = places.mailboxes.iter().map(|(a, b)| (*b, *a)).collect();
    let mut pages = DirectoryPages::new(to, of_owner(places.account), PAGE);
    while let Some(page) = pages.next().await? {
        for entry in &page {
            let (mailbox, rest) = parts(places.account, &entry.name)?;
            let mailbox = here.get(&mailbox).copied().unwrap_or(mailbox);
            let name = format!("{}{rest}", of_mailbox(owner, mailbox));
            if from.directory_entry(&name).await?.is_none() {
                set_directory_entry(to, &entry.name, None).await?;
            }
        }
    }
    Ok(())
}

/// The mailbox of a record, and what follows it in the name.
fn parts(owner: AccountId, name: &str) -> Result<(MailboxId, &str)> {
    let rest = name.strip_prefix(of_owner(owner).as_str()).and_then(|rest| rest.split_once('/'));
    let parts = rest.and_then(|(mailbox, rest)| Some((MailboxId(Id::parse(mailbox)?), rest)));
    parts.ok_or_else(|| unreadable(name))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::directory::Directory;
    use crate::testing::directory;

    fn reading(reader: u64) -> Reading {
        let id = |n| Id::new(n, 0);
        Reading { owner: AccountId(id(1)), mailbox: MailboxId(id(2)), reader: AccountId(id(reader)) }
    }

    /// All that a reader has seen, in a mailbox of all messages.
    async fn all(directory: &Directory, reading: Reading) -> NumSet {
        directory.seen().read(reading, &NumSet::range(1, u32::MAX)).await.unwrap().seen
    }

    /// Marks of expunged messages stay for ever, and every second of ten million took 40 MB of each
    /// session. All of them were read in one poll.
    #[tokio::test]
    async fn only_messages_that_are_there_are_read() {
        let (_, directory) = directory();
        let (seen, ana) = (directory.seen(), reading(3));
        assert!(!seen.has_any(ana).await.unwrap());
        let uids = NumSet::from_ranges((1..=20_000).map(|n| (2 * n, 2 * n)));
        seen.set(ana, &uids, true).await.unwrap();
        assert!(seen.has_any(ana).await.unwrap());
        let there = NumSet::from_ranges([(1, 2), (4095, 4097), (8191, 8191), (39_999, 50_000)]);
        let mut reading = seen.read(ana, &there);
        let polled = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "others have their turn");
        let read = reading.await.unwrap();
        let expected = NumSet::from_ranges([(2, 2), (4096, 4096), (40_000, 40_000)]);
        assert_eq!((&read.seen, read.pending.uids()), (&expected, &expected));
        assert_eq!(seen.among(ana, &there).await.unwrap(), expected);
        assert!(seen.read(ana, &NumSet::new()).await.unwrap().seen.is_empty());
    }

    #[tokio::test]
    async fn seen_flags_are_read_again() {
        let (_, directory) = directory();
        let (ana, bo) = (reading(3), reading(4));
        let far = u32::MAX - 1;
        let uids = NumSet::from_ranges([(1, 3), (4090, 4100), (far, far)]);
        directory.seen().set(ana, &uids, true).await.unwrap();
        assert_eq!(all(&directory, ana).await, uids);
        assert!(all(&directory, bo).await.is_empty());
        let some = NumSet::from_ranges([(2, 2), (4097, 5000)]);
        let expected = NumSet::from_ranges([(2, 2), (4097, 4100)]);
        assert_eq!(directory.seen().among(ana, &some).await.unwrap(), expected);
        directory.seen().set(ana, &some, false).await.unwrap();
        let left = NumSet::from_ranges([(1, 1), (3, 3), (4090, 4096), (far, far)]);
        assert_eq!(all(&directory, ana).await, left);
        directory.seen().set(ana, &left, false).await.unwrap();
        assert!(all(&directory, ana).await.is_empty());
    }

    #[tokio::test]
    async fn flags_are_pending_until_their_own_change_is_complete() {
        let (_, directory) = directory();
        let (seen, ana) = (directory.seen(), reading(3));
        let record = async || directory.records.entry(&ana.record(0)).await.unwrap().unwrap();
        let everything = NumSet::range(1, u32::MAX);
        let pending = async || seen.read(ana, &everything).await.unwrap().pending.uids().clone();
        let uids = NumSet::from_ranges([(1, 2), (5000, 5000)]);
        let first = seen.set(ana, &uids, true).await.unwrap();
        assert_eq!((first.uids(), pending().await), (&uids, uids.clone()));
        seen.complete(ana, &first).await.unwrap();
        assert!(pending().await.is_empty());
        // The form that earlier programs read.
        assert_eq!((record().await.value[0], all(&directory, ana).await), (COMPLETE, uids.clone()));
        // Nothing is written for flags that are so already.
        let (before, again) = (record().await, seen.set(ana, &uids, true).await.unwrap());
        seen.complete(ana, &again).await.unwrap();
        assert_eq!(record().await, before);
        // Each change completes its own flags, and only in the version that it wrote.
        let second = seen.set(ana, &NumSet::range(1, 1), false).await.unwrap();
        let third = seen.set(ana, &NumSet::range(2, 2), false).await.unwrap();
        seen.complete(ana, &second).await.unwrap();
        assert_eq!(pending().await, NumSet::range(1, 2));
        seen.complete(ana, &third).await.unwrap();
        assert_eq!(pending().await, NumSet::range(1, 1));
        // As the next session does it.
        let read = seen.read(ana, &everything).await.unwrap();
        assert_eq!(read.seen, NumSet::range(5000, 5000));
        seen.complete(ana, &read.pending).await.unwrap();
        assert!(pending().await.is_empty());
        // The record is there still, so that its versions never begin again.
        assert!(record().await.version > before.version);
    }

    #[tokio::test]
    async fn a_damaged_record_is_no_flags() {
        let (_, directory) = directory();
        let ana = reading(3);
        for value in [&b""[..], b"\x03", b"\x02", b"\x02\x00", b"\x02\x00\x02a"] {
            directory.seen().forget(ana.owner, ana.mailbox).await.unwrap();
            let value = Some(Bytes::copy_from_slice(value));
            directory.records.put(ana.record(0), 0, value.clone()).await.unwrap();
            assert!(directory.seen().read(ana, &NumSet::range(1, 9)).await.is_err(), "{value:?}");
        }
    }

    #[tokio::test]
    async fn it_goes_with_its_mailbox_and_follows_its_account() {
        let (_, directory) = directory();
        let (ana, uids) = (reading(3), NumSet::range(1, 9000));
        directory.seen().set(ana, &uids, true).await.unwrap();
        let (_, other) = crate::testing::directory();
        let there = Reading { owner: AccountId(Id::new(7, 7)), mailbox: MailboxId(Id::new(8, 8)), ..ana };
        let mailboxes = BTreeMap::from([(ana.mailbox, there.mailbox)]);
        let places = TargetIds::with_ids(there.owner, mailboxes);
        for _ in 0..2 {
            copy_seen(directory.records.engine(), ana.owner, other.records.engine(), &places).await.unwrap();
            assert_eq!(all(&other, there).await, uids);
        }
        directory.seen().set(ana, &NumSet::range(5000, 9000), false).await.unwrap();
        copy_seen(directory.records.engine(), ana.owner, other.records.engine(), &places).await.unwrap();
        assert_eq!(all(&other, there).await, NumSet::range(1, 4999));
        directory.seen().set(ana, &uids, true).await.unwrap();
        directory.seen().forget(ana.owner, MailboxId(Id::new(9, 9))).await.unwrap();
        assert_eq!(all(&directory, ana).await, uids);
        directory.seen().forget(ana.owner, ana.mailbox).await.unwrap();
        assert!(all(&directory, ana).await.is_empty());
    }
}
