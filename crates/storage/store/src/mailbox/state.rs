//! What this process knows of one mailbox: its head, or, once someone has opened it, its rows too.
//!
//! A delivery, a COPY and a MOVE into a mailbox need its head alone. So a mailbox that nobody has
//! open costs them the same whatever it holds: its rows are read when someone opens it, not before.
//!
//! What always holds: only the leader changes what is known; rows once read are kept for as long as
//! the state is.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use posthaste_mail_model::{MailboxId, ModSeq, Uid};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

use super::leader::Queue;
use crate::engine::Epoch;
use crate::head::MailboxHead;
use crate::store::Context;
use crate::view::View;

/// The one state of a mailbox in this process, shared by all who write to it or have it open.
pub(crate) struct MailboxState {
    pub(super) id: MailboxId,
    pub(super) context: Arc<Context>,
    /// Changes that wait, and whether someone leads.
    pub(super) queue: Mutex<Queue>,
    /// The head while no rows are known; `None` until it is read.
    head: Mutex<Option<MailboxHead>>,
    /// The rows, from the first time that someone opens the mailbox.
    published: OnceLock<Arc<Published>>,
    /// Messages from this UID on no session has been told of; may be ahead of the view's head.
    pub(super) first_recent: AtomicU32,
    /// One more than the engine's epoch when this state was last known to be the newest; 0 if
    /// never.
    checked: AtomicU64,
    /// Set when a commit failed with its outcome unknown: what is known may be behind.
    pub(super) suspect: AtomicBool,
    gone: AtomicBool,
}

/// The newest view, and who waits for the next.
pub(super) struct Published {
    /// Replaced by the leader alone.
    pub view: ArcSwap<View>,
    pub news: watch::Sender<()>,
}

/// What a change is made against.
#[derive(Clone)]
pub(super) enum Base {
    /// The head alone: enough for messages that come in.
    Head(MailboxHead),
    /// Head and rows.
    View(Arc<View>),
}

impl Base {
    pub fn head(&self) -> &MailboxHead {
        match self {
            Self::Head(head) => head,
            Self::View(view) => view.head(),
        }
    }

    pub fn modseq(&self) -> ModSeq {
        self.head().modseq
    }
}

impl MailboxState {
    /// Of a mailbox of which nothing has been read yet.
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
            gone: AtomicBool::new(false),
        }
    }

    pub fn id(&self) -> MailboxId {
        self.id
    }

    /// Whether it was deleted.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// It was deleted: no change succeeds any more, and watchers learn it.
    pub fn mark_gone(&self) {
        self.gone.store(true, Ordering::Release);
        if let Some(published) = self.published.get() {
            published.news.send_replace(());
        }
    }

    /// Whether what is known is the newest there is, as far as can be told without asking.
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

    /// The rows, if they are known.
    pub(super) fn published(&self) -> Option<&Arc<Published>> {
        self.published.get()
    }

    /// What is known; `None` if nothing was read yet.
    pub(super) fn base(&self) -> Option<Base> {
        match self.published.get() {
            Some(published) => Some(Base::View(published.view.load_full())),
            None => self.head.lock().clone().map(Base::Head),
        }
    }

    /// Whether anyone waits for news.
    pub fn is_watched(&self) -> bool {
        self.published.get().is_some_and(|published| published.news.receiver_count() > 0)
    }

    /// Bytes of memory: those of the view, if there is one, and about those of the rest.
    pub fn memory_bytes(&self) -> usize {
        /// What a keyword takes beside its text.
        const KEYWORD: usize = 32;
        let rest = match self.base() {
            None => 0,
            Some(Base::View(view)) => view.memory_bytes(),
            Some(Base::Head(head)) => {
                head.keywords.keywords().iter().map(|keyword| KEYWORD + keyword.as_str().len()).sum()
            }
        };
        std::mem::size_of::<Self>() + rest
    }

    pub(super) fn recent_watermark(&self, at_least: Uid) -> Uid {
        Uid::new(self.first_recent.load(Ordering::Acquire)).map_or(at_least, |uid| uid.max(at_least))
    }

    /// Makes this the newest that is known, unless it is not. Only whoever leads may call this.
    pub(super) fn publish(&self, next: Base) -> Base {
        self.first_recent.fetch_max(next.head().first_recent.value(), Ordering::AcqRel);
        match (next, self.published.get()) {
            (Base::View(view), Some(published)) => {
                if view.modseq() > published.view.load().modseq() {
                    published.view.store(Arc::clone(&view));
                    published.news.send_replace(());
                    return Base::View(view);
                }
                Base::View(published.view.load_full())
            }
            (Base::View(view), None) => {
                *self.head.lock() = None;
                let first = Published { view: ArcSwap::new(Arc::clone(&view)), news: watch::Sender::new(()) };
                // Cannot be taken: whoever leads is alone in setting it.
                let _ = self.published.set(Arc::new(first));
                Base::View(view)
            }
            (Base::Head(head), _) => {
                *self.head.lock() = Some(head.clone());
                Base::Head(head)
            }
        }
    }
}
