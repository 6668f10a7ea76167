//! Whole sessions in memory: no socket, and a clock that the test advances.
//!
//! The sessions use a transport of this file. Sessions that compress use a connection of
//! `posthaste-net` over memory, because the connection has the layers.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use posthaste_directory::{Annotated, NewAccount};
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::ListSelection;
use posthaste_imap_codec::response::{ListData, Untagged};
use posthaste_mail_model::{SEPARATOR, Secret};
use posthaste_net::{ByteBudget, Clock, ClockHand, Connection, NetError, Shutdown, ShutdownTrigger, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use crate::heavy::SLICE_STEPS;
use crate::listed::print_lines;
use crate::session::Session;
use crate::size_tests::{service, service_with};
use crate::transport::{Io, Peer, StreamChange, Then, Transport, Wait};
use crate::{ImapOptions, ImapService, connection};

/// A pipe as a transport. Its clock is the session's.
struct Memory(DuplexStream, Clock);

impl Memory {
    /// Waits for a call at most so long.
    fn within<'t, T: Send + 't>(
        clock: &'t Clock,
        within: Duration,
        call: impl Future<Output = Result<T, NetError>> + Send + 't,
    ) -> Io<'t, T> {
        Box::pin(async move {
            tokio::select! {
                biased;
                done = call => done,
                () = clock.sleep(within) => Err(NetError::TimedOut(within)),
            }
        })
    }
}

impl Transport for Memory {
    fn read<'t>(&'t mut self, input: &'t mut BytesMut, wait: Wait) -> Io<'t, usize> {
        let Self(pipe, clock) = self;
        let (Wait::Input { most, within } | Wait::Rest { most, within }) = wait else {
            // The client stays, and its account has no limits.
            return Box::pin(std::future::pending());
        };
        Self::within(clock, within, async move {
            match pipe.read_buf(&mut bytes::BufMut::limit(input, most)).await? {
                0 => Err(NetError::Closed),
                count => Ok(count),
            }
        })
    }

    fn write<'t>(&'t mut self, bytes: &'t [u8], _: Then, within: Duration) -> Io<'t, ()> {
        let Self(pipe, clock) = self;
        Self::within(clock, within, async move { Ok(pipe.write_all(bytes).await?) })
    }

    fn change<'t>(&'t mut self, _: StreamChange<'t>, _: &'t mut BytesMut, _: Duration) -> Io<'t, ()> {
        Box::pin(async { Err(NetError::Closed) })
    }

    fn close(mut self: Box<Self>, _: Duration) -> Io<'static, ()> {
        Box::pin(async move { Ok(self.0.shutdown().await?) })
    }
}

/// A client that sends so many octets without a line end, and has the next ones ready at once.
struct Endless(usize);

impl Transport for Endless {
    fn read<'t>(&'t mut self, input: &'t mut BytesMut, wait: Wait) -> Io<'t, usize> {
        let (Wait::Input { most, .. } | Wait::Rest { most, .. }) = wait else {
            return Box::pin(std::future::pending());
        };
        let count = most.min(64 << 10).min(self.0);
        self.0 -= count;
        input.resize(input.len() + count, b'x');
        Box::pin(std::future::ready(if count > 0 { Ok(count) } else { Err(NetError::Closed) }))
    }

    fn write<'t>(&'t mut self, _: &'t [u8], _: Then, _: Duration) -> Io<'t, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn change<'t>(&'t mut self, _: StreamChange<'t>, _: &'t mut BytesMut, _: Duration) -> Io<'t, ()> {
        Box::pin(std::future::ready(Err(NetError::Closed)))
    }

    fn close(self: Box<Self>, _: Duration) -> Io<'static, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The client's and the server's address.
const ENDS: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 143),
];

/// A session and its client.
struct Talk {
    client: DuplexStream,
    /// Both directions of COMPRESS, while it is active. The server's stream ends it.
    deflate: Option<(Compress, Decompress)>,
    /// The bytes that the client has received and not yet returned.
    heard: String,
    hand: ClockHand,
    trigger: ShutdownTrigger,
    service: Arc<ImapService>,
    session: JoinHandle<()>,
}

impl Talk {
    /// Starts a session of a service with one account, and reads the greeting.
    async fn begin() -> Self {
        Self::over(4096).await
    }

    /// Starts a session over a pipe of this many bytes.
    async fn over(bytes: usize) -> Self {
        Self::of(service(), bytes, Self::memory).await
    }

    /// The transport of a pipe.
    fn memory(server: DuplexStream, clock: Clock) -> (Box<dyn Transport>, Peer) {
        let peer = Peer { id: 1, address: ENDS[0], is_encrypted: false };
        (Box::new(Memory(server, clock)), peer)
    }

    /// Starts a session over a connection of `posthaste-net`, which can compress.
    async fn over_connection() -> Self {
        Self::of(service(), 4096, |server, clock| {
            let connection = Connection::with_clock(Stream::over(server, ENDS[0], ENDS[1]), clock);
            let peer = Peer::of(&connection);
            (Box::new(connection), peer)
        })
        .await
    }

    /// Starts a session of this service.
    async fn of(
        service: ImapService,
        bytes: usize,
        transport: impl FnOnce(DuplexStream, Clock) -> (Box<dyn Transport>, Peer),
    ) -> Self {
        let service = Arc::new(service);
        let password = Secret::new("correct horse".to_owned());
        service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let (client, server) = tokio::io::duplex(bytes);
        let (clock, hand) = Clock::manual();
        let (trigger, shutdown) = Shutdown::new();
        let (transport, peer) = transport(server, clock.clone());
        let session = Box::new(Session::new(Arc::clone(&service), transport, peer, clock, shutdown));
        let session = tokio::spawn(connection::run_to_end(session));
        let (deflate, heard) = (None, String::new());
        let mut talk = Self { client, deflate, heard, hand, trigger, service, session };
        talk.hear("* OK [CAPABILITY IMAP4rev1").await;
        talk
    }

    /// Starts a session that has logged in and selected INBOX.
    async fn with_inbox() -> Self {
        Self::begin().await.in_inbox().await
    }

    /// Logs in and selects INBOX.
    async fn in_inbox(mut self) -> Self {
        self.say("a LOGIN ana@example.org \"correct horse\"\r\n").await;
        self.hear("a OK").await;
        self.say("b SELECT INBOX\r\n").await;
        self.hear("b OK").await;
        self
    }

    async fn say(&mut self, text: &str) {
        match &mut self.deflate {
            None => self.client.write_all(text.as_bytes()).await.unwrap(),
            Some((compress, _)) => {
                let mut packed = Vec::with_capacity(text.len() + 64);
                compress.compress_vec(text.as_bytes(), &mut packed, FlushCompress::Sync).unwrap();
                self.client.write_all(&packed).await.unwrap();
            }
        }
    }

    /// Reads up to the line that begins like this, and returns all that came.
    async fn hear(&mut self, begin: &str) -> String {
        loop {
            let mut end = 0;
            for line in self.heard.split_inclusive('\n') {
                end += line.len();
                if line.ends_with('\n') && line.starts_with(begin) {
                    let rest = self.heard.split_off(end);
                    return std::mem::replace(&mut self.heard, rest);
                }
            }
            assert!(self.read().await, "the session ended before {begin:?}: {:?}", self.heard);
        }
    }

    /// Reads what comes next. False at the end of the stream.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // The deadline only ends a test that fails.
        let read = tokio::time::timeout(Duration::from_secs(60), self.client.read(&mut bytes));
        let count = read.await.expect("the session answers nothing").unwrap();
        match &mut self.deflate {
            None => self.heard.push_str(std::str::from_utf8(&bytes[..count]).unwrap()),
            Some((_, decompress)) => {
                let mut text = Vec::with_capacity(64 * 1024);
                let before = decompress.total_in();
                let status = decompress.decompress_vec(&bytes[..count], &mut text, FlushDecompress::Sync);
                self.heard.push_str(std::str::from_utf8(&text).unwrap());
                if status.unwrap() == Status::StreamEnd {
                    let rest = &bytes[(decompress.total_in() - before) as usize..count];
                    self.heard.push_str(std::str::from_utf8(rest).unwrap());
                    self.deflate = None;
                }
            }
        }
        count > 0
    }

    /// The session sends this line as its last, and ends.
    async fn ends_with(mut self, last: &str) {
        let heard = self.hear(last).await;
        assert!(heard.ends_with("\r\n") && self.heard.is_empty(), "{heard:?} {:?}", self.heard);
        while self.read().await {}
        assert_eq!(self.heard, "", "something came after {last:?}");
        drop(self.client);
        self.session.await.unwrap();
    }
}

#[tokio::test]
async fn a_session_from_login_to_logout() {
    let mut talk = Talk::with_inbox().await;
    talk.say("c APPEND INBOX (\\Seen) {34+}\r\nFrom: ana@example.org\r\n\r\nSomething\r\n").await;
    assert!(talk.hear("c OK").await.contains("* 1 EXISTS\r\n"));
    talk.say("d FETCH 1 (FLAGS RFC822.SIZE BODY[TEXT])\r\n").await;
    let fetched = talk.hear("d OK").await;
    assert!(fetched.contains("RFC822.SIZE 34"), "{fetched}");
    assert!(fetched.contains("BODY[TEXT] {9}\r\nSomething)"), "{fetched}");
    talk.say("e STORE 1 +FLAGS (\\Deleted)\r\nf EXPUNGE\r\n").await;
    assert!(talk.hear("f OK").await.contains("* 1 EXPUNGE\r\n"));
    talk.say("g LOGOUT\r\n").await;
    talk.hear("* BYE").await;
    talk.ends_with("g OK").await;
}

/// All of them are there at once and their answers fit the pipe, so the session waits for nothing.
#[tokio::test]
async fn a_session_yields_between_pipelined_commands() {
    let mut talk = Talk::over(1 << 20).await.in_inbox().await;
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let neighbour = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    talk.say(&("n NOOP\r\n".repeat(5000) + "m NOOP\r\n")).await;
    while !talk.heard.contains("m OK") {
        let mut bytes = vec![0; 1 << 20];
        let count = talk.client.read(&mut bytes).await.unwrap();
        talk.heard.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    neighbour.abort();
    let turns = turns.load(std::sync::atomic::Ordering::Relaxed);
    assert!(turns >= 50, "the neighbour had {turns} turns");
}

/// A session over [`Endless`], and what ends it or moves its clock.
fn endless(octets: usize) -> (Box<Session>, (ClockHand, ShutdownTrigger)) {
    let ((clock, hand), (trigger, shutdown)) = (Clock::manual(), Shutdown::new());
    let peer = Peer { id: 1, address: ENDS[0], is_encrypted: false };
    let session = Session::new(Arc::new(service()), Box::new(Endless(octets)), peer, clock, shutdown);
    (Box::new(session), (hand, trigger))
}

/// The outcome of work that waits for nothing, and how often others had their turn meanwhile.
async fn pauses<T>(work: impl Future<Output = T>) -> (T, u64) {
    let mut work = pin!(work);
    let mut pauses = 0;
    loop {
        match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            Poll::Ready(done) => return (done, pauses),
            Poll::Pending => pauses += 1,
        }
        tokio::task::yield_now().await;
    }
}

/// A line of 256 MiB was read 8 MiB at a time: 7 ms on a slow processor.
#[tokio::test]
async fn a_line_without_an_end_is_read_in_slices() {
    const OCTETS: usize = 16 << 20;
    let (mut session, _ends) = endless(OCTETS);
    let (ended, pauses) = pauses(connection::run(&mut session)).await;
    assert!(matches!(ended, Err(NetError::Closed)), "{ended:?}");
    // An octet counts for two steps.
    assert!(pauses >= 2 * OCTETS as u64 / SLICE_STEPS - 1, "{pauses} pauses");
}

/// A client that reads as fast as it is sent 60 MB made the session send all of it in one poll.
#[tokio::test]
async fn a_large_part_is_sent_in_slices() {
    let (mut session, _ends) = endless(0);
    let part = vec![b'x'; 8 << 20];
    let (sent, pauses) = pauses(session.wire.put(&part)).await;
    sent.unwrap();
    assert!(pauses >= part.len() as u64 / SLICE_STEPS - 1, "{pauses} pauses");
}

/// Making and printing a line takes longer than sending it: LSUB printed 60,000 in one poll.
#[tokio::test]
async fn many_lines_of_a_list_are_printed_in_slices() {
    let (mut session, _ends) = endless(0);
    let line = ListData {
        attributes: Vec::new(),
        separator: Some(SEPARATOR),
        mailbox: MailboxArg::from_text("a"),
        child_info: ListSelection::default(),
        old_name: None,
    };
    let lines = (0..10_000).map(|_| Untagged::Lsub(line.clone()));
    let (printed, pauses) = pauses(print_lines(&mut session.wire, lines)).await;
    printed.unwrap();
    assert!(pauses >= 2, "{pauses} pauses");
}

#[tokio::test]
async fn a_client_that_does_not_log_in_gets_bye() {
    let talk = Talk::begin().await;
    talk.hand.advance(ImapOptions::default().pre_login_within).await;
    talk.ends_with("* BYE Idle for too long").await;
}

#[tokio::test]
async fn commands_before_the_login_do_not_move_its_deadline() {
    let mut talk = Talk::begin().await;
    let options = ImapOptions::default();
    let step = options.pre_login_within - Duration::from_secs(1);
    let mut left = options.login_within;
    while left > step {
        talk.hand.advance(step).await;
        left -= step;
        talk.say("a NOOP\r\n").await;
        talk.hear("a OK").await;
    }
    // Less than the time of a silent client before login.
    assert!(left < options.pre_login_within);
    talk.hand.advance(left).await;
    talk.ends_with("* BYE Idle for too long").await;
}

/// A client whose commands are there when its time is over: nothing is waited for.
#[tokio::test]
async fn a_client_that_never_pauses_has_no_more_time_to_log_in() {
    let mut talk = Talk::begin().await;
    talk.say("a NOOP\r\nb LOGIN ana@example.org \"correct horse\"\r\nc LIST \"\" *\r\n").await;
    talk.hand.advance(ImapOptions::default().login_within).await;
    talk.ends_with("* BYE You took too long to log in").await;
    // The same holds for a client whose lines of an exchange never pause.
    let mut talk = Talk::begin().await;
    talk.say("a AUTHENTICATE PLAIN\r\n").await;
    talk.hear("+ ").await;
    talk.say("AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl\r\n").await;
    talk.hand.advance(ImapOptions::default().login_within).await;
    talk.ends_with("* BYE You took too long to log in").await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    let mut talk = Talk::over(256).await;
    // The answers to these do not fit the pipe.
    talk.say(&"a NOOP\r\n".repeat(30)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    talk.hand.advance(ImapOptions::default().login_within).await;
    // The deadline only ends a test that fails.
    tokio::time::timeout(Duration::from_secs(60), talk.session).await.unwrap().unwrap();
}

#[tokio::test]
async fn half_a_command_has_less_time_than_silence() {
    let mut talk = Talk::with_inbox().await;
    let options = ImapOptions::default();
    assert!(options.command_within < options.silence_within);
    // Silence for as long changes nothing.
    talk.hand.advance(options.command_within).await;
    talk.say("c NOOP\r\n").await;
    talk.hear("c OK").await;
    // The continuation request shows that the session has read the announcement.
    talk.say("d APPEND INBOX {10}\r\n").await;
    talk.hear("+ ").await;
    talk.hand.advance(options.command_within).await;
    talk.ends_with("* BYE Your command took too long").await;
}

/// A client that never pauses for long could send a literal octet by octet for days.
#[tokio::test]
async fn an_append_has_a_deadline_in_all() {
    let budget = ByteBudget::new(1 << 20).with_message_within(Duration::ZERO);
    let mut talk = Talk::of(service_with(budget), 4096, Talk::memory).await.in_inbox().await;
    talk.say("c APPEND INBOX {10}\r\n").await;
    talk.hear("+ ").await;
    // No time passes on the clock that measures pauses.
    talk.ends_with("* BYE Your command took too long").await;
}

#[tokio::test]
async fn idle_ends_at_the_limit_of_silence_and_not_before() {
    let mut talk = Talk::with_inbox().await;
    let silence = ImapOptions::default().silence_within;
    talk.say("c IDLE\r\n").await;
    talk.hear("+ ").await;
    talk.hand.advance(silence - Duration::from_secs(1)).await;
    talk.say("DONE\r\n").await;
    talk.hear("c OK").await;
    talk.say("d IDLE\r\n").await;
    talk.hear("+ ").await;
    talk.hand.advance(silence).await;
    talk.ends_with("* BYE Idle for too long").await;
}

/// Another process does not wake the session, which looks for its changes every 10 s.
#[tokio::test]
async fn idle_looks_for_annotations_of_other_processes_by_the_sessions_clock() {
    let mut talk = Talk::with_inbox().await;
    talk.say("c ENABLE METADATA\r\n").await;
    talk.hear("c OK").await;
    talk.say("d IDLE\r\n").await;
    talk.hear("+ ").await;
    let directory = Arc::clone(&talk.service.directory);
    let ana = directory.account("ana@example.org").await.unwrap().unwrap().id;
    let comment = [("/shared/comment", Some(Bytes::from_static(b"new")))];
    directory.metadata().set(ana, Annotated::Server, &comment).await.unwrap();
    talk.hand.advance(Duration::from_secs(10)).await;
    // The deadline only ends a test that fails: it is shorter than the time that passed by the
    // session's clock.
    let heard = tokio::time::timeout(Duration::from_secs(8), talk.hear("* METADATA")).await;
    assert!(heard.expect("no report").contains("/shared/comment"));
}

#[tokio::test]
async fn compression_needs_no_socket() {
    let mut talk = Talk::over_connection().await.in_inbox().await;
    talk.say("c COMPRESS DEFLATE\r\n").await;
    talk.hear("c OK").await;
    talk.deflate = Some((Compress::new(Compression::default(), false), Decompress::new(false)));
    talk.say("d NOOP\r\n").await;
    talk.hear("d OK").await;
    talk.say("e LOGOUT\r\n").await;
    talk.ends_with("e OK").await;
}

/// RFC 8437 §4.1: both streams end with the CRLF of the command and of its answer. Clients flush
/// or finish theirs, and may send the next command in the same segment, or a byte at a time.
#[tokio::test]
async fn unauthenticate_ends_compression() {
    let mut talk = Talk::over_connection().await.in_inbox().await;
    for (ends, piece) in [
        (FlushCompress::Sync, usize::MAX),
        (FlushCompress::Sync, 1),
        (FlushCompress::Finish, usize::MAX),
        (FlushCompress::Finish, 1),
        (FlushCompress::Partial, usize::MAX),
        (FlushCompress::Full, 5),
    ] {
        talk.say("c COMPRESS DEFLATE\r\n").await;
        talk.hear("c OK").await;
        let (mut compress, decompress) =
            (Compress::new(Compression::default(), false), Decompress::new(false));
        let mut bytes = Vec::with_capacity(1024);
        for command in ["d NOOP\r\n", "e NOOP\r\n"] {
            compress.compress_vec(command.as_bytes(), &mut bytes, FlushCompress::Sync).unwrap();
        }
        compress.compress_vec(b"f UNAUTHENTICATE\r\n", &mut bytes, FlushCompress::None).unwrap();
        compress.compress_vec(b"", &mut bytes, ends).unwrap();
        if ends == FlushCompress::Partial {
            // Such a client waits for the answer: nothing marks the end of its bytes.
            talk.client.write_all(&bytes).await.unwrap();
            bytes.clear();
        }
        talk.deflate = Some((compress, decompress));
        let login = b"g LOGIN ana@example.org \"correct horse\"\r\n";
        if !bytes.is_empty() {
            bytes.extend_from_slice(login);
            for piece in bytes.chunks(piece) {
                talk.client.write_all(piece).await.unwrap();
            }
        }
        talk.hear("f OK [CAPABILITY ").await;
        while talk.deflate.is_some() {
            assert!(talk.read().await);
        }
        if bytes.is_empty() {
            talk.client.write_all(login).await.unwrap();
        }
        assert!(talk.hear("g OK").await.contains(" COMPRESS=DEFLATE"));
    }
    talk.say("h LOGOUT\r\n").await;
    talk.ends_with("h OK").await;
}

/// The commands of a layer that the transport refuses end the session, and no answer follows.
#[tokio::test]
async fn a_layer_that_cannot_be_added_ends_the_session() {
    let mut talk = Talk::with_inbox().await;
    talk.say("c COMPRESS DEFLATE\r\n").await;
    talk.ends_with("c OK").await;
}

#[tokio::test]
async fn shutdown_ends_a_waiting_session() {
    let talk = Talk::with_inbox().await;
    talk.trigger.request();
    talk.ends_with("* BYE The server is shutting down").await;
}

/// Later ones wait, each for itself, so that others have their turn.
#[tokio::test]
async fn the_first_commands_before_a_login_do_not_wait() {
    let mut talk = Talk::begin().await;
    talk.say(&(1..=52).map(|n| format!("n{n} NOOP\r\n")).collect::<String>()).await;
    talk.hear("n50 OK").await;
    for n in 51..=52 {
        // The answers to all commands that did not wait came together.
        assert_eq!(talk.heard, "");
        talk.hand.advance(Duration::from_millis(50)).await;
        talk.hear(&format!("n{n} OK")).await;
    }
    talk.say("a LOGIN ana@example.org \"correct horse\"\r\n").await;
    // The session has read it, and waits.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    talk.hand.advance(Duration::from_millis(50)).await;
    talk.hear("a OK").await;
    talk.say(&(1..=99).map(|n| format!("n{n} NOOP\r\n")).collect::<String>()).await;
    talk.hear("n99 OK").await;
}
