//! A well-behaved client during the attacks: it lists its mailbox again and again, and every
//! answer must be the same as the first.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posthaste_testkit::LineClient;

use crate::gauge::SchedTimes;
use crate::{Gauge, Times};

/// Messages in its mailbox: a listing of some 60 KiB.
pub const MESSAGES: usize = 200;
/// Between two listings, so that it takes little of the server for itself.
const PAUSE: Duration = Duration::from_millis(5);
/// How long its times alone are measured.
const ALONE_FOR: Duration = Duration::from_secs(10);
/// Longest that a test waits for it: only a failure does.
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    paused: AtomicBool,
    answered: AtomicUsize,
    times: Mutex<Vec<(Duration, Duration)>>,
    fault: Mutex<Option<String>>,
}

/// The client's thread. It ends when this is dropped.
pub struct Neighbour {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Fills the mailbox of an account and begins to list it.
    pub fn start(imap: SocketAddr, user: &str, password: &str, server: Gauge) -> Result<Self> {
        let mut client = LineClient::connect(imap)?;
        client.line()?;
        client.imap(&format!("LOGIN {user} \"{password}\""))?;
        for n in 1..=MESSAGES {
            let text = format!(
                "Date: Mon, 1 Jan 2024 00:00:00 +0000\r\nFrom: a{n}@example.net\r\nTo: {user}\r\nSubject: letter {n}\r\nMessage-ID: <{n}@example.net>\r\n\r\nBody {n}.\r\n"
            );
            client.imap(&format!("APPEND INBOX {{{}+}}\r\n{text}", text.len()))?;
        }
        client.imap("SELECT INBOX")?;
        let first = client.imap(LISTING)?;
        assert_eq!(first.len(), MESSAGES + 1, "the neighbour's own listing: {:?}", first.last());
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || list(client, &first, &seen, server));
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Waits until it has this many more answers, or returns its fault.
    pub fn wait_for(&self, answers: usize) -> std::result::Result<(), String> {
        let until = self.shared.answered.load(Ordering::Relaxed) + answers;
        let began = Instant::now();
        while self.shared.answered.load(Ordering::Relaxed) < until {
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            if began.elapsed() > TIMEOUT {
                return Err(format!("the neighbour was not answered within {TIMEOUT:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The wrong answer that it got.
    pub fn fault(&self) -> Option<String> {
        self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The times since the last call.
    pub fn take_times(&self) -> Times {
        Times::new(std::mem::take(&mut *self.shared.times.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Measures it for ten seconds, while nobody else uses the server.
    pub fn alone(&self) -> Times {
        self.take_times();
        std::thread::sleep(ALONE_FOR);
        self.take_times()
    }

    /// Keeps it silent during a measurement that it would disturb.
    pub fn quiet<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.paused.store(true, Ordering::Relaxed);
        // Time for the listing under way. The next look finds its fault.
        std::thread::sleep(Duration::from_millis(50));
        let done = work();
        self.shared.paused.store(false, Ordering::Relaxed);
        done
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const LISTING: &str = "FETCH 1:* (UID FLAGS ENVELOPE)";

fn list(mut client: LineClient, first: &[String], shared: &Shared, server: Gauge) {
    while !shared.stop.load(Ordering::Relaxed) {
        if shared.paused.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
            continue;
        }
        let before = (server.threads(), SchedTimes::own());
        let began = Instant::now();
        let answer = client.imap(LISTING);
        let took = began.elapsed();
        let own = SchedTimes::own().waited_since(before.1);
        let waited = own + server.threads().waited_since(&before.0, took);
        let fault = match answer {
            Ok(lines) if lines == first => None,
            Ok(lines) => Some(format!("the neighbour got another listing: {:?}", lines.last())),
            Err(error) => Some(format!("the neighbour was not answered: {error}")),
        };
        if fault.is_some() {
            *shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            return;
        }
        shared.times.lock().unwrap_or_else(PoisonError::into_inner).push((took, waited));
        shared.answered.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
}
