//! A sink of mail: an SMTP server that takes everything, compares each message with the digest that
//! the instrument sent, and keeps nothing. It acts as the other server that users send mail to, as
//! in SPECmail2001 and seed 002.
//!
//! A [`Relay`] is a sink for one domain. It delivers mail for others by LMTP, before it says that
//! it took the mail. It is the next host of a server that only passes on what users submit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_load_workload::corpus::{Verdict, Verifier};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::onward::Onward;
use crate::waits::Waits;

/// The longest command taken: RFC 5321 §4.5.3.1.4 allows 512 octets; extensions add to it.
const COMMAND_BYTES_MAX: usize = 4 * 1024;
/// The longest message taken. It is checked as it arrives, and not kept.
const MESSAGE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The longest message that a relay takes. It is in memory until it is delivered.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most recipients of a message with accounts: RFC 5321 §4.5.3.1.8.
const RECIPIENTS_MAX: usize = 100;
/// Connections at once: a server that sends mail has some dozens to one host. One more ends the one
/// that waits longest for its peer.
const CONNECTIONS_MAX: usize = 1024;
/// Longest wait for a peer (RFC 5321 §4.5.3.2.7).
const PEER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Pause after a connection could not be accepted. Without a free descriptor every try fails at
/// once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The messages that a sink has taken.
#[derive(Debug, Default)]
pub struct SinkCounts {
    messages: AtomicU64,
    bytes: AtomicU64,
    recipients: AtomicU64,
    altered: AtomicU64,
    foreign: AtomicU64,
}

impl SinkCounts {
    /// Messages.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
    /// Bytes of the messages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
    /// Recipients of the messages.
    pub fn recipients(&self) -> u64 {
        self.recipients.load(Ordering::Relaxed)
    }
    /// Messages of the instrument whose content was altered on the way.
    pub fn altered(&self) -> u64 {
        self.altered.load(Ordering::Relaxed)
    }
    /// Messages that the instrument did not make.
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }
}

/// Starts a sink at this address, on a thread of its own. It ends with the program.
///
/// # Errors
/// The address cannot be bound.
pub fn sink(address: &str) -> io::Result<(SocketAddr, Arc<SinkCounts>)> {
    let host = Host::default();
    let taken = host.taken.clone();
    Ok((start(address, host, Arc::default(), CONNECTIONS_MAX)?, taken))
}

/// A relay; it stops when it is dropped.
pub struct Relay {
    /// The address at which it takes mail.
    pub address: SocketAddr,
    /// The messages for the other domain, which it has taken.
    pub taken: Arc<SinkCounts>,
    stop: Arc<Notify>,
}

impl Relay {
    /// Starts one on a free port of loopback. Mail for `elsewhere` stays there; mail for all other
    /// domains is delivered at `lmtp`.
    ///
    /// # Errors
    /// There is no port or thread left.
    pub fn start(lmtp: SocketAddr, elsewhere: &str) -> io::Result<Self> {
        let (taken, stop) = (Arc::new(SinkCounts::default()), Arc::new(Notify::new()));
        let onward = Some(Onward::new(lmtp, elsewhere));
        let host = Host { taken: taken.clone(), onward, waits: Waits::default() };
        Ok(Self { address: start("127.0.0.1:0", host, stop.clone(), CONNECTIONS_MAX)?, taken, stop })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// A host that takes mail.
#[derive(Default)]
struct Host {
    taken: Arc<SinkCounts>,
    /// The server of the accounts, if it is a relay.
    onward: Option<Onward>,
    waits: Waits,
}

impl Host {
    async fn read(&self, stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<usize> {
        self.waits.wait(PEER_TIMEOUT, stream.read_buf(input)).await
    }

    async fn write(&self, stream: &mut TcpStream, text: &[u8]) -> io::Result<()> {
        self.waits.wait(PEER_TIMEOUT, stream.write_all(text)).await
    }
}

/// Serves at an address, on a thread of its own, until it is stopped.
fn start(address: &str, host: Host, stop: Arc<Notify>, connections: usize) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let host = Arc::new(host);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("sink".into()).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let places = Arc::new(Semaphore::new(connections));
            tokio::select! {
                () = accept(&listener, &places, &host) => {}
                () = stop.notified() => {}
            }
        });
    })?;
    Ok(bound)
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>, host: &Arc<Host>) {
    loop {
        let stream = connected(|| listener.accept()).await;
        let Some(place) = host.waits.place(places).await else { return };
        let host = host.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = stream.set_nodelay(true);
            // A peer that leaves in the middle has sent nothing that counts.
            let _ = converse(stream, &host).await;
        });
    }
}

/// The next connection.
async fn connected<F>(mut accept: impl FnMut() -> F) -> TcpStream
where
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// The sender and the recipients of a message.
#[derive(Default)]
struct Envelope {
    from: String,
    /// Recipients with accounts, at a relay.
    here: Vec<String>,
    /// The number of other recipients.
    elsewhere: u64,
}

/// The address in `MAIL FROM:<ana@example.org>` (RFC 5321 §4.1.1.2).
fn path(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(path, _)| path.to_owned())
        .unwrap_or_default()
}

async fn converse(mut stream: TcpStream, host: &Host) -> io::Result<()> {
    host.write(&mut stream, b"220 sink ESMTP\r\n").await?;
    let (mut input, mut envelope): (Vec<u8>, Envelope) = Default::default();
    loop {
        let Some(end) = memchr::memchr(b'\n', &input) else {
            if input.len() > COMMAND_BYTES_MAX {
                return host.write(&mut stream, b"500 5.5.2 Line too long\r\n").await;
            }
            if host.read(&mut stream, &mut input).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let line: Vec<u8> = input.drain(..=end).collect();
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let reply: &[u8] = match verb.as_slice() {
            b"EHLO" => {
                b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES\r\n"
            }
            b"HELO" => b"250 sink\r\n",
            b"RCPT" if envelope.here.len() >= RECIPIENTS_MAX => b"452 4.5.3 Too many recipients\r\n",
            b"RCPT" => {
                let to = path(&line);
                match host.onward.as_ref().is_some_and(|onward| !onward.is_elsewhere(&to)) {
                    true => envelope.here.push(to),
                    false => envelope.elsewhere += 1,
                }
                b"250 2.1.5 Taken\r\n"
            }
            b"DATA" if envelope.elsewhere == 0 && envelope.here.is_empty() => b"503 5.5.1 RCPT first\r\n",
            b"DATA" => {
                host.write(&mut stream, b"354 Go on\r\n").await?;
                match take(&mut stream, &mut input, host, std::mem::take(&mut envelope)).await? {
                    true => b"250 2.0.0 Taken\r\n",
                    false => b"451 4.4.1 Not delivered\r\n",
                }
            }
            b"MAIL" | b"RSET" => {
                envelope = Envelope { from: path(&line), ..Envelope::default() };
                b"250 2.0.0 OK\r\n"
            }
            b"NOOP" => b"250 2.0.0 OK\r\n",
            b"QUIT" => return host.write(&mut stream, b"221 2.0.0 Bye\r\n").await,
            _ => b"502 5.5.1 Not implemented\r\n",
        };
        host.write(&mut stream, reply).await?;
    }
}

/// Takes a message. Returns whether it has reached all its recipients.
async fn take(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    host: &Host,
    envelope: Envelope,
) -> io::Result<bool> {
    let mut kept = (!envelope.here.is_empty()).then(Vec::new);
    let (verdict, bytes) = message(stream, input, host, kept.as_mut()).await?;
    let delivered = match (&host.onward, &kept) {
        (Some(onward), Some(mail)) => onward.deliver(&envelope.from, &envelope.here, mail).await.is_ok(),
        _ => true,
    };
    if delivered && envelope.elsewhere > 0 {
        let (taken, relaxed) = (&host.taken, Ordering::Relaxed);
        taken.messages.fetch_add(1, relaxed);
        taken.bytes.fetch_add(bytes, relaxed);
        taken.recipients.fetch_add(envelope.elsewhere, relaxed);
        taken.foreign.fetch_add(u64::from(matches!(verdict, Verdict::Foreign)), relaxed);
        taken.altered.fetch_add(u64::from(matches!(verdict, Verdict::Altered(..))), relaxed);
    }
    Ok(delivered)
}

/// A message up to the line with a single dot, checked line by line, dots unstuffed (RFC 5321
/// §4.5.2). It is kept as it arrives, if it is delivered afterwards.
async fn message(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    host: &Host,
    mut kept: Option<&mut Vec<u8>>,
) -> io::Result<(Verdict, u64)> {
    let (mut verifier, mut bytes, mut at) = (Verifier::default(), 0u64, 0usize);
    let most = if kept.is_some() { KEPT_BYTES_MAX } else { MESSAGE_BYTES_MAX };
    loop {
        while let Some(newline) = memchr::memchr(b'\n', &input[at..]) {
            let line = &input[at..=at + newline];
            at += newline + 1;
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(line);
            }
            if line == b".\r\n" {
                input.drain(..at);
                return Ok((verifier.verdict(), bytes));
            }
            let line = line.strip_prefix(b".").unwrap_or(line);
            verifier.feed(line);
            bytes += line.len() as u64;
        }
        input.drain(..at);
        at = 0;
        if bytes + input.len() as u64 > most || host.read(stream, input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use posthaste_load_workload::corpus::{Corpus, Envelope, Sizes, sent_serial};

    use super::*;

    /// Sends lines and returns the code of each answer.
    fn say(client: &mut BufReader<std::net::TcpStream>, text: &[u8]) -> String {
        client.get_mut().write_all(text).unwrap();
        let mut line = String::new();
        while line.is_empty() || line.as_bytes().get(3) == Some(&b'-') {
            line.clear();
            client.read_line(&mut line).unwrap();
        }
        line[..3].to_owned()
    }

    #[test]
    fn messages_are_counted_and_verified_and_never_kept() {
        let (address, taken) = sink("127.0.0.1:0").unwrap();
        let mut client = BufReader::new(std::net::TcpStream::connect(address).unwrap());
        assert_eq!(say(&mut client, b""), "220");
        assert_eq!(say(&mut client, b"EHLO x\r\n"), "250");
        assert_eq!(say(&mut client, b"DATA\r\n"), "503");
        let mut own = Vec::new();
        let sizes: Sizes = "fixed:2k".parse().unwrap();
        let envelope = Envelope { from: "a@example.org", to: "b@example.net" };
        Corpus::new(1).write(sent_serial(1, 0, 1), &sizes, envelope, &mut own);
        let altered = [own.as_slice(), b"more\r\n"].concat();
        for mail in [own.as_slice(), &altered, b"Subject: x\r\n\r\n..stuffed\r\n"] {
            assert_eq!(say(&mut client, b"MAIL FROM:<a@example.org>\r\n"), "250");
            assert_eq!(say(&mut client, b"RCPT TO:<b@example.net>\r\n"), "250");
            assert_eq!(say(&mut client, b"data\r\n"), "354");
            client.get_mut().write_all(mail).unwrap();
            assert_eq!(say(&mut client, b".\r\n"), "250");
        }
        assert_eq!(say(&mut client, b"VRFY x\r\n"), "502");
        assert_eq!(say(&mut client, b"QUIT\r\n"), "221");
        assert_eq!((taken.messages(), taken.recipients(), taken.altered(), taken.foreign()), (3, 3, 1, 1));
        assert_eq!(taken.bytes(), (own.len() + altered.len() + 12 + 2 + 10) as u64);
    }

    #[test]
    fn the_connection_that_waits_longest_leaves_for_a_new_one() {
        let address = start("127.0.0.1:0", Host::default(), Arc::default(), 2).unwrap();
        let connect = || {
            let stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut client = BufReader::new(stream);
            assert_eq!(say(&mut client, b""), "220");
            client
        };
        let (mut busy, mut silent) = (connect(), connect());
        assert_eq!(say(&mut busy, b"NOOP\r\n"), "250");
        let mut new = connect();
        assert_eq!(silent.read_line(&mut String::new()).unwrap(), 0);
        for client in [&mut busy, &mut new] {
            assert_eq!(say(client, b"NOOP\r\n"), "250");
        }
    }

    #[test]
    fn an_error_of_accept_is_followed_by_a_pause() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begin = std::time::Instant::now();
        runtime.block_on(async {
            let listener = &TcpListener::bind("127.0.0.1:0").await.unwrap();
            let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut errors = 2;
            connected(|| {
                let fails = errors > 0;
                errors -= i32::from(fails);
                async move {
                    match fails {
                        true => Err(io::Error::other("no descriptor is free")),
                        false => listener.accept().await,
                    }
                }
            })
            .await;
        });
        assert!(begin.elapsed() >= 2 * ACCEPT_AGAIN);
    }

    #[test]
    fn a_relay_delivers_mail_for_accounts_and_keeps_that_for_the_other_domain() {
        let at = crate::start(crate::Faults::default()).unwrap();
        let relay = Relay::start(at.lmtp, "elsewhere.example").unwrap();
        let mut client = BufReader::new(std::net::TcpStream::connect(relay.address).unwrap());
        assert_eq!(say(&mut client, b""), "220");
        assert_eq!(say(&mut client, b"EHLO x\r\n"), "250");
        for to in ["ana@example.org", "ben@Elsewhere.Example"] {
            assert_eq!(say(&mut client, b"MAIL FROM:<a@example.org>\r\n"), "250");
            assert_eq!(say(&mut client, format!("RCPT TO:<{to}>\r\n").as_bytes()), "250");
            assert_eq!(say(&mut client, b"DATA\r\n"), "354");
            assert_eq!(say(&mut client, b"Subject: x\r\n\r\n..stuffed\r\n.\r\n"), "250");
        }
        assert_eq!((relay.taken.messages(), relay.taken.foreign()), (1, 1));
        // The one for an account is there, with its dot and without the stuffing.
        let mut imap = BufReader::new(std::net::TcpStream::connect(at.imap).unwrap());
        imap.get_mut().write_all(b"a LOGIN \"ana@example.org\" \"x\"\r\nb SELECT \"INBOX\"\r\nc UID FETCH 1:* (UID BODY[])\r\n").unwrap();
        let mut said = String::new();
        while !said.contains("\nc ") {
            assert!(imap.read_line(&mut said).unwrap() > 0, "{said}");
        }
        assert!(said.contains("Subject: x\r\n\r\n.stuffed\r\n"), "{said}");
    }

    #[test]
    fn mail_that_a_relay_cannot_deliver_is_refused_for_now() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let relay = Relay::start(nobody, "elsewhere.example").unwrap();
        let mut client = BufReader::new(std::net::TcpStream::connect(relay.address).unwrap());
        assert_eq!(say(&mut client, b""), "220");
        assert_eq!(say(&mut client, b"MAIL FROM:<a@example.org>\r\n"), "250");
        assert_eq!(say(&mut client, b"RCPT TO:<ana@example.org>\r\n"), "250");
        assert_eq!(say(&mut client, b"DATA\r\n"), "354");
        assert_eq!(say(&mut client, b"x\r\n.\r\n"), "451");
        assert_eq!(relay.taken.messages(), 0);
    }
}
