//! The cost of one session, and the current session of a thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::account::{AccountCounters, OpenFolder};
use crate::clock::Count;
use crate::command_key::CommandKey;
use crate::counters::{Counter, Counters};
use crate::folder_size::FolderSize;
use crate::long_poll::WatchedPoll;
use crate::registry::Registry;

/// The command of a session's work that belongs to no command.
const SESSION: &str = "session";
/// The command of a background task.
const BACKGROUND: &str = "background";

/// The meter of one session.
#[derive(Debug)]
pub(crate) struct Meter {
    registry: Arc<Registry>,
    protocol: &'static str,
    /// The command of work that belongs to no command.
    between: &'static str,
    /// Since the last command ended.
    counters: Counters,
    /// The last command was answered. Its cost ends with the poll.
    answered: AtomicBool,
    owner: Mutex<Owner>,
}

/// The command of a session, and its account.
#[derive(Debug, Default)]
struct Owner {
    size: FolderSize,
    /// The selected folder.
    folder: Option<OpenFolder>,
    /// The command whose cost is being counted.
    command: Option<&'static str>,
    account: Option<Arc<AccountCounters>>,
    client: Option<Arc<Counters>>,
    /// The session's own task has ended. Other tasks may still work for it.
    has_ended: bool,
    /// The sums to which the last command was added: the next one is often of the same kind.
    last_sums: Option<(CommandKey, Arc<Counters>)>,
}

/// The session for which a thread works, and the CPU time since the last count.
struct Work {
    meter: Arc<Meter>,
    cpu: Count,
}

thread_local! {
    static CURRENT: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// The part of a session's work that a thread does.
#[derive(Clone, Copy)]
enum Part {
    /// A poll of the session's own task.
    Own,
    /// Work on another thread or in another task. The session's own task may run meanwhile.
    Other,
}

impl Meter {
    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cost of the last command ends here, if there is one that has not ended.
    fn command_ended(&self) {
        let mut owner = self.owner();
        if let Some(command) = owner.command.take() {
            self.counters.add(Counter::Commands, 1);
            if let Some(OpenFolder { messages: messages @ 1.., .. }) = owner.folder {
                self.counters.add(Counter::FolderMessages, u64::from(messages));
            }
            self.add_to_sums(&mut owner, command);
        }
    }

    /// A thread has done this part of the work, and its CPU time is counted.
    fn worked(&self, part: Part) {
        if self.between == BACKGROUND {
            // Such a task has no commands, and may run as long as the server.
            self.add_to_sums(&mut self.owner(), BACKGROUND);
            return;
        }
        match part {
            Part::Own if self.answered.swap(false, Ordering::Relaxed) => self.command_ended(),
            Part::Own => {}
            Part::Other => {
                let mut owner = self.owner();
                // Otherwise the session's own task adds this to its next command.
                if owner.has_ended {
                    self.add_to_sums(&mut owner, self.between);
                }
            }
        }
    }

    /// Polls a task for this meter, and reports a long poll.
    fn run_poll<T>(self: &Arc<Self>, part: Part, poll: impl FnOnce() -> T) -> T {
        let watched = WatchedPoll::begin();
        let slice = TimeSlice::begin(Arc::clone(self), part, Count::of_poll());
        let outcome = poll();
        drop(slice);
        if let Some(watched) = watched {
            watched.ended(self.protocol, || self.owner().command);
        }
        outcome
    }

    fn add_to_sums(&self, owner: &mut Owner, command: &'static str) {
        let amounts = self.counters.take();
        let key = CommandKey { protocol: self.protocol, command, folder: owner.size };
        match &owner.last_sums {
            Some((last, sums)) if *last == key => sums.add_all(&amounts),
            _ => {
                let sums = self.registry.command(key);
                sums.add_all(&amounts);
                owner.last_sums = Some((key, sums));
            }
        }
        if let Some(account) = &owner.account {
            account.add(key, owner.folder, &amounts);
        }
        if let Some(client) = &owner.client {
            client.add_all(&amounts);
        }
    }
}

impl Work {
    fn count_cpu(&mut self) {
        self.meter.counters.add(Counter::Cpu, self.cpu.take());
    }
}

/// Lets `with` use the current work of this thread, if there is one.
fn on_current<T>(with: impl FnOnce(&mut Work) -> T) -> Option<T> {
    CURRENT.try_with(|current| current.borrow_mut().as_mut().map(with)).ok().flatten()
}

/// Adds to a counter of the session that this thread works for.
pub fn count(counter: Counter, amount: u64) {
    on_current(|work| work.meter.counters.add(counter, amount));
}

/// The current session has carried out a command, with this folder selected. Its cost is counted
/// until [`command_ended`].
pub fn command(name: &'static str, folder: Option<OpenFolder>) {
    on_current(|work| {
        // The wait after the answer before this one ended at once: the poll continues.
        work.meter.answered.store(false, Ordering::Relaxed);
        let mut owner = work.meter.owner();
        owner.command = Some(name);
        owner.size = folder.map_or(FolderSize::None, |folder| FolderSize::of(folder.messages));
        owner.folder = folder;
    });
}

/// The verb at the beginning of a line if it is one of those known, else `other`: clients do not
/// choose the names of metrics.
pub fn verb(line: &[u8], known: &[&'static str]) -> &'static str {
    let end = line.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(line.len());
    let verb = &line[..end];
    known.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(verb)).copied().unwrap_or("other")
}

/// The next command of the current session begins: the counts since the end of the previous one are
/// the cost of the last one. Does nothing if that has ended.
pub fn command_ended() {
    on_current(|work| {
        if work.meter.owner().command.is_some() {
            work.count_cpu();
            work.meter.command_ended();
        }
    });
}

/// The answer to the last command of the current session was sent, and the session is about to
/// wait. The cost of the command ends with this poll, which saves a count.
pub fn command_answered() {
    on_current(|work| work.meter.answered.store(true, Ordering::Relaxed));
}

/// The current session works for this account from now on.
pub fn account(name: &str) {
    on_current(|work| {
        let account = work.meter.registry.account(name);
        work.meter.owner().account = Some(account);
    });
}

/// The client of the current session sent its program's name (RFC 2971).
pub fn client(name: &str) {
    on_current(|work| {
        let client = work.meter.registry.client(name);
        work.meter.owner().client = Some(client);
    });
}

/// The session of the current thread, to be taken to another thread.
pub fn current() -> Current {
    Current(on_current(|work| Arc::clone(&work.meter)))
}

/// See [`current`].
#[derive(Clone, Debug)]
pub struct Current(Option<Arc<Meter>>);

impl Current {
    /// Runs `work` on this thread for that session.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(meter) = &self.0 else { return work() };
        let _slice = TimeSlice::begin(Arc::clone(meter), Part::Other, Count::of_work());
        work()
    }

    /// Meters another task for that session. It may be polled at the same time as the session, and
    /// after it. Its polls end no command. If there was no session, the task is not metered.
    pub fn metered<F: Future>(&self, task: F) -> Continued<F> {
        Continued { meter: self.0.clone(), task: Box::pin(task) }
    }
}

/// A task that a session began: see [`Current::metered`]. It is boxed as that of a [`Metered`] is.
pub struct Continued<F> {
    meter: Option<Arc<Meter>>,
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Continued<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { meter, task } = &mut *self;
        match meter {
            Some(meter) => meter.run_poll(Part::Other, || task.as_mut().poll(cx)),
            None => task.as_mut().poll(cx),
        }
    }
}

/// The time in which a thread works for a session. Its end counts the CPU time, also of a panic.
struct TimeSlice {
    part: Part,
    before: Option<Work>,
}

impl TimeSlice {
    fn begin(meter: Arc<Meter>, part: Part, cpu: Count) -> Self {
        let work = Work { meter, cpu };
        let before = CURRENT.try_with(|current| current.replace(Some(work))).ok().flatten();
        Self { part, before }
    }
}

impl Drop for TimeSlice {
    fn drop(&mut self) {
        let before = self.before.take();
        let ended = CURRENT.try_with(|current| current.replace(before)).ok().flatten();
        if let Some(mut work) = ended {
            work.count_cpu();
            work.meter.worked(self.part);
        }
    }
}

/// A session's task that is metered.
///
/// The runtime's work between two polls is counted for these, too ([`crate::clock`]). Meter all
/// tasks of a runtime that use much CPU time.
pub struct Metered<F> {
    meter: Arc<Meter>,
    session: Pin<Box<F>>,
}

impl<F: Future> Metered<F> {
    /// Meters a session of this protocol. It is boxed: the task holds a pointer.
    pub fn new(registry: Arc<Registry>, protocol: &'static str, session: F) -> Self {
        Self::with(registry, protocol, SESSION, session)
    }

    /// Meters a task of the server itself, which has no commands. The sums have its cost after each
    /// poll.
    pub fn background(registry: Arc<Registry>, name: &'static str, task: F) -> Self {
        Self::with(registry, name, BACKGROUND, task)
    }

    fn with(registry: Arc<Registry>, protocol: &'static str, between: &'static str, session: F) -> Self {
        let meter = Meter {
            registry,
            protocol,
            between,
            counters: Counters::default(),
            answered: AtomicBool::new(false),
            owner: Mutex::default(),
        };
        Self { meter: Arc::new(meter), session: Box::pin(session) }
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { meter, session } = &mut *self;
        meter.run_poll(Part::Own, || session.as_mut().poll(cx))
    }
}

impl<F> Drop for Metered<F> {
    fn drop(&mut self) {
        self.meter.command_ended();
        let mut owner = self.meter.owner();
        owner.has_ended = true;
        self.meter.add_to_sums(&mut owner, self.meter.between);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::account::Use;
    use crate::clock::thread_cpu;
    use crate::counters::Amounts;
    use crate::long_poll::{LongPoll, watch_polls};
    use crate::registry::Snapshot;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Uses some CPU time. It is more than the millisecond that tests expect: the machine's clock
    /// may be slower than the thread's.
    fn burn() -> u64 {
        let from = thread_cpu();
        let mut x = 1_u64;
        while thread_cpu() - from < 1_200_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        x
    }

    #[test]
    fn a_long_poll_is_reported() {
        static FOUND: Mutex<Vec<LongPoll>> = Mutex::new(Vec::new());
        const LIMIT: Duration = Duration::from_micros(900);
        watch_polls(LIMIT, |poll| FOUND.lock().unwrap_or_else(PoisonError::into_inner).push(*poll));
        let task = std::future::poll_fn(|_| {
            command("BURN", None);
            burn();
            Poll::Ready(current().metered(async { burn() }))
        });
        let mut task = Metered::new(Arc::default(), "long poll", task);
        let Poll::Ready(mut continued) = poll(&mut task) else { panic!("it waits for nothing") };
        assert!(poll(&mut continued).is_ready());
        // Other tests of this process have long polls, too.
        let found = FOUND.lock().unwrap();
        let own: Vec<_> = found.iter().filter(|poll| poll.protocol == "long poll").collect();
        let [of_session, of_continued] = own[..] else { panic!("{own:?}") };
        for poll in [of_session, of_continued] {
            assert_eq!(poll.command, Some("BURN"));
            assert!(poll.cpu > LIMIT && poll.elapsed > LIMIT / 2, "{poll:?}");
        }
    }

    #[test]
    fn a_command_costs_what_was_done_since_the_one_before() {
        let registry = Arc::new(Registry::default());
        let mut polls = 0;
        let mut session = Metered::new(
            Arc::clone(&registry),
            "imap",
            std::future::poll_fn(move |_| {
                polls += 1;
                match polls {
                    1 => {
                        count(Counter::Received, 10);
                        burn();
                        return Poll::Pending;
                    }
                    2 => {
                        account("ana");
                        client("aerc");
                        command("LOGIN", None);
                        command_ended();
                        command_ended();
                        count(Counter::Sent, 5);
                        let here = current();
                        std::thread::scope(|scope| {
                            scope.spawn(|| here.run(|| (count(Counter::BodyReads, 3), burn())));
                        });
                        command("SEARCH", Some(OpenFolder { messages: 70_000, is_inbox: true }));
                        command_answered();
                    }
                    _ => {}
                }
                Poll::Ready(())
            }),
        );
        assert!(poll(&mut session).is_pending());
        count(Counter::Received, 1_000);
        assert!(poll(&mut session).is_ready());
        drop(session);
        let Snapshot { commands, accounts, clients } = registry.snapshot();
        let found = |command: &str| commands.iter().find(|(key, _)| key.command == command).copied().unwrap();
        let (login, search) = (found("LOGIN"), found("SEARCH"));
        assert_eq!((login.0.folder, search.0.folder), (FolderSize::None, FolderSize::Upto100000));
        assert_eq!((login.1.get(Counter::Received), login.1.get(Counter::Sent)), (10, 0));
        assert_eq!((search.1.get(Counter::Sent), search.1.get(Counter::BodyReads)), (5, 3));
        let messages = [login, search].map(|(_, sums)| sums.get(Counter::FolderMessages));
        assert_eq!(messages, [0, 70_000]);
        assert!(login.1.get(Counter::Cpu) >= 1_000_000 && search.1.get(Counter::Cpu) >= 1_000_000);
        assert_eq!(found("session").1.get(Counter::Commands), 0);
        let total = accounts[0].1.total();
        assert_eq!((accounts[0].0.as_str(), total.get(Counter::Commands)), ("ana", 2));
        let in_folder = accounts[0].1.in_folder(FolderSize::Upto100000);
        assert_eq!((in_folder.get(Counter::Commands), in_folder.get(Counter::BodyReads)), (1, 3));
        assert_eq!(in_folder.get(Counter::Cpu), search.1.get(Counter::Cpu));
        assert_eq!((clients[0].0.as_str(), clients[0].1), ("aerc", total));
        let [(account, uses)] = &registry.uses()[..] else { panic!("{:?}", registry.uses()) };
        let cpu = search.1.get(Counter::Cpu);
        let used = Use { key: search.0, is_inbox: true, cpu, commands: 1, folder_messages: 70_000 };
        assert_eq!((account.as_str(), &uses[..]), ("ana", &[used][..]));
    }

    /// A client that does not wait for answers: its next command is there before the session waits.
    #[test]
    fn an_answer_ends_no_command_that_comes_after_it() {
        let registry = Arc::new(Registry::default());
        let mut polls = 0;
        let task = std::future::poll_fn(move |_| {
            polls += 1;
            if polls == 1 {
                command("RCPT", None);
                command_answered();
                command_ended();
                command("DATA", None);
                return Poll::Pending;
            }
            count(Counter::Commits, 1);
            command_ended();
            Poll::Ready(())
        });
        let mut session = Metered::new(Arc::clone(&registry), "lmtp", task);
        assert!(poll(&mut session).is_pending() && poll(&mut session).is_ready());
        let Snapshot { commands, .. } = registry.snapshot();
        let commits = |name: &str| {
            let found = commands.iter().find(|(key, _)| key.command == name).map(|(_, sums)| *sums);
            found.map(|sums| (sums.get(Counter::Commands), sums.get(Counter::Commits)))
        };
        assert_eq!((commits("RCPT"), commits("DATA")), (Some((1, 0)), Some((1, 1))));
    }

    #[test]
    fn a_background_task_is_in_the_sums_while_it_runs() {
        let registry = Arc::new(Registry::default());
        let task = std::future::poll_fn(|_| -> Poll<()> {
            burn();
            count(Counter::BodyReads, 1);
            Poll::Pending
        });
        let mut task = Metered::background(Arc::clone(&registry), "maintenance", task);
        for reads in 1..=2 {
            assert!(poll(&mut task).is_pending());
            let Snapshot { commands, .. } = registry.snapshot();
            let [(key, sums)] = commands[..] else { panic!("{commands:?}") };
            assert_eq!((key.protocol, key.command), ("maintenance", BACKGROUND));
            assert_eq!(sums.get(Counter::BodyReads), reads);
            assert!(sums.get(Counter::Cpu) >= reads * 1_000_000);
        }
    }

    /// The sums of a command.
    fn sums_of(registry: &Registry, command: &str) -> Amounts {
        let Snapshot { commands, .. } = registry.snapshot();
        let found = commands.iter().find(|(key, _)| key.command == command);
        found.map(|(_, sums)| *sums).unwrap_or_default()
    }

    #[test]
    fn continued_work_counts_for_its_session_and_ends_no_command() {
        let registry = Arc::new(Registry::default());
        let mut session = Metered::new(Arc::clone(&registry), "imap", async {
            command("STORE", None);
            let mut continued = current().metered(async {
                count(Counter::BodyReads, 3);
                burn()
            });
            command_answered();
            // Another thread polls it, while this poll goes on.
            let outcome = std::thread::scope(|scope| scope.spawn(|| poll(&mut continued)).join());
            assert!(outcome.unwrap().is_ready());
            count(Counter::Sent, 5);
        });
        assert!(poll(&mut session).is_ready());
        let store = sums_of(&registry, "STORE");
        let counted = [Counter::Commands, Counter::BodyReads, Counter::Sent].map(|c| store.get(c));
        assert_eq!(counted, [1, 3, 5]);
        assert!(store.get(Counter::Cpu) >= 1_000_000, "{store:?}");
    }

    #[test]
    fn continued_work_counts_after_the_end_of_its_session() {
        let registry = Arc::new(Registry::default());
        let session = std::future::poll_fn(|_| {
            command("STORE", None);
            Poll::Ready(current().metered(async { count(Counter::Commits, 1) }))
        });
        let mut session = Metered::new(Arc::clone(&registry), "imap", session);
        let Poll::Ready(mut continued) = poll(&mut session) else { panic!("it waits for nothing") };
        drop(session);
        assert!(poll(&mut continued).is_ready());
        let commits = |command: &str| sums_of(&registry, command).get(Counter::Commits);
        assert_eq!((commits("STORE"), commits(SESSION)), (0, 1));
        assert_eq!(sums_of(&registry, "STORE").get(Counter::Commands), 1);
    }

    #[test]
    fn continued_work_of_a_background_task_is_in_the_sums_while_it_runs() {
        let registry = Arc::new(Registry::default());
        let task = std::future::poll_fn(|_| {
            let continued = async {
                count(Counter::Commits, 1);
                std::future::pending::<()>().await;
            };
            Poll::Ready(current().metered(continued))
        });
        let mut task = Metered::background(Arc::clone(&registry), "queue", task);
        let Poll::Ready(mut continued) = poll(&mut task) else { panic!("it waits for nothing") };
        assert!(poll(&mut continued).is_pending());
        assert_eq!(sums_of(&registry, BACKGROUND).get(Counter::Commits), 1);
    }

    #[test]
    fn without_a_session_a_task_is_not_metered() {
        let mut task = current().metered(async { current().0.is_none() });
        assert_eq!(poll(&mut task), Poll::Ready(true));
    }

    #[test]
    fn sessions_in_one_thread_do_not_mix() {
        let registry = Arc::new(Registry::default());
        let inner = Metered::new(Arc::clone(&registry), "lmtp", async { count(Counter::Sent, 1) });
        let mut outer = Metered::new(Arc::clone(&registry), "smtp", async {
            count(Counter::Sent, 10);
            inner.await;
            count(Counter::Sent, 100);
        });
        assert!(poll(&mut outer).is_ready());
        drop(outer);
        let sent: Vec<_> = registry
            .snapshot()
            .commands
            .iter()
            .map(|(key, sums)| (key.protocol, sums.get(Counter::Sent)))
            .collect();
        assert_eq!(sent, [("lmtp", 1), ("smtp", 110)]);
        assert!(current().0.is_none());
    }
}
