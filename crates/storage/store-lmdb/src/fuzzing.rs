//! Runs every decoder of the disk formats on any bytes, for the fuzz targets and for plain tests.
//!
//! No decoder may panic, end the process, or read beyond its input. Where a checksum is verified
//! first, it is made to match, so that the decoder gets the bytes. Damage does not pass a
//! checksum, but a faulty program may write a valid one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use posthaste_mail_model::{AccountId, BodyId, FlagSet, Id, MailboxId, MailboxName, ModSeq, UidValidity};
use posthaste_store::{
    Content, Counts, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, NewMessage, Row,
};

use crate::data_dir::format;
use crate::index::bodies::BodyLocation;
use crate::index::checksum::{seed, seed_at, sum32};
use crate::index::packs::PackState;
use crate::index::passes::{PASSES_KEY, Passes};
use crate::index::sealed::{seal, seed_of_key};
use crate::index::{chunk, copied, directory, expunged, heads as head_table, links, lists, summaries};
use crate::log::record::{Batch, Header, Kind, PackFormat, format_from};
use crate::log::{checkpoint, entry, pair, range};
use crate::rebuild::{Rebuild, rebuild};
use crate::verify::pages;
use crate::{EngineLock, LmdbEngine, Options};

const STORE: Id = Id::from_bytes([7; 16]);

/// Heads of packs and of records.
pub fn heads(data: &[u8]) {
    let _ = format_from(data, 1, STORE);
    for format in [PackFormat::Unbound, PackFormat::bound(STORE, 1)] {
        if let Some(header) = Header::from_bytes(data, format, 64) {
            let _ = (header.table_len(), header.record_len());
            assert!(data.starts_with(&header.to_bytes(format, 64)[..5]));
        }
    }
}

/// Contents of the log's records.
pub fn entries(data: &[u8]) {
    let _ = entry::mailbox_from(data).map(|logged| logged.changed_rows(10_000));
    let _ = entry::list_from(AccountId(STORE), data);
    let _ = entry::directory_from(data);
    let _ = entry::abandon_from(data);
    let _ = entry::retire_from(data);
    let _ = checkpoint::from_content(data);
    let _ = range::from_content(data);
    let parts = pair::parts(data).into_iter().flatten();
    parts.for_each(|(_, part)| drop(entry::mailbox_from(part)));
}

/// Values of the index's tables, links included.
pub fn index_values(data: &[u8]) {
    let sealed = |key_seed| seal(key_seed, [&[0; 4], data].concat());
    let of_id = sealed(seed(STORE));
    let _ = head_table::head_from(MailboxId(STORE), &of_id);
    let _ = BodyLocation::from_value(BodyId(STORE), &of_id);
    let _ = lists::list_from(AccountId(STORE), &of_id);
    let _ = PackState::from_value(1, &sealed(1));
    let _ = Passes::from_value(&sealed(seed_of_key(&PASSES_KEY)));
    let _ = directory::directory_from("x", &sealed(seed_of_key(b"x")));
    let mut summary = [&[0; 4], data].concat();
    let sum = sum32(seed_at(seed(STORE), 5), data).to_le_bytes();
    summary.iter_mut().zip(sum).for_each(|(byte, sum)| *byte = sum);
    let _ = summaries::record::summary_from(seed(STORE), 5, &summary);
    let _ = summaries::record::summary_parts(data);
    let _ = lists::read_entry(&mut posthaste_store::octets::Octets(data));
    for key in [&[1; 40][..], &[1; 24], data] {
        let _ = expunged::set_from(key, &sealed(seed_of_key(key)));
        let _ = lists::names_from(key, &sealed(seed_of_key(key)));
        let _ = copied::copied_from(key, &sealed(seed_of_key(key)));
        links::read_any(key, &sealed(seed_of_key(key)));
    }
}

/// Chunks of rows.
pub fn chunks(data: &[u8]) {
    let mut rows = Vec::new();
    let _ = chunk::decode(MailboxId(STORE), 1, data, &mut rows);
    let mut chunk = [&[0; 4], data].concat();
    let sum = sum32(seed_at(seed(STORE), 1), data).to_le_bytes();
    chunk.iter_mut().zip(sum).for_each(|(byte, sum)| *byte = sum);
    let _ = chunk::decode(MailboxId(STORE), 1, &chunk, &mut rows);
    if let Some(stored) = chunk::stored_rows(MailboxId(STORE), 1, &chunk) {
        let _ = chunk::encode_changed(MailboxId(STORE), 1, stored, &rows, &mut Vec::new());
    }
    let _ = chunk::modseq_max(MailboxId(STORE), 1, data);
}

/// The file `format`.
pub fn formats(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = format::parse(Path::new("format"), text);
    }
}

/// The pages of an index, without LMDB.
pub fn index_pages(data: &[u8]) {
    let place = ScratchDir::make();
    let path = place.0.join("data.mdb");
    if std::fs::write(&path, data).is_ok() {
        pages::walk_any(&path);
    }
}

/// The redo of a tail at an opening: bytes as they are, or in records whose heads are in order.
pub fn tail(data: &[u8]) {
    let (place, sample) = (ScratchDir::make(), sample());
    sample.put(&place.0, |pack| {
        pack.truncate(sample.end);
        pack.extend(records(data, sample.store, sample.end, sample.seq));
        pack.resize(pack.len() + 512, 0);
    });
    open_and_check(&place.0);
}

/// A rebuild of a pack of any bytes, or of any records, with and without the old index.
pub fn any_pack(data: &[u8]) {
    let (place, sample) = (ScratchDir::make(), sample());
    let (without_index, data) =
        data.split_first().map_or((false, data), |(flag, rest)| (flag & 2 != 0, rest));
    sample.put(&place.0, |pack| {
        pack.truncate(64);
        pack.extend(records(data, sample.store, 64, 1));
        pack.resize(pack.len() + 512, 0);
    });
    if without_index {
        let _ = std::fs::remove_dir_all(place.0.join("index"));
    }
    let forced =
        EngineLock::acquire(&place.0).map(|lock| rebuild(&lock, &options(), Rebuild::Force, &mut |_| {}));
    if forced.is_ok_and(|report| report.is_ok()) {
        open_and_check(&place.0);
    }
}

/// The bytes after the first one; if that is odd, as records: a kind, a length of two bytes, and
/// the content of each.
fn records(data: &[u8], store: Id, at: usize, mut seq: u64) -> Vec<u8> {
    let Some((flag, mut rest)) = data.split_first() else { return Vec::new() };
    if flag % 2 == 0 {
        return rest.to_vec();
    }
    let mut batch = Batch::new(store, 1, at as u64);
    while let Some(([kind, low, high], after)) = rest.split_first_chunk::<3>() {
        let (content, after) =
            after.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(after.len()));
        let id = content.first_chunk().copied().map_or(MAILBOX.0, Id::from_bytes);
        match kind % 10 {
            0 | 1 => {
                batch.body(seq, BodyId(id), &content.to_vec().into());
            }
            2 => batch.record(Kind::Mailbox, seq, MAILBOX.0, content.to_vec()),
            3 => batch.record(Kind::List, seq, ACCOUNT.0, content.to_vec()),
            4 => batch.record(Kind::Directory, seq, STORE, content.to_vec()),
            5 => batch.record(Kind::Abandon, seq, STORE, content.to_vec()),
            6 => batch.record(Kind::Retire, seq, STORE, content.to_vec()),
            7 => batch.record(Kind::Checkpoint, seq, MAILBOX.0, content.to_vec()),
            8 => batch.record(Kind::Range, seq, id, content.to_vec()),
            _ => batch.record(Kind::Pair, seq, MAILBOX.0, content.to_vec()),
        }
        (seq, rest) = (seq + 1, after);
    }
    batch.pieces().flatten().copied().collect()
}

const MAILBOX: MailboxId = MailboxId(Id::from_bytes([1; 16]));
const ACCOUNT: AccountId = AccountId(Id::from_bytes([2; 16]));

fn options() -> Options {
    let summarize = |bytes: &[u8]| bytes.len().to_string().into_bytes();
    Options {
        map_bytes: 1 << 26,
        readers: 4,
        checkpoint_within: Duration::from_secs(3600),
        ..Options::new(summarize)
    }
}

fn open_and_check(dir: &Path) {
    if let Ok(engine) = LmdbEngine::open(dir, options()) {
        engine.check_at_once();
    }
}

/// A directory that is removed at the end.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn make() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = base.join(format!("posthaste-fuzz-{process}-{count}"));
        std::fs::create_dir_all(&path).expect("a place for a store");
        Self(path)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small closed store whose pack has a tail.
struct Sample {
    files: [(&'static str, Vec<u8>); 3],
    store: Id,
    /// The end of the pack in the index.
    end: usize,
    seq: u64,
}

impl Sample {
    fn put(&self, dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut files = self.files.clone();
        let [.., (_, pack)] = &mut files;
        change(pack);
        for (name, bytes) in files {
            let path = dir.join(name);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(path, bytes)).expect("the files of a store");
        }
    }
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let place = ScratchDir::make();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let engine = LmdbEngine::open(&place.0, options()).expect("a new store");
        let indexed = runtime.block_on(async {
            engine.commit_list(a_list()).await.expect("a list");
            engine.commit(an_append(0)).await.expect("an append");
            engine.indexed_end().expect("the end of its pack")
        });
        engine.close();
        let lock = Arc::new(EngineLock::acquire(&place.0).expect("the lock"));
        let engine = LmdbEngine::serve(lock, options()).expect("the store");
        runtime.block_on(async { engine.commit(an_append(1)).await.expect("an append") });
        engine.kill();
        let read = |name: &'static str| (name, std::fs::read(place.0.join(name)).expect("a file"));
        let store =
            format::open(&place.0, format::Access::Shared).ok().flatten().map_or(STORE, |format| format.id);
        Sample {
            files: [read("format"), read("index/data.mdb"), read("packs/00000001.pack")],
            store,
            end: indexed.end as usize,
            seq: indexed.next_seq,
        }
    })
}

fn a_list() -> ListCommit {
    let name = MailboxName::new("INBOX").expect("a name");
    let entry = MailboxEntry {
        id: MAILBOX,
        name: name.clone(),
        uid_validity: UidValidity::new(1).expect("not 0"),
        special_use: None,
    };
    ListCommit {
        account: ACCOUNT,
        expected: ModSeq::ZERO,
        version: ModSeq::ZERO.next(),
        upsert: vec![entry],
        remove: vec![],
        subscribe: vec![name],
        unsubscribe: vec![],
        uid_validity_last: 1,
    }
}

fn an_append(n: u32) -> MailboxCommit {
    let mut head = MailboxHead::default();
    for _ in 0..n {
        head.uid_next = head.uid_next.next().unwrap_or(head.uid_next);
        head.modseq = head.modseq.next();
    }
    let (uid, expected) = (head.uid_next, head.modseq);
    head.uid_next = uid.next().unwrap_or(uid);
    head.modseq = expected.next();
    head.counts = Counts { messages: n + 1, unseen: n + 1, deleted: 0, bytes: u64::from(n + 1) * 40 };
    let row = Row::new(uid, 40, 1, FlagSet::EMPTY, head.modseq);
    let content = Content::New { bytes: vec![b'x'; 40].into(), summary: b"40".to_vec().into() };
    let (body, created) = (BodyId(Id::new(2, u128::from(n))), row.modseq());
    let message = NewMessage { row, body, saved: 1, created, content };
    MailboxCommit {
        mailbox: MAILBOX,
        expected,
        head,
        appended: vec![message],
        changed: vec![],
        expunged: vec![],
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::NumSet;
    use posthaste_store::octets::put_varint;
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    /// A step of xorshift: the same inputs at every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % n.max(1) as u64) as usize
        }

        /// Valid bytes with a few changes: bytes, lengths, pieces of others.
        fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
            let mut bytes = corpus[self.below(corpus.len())].clone();
            for _ in 0..1 + self.below(6) {
                let at = self.below(bytes.len() + 1);
                match self.below(6) {
                    0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                    1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                    2 => bytes.truncate(at),
                    3 => bytes.insert(at, self.below(256) as u8),
                    4 => {
                        let other = &corpus[self.below(corpus.len())];
                        let from = self.below(other.len() + 1);
                        let piece = other[from..(from + 1 + self.below(40)).min(other.len())].to_vec();
                        bytes.splice(at..at, piece);
                    }
                    _ => {
                        let end = (at + 8).min(bytes.len());
                        bytes[at..end].fill([0, 0xff][self.below(2)]);
                    }
                }
            }
            bytes
        }
    }

    fn run(target: fn(&[u8]), corpus: &[Vec<u8>], rounds: usize) {
        corpus.iter().for_each(|bytes| target(bytes));
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..rounds {
            target(&random.changed(corpus));
        }
    }

    /// Contents of records, one of each kind.
    fn contents() -> Vec<(u8, Vec<u8>)> {
        let mut expunge = an_append(1);
        expunge.expunged.push((expunge.head.modseq, NumSet::range(1, 1)));
        expunge.changed = vec![expunge.appended[0].row];
        // A content of version 2.
        expunge.appended[0].created = ModSeq::ZERO;
        let head = expunge.head.clone();
        vec![
            (2, entry::mailbox_content(&an_append(0))),
            (2, entry::mailbox_content(&expunge)),
            (3, entry::list_content(&a_list())),
            (4, {
                let (name, value) = ("account/x".to_owned(), Some(vec![1; 40].into()));
                entry::directory_content(&posthaste_store::DirectoryChange { name, expected: 0, value })
            }),
            (5, entry::abandon_content(1, 500)),
            (6, entry::retire_content(2)),
            (7, {
                let head = MailboxHead { counts: Counts { messages: 1, ..head.counts }, ..head };
                let expunged = [(head.modseq, NumSet::range(1, 1))];
                let mut content = checkpoint::begin(9, ModSeq::ZERO, &head, &expunged);
                let new = &expunge.appended[0];
                checkpoint::add_message(&mut content, &new.row, new.into());
                content
            }),
            (8, pair::content(&[an_append(0), expunge])),
        ]
    }

    /// A part of the input of [`records`].
    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind][..], &(content.len() as u16).to_le_bytes(), content].concat()
    }

    /// The same as input of [`records`], one after the other.
    fn logs() -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = contents()
            .iter()
            .map(|(kind, content)| [vec![1], record(1, &[7; 60]), record(*kind, content)].concat())
            .collect();
        all.push([vec![1], contents().iter().flat_map(|(k, c)| record(*k, c)).collect()].concat());
        let pack = &sample().files[2].1;
        all.push([&[0], &pack[sample().end..sample().end + 700]].concat());
        all
    }

    #[test]
    fn committed_seeds_are_taken() {
        fuzz_seeds("store_entries", 2_000, entries);
        fuzz_seeds("store_heads", 2_000, heads);
        fuzz_seeds("store_format", 2_000, formats);
        fuzz_seeds("store_chunks", 2_000, chunks);
        fuzz_seeds("store_values", 2_000, index_values);
        fuzz_seeds("store_pages", 50, index_pages);
        fuzz_seeds("store_tail", 50, tail);
        fuzz_seeds("store_rebuild", 50, any_pack);
    }

    #[test]
    fn decoders_of_the_log_take_any_bytes() {
        let contents: Vec<Vec<u8>> = contents().into_iter().map(|(_, content)| content).collect();
        run(entries, &contents, 20_000);
        let pack = &sample().files[2].1;
        run(heads, &[pack[..64].to_vec(), pack[64..112].to_vec()], 20_000);
        run(formats, std::slice::from_ref(&sample().files[0].1), 5_000);
    }

    #[test]
    fn decoders_of_the_index_take_any_bytes() {
        let stored = head_table::StoredHead {
            head: an_append(1).head,
            forgotten: ModSeq::ZERO,
            logged: crate::index::logged::Logged::default(),
        };
        let mut values = vec![head_table::head_value(MAILBOX, &stored), PackState::default().to_value(1)];
        values.push(lists::list_value(
            ACCOUNT,
            lists::ListHead { records: Some(3), ..lists::ListHead::default() },
        ));
        let key = crate::index::expunged::numbered_key(MAILBOX, 3);
        values.push(copied::copied_value(&key, MAILBOX, &NumSet::range(1, 500)));
        let mut passes = Passes { begun: 9, superseded: 4, size: 700, ..Passes::default() };
        [2, 300].into_iter().for_each(|pack| passes.add(10, pack, 64));
        values.push(passes.to_value());
        let behind: Vec<Vec<u8>> = values.iter().map(|value| value[4..].to_vec()).collect();
        run(index_values, &behind, 20_000);
        let mut chunk = Vec::new();
        chunk::encode(
            MailboxId(STORE),
            1,
            &[an_append(0).appended[0].row, an_append(1).appended[0].row],
            &mut chunk,
        );
        run(chunks, &[chunk.clone(), chunk[4..].to_vec()], 20_000);
    }

    #[test]
    fn pages_of_any_bytes_are_walked() {
        let whole = &sample().files[1].1;
        let used = whole.iter().rposition(|b| *b != 0).unwrap_or(0) + 1;
        run(index_pages, &[whole[..used.next_multiple_of(4096)].to_vec()], 1_500);
    }

    #[test]
    fn any_tail_is_redone_or_left() {
        run(tail, &logs(), 300);
    }

    #[test]
    fn any_pack_is_rebuilt() {
        run(any_pack, &logs(), 200);
    }

    /// The author of a backup may have written such a record. A row for each UID would take a
    /// hundred gigabytes.
    #[test]
    fn a_record_that_changes_four_billion_messages_takes_no_memory() {
        let mut change = an_append(1);
        change.changed = vec![an_append(0).appended[0].row];
        change.appended.clear();
        let mut content = entry::mailbox_content(&change);
        // Its end: a set of one range, which begins at 1 and has 0 more, and no expunged messages.
        assert!(content.ends_with(&[1, 1, 0, 0]));
        content.truncate(content.len() - 2);
        put_varint(&mut content, u64::from(u32::MAX - 1));
        content.push(0);
        tail(&[vec![1], record(2, &content)].concat());
        let list = entry::list_content(&a_list());
        any_pack(&[vec![2, 1], record(3, &list), record(2, &content)].concat());
    }
}
