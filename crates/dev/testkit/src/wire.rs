//! Conversations with a line protocol as readable transcripts, over a real socket.
//!
//! ```text
//! C: a1 SELECT INBOX           sends the line and CRLF
//! C- abc                       sends the bytes without a line end
//! S: * … EXISTS                the next line; `…` matches any text, also none
//! S~ a1 OK …                   passes over lines up to one that is like this
//! S# 16                        skips this many bytes, such as a literal
//! # a remark
//! ```
//!
//! Empty lines are skipped. A line that is not as written, or does not come within
//! [`READ_WITHIN`], fails the test with the whole conversation so far.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a line may take: only a failure waits for it, also on a slow machine with other work.
pub const READ_WITHIN: Duration = Duration::from_secs(60);

/// How short "nothing comes" is looked at: only ever makes a test miss a fault, never fail without
/// one.
const SILENCE: Duration = Duration::from_millis(80);

/// One connection.
pub struct Wire<S: Read + Write = TcpStream> {
    stream: BufReader<S>,
    said: Vec<String>,
}

impl Wire {
    /// Connects; the server's greeting is the first line.
    pub fn connect(address: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|e| panic!("cannot connect to {address}: {e}"));
        stream.set_read_timeout(Some(READ_WITHIN)).expect("a read deadline can be set");
        stream.set_write_timeout(Some(READ_WITHIN)).expect("a write deadline can be set");
        stream.set_nodelay(true).expect("NODELAY can be set");
        Self::over(stream)
    }

    /// The socket itself.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Fails if the server says anything within a moment.
    pub fn expect_silence(&mut self) {
        let socket = self.stream.get_ref();
        socket.set_read_timeout(Some(SILENCE)).expect("a read deadline can be set");
        let heard = self.stream.fill_buf().map(<[u8]>::to_vec).unwrap_or_default();
        self.stream.get_ref().set_read_timeout(Some(READ_WITHIN)).expect("a read deadline can be set");
        if !heard.is_empty() {
            self.fail(&format!("expected silence, got {:?}", String::from_utf8_lossy(&heard)));
        }
    }
}

impl<S: Read + Write> Wire<S> {
    /// Over a stream of any kind, which has its own deadlines.
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream), said: Vec::new() }
    }

    /// The stream, with nothing unread: for STARTTLS.
    pub fn into_stream(self) -> S {
        assert!(self.stream.buffer().is_empty(), "the server sent more than was read");
        self.stream.into_inner()
    }

    /// Hands a short message in by LMTP: the whole session, from the greeting on.
    pub fn deliver(&mut self, to: &str, subject: &str) {
        self.run(&format!(
            "S: 220 …
             C: LHLO test
             S~ 250 …
             C: MAIL FROM:<bo@example.net>
             S: 250 …
             C: RCPT TO:<{to}>
             S: 250 …
             C: DATA
             S: 354 …
             C: Subject: {subject}
             C:
             C: text
             C: .
             S: 250 …
             C: QUIT
             S: 221 …"
        ));
    }

    /// Plays a transcript.
    pub fn run(&mut self, transcript: &str) -> &mut Self {
        for line in transcript.lines().map(str::trim_start) {
            if line.is_empty() || line.starts_with("# ") {
                continue;
            }
            // An empty line may have lost the blank at its end.
            let line = match line {
                "C:" => "C: ",
                "S:" => "S: ",
                line => line,
            };
            match line.split_at_checked(3).unwrap_or((line, "")) {
                ("C: ", text) => self.send(format!("{text}\r\n").as_bytes()),
                ("C- ", text) => self.send(text.as_bytes()),
                ("S: ", pattern) => drop(self.expect(pattern)),
                ("S~ ", pattern) => drop(self.skip_to(pattern)),
                ("S# ", count) => drop(self.take(count.trim().parse().expect("a number of bytes"))),
                _ => panic!("not a line of a transcript: {line:?}"),
            }
        }
        self
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.said.push(format!("C: {}", shown(bytes)));
        let stream = self.stream.get_mut();
        if let Err(error) = stream.write_all(bytes).and_then(|()| stream.flush()) {
            self.fail(&format!("cannot send: {error}"));
        }
    }

    /// The next line, without its line end; `None` if the server hung up.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
                self.said.push(format!("S: {}", shown(text.as_bytes())));
                Some(text)
            }
            Err(error) => self.fail(&format!("no line: {error}")),
        }
    }

    /// The next line, which is like `pattern`.
    pub fn expect(&mut self, pattern: &str) -> String {
        match self.line() {
            Some(line) if is_like(&line, pattern) => line,
            Some(_) => self.fail(&format!("expected: {pattern}")),
            None => self.fail(&format!("the server hung up; expected: {pattern}")),
        }
    }

    /// Passes over lines up to one like `pattern`. Returns all of them, that one included.
    pub fn skip_to(&mut self, pattern: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line() {
                Some(line) => {
                    lines.push(line);
                    if lines.last().is_some_and(|line| is_like(line, pattern)) {
                        return lines;
                    }
                }
                None => self.fail(&format!("the server hung up; expected some day: {pattern}")),
            }
        }
    }

    /// Reads this many bytes.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        if let Err(error) = self.stream.read_exact(&mut bytes) {
            self.fail(&format!("expected {count} bytes: {error}"));
        }
        self.said.push(format!("S# {}", shown(&bytes)));
        bytes
    }

    /// Fails unless the server closes the connection now.
    pub fn expect_end(&mut self) {
        if let Some(line) = self.line() {
            self.fail(&format!("expected the end, got {line}"));
        }
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.said.len().saturating_sub(40);
        panic!("{what}\n--- so far ---\n{}", self.said[from..].join("\n"));
    }
}

fn shown(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(400).collect();
    text.trim_end_matches("\r\n").escape_debug().to_string()
}

/// Whether a text is like a pattern in which `…` matches any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns() {
        assert!(is_like("a OK done", "a OK done"));
        assert!(is_like("a OK done", "a OK…"));
        assert!(is_like("a OK [X] done", "a … [X] …"));
        assert!(is_like("abab", "a…b"));
        assert!(!is_like("a OK", "a OK done"));
        assert!(!is_like("a NO", "…OK…"));
        assert!(!is_like("ab", "abc…"));
    }
}
