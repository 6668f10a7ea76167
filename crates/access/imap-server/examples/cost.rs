//! What a session costs. Whole conversations run over loopback, on the in-memory engine. The figure
//! is the CPU time of the server's threads. So only this crate, the store's views and the network
//! layer are measured.
//!
//! `cargo run --release -p posthaste-imap-server --example cost [ROUNDS]`: least of the rounds, in
//! nanoseconds of CPU (`/proc/self/task/*/schedstat` of the server's one thread). `… --example
//! cost memory`: bytes of memory a session.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_mail_model::{MailboxName, Secret};
use posthaste_net::{ByteBudget, Endpoint, Listener, Mode, ServeOptions, Shutdown};
use posthaste_store::{Engine, IncomingMessage, MemoryEngine, Store, StoreOptions};

/// Messages in one APPEND of the filling.
const BATCH: usize = 1000;

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("memory") {
        let (address, _) = start(1000);
        memory(address, "idle session, SELECT and IDLE", &["SELECT INBOX", "IDLE"]);
        return memory(address, "silent session, SELECT", &["SELECT INBOX"]);
    }
    let rounds: usize = argument.and_then(|n| n.parse().ok()).unwrap_or(5);
    let (address, thread) = start(100_000);
    let mut client = Client::connect(address);
    client.login();
    let cpu = || thread_cpu_ns(thread);
    let least = |what: &str, per: u64, run: &mut dyn FnMut()| {
        let mut least = u64::MAX;
        for _ in 0..rounds {
            let before = cpu();
            run();
            least = least.min(cpu() - before);
        }
        println!("{what:<58} {:>12} ns", least / per);
    };
    least("connect, LOGIN, SELECT of 100, FETCH, LOGOUT", 100, &mut || {
        for _ in 0..100 {
            let mut one = Client::connect(address);
            one.login();
            one.command("SELECT Sent");
            one.command("FETCH 1:* (UID FLAGS)");
            one.command("LOGOUT");
        }
    });
    least("SELECT of 100,000, cached", 100, &mut || {
        for _ in 0..50 {
            client.command("SELECT INBOX");
            client.command("EXAMINE INBOX");
        }
    });
    client.command("SELECT INBOX");
    let mut sign = ["+", "-"].into_iter().cycle();
    least("STORE of 10,000, with FETCH", 1, &mut || {
        let sign = sign.next().unwrap_or("+");
        client.command(&format!("STORE 1:10000 {sign}FLAGS (\\Seen)"));
    });
    least("STORE of 1 (what the in-memory engine takes for 100,000)", 1, &mut || {
        let sign = sign.next().unwrap_or("+");
        client.command(&format!("STORE 1 {sign}FLAGS (\\Seen)"));
    });
    least("FETCH 1:* (UID FLAGS) of 100,000, per message", 100_000, &mut || {
        client.command("FETCH 1:* (UID FLAGS)");
    });
    least("NOOP", 1000, &mut || {
        for _ in 0..1000 {
            client.command("NOOP");
        }
    });
    least("LIST \"\" *", 100, &mut || {
        for _ in 0..100 {
            client.command("LIST \"\" *");
        }
    });
}

/// Resident memory a session, by opening many.
fn memory(address: SocketAddr, what: &str, commands: &[&str]) {
    const SESSIONS: u64 = 2000;
    let open = || {
        let mut client = Client::connect(address);
        client.login();
        for command in commands {
            client.command(command);
        }
        client.stream.into_inner()
    };
    let _warm: Vec<TcpStream> = (0..200).map(|_| open()).collect();
    let before = resident_bytes();
    let sessions: Vec<TcpStream> = (0..SESSIONS).map(|_| open()).collect();
    std::thread::sleep(Duration::from_millis(200));
    println!("{what:<58} {:>12} bytes", resident_bytes().saturating_sub(before) / SESSIONS);
    // Kept open, so that the next sessions do not get their memory.
    std::mem::forget(sessions);
}

/// A server on a thread of its own; its address and the thread's id.
fn start(messages: usize) -> (SocketAddr, u32) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async move {
            posthaste_net::raise_file_limit(16_384).expect("a file limit");
            let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
            let store = Store::new(Arc::clone(&engine), StoreOptions::default());
            let directory = Directory::with_policy(engine, Policy::cheap_for_tests()).expect("directory");
            let directory = Arc::new(directory);
            let account = directory.add("ana", &Secret::new("pw".to_owned()), NewAccount::default()).await;
            let account = account.expect("account");
            let delivery = Delivery::new(store.clone(), directory, DeliveryOptions::default());
            let list = delivery.mailboxes(&account).await.expect("mailboxes");
            for (name, count) in [("INBOX", messages), ("Sent", 100)] {
                let name = MailboxName::new(name).expect("name");
                fill(&store, list.find(&name).expect("mailbox").id, count).await;
            }
            let options = ImapOptions::default();
            let service = Arc::new(ImapService::new(options, delivery, None, ByteBudget::new(64 << 20)));
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = Listener::bind(&Endpoint { address, mode: Mode::Plain }).expect("port");
            let tid = std::fs::read_link("/proc/thread-self").expect("thread id");
            let tid = tid.file_name().and_then(|t| t.to_str()).and_then(|t| t.parse().ok()).expect("tid");
            sender.send((listener.local_addr(), tid)).expect("receiver");
            let (_trigger, shutdown) = Shutdown::new();
            let token = shutdown.clone();
            let session = move |connection| Arc::clone(&service).serve(connection, token.clone());
            listener.serve(ServeOptions::new(shutdown), session).await.expect("serve");
        });
    });
    receiver.recv().expect("the server starts")
}

async fn fill(store: &Store, mailbox: posthaste_mail_model::MailboxId, count: usize) {
    let mailbox = store.open(mailbox).await.expect("open");
    for _ in 0..count.div_ceil(BATCH) {
        let message = || IncomingMessage {
            bytes: Bytes::from_static(b"Subject: x\r\n\r\ny\r\n"),
            summary: Bytes::new(),
            body: store.new_body_id(),
            flags: Vec::new(),
            date: 1_700_000_000,
            saved: None,
        };
        let batch = (0..count.min(BATCH)).map(|_| message()).collect();
        mailbox.append(batch).await.expect("append");
    }
}

struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_nodelay(true).expect("nodelay");
        let mut client = Self { stream: BufReader::with_capacity(64 * 1024, stream) };
        client.read_to("* OK");
        client
    }

    fn login(&mut self) {
        self.command("LOGIN ana pw");
    }

    fn command(&mut self, command: &str) {
        write!(self.stream.get_mut(), "t {command}\r\n").expect("write");
        self.read_to(if command == "IDLE" { "+ " } else { "t OK" });
    }

    fn read_to(&mut self, prefix: &str) {
        let mut line = Vec::new();
        loop {
            line.clear();
            self.stream.read_until(b'\n', &mut line).expect("read");
            assert!(!line.is_empty(), "hung up");
            assert!(!line.starts_with(b"t NO") && !line.starts_with(b"t BAD"), "{line:?}");
            if line.starts_with(prefix.as_bytes()) {
                return;
            }
        }
    }
}

fn thread_cpu_ns(tid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).expect("schedstat");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("pages");
    pages * 4096
}
