//! Memory of a message that a session holds without a reservation, counted by an allocator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_mail_model::Secret;
use posthaste_net::{ByteBudget, Connection, Holder, Shutdown, ShutdownTrigger, Stream};
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use posthaste_testkit::CountingAllocator;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Bytes of the message.
const LEN: usize = 8 << 20;
/// Bytes for reading large messages.
const READS: usize = 32 << 20;
/// Memory that a session may hold in addition: a few lines and buffers.
const LITTLE: usize = 1 << 20;

struct Talk {
    client: DuplexStream,
    _trigger: ShutdownTrigger,
}

impl Talk {
    /// A session after its login, over a pipe of this many bytes each way.
    async fn over(bytes: usize, service: &Arc<ImapService>) -> Self {
        let (client, server) = tokio::io::duplex(bytes);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let stream = Stream::over(server, address(40_000), address(143));
        let (trigger, shutdown) = Shutdown::new();
        tokio::spawn(Arc::clone(service).serve(Connection::new(stream), shutdown));
        let mut talk = Self { client, _trigger: trigger };
        talk.hear("* OK").await;
        talk.say(b"l LOGIN ana@example.org \"correct horse\"\r\n").await;
        talk.hear("l OK").await;
        talk
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).await.expect("the session reads");
    }

    /// Reads up to the line that begins like this.
    async fn hear(&mut self, begin: &str) {
        let mut line = String::new();
        loop {
            // The deadline only ends a test that fails.
            let read = tokio::time::timeout(Duration::from_secs(60), self.client.read_u8()).await;
            let octet = read.unwrap_or_else(|_| panic!("no {begin:?} came, {line:?} did"));
            line.push(char::from(octet.expect("the session goes on")));
            if line.ends_with('\n') {
                if line.starts_with(begin) {
                    return;
                }
                line.clear();
            }
        }
    }
}

/// A thousand selections from a header of 60 KiB made a session hold 61 MiB, and the structure of
/// 19,000 parts 7 MiB. A long summary is held until its response is read, so it is paid for.
async fn long_responses_that_nobody_reads(service: &Arc<ImapService>, reads: &ByteBudget) {
    let header: String = (0..4).map(|n| format!("X-{n}: {}\r\n", "y".repeat(15_000))).collect();
    let part = format!("--b\r\nContent-Type: text/plain; name=\"{}\"\r\n\r\n", "a".repeat(120));
    let parts = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", part.repeat(5000));
    let mut writer = Talk::over(64 << 10, service).await;
    for message in [header + "\r\nx", parts] {
        writer.say(format!("a APPEND INBOX {{{}+}}\r\n{message}\r\n", message.len()).as_bytes()).await;
        writer.hear("a OK").await;
    }
    let items: Vec<String> = (0..1000).map(|n| format!("BODY.PEEK[HEADER.FIELDS.NOT (Z{n})]")).collect();
    for command in [format!("FETCH 1 ({})", items.join(" ")), "FETCH 2 (BODY BODYSTRUCTURE)".to_owned()] {
        let mut talk = Talk::over(1 << 10, service).await;
        talk.say(b"s SELECT INBOX\r\n").await;
        talk.hear("s OK").await;
        let before = COUNTING.held();
        talk.say(format!("f {command}\r\n").as_bytes()).await;
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        let (held, paid) = (COUNTING.held().saturating_sub(before), READS - reads.available());
        assert!(held < LITTLE + paid, "{held} bytes are held for {command:.40}, {paid} are paid for");
        assert_eq!(paid > 0, command.contains("STRUCTURE"), "{command:.40}");
    }
}

/// Another thread frees a large message. This waits for it as long as only a failure takes.
async fn assert_freed(before: usize, case: &str) {
    let held = || COUNTING.held().saturating_sub(before);
    for _ in 0..60_000 {
        if held() < LITTLE {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{} bytes are held {case}", held());
}

/// The permit for a large message ends with its memory, on the other thread.
async fn assert_available(budget: &ByteBudget, bytes: usize) {
    for _ in 0..60_000 {
        if budget.available() == bytes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{} bytes are free", budget.available());
}

/// One test: the allocator counts for the whole process.
#[tokio::test]
async fn a_message_that_is_not_paid_for_is_not_held() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).expect("a directory"));
    let password = Secret::new("correct horse".to_owned());
    directory.add("ana@example.org", &password, NewAccount::default()).await.expect("an account");
    let delivery = Delivery::new(store, directory, DeliveryOptions::default());
    let budget = ByteBudget::new(16 << 20).with_share_of_at_least(16 << 20).with_pause_max(Duration::ZERO);
    let reads = ByteBudget::new(READS);
    let service = ImapService::new(ImapOptions::default(), delivery, None, budget.clone());
    let service = Arc::new(service.with_reads(reads.clone()));

    long_responses_that_nobody_reads(&service, &reads).await;

    // RFC 3502 §6.3.11: the empty message at its end cancels the command. An octet comes with it.
    let mut talk = Talk::over(64 << 10, &service).await;
    let before = COUNTING.held();
    talk.say(format!("a APPEND INBOX {{{LEN}+}}\r\n").as_bytes()).await;
    for _ in 0..LEN >> 16 {
        talk.say(&[b'x'; 1 << 16]).await;
    }
    talk.say(b" {0+}\r\n\r\nx").await;
    talk.hear("a NO").await;
    assert_freed(before, "behind a cancelled APPEND").await;
    assert_available(&budget, 16 << 20).await;

    // The APPEND of a client that reads no answer is evicted anyway.
    let mut talk = Talk::over(1 << 10, &service).await;
    let before = COUNTING.held();
    talk.say(format!("a APPEND INBOX {{{LEN}+}}\r\n").as_bytes()).await;
    for _ in 0..LEN >> 16 {
        talk.say(&[b'x'; 1 << 16]).await;
    }
    let (mut answers, mut questions) = tokio::io::split(talk.client);
    let asking = tokio::spawn(async move {
        let _ = questions.write_all(&b" {1}\r\nx".repeat(1000)).await;
        questions
    });
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert!(!asking.is_finished(), "the session reads although nobody reads its answers");
    assert!(budget.available() <= 8 << 20, "{} bytes are free", budget.available());
    let other = budget.begin(Holder::Account([9; 16]));
    other.grow_to(12 << 20).expect("the APPEND gives way");
    assert_freed(before, "beside a write").await;
    // The client learns it once it reads.
    let mut said = String::new();
    while !said.contains("a NO [UNAVAILABLE]") {
        let octet = tokio::time::timeout(Duration::from_secs(60), answers.read_u8()).await;
        said.push(char::from(octet.expect("an answer").expect("the session goes on")));
    }
}
