//! Connections that read answers without looking at them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::{PASSWORD, USER};

/// An IMAP or LMTP connection that reads answers without looking at them.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    tag: u32,
}

impl Client {
    pub fn connect(address: SocketAddr, greeting: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self { stream, buffer: vec![0; 1 << 20], tag: 0 };
        client.until(greeting.as_bytes());
        client
    }

    pub fn login(address: SocketAddr) -> Self {
        Self::login_as(address, USER)
    }

    pub fn login_as(address: SocketAddr, user: &str) -> Self {
        let mut client = Self::connect(address, "* OK");
        client.ask(&format!("LOGIN {user} \"{PASSWORD}\""));
        client
    }

    /// Reads until the last line begins with `start` and is whole.
    pub fn until(&mut self, start: &[u8]) -> usize {
        let (mut total, mut tail) = (0, Vec::new());
        loop {
            let n = self.stream.read(&mut self.buffer).unwrap();
            assert!(n > 0, "the server hung up");
            total += n;
            // Only the end can hold the last line.
            tail.extend_from_slice(&self.buffer[n.saturating_sub(1024)..n]);
            let from = tail.len().saturating_sub(2048);
            tail.drain(..from);
            if tail.ends_with(b"\r\n") {
                let body = &tail[..tail.len() - 2];
                let last = body.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                if body[last..].starts_with(start) {
                    assert!(
                        !body[last..].windows(4).any(|w| w == b" NO " || w == b" BAD"),
                        "{}",
                        String::from_utf8_lossy(body)
                    );
                    return total;
                }
            }
        }
    }

    /// Reads until the answers contain `what`.
    pub fn until_contains(&mut self, what: &str) {
        let mut said = Vec::new();
        while !said.windows(what.len()).any(|w| w == what.as_bytes()) {
            let n = self.stream.read(&mut self.buffer).unwrap();
            assert!(n > 0, "the server hung up");
            said.extend_from_slice(&self.buffer[..n]);
        }
    }

    /// Sends bytes and reads up to a line that begins with `answer`.
    pub fn say(&mut self, bytes: &[u8], answer: &str) {
        self.stream.write_all(bytes).unwrap();
        self.until(answer.as_bytes());
    }

    pub fn ask(&mut self, command: &str) -> usize {
        self.tag += 1;
        let tag = format!("t{} ", self.tag);
        self.stream.write_all(format!("{tag}{command}\r\n").as_bytes()).unwrap();
        self.until(tag.as_bytes())
    }
}

/// One APPEND, until it is on disk.
pub fn append_one(client: &mut Client, target: &str, text: &[u8]) {
    client.tag += 1;
    let tag = format!("t{} ", client.tag);
    let mut command = format!("{tag}APPEND {target} {{{}+}}\r\n", text.len()).into_bytes();
    command.extend_from_slice(text);
    command.extend_from_slice(b"\r\n");
    client.stream.write_all(&command).unwrap();
    client.until(tag.as_bytes());
}

/// A connection that delivers: RFC 2033.
pub struct Lmtp(Client);

impl Lmtp {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut lmtp = Self(Client { stream, buffer: vec![0; 1 << 16], tag: 0 });
        lmtp.0.until(b"220 ");
        lmtp.say(b"LHLO bench.example\r\n", b"250 ");
        lmtp
    }

    fn say(&mut self, text: &[u8], answer: &[u8]) {
        self.0.stream.write_all(text).unwrap();
        self.0.until(answer);
    }

    pub fn deliver(&mut self, to: &str, text: &[u8]) {
        self.say(b"MAIL FROM:<sender@example.net>\r\n", b"250 ");
        self.say(format!("RCPT TO:<{to}>\r\n").as_bytes(), b"250 ");
        self.say(b"DATA\r\n", b"354 ");
        // No line of it begins with a dot.
        self.say(&[text, b".\r\n"].concat(), b"250 ");
    }
}
