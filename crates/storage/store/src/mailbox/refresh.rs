//! Reads the state of a mailbox, and keeps it in step with other processes and nodes. Where rows
//! are known, only the difference is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_mail_model::{AccountId, MailboxId, ModSeq, NumSet};
use posthaste_metrics::Counter;
use tokio::runtime::Handle;

use super::base::{Base, Needs};
use super::leader::impossible;
use super::requester::Requester;
use super::{Mailbox, MailboxState};
use crate::backoff::Backoff;
use crate::engine::{Changes, Engine, Epoch, Loaded};
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::offload::{Place, is_large};
use crate::open_views::{CountedRows, RowsFor, UNCOUNTED};
use crate::view::{View, ViewBuilder};

impl Mailbox {
    /// The mailbox with its newest view. Its rows are read if nobody has opened it before. Large
    /// changes that are made by it count for the account. `TooManyOpen` if there is no room for
    /// its rows.
    pub(crate) async fn open(state: Arc<MailboxState>, account: Option<AccountId>) -> Result<Arc<Self>> {
        let requester = Requester::of(account);
        if let Some(mailbox) = Self::opened(&state, &requester)? {
            if !mailbox.is_known_current()? {
                state.newest(&requester).await?;
            }
            return Ok(mailbox);
        }
        state.enqueue(&requester, |_| Ok(()), Needs::Rows, 0).await?;
        // Rows stay in memory once read.
        let opened = Self::opened(&state, &requester)?;
        opened.ok_or_else(|| impossible("the rows of a mailbox were read and are missing"))
    }

    /// The mailbox, if its rows are known. From now on they count for the requester's account,
    /// unless they count for another one.
    fn opened(state: &Arc<MailboxState>, requester: &Requester) -> Result<Option<Arc<Self>>> {
        let Some(published) = state.published().cloned() else { return Ok(None) };
        let admitted = requester.account.map(|account| published.rows.admit(account)).transpose()?;
        let (state, requester) = (Arc::clone(state), requester.clone());
        Ok(Some(Arc::new(Self { state, published, requester, admitted })))
    }

    /// The newest view. Reads the head from the engine if another process or node may have changed
    /// the mailbox.
    pub async fn current(&self) -> Result<Arc<View>> {
        match self.known_current()? {
            Some(view) => Ok(view),
            None => self.state.newest(&self.requester).await,
        }
    }

    /// The newest view, if it is known without reading the head: then nobody else may have changed
    /// the mailbox.
    pub fn known_current(&self) -> Result<Option<Arc<View>>> {
        Ok(self.is_known_current()?.then(|| self.view()))
    }

    /// Whether [`Self::known_current`] has a view.
    fn is_known_current(&self) -> Result<bool> {
        if self.is_deleted() {
            return Err(StoreError::NoMailbox(self.id()));
        }
        Ok(self.state.is_checked(self.state.context.engine.epoch()))
    }
}

impl MailboxState {
    /// Brings the state up to date with a head that was read for many mailboxes at once, at an
    /// epoch.
    pub(crate) async fn refresh_from_head(
        self: &Arc<Self>,
        head: Option<&MailboxHead>,
        epoch: Epoch,
    ) -> Result<()> {
        let known = self.base().map(|base| base.modseq());
        match head {
            None => self.mark_deleted(),
            Some(head) if Some(head.modseq) == known => self.mark_checked(epoch),
            Some(_) => {
                self.newest(&Requester::default()).await?;
            }
        }
        Ok(())
    }

    /// The base of the next changes. Reads the rows that they need and that are not known. The
    /// caller must lead. Reading is boxed: most changes find what they need.
    pub(super) async fn prepare(&self, needs: Needs) -> Result<Base> {
        match (self.base(), needs) {
            (Some(base @ Base::View(_)), Needs::Head | Needs::Rows) if !self.is_suspect() => Ok(base),
            (Some(Base::View(view)), _) => Box::pin(self.refresh(view)).await,
            (Some(base), Needs::Head) if !self.is_suspect() => Ok(base),
            (_, Needs::Head) => Box::pin(self.read_head()).await,
            (_, Needs::Rows | Needs::NewestRows) => Box::pin(self.read_rows()).await,
        }
    }

    /// Compares the view with the engine's head and catches up if it is behind.
    async fn refresh(&self, view: Arc<View>) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let head = self.engine_head().await?;
        let newest =
            if head.modseq == view.modseq() { Base::View(view) } else { self.read_changes(&view).await? };
        self.seen(epoch);
        Ok(newest)
    }

    /// Brings the state up to date with the engine. The caller must lead.
    async fn catch_up(&self) -> Result<Base> {
        match self.base() {
            Some(Base::View(view)) => Box::pin(self.read_changes(&view)).await,
            _ => Box::pin(self.read_head()).await,
        }
    }

    /// [`Self::prepare`], again as long as others change the mailbox while the engine reads it.
    pub(super) async fn prepare_within(&self, needs: Needs, backoff: &mut Backoff) -> Result<Base> {
        loop {
            match self.prepare(needs).await {
                Err(StoreError::Busy) => backoff.pause(&self.context).await?,
                prepared => return prepared,
            }
        }
    }

    /// [`Self::catch_up`], again as long as others change the mailbox while the engine reads it.
    pub(super) async fn catch_up_within(&self, backoff: &mut Backoff) -> Result<Base> {
        loop {
            match self.catch_up().await {
                Err(StoreError::Busy) => backoff.pause(&self.context).await?,
                newest => return newest,
            }
        }
    }

    async fn read_head(&self) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let head = self.engine_head().await?;
        let base = self.publish(Base::Head(head));
        self.seen(epoch);
        Ok(base)
    }

    async fn read_rows(&self) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let rows = self.rows_to_read();
        let view = self.or_mark_deleted(self.load_view(&rows).await)?;
        let base = self.publish_rows(view, rows);
        self.seen(epoch);
        Ok(base)
    }

    async fn read_changes(&self, view: &View) -> Result<Base> {
        let changes = self.changes_since(self.place(), view.modseq(), view.exists()).await;
        let changes = self.or_mark_deleted(changes)?;
        posthaste_metrics::count(Counter::RecordReads, changes.rows.len() as u64);
        let next = match after(view, &changes) {
            Some(next) => next,
            None => {
                // Sessions that have the mailbox open could not go on without these rows. The
                // former ones count as an old view.
                let rows = CountedRows::new(&self.context.open_views, self.id, RowsFor::Anyone);
                self.or_mark_deleted(self.load_view(&rows).await)?
            }
        };
        Ok(self.publish(Base::View(Arc::new(next))))
    }

    async fn engine_head(&self) -> Result<MailboxHead> {
        let heads = self.context.engine.heads(&[self.id]).await?;
        self.or_mark_deleted(heads.into_iter().next().flatten().ok_or(StoreError::NoMailbox(self.id)))
    }

    /// Marks the mailbox as deleted if the engine says that it does not exist.
    fn or_mark_deleted<T>(&self, outcome: Result<T>) -> Result<T> {
        if matches!(outcome, Err(StoreError::NoMailbox(_))) {
            self.mark_deleted();
        }
        outcome
    }

    /// Records that the known state is the engine's at this epoch.
    fn seen(&self, epoch: Epoch) {
        self.suspect.store(false, Ordering::Release);
        self.mark_checked(epoch);
    }

    /// The changes since a mod-sequence in a mailbox of about this many messages. Changes in a
    /// large one are read on another thread, as its rows are.
    pub(super) async fn changes_since(&self, place: Place, since: ModSeq, messages: u32) -> Result<Changes> {
        let (engine, id) = (Arc::clone(&self.context.engine), self.id);
        if engine.epoch().is_some() && is_large(u64::from(messages) / ROWS_OF_A_STEP) {
            let runtime = Handle::current();
            let work = move || runtime.block_on(engine.changes_since(id, since));
            // Boxed: nearly no mailbox is large.
            return Box::pin(self.run_large_in(place, work)).await?;
        }
        engine.changes_since(id, since).await
    }

    /// Reads all rows of the mailbox, if there is room for them.
    pub(super) async fn load_view(&self, rows: &CountedRows) -> Result<View> {
        let view = self.load_rows(rows).await?;
        posthaste_metrics::count(Counter::RecordReads, u64::from(view.exists()));
        Ok(view)
    }

    /// The rows of a large mailbox are read on another thread: a million take 33 ms.
    async fn load_rows(&self, rows: &CountedRows) -> Result<View> {
        let (engine, id) = (&self.context.engine, self.id);
        // An engine on other machines waits for them, and reads with pauses.
        let is_here = engine.epoch().is_some();
        if !is_here && !rows.may_be_refused() {
            return load(&**engine, id).await;
        }
        let mut builder = ViewBuilder::new();
        let read = engine.load_up_to(id, UNCOUNTED, &mut |rows| builder.push_rows(rows)).await?;
        let messages = match read {
            // Most mailboxes are small, and take no memory that has a bound.
            Loaded::All(head) => return Ok(view_of(builder, head, id)),
            Loaded::TooMany(messages) => messages,
        };
        // Before anything large is allocated.
        rows.reserve(messages)?;
        if is_here && is_large(u64::from(messages) / ROWS_OF_A_STEP) {
            let (engine, runtime) = (Arc::clone(engine), Handle::current());
            let work = move || runtime.block_on(load(&*engine, id));
            // Boxed: nearly no mailbox is large.
            return Box::pin(self.run_large(work)).await?;
        }
        load(&**engine, id).await
    }
}

/// Rows that are read in the time in which a message of a change is resolved.
const ROWS_OF_A_STEP: u64 = 6;

async fn load(engine: &dyn Engine, id: MailboxId) -> Result<View> {
    let mut builder = ViewBuilder::new();
    let head = engine.load(id, &mut |rows| builder.push_rows(rows)).await?;
    Ok(view_of(builder, head, id))
}

/// The view of rows that were read, with the head that was stored beside them.
fn view_of(builder: ViewBuilder, head: MailboxHead, id: MailboxId) -> View {
    let counts = head.counts;
    let view = builder.finish(head);
    if view.counts() != counts {
        tracing::error!(mailbox = %id, stored = ?counts, rows = ?view.counts(), "the stored counts of a mailbox are wrong: run `posthaste check`");
    }
    view
}

/// The view after changes; `None` if they are incomplete or do not match the counts that came with
/// them.
fn after(view: &View, changes: &Changes) -> Option<View> {
    if !changes.complete || changes.head.modseq < view.modseq() {
        return None;
    }
    let first_new = view.head().uid_next;
    let (old, new) = changes.rows.split_at(changes.rows.partition_point(|row| row.uid() < first_new));
    // A message may have been added and expunged since; the engine then need not return its row.
    let expunged = changes.expunged.intersection(&NumSet::range(1, first_new.value() - 1));
    let next = view.edited(changes.head.clone(), old, &expunged, new);
    (next.counts() == changes.head.counts).then_some(next)
}
