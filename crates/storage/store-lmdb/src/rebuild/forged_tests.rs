//! Packs that somebody forged: all checksums are right. A rebuild of them takes no more memory and
//! time than one of honest packs, and names what it does not use.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use posthaste_mail_model::{
    AccountId, BodyId, FlagSet, Id, MailboxId, MailboxName, ModSeq, NumSet, Uid, UidValidity,
};
use posthaste_store::{
    Content, Counts, DirectoryChange, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, NewMessage, Row,
};
use tempfile::TempDir;

use super::*;
use crate::LmdbEngine;
use crate::log::disk::{Disk, DiskFile, RealDisk};
use crate::log::range::{self, KeyPosition, Packs, Table};
use crate::log::record::{Batch, Kind, PACK_HEADER};
use crate::log::{PACK_MAX, entry, path_of};

const MAILBOX: MailboxId = MailboxId(Id::from_bytes([1; 16]));
const ACCOUNT: AccountId = AccountId(Id::from_bytes([2; 16]));
const BODY: BodyId = BodyId(Id::from_bytes([3; 16]));
const NOTHING: Id = Id::from_bytes([0; 16]);

fn options() -> Options {
    let summarize = |bytes: &[u8]| bytes.len().to_string().into_bytes();
    Options { map_bytes: 1 << 26, readers: 16, ..Options::new(summarize) }
}

/// A store without an index, whose only pack has this number and these records.
fn forged(number: u32, fill: impl FnOnce(&mut Batch)) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    LmdbEngine::open(dir.path(), options()).unwrap().close();
    let store = format::open(dir.path(), Access::Shared).unwrap().unwrap().id;
    for part in ["index", "packs"] {
        std::fs::remove_dir_all(dir.path().join(part)).unwrap();
    }
    std::fs::create_dir(dir.path().join("packs")).unwrap();
    let mut batch = Batch::new(store, number, 0);
    batch.pack_header(store);
    fill(&mut batch);
    let bytes: Vec<u8> = batch.pieces().flatten().copied().collect();
    std::fs::write(path_of(&dir.path().join("packs"), number), bytes).unwrap();
    dir
}

fn faults(dir: &TempDir, options: &Options) -> Vec<String> {
    let lock = EngineLock::acquire(dir.path()).unwrap();
    rebuild(&lock, options, Rebuild::Force, &mut |_| {}).unwrap().faults
}

fn index(dir: &TempDir) -> Index {
    Index::open(&dir.path().join("index"), 1 << 26, 16).unwrap()
}

/// A number for each pack took 100 GB.
#[test]
fn a_checkpoint_retires_all_packs_that_there_can_be() {
    let dir = forged(1, |batch| {
        let mut rows = Vec::new();
        range::put_packs(&mut rows, &Packs { retired: NumSet::range(2, PACK_MAX), sealed: Vec::new() });
        let (from, to) = (KeyPosition::start_of(Table::Packs), KeyPosition::end_of(Table::Packs));
        let mut id = [0; 16];
        id[0] = Table::Packs as u8;
        batch.record(Kind::Range, 1, Id::from_bytes(id), range::content(1, &from, &to, &rows));
    });
    assert_eq!(faults(&dir, &options()), [""; 0]);
    let index = index(&dir);
    let txn = index.read().unwrap();
    assert_eq!(index.ever_retired(&txn).unwrap().ranges(), [(2, PACK_MAX)]);
    assert_eq!(index.next_pack(&txn).unwrap(), Some(PACK_MAX + 1), "no number is given twice");
}

/// A sentence for each missing pack took 400 GB.
#[test]
fn four_billion_packs_are_missing() {
    let number = 4_000_000_000;
    let dir = forged(number, |batch| {
        let change = DirectoryChange { name: "a".into(), expected: 0, value: None };
        batch.record(Kind::Directory, 1, NOTHING, entry::directory_content(&change));
    });
    let faults = faults(&dir, &options());
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("packs 1 to 3999999999 are missing"), "{faults:?}");
    let index = index(&dir);
    assert!(index.pack(&index.read().unwrap(), number).unwrap().is_some());
}

/// The number after that of the last record overflowed, or the rebuild never ended.
#[test]
fn no_number_comes_after_the_last_one() {
    let dir = forged(1, |batch| {
        let change = |expected| DirectoryChange { name: "a".into(), expected, value: Some(Bytes::new()) };
        batch.record(Kind::Directory, 1, NOTHING, entry::directory_content(&change(0)));
        batch.record(Kind::Directory, u64::MAX, NOTHING, entry::directory_content(&change(1)));
    });
    let faults = faults(&dir, &options());
    assert!(faults[0].starts_with("pack 1 is damaged from byte"), "{faults:?}");
    let index = index(&dir);
    assert_eq!(index.seq(&index.read().unwrap()).unwrap(), 2);
}

/// LMDB has no keys of such lengths, and a number after such a version does not exist. The rebuild
/// ended with an error that named no record.
#[test]
fn a_record_that_the_index_cannot_have_is_named() {
    for (name, expected) in [("n".repeat(600), 0), (String::new(), 0), ("n".to_owned(), u64::MAX)] {
        let dir = forged(1, |batch| {
            let change = DirectoryChange { name: name.clone(), expected, value: Some(Bytes::new()) };
            batch.record(Kind::Directory, 1, NOTHING, entry::directory_content(&change));
        });
        let faults = faults(&dir, &options());
        let place = format!("in pack 1 at byte {PACK_HEADER}:");
        assert!(faults.len() == 1 && faults[0].contains(&place), "{faults:?}");
    }
}

/// A disk that counts the bytes that are read from packs.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

struct CountingFile(Arc<dyn DiskFile>, Counting);

impl Disk for Counting {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CountingFile(RealDisk.open(path)?, self.clone())))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.0.read_at(buffer, offset)?;
        self.1.0.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
}

fn a_mailbox() -> ListCommit {
    let entry = MailboxEntry {
        id: MAILBOX,
        name: MailboxName::new("INBOX").unwrap(),
        uid_validity: UidValidity::MIN,
        special_use: None,
    };
    ListCommit {
        account: ACCOUNT,
        expected: ModSeq::ZERO,
        version: ModSeq::ZERO.next(),
        upsert: vec![entry],
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: 1,
    }
}

/// New messages of the mailbox, all with one body.
fn messages(count: u32, size: u32) -> MailboxCommit {
    let modseq = ModSeq::ZERO.next();
    let message = |uid| {
        let row = Row::new(Uid::new(uid).unwrap(), size, 1, FlagSet::EMPTY, modseq);
        let content = Content::New { bytes: Bytes::new(), summary: Bytes::new() };
        NewMessage { row, body: BODY, saved: 1, created: modseq, content }
    };
    let appended: Vec<NewMessage> = (1..=count).map(message).collect();
    let mut counts = Counts::default();
    appended.iter().for_each(|message| counts.add(&message.row));
    let uid_next = Uid::new(count + 1).unwrap();
    MailboxCommit {
        mailbox: MAILBOX,
        expected: ModSeq::ZERO,
        head: MailboxHead { modseq, uid_next, counts, ..MailboxHead::default() },
        appended,
        changed: Vec::new(),
        expunged: Vec::new(),
    }
}

/// Each message read the body, and all its copies if it is damaged.
#[test]
fn a_body_of_many_messages_is_read_once() {
    const MESSAGES: u32 = 60;
    for (copies, is_damaged) in [(1, false), (4, true)] {
        let body = Bytes::from(vec![7; 300_000]);
        let dir = forged(1, |batch| {
            for seq in 1..=copies {
                batch.body(seq, BODY, &body);
            }
            let commit = messages(MESSAGES, body.len() as u32);
            batch.record(Kind::List, 10, ACCOUNT.0, entry::list_content(&a_mailbox()));
            batch.record(Kind::Mailbox, 11, MAILBOX.0, entry::mailbox_content(&commit));
        });
        let path = path_of(&dir.path().join("packs"), 1);
        let mut bytes = std::fs::read(&path).unwrap();
        if is_damaged {
            (0..copies as usize).for_each(|copy| bytes[PACK_HEADER + copy * 300_000 + 9_000] ^= 1);
            std::fs::write(&path, &bytes).unwrap();
        }
        let disk = Counting::default();
        let faults = faults(&dir, &Options { disk: Arc::new(disk.clone()), ..options() });
        assert_eq!(faults.len(), if is_damaged { MESSAGES as usize } else { 0 }, "{faults:?}");
        let (read, len) = (disk.0.load(Ordering::Relaxed), bytes.len());
        assert!(read < 8 * len, "{read} bytes of {len}");
        let index = index(&dir);
        let location = index.body(&index.read().unwrap(), BODY).unwrap().unwrap();
        assert_eq!(location.refs, MESSAGES);
    }
}
