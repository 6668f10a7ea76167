//! The cost of the engine on a cluster: `POSTHASTE_CASSANDRA=host:port cargo run --release -p
//! posthaste-store-cassandra --example measure [MESSAGES…]`.
//!
//! Prints a table of commits a second (one message each, one mailbox and sixteen). Then it prints
//! cold and warm opens of mailboxes of this many messages (1,000 and 100,000 if none are named).
//! Each line has the processor time: ours, and the database's if `POSTHASTE_CASSANDRA_PID` names
//! its process. Bodies are kept in `POSTHASTE_BODIES` if that names a bucket. The keyspace
//! `measure_…` is left behind. Figures are of one machine and one moment.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use posthaste_mail_model::{
    AccountId, BodyId, FlagSet, Id, MailboxId, MailboxName, ModSeq, NumSet, Uid, UidValidity,
};
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead,
    NewMessage, Row, Store, StoreOptions,
};
use posthaste_store_cassandra::{CassandraEngine, Options, init};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Octets of a message and of its summary.
const BODY: usize = 4096;
const SUMMARY: usize = 500;

/// Commits whose hearing is timed, and mailboxes that are watched at once.
const ROUNDS: u32 = 20;
const WATCHED: u32 = 200;

struct Folder {
    engine: Arc<CassandraEngine>,
    id: MailboxId,
    head: MailboxHead,
}

fn new_id() -> Outcome<Id> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| e.to_string())?;
    Ok(Id::new(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64, u128::from_le_bytes(random)))
}

impl Folder {
    async fn new(engine: &Arc<CassandraEngine>) -> Outcome<Self> {
        let (account, id) = (AccountId(new_id()?), MailboxId(new_id()?));
        let entry = MailboxEntry {
            id,
            name: MailboxName::inbox(),
            uid_validity: UidValidity::MIN,
            special_use: None,
        };
        let commit = ListCommit {
            account,
            expected: ModSeq::ZERO,
            version: ModSeq::ZERO.next(),
            upsert: vec![entry],
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: 1,
        };
        engine.commit_list(commit).await?;
        Ok(Self { engine: Arc::clone(engine), id, head: MailboxHead::default() })
    }

    /// Adds `n` messages in one commit.
    async fn append(&mut self, n: u32, size: usize) -> Outcome<()> {
        let mut head = self.head.clone();
        head.modseq = head.modseq.next();
        let mut appended = Vec::new();
        for _ in 0..n {
            let uid = head.uid_next;
            head.uid_next = uid.next().ok_or("no UID left")?;
            let row = Row::new(uid, size as u32, 1_700_000_000, FlagSet::EMPTY, head.modseq);
            let (bytes, summary) = (Bytes::from(vec![b'x'; size]), Bytes::from(vec![b's'; SUMMARY]));
            let content = Content::New { bytes, summary };
            let (body, created) = (BodyId(new_id()?), head.modseq);
            appended.push(NewMessage { row, body, saved: 0, created, content });
            head.counts.messages += 1;
            head.counts.unseen += 1;
            head.counts.bytes += size as u64;
        }
        self.commit(head, appended, Vec::new()).await
    }

    /// Marks messages as read, each in a commit with its fellows of the set.
    async fn mark(&mut self, uids: &[Uid], rows: &[Row]) -> Outcome<()> {
        let mut head = self.head.clone();
        head.modseq = head.modseq.next();
        let marked = |uid: &Uid| {
            rows.iter().find(|r| r.uid() == *uid).map(|r| r.with_flags(FlagSet::SEEN, head.modseq))
        };
        let changed: Vec<Row> = uids.iter().filter_map(marked).collect();
        head.counts.unseen -= changed.len() as u32;
        self.commit(head, Vec::new(), changed).await
    }

    async fn commit(
        &mut self,
        head: MailboxHead,
        appended: Vec<NewMessage>,
        changed: Vec<Row>,
    ) -> Outcome<()> {
        let (mailbox, expected) = (self.id, self.head.modseq);
        let commit =
            MailboxCommit { mailbox, expected, head: head.clone(), appended, changed, expunged: Vec::new() };
        if self.engine.commit(commit).await? != CommitOutcome::Done {
            return Err("a commit was refused".into());
        }
        self.head = head;
        Ok(())
    }

    async fn rows(&self) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        self.engine.load(self.id, &mut |slice| rows.extend_from_slice(slice)).await?;
        Ok(rows)
    }
}

/// When something began: the time, and the processor time that the database and we had used by
/// then.
struct Began {
    at: Instant,
    cpu_ms: (Option<f64>, Option<f64>),
}

impl Began {
    fn now() -> Self {
        let database = std::env::var("POSTHASTE_CASSANDRA_PID").ok();
        Self { at: Instant::now(), cpu_ms: (database.and_then(|pid| cpu_ms(&pid)), cpu_ms("self")) }
    }
}

/// Processor time of a process so far, user and system, in milliseconds; the kernel counts in
/// hundredths of a second.
fn cpu_ms(pid: &str) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks =
        stat.rsplit_once(") ")?.1.split(' ').skip(11).take(2).map(|n| n.parse::<f64>().unwrap_or(0.0));
    Some(ticks.sum::<f64>() * 10.0)
}

/// Memory that a process holds and the most it ever held, in MiB.
fn memory_mib(pid: &str) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
    };
    Some((of("VmRSS:")?, of("VmHWM:")?))
}

fn report_memory(when: &str) {
    let of = |pid: Option<String>| match pid.and_then(|pid| memory_mib(&pid)) {
        Some((now, most)) => format!("{now} MiB, at most {most}"),
        None => "-".to_owned(),
    };
    let database = of(std::env::var("POSTHASTE_CASSANDRA_PID").ok());
    println!("| memory {when} | | | {database} | {} |", of(Some("self".to_owned())));
}

fn report(what: &str, n: u32, since: Began) {
    let ms = since.at.elapsed().as_secs_f64() * 1e3;
    let now = Began::now();
    let each = |before: Option<f64>, after: Option<f64>| match (before, after) {
        (Some(before), Some(after)) => format!("{:.3} ms", (after - before) / f64::from(n)),
        _ => "-".to_owned(),
    };
    let (database, own) = (each(since.cpu_ms.0, now.cpu_ms.0), each(since.cpu_ms.1, now.cpu_ms.1));
    let (time, rate) = (ms / f64::from(n), f64::from(n) * 1e3 / ms);
    println!("| {what} | {time:.2} ms each | {rate:.0} a second | {database} | {own} |");
}

async fn commits(engine: &Arc<CassandraEngine>) -> Outcome<()> {
    let mut folder = Folder::new(engine).await?;
    folder.append(10, BODY).await?;
    let began = Began::now();
    for _ in 0..200 {
        folder.append(1, BODY).await?;
    }
    report("append of one 4 KiB message, one mailbox, one after the other", 200, began);
    let rows = folder.rows().await?;
    let began = Began::now();
    for row in rows.iter().take(200) {
        folder.mark(&[row.uid()], &rows).await?;
    }
    report("flag of one message, one mailbox, one after the other", 200, began);
    let mut tasks = tokio::task::JoinSet::new();
    let began = Began::now();
    for _ in 0..16 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            let mut folder = Folder::new(&engine).await?;
            for _ in 0..50 {
                folder.append(1, BODY).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    report("append of one 4 KiB message, 16 mailboxes at once", 800, began);
    Ok(())
}

async fn opens(engine: &Arc<CassandraEngine>, messages: u32) -> Outcome<()> {
    let mut folder = Folder::new(engine).await?;
    let began = Began::now();
    for _ in 0..messages / 1000 {
        folder.append(1000, 100).await?;
    }
    report(&format!("fill of {messages}: a message of 100 octets, 1,000 to a commit"), messages, began);
    report_memory("after it");
    let began = Began::now();
    for _ in 0..5 {
        folder.rows().await?;
    }
    report(&format!("cold open of {messages}"), 5, began);
    report_memory(&format!("after five cold opens of {messages}"));
    let began = Began::now();
    for _ in 0..50 {
        engine.heads(&[folder.id]).await?;
    }
    report(&format!("warm open of {messages} (is my view current)"), 50, began);
    let rows = folder.rows().await?;
    let began = Began::now();
    for row in rows.iter().take(20) {
        folder.mark(&[row.uid()], &rows).await?;
        engine
            .changes_since(folder.id, ModSeq::new(folder.head.modseq.value() - 1).unwrap_or_default())
            .await?;
    }
    report(&format!("flag in {messages}, seen by another node"), 20, began);
    let began = Began::now();
    let mut bytes = 0;
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        bytes += stored.summary.len();
        ControlFlow::Continue(())
    };
    engine.summaries(folder.id, &NumSet::range(1, u32::MAX), &mut visit).await?.refuse()?;
    report(&format!("all {messages} summaries ({} MB)", bytes / 1_000_000), messages, began);
    let uids: Vec<Uid> = rows.iter().skip(20).take(10_000).map(Row::uid).collect();
    if uids.len() == 10_000 {
        let began = Began::now();
        let mut head = folder.head.clone();
        head.modseq = head.modseq.next();
        let changed: Vec<Row> =
            rows.iter().skip(20).take(10_000).map(|r| r.with_flags(FlagSet::FLAGGED, head.modseq)).collect();
        folder.commit(head, Vec::new(), changed).await?;
        report("flag of 10,000 messages in one commit", 1, began);
    }
    Ok(())
}

/// How long until a node that watches a mailbox, looking once a second as a server does, hears of
/// another node's commit.
async fn hearing(options: &Options) -> Outcome<()> {
    let (here, there) =
        (CassandraEngine::open(options.clone()).await?, CassandraEngine::open(options.clone()).await?);
    let there = Arc::new(there);
    let mut folder = Folder::new(&there).await?;
    folder.append(1, 100).await?;
    let store = Store::new(Arc::new(here), StoreOptions::default());
    let mailbox = store.open(folder.id).await?;
    let mut watch = mailbox.watch();
    let looking = store.clone();
    let looking = tokio::spawn(async move { looking.watch_foreign(Duration::from_secs(1)).await });
    let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        // At any point of the second between two looks.
        tokio::time::sleep(Duration::from_millis(u64::from(round) * 370 % 1000)).await;
        let seen = mailbox.view();
        folder.append(1, 100).await?;
        let began = Instant::now();
        watch.changed(&seen).await?;
        sum += began.elapsed();
        longest = longest.max(began.elapsed());
    }
    looking.abort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "| commit of one node heard by an idle session of another | {:.0} ms on average | {:.0} ms at most |",
        ms(sum) / f64::from(ROUNDS),
        ms(longest)
    );
    Ok(())
}

/// The cost of watching: heads of mailboxes, a thousand to a call.
async fn watching(engine: &Arc<CassandraEngine>) -> Outcome<()> {
    let mut ids = Vec::new();
    for _ in 0..WATCHED {
        ids.push(Folder::new(engine).await?.id);
    }
    let began = Began::now();
    for _ in 0..5 {
        engine.heads(&ids).await?;
    }
    report(&format!("look at {WATCHED} watched mailboxes, each"), 5 * WATCHED, began);
    Ok(())
}

/// A node's directory: the reads of a login.
async fn logins(engine: &Arc<CassandraEngine>) -> Outcome<()> {
    let name = "account/measure@example.org".to_owned();
    let value = Some(Bytes::from(vec![b'x'; 600]));
    engine.directory_commit(DirectoryChange { name: name.clone(), expected: 0, value }).await?;
    let began = Began::now();
    for _ in 0..200 {
        engine.directory_entry(&name).await?;
    }
    report("one directory record, one after the other", 200, began);
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let sizes = std::env::args().skip(1).map(|size| size.parse::<u32>()).collect::<Result<Vec<_>, _>>()?;
    let sizes = if sizes.is_empty() { vec![1000, 100_000] } else { sizes };
    let host = std::env::var("POSTHASTE_CASSANDRA")
        .map_err(|_| "POSTHASTE_CASSANDRA=host:port names the cluster")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut options = Options::new(vec![host], format!("measure_{now}"));
    if let Ok(bucket) = std::env::var("POSTHASTE_BODIES") {
        options.bodies = Some(format!("{bucket}/{}", options.keyspace).parse()?);
    }
    init(&options, 1).await?;
    let engine = Arc::new(CassandraEngine::open(options.clone()).await?);
    commits(&engine).await?;
    logins(&engine).await?;
    watching(&engine).await?;
    hearing(&options).await?;
    for size in sizes {
        opens(&engine, size).await?;
    }
    Ok(())
}
