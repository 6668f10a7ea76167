//! Commands over many mailboxes: how often other tasks have their turn meanwhile.
//!
//! All engines answer at once here. So each time that a command waits is a pause.

#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::{NewAccount, Reading};
use posthaste_mail_model::{AccountId, Flag, FlagSet, MailboxName, ModSeq, NumSet, Secret, Uid};
use posthaste_net::{ByteBudget, Connection, Shutdown, ShutdownTrigger, Stream};
use posthaste_store::{FlagChange, MailboxHead, Row, ViewBuilder};
use tokio::io::{AsyncWriteExt, DuplexStream};

use crate::heavy::SLICE_STEPS;
use crate::offload::Threads;
use crate::seen::FlagOrder;
use crate::seen_overlay::SeenOverlay;
use crate::service::ImapService;
use crate::session::Session;
use crate::size_tests::service_summarizing;
use crate::wire::OUT_BYTES;
use crate::{connection, offload, seen};

/// Mailboxes with a message each.
pub(crate) const MAILBOXES: usize = 200;

/// A session that has logged in, and a client that reads nothing.
pub(crate) struct Paused {
    pub(crate) session: Box<Session>,
    _client: DuplexStream,
    _trigger: ShutdownTrigger,
}

impl Paused {
    pub(crate) async fn begin() -> Self {
        // A COPY of 262,144 messages takes 184 MB, and may take a quarter of this.
        let service = Arc::new(service_summarizing(ByteBudget::new(1 << 30)));
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
    pub(crate) async fn waits_for<T>(&mut self, held: T, command: &str) -> bool {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let (waited, done) = waits(held, connection::one_command(&mut self.session, bytes)).await;
        done.unwrap();
        self.session.wire.out().clear();
        waited
    }

    /// Runs a command while another computes for the account. Whether it waited for that thread.
    pub(crate) async fn waits_for_thread(&mut self, command: &str) -> bool {
        let (service, account) = self.account();
        self.waits_for(service.heavy.acquire(account).await, command).await
    }

    pub(crate) fn account(&self) -> (Arc<ImapService>, AccountId) {
        (Arc::clone(&self.session.service), self.session.login().unwrap().id)
    }

    /// Selects `m0`, and copies it into itself so often: 1 message becomes `1 << doublings`.
    pub(crate) async fn doubled(&mut self, doublings: u32) {
        self.run("SELECT m0").await;
        for _ in 0..doublings {
            self.run("COPY 1:* m0").await;
        }
        self.run("NOOP").await;
    }

    /// Saves every second UID up to this one as `$`.
    pub(crate) fn save_every_second(&mut self, last: u32) {
        let saved = NumSet::from_ranges((1..=last / 2).map(|n| (2 * n, 2 * n)));
        self.session.selected.as_mut().unwrap().saved_search = Arc::new(saved).into();
    }

    /// Runs a command. The CPU time of its longest poll.
    async fn longest_poll(&mut self, command: &str) -> Duration {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let mut longest = Duration::ZERO;
        let mut work = pin!(connection::one_command(&mut self.session, bytes));
        loop {
            let before = cpu_time();
            let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            longest = longest.max(cpu_time().saturating_sub(before));
            if polled.is_ready() {
                return longest;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The client sends bytes, which the session has not read yet.
    pub(crate) async fn client_sends(&mut self, bytes: &[u8]) {
        self._client.write_all(bytes).await.unwrap();
    }

    /// The client reads everything from now on.
    fn read_all(&mut self) {
        let (unread, _) = tokio::io::duplex(1);
        let mut client = std::mem::replace(&mut self._client, unread);
        tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
    }

    /// Runs a command. How often it paused.
    pub(crate) async fn run(&mut self, command: &str) -> usize {
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

/// The CPU time of this thread, as Linux counts it (`sched-stats.rst`).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Does work while somebody has what it may need. Whether it waited for that, and its outcome.
async fn waits<T, W: Future>(held: T, work: W) -> (bool, W::Output) {
    let (mut held, mut polls, mut work) = (Some(held), 0, pin!(work));
    loop {
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            return (held.is_none(), done);
        }
        polls += 1;
        // More pauses than it needs.
        if polls == 2000 {
            held = None;
        }
        tokio::task::yield_now().await;
    }
}

/// ESEARCH over 500 mailboxes took 27 ms in one poll.
#[tokio::test]
async fn mailboxes_that_are_opened_for_one_command_are_opened_in_slices() {
    let mut paused = Paused::begin().await;
    let (slices, keys) = (MAILBOXES / 10, vec!["NOT SUBJECT y"; 1000].join(" "));
    for (command, least) in [
        ("ESEARCH IN (personal) RETURN (COUNT) ALL".to_owned(), slices),
        (format!("ESEARCH IN (personal) RETURN (COUNT) {keys}"), slices + slices / 2),
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

/// A thousand parts of a few octets were read in one poll of 11 ms.
#[tokio::test]
async fn many_parts_of_a_new_message_are_read_in_slices() {
    const PARTS: usize = 200;
    let mut paused = Paused::begin().await;
    let parts = vec!["URL \"/m0/;UID=1/;SECTION=TEXT\""; PARTS].join(" ");
    let pauses = paused.run(&format!("APPEND m1 CATENATE ({parts})")).await;
    // Each is looked up, and read.
    let slices = 2 * PARTS / 20;
    assert!((slices - 1..=slices + 2).contains(&pauses), "{pauses} pauses");
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
    // Only the end of the response is still unsent.
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
                paused.session.selected.as_mut().unwrap().saved_search = Arc::clone(&saved).into();
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
    offload::print_ranges(wire, &ranges).await.unwrap();
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
            assert_eq!(paused.waits_for_thread(command).await, is_long, "{command}");
        }
    }
}

/// A short summary costs more than its octets: it is looked up. 32,768 took a poll of 10 ms.
#[tokio::test]
async fn a_search_through_short_summaries_has_pauses() {
    let mut paused = Paused::begin().await;
    paused.doubled(16).await;
    let pauses = paused.run("SEARCH RETURN (COUNT) SUBJECT y").await;
    // Seven, and those in which it waits for another thread.
    assert!((7..=20).contains(&pauses), "{pauses} pauses");
    // Opening each costs more: 2,000 messages of one octet took 13 ms. Another search collects for
    // the index meanwhile.
    let id = paused.session.selected.as_ref().unwrap().mailbox.id();
    let _collecting = paused.session.service.index.collect(id).await.unwrap();
    let pauses = paused.run("SEARCH RETURN (COUNT) 1:4000 BODY y").await;
    assert!((10..=20).contains(&pauses), "{pauses} pauses");
}

/// A summary is verified and read whole, whatever is printed of it: 128 of 10 MiB were read in one
/// poll.
#[tokio::test]
async fn a_listing_of_long_summaries_has_pauses() {
    const PARTS: usize = 6000;
    let mut paused = Paused::begin().await;
    let parts = "--b\r\n\r\nx\r\n".repeat(PARTS);
    let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n");
    paused.run(&format!("APPEND m0 {{{}+}}\r\n{message}", message.len())).await;
    paused.doubled(7).await;
    // Each part takes over 40 octets of a summary, and every second message has them.
    let least = 128 * PARTS as u64 * 40 / 4 / (2 * SLICE_STEPS);
    let pauses = paused.run("FETCH 1:* (EMAILID)").await;
    assert!(pauses as u64 > least, "{pauses} pauses");
}

/// Each range counted all of them: 262,144 took 67 s in all, and polls of 839 ms. Nothing but CPU
/// time shows it. The bound is that of `posthaste --test hostile` for debug builds.
#[tokio::test]
async fn changes_of_many_ranges_are_reported_in_short_polls() {
    let mut paused = Paused::begin().await;
    let mut other = paused.another().await;
    paused.read_all();
    other.read_all();
    paused.doubled(17).await;
    other.run("SELECT m0").await;
    // A poll that computes too much does so each time. One whose processor was slow for a moment
    // does not.
    let mut longest = Duration::MAX;
    for sign in ["+", "-", "+", "-", "+"] {
        paused.save_every_second(1 << 17);
        paused.run(&format!("STORE $ {sign}FLAGS.SILENT (\\Flagged)")).await;
        longest = longest.min(other.longest_poll("NOOP").await);
        if longest < Duration::from_millis(100) {
            return;
        }
    }
    panic!("{longest:?}");
}

/// Commands that look at all rows, or at long sets, in one go.
#[tokio::test]
async fn large_mailboxes_are_looked_at_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    paused.run("SELECT m0").await;
    for (last, is_long) in [(2000, false), (120_000, true)] {
        paused.save_every_second(last);
        let command = "SEARCH RETURN (PARTIAL 1:10) $ UNSEEN";
        assert_eq!(paused.waits_for_thread(command).await, is_long, "{command}");
    }
    for (doublings, is_large) in [(6, false), (12, true)] {
        paused.doubled(doublings).await;
        paused.run("STORE 1 +FLAGS.SILENT (\\Deleted)").await;
        for command in ["STATUS m0 (DELETED-STORAGE)", "COPY 1:* m1"] {
            assert_eq!(paused.waits_for_thread(command).await, is_large, "{command}");
        }
    }
}

/// With a limit of messages it also looked at all rows, in the poll of the command.
#[tokio::test]
async fn the_messages_of_uid_expunge_are_found_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.run("SELECT m0").await;
    for (limit, last, is_long) in
        [(0, 2000, false), (0, 120_000, true), (1000, 2000, false), (1000, 60_000, true)]
    {
        Arc::make_mut(paused.session.login.as_mut().unwrap()).command_limits.process = Some(limit);
        paused.save_every_second(last);
        assert_eq!(paused.waits_for_thread("UID EXPUNGE $").await, is_long, "{limit}: {last}");
    }
}

/// VANISHED of 32,768 ranges was computed and printed in the poll of SELECT.
#[tokio::test]
async fn long_lists_of_expunged_messages_are_made_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    paused.run("ENABLE QRESYNC").await;
    paused.doubled(16).await;
    let (service, account) = paused.account();
    let list = service.store.list(account).await.unwrap();
    let m0 = list.find(&MailboxName::new("m0").unwrap()).unwrap();
    paused.save_every_second(1 << 16);
    paused.run("STORE $ +FLAGS.SILENT (\\Deleted)").await;
    // No message has changed since then.
    let since = paused.session.selected.as_ref().unwrap().announced.modseq().value();
    paused.run("EXPUNGE").await;
    let fetch = format!("UID FETCH 1:* (FLAGS) (CHANGEDSINCE {since} VANISHED)");
    let select = format!("SELECT m0 (QRESYNC ({} {since}))", m0.uid_validity.value());
    for command in [&fetch, &select] {
        assert!(paused.waits_for_thread(command).await, "{command}");
        assert!(paused.session.wire.out().capacity() <= 2 * OUT_BYTES, "{command}");
    }
}

/// COPYUID and MODIFIED of 32,768 ranges were printed in one poll, into 190 KB of memory.
#[tokio::test]
async fn long_codes_are_sent_in_slices() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    paused.doubled(16).await;
    for (command, end) in [
        (
            "STORE $ (UNCHANGEDSINCE 1) +FLAGS.SILENT (\\Flagged)",
            "] Some messages were changed by others\r\n",
        ),
        ("COPY $ m1", "] COPY completed\r\n"),
        ("MOVE $ m1", "a OK MOVE completed\r\n"),
    ] {
        paused.save_every_second(1 << 16);
        *paused.session.wire.out() = Vec::new();
        let bytes = Bytes::from(format!("a {command}\r\n"));
        connection::one_command(&mut paused.session, bytes).await.unwrap();
        let out = paused.session.wire.out();
        assert!(out.ends_with(end.as_bytes()), "{command}: {}", String::from_utf8_lossy(out));
        assert!(out.capacity() <= 2 * OUT_BYTES, "{command}: {} bytes", out.capacity());
        out.clear();
    }
}

/// All changes of a mailbox of another account were overlaid in one poll.
#[tokio::test]
async fn seen_flags_of_a_user_are_applied_on_another_thread() {
    let mut paused = Paused::begin().await;
    paused.read_all();
    let (service, account) = paused.account();
    let threads = Threads { service: &service, account };
    paused.doubled(15).await;
    let mailbox = Arc::clone(&paused.session.selected.as_ref().unwrap().mailbox);
    let reading = Reading { owner: account, mailbox: mailbox.id(), reader: account };
    let mut overlay = SeenOverlay::begin(threads, (reading, NumSet::new()), mailbox.view()).await.unwrap();
    for (set, is_large) in [("1:10", false), ("1:*", true)] {
        paused.run(&format!("STORE {set} +FLAGS.SILENT (\\Flagged)")).await;
        let held = service.heavy.acquire(account).await;
        let (waited, shown) = waits(held, overlay.follow(threads, mailbox.view())).await;
        assert_eq!(waited, is_large, "{set}");
        assert_eq!(shown.unwrap().exists(), 1 << 15);
    }
    let row = |uid| Row::new(Uid::new(uid).unwrap(), 1, 1, FlagSet::EMPTY, ModSeq::new(1).unwrap());
    for (count, is_large) in [(1000, false), (100_001, true)] {
        let mut builder = ViewBuilder::default();
        builder.push_rows(&(1..=count).map(row).collect::<Vec<_>>());
        let view = Arc::new(builder.finish(MailboxHead::default()));
        let held = service.heavy.acquire(account).await;
        let (waited, begun) = waits(held, SeenOverlay::begin(threads, (reading, NumSet::new()), view)).await;
        assert_eq!((waited, begun.is_ok()), (is_large, true), "{count} messages");
    }
    // Of what a user has seen, the messages that are there take time.
    for count in [10, 30_000] {
        let seen = NumSet::from_ranges((1..=count).map(|n| (2 * n, 2 * n)));
        service.directory.seen().set(reading, &seen, true).await.unwrap();
        let held = service.heavy.acquire(account).await;
        let (waited, unseen) = waits(held, seen::unseen(threads, reading, 1 << 15)).await;
        assert_eq!((waited, unseen.unwrap()), (false, (1 << 15) - count.min(1 << 14)), "{count} ranges");
    }
}

/// Sets of every second message were compared in the poll of a STORE.
#[tokio::test]
async fn seen_flags_of_many_messages_are_compared_on_another_thread() {
    const MESSAGES: u32 = 1 << 17;
    let mut paused = Paused::begin().await;
    paused.read_all();
    let (service, account) = paused.account();
    paused.doubled(17).await;
    let selected = paused.session.selected.as_mut().unwrap();
    let reading = Reading { owner: account, mailbox: selected.mailbox.id(), reader: account };
    seen::lay_over(&service, reading, selected).await.unwrap();
    let every_second = NumSet::from_ranges((1..=MESSAGES / 2).map(|n| (2 * n, 2 * n)));
    service.directory.seen().set(reading, &every_second, true).await.unwrap();
    for (last, is_large) in [(10, false), (MESSAGES, true)] {
        let (uids, mut held) = (NumSet::range(1, last), service.heavy.acquire(account).await);
        let (change, flags) = (FlagChange::Add, [Flag::Seen]);
        let order = FlagOrder { uids: &uids, change, flags: &flags, unchanged_since: None, held: None };
        let mut storing = pin!(seen::store_flags(&service, selected, order));
        let stored = loop {
            if let Poll::Ready(stored) = poll_fn(|cx| Poll::Ready(storing.as_mut().poll(cx))).await {
                break stored.unwrap();
            }
            // The store has other threads for its changes.
            if service.heavy.waiting_of(account) > 0 {
                held = None;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(held.is_none(), is_large, "{last} messages");
        assert_eq!(stored.changed.count(), u64::from(last) / 2 - if is_large { 5 } else { 0 });
    }
}

/// Printing a line costs more than sending its octets: 100,000 took a poll of 12 ms on a slow
/// processor.
#[tokio::test]
async fn many_expunged_messages_are_reported_in_slices() {
    let mut paused = Paused::begin().await;
    let mut other = paused.another().await;
    paused.read_all();
    other.read_all();
    paused.doubled(15).await;
    other.run("SELECT m0").await;
    paused.run("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    other.run("NOOP").await;
    paused.run("EXPUNGE").await;
    // The client's pipe holds all of it: 550 KB.
    let pauses = other.run("NOOP").await;
    assert!((1..=4).contains(&pauses), "{pauses} pauses");
}

/// Both sets were made in one poll of the report.
#[tokio::test]
async fn messages_whose_annotations_may_differ_are_found_by_another_thread() {
    let mut paused = Paused::begin().await;
    let mut other = paused.another().await;
    paused.read_all();
    other.read_all();
    paused.doubled(17).await;
    other.run("SELECT m0 (ANNOTATE)").await;
    for (set, is_long) in [("1:10", false), ("1:*", true)] {
        paused.run(&format!("STORE {set} +FLAGS.SILENT (\\Flagged)")).await;
        assert_eq!(other.waits_for_thread("NOOP").await, is_long, "{set}");
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
        // No session keeps a turn.
        assert_eq!(paused.session.service.turns.keys(), 0);
        paused.run("STORE 1:* -FLAGS.SILENT (\\Flagged)").await;
        other.run("NOOP").await;
    }
    other.run("UID SEARCH RETURN (UPDATE) FLAGGED").await;
    paused.run("STORE 1:100 +FLAGS.SILENT (\\Flagged)").await;
    let held = paused.session.service.turns.acquire(account).await;
    assert!(other.waits_for(held, "NOOP").await, "messages are evaluated for a result");
}

/// 60 sessions compared the names of 500 mailboxes at once, and delayed others by 29 ms.
#[tokio::test]
async fn sessions_of_an_account_compare_long_lists_one_after_the_other() {
    let mut paused = Paused::begin().await;
    let mut other = paused.another().await;
    other.run("NOTIFY SET (PERSONAL (MailboxName))").await;
    let account = paused.session.login().unwrap().id;
    for command in ["CREATE new", "RENAME new newer"] {
        paused.run(command).await;
        let held = paused.session.service.turns.acquire(account).await;
        assert!(other.waits_for(held, "NOOP").await, "{command}");
        assert_eq!(paused.session.service.turns.keys(), 0, "no session keeps a turn");
        // What was reported is not compared again.
        let held = paused.session.service.turns.acquire(account).await;
        assert!(!other.waits_for(held, "NOOP").await, "{command}");
    }
}
