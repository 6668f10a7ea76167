//! The appender with packs that other processes left: which it takes over, abandons or refuses.

use std::path::Path;

use super::*;
use crate::log::disk::RealDisk;

const STORE: Id = Id::new(1, 1);

fn appender(dir: &Path) -> Appender {
    Appender::new(Arc::new(RealDisk), dir.join("packs"), STORE, 1 << 20)
}

/// Acquires a pack, as the writer does; its number.
fn acquire(appender: &mut Appender, index: &Index) -> u32 {
    let mut txn = index.write().unwrap();
    assert!(appender.acquire(index, &mut txn).unwrap() || appender.current().is_some());
    txn.commit().unwrap();
    appender.acquired();
    appender.current().unwrap()
}

/// Appends a batch that the index does not get.
fn write(appender: &mut Appender, index: &Index, seq: u64) {
    let mut next = seq;
    let mut batch = appender.begin(index, &index.read().unwrap(), &mut next).unwrap();
    batch.record(Kind::Directory, next, Id::from_bytes([0; 16]), vec![1; 100]);
    appender.write(&batch, || Ok(Preallocation::Step)).unwrap();
    appender.advance(batch.start + batch.len());
}

/// A command left a pack that could be taken over. Where the server left another one that is
/// damaged, nobody writes to either, however often it is tried.
#[test]
fn beside_a_damaged_pack_no_other_is_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("packs")).unwrap();
    let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
    let (mut server, mut command) = (appender(dir.path()), appender(dir.path()));
    assert_eq!((acquire(&mut server, &index), acquire(&mut command, &index)), (1, 2));
    write(&mut server, &index, 1);
    write(&mut server, &index, 2);
    drop((server, command));
    let pack = path_of(&dir.path().join("packs"), 1);
    let flip = || {
        let mut bytes = std::fs::read(&pack).unwrap();
        bytes[PACK_HEADER + 20] ^= 1;
        std::fs::write(&pack, bytes).unwrap();
    };
    let refused = |appender: &mut Appender| {
        let mut txn = index.write().unwrap();
        let refusal = appender.acquire(&index, &mut txn).unwrap_err();
        assert!(matches!(refusal, StoreError::Corrupt(_)), "{refusal}");
        assert!(appender.current().is_none() && !appender.has_marks());
    };
    flip();
    let mut next = appender(dir.path());
    (0..3).for_each(|_| refused(&mut next));
    // The tail is not read again for each write: a repair needs a restart of the server.
    flip();
    refused(&mut next);
    acquire(&mut appender(dir.path()), &index);
}

/// The index is older than two packs. The last batch of one is damaged, as a crash may leave it,
/// but commits of the other follow it. They were acknowledged, and so was that batch.
#[test]
fn commits_that_follow_a_damaged_batch_of_another_pack_are_not_given_up() {
    for damage in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("packs")).unwrap();
        let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
        let (mut server, mut command) = (appender(dir.path()), appender(dir.path()));
        assert_eq!((acquire(&mut server, &index), acquire(&mut command, &index)), (1, 2));
        let mut txn = index.write().unwrap();
        index.put_seq(&mut txn, 7).unwrap();
        txn.commit().unwrap();
        write(&mut server, &index, 7);
        // Commits with copies take up to two numbers for their notes.
        write(&mut command, &index, if damage { 10 } else { 9 });
        drop((server, command));
        let pack = path_of(&dir.path().join("packs"), 1);
        let len = std::fs::metadata(&pack).unwrap().len();
        std::fs::write(&pack, vec![0; len as usize]).unwrap();
        let mut next = appender(dir.path());
        let acquired = next.acquire(&index, &mut index.write().unwrap());
        match damage {
            true => {
                let refusal = acquired.unwrap_err().to_string();
                assert!(
                    refusal.contains("in another pack") && refusal.contains("check --rebuild"),
                    "{refusal}"
                );
            }
            false => assert!(acquired.is_ok()),
        }
    }
}

/// The first commits of the last batch are lost, and a later one of it is whole: that is no commit
/// which follows others.
#[test]
fn the_rest_of_a_batch_after_a_crash_refuses_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("packs")).unwrap();
    let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
    let mut server = appender(dir.path());
    acquire(&mut server, &index);
    let mut batch = server.begin(&index, &index.read().unwrap(), &mut 1).unwrap();
    for seq in 1..=8 {
        batch.record(Kind::Directory, seq, Id::from_bytes([0; 16]), vec![1; 100]);
    }
    server.write(&batch, || Ok(Preallocation::Step)).unwrap();
    drop(server);
    let pack = path_of(&dir.path().join("packs"), 1);
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[PACK_HEADER..PACK_HEADER + 7 * record_len(100) as usize].fill(0);
    std::fs::write(&pack, bytes).unwrap();
    assert_eq!(acquire(&mut appender(dir.path()), &index), 2, "the torn pack is abandoned");
}

/// A server ends a pack, and before its index has that, a command begins to write. It must not
/// continue in that pack: maintenance compacts and removes it.
#[test]
fn a_pack_that_was_ended_is_taken_over_by_nobody() {
    for end in [Appender::rotate, Appender::abandon] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("packs")).unwrap();
        let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
        let (mut server, mut command) = (appender(dir.path()), appender(dir.path()));
        assert_eq!(acquire(&mut server, &index), 1);
        end(&mut server);
        assert_eq!(acquire(&mut command, &index), 2);
        assert_eq!(acquire(&mut server, &index), 3);
        let mut txn = index.write().unwrap();
        server.record(&index, &mut txn, 3, 64).unwrap();
        txn.commit().unwrap();
        server.marked();
        let sealed = |pack| index.pack(&index.read().unwrap(), pack).unwrap().unwrap().sealed;
        assert_eq!([sealed(1), sealed(2), sealed(3)], [true, false, false]);
    }
}

/// An index that lost the entry of the pack being written gets no invented one: that would count
/// no dead bytes, and the pack's earlier state would be lost.
#[test]
fn a_pack_that_the_index_lost_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("packs")).unwrap();
    let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
    let mut server = appender(dir.path());
    let pack = acquire(&mut server, &index);
    let mut txn = index.write().unwrap();
    index.retire_pack(&mut txn, pack).unwrap();
    let refusal = server.record(&index, &mut txn, pack, 64).unwrap_err();
    assert!(matches!(&refusal, StoreError::Corrupt(why) if why.contains("lacks pack 1")), "{refusal}");
    assert_eq!(index.pack(&txn, pack).unwrap(), None);
}

/// A disk on which another process, whose index commit failed, removes the pack that it had made,
/// as soon as this one has opened it.
struct Removing(RealDisk);

impl Disk for Removing {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.0.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let opened = self.0.open(path);
        let _ = self.0.remove(path);
        opened
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
}

/// Mail in a file without a name would be lost when the file is closed.
#[test]
fn a_pack_that_another_process_removes_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let packs = dir.path().join("packs");
    std::fs::create_dir(&packs).unwrap();
    let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
    let mut appender = Appender::new(Arc::new(Removing(RealDisk)), packs.clone(), STORE, 1 << 20);
    // Looks through what is there.
    acquire(&mut appender, &index);
    appender.rotate();
    std::fs::write(path_of(&packs, 2), b"").unwrap();
    let mut txn = index.write().unwrap();
    let refusal = appender.acquire(&index, &mut txn).unwrap_err();
    assert!(matches!(&refusal, StoreError::Unavailable(why) if why.contains("try again")), "{refusal}");
    assert!(appender.current().is_none());
    assert!(appender.acquire(&index, &mut txn).unwrap(), "the next try makes it again");
}

/// An index that somebody else made, before the first write.
fn refusal(forge: fn(&Index, &mut Writing)) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("packs")).unwrap();
    let index = Index::open(&dir.path().join("index"), 1 << 20, 8).unwrap();
    let mut txn = index.write().unwrap();
    forge(&index, &mut txn);
    let refusal = appender(dir.path()).acquire(&index, &mut txn).unwrap_err();
    assert!(matches!(refusal, StoreError::Corrupt(_)), "{refusal}");
    refusal.to_string()
}

/// A list of the four billion numbers between two packs would take 16 GB, and more in the log.
#[test]
fn an_index_that_lacks_four_billion_packs_is_refused() {
    let refusal = refusal(|index, txn| {
        for number in [1, 4_000_000_000] {
            let sealed = PackState { sealed: true, ..PackState::default() };
            index.put_pack(txn, number, sealed).unwrap();
        }
    });
    assert!(refusal.contains("4000000000"), "{refusal}");
}

/// The state of such a pack would replace another number in the index.
#[test]
fn a_pack_gets_no_number_that_is_a_key_of_another_value() {
    let refusal = refusal(|index, txn| index.put_next_pack(txn, PACK_MAX + 1).unwrap());
    assert!(refusal.contains(&PACK_MAX.to_string()), "{refusal}");
}
