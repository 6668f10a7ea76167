//! Combines changes: many tasks wait, one leads.
//!
//! A change enters a queue. If no one leads, its own task leads for one batch, so that a lone
//! change needs no switch of tasks. A task of its own leads the changes that arrive meanwhile, so
//! no client waits for the changes of others. Reading the rows of a mailbox also needs the lead, so
//! nothing is committed while they are read. If the leading task is dropped midway (its client
//! disconnected), the work moves to a task of its own and completes.
//!
//! The queue needs no bound: a session has at most one change in it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::AccountId;
use posthaste_metrics::{Counter, Current};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::base::{Base, Needs};
use super::draft::Draft;
use super::requester::Requester;
use super::state::{Intent, MailboxState, Role};
use crate::backoff::Backoff;
use crate::change::CommitOutcome;
use crate::error::{Result, StoreError};
use crate::offload::is_large;
use crate::view::View;

/// Most changes in one commit: enough to share a sync among all waiting tasks, and few enough for
/// one commit of a cluster.
const BATCH_MAX: usize = 256;

/// Rows that are looked at between two pauses: some milliseconds' work.
const ROWS_AT_ONCE: u32 = 50_000;

/// The next step of the leader.
enum LeaderStep {
    /// Resolve these.
    Batch(Vec<Box<dyn Intent>>),
    /// Let someone else lead.
    Mover(oneshot::Sender<Role>),
    /// Nothing; the role was released already.
    Nothing,
}

/// The result that the waiting task gets.
type Answer<T> = Result<(T, Base)>;

struct Waiting<F, T> {
    resolve: F,
    needs: Needs,
    messages: u64,
    begun: Instant,
    requester: Requester,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Answer<T>>,
}

impl<F, T> Intent for Waiting<F, T>
where
    F: FnMut(&mut Draft) -> Result<T> + Send,
    T: Send,
{
    fn resolve(&mut self, draft: &mut Draft) {
        self.result = Some((self.resolve)(draft));
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn account(&self) -> Option<AccountId> {
        self.requester.account
    }

    fn begun(&self) -> Instant {
        self.begun
    }

    fn finish(self: Box<Self>, base: Result<&Base>) {
        let Self { resolve, requester, result, answer: sender, .. } = *self;
        // The memory of the change is free before its caller goes on.
        drop((resolve, requester));
        let answer = match (base, result) {
            (Ok(base), Some(Ok(value))) => Ok((value, base.clone())),
            (_, Some(Err(error))) | (Err(error), _) => Err(error),
            (Ok(_), None) => Err(impossible("a change was committed that was not resolved")),
        };
        // A task that was dropped needs no answer.
        let _ = sender.send(answer);
    }
}

impl MailboxState {
    /// Queues this many new messages and waits for the result.
    pub(super) async fn submit_arrivals<T, F>(
        self: &Arc<Self>,
        requester: &Requester,
        messages: u64,
        resolve: F,
    ) -> Result<T>
    where
        F: FnMut(&mut Draft) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.enqueue(requester, resolve, Needs::Head, messages).await.map(|(value, _)| value)
    }

    /// Queues a change of this many existing messages and waits for its result and a view that
    /// contains it.
    pub(super) async fn submit<T, F>(
        self: &Arc<Self>,
        requester: &Requester,
        messages: u64,
        mut resolve: F,
    ) -> Result<(T, Arc<View>)>
    where
        F: FnMut(&mut Draft, &View) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let with_rows = move |draft: &mut Draft| {
            let view = draft.view()?;
            resolve(draft, &view)
        };
        self.enqueue(requester, with_rows, Needs::Rows, messages).await.and_then(with_view)
    }

    /// Waits until the view has been compared with the engine's.
    pub(super) async fn newest(self: &Arc<Self>, requester: &Requester) -> Result<Arc<View>> {
        let compared = self.enqueue(requester, |_| Ok(()), Needs::NewestRows, 0).await;
        compared.and_then(with_view).map(|((), view)| view)
    }

    /// Queues a change of this many messages and waits for its result.
    pub(super) async fn enqueue<T, F>(
        self: &Arc<Self>,
        requester: &Requester,
        resolve: F,
        needs: Needs,
        messages: u64,
    ) -> Answer<T>
    where
        F: FnMut(&mut Draft) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.is_deleted() {
            return Err(StoreError::NoMailbox(self.id));
        }
        if needs != Needs::NewestRows {
            posthaste_metrics::count(Counter::Commits, 1);
        }
        let (answer, result) = oneshot::channel();
        let begun = Instant::now();
        let requester = requester.clone();
        let waiting = Box::new(Waiting { resolve, needs, messages, begun, requester, result: None, answer });
        let leads = {
            let mut queue = self.queue.lock();
            queue.waiting.push(waiting);
            !std::mem::replace(&mut queue.leading, true)
        };
        if leads {
            let role = Role::new(Arc::clone(self));
            Unstoppable::new(lead(role)).await;
        }
        // The sender is dropped unused only if the leader ended: by a panic or the end of the
        // runtime.
        result.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the change was cancelled".into())))
    }

    /// The next step; releases the role if there is none.
    fn next(&self) -> LeaderStep {
        let mut queue = self.queue.lock();
        // Moves and batches alternate, so that neither waits for many of the other kind.
        let is_batch_due = queue.move_led_last && !queue.waiting.is_empty();
        if !is_batch_due && let Some(mover) = queue.movers.pop_front() {
            queue.move_led_last = true;
            return LeaderStep::Mover(mover);
        }
        queue.move_led_last = false;
        if queue.waiting.is_empty() {
            queue.leading = false;
            return LeaderStep::Nothing;
        }
        let size = queue.waiting.len().min(BATCH_MAX);
        LeaderStep::Batch(queue.waiting.drain(..size).collect())
    }

    /// Waits for the lead until the current leader has finished its batch.
    pub(super) async fn take_lead(self: &Arc<Self>) -> Result<Role> {
        if self.is_deleted() {
            return Err(StoreError::NoMailbox(self.id));
        }
        let (mover, first) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if !std::mem::replace(&mut queue.leading, true) {
                queue.move_led_last = true;
                drop(queue);
                return Ok(Role::new(Arc::clone(self)));
            }
            queue.movers.push_back(mover);
        }
        first.await.map_err(|_| StoreError::Unavailable("the change was cancelled".into()))
    }

    /// Resolves and commits a batch: together if possible, else one by one. Boxed, so that its code
    /// is generated in this crate, and not in each that changes a mailbox.
    #[boxed]
    async fn serve(&self, mut batch: Vec<Box<dyn Intent>>) {
        let begun = batch.iter().map(|intent| intent.begun()).min().unwrap_or_else(Instant::now);
        let mut backoff = Backoff::of_step(begun);
        match self.commit_batch(&mut batch, &mut backoff).await {
            Err(failure) if batch.len() > 1 && failure.may_be_of_one() => {
                for intent in batch {
                    let mut alone = vec![intent];
                    let outcome = self.commit_batch(&mut alone, &mut backoff).await;
                    finish(alone, outcome);
                }
            }
            outcome => finish(batch, outcome),
        }
    }

    async fn commit_batch(
        &self,
        batch: &mut Vec<Box<dyn Intent>>,
        backoff: &mut Backoff,
    ) -> Result<Base, Failure> {
        let needs = batch.iter().map(|intent| intent.needs()).max().unwrap_or(Needs::Head);
        // The largest change of the batch decides for which account its work counts.
        let account = batch.iter().max_by_key(|i| i.messages()).and_then(|i| i.account());
        self.lead_for(account);
        let mut base = self.prepare_within(needs, backoff).await?;
        let mut lacks_rows = false;
        loop {
            let draft = self.draft(&base);
            let mut draft = if lacks_rows { draft.without_rows() } else { draft };
            let messages = batch.iter().map(|intent| intent.messages()).sum();
            match is_large(messages) {
                // Boxed: nearly no batch is of so many messages.
                true => draft = Box::pin(self.resolved_on_thread(batch, draft)).await?,
                false => resolve(batch, &mut draft).await,
            }
            if draft.wants_rows() {
                match self.prepare_within(Needs::Rows, backoff).await {
                    Ok(rows) => base = rows,
                    Err(StoreError::TooManyOpen) => lacks_rows = true,
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let Some((commit, next)) = draft.finish() else { return Ok(base) };
            // Until the next state is published.
            let _growth = self.reserve_growth(&next)?;
            match self.context.engine.commit(commit).await {
                Ok(CommitOutcome::Done) => return Ok(self.publish(next)),
                Ok(CommitOutcome::Conflict) => {}
                Err(error) => return Err(self.failed(error).into()),
            }
            let newest = self.catch_up_within(backoff).await?;
            if newest.modseq() == base.modseq() {
                // No one changed the mailbox, so a message to be copied no longer exists. A retry
                // cannot succeed.
                return Err(Failure::OriginalGone);
            }
            base = newest;
            backoff.pause(&self.context).await?;
        }
    }

    /// Resolves a batch on another thread.
    async fn resolved_on_thread(&self, batch: &mut Vec<Box<dyn Intent>>, mut draft: Draft) -> Result<Draft> {
        let mut intents = std::mem::take(batch);
        let work = move || {
            intents.iter_mut().for_each(|intent| intent.resolve(&mut draft));
            (intents, draft)
        };
        let (intents, draft) = self.run_large(work).await?;
        *batch = intents;
        Ok(draft)
    }

    /// Updates the state after a failed commit.
    pub(super) fn failed(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::NoMailbox(id) if id == self.id) {
            self.mark_deleted();
        } else {
            self.suspect.store(true, std::sync::atomic::Ordering::Release);
        }
        error
    }
}

/// Resolves one intent after the other. It yields between them once they may have looked at many
/// rows.
async fn resolve(batch: &mut [Box<dyn Intent>], draft: &mut Draft) {
    let mut rows = 0;
    for intent in batch {
        if rows >= ROWS_AT_ONCE {
            rows = 0;
            tokio::task::yield_now().await;
        }
        if intent.needs() != Needs::Head {
            rows += draft.head().counts.messages;
        }
        intent.resolve(draft);
    }
}

fn finish(batch: Vec<Box<dyn Intent>>, outcome: Result<Base, Failure>) {
    for intent in batch {
        intent.finish(outcome.as_ref().map_err(Failure::error));
    }
}

/// The view to return with a change that needed rows.
fn with_view<T>((value, base): (T, Base)) -> Result<(T, Arc<View>)> {
    match base {
        Base::View(view) => Ok((value, view)),
        Base::Head(_) => Err(impossible("a change that needs rows got none")),
    }
}

/// The error for a state that does not occur. Tests fail on it.
pub(super) fn impossible(what: &str) -> StoreError {
    debug_assert!(false, "{what}");
    StoreError::Corrupt(what.to_owned())
}

/// Why a batch was not committed.
enum Failure {
    /// A message to be copied no longer exists.
    OriginalGone,
    /// An error of the store.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// Whether a single change may be the cause: the others are then tried without it.
    fn may_be_of_one(&self) -> bool {
        match self {
            // Deliveries need no rows, and a part of the memory is for them.
            Self::OriginalGone | Self::Store(StoreError::TooManyOpen) => true,
            Self::Store(error) => !error.is_temporary() && !matches!(error, StoreError::NoMailbox(_)),
        }
    }

    /// The error that a waiting task gets. Copies check themselves whether an original was
    /// expunged.
    fn error(&self) -> StoreError {
        match self {
            Self::OriginalGone => StoreError::Busy,
            Self::Store(error) => error.clone(),
        }
    }
}

/// Leads for one batch, then passes the rest, if any, to a task of its own.
async fn lead(mut role: Role) {
    match role.mailbox.next() {
        LeaderStep::Batch(batch) => role.mailbox.serve(batch).await,
        LeaderStep::Mover(mover) => return hand_over(role, mover).await,
        LeaderStep::Nothing => {
            role.resigned = true;
            return;
        }
    }
    resign(role).await;
}

/// Releases the role; a task of its own leads the changes that wait.
pub(super) async fn resign(role: Role) {
    if role.mailbox.queue.lock().waiting.is_empty() || tokio::runtime::Handle::try_current().is_err() {
        return lead_on(role).await;
    }
    tokio::spawn(posthaste_metrics::current().metered(lead_on(role)));
}

/// Leads until no one waits, or until a move takes the lead.
async fn lead_on(mut role: Role) {
    loop {
        match role.mailbox.next() {
            LeaderStep::Batch(batch) => role.mailbox.serve(batch).await,
            LeaderStep::Mover(mover) => match mover.send(role) {
                Ok(()) => return,
                // Its task was dropped.
                Err(back) => role = back,
            },
            LeaderStep::Nothing => {
                role.resigned = true;
                return;
            }
        }
    }
}

/// Passes the lead to a move, or continues if the move was dropped.
async fn hand_over(role: Role, mover: oneshot::Sender<Role>) {
    if let Err(back) = mover.send(role) {
        resign(back).await;
    }
}

/// A future that continues in a task of its own if it is dropped before it ends.
pub(super) struct Unstoppable {
    /// `None` once it has ended.
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The session that began it. When it is dropped, there may be no current session.
    session: Current,
}

impl Unstoppable {
    pub fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), session: posthaste_metrics::current() }
    }
}

impl Future for Unstoppable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let Some(work) = self.work.as_mut() else { return Poll::Ready(()) };
        let poll = work.as_mut().poll(cx);
        if poll.is_ready() {
            self.work = None;
        }
        poll
    }
}

impl Drop for Unstoppable {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.work.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(self.session.metered(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use posthaste_metrics::{Metered, Registry};

    use super::*;
    use crate::mailbox::tests::{filled, message, store};
    use crate::offload::AT_ONCE;
    use crate::suite::erased;

    /// Moves that follow one another do not keep a change waiting.
    #[tokio::test(start_paused = true)]
    async fn a_change_takes_its_turn_between_moves() {
        let store = store();
        let mailbox = filled(&store, 1).await;
        let first = mailbox.state.take_lead().await.unwrap();
        // Each holds the lead for as long as the test lasts.
        let moves: Vec<_> = (0..2)
            .map(|_| {
                let state = Arc::clone(&mailbox.state);
                tokio::spawn(erased(async move {
                    let _lead = state.take_lead().await;
                    std::future::pending::<()>().await;
                }))
            })
            .collect();
        let change =
            tokio::spawn(erased(async move { mailbox.append(vec![message(1, &[])]).await.map(drop) }));
        tokio::task::yield_now().await;
        resign(first).await;
        // The clock stands still while any task can run.
        let done = tokio::time::timeout(std::time::Duration::from_secs(1), change).await;
        assert!(matches!(done, Ok(Ok(Ok(())))), "{done:?}");
        moves.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn changes_of_many_rows_are_resolved_in_pieces() {
        const CHANGES: u32 = 256;
        let store = store();
        let mailbox = filled(&store, 1000).await;
        let mut draft = mailbox.state.draft(&Base::View(mailbox.view()));
        let change = || -> Box<dyn Intent> {
            let resolve = |_: &mut Draft| Ok(());
            let (answer, begun) = (oneshot::channel().0, Instant::now());
            let (needs, requester) = (Needs::Rows, Requester::default());
            Box::new(Waiting { resolve, needs, messages: 0, begun, requester, result: None, answer })
        };
        let mut batch: Vec<_> = (0..CHANGES).map(|_| change()).collect();
        let mut work = pin!(resolve(&mut batch, &mut draft));
        let mut pauses = 0;
        while work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending() {
            pauses += 1;
        }
        assert_eq!(pauses, CHANGES * 1000 / ROWS_AT_ONCE, "a pause each 50 changes");
    }

    /// Each change allocated and moved the state of reading a mailbox, which few of them need.
    #[tokio::test]
    async fn the_state_of_a_change_is_small() {
        let store = store();
        let mailbox = filled(&store, 1).await;
        let size = std::mem::size_of_val(&*mailbox.state.serve(Vec::new()));
        assert!(size <= 1024, "{size} octets");
    }

    #[tokio::test]
    async fn work_that_continues_counts_for_its_session() {
        let registry = Arc::new(Registry::default());
        let (done, ended) = oneshot::channel();
        let work = async move {
            tokio::task::yield_now().await;
            posthaste_metrics::count(Counter::BodyReads, 3);
            done.send(()).unwrap();
        };
        let session = async move {
            posthaste_metrics::command("STORE", None);
            Unstoppable::new(work).await;
        };
        let mut session = Metered::new(Arc::clone(&registry), "imap", session);
        assert!(Pin::new(&mut session).poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        // Its client disconnected.
        drop(session);
        ended.await.unwrap();
        let commands = registry.snapshot().commands;
        assert_eq!(commands.iter().map(|(_, sums)| sums.get(Counter::BodyReads)).sum::<u64>(), 3);
    }

    #[tokio::test]
    async fn a_change_of_many_messages_is_resolved_on_another_thread() {
        let store = store();
        let mailbox = filled(&store, 10).await;
        let (here, nobody) = (std::thread::current().id(), Requester::default());
        for (messages, is_elsewhere) in [(AT_ONCE, false), (AT_ONCE + 1, true)] {
            let (of_rows, _) = mailbox
                .state
                .submit(&nobody, messages, |_, view| Ok((std::thread::current().id(), view.exists())))
                .await
                .unwrap();
            assert_eq!((of_rows.0 != here, of_rows.1), (is_elsewhere, 10));
            let of_new = mailbox
                .state
                .submit_arrivals(&nobody, messages, |_| Ok(std::thread::current().id()))
                .await
                .unwrap();
            assert_eq!(of_new != here, is_elsewhere);
        }
    }

    /// The tasks that wait get an error, and the mailbox can be changed afterwards.
    #[tokio::test]
    async fn a_panic_on_another_thread_ends_its_own_batch() {
        let store = store();
        let mailbox = filled(&store, 10).await;
        let (state, nobody) = (&mailbox.state, Requester::default());
        let failed = state.submit_arrivals(&nobody, AT_ONCE + 1, |_| -> Result<()> { panic!("of a test") });
        assert!(matches!(failed.await, Err(StoreError::Unavailable(_))));
        assert_eq!(state.submit_arrivals(&nobody, 1, |_| Ok(7)).await.unwrap(), 7);
    }
}
