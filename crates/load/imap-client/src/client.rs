//! One IMAP connection.
//!
//! Invariants: answers come in the order of the tags sent. A connection that gave an
//! [`Error`] is not used again. A client that waits keeps no buffer, unless it has bytes that it
//! did not scan yet.

use std::time::Duration;

use base64::Engine as _;

use crate::net::{Dialer, Endpoint, Security, Wire, put_away};
use crate::scan::{Response, Scanner, Stop};
use crate::{Error, Handler, Status, Transcript, command, listing};

/// Room for commands that an idle client keeps: most are shorter.
const OUTPUT_BYTES_IDLE: usize = 2 * 1024;

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// OK, NO or BAD.
    pub status: Status,
    /// The server's words with their response code.
    pub text: String,
}

impl Completion {
    /// Whether it was OK.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
    /// The response code, if any: `TRYCREATE`, `COPYUID 1 2 3`.
    pub fn code(&self) -> Option<&str> {
        listing::code(&self.text)
    }
}

/// The capabilities of the server.
#[derive(Clone, Debug, Default)]
pub struct Capabilities(Vec<String>);

impl Capabilities {
    /// Whether the word was listed, in any case.
    pub fn has(&self, word: &str) -> bool {
        self.0.iter().any(|w| w.eq_ignore_ascii_case(word))
    }
    /// Whether any were listed.
    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }
    fn set(&mut self, words: &[u8]) {
        self.0 = String::from_utf8_lossy(words).split_ascii_whitespace().map(str::to_owned).collect();
    }
}

/// A connection and its state.
pub struct Client {
    wire: Wire,
    input: Vec<u8>,
    used: usize,
    scanner: Scanner,
    output: Vec<u8>,
    next_tag: u32,
    next_answer: u32,
    timeout: Duration,
    capabilities: Capabilities,
    transcript: Transcript,
    bye: Option<String>,
    responses: u64,
}

impl Client {
    /// Connects, reads the greeting, does STARTTLS if requested.
    pub async fn connect(dialer: &Dialer, endpoint: &Endpoint, who: u32) -> Result<Self, Error> {
        let wire = dialer.dial(endpoint, who).await?;
        let mut client = Self {
            wire,
            input: Vec::new(),
            used: 0,
            scanner: Scanner::default(),
            output: Vec::new(),
            next_tag: 1,
            next_answer: 1,
            timeout: dialer.timeout,
            capabilities: Capabilities::default(),
            transcript: Transcript::default(),
            bye: None,
            responses: 0,
        };
        client.transcript.sent(b"(connect)");
        client.greeting().await?;
        if endpoint.security == Security::StartTls {
            let done = client.command("STARTTLS", &mut ()).await?;
            if !done.is_ok() {
                return Err(Error::Refused { what: "STARTTLS", text: done.text });
            }
            // RFC 9051 §6.2.1: nothing sent before TLS counts after it.
            client.input.clear();
            client.used = 0;
            client.capabilities = Capabilities::default();
            client.wire = dialer.secure(client.wire, endpoint).await?;
        }
        Ok(client)
    }

    async fn greeting(&mut self) -> Result<(), Error> {
        let mut greeting = Greeting(None);
        while greeting.0.is_none() {
            if self.advance(&mut greeting).await?.is_some() {
                return Err(Error::Garbage {
                    what: "a greeting",
                    line: "a reply that belongs to no command".into(),
                });
            }
        }
        match greeting.0 {
            Some((Status::Ok | Status::PreAuth, _)) => Ok(()),
            Some((_, text)) => Err(Error::Refused { what: "connection", text }),
            None => Ok(()),
        }
    }

    /// Logs in: AUTHENTICATE PLAIN where the server offers it with an initial response and forbids
    /// LOGIN, else LOGIN.
    pub async fn login(&mut self, user: &str, password: &str) -> Result<(), Error> {
        let mut line = Vec::new();
        if self.capabilities.has("LOGINDISABLED") && self.capabilities.has("SASL-IR") {
            let token = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
            line.extend_from_slice(format!("AUTHENTICATE PLAIN {token}").as_bytes());
        } else {
            line.extend_from_slice(b"LOGIN ");
            command::string(&mut line, user);
            line.push(b' ');
            command::string(&mut line, password);
        }
        self.push_hidden(&line, "LOGIN …");
        self.flush().await?;
        let done = self.answer(&mut ()).await?;
        if !done.is_ok() {
            return Err(Error::Refused { what: "login", text: done.text });
        }
        if let Some(words) = done.code().and_then(|c| c.strip_prefix("CAPABILITY ")) {
            self.capabilities.set(words.as_bytes());
        }
        Ok(())
    }

    /// Requests the capabilities unless the server has sent them.
    pub async fn learn_capabilities(&mut self) -> Result<(), Error> {
        if !self.capabilities.is_known() {
            self.command("CAPABILITY", &mut ()).await?;
        }
        Ok(())
    }

    /// The capabilities that the server announced.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Sends one command (without tag and CRLF) and waits for its end.
    pub async fn command<H: Handler>(&mut self, line: &str, handler: &mut H) -> Result<Completion, Error> {
        self.push(line.as_bytes());
        self.flush().await?;
        self.answer(handler).await
    }

    /// Queues a command (without tag and CRLF) to be sent by [`Self::flush`]: pipelining.
    pub fn push(&mut self, line: &[u8]) {
        self.begin();
        self.output.extend_from_slice(line);
        self.transcript.sent(line);
        self.end();
    }

    fn push_hidden(&mut self, line: &[u8], shown: &str) {
        self.begin();
        self.output.extend_from_slice(line);
        self.transcript.sent(shown.as_bytes());
        self.end();
    }

    /// Starts a command: its tag. For commands made in pieces, see [`Self::piece`].
    pub fn begin(&mut self) {
        self.output.extend_from_slice(format!("a{} ", self.next_tag).as_bytes());
        self.next_tag += 1;
    }

    /// Adds bytes to a command begun by [`Self::begin`].
    pub fn piece(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Adds a command made in pieces to the transcript.
    pub fn note(&mut self, shown: &str) {
        self.transcript.sent(shown.as_bytes());
    }

    /// Ends a command made in pieces.
    pub fn end(&mut self) {
        self.output.extend_from_slice(b"\r\n");
    }

    /// Bytes queued and not yet sent.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Commands sent or queued whose answer was not read.
    pub fn unanswered(&self) -> u32 {
        self.next_tag - self.next_answer
    }

    /// Sends the queued bytes.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let sent = tokio::time::timeout(self.timeout, self.wire.write(&self.output)).await;
        self.output.clear();
        self.output.shrink_to(OUTPUT_BYTES_IDLE);
        match sent {
            Ok(written) => Ok(written?),
            Err(_) => Err(self.late()),
        }
    }

    /// Waits for the end of the oldest unanswered command.
    pub async fn answer<H: Handler>(&mut self, handler: &mut H) -> Result<Completion, Error> {
        loop {
            match self.advance(handler).await? {
                Some(Stop::Tagged(tag, status, text)) => {
                    if tag != self.next_answer {
                        let line = format!("answer a{tag} while a{} is due", self.next_answer);
                        return Err(Error::Garbage { what: "the tags in order", line });
                    }
                    self.next_answer += 1;
                    if let Some(words) = listing::code(&text).and_then(|c| c.strip_prefix("CAPABILITY ")) {
                        self.capabilities.set(words.as_bytes());
                    }
                    self.rest();
                    return Ok(Completion { status, text });
                }
                Some(Stop::Continue(text)) => {
                    return Err(Error::Garbage { what: "an answer", line: format!("+ {text}") });
                }
                None => {}
            }
        }
    }

    /// Waits for a continuation request: `Err` inside is the answer that came instead.
    pub async fn continuation<H: Handler>(
        &mut self,
        handler: &mut H,
    ) -> Result<Result<(), Completion>, Error> {
        loop {
            match self.advance(handler).await? {
                Some(Stop::Continue(_)) => {
                    self.rest();
                    return Ok(Ok(()));
                }
                Some(Stop::Tagged(_, status, text)) => {
                    self.next_answer += 1;
                    self.rest();
                    return Ok(Err(Completion { status, text }));
                }
                None => {}
            }
        }
    }

    /// Starts IDLE (RFC 2177). `Err` inside: refused.
    pub async fn idle<H: Handler>(&mut self, handler: &mut H) -> Result<Result<(), Completion>, Error> {
        self.push(b"IDLE");
        self.flush().await?;
        self.continuation(handler).await
    }

    /// While idling: waits until something arrives or `timeout` is over, whichever is first; false
    /// if nothing came.
    pub async fn listen<H: Handler>(&mut self, handler: &mut H, timeout: Duration) -> Result<bool, Error> {
        match tokio::time::timeout(timeout, self.read_more()).await {
            Err(_) => Ok(false),
            Ok(read) => {
                read?;
                self.scan(handler)?;
                self.rest();
                Ok(true)
            }
        }
    }

    /// Ends IDLE.
    pub async fn done<H: Handler>(&mut self, handler: &mut H) -> Result<Completion, Error> {
        self.piece(b"DONE\r\n");
        self.flush().await?;
        self.answer(handler).await
    }

    /// Logs out and closes. If the server closes without an answer, that is no error.
    pub async fn logout(mut self) -> Result<(), Error> {
        let answered = self.command("LOGOUT", &mut ()).await;
        self.wire.shut().await;
        match answered {
            Ok(_) | Err(Error::Closed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The last commands and answers.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Bytes read and written so far (before TLS).
    pub fn bytes(&self) -> (u64, u64) {
        (self.wire.bytes_in, self.wire.bytes_out)
    }

    /// Untagged responses read so far.
    pub fn responses(&self) -> u64 {
        self.responses
    }

    /// Scans what is there, or reads more and scans that.
    async fn advance<H: Handler>(&mut self, handler: &mut H) -> Result<Option<Stop>, Error> {
        if self.used == self.input.len() {
            match tokio::time::timeout(self.timeout, self.read_more()).await {
                Ok(read) => read?,
                Err(_) => return Err(self.late()),
            }
        }
        self.scan(handler)
    }

    async fn read_more(&mut self) -> Result<(), Error> {
        if self.used == self.input.len() {
            self.input.clear();
            self.used = 0;
        }
        match self.wire.read(&mut self.input).await {
            Ok(0) => Err(Error::Closed { bye: self.bye.take() }),
            Ok(_) => Ok(()),
            Err(error) if self.bye.is_some() && error.kind() != std::io::ErrorKind::TimedOut => {
                Err(Error::Closed { bye: self.bye.take() })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn scan<H: Handler>(&mut self, handler: &mut H) -> Result<Option<Stop>, Error> {
        let mut watch = Watch {
            inner: handler,
            transcript: &mut self.transcript,
            capabilities: &mut self.capabilities,
            bye: &mut self.bye,
            responses: &mut self.responses,
        };
        let input = &self.input[self.used..];
        match self.scanner.scan(input, &mut watch) {
            Ok((used, stop)) => {
                self.used += used;
                Ok(stop)
            }
            Err(bad) => Err(Error::Garbage { what: bad.what, line: bad.line }),
        }
    }

    /// Frees the buffer, if all of it is scanned.
    fn rest(&mut self) {
        if self.used == self.input.len() {
            self.input.clear();
            self.used = 0;
            put_away(&mut self.input);
        }
    }

    fn late(&self) -> Error {
        Error::Timeout { seconds: self.timeout.as_secs() }
    }
}

struct Greeting(Option<(Status, String)>);

impl Handler for Greeting {
    fn response(&mut self, response: Response<'_>) {
        if let Response::Condition(status, text) = response
            && self.0.is_none()
        {
            self.0 = Some((status, String::from_utf8_lossy(text).into_owned()));
        }
    }
}

/// Passes everything on and keeps the values that the client itself needs.
struct Watch<'a, H> {
    inner: &'a mut H,
    transcript: &'a mut Transcript,
    capabilities: &'a mut Capabilities,
    bye: &'a mut Option<String>,
    responses: &'a mut u64,
}

impl<H: Handler> Handler for Watch<'_, H> {
    fn response(&mut self, response: Response<'_>) {
        *self.responses += 1;
        match response {
            Response::Capability(words) => self.capabilities.set(words),
            Response::Condition(Status::Bye, text) => {
                *self.bye = Some(String::from_utf8_lossy(text).into_owned());
            }
            Response::Condition(Status::Ok | Status::PreAuth, text) if text.starts_with(b"[CAPABILITY ") => {
                if let Some(end) = memchr::memchr(b']', text) {
                    self.capabilities.set(&text[12..end]);
                }
            }
            _ => {}
        }
        self.inner.response(response);
    }
    fn literal(&mut self, chunk: &[u8]) {
        self.inner.literal(chunk);
    }
    fn literal_starts(&mut self, so_far: &[u8], bytes: u64) {
        self.inner.literal_starts(so_far, bytes);
    }
    fn takes_listings(&self) -> bool {
        self.inner.takes_listings()
    }
    fn listed(&mut self, sequence: u32, uid: u32, flags: &[u8]) {
        self.inner.listed(sequence, uid, flags);
    }
    fn raw_listing(&mut self, lines: &[u8], count: u64) {
        *self.responses += count;
        self.transcript.received_lines(lines, count);
        self.inner.raw_listing(lines, count);
    }
    fn raw(&mut self, line: &[u8]) {
        self.transcript.received(line);
        self.inner.raw(line);
    }
}
