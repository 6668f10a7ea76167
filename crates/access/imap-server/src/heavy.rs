//! Long computations: decoding large parts, searching large bodies, LIST of very many names.
//!
//! A session's task shares its thread with other sessions, so it never computes for long:
//! * Short work is counted in steps ([`Pace`]), and the task yields after each slice of them.
//! * Long work runs on threads of its own ([`Heavy`]). One account has one such thread at a time.
//!
//! The rule is that no poll of a task takes over 10 ms. Tests cannot rely on time, so they check
//! steps: with debug assertions, three slices without a pause panic. Such builds also measure each
//! poll ([`timed`]) and log those that break the rule. Debug builds are slower than release builds,
//! and other load on the machine also adds to the time.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::AccountId;
use posthaste_net::{
    ErasedResult, ErasedWork, KeyedSemaphore, compute_threads, erased, on_compute_thread_with, result_of,
};

use crate::progress::Progress;
use crate::reply::{Failure, Reply};

/// Steps between two yields. A step is the cost of reading one byte, 1 ns or less, so that a
/// slice takes 2 ms at most. Half of it would make a search through a large folder yield more
/// often than it reads.
pub(crate) const SLICE_STEPS: u64 = 2_000_000;

/// Steps that may be done in one go. More steps than these are heavy work.
pub(crate) const STEPS_MAX: u64 = 2 * SLICE_STEPS;

/// Steps without a pause at most: a slice that is not full, and then as much work as may be done in
/// one go. They take 6 ms at most. A walk through messages with summaries of megabytes may do more,
/// within 10 ms, and counts less (`Walk`).
const UNPAUSED_MAX: u64 = SLICE_STEPS + STEPS_MAX;

/// Steps of reading a mailbox's head, and of printing it.
pub(crate) const HEAD_STEPS: u64 = SLICE_STEPS / 1000;

/// Steps of opening a mailbox that nobody has open, and of each message in it. A command that opens
/// many mailboxes counts them. Twenty in a slice took 8 ms on a slow processor.
const OPEN_STEPS: u64 = SLICE_STEPS / 10;
const MESSAGE_STEPS: u64 = 40;

/// Steps to parse and answer a command, without those that it counts itself. A hundred NOOPs, of
/// some 2 µs each, cost one yield.
const COMMAND_STEPS: u64 = SLICE_STEPS / 100;

thread_local! {
    /// Steps of finished work on this thread since a session yielded between two commands. A
    /// session changes its thread only after it yielded, so its own steps since then are counted
    /// here. The count may include steps of other sessions. Then the session yields early.
    static FINISHED: Cell<u64> = const { Cell::new(0) };
}

/// Steps of opening a mailbox of this many messages, at most a slice.
pub(crate) fn open_steps(messages: u32) -> u64 {
    (OPEN_STEPS + u64::from(messages) * MESSAGE_STEPS).min(SLICE_STEPS)
}

/// A command has ended. Yields if this one and those before it did a slice of work together. A
/// client may send thousands at once, each of which does less.
pub(crate) async fn command_ended() {
    finished(COMMAND_STEPS).await;
}

/// The same within a command whose parts count their work themselves.
pub(crate) async fn part_ended() {
    finished(0).await;
}

async fn finished(more: u64) {
    let steps = FINISHED.get().saturating_add(more);
    if steps < SLICE_STEPS {
        FINISHED.set(steps);
        return;
    }
    FINISHED.set(0);
    tokio::task::yield_now().await;
}

/// Counts steps and yields after each slice.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    steps: u64,
    progress: Option<Arc<Progress>>,
    pauses: Pauses,
}

/// Whether a task pauses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Pauses {
    /// The task yields to the others of its thread.
    #[default]
    Yields,
    /// The task has a thread of its own, and does not pause.
    None,
}

/// Work that waits for nothing except the pauses of its [`Pace`].
pub(crate) type Paced<'p, T> = Pin<Box<dyn Future<Output = T> + Send + 'p>>;

impl Pace {
    /// The pace of work on a thread of its own.
    fn offloaded() -> Self {
        Self { steps: 0, progress: None, pauses: Pauses::None }
    }

    /// The pace of a command whose progress is reported.
    pub(crate) fn reporting(progress: Arc<Progress>) -> Self {
        Self { steps: 0, progress: Some(progress), pauses: Pauses::Yields }
    }

    /// The counter of the messages of a walk, if the progress is reported.
    pub(crate) fn progress(&self) -> Option<&Progress> {
        self.progress.as_deref()
    }

    /// Counts steps that were done. Returns whether they fill a slice, so that it is time to yield.
    /// Do not cap the steps, or nothing finds work that is too long. Where an input has no bound,
    /// cut the work into pieces.
    pub(crate) fn count(&mut self, steps: u64) -> bool {
        self.steps += steps;
        debug_assert!(
            self.steps <= UNPAUSED_MAX,
            "{} steps were done without a pause: cut the work into pieces, or let `Heavy` do it",
            self.steps
        );
        self.steps >= SLICE_STEPS
    }

    /// Counts work that was done, and yields if it was much.
    pub(crate) async fn worked(&mut self, steps: u64) {
        if self.count(steps) {
            self.rest().await;
        }
    }

    /// Yields if it is time.
    pub(crate) async fn rest(&mut self) {
        if self.steps >= SLICE_STEPS {
            self.steps = 0;
            if self.pauses == Pauses::Yields {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        if self.pauses == Pauses::Yields {
            FINISHED.set(FINISHED.get().saturating_add(self.steps));
        }
    }
}

/// The permits for heavy work: one for each thread that may compute, and one for each account.
/// Clones share them.
#[derive(Debug, Clone)]
pub struct Heavy(KeyedSemaphore<AccountId>);

impl Heavy {
    /// The permits of one server.
    #[allow(
        clippy::new_without_default,
        reason = "permits are shared, so nobody should get others by accident"
    )]
    pub fn new() -> Self {
        Self(KeyedSemaphore::new(compute_threads(), 1))
    }

    /// Does one piece of work on a thread of its own. Pieces of one account run one after the
    /// other, in the order of the calls. Give it pieces of some 50 ms: between them others get the
    /// permit, and a session that has ended takes no further one.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.run_erased(account, erased(work)).await.map(result_of)
    }

    /// Does [`run`](Self::run) for work of any type. Its code is generated once.
    async fn run_erased(&self, account: AccountId, work: ErasedWork) -> Result<ErasedResult, Failure> {
        let aborted = || Failure::from(Reply::no(Code::ServerBug, "The computation was aborted"));
        let permit = self.0.acquire(account).await.ok_or_else(aborted)?;
        on_compute_thread_with(permit, work).await.map_err(|error| {
            tracing::error!(%error, "a command's computation has no result: if it panicked, please report this bug");
            aborted()
        })
    }

    /// The same for work that is written with pauses, so that a task can do it, too. Here it has
    /// none.
    pub(crate) async fn run_paced<T: Send + 'static>(
        &self,
        account: AccountId,
        work: impl for<'p> FnOnce(&'p mut Pace) -> Paced<'p, T> + Send + 'static,
    ) -> Result<T, Failure> {
        let work = move || {
            let mut pace = Pace::offloaded();
            let polled = work(&mut pace).as_mut().poll(&mut Context::from_waker(Waker::noop()));
            debug_assert!(polled.is_ready(), "offloaded work waits for something");
            polled
        };
        match self.run(account, work).await? {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Err(Reply::no(Code::ServerBug, "The computation was aborted").into()),
        }
    }

    /// Acquires the permit of an account, so that its long work waits.
    #[cfg(test)]
    pub(crate) async fn acquire(&self, account: AccountId) -> Option<posthaste_net::KeyedPermit<AccountId>> {
        self.0.acquire(account).await
    }

    /// Acquires only the permit of an account, and none of the common ones.
    #[cfg(test)]
    pub(crate) async fn acquire_of(&self, account: AccountId) -> Option<posthaste_net::OwnPermit<AccountId>> {
        self.0.acquire_own(account).await
    }

    /// The pieces of work of an account that wait, if one permit of it is held.
    #[cfg(test)]
    pub(crate) fn waiting_of(&self, account: AccountId) -> usize {
        self.0.count(&account).saturating_sub(1)
    }

    /// The number of accounts that have work here, or wait for it.
    pub(crate) fn accounts(&self) -> usize {
        self.0.keys()
    }
}

/// Measures each poll of a command where debug assertions are on, and logs what takes over 10 ms.
pub(crate) async fn timed<T>(name: &'static str, work: impl Future<Output = T>) -> T {
    #[cfg(debug_assertions)]
    {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| {
            let began = std::time::Instant::now();
            let polled = work.as_mut().poll(cx);
            let took = began.elapsed();
            if took > std::time::Duration::from_millis(10) {
                tracing::warn!(
                    command = name,
                    ?took,
                    "one poll of a command blocked its thread for too long"
                );
            }
            polled
        })
        .await
    }
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use posthaste_mail_model::Id;

    use super::*;

    fn account(number: u8) -> AccountId {
        AccountId(Id::from_bytes([number; 16]))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn services_that_share_permits_have_no_others() {
        let first = Heavy(KeyedSemaphore::new(1, 1));
        let (second, (go, wait)) = (first.clone(), mpsc::channel::<()>());
        let works = tokio::spawn(async move { first.run(account(1), move || wait.recv().unwrap()).await });
        let mut other = std::pin::pin!(second.run(account(2), || 2));
        while second.accounts() == 0 {
            tokio::task::yield_now().await;
        }
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(other.as_mut().poll(cx).is_pending()));
        assert!(waits.await);
        go.send(()).unwrap();
        works.await.unwrap().unwrap();
        assert_eq!(other.await.unwrap(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_account_has_one_permit() {
        let heavy = Arc::new(Heavy(KeyedSemaphore::new(2, 1)));
        let (go, wait) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = Arc::clone(&heavy);
        let first = tokio::spawn(async move {
            let work = move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
            };
            first.run(account(1), work).await.unwrap();
        });
        tokio::task::block_in_place(|| begins.recv().unwrap());
        let mut second = std::pin::pin!(heavy.run(account(1), || 2));
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending()));
        assert!(waits.await, "the account's permit is taken");
        assert_eq!(heavy.run(account(2), || 3).await.unwrap(), 3, "others have theirs");
        go.send(()).unwrap();
        assert_eq!(second.await.unwrap(), 2);
        first.await.unwrap();
        assert!(heavy.accounts() == 0);
    }

    /// The work of a command that ends before its slice is full.
    fn some_work() {
        Pace::default().count(SLICE_STEPS / 3);
    }

    #[test]
    fn work_of_several_commands_adds_up_to_a_slice() {
        let ended = || {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _entered = runtime.enter();
            std::pin::pin!(command_ended()).poll(&mut cx).is_ready()
        };
        for _ in 0..3 {
            for is_ready in [true, true, false] {
                some_work();
                assert_eq!(ended(), is_ready);
            }
        }
        assert_eq!((0..200).filter(|_| !ended()).count(), 2);
    }

    #[test]
    #[should_panic(expected = "without a pause")]
    fn too_long_a_slice_is_found() {
        Pace::default().count(UNPAUSED_MAX + 1);
    }
}
