//! The cost of a queue on the embedded engine, for a destination that does not answer: the start,
//! memory, and each attempt to reach the destination.
//!
//! ```text
//! cargo bench -p posthaste --bench queue                     100,000 messages
//! cargo bench -p posthaste --bench queue -- 10000 2048       10,000 messages of 2,048 octets
//! POSTHASTE_BINARY=./posthaste-before cargo bench …          the same of another build
//! ```
//!
//! The server runs with an empty queue, takes the messages by SMTP, and is started again. Before
//! and after, it runs for a minute without other work. Nothing listens at the destination, which is
//! tried every second. So the difference of both minutes is the cost of the attempts and the
//! messages. CPU is that of the threads by `/proc`, memory the anonymous pages.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed};

/// Connections that bring messages.
const SENDERS: usize = 16;
/// How long a server is watched while nothing comes.
const WATCHED: Duration = Duration::from_secs(60);
const SETTINGS: &str = "hostname = \"mail.example.org\"\n[listen]\nmetrics = [\"127.0.0.1:0\"]\n[relay]\n\
    enabled = true\nretry_first = \"1 s\"\nretry_longest = \"1 s\"\n\
    routes = [{ domain = \"dead.test\", host = \"127.0.0.1:1\", accept = \"all\" }]\n";

/// A server that has opened its queue.
struct Started {
    server: Server,
    /// From the start of the process to its open queue.
    took: Duration,
    cpu: Duration,
}

impl Started {
    fn new(data: &Path) -> Self {
        let binary = std::env::var("POSTHASTE_BINARY").unwrap_or(env!("CARGO_BIN_EXE_posthaste").to_owned());
        let begin = Instant::now();
        let server = ServerBuilder::new(binary)
            .data(data)
            .settings(&data.join("settings.toml"), SETTINGS)
            .listen("smtp=127.0.0.1:0")
            .start();
        while server.logged("the queue is open").is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = begin.elapsed();
        let cpu = Cpu::default().sample(&server);
        Self { server, took, cpu }
    }

    /// CPU and attempts to reach the destination while nothing comes.
    fn watch(&self) -> (Duration, f64) {
        // By then the work that the start has deferred is done.
        std::thread::sleep(Duration::from_secs(5));
        let mut cpu = Cpu::default();
        let before = (cpu.sample(&self.server), attempts(&self.server));
        let begin = Instant::now();
        while begin.elapsed() < WATCHED {
            std::thread::sleep(Duration::from_secs(1));
            cpu.sample(&self.server);
        }
        (cpu.sample(&self.server) - before.0, attempts(&self.server) - before.1)
    }
}

/// Nanoseconds of CPU of each thread. One that ends has waited for work for ten seconds before, so
/// a look each second misses nothing.
#[derive(Default)]
struct Cpu(HashMap<OsString, u64>);

impl Cpu {
    fn sample(&mut self, server: &Server) -> Duration {
        for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            if let Some(ns) = text.split(' ').next().and_then(|ns| ns.parse().ok()) {
                self.0.insert(task.file_name(), ns);
            }
        }
        Duration::from_nanos(self.0.values().sum())
    }
}

/// KiB of memory that is no file's.
fn memory_kib(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Attempts to reach the destination that failed.
fn attempts(server: &Server) -> f64 {
    let mut stream = std::net::TcpStream::connect(server.address("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let name = "posthaste_queue_connections_total{to=\"route\",outcome=\"failed\"}";
    text.lines().find_map(|line| line.strip_prefix(name)).map_or(0.0, |value| value.trim().parse().unwrap())
}

/// Hands in some messages on one connection.
fn fill(address: SocketAddr, count: usize, octets: usize) {
    let mut client = LineClient::connect(address).unwrap();
    client.reply().unwrap();
    client.ask("EHLO client.test").unwrap();
    let words = "some words of a message that has to wait\r\n".repeat(octets / 42);
    let text = dot_stuffed(format!("From: a@far.test\r\nSubject: waits\r\n\r\n{words}").as_bytes());
    for _ in 0..count {
        client.send(b"MAIL FROM:<>\r\nRCPT TO:<bo@dead.test>\r\nDATA\r\n").unwrap();
        for code in ["250", "250", "354"] {
            let reply = client.reply().unwrap();
            assert!(reply.starts_with(code), "{reply}");
        }
        client.send(&text).unwrap();
        let reply = client.reply().unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let count = numbers.next().unwrap_or(100_000).next_multiple_of(SENDERS);
    let octets = numbers.next().unwrap_or(2_048);
    let dir = tempfile::tempdir().unwrap();

    // The first start makes an account.
    assert!(Started::new(dir.path()).server.stop().status.success());
    let empty = Started::new(dir.path());
    let (idle, _) = empty.watch();
    let memory_empty = memory_kib(&empty.server);
    let (begin, address) = (Instant::now(), empty.server.address("smtp"));
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(move || fill(address, count / SENDERS, octets));
        }
    });
    let filled = begin.elapsed();
    assert!(empty.server.stop().status.success());

    let full = Started::new(dir.path());
    let (busy, tried) = full.watch();
    let memory_full = memory_kib(&full.server);
    assert!(full.server.stop().status.success());

    assert!(tried > 0.0, "the destination was never tried");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{count} messages of {octets} octets wait for one destination");
    println!("| what | empty queue | full queue |\n| --- | --- | --- |");
    println!("| start until the queue is open | {:.0} ms | {:.0} ms |", ms(empty.took), ms(full.took));
    println!("| CPU of the start | {:.0} ms | {:.0} ms |", ms(empty.cpu), ms(full.cpu));
    println!("| memory | {:.1} MiB | {:.1} MiB |", memory_empty / 1024.0, memory_full / 1024.0);
    println!("| CPU of a minute | {:.1} ms | {:.1} ms |", ms(idle), ms(busy));
    println!("\nmemory of a message: {:.0} B", (memory_full - memory_empty) * 1024.0 / count as f64);
    let cost_us = (busy.as_secs_f64() - idle.as_secs_f64()) * 1e6 / tried;
    println!("CPU of an attempt: {cost_us:.0} µs ({tried:.0} in {} s)", WATCHED.as_secs());
    println!("taken: {:.0} messages a second", count as f64 / filled.as_secs_f64());
}
