//! The process ends before any one of its writes: each report comes once, and no message is lost.
//!
//! The clock of the runtime moves to the next deadline when nothing can be done: no test waits.

use posthaste_directory::Forward;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, DirectoryChange, MailboxCommit, Result};

use super::*;

/// An engine of a process that ends before one of its writes. Its writes stay.
struct Mortal {
    inner: Arc<MemoryEngine>,
    /// Writes that are left; negative once it is dead.
    left: AtomicI64,
}

impl Mortal {
    async fn write(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            std::future::pending::<()>().await;
        }
    }

    fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

#[async_trait]
impl Layer for Mortal {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.write().await;
        self.inner.directory_commit(change).await
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.write().await;
        self.inner.commit(commit).await
    }

    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.write().await;
        self.inner.commit_pair(pair).await
    }
}

/// The events of a message before and after the kill.
struct Case {
    from: &'static str,
    to: &'static [(&'static str, &'static str)],
    /// The host's answer to each attempt.
    host: fn() -> Script,
    at: i64,
    /// Whether the message ends in the queue at that time.
    ends: bool,
    action: &'static str,
}

impl Case {
    /// Adds what waits, in a process that lives.
    async fn begin(&self) -> Arc<MemoryEngine> {
        let engine = Arc::new(MemoryEngine::new());
        let world = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
        let directory = world.relay.delivery().directory();
        for name in ["ana@example.org", "on@example.org"] {
            directory.add(name, &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
        }
        let forward = Forward { to: vec!["on@far.test".into()], keep: false };
        directory.set_forward("on@example.org", Some(forward)).await.unwrap();
        let to = self.to.iter().map(|(to, notify)| To { notify: Notify::parse(notify), ..To::new(to) });
        let envelope = Envelope { to: to.collect(), ..Envelope::new(self.from, &[]) };
        world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
        engine
    }

    /// A process, from its start to the end of its work or its own.
    async fn live(&self, engine: &Arc<MemoryEngine>, (at, writes): (i64, i64)) -> (World, bool) {
        let mortal = Arc::new(Mortal { inner: Arc::clone(engine), left: AtomicI64::new(i64::MAX) });
        let mut world = World::of(Arc::clone(&mortal) as Arc<dyn Engine>).await;
        mortal.left.store(writes, Ordering::SeqCst);
        world.script("x.test", std::iter::repeat_with(self.host).take(9));
        world.now.store(at, Ordering::SeqCst);
        let beside = World::of(Arc::clone(engine) as Arc<dyn Engine>).await;
        world.start();
        let is_over = async {
            loop {
                let items = beside.items().await;
                let is_over = |item: &Item| !self.ends && item.warned && item.pending.is_empty();
                if items.iter().all(is_over) {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let died = async {
            while !mortal.is_dead() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (stop, task) = world.running.take().unwrap();
        let abort = task.abort_handle();
        let whole = async {
            is_over.await;
            let _ = stop.send(());
            task.await.unwrap();
        };
        tokio::select! {
            biased;
            () = died => {}
            () = whole => {}
        }
        abort.abort();
        (world, mortal.is_dead())
    }

    /// Reports that reached the sender: in INBOX, at `far.test`, or on the way through a forward.
    /// The latter two may come twice (RFC 1047), so that is one.
    async fn reports(&self, worlds: &mut [World]) -> Vec<String> {
        let mut found = worlds[0].inbox().await;
        for world in worlds {
            while let Ok(event) = world.events.try_recv() {
                if let Event::Got(to, _, text) = event
                    && (to == "far.test" || to == "+here")
                {
                    let text = String::from_utf8(text.to_vec()).unwrap();
                    found.extend(Some(text).filter(|text| !found.contains(text)));
                }
            }
        }
        found
    }

    async fn survives(&self) {
        let mut kills = 0;
        for writes in 0.. {
            let engine = self.begin().await;
            let (first, is_dead) = self.live(&engine, (self.at, writes)).await;
            // A report that is made again then is another one.
            let (second, _) = self.live(&engine, (self.at + HOUR, i64::MAX / 2)).await;
            let fresh = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
            let left = fresh.items().await;
            assert!(left.iter().all(|item| !self.ends && item.pending.is_empty()), "{writes}: {left:?}");
            let reports = self.reports(&mut [fresh, first, second]).await;
            let action = format!("\r\nAction: {}\r\n", self.action);
            let fit = reports.iter().filter(|report| report.contains(&action)).count();
            assert_eq!((reports.len(), fit), (1, 1), "killed before write {writes}: {reports:?}");
            if !is_dead {
                break;
            }
            kills += 1;
        }
        // The report, the item that names it, its way, the item again.
        assert!(kills >= 4, "{kills}");
    }
}

fn refusal() -> Script {
    Script::Answers(vec![Err(no_such_user()), Ok(())])
}

const TWO: &[(&str, &str)] = &[("no@x.test", "FAILURE"), ("yes@x.test", "FAILURE")];

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_once_to_a_sender_here() {
    let from = "ana@example.org";
    Case { from, to: TWO, host: refusal, at: START, ends: true, action: "failed" }.survives().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_once_to_a_sender_elsewhere() {
    let from = "ana@far.test";
    Case { from, to: TWO, host: refusal, at: START, ends: true, action: "failed" }.survives().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_once_to_a_sender_who_forwards() {
    let from = "on@example.org";
    Case { from, to: TWO, host: refusal, at: START, ends: true, action: "failed" }.survives().await;
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_takes_no_mail_is_reported_once() {
    let host = || Script::Unreachable(Failure::permanent("5.1.10", "x.test takes no mail"));
    for from in ["ana@example.org", "ana@far.test"] {
        Case { from, to: TWO, host, at: START, ends: true, action: "failed" }.survives().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_is_reported_once() {
    let host = || Script::Answers(vec![Ok(())]);
    let to = &[("yes@x.test", "SUCCESS")];
    for from in ["ana@example.org", "ana@far.test"] {
        Case { from, to, host, at: START, ends: true, action: "relayed" }.survives().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_reported_once() {
    let host = || Script::Unreachable(Failure::temporary("4.4.1", "no answer"));
    let to = &[("yes@x.test", "DELAY")];
    for from in ["ana@example.org", "ana@far.test"] {
        Case { from, to, host, at: START + 5 * HOUR, ends: false, action: "delayed" }.survives().await;
    }
}
