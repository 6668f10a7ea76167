//! Hot paths for `scripts/instructions`, which counts their instructions with callgrind.
//!
//! `instructions NAME` prepares one path, runs it once so that caches are warm, and runs it again
//! inside [`counted`]. Callgrind counts what happens inside that function and nothing else.
//! `instructions` without a name prints all names.
//!
//! The session is the real one, on the embedded engine and on a socket. It shares one thread with
//! its client and is polled only when it was woken. Two runs of a session differ by some 30
//! instructions (0.01 %). `parse-command` and `summarize` repeat exactly.

#![allow(missing_docs, clippy::unwrap_used, reason = "a program of its own, where any failure ends the run")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::future::Future;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions, summarize};
use posthaste_directory::{Directory, Format, NewAccount, Policy};
use posthaste_imap_codec::{NameEncoding, parse_command};
use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_mail_model::{Flag, MailboxName, Secret};
use posthaste_mime_summary::Structure;
use posthaste_net::{ByteBudget, Connection, Shutdown, Stream};
use posthaste_store::{Engine, IncomingMessage, MemoryEngine, Store, StoreOptions};
use posthaste_store_lmdb::{LmdbEngine, Options};
use posthaste_tnef::{declares_rich, enrich, enrich_parsed, might_be_rich, restore};

/// Memory of the arena: all that a run allocates, which is never given back.
const ARENA_BYTES: usize = 1 << 30;

/// An allocator whose cost and alignment are the same for every request. That of libc depends on
/// what other threads freed before, so counts would differ between two runs.
struct Arena {
    bytes: UnsafeCell<[u8; ARENA_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: `bytes` is reached through `alloc` alone, which hands out each byte once.
unsafe impl Sync for Arena {}

// SAFETY: `used` only rises, by the rounded size of each request, so no two requests share a byte.
// What is handed out lies inside `bytes`, and begins at a multiple of `LINE`: `skipped` leads to
// one, and every size is one.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        const LINE: usize = 128;
        let start = self.bytes.get().cast::<u8>();
        let skipped = start.align_offset(LINE);
        let size = layout.size().next_multiple_of(LINE);
        let at = self.used.fetch_add(size, Ordering::Relaxed);
        if layout.align() > LINE || skipped + at + size > ARENA_BYTES {
            return std::ptr::null_mut();
        }
        // SAFETY: the end of what is handed out was compared with the length of the arena.
        unsafe { start.add(skipped + at) }
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ARENA: Arena = Arena { bytes: UnsafeCell::new([0; ARENA_BYTES]), used: AtomicUsize::new(0) };

/// Messages of the folder: the longest answer is below 64 KiB, so it leaves in one piece.
const MESSAGES: u32 = 300;

/// Commands that are counted from the first byte read to the last byte written.
const COMMANDS: [(&str, &str); 5] = [
    ("fetch-flags", "FETCH 1:* (UID FLAGS)"),
    ("fetch-envelope", "FETCH 1:* (ENVELOPE)"),
    ("fetch-header-fields", "FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (DATE FROM SUBJECT)])"),
    ("search-flags", "SEARCH UNSEEN NOT DELETED"),
    ("search-subject", "SEARCH SUBJECT \"letter 17\""),
];

/// Formats of the account to which ordinary mail is delivered.
const DELIVERIES: [(&str, Format); 3] =
    [("deliver-keep", Format::Keep), ("deliver-mime", Format::Mime), ("deliver-rich", Format::Rich)];

/// Counts the instructions of `work`.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn main() {
    let name = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    match name.as_deref() {
        None => COMMANDS
            .iter()
            .map(|(name, _)| name)
            .chain(DELIVERIES.iter().map(|(name, _)| name))
            .chain(&["declares-rich", "enrich", "might-be-rich", "parse-command", "restore", "summarize"])
            .for_each(|name| println!("{name}")),
        Some("parse-command") => parse(),
        Some("summarize") => of_each_letter(|letter| summarize(letter).len()),
        Some("declares-rich") => look_at_letters(),
        Some("might-be-rich") => of_each_letter(|letter| usize::from(might_be_rich(letter))),
        Some("enrich") => enrich_letters(),
        Some("restore") => restore_letters(),
        Some(name) => match DELIVERIES.iter().find(|(n, _)| *n == name) {
            Some((_, format)) => deliver(*format),
            None => {
                let (_, command) = COMMANDS.iter().find(|(n, _)| *n == name).expect("a known name");
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(session(command));
            }
        },
    }
}

/// A hundred times one command of each kind that clients send most.
fn parse() {
    let lines = [
        "a1 UID FETCH 1:* (UID FLAGS)\r\n",
        "a1 FETCH 1:100 (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT MESSAGE-ID)])\r\n",
        "a1 UID STORE 5 +FLAGS.SILENT (\\Seen)\r\n",
        "a1 UID SEARCH RETURN (ALL) UNSEEN SUBJECT \"some words\" SINCE 1-Feb-1994\r\n",
    ];
    let lines = lines.map(|line| Bytes::from_static(line.as_bytes()));
    let all = || {
        for line in lines.iter().cycle().take(400) {
            black_box(parse_command(black_box(line), NameEncoding::Utf7)).unwrap();
        }
    };
    all();
    counted(all);
}

fn of_each_letter(work: impl Fn(&[u8]) -> usize) {
    let messages: Vec<Vec<u8>> = (0..20).map(letter).collect();
    let all = || messages.iter().map(|message| work(black_box(message))).sum::<usize>();
    all();
    counted(all);
}

/// What a delivery pays to find that a letter is not rich. Its structure is there, for the
/// summary.
fn look_at_letters() {
    let letters: Vec<_> = (0..20).map(letter).map(|letter| (Structure::parse(&letter), letter)).collect();
    let look = |(structure, letter): &(Structure, Vec<u8>)| declares_rich(black_box(structure), letter);
    let all = || letters.iter().filter(|letter| look(letter)).count();
    all();
    counted(all);
}

/// What the encoding as TNEF adds to a delivery. The letter's structure is there, for the summary.
fn enrich_letters() {
    let letters: Vec<_> = (0..20).map(letter).map(|letter| (Structure::parse(&letter), letter)).collect();
    let rich = |(structure, letter): &(Structure, Vec<u8>)| enrich_parsed(black_box(structure), letter);
    let all = || letters.iter().filter_map(rich).map(|rich| rich.len()).sum::<usize>();
    all();
    counted(all);
}

/// The letters as TNEF, as a reader of the format `rich` gets them.
fn restore_letters() {
    let rich: Vec<_> = (0..20).map(letter).map(|letter| (enrich(&letter).unwrap(), letter.len())).collect();
    let all = || rich.iter().map(|(rich, len)| restore(black_box(rich), *len).unwrap().len()).sum::<usize>();
    all();
    counted(all);
}

/// The same letters, delivered to an account of a format and stored in memory.
fn deliver(format: Format) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let messages: Vec<Bytes> = (0..20).map(|n| Bytes::from(letter(n))).collect();
    let (delivery, recipients) = runtime.block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let store = Store::new(Arc::clone(&engine), StoreOptions::default());
        let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
        let account = NewAccount { format: Some(format), ..NewAccount::default() };
        directory.add("ana", &Secret::new("pw".to_owned()), account).await.unwrap();
        let delivery = Delivery::new(store, directory, DeliveryOptions::default());
        let ana = delivery.resolve("ana").await.unwrap();
        (delivery, [ana])
    });
    let all = || {
        runtime.block_on(async {
            for message in &messages {
                delivery.deliver(message.clone(), &recipients).await.remove(0).unwrap();
            }
        });
    };
    all();
    counted(all);
}

/// A message as people send them: 4 KiB, two parts, an encoded name.
fn letter(n: u32) -> Vec<u8> {
    let mut text = format!(
        "Received: from mx.example.org (mx.example.org [192.0.2.1])\r\n\tby mail.example.com with ESMTPS id {n}\r\n\
         Date: Fri, 20 Nov 2026 11:00:00 +0100\r\nFrom: =?utf-8?q?Bob_M=C3=BCller?= <bob@example.org>\r\n\
         To: Ana Example <ana@example.com>, \"Carol, of sales\" <carol@example.com>\r\n\
         Subject: Re: letter {n} of many\r\nMessage-ID: <{n}@example.org>\r\n\
         References: <1@example.com> <2@example.com>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/alternative; boundary=\"=-=1\"\r\n\r\n\
         --=-=1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    );
    for line in 0..20 {
        text.push_str(&format!("Line {line} of the text, with a word or two in it, so =C3=BCber.\r\n"));
    }
    text.push_str("--=-=1\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body>\r\n");
    while text.len() < 4050 {
        text.push_str("<p>A line of the same text, but with <b>tags</b> in it.</p>\r\n");
    }
    text.push_str("--=-=1--\r\n");
    text.into_bytes()
}

/// Runs a command twice in a session; the second time is counted.
async fn session(command: &str) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { map_bytes: 1 << 28, ..Options::new(summarize) };
    let engine: Arc<dyn Engine> = Arc::new(LmdbEngine::open(dir.path(), options).unwrap());
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
    let account = directory.add("ana", &Secret::new("pw".to_owned()), NewAccount::default()).await.unwrap();
    let delivery = Delivery::new(store.clone(), directory, DeliveryOptions::default());
    let list = delivery.mailboxes(&account).await.unwrap();
    let inbox = store.open(list.find(&MailboxName::new("INBOX").unwrap()).unwrap().id).await.unwrap();
    let message = |n: u32| {
        let bytes = Bytes::from(letter(n));
        let summary = summarize(&bytes).into();
        let flags = if n.is_multiple_of(3) { vec![] } else { vec![Flag::Seen] };
        IncomingMessage { bytes, summary, body: store.new_body_id(), flags, date: 1_700_000_000, saved: None }
    };
    inbox.append((0..MESSAGES).map(message).collect()).await.unwrap();
    let service =
        Arc::new(ImapService::new(ImapOptions::default(), delivery, None, ByteBudget::new(64 << 20)));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    client.set_nodelay(true).unwrap();
    let stream = Stream::plain(tokio::net::TcpStream::from_std(server).unwrap()).unwrap();
    let (_trigger, shutdown) = Shutdown::new();
    let session = Box::pin(service.serve(Connection::new(stream), shutdown));
    let mut pair = Pair { session, woken: Arc::new(Woken(AtomicBool::new(true))), client };
    pair.answer("* OK").await;
    for line in ["LOGIN ana pw", "SELECT INBOX", command, command] {
        pair.say(line).await;
    }
    pair.is_counted(command).await;
}

/// Notes that the session may continue.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A session and its client.
struct Pair<F> {
    session: Pin<Box<F>>,
    woken: Arc<Woken>,
    client: TcpStream,
}

impl<F: Future> Pair<F> {
    /// Sends a command and reads to its end.
    async fn say(&mut self, command: &str) {
        self.client.write_all(format!("t {command}\r\n").as_bytes()).unwrap();
        self.answer("t OK").await;
    }

    /// Sends a command and reads to its end. The instructions are counted.
    async fn is_counted(&mut self, command: &str) {
        self.client.write_all(format!("t {command}\r\n").as_bytes()).unwrap();
        let mut heard = Vec::new();
        while !self.hears("t OK", &mut heard) {
            if self.woken.0.swap(false, Ordering::Acquire) {
                let waker = Waker::from(Arc::clone(&self.woken));
                let mut context = Context::from_waker(&waker);
                let session = self.session.as_mut();
                assert!(counted(|| session.poll(&mut context)).is_pending(), "the session ended");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn answer(&mut self, end: &str) {
        let mut heard = Vec::new();
        while !self.hears(end, &mut heard) {
            if self.woken.0.swap(false, Ordering::Acquire) {
                let waker = Waker::from(Arc::clone(&self.woken));
                let polled = self.session.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(matches!(polled, Poll::Pending), "the session ended");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether a line that begins so has come.
    fn hears(&mut self, end: &str, heard: &mut Vec<u8>) -> bool {
        match self.client.read_to_end(heard) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            other => panic!("the session hung up: {other:?}"),
        }
        heard.ends_with(b"\r\n") && heard.split(|b| *b == b'\n').any(|line| line.starts_with(end.as_bytes()))
    }
}
