//! A sink of mail: an SMTP server that takes everything, compares each message with the digest that
//! the instrument sent, and keeps nothing. It acts as the other server that users send mail to, as
//! in SPECmail2001 and seed 002.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_load_workload::corpus::{Verdict, Verifier};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The longest command taken: RFC 5321 §4.5.3.1.4 allows 512 octets; extensions add to it.
const COMMAND_BYTES_MAX: usize = 4 * 1024;
/// The longest message taken. It is looked at as it comes, and not kept.
const MESSAGE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Connections at once: a server that sends mail has some dozens to one host.
const CONNECTIONS_MAX: usize = 1024;

/// The messages that a sink has taken.
#[derive(Debug, Default)]
pub struct Taken {
    messages: AtomicU64,
    bytes: AtomicU64,
    recipients: AtomicU64,
    altered: AtomicU64,
    foreign: AtomicU64,
}

impl Taken {
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
/// The address cannot be listened at.
pub fn sink(address: &str) -> io::Result<(SocketAddr, Arc<Taken>)> {
    let listener = std::net::TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let taken = Arc::new(Taken::default());
    let counts = taken.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("sink".into()).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            loop {
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let Ok((stream, _)) = listener.accept().await else { continue };
                let counts = counts.clone();
                tokio::spawn(async move {
                    let _place = place;
                    let _ = stream.set_nodelay(true);
                    // A peer that leaves in the middle has sent nothing that counts.
                    let _ = converse(stream, &counts).await;
                });
            }
        });
    })?;
    Ok((bound, taken))
}

async fn converse(mut stream: TcpStream, taken: &Taken) -> io::Result<()> {
    stream.write_all(b"220 sink ESMTP\r\n").await?;
    let (mut input, mut recipients): (Vec<u8>, u64) = (Vec::new(), 0);
    loop {
        let Some(end) = memchr::memchr(b'\n', &input) else {
            if input.len() > COMMAND_BYTES_MAX {
                return stream.write_all(b"500 5.5.2 Line too long\r\n").await;
            }
            if stream.read_buf(&mut input).await? == 0 {
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
            b"RCPT" => {
                recipients += 1;
                b"250 2.1.5 Taken\r\n"
            }
            b"DATA" if recipients == 0 => b"503 5.5.1 RCPT first\r\n",
            b"DATA" => {
                stream.write_all(b"354 Go on\r\n").await?;
                let (verdict, bytes) = message(&mut stream, &mut input).await?;
                taken.messages.fetch_add(1, Ordering::Relaxed);
                taken.bytes.fetch_add(bytes, Ordering::Relaxed);
                taken.recipients.fetch_add(std::mem::take(&mut recipients), Ordering::Relaxed);
                let (foreign, altered) =
                    (matches!(verdict, Verdict::Foreign), matches!(verdict, Verdict::Altered(..)));
                taken.foreign.fetch_add(u64::from(foreign), Ordering::Relaxed);
                taken.altered.fetch_add(u64::from(altered), Ordering::Relaxed);
                b"250 2.0.0 Taken\r\n"
            }
            b"MAIL" | b"RSET" => {
                recipients = 0;
                b"250 2.0.0 OK\r\n"
            }
            b"NOOP" => b"250 2.0.0 OK\r\n",
            b"QUIT" => return stream.write_all(b"221 2.0.0 Bye\r\n").await,
            _ => b"502 5.5.1 Not implemented\r\n",
        };
        stream.write_all(reply).await?;
    }
}

/// A message up to the lone dot, dots unstuffed (RFC 5321 §4.5.2), looked at line by line.
async fn message(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<(Verdict, u64)> {
    let (mut verifier, mut bytes, mut at) = (Verifier::default(), 0u64, 0usize);
    loop {
        while let Some(newline) = memchr::memchr(b'\n', &input[at..]) {
            let line = &input[at..=at + newline];
            at += newline + 1;
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
        if bytes + input.len() as u64 > MESSAGE_BYTES_MAX || stream.read_buf(input).await? == 0 {
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
}
