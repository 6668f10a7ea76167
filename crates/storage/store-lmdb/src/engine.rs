//! The embedded engine: opens a data directory and answers the calls of [`Engine`].
//!
//! A read is done by the thread that requests it, from the map, unless it is long. A write is
//! passed to the writer thread. No reading transaction lives across an await.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::form::{FormHeader, is_body_of};
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, Counts, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders,
    ListCommit, Loaded, MailboxCommit, MailboxHead, MailboxList, Recodes, Report, Result, Row, StoreError,
    SummaryOf, Unreadable, Visit,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use crate::data_dir::format::{self, Access, Format};
use crate::data_dir::identity;
use crate::data_dir::lock::EngineLock;
use crate::data_dir::reserve::{Purpose, Reserve};
use crate::data_dir::unknown;
use crate::index::bodies::BodyLocation;
use crate::index::directory;
use crate::index::epoch::OwnTransactions;
use crate::index::lists::{self, Unlisted};
use crate::index::read;
use crate::index::summaries::{self, Progress, Walked};
use crate::index::verified::Verified;
use crate::index::{CHECKPOINT_FROM, Index};
use crate::log::appender::Appender;
use crate::log::disk::{Disk, RealDisk, failed};
use crate::log::reader::{PackReader, ReadFault};
use crate::log::readers;
use crate::maintenance;
use crate::shared::{Shared, Summarize};
use crate::threads::{elsewhere, off_the_runtime};
use crate::verify::check;
use crate::verify::pages::REMEDY;
use crate::writer::queue_lock::QueueLock;
use crate::writer::unindexed::Unindexed;
use crate::writer::{Change, Job, QUEUE_MAX, Reply, Writer, pass};

/// The options with which an engine is opened.
#[derive(Clone)]
pub struct Options {
    /// The function with which delivery makes summaries. It rebuilds those that the index lacks
    /// after a crash or a rebuild.
    pub summarize: Summarize,
    /// The time for which a serving process's index may lack acknowledged commits. It is 10 ms,
    /// in which a busy connection appends thirty messages. Other processes do not see them until
    /// then.
    pub checkpoint_within: Duration,
    /// Bytes of address space for the index: its limit, not its size. 1 TiB; a thousandth of what
    /// 64 bits address, and some 500 million messages.
    pub map_bytes: usize,
    /// Reading transactions at a time, over all processes.
    pub readers: u32,
    /// Bytes after which a pack is followed by a new one. 256 MiB: emptying one copies at most half
    /// of it, and 1 TiB of mail is 4,096 files.
    pub pack_bytes: u64,
    /// Neighbours copied by one command from which on the copies link to their summaries: 32. A
    /// link costs a second look-up when the copies are listed.
    pub links_from: usize,
    /// Bytes kept for deletions on a full disk, at most. 16 MiB are a round of maintenance (4 MiB
    /// copied, twice as much for the index) and some thousand deletions. 0: none.
    pub reserve_bytes: u64,
    /// The writer thread calls this when LMDB has failed to write its meta page. LMDB then refuses
    /// every transaction of this process. A new process brings the index up to date. A program
    /// should report why and exit. By default nothing is done, and every call fails.
    pub on_dead_index: fn(&StoreError),
    /// Messages of one round of maintenance: 2,000, some 5 ms of the writer's time, which commits
    /// have to wait for.
    pub round_messages: usize,
    /// Bytes of commits on a mailbox below which no checkpoint of it is written: 16 KiB, some 130
    /// changes of flags. 0: each commit makes one due, for tests.
    pub checkpoint_from: u64,
    /// The disk of the packs; tests pass one that fails.
    pub disk: Arc<dyn Disk>,
}

impl Options {
    /// The options of a server.
    pub fn new(summarize: Summarize) -> Self {
        Self {
            summarize,
            checkpoint_within: Duration::from_millis(10),
            map_bytes: 1 << 40,
            readers: 1024,
            pack_bytes: 256 << 20,
            links_from: 32,
            on_dead_index: |_| {},
            reserve_bytes: 16 << 20,
            round_messages: 2_000,
            checkpoint_from: CHECKPOINT_FROM,
            disk: Arc::new(RealDisk),
        }
    }
}

/// The embedded engine.
pub struct LmdbEngine {
    shared: Arc<Shared>,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<std::thread::JoinHandle<()>>,
    loss: Option<StoreError>,
    /// The lock of a serving process. With it, files of an ended server do not count as work in
    /// progress.
    _lock: Option<Arc<EngineLock>>,
}

impl std::fmt::Debug for LmdbEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LmdbEngine").field("packs", &self.shared.packs).finish_non_exhaustive()
    }
}

/// Opens the parts of a store, or creates them. The file `format` is created last: if it exists,
/// the others must exist.
fn open_parts(dir: &Path, options: &Options) -> Result<(Format, Index)> {
    if let Some(parts) = open_made(dir, options)? {
        return Ok(parts);
    }
    make_parts(dir, options)?;
    let removed = || StoreError::Unavailable("the store was removed while it was made".into());
    open_made(dir, options)?.ok_or_else(removed)
}

fn open_index(dir: &Path, options: &Options) -> Result<Index> {
    Index::open(&dir.join("index"), options.map_bytes, options.readers)
}

/// Opens a store that was made; `None` if there is none.
fn open_made(dir: &Path, options: &Options) -> Result<Option<(Format, Index)>> {
    let Some(format) = format::open(dir, Access::Shared)? else { return Ok(None) };
    format::require_parts(dir)?;
    identity::require(dir, format.id)?;
    // A process that was killed may have left names that are not durable yet, also while it made
    // the store.
    for path in [dir, &dir.join("packs"), &dir.join("index")] {
        format::sync_directory(path).map_err(failed(dir.display()))?;
    }
    Ok(Some((format, open_index(dir, options)?)))
}

/// Makes a store, unless another process has made it meanwhile.
fn make_parts(dir: &Path, options: &Options) -> Result<()> {
    let unavailable = |e| failed(dir.display())(e);
    std::fs::create_dir_all(dir).map_err(unavailable)?;
    let making = std::fs::File::open(dir).map_err(unavailable)?;
    making.lock().map_err(unavailable)?;
    if format::open(dir, Access::Shared)?.is_some() {
        return Ok(());
    }
    format::may_be_made(dir)?;
    // A command may have the store open though somebody removed its `format`.
    let _index = format::lock_index(dir, Access::Alone)?;
    // A process may have ended while it created a store: nothing was acknowledged.
    match std::fs::remove_dir_all(dir.join("index")) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(unavailable(e)),
        _ => std::fs::create_dir_all(dir.join("packs")).map_err(unavailable)?,
    }
    let index = open_index(dir, options)?;
    index.sync()?;
    format::make(dir)?;
    index.close();
    Ok(())
}

/// Damage of a record without which the store cannot be opened, with what to do about it.
fn with_remedy(error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt(why) if !why.contains("posthaste check") => {
            StoreError::Corrupt(format!("{why}: {REMEDY}"))
        }
        other => other,
    }
}

/// The thread that writes.
struct WriterThread {
    jobs: mpsc::Sender<Job>,
    thread: std::thread::JoinHandle<()>,
    /// Why the index lacks acknowledged commits.
    loss: Option<StoreError>,
}

/// Starts the thread that writes, and waits until it has redone what ended processes left.
fn start_writer(
    shared: &Arc<Shared>,
    appender: Appender,
    checkpoint_within: Option<Duration>,
) -> Result<WriterThread> {
    let unavailable = |e: &dyn std::fmt::Display| StoreError::Unavailable(format!("the writer: {e}"));
    let (jobs, queue) = mpsc::channel(QUEUE_MAX);
    let (recovered, recovery) = std::sync::mpsc::channel();
    let for_thread = Arc::clone(shared);
    let write = move || {
        // Index transactions belong to the thread that began them.
        let mut writer = Writer::new(&for_thread, appender, checkpoint_within);
        let redone = writer.recover();
        let is_ready = redone.is_ok();
        if recovered.send(redone).is_ok() && is_ready {
            writer.run(queue);
        }
    };
    let thread =
        std::thread::Builder::new().name("writer".into()).spawn(write).map_err(|e| unavailable(&e))?;
    match recovery.recv().map_err(|e| unavailable(&e)).flatten() {
        Ok(loss) => Ok(WriterThread { jobs, thread, loss }),
        Err(error) => {
            // The thread has the index open for as long as it runs.
            let _ = thread.join();
            Err(error)
        }
    }
}

impl LmdbEngine {
    /// Opens the store in `dir`, or makes one there. Blocks for as long as files take to open.
    ///
    /// One process may have a directory open once at a time; several processes may. All
    /// acknowledged commits are on disk and in the index.
    pub fn open(dir: &Path, options: Options) -> Result<Self> {
        Self::start(dir, options, None)
    }

    /// Opens the store of a locked directory for a server. Acknowledged commits are on disk.
    /// Other processes see them after at most [`Options::checkpoint_within`].
    pub fn serve(lock: Arc<EngineLock>, options: Options) -> Result<Self> {
        let dir = lock.dir().to_owned();
        Self::start(&dir, options, Some(lock))
    }

    fn start(dir: &Path, options: Options, lock: Option<Arc<EngineLock>>) -> Result<Self> {
        let reserve = Reserve::new(Arc::clone(&options.disk), dir, options.reserve_bytes);
        let (format, mut index) = match open_parts(dir, &options) {
            // LMDB's lock file needs some space.
            Err(StoreError::Full(_)) if reserve.release(Purpose::Deletion, 0) => open_parts(dir, &options)?,
            parts => parts?,
        };
        index.checkpoint_from = options.checkpoint_from;
        if let Err(error) = index.upgrade() {
            tracing::warn!(%error, "the index was not brought up to this format; the next opening tries again");
        }
        let (store, packs) = (format.id, dir.join("packs"));
        let reader = PackReader::new(Arc::clone(&options.disk), packs.clone(), store);
        let own = OwnTransactions::default();
        let disk = Arc::clone(&options.disk);
        let shared = Arc::new(Shared {
            index,
            own,
            reader,
            queue_lock: QueueLock::open(dir),
            disk,
            packs: packs.clone(),
            reserve,
            store,
            verified: Verified::default(),
            unindexed: Unindexed::default(),
            summarize: options.summarize,
            on_dead_index: options.on_dead_index,
            links_from: options.links_from,
            round_messages: options.round_messages,
            killed: AtomicBool::new(false),
            _format: format,
        });
        unknown::refuse_foreign_packs(&shared).map_err(with_remedy)?;
        let checkpoint_within = lock.as_ref().map(|_| options.checkpoint_within);
        let appender = Appender::new(options.disk, packs, store, options.pack_bytes);
        let WriterThread { jobs, thread, loss } =
            start_writer(&shared, appender, checkpoint_within).map_err(with_remedy)?;
        Ok(Self { shared, jobs: Some(jobs), writer: Some(thread), loss, _lock: lock })
    }

    /// Waits until all submitted commits are on disk, and closes all files. Dropping does the same.
    pub fn close(self) {}

    /// Closes all files and leaves the disk as a killed process does: for tests of recovery.
    #[doc(hidden)]
    pub fn kill(self) {
        self.shared.killed.store(true, Ordering::Release);
    }

    /// [`Engine::check`] with another number of records read in one transaction: for tests of
    /// checks that need several transactions.
    #[doc(hidden)]
    pub async fn check_in_slices(
        &self,
        slice: u64,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Report> {
        self.checkpoint_if(self.shared.unindexed.any()).await?;
        let packs = &self.shared.packs;
        let _whole = readers::protect(packs).map_err(failed(packs.display()))?;
        off_the_runtime(|| check::check(&self.shared, slice, progress))
    }

    /// Why the store was opened without acknowledged commits: a tail of the log that is damaged,
    /// or that the disk could not read. Reads lack them.
    pub fn loss(&self) -> Option<&StoreError> {
        self.loss.as_ref()
    }

    /// Lets maintenance compact the packs that a forced rebuild marked. Returns their number.
    /// Bodies that only unreadable commits named are removed with them.
    pub async fn accept_loss(&self) -> Result<usize> {
        self.submit(Job::AcceptLoss).await
    }

    /// The mailboxes that are in no account's list, as [`Engine::check`] names them.
    pub async fn unlisted(&self) -> Result<Vec<Unlisted>> {
        self.checkpoint_if(self.shared.unindexed.any()).await?;
        off_the_runtime(|| lists::unlisted(&self.shared.index, &*self.shared.index.read()?))
    }

    /// [`Engine::check`] for the fuzz targets.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn check_at_once(&self) {
        let _ = check::check(&self.shared, check::SLICE, &mut |_| {});
    }

    /// The end of pack 1 and the next sequence number, as the index has them.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn indexed_end(&self) -> Result<crate::log::IndexedEnd> {
        let txn = self.shared.index.read()?;
        let end = self.shared.index.pack(&txn, 1)?.map_or(0, |state| state.end);
        Ok(crate::log::IndexedEnd { end, next_seq: self.shared.index.seq(&txn)? })
    }

    /// Brings the index up to date, if it lacks acknowledged commits that the caller reads.
    async fn checkpoint_if(&self, behind: bool) -> Result<()> {
        if behind { self.submit(Job::Checkpoint).await } else { Ok(()) }
    }

    fn submit<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> impl Future<Output = Result<T>> {
        let (reply, answer) = oneshot::channel();
        pass(self.jobs.as_ref(), job(reply), answer)
    }

    fn change(&self, change: Change) -> impl Future<Output = Result<CommitOutcome>> {
        self.submit(|reply| Job::Change(change, reply))
    }
}

impl LmdbEngine {
    /// Waits until all submitted commits are on disk. From then on every change is refused.
    fn stop(&mut self) {
        // The writer ends when the last sender is dropped, after what is in the queue.
        self.jobs = None;
        if let Some(thread) = self.writer.take() {
            let _ = thread.join();
        }
    }

    /// Opens the store in `dir` as it is at this moment, for reading. Later changes by servers
    /// and maintenance are not seen: see `snapshot`. Changes are refused.
    pub fn snapshot(dir: &Path, options: Options) -> Result<Self> {
        let mut engine = Self::start(dir, options, None)?;
        engine.stop();
        if engine.loss.is_some() {
            // They cannot be redone here: the state of the index is read.
            engine.shared.unindexed.clear();
        }
        crate::index::snapshot::pin(&engine.shared)?;
        Ok(engine)
    }
}

impl Drop for LmdbEngine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Rounds of maintenance that a count of references waits for: millions of copied or expunged
/// messages.
const COUNTING_ROUNDS_MAX: usize = 10_000;
/// Times a body's location is looked up again because maintenance had just moved the body.
const LOOKUPS_MAX: usize = 4;
/// Bytes of a body that are read at once. Readers ask for 1 MiB at a time, which takes 2 ms at
/// most, or for a whole body.
const READ_AT_ONCE: u64 = 2 << 20;

impl Shared {
    pub(crate) fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        for _ in 0..LOOKUPS_MAX {
            let location = read::body_location(&self.index, body)?;
            match self.reader.read(body, location, range.clone()) {
                Ok(bytes) => return Ok(bytes),
                Err(ReadFault::Missing) => self.reader.forget(location.pack),
                // Maintenance may have moved it and cut the pack.
                Err(_) if read::body_location(&self.index, body)? != location => {}
                Err(fault) => return Err(fault.of(body, location.pack)),
            }
        }
        Err(StoreError::Corrupt(format!("body {body}: its pack is missing")))
    }

    /// Whether reading a range would delay other tasks.
    fn is_long(&self, body: BodyId, range: &BodyRange) -> Result<bool> {
        let is_long = |end: u64| end.saturating_sub(range.start) > READ_AT_ONCE;
        Ok(is_long(range.end) && is_long(read::body_location(&self.index, body)?.len))
    }

    /// Whether a body belongs to a row, also in another form.
    pub(crate) fn is_body_of(&self, body: BodyId, location: BodyLocation, row: &Row) -> bool {
        let begin = self.read_body(body, 0..FormHeader::LEN as u64);
        begin.is_ok_and(|begin| is_body_of(&begin, location.len, row))
    }
}

#[async_trait]
impl Engine for LmdbEngine {
    fn epoch(&self) -> Epoch {
        Some(self.shared.own.foreign(|| self.shared.index.last_readable()))
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        directory::directory_entry(&self.shared.index, &*self.shared.index.read()?, name)
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let index = &self.shared.index;
        directory::directory_scan(index, &*index.read()?, (prefix, after), limit, octets)
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        directory::directory_names(&self.shared.index, &*self.shared.index.read()?, (prefix, after), limit)
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.change(Change::Directory(change)).await
    }

    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        lists::load(&self.shared.index, &*self.shared.index.read()?, account)
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.change(Change::List(commit)).await
    }

    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(mailboxes)).await?;
        read::heads(&self.shared.index, mailboxes)
    }

    async fn counts(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<Counts>>> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(mailboxes)).await?;
        read::counts(&self.shared.index, mailboxes)
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(&[mailbox])).await?;
        read::load(&self.shared.index, mailbox, rows)
    }

    async fn load_up_to(
        &self,
        mailbox: MailboxId,
        most: u32,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<Loaded> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(&[mailbox])).await?;
        read::load_up_to(&self.shared.index, mailbox, most, rows)
    }

    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(&[mailbox])).await?;
        read::changes_since(&self.shared.index, mailbox, since)
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.change(Change::Mailbox(commit)).await
    }

    fn commits_pairs(&self) -> bool {
        true
    }

    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.change(Change::Pair(Box::new(pair))).await
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.checkpoint_if(self.shared.unindexed.has_mailbox(&[mailbox])).await?;
        let mut progress = Progress::new(mailbox);
        loop {
            match summaries::walk(&self.shared, uids, &mut progress, visit)? {
                Walked::Whole => break,
                Walked::Paused => {}
                Walked::Damaged(damaged) => {
                    let shared = Arc::clone(&self.shared);
                    let read = elsewhere(move || summaries::read_again(&shared, mailbox, &damaged)).await?;
                    if progress.visit(read, visit).is_break() {
                        break;
                    }
                }
            }
            if progress.is_past(uids) {
                break;
            }
            yield_now().await;
        }
        Ok(progress.unreadable())
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.checkpoint_if(self.shared.unindexed.has_body(body)).await?;
        if self.shared.is_long(body, &range)? {
            let shared = Arc::clone(&self.shared);
            return elsewhere(move || shared.read_body(body, range)).await;
        }
        self.shared.read_body(body, range)
    }

    async fn has_body(&self, body: BodyId) -> Result<bool> {
        self.checkpoint_if(self.shared.unindexed.has_body(body)).await?;
        Ok(self.shared.index.body(&*self.shared.index.read()?, body)?.is_some())
    }

    fn recodes(&self) -> Recodes {
        Recodes::Everything
    }

    async fn recode(&self, body: BodyId, bytes: Bytes, holders: Holders) -> Result<CommitOutcome> {
        self.checkpoint_if(self.shared.unindexed.has_body(body)).await?;
        self.change(Change::Recode(body, bytes, holders)).await
    }

    async fn add_summary(&self, message: SummaryOf, summary: Bytes) -> Result<CommitOutcome> {
        self.submit(|reply| Job::Summary((message, summary), reply)).await
    }

    async fn references(&self, body: BodyId) -> Result<u64> {
        self.checkpoint_if(self.shared.unindexed.any()).await?;
        for _ in 0..COUNTING_ROUNDS_MAX {
            if let Some(count) = maintenance::references(&self.shared, body)? {
                return Ok(count);
            }
            self.maintain().await?;
        }
        Err(StoreError::Busy)
    }

    async fn maintain(&self) -> Result<Report> {
        let shared = &self.shared;
        let prepared = match maintenance::is_any_due(shared)? {
            true => {
                let shared = Arc::clone(shared);
                elsewhere(move || maintenance::prepare(&shared)).await?
            }
            false => maintenance::PreparedRound::default(),
        };
        self.submit(|reply| Job::Maintain(Box::new(prepared), reply)).await
    }

    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        self.check_in_slices(check::SLICE, progress).await
    }
}
