//! A POP3 client (RFC 1939): enough for checks, every message verified.

use std::time::Duration;

use posthaste_imap_client::Error;
use posthaste_imap_client::net::{Dialer, Endpoint, Security, Wire, put_away};
use posthaste_load_workload::corpus::Verifier;

use super::failure::Failure;
use super::maildrop::MESSAGES_MAX;

/// The longest line taken: RFC 1939 §3 says 512 bytes for replies; message lines may be as long as
/// SMTP lets them.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A connection.
pub struct Pop3 {
    wire: Wire,
    input: Vec<u8>,
    used: usize,
    timeout: Duration,
}

impl Pop3 {
    /// Connects, reads the greeting, starts TLS if requested.
    pub async fn connect(dialer: &Dialer, endpoint: &Endpoint, who: u32) -> Result<Self, Failure> {
        let wire = dialer.dial(endpoint, who).await?;
        let mut pop3 = Self { wire, input: Vec::new(), used: 0, timeout: dialer.timeout };
        pop3.status("connection").await?;
        if endpoint.security == Security::StartTls {
            pop3.command("STLS").await?;
            pop3.input.clear();
            pop3.used = 0;
            pop3.wire = dialer.secure(pop3.wire, endpoint).await?;
        }
        Ok(pop3)
    }

    /// USER and PASS.
    pub async fn login(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        self.write_text(&format!("USER {user}\r\n")).await?;
        self.status("login").await?;
        self.write_text(&format!("PASS {password}\r\n")).await?;
        self.status("login").await.map(drop)
    }

    /// One command with a one-line answer.
    pub async fn command(&mut self, line: &str) -> Result<String, Failure> {
        self.write_text(&format!("{line}\r\n")).await?;
        match self.status("command").await {
            Err(Failure::Connection(Error::Refused { text, .. })) => {
                Err(Failure::Refused { command: line.to_owned(), text })
            }
            other => other,
        }
    }

    /// STAT: messages and bytes.
    pub async fn stat(&mut self) -> Result<(u32, u64), Failure> {
        let text = self.command("STAT").await?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(count)), Some(Ok(bytes))) => match u32::try_from(count) {
                Ok(count @ ..=MESSAGES_MAX) => Ok((count, bytes)),
                _ => Err(Failure::Wrong(format!("STAT has {count} messages, over {MESSAGES_MAX}"))),
            },
            _ => Err(Failure::Wrong(format!("STAT answers `{text}`"))),
        }
    }

    /// Lines of an answer up to the lone dot, dots unstuffed, each with its line ending. Nothing is
    /// read after a wrong line, as a server may send lines without an end.
    pub async fn lines(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), Failure> {
        while let Some((start, end)) = self.line_of_answer().await? {
            each(&self.input[start..end]).map_err(Failure::Wrong)?;
        }
        Ok(())
    }

    /// The same as [`Self::lines`], but several whole lines at once where no dot is before them.
    async fn text(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
        loop {
            let plain = plain_lines(&self.input[self.used..]);
            if plain > 0 {
                each(&self.input[self.used..self.used + plain]);
                self.used += plain;
            }
            let Some((start, end)) = self.line_of_answer().await? else { return Ok(()) };
            each(&self.input[start..end]);
        }
    }

    /// Where the next line of an answer lies in the buffer, without a stuffed dot (RFC 1939 §3).
    /// `None` at the lone dot.
    async fn line_of_answer(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let (start, end) = self.line().await?;
        Ok(match &self.input[start..end] {
            b".\r\n" | b".\n" => None,
            line => Some((start + usize::from(line.starts_with(b".")), end)),
        })
    }

    /// RETR of a message, verified as it streams by; its size.
    pub async fn retrieve(&mut self, number: u32) -> Result<(Verifier, u64), Failure> {
        self.command(&format!("RETR {number}")).await?;
        let (mut verifier, mut bytes) = (Verifier::default(), 0);
        self.text(|lines| {
            verifier.feed(lines);
            bytes += lines.len() as u64;
        })
        .await?;
        Ok((verifier, bytes))
    }

    /// QUIT: deletions happen now.
    pub async fn quit(mut self) -> Result<(u64, u64), Failure> {
        self.command("QUIT").await?;
        self.wire.shut().await;
        self.input.clear();
        put_away(&mut self.input);
        Ok(self.bytes())
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> (u64, u64) {
        (self.wire.bytes_in, self.wire.bytes_out)
    }

    async fn write_text(&mut self, text: &str) -> Result<(), Failure> {
        match tokio::time::timeout(self.timeout, self.wire.write(text.as_bytes())).await {
            Ok(written) => Ok(written.map_err(Error::from)?),
            Err(_) => Err(Error::Timeout { seconds: self.timeout.as_secs() }.into()),
        }
    }

    async fn status(&mut self, what: &'static str) -> Result<String, Failure> {
        let (start, end) = self.line().await?;
        let line = String::from_utf8_lossy(&self.input[start..end]).trim_end().to_owned();
        if let Some(text) = line.strip_prefix("+OK") {
            return Ok(text.trim_start().to_owned());
        }
        match line.strip_prefix("-ERR") {
            Some(text) => Err(Error::Refused { what, text: text.trim_start().to_owned() }.into()),
            None => {
                Err(Error::Garbage { what: "+OK or -ERR", line: line.chars().take(100).collect() }.into())
            }
        }
    }

    /// The position of the next line in the buffer.
    async fn line(&mut self) -> Result<(usize, usize), Failure> {
        let mut looked = self.used;
        loop {
            if let Some(newline) = memchr::memchr(b'\n', &self.input[looked..]) {
                let (start, end) = (self.used, looked + newline + 1);
                self.used = end;
                return Ok((start, end));
            }
            if self.used > 0 {
                self.input.drain(..self.used);
                self.used = 0;
            }
            looked = self.input.len();
            if looked > LINE_BYTES_MAX {
                return Err(
                    Error::Garbage { what: "a line of acceptable length", line: String::new() }.into()
                );
            }
            match tokio::time::timeout(self.timeout, self.wire.read(&mut self.input)).await {
                Ok(Ok(0)) => return Err(Error::Closed { bye: None }.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(Error::from(error).into()),
                Err(_) => return Err(Error::Timeout { seconds: self.timeout.as_secs() }.into()),
            }
        }
    }
}

/// The length of the whole lines at the start of the input, up to one that begins with a dot.
fn plain_lines(input: &[u8]) -> usize {
    if input.first().is_none_or(|octet| *octet == b'.') {
        return 0;
    }
    let last = memchr::memmem::find(input, b"\n.").or_else(|| memchr::memrchr(b'\n', input));
    last.map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use posthaste_imap_client::net::Trust;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn lines_without_dots_are_taken_together() {
        let cases: [(&[u8], usize); 8] = [
            (b"", 0),
            (b"abc", 0),
            (b".x\r\n", 0),
            (b"a\r\nb", 3),
            (b"a\r\n", 3),
            (b"a\r\nb\r\n..c\r\nd\r\n", 6),
            (b"\r\n.\r\n", 2),
            (b"a.b\n\n", 5),
        ];
        for (input, length) in cases {
            assert_eq!(plain_lines(input), length, "{input:?}");
        }
    }

    async fn client_of(listener: &TcpListener) -> Pop3 {
        let port = listener.local_addr().unwrap().port();
        let endpoint = Endpoint { host: "127.0.0.1".into(), port, security: Security::Plain };
        let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(60)).unwrap();
        Pop3::connect(&dialer, &endpoint, 0).await.unwrap()
    }

    #[test]
    fn an_answer_without_an_end_is_left_at_its_first_wrong_line() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = async {
                let (mut peer, _) = listener.accept().await.unwrap();
                peer.write_all(b"+OK\r\n").await.unwrap();
                while peer.write_all(b"1 x\r\n").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            let client = async {
                let mut left = 3;
                let each = |_: &[u8]| {
                    left -= 1;
                    if left > 0 { Ok(()) } else { Err("too many".to_owned()) }
                };
                client_of(&listener).await.lines(each).await
            };
            tokio::select! {
                read = client => read,
                () = server => Ok(()),
            }
        });
        assert!(matches!(read, Err(Failure::Wrong(wrong)) if wrong == "too many"));
    }

    #[test]
    fn a_maildrop_has_so_many_messages() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (count, fits) in [(MESSAGES_MAX, true), (MESSAGES_MAX + 1, false)] {
            let stat = runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let server = async {
                    let (mut peer, _) = listener.accept().await.unwrap();
                    peer.write_all(format!("+OK\r\n+OK {count} 5\r\n").as_bytes()).await.unwrap();
                    peer
                };
                let client = async { client_of(&listener).await.stat().await };
                tokio::join!(server, client).1
            });
            assert_eq!(stat.ok(), fits.then_some((count, 5)));
        }
    }

    /// An answer that arrives in two parts, read by lines, and as text when it comes again.
    async fn read_both_ways(parts: [&[u8]; 2]) -> [Vec<u8>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = async {
            let (mut peer, _) = listener.accept().await.unwrap();
            for part in [&b"+OK\r\n"[..], parts[0], parts[1], parts[0], parts[1]] {
                peer.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            peer
        };
        let client = async {
            let mut pop3 = client_of(&listener).await;
            let [mut by_lines, mut as_text] = [Vec::new(), Vec::new()];
            pop3.lines(|line| {
                by_lines.extend_from_slice(line);
                Ok(())
            })
            .await
            .unwrap();
            pop3.text(|lines| as_text.extend_from_slice(lines)).await.unwrap();
            [by_lines, as_text]
        };
        tokio::join!(server, client).1
    }

    #[test]
    fn text_is_the_same_by_lines_and_in_pieces_wherever_it_is_cut() {
        let answer = b"a: b\r\n\r\none\r\n..two\r\n..\r\nthree\n.four\r\nlast\r\n.\r\n";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for cut in 0..=answer.len() {
            let (first, second) = answer.split_at(cut);
            let [by_lines, as_text] = runtime.block_on(read_both_ways([first, second]));
            assert_eq!(by_lines, as_text, "cut at {cut}");
            assert_eq!(as_text, b"a: b\r\n\r\none\r\n.two\r\n.\r\nthree\nfour\r\nlast\r\n");
        }
    }
}
