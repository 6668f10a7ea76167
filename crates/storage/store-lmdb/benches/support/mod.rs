//! Code that the benchmarks share: CPU time, and an engine that is driven without the layers
//! above.

#![allow(dead_code, clippy::unwrap_used, reason = "each benchmark uses a part; it fails by panicking")]

use std::future::Future;
use std::time::Instant;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, FlagSet, Id, MailboxId, MailboxName, ModSeq, UidValidity};
use posthaste_store::{
    CommitOutcome, Content, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, NewMessage, Row,
};
use posthaste_store_lmdb::{LmdbEngine, Options};

/// CPU of all threads of this process, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU and wall of one run in microseconds.
pub async fn once<T>(run: impl Future<Output = T>) -> (f64, f64, T) {
    let (cpu, wall) = (cpu_ns(), Instant::now());
    let value = run.await;
    let wall = wall.elapsed().as_nanos() as f64 / 1e3;
    ((cpu_ns() - cpu) as f64 / 1e3, wall, value)
}

/// Least CPU and the wall time of that run.
#[derive(Clone, Copy)]
pub struct Least(pub f64, pub f64);

impl Least {
    pub const NONE: Self = Self(f64::INFINITY, 0.0);
    pub fn add(&mut self, cpu: f64, wall: f64) {
        if cpu < self.0 {
            *self = Self(cpu, wall);
        }
    }
    pub fn print(self, what: &str, of: f64, unit: &str) {
        println!("| {what} | {:.1} µs | {:.1} µs | {:.0} ns per {unit} |", self.0, self.1, self.0 * 1e3 / of);
    }
}

pub struct Folder {
    pub id: MailboxId,
    pub head: MailboxHead,
    pub rows: Vec<(Row, BodyId)>,
}

pub struct Bench {
    pub engine: LmdbEngine,
    pub ids: u64,
    pub version: ModSeq,
}

/// The options of a server, where a summary is the first 600 octets.
pub fn options() -> Options {
    Options::new(|bytes| bytes[..600.min(bytes.len())].to_vec())
}

pub const ACCOUNT: AccountId = AccountId(Id::new(1, 1));

impl Bench {
    pub fn new(engine: LmdbEngine) -> Self {
        Self { engine, ids: 1, version: ModSeq::ZERO }
    }

    pub fn id(&mut self) -> Id {
        self.ids += 1;
        Id::new(self.ids, 3)
    }

    pub async fn folder(&mut self) -> Folder {
        let id = MailboxId(self.id());
        let name = MailboxName::new(&format!("box {id}")).unwrap();
        let entry = MailboxEntry { id, name, uid_validity: UidValidity::MIN, special_use: None };
        let commit = ListCommit {
            account: ACCOUNT,
            expected: self.version,
            version: self.version.next(),
            upsert: vec![entry],
            remove: vec![],
            subscribe: vec![],
            unsubscribe: vec![],
            uid_validity_last: 1,
        };
        self.version = commit.version;
        assert_eq!(self.engine.commit_list(commit).await.unwrap(), CommitOutcome::Done);
        Folder { id, head: MailboxHead::default(), rows: vec![] }
    }

    pub fn appending(
        &mut self,
        folder: &mut Folder,
        n: usize,
        bytes: &Bytes,
        summary: &Bytes,
    ) -> MailboxCommit {
        let mut commit = folder.commit();
        for _ in 0..n {
            let body = BodyId(self.id());
            let content = Content::New { bytes: bytes.clone(), summary: summary.clone() };
            folder.push(&mut commit, body, bytes.len() as u32, content);
        }
        commit
    }

    pub async fn done(&self, folder: &mut Folder, commit: MailboxCommit) {
        folder.head = commit.head.clone();
        assert_eq!(self.engine.commit(commit).await.unwrap(), CommitOutcome::Done);
    }

    pub async fn fill(&mut self, n: usize) -> Folder {
        let mut folder = self.folder().await;
        // A summary of 600 bytes: envelope, structure, common headers, keys.
        let (bytes, summary) = (Bytes::from(vec![b'x'; 300]), Bytes::from(vec![b's'; 600]));
        for _ in 0..n / 1000 {
            let commit = self.appending(&mut folder, 1000, &bytes, &summary);
            self.done(&mut folder, commit).await;
        }
        folder
    }
}

impl Folder {
    pub fn commit(&self) -> MailboxCommit {
        let (mailbox, expected) = (self.id, self.head.modseq);
        let head = MailboxHead { modseq: expected.next(), ..self.head.clone() };
        MailboxCommit { mailbox, expected, head, appended: vec![], changed: vec![], expunged: vec![] }
    }

    pub fn push(&mut self, commit: &mut MailboxCommit, body: BodyId, size: u32, content: Content) {
        let uid = commit.head.uid_next;
        commit.head.uid_next = uid.next().unwrap();
        let row = Row::new(uid, size, 1, FlagSet::EMPTY, commit.head.modseq);
        commit.head.counts.messages += 1;
        commit.head.counts.unseen += 1;
        commit.head.counts.bytes += u64::from(size);
        commit.appended.push(NewMessage { row, body, saved: 1, created: row.modseq(), content });
        self.rows.push((row, body));
    }
}
