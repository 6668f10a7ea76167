//! The state of one mailbox in this process: its head and, once someone has opened it, its rows.
//!
//! A delivery, a COPY and a MOVE into a mailbox need only its head. So their cost does not depend
//! on the size of a mailbox that nobody has open: its rows are read when someone opens it.
//!
//! The queue of changes and the role of the leader are here, too. The state has the queue, a move
//! in the queue waits for the role, and the role holds the state.
//!
//! Invariants: only the leader changes this state; rows once read stay in memory as long as
//! the state does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId, ModSeq, Uid};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::base::{Base, Needs};
use super::draft::Draft;
use super::requester::Requester;
use crate::context::Context;
use crate::counted_in::CountedIn;
use crate::engine::Epoch;
use crate::error::Result;
use crate::head::{Counts, MailboxHead};
use crate::offload::Place;
use crate::open_views::{CountedRows, RowsFor};
use crate::view::View;

/// The one state of a mailbox in this process, shared by all who write to it or have it open.
pub(crate) struct MailboxState {
    pub(super) id: MailboxId,
    pub(super) context: Arc<Context>,
    /// Changes that wait, and whether someone leads.
    pub(super) queue: Mutex<Queue>,
    /// The head while no rows are known; `None` until it is read.
    head: Mutex<Option<MailboxHead>>,
    /// The rows, once someone has opened the mailbox.
    published: OnceLock<Arc<Published>>,
    /// Messages from this UID on were reported to no session. May be higher than in the view's
    /// head.
    pub(super) first_recent: AtomicU32,
    /// The engine's epoch plus one, when this state was last known to be the newest; 0 if never.
    checked: AtomicU64,
    /// Set when the outcome of a commit is unknown: the known state may be out of date.
    pub(super) suspect: AtomicBool,
    /// The store's limit of messages in a folder does not count here.
    pub(super) unlimited: AtomicBool,
    /// How many need the rows whether or not there is room for them ([`Unrefused`]).
    unrefused: AtomicU32,
    /// Bytes of former views that the view after each of them does not share.
    pub(super) replaced: Arc<AtomicU64>,
    /// The owner's own limit of messages in a folder, plus one: 1 is no limit. 0: the owner has no
    /// limit of its own.
    pub(super) own_limit: AtomicU64,
    /// The account whose change the leader makes: the leader's large work counts as that
    /// account's. Only the leader sets it.
    led_for: Mutex<Option<AccountId>>,
    deleted: AtomicBool,
}

/// Until it is dropped, the rows of a mailbox are read whether or not there is room for them.
pub(crate) struct Unrefused(Arc<MailboxState>);

impl Unrefused {
    pub fn of(mailbox: &Arc<MailboxState>) -> Self {
        mailbox.unrefused.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(mailbox))
    }
}

impl Drop for Unrefused {
    fn drop(&mut self) {
        self.0.unrefused.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The newest view, and the tasks that wait for the next.
pub(super) struct Published {
    /// Replaced by the leader alone.
    pub view: ArcSwap<View>,
    pub news: watch::Sender<()>,
    /// The memory of the view.
    pub rows: CountedRows,
}

/// Rows that count before they are published. They do not if this is dropped before.
pub(super) struct Growth(Arc<Published>);

impl Drop for Growth {
    fn drop(&mut self) {
        self.0.rows.set(self.0.view.load().exists());
    }
}

impl MailboxState {
    /// The state of a mailbox before its first read.
    pub fn new(context: Arc<Context>, id: MailboxId) -> Self {
        Self {
            id,
            context,
            queue: Mutex::default(),
            head: Mutex::new(None),
            published: OnceLock::new(),
            first_recent: AtomicU32::new(Uid::MIN.value()),
            checked: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            unlimited: AtomicBool::new(false),
            unrefused: AtomicU32::new(0),
            replaced: Arc::default(),
            own_limit: AtomicU64::new(0),
            led_for: Mutex::new(None),
            deleted: AtomicBool::new(false),
        }
    }

    pub fn id(&self) -> MailboxId {
        self.id
    }

    /// Notes the account whose change is made next. The caller must lead.
    pub(super) fn lead_for(&self, account: Option<AccountId>) {
        *self.led_for.lock() = account;
    }

    /// The queue in which the leader's large changes wait.
    pub(super) fn place(&self) -> Place {
        let account = *self.led_for.lock();
        Requester::of(account).place(self.id)
    }

    /// For whom the leader's change takes memory of rows. The caller must lead.
    fn reader(&self) -> RowsFor {
        match *self.led_for.lock() {
            // A mailbox that no user has, as the queue's.
            _ if self.unlimited.load(Ordering::Relaxed) => RowsFor::Anyone,
            _ if self.unrefused.load(Ordering::Acquire) > 0 => RowsFor::Anyone,
            Some(account) => RowsFor::Account(account),
            None => RowsFor::Server,
        }
    }

    /// The memory of rows that are read now. The caller must lead.
    pub(super) fn rows_to_read(&self) -> CountedRows {
        CountedRows::new(&self.context.open_views, self.id, self.reader())
    }

    /// Counts the rows of the next state, if they are more, and sessions have the mailbox open.
    /// The result is held until that state is published. `TooManyOpen` if there is no room. The
    /// caller must lead.
    pub(super) fn reserve_growth(&self, next: &Base) -> Result<Option<Growth>> {
        let (Base::View(next), Some(published)) = (next, self.published.get()) else { return Ok(None) };
        let counts = published.rows.grow(next.exists(), self.reader())?;
        Ok(counts.then(|| Growth(Arc::clone(published))))
    }

    /// The memory of the rows, if they are known.
    pub fn counted_rows(&self) -> Option<&CountedRows> {
        self.published.get().map(|published| &published.rows)
    }

    /// Does a large change of the mailbox on another thread, after those before it in its queue.
    /// The caller must lead.
    pub async fn run_large<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.run_large_in(self.place(), work).await
    }

    /// Does large work on another thread, after the work before it in this queue.
    pub async fn run_large_in<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.context.large_permits.run(place, work).await
    }

    /// Does a change of this many messages on the caller's thread if they are few, and else as
    /// [`Self::run_large`] does.
    pub async fn run_if_large<T: Send + 'static>(
        &self,
        messages: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.context.large_permits.run_if_large(self.place(), messages, work).await
    }

    /// Whether it was deleted.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Marks the mailbox as deleted: later changes fail, and watchers wake up.
    pub fn mark_deleted(&self) {
        let was_deleted = self.deleted.swap(true, Ordering::AcqRel);
        if let Some(published) = self.published.get() {
            if !was_deleted {
                // Sessions that still have it open hold an old view.
                self.count_replaced(published.view.load().memory_bytes());
            }
            published.news.send_replace(());
        }
    }

    /// Whether the known state is the newest, as far as the epoch shows without reading from the
    /// engine.
    pub fn is_checked(&self, epoch: Epoch) -> bool {
        let same = epoch.is_some_and(|e| e.wrapping_add(1) == self.checked.load(Ordering::Acquire));
        same && !self.is_suspect()
    }

    pub(super) fn mark_checked(&self, epoch: Epoch) {
        self.checked.store(epoch.map_or(0, |e| e.wrapping_add(1)), Ordering::Release);
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// The newest head known, with what sessions have claimed since; `None` if none was read yet.
    pub fn head(&self) -> Option<MailboxHead> {
        let mut head = self.base()?.head().clone();
        head.first_recent = self.recent_watermark(head.first_recent);
        Some(head)
    }

    /// The mod-sequence and the counts of the newest head known; `None` if none was read yet.
    pub fn counts(&self) -> Option<(ModSeq, Counts)> {
        let brief = |head: &MailboxHead| (head.modseq, head.counts);
        match self.published.get() {
            Some(published) => Some(brief(published.view.load().head())),
            None => self.head.lock().as_ref().map(brief),
        }
    }

    /// The rows, if they are known.
    pub(super) fn published(&self) -> Option<&Arc<Published>> {
        self.published.get()
    }

    /// The known state; `None` if nothing was read yet.
    pub(super) fn base(&self) -> Option<Base> {
        match self.published.get() {
            Some(published) => Some(Base::View(published.view.load_full())),
            None => self.head.lock().clone().map(Base::Head),
        }
    }

    /// Whether any task waits for changes.
    pub fn is_watched(&self) -> bool {
        self.published.get().is_some_and(|published| published.news.receiver_count() > 0)
    }

    /// Bytes of memory: those of the view, if there is one, and an estimate of the rest.
    pub fn memory_bytes(&self) -> usize {
        /// The memory of a keyword besides its text.
        const KEYWORD: usize = 32;
        let of_head = |head: &MailboxHead| -> usize {
            head.keywords.keywords().iter().map(|keyword| KEYWORD + keyword.as_str().len()).sum()
        };
        let rest = match self.published.get() {
            Some(published) => published.view.load().memory_bytes(),
            None => self.head.lock().as_ref().map_or(0, of_head),
        };
        std::mem::size_of::<Self>() + rest
    }

    pub(super) fn recent_watermark(&self, at_least: Uid) -> Uid {
        Uid::new(self.first_recent.load(Ordering::Acquire)).map_or(at_least, |uid| uid.max(at_least))
    }

    /// Notes that messages were added or expunged, unless this is the first known state of the
    /// mailbox.
    fn note_messages(&self, next: &MailboxHead) {
        let brief = |head: &MailboxHead| (head.uid_next, head.counts.messages);
        let before = match self.published.get() {
            Some(published) => Some(brief(published.view.load().head())),
            None => self.head.lock().as_ref().map(brief),
        };
        // Changes of a mailbox that no user has are not noted.
        if let Some(before) = before.filter(|before| *before != brief(next))
            && !self.unlimited.load(Ordering::Relaxed)
        {
            self.context.changed.note(self.id, before.0);
        }
    }

    /// Counts bytes that only sessions with an old view hold from now on.
    fn count_replaced(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.replaced.fetch_add(bytes, Ordering::AcqRel);
        self.context.old_views.grew(bytes);
    }

    /// Notes a head that becomes known.
    fn note_next(&self, head: &MailboxHead) {
        self.context.followers.note(self.id, head);
        self.note_messages(head);
        self.first_recent.fetch_max(head.first_recent.value(), Ordering::AcqRel);
    }

    /// Makes rows that were just read known. The caller must lead.
    pub(super) fn publish_rows(&self, view: View, rows: CountedRows) -> Base {
        self.note_next(view.head());
        self.publish_first(Arc::new(view), rows)
    }

    fn publish_first(&self, view: Arc<View>, rows: CountedRows) -> Base {
        *self.head.lock() = None;
        rows.set(view.exists());
        let first = Published { view: ArcSwap::new(Arc::clone(&view)), news: watch::Sender::new(()), rows };
        // Never taken: only the leader sets it.
        let _ = self.published.set(Arc::new(first));
        Base::View(view)
    }

    /// Makes this the newest known state, unless a newer one is known. The caller must lead.
    pub(super) fn publish(&self, next: Base) -> Base {
        self.note_next(next.head());
        match (next, self.published.get()) {
            (Base::View(view), Some(published)) => {
                let old = published.view.load_full();
                if view.modseq() <= old.modseq() {
                    return Base::View(old);
                }
                let replaced = old.bytes_beside(&view);
                published.view.store(Arc::clone(&view));
                published.rows.set(view.exists());
                // After the view, and before any session is woken to get it.
                self.count_replaced(replaced);
                published.news.send_replace(());
                Base::View(view)
            }
            (Base::View(view), None) => self.publish_first(view, self.rows_to_read()),
            (Base::Head(head), _) => {
                *self.head.lock() = Some(head.clone());
                Base::Head(head)
            }
        }
    }
}

/// The queue of changes.
#[derive(Default)]
pub(super) struct Queue {
    pub waiting: Vec<Box<dyn Intent>>,
    /// Moves that wait to lead: they change two mailboxes. They alternate with batches of changes.
    pub movers: VecDeque<oneshot::Sender<Role>>,
    pub leading: bool,
    /// A move led last, not a batch.
    pub move_led_last: bool,
}

#[cfg(test)]
impl Queue {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    pub fn is_led(&self) -> bool {
        self.leading && self.waiting.is_empty()
    }
}

/// A change that waits to be resolved. It may be resolved several times; the last result counts.
pub(super) trait Intent: Send {
    /// Drafts the change.
    fn resolve(&mut self, draft: &mut Draft);
    /// The part of the mailbox's state that the change needs.
    fn needs(&self) -> Needs;
    /// The largest number of messages that the change may concern.
    fn messages(&self) -> u64;
    /// The account whose session requested the change.
    fn account(&self) -> Option<AccountId>;
    /// The time when the change was requested.
    fn begun(&self) -> Instant;
    /// Reports the outcome to the waiting task. With `Ok`, the result of the last
    /// [`Intent::resolve`].
    fn finish(self: Box<Self>, base: Result<&Base>);
}

/// The role of the leader. If it is lost by a panic or the end of the runtime, the role becomes
/// free and the waiting tasks get an error.
pub(super) struct Role {
    pub mailbox: Arc<MailboxState>,
    pub resigned: bool,
    _underway: CountedIn,
}

impl Role {
    pub fn new(mailbox: Arc<MailboxState>) -> Self {
        let underway = mailbox.context.underway();
        Self { mailbox, resigned: false, _underway: underway }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        if !self.resigned {
            let mut queue = self.mailbox.queue.lock();
            queue.leading = false;
            let cancelled = (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.movers));
            drop(queue);
            self.mailbox.suspect.store(true, Ordering::Release);
            drop(cancelled);
        }
    }
}
