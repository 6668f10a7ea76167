//! Commands over many mailboxes: how often other tasks have their turn meanwhile.
//!
//! All engines answer at once here. So each time that a command waits is a pause.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use posthaste_directory::NewAccount;
use posthaste_mail_model::{NumSet, Secret};
use posthaste_net::{Connection, Shutdown, ShutdownTrigger, Stream};
use tokio::io::DuplexStream;

use crate::heavy::SLICE_STEPS;
use crate::session::Session;
use crate::size_tests::service;
use crate::wire::OUT_BYTES;
use crate::{apart, connection};

/// Mailboxes with a message each.
const MAILBOXES: usize = 200;

/// A session that has logged in, and a client that reads nothing.
struct Paused {
    session: Box<Session>,
    _client: DuplexStream,
    _trigger: ShutdownTrigger,
}

impl Paused {
    async fn begin() -> Self {
        let service = Arc::new(service());
        let password = Secret::new("correct horse".to_owned());
        service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let (trigger, shutdown) = Shutdown::new();
        let (client, server) = tokio::io::duplex(1 << 20);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
        let session = Box::new(Session::on(service, connection, shutdown));
        let mut paused = Self { session, _client: client, _trigger: trigger };
        paused.run("LOGIN ana@example.org \"correct horse\"").await;
        for n in 0..MAILBOXES {
            paused.run(&format!("CREATE m{n}")).await;
            paused.run(&format!("APPEND m{n} {{1+}}\r\nx")).await;
        }
        paused
    }

    /// Another session of the same account.
    async fn another(&self) -> Self {
        let service = Arc::clone(&self.session.service);
        let (trigger, shutdown) = Shutdown::new();
        let (client, server) = tokio::io::duplex(1 << 20);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_001), address(143)));
        let session = Box::new(Session::on(service, connection, shutdown));
        let mut paused = Self { session, _client: client, _trigger: trigger };
        paused.run("LOGIN ana@example.org \"correct horse\"").await;
        paused
    }

    /// Runs a command while somebody has what it may need. Whether it waited for that.
    async fn waits_for<T>(&mut self, held: T, command: &str) -> bool {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let (mut held, mut polls) = (Some(held), 0);
        {
            let mut work = pin!(connection::one_command(&mut self.session, bytes));
            while poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
                polls += 1;
                // More pauses than it needs.
                if polls == 2000 {
                    held = None;
                }
                tokio::task::yield_now().await;
            }
        }
        self.session.wire.out().clear();
        held.is_none()
    }

    /// The client reads everything from now on.
    fn read_all(&mut self) {
        let (unread, _) = tokio::io::duplex(1);
        let mut client = std::mem::replace(&mut self._client, unread);
        tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
    }

    /// Runs a command. How often it paused.
    async fn run(&mut self, command: &str) -> usize {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let mut pauses = 0;
        {
            let mut work = pin!(connection::one_command(&mut self.session, bytes));
            loop {
                match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                    Poll::Ready(done) => {
                        done.unwrap();
                        break;
                    }
                    Poll::Pending => pauses += 1,
                }
                tokio::task::yield_now().await;
            }
        }
        let said = String::from_utf8_lossy(self.session.wire.out()).into_owned();
        assert!(said.lines().any(|line| line.starts_with("a OK")), "{command}: {said}");
        self.session.wire.out().clear();
        pauses
    }
}

/// ESEARCH over 500 mailboxes took 27 ms in one poll.
#[tokio::test]
async fn mailboxes_that_are_opened_for_one_command_are_opened_in_slices() {
    let mut paused = Paused::begin().await;
    let (slices, keys) = (MAILBOXES / 20, vec!["NOT SUBJECT y"; 1000].join(" "));
    for (command, least) in [
        ("ESEARCH IN (personal) RETURN (COUNT) ALL".to_owned(), slices),
        (format!("ESEARCH IN (personal) RETURN (COUNT) {keys}"), 2 * slices),
        ("LIST \"\" * RETURN (STATUS (RECENT))".to_owned(), slices),
        // It needs no rows.
        ("LIST \"\" * RETURN (STATUS (MESSAGES))".to_owned(), 0),
    ] {
        let pauses = paused.run(&command).await;
        assert!(pauses >= least.saturating_sub(1), "{command:.50}: {pauses} pauses");
        assert!(pauses <= 3 * least + 1, "{command:.50}: {pauses} pauses");
    }
}

/// Each item of a body is read by itself: a thousand took 98 ms in one poll.
#[tokio::test]
async fn many_items_of_a_message_are_read_in_slices() {
    let mut paused = Paused::begin().await;
    paused.run("SELECT m0").await;
    for (items, least) in [(10, 0), (1000, 1000 / 20)] {
        let pieces: String = (0..items).map(|n| format!(" BODY.PEEK[]<{n}.1>")).collect();
        let pauses = paused.run(&format!("FETCH 1 (UID{pieces})")).await;
        assert!((least..=2 * least + 1).contains(&pauses), "{items} items: {pauses} pauses");
    }
}

/// A thousand selections from a header of 63 KiB took 132 ms in one poll, and 61 MiB.
#[tokio::test]
async fn items_from_a_summary_are_sent_one_by_one() {
    const ITEMS: usize = 200;
    let mut paused = Paused::begin().await;
    paused.read_all();
    let header: String = (0..4).map(|n| format!("X-{n}: {}\r\n", "y".repeat(15_000))).collect();
    let message = format!("{header}\r\nx");
    paused.run(&format!("APPEND m0 {{{}+}}\r\n{message}", message.len())).await;
    paused.run("SELECT m0").await;
    let items: String = (0..ITEMS).map(|n| format!(" BODY.PEEK[HEADER.FIELDS.NOT (Z{n})]")).collect();
    let pauses = paused.run(&format!("FETCH 2 (UID{items})")).await;
    // Sending an octet is a step.
    let least = ITEMS as u64 * header.len() as u64 / SLICE_STEPS;
    assert!(pauses as u64 >= least, "{pauses} pauses");
    // What is left to send is the end of the response.
    assert!(paused.session.wire.out().capacity() <= 2 * OUT_BYTES);
}

/// Operations on sets of half a million ranges took up to 52 ms in one poll.
#[tokio::test]
async fn large_sets_are_worked_on_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.run("SELECT m0").await;
    for (ranges, is_large) in [(1000, false), (60_000, true)] {
        let saved: NumSet = NumSet::from_ranges((1..=ranges).map(|n| (2 * n, 2 * n)));
        let saved = Arc::new(saved);
        for command in [
            "SEARCH RETURN (COUNT) NOT $ NOT $ $ $ $",
            "SEARCH RETURN (PARTIAL 1:10) $ UNSEEN",
            "STORE $ +FLAGS.SILENT (\\Answered)",
            "FETCH $ (UID)",
            "UID FETCH $ (FLAGS) (CHANGEDSINCE 1)",
        ] {
            // The other thread may be done before this one looks, so several times are enough.
            let mut pauses = 0;
            for _ in 0..if is_large { 50 } else { 1 } {
                paused.session.selected.as_mut().unwrap().saved_search = Arc::clone(&saved);
                pauses += paused.run(command).await;
            }
            assert_eq!(pauses > 0, is_large, "{command}: {pauses} pauses");
        }
    }
}

/// 400,000 ranges were printed in one poll, into memory that was held until the client read them.
#[tokio::test]
async fn long_sets_are_sent_in_slices() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    let ranges: Vec<(u32, u32)> = (1..=100_000).map(|n| (3 * n, 3 * n + n % 2)).collect();
    let wire = &mut paused.session.wire;
    let mut whole = Vec::new();
    posthaste_imap_codec::print::ranges(&mut whole, &ranges);
    apart::print_ranges(wire, &ranges).await.unwrap();
    let left = wire.out();
    assert!(!left.is_empty() && left.capacity() <= 2 * OUT_BYTES, "{}", left.capacity());
    assert!(whole.ends_with(left), "the end of the set is left to send");
}

/// SORT and THREAD of 800,000 messages took up to 37 ms in one poll.
#[tokio::test]
async fn long_sorts_and_threads_are_computed_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    paused.run("SELECT m0").await;
    for (copies, is_long) in [(6, false), (10, true)] {
        for _ in 0..copies {
            paused.run("COPY 1:* m0").await;
        }
        paused.run("NOOP").await;
        for command in
            ["THREAD REFERENCES UTF-8 ALL", "THREAD REFS UTF-8 ALL", "SORT (REVERSE DATE) UTF-8 ALL"]
        {
            let (service, account) =
                (Arc::clone(&paused.session.service), paused.session.login().unwrap().id);
            let held = service.heavy.hold(account).await;
            assert_eq!(paused.waits_for(held, command).await, is_long, "{command}");
        }
    }
}

/// A change that 40 sessions reported delayed others by a slice of each of them: 38 ms.
#[tokio::test]
async fn sessions_of_an_account_report_large_changes_one_after_the_other() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    let mut other = paused.another().await;
    other.read_all();
    paused.run("SELECT m0").await;
    for _ in 0..11 {
        paused.run("COPY 1:* m0").await;
    }
    other.run("SELECT m0").await;
    let account = paused.session.login().unwrap().id;
    for (set, is_long) in [("1:10", false), ("1:*", true)] {
        paused.run(&format!("STORE {set} +FLAGS.SILENT (\\Flagged)")).await;
        let held = paused.session.service.turns.acquire(account).await;
        assert_eq!(other.waits_for(held, "NOOP").await, is_long, "{set}");
        // Nobody keeps a turn.
        assert_eq!(paused.session.service.turns.keys(), 0);
        paused.run("STORE 1:* -FLAGS.SILENT (\\Flagged)").await;
        other.run("NOOP").await;
    }
    other.run("UID SEARCH RETURN (UPDATE) FLAGGED").await;
    paused.run("STORE 1:100 +FLAGS.SILENT (\\Flagged)").await;
    let held = paused.session.service.turns.acquire(account).await;
    assert!(other.waits_for(held, "NOOP").await, "messages are evaluated for a result");
}
