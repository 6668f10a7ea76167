//! The adapter: a connection's bytes and the clock on one side, the session's lines and actions on
//! the other.
//!
//! Replies are gathered while commands wait in the input (RFC 2920 §3.2) and sent before anything
//! is waited for.

mod author;
mod channel;
mod deliver;
mod header;
mod limits;
mod login;
mod milters;
mod recipient;
mod scanning;
mod screening;
mod url;
mod verification;
mod without_message;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use posthaste_delivery::ResolveError;
use posthaste_directory::{Lease, Target, revoked, sasl};
use posthaste_net::{
    Connection, Holder, LineReader, MESSAGE_WITHIN, NetError, SessionFuture, Shutdown, TakenLine,
};
use posthaste_screening::Standing;
use time::OffsetDateTime;

use self::without_message::WithoutMessage;
use crate::Role;
use crate::dots::DotReader;
use crate::incoming::Incoming;
use crate::options::{COMMAND_OCTETS, DRAIN_MAX, LINE_MAX, READ_AHEAD, REPLIES_MAX, SKIP_MAX, SLICE_BYTES};
use crate::reply::{Enhanced, Reply};
use crate::service::SmtpService;
use crate::session::{Action, Link, Session, store_failure};
use crate::syntax::SyntaxError;

/// The answer to a client over the connection limit.
pub fn refusal(role: Role) -> &'static [u8] {
    match role {
        Role::Lmtp => b"421 4.7.0 Too many connections\r\n",
        Role::Submission | Role::Smtp => b"421 4.7.0 Too many connections; try again later\r\n",
    }
}

impl SmtpService {
    /// Serves one connection to its end. Once a shutdown is requested, the command under way is
    /// finished and the client gets a goodbye.
    pub fn serve(self: Arc<Self>, connection: Connection, shutdown: Shutdown) -> SessionFuture {
        Box::pin(self.serve_to_end(connection, shutdown))
    }

    async fn serve_to_end(self: Arc<Self>, connection: Connection, shutdown: Shutdown) {
        let peer = connection.peer();
        let mut driver = Driver::new(self, connection, shutdown);
        let end = driver.run().await;
        let write_within = driver.service.options.write_within;
        match end {
            Ok(()) => tracing::debug!(%peer, "session ended"),
            Err(error) if error.is_ordinary() => tracing::debug!(%peer, %error, "session ended"),
            Err(error) => tracing::info!(%peer, %error, "SMTP or LMTP session failed"),
        }
        let _ = driver.connection.close(write_within.min(CLOSE_WITHIN)).await;
    }
}

/// Time for a peer to receive the final response.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Commands that are counted by name.
const VERBS: &[&str] = &[
    "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "BURL", "AUTH", "STARTTLS", "RSET", "NOOP",
    "VRFY", "EXPN", "HELP", "QUIT",
];

/// Ends a session, or continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Command,
    End,
}

enum Line {
    Good(BytesMut),
    Bad(SyntaxError),
    /// The server stops.
    Shutdown,
    /// The client sent nothing for too long.
    Silent,
    /// The login is no longer valid.
    Revoked,
    /// Commands came, and no message or login.
    Late,
}

struct Driver {
    service: Arc<SmtpService>,
    connection: Connection,
    session: Session,
    /// Ends when the login is no longer valid.
    lease: Option<Lease>,
    /// The greeting of the host, and the verdict of the screening on it.
    standing: Option<(String, Standing)>,
    /// The message of a BDAT sequence.
    incoming: Option<(String, Incoming)>,
    replies: Vec<u8>,
    /// The time by which a message or a login must have come.
    message_due: Instant,
    /// Octets of messages since the last yield to other sessions.
    came: usize,
    without_message: WithoutMessage,
    shutdown: Shutdown,
}

impl Driver {
    fn new(service: Arc<SmtpService>, connection: Connection, shutdown: Shutdown) -> Self {
        let link = Link {
            peer: connection.peer(),
            tls: connection.tls(),
            starttls: service.certificates.is_some(),
            mechanisms: sasl::mechanisms(
                &service.directory,
                &channel::channel(&service.options, &connection),
            ),
        };
        let session = Session::new(service.role, Arc::clone(&service.options), link);
        let message_due = connection.clock().now() + service.options.begin_within;
        Self {
            service,
            connection,
            session,
            lease: None,
            standing: None,
            incoming: None,
            replies: Vec::new(),
            message_due,
            came: 0,
            without_message: WithoutMessage::default(),
            shutdown,
        }
    }

    async fn run(&mut self) -> Result<(), NetError> {
        self.say(&self.session.welcome());
        loop {
            self.relieve().await?;
            let action = match self.line(self.command_within()).await? {
                Line::Good(line) => match self.command_begins(&line).await? {
                    None => self.session.line(&line, self.service.budget.attainable()),
                    Some(end) => end,
                },
                Line::Bad(error) => self.session.bad_line(&error),
                Line::Shutdown => Action::Close(closing((4, 3, 2), STOPS)),
                Line::Silent => Action::Close(closing((4, 4, 2), "Idle for too long")),
                Line::Revoked => Action::Close(closing((4, 7, 0), REVOKED)),
                Line::Late => Action::Close(closing((4, 4, 2), LATE)),
            };
            if !self.session.is_receiving() {
                // RSET, a greeting or TLS ended the transaction that these chunks belonged to.
                self.incoming = None;
            }
            if self.act(action).await? == Next::End {
                return self.flush().await;
            }
            self.rest(COMMAND_OCTETS).await;
        }
    }

    /// A command begins. The end of the session if its account may give none now.
    async fn command_begins(&mut self, line: &[u8]) -> Result<Option<Action>, NetError> {
        posthaste_metrics::command_ended();
        let verb = posthaste_metrics::verb(line, VERBS);
        posthaste_metrics::command(verb, None);
        self.slow_down(verb, line).await?;
        self.held_back().await
    }

    async fn act(&mut self, action: Action) -> Result<Next, NetError> {
        match action {
            Action::Reply(reply) => self.say(&reply),
            Action::Close(reply) => {
                self.say(&reply);
                return Ok(Next::End);
            }
            Action::CheckSender(mailbox) => {
                let found = self.resolve(mailbox.as_str()).await;
                let reply = self.session.sender_resolved(found);
                self.say(&reply);
            }
            Action::Resolve(mailbox) => {
                let action = self.recipient(mailbox).await?;
                return self.say_or_close(action);
            }
            Action::Authenticate { mechanism, initial } => return self.log_in(&mechanism, initial).await,
            Action::StartTls(reply) => return self.start_tls(&reply).await,
            Action::Data(reply) => match self.count_message() {
                Ok(()) => return self.data(&reply).await,
                Err(refusal) => self.say(&refusal),
            },
            Action::Chunk { size, last } => match self.count_message() {
                Ok(()) => return self.chunk(size, last).await,
                // RFC 3030 §2: the octets follow whatever we answer.
                Err(refusal) => return self.discard(size, &refusal).await,
            },
            Action::Url { url, last } => match self.count_message() {
                Ok(()) => return self.url(&url, last).await,
                Err(refusal) => self.say(&refusal),
            },
            Action::Discard { size, reply } => return self.discard(size, &reply).await,
        }
        Ok(Next::Command)
    }

    /// For actions that are a reply, with or without an end.
    fn say_or_close(&mut self, action: Action) -> Result<Next, NetError> {
        match action {
            Action::Close(reply) => {
                self.say(&reply);
                Ok(Next::End)
            }
            Action::Reply(reply) => {
                self.say(&reply);
                Ok(Next::Command)
            }
            _ => Ok(Next::Command),
        }
    }

    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        let found = self.service.sink.resolve(address).await;
        if let Err(error) = &found
            && let Some(cause) = store_failure(error)
        {
            tracing::error!(%cause, "the directory cannot be read");
        }
        found
    }

    async fn start_tls(&mut self, reply: &Reply) -> Result<Next, NetError> {
        let Some(certificates) = self.service.certificates.clone() else { return Ok(Next::End) };
        if self.connection.has_input() {
            // RFC 3207 §4.2 and CVE-2011-0411: nothing sent in the clear may be taken for
            // something sent inside.
            self.say(&Reply::new(554, Enhanced(5, 5, 1), "Commands were sent after STARTTLS"));
            return Ok(Next::End);
        }
        self.say(reply);
        self.flush().await?;
        self.connection.start_tls(&certificates, self.service.options.tls_within).await?;
        self.end_login();
        let channel = channel::channel(&self.service.options, &self.connection);
        let mechanisms = sasl::mechanisms(&self.service.directory, &channel);
        self.session.tls_started(self.connection.tls(), mechanisms);
        Ok(Next::Command)
    }

    /// Reads the message of a DATA command.
    async fn data(&mut self, reply: &Reply) -> Result<Next, NetError> {
        let (id, mut incoming) = self.begin_message();
        self.say(reply);
        self.flush().await?;
        let mut dots = DotReader::new();
        loop {
            if !self.connection.has_input()
                && let Some(end) = self.fill_message(&mut incoming).await?
            {
                return Ok(self.end(&end));
            }
            // One byte more than comes in may come out: a CR that was held back.
            incoming.reserve(self.connection.input().len() + 1).await;
            let input = self.connection.input();
            let progress = incoming.take(input.len() + 1, |message| dots.read(input, message));
            self.connection.consume(progress.used);
            if progress.ended {
                return self.finish_message(id, incoming).await;
            }
            if incoming.is_hopeless() {
                return Ok(self.hang_up());
            }
        }
    }

    /// Reads a part of a message (RFC 3030 §2).
    async fn chunk(&mut self, size: u64, last: bool) -> Result<Next, NetError> {
        let (id, mut incoming) = match self.incoming.take() {
            Some(begun) => begun,
            None => self.begin_message(),
        };
        let mut left = size;
        while left > 0 {
            if !self.connection.has_input()
                && let Some(end) = self.fill_message(&mut incoming).await?
            {
                return Ok(self.end(&end));
            }
            let used = self.connection.input().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            incoming.reserve(used).await;
            incoming.append(&self.connection.input()[..used]);
            left -= used as u64;
            self.connection.consume(used);
            if incoming.is_hopeless() {
                return Ok(self.hang_up());
            }
        }
        if last {
            return self.finish_message(id, incoming).await;
        }
        let reply = incoming
            .refusal()
            .unwrap_or_else(|| Reply::new(250, Enhanced(2, 0, 0), format!("{size} octets received")));
        self.incoming = Some((id, incoming));
        self.say(&reply);
        Ok(Next::Command)
    }

    async fn discard(&mut self, size: u64, reply: &Reply) -> Result<Next, NetError> {
        if size > DRAIN_MAX {
            self.say(reply);
            return Ok(self.hang_up());
        }
        let due = self.connection.clock().now() + MESSAGE_WITHIN;
        let mut left = size as usize;
        while left > 0 {
            if !self.connection.has_input() {
                self.flush().await?;
                if let Some(end) = self.fill_data(due).await? {
                    return Ok(self.end(&end));
                }
            }
            let used = self.connection.input().len().min(left);
            self.connection.consume(used);
            left -= used;
        }
        self.say(reply);
        Ok(Next::Command)
    }

    fn begin_message(&mut self) -> (String, Incoming) {
        let id = message_id();
        let header = self.session.trace(&id, OffsetDateTime::now_utc());
        let limit = self.service.options.message_size_max;
        (id, Incoming::new(header.as_bytes(), limit, &self.service.budget, self.holder()))
    }

    /// The holder that the bytes of a message count for.
    fn holder(&self) -> Holder {
        match self.session.account() {
            Some(account) => Holder::Account(account.id.0.to_bytes()),
            None => Holder::Address(self.connection.peer().ip().to_canonical()),
        }
    }

    async fn finish_message(&mut self, id: String, mut incoming: Incoming) -> Result<Next, NetError> {
        incoming.reserve_for_envelope(self.session.envelope_bytes(), &self.service.budget).await;
        incoming.complete();
        let Some(transaction) = self.session.message_received() else { return Ok(Next::End) };
        let replies = match incoming.refusal() {
            _ if self.is_revoked() => None,
            Some(refusal) => Some(self.session.refused(transaction.recipients.len(), refusal)),
            None => self.deliver(&id, incoming, transaction).await?,
        };
        let Some(replies) = replies else { return Ok(self.end(&closing((4, 7, 0), REVOKED))) };
        for reply in &replies {
            self.say(reply);
        }
        // Refused messages cost a stranger little. LMTP peers pass on what others sent.
        if self.service.role == Role::Lmtp || replies.iter().any(|reply| !reply.is_refusal()) {
            self.message_due = self.connection.clock().now() + self.service.options.begin_within;
            self.without_message = WithoutMessage::default();
        }
        Ok(Next::Command)
    }

    /// The time that a client still has before a message or a login has come, and for the rest of
    /// a message that has begun. After a login, only the limits of the account apply otherwise.
    fn time_left(&self) -> Duration {
        let rest = self.incoming.as_ref().map_or(Duration::MAX, |(_, incoming)| incoming.time_left());
        match self.session.account() {
            Some(_) => rest,
            None => rest.min(self.message_due.saturating_duration_since(self.connection.clock().now())),
        }
    }

    /// The longest wait for a command.
    fn command_within(&self) -> Duration {
        let options = &self.service.options;
        if self.session.account().is_some() { options.silence_within } else { options.command_within }
    }

    /// The longest time for which a client may leave replies unread. On submission, that ends with
    /// the time for the login.
    fn write_within(&self) -> Duration {
        let within = self.service.options.write_within;
        match (self.service.role, self.session.account()) {
            (Role::Submission, None) => within.min(self.time_left()),
            _ => within,
        }
    }

    /// Whether the account, or the credential of the login, was removed.
    fn is_revoked(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_ended)
    }

    fn end(&mut self, last_words: &Reply) -> Next {
        self.say(last_words);
        Next::End
    }

    fn hang_up(&mut self) -> Next {
        self.say(&closing((4, 7, 0), "Too much data was sent"));
        Next::End
    }

    /// The next command line, without its end.
    async fn line(&mut self, within: Duration) -> Result<Line, NetError> {
        let mut reader = LineReader::new(LINE_MAX, SKIP_MAX);
        loop {
            // A client that never stops sending commands is not waited for below.
            let left = self.time_left();
            if left.is_zero() {
                return Ok(Line::Late);
            }
            let within = within.min(left);
            match reader.take(self.connection.input_mut())? {
                TakenLine::Unfinished => {}
                TakenLine::TooLong => {
                    return Ok(Line::Bad(SyntaxError::Argument("the line is too long")));
                }
                _ if self.is_revoked() => return Ok(Line::Revoked),
                // RFC 5321 §2.3.8: a line ends with CR LF and with nothing else.
                TakenLine::BareLf => return Ok(Line::Bad(SyntaxError::Line)),
                TakenLine::Whole(line) => return Ok(Line::Good(line)),
            }
            self.flush().await?;
            posthaste_metrics::command_answered();
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Ok(Line::Shutdown),
                () = revoked(&mut self.lease) => return Ok(Line::Revoked),
                // Between the chunks of a message. The next one is answered with the refusal.
                () = evicted(&mut self.incoming) => {}
                filled = self.connection.fill(READ_AHEAD, within) => match filled {
                    Ok(_) => {}
                    Err(NetError::TimedOut(_)) => return Ok(Line::Silent),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Sends the replies and waits for more of a message, which can be evicted meanwhile. Returns
    /// the final reply if the session ends instead. A shutdown waits for a message that is taken,
    /// and for no other.
    async fn fill_message(&mut self, incoming: &mut Incoming) -> Result<Option<Reply>, NetError> {
        incoming.while_held(self.flush()).await?;
        let (left, is_refused) = (incoming.time_left(), incoming.is_refused());
        // A client that always has more is not waited for below.
        if left.is_zero() {
            return Ok(Some(closing((4, 4, 2), LATE)));
        }
        let within = self.service.options.data_within.min(left);
        let came = tokio::select! {
            biased;
            () = self.shutdown.requested(), if is_refused => return Ok(Some(closing((4, 3, 2), STOPS))),
            () = revoked(&mut self.lease) => return Ok(Some(closing((4, 7, 0), REVOKED))),
            filled = self.connection.fill_rest(READ_AHEAD, within) => filled?,
            // The rest is read and discarded.
            () = incoming.evicted() => 0,
        };
        self.rest(came).await;
        Ok(None)
    }

    /// Waits for more of the bytes that are dropped, all of which must have come at `due`. Returns
    /// the final reply if the session ends instead.
    async fn fill_data(&mut self, due: Instant) -> Result<Option<Reply>, NetError> {
        let left = due.saturating_duration_since(self.connection.clock().now()).min(self.time_left());
        if left.is_zero() {
            return Ok(Some(closing((4, 4, 2), LATE)));
        }
        let within = self.service.options.data_within.min(left);
        let came = tokio::select! {
            biased;
            () = self.shutdown.requested() => return Ok(Some(closing((4, 3, 2), STOPS))),
            () = revoked(&mut self.lease) => return Ok(Some(closing((4, 7, 0), REVOKED))),
            () = evicted(&mut self.incoming) => 0,
            filled = self.connection.fill_rest(READ_AHEAD, within) => match filled {
                Err(NetError::TimedOut(_)) if within == left => return Ok(Some(closing((4, 4, 2), LATE))),
                filled => filled?,
            },
        };
        self.rest(came).await;
        Ok(None)
    }

    /// Counts octets of messages, and lets other sessions run now and then, because a fast sender
    /// always has more.
    async fn rest(&mut self, came: usize) {
        self.came += came;
        if self.came >= SLICE_BYTES {
            self.came = 0;
            tokio::task::yield_now().await;
        }
    }

    fn say(&mut self, reply: &Reply) {
        reply.print(&mut self.replies);
    }

    async fn flush(&mut self) -> Result<(), NetError> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let within = self.write_within();
        let write = self.connection.write_all_within(&self.replies, within);
        while_held(&mut self.incoming, write).await?;
        // An idle session keeps no buffer.
        self.replies = Vec::new();
        self.connection.work_ends();
        Ok(())
    }

    /// Sends replies that have piled up although commands wait.
    async fn relieve(&mut self) -> Result<(), NetError> {
        if self.replies.len() > REPLIES_MAX { self.flush().await } else { Ok(()) }
    }
}

/// Waits until the message of a BDAT sequence is evicted, if there is one.
async fn evicted(incoming: &mut Option<(String, Incoming)>) {
    match incoming {
        Some((_, incoming)) => incoming.evicted().await,
        None => pending().await,
    }
}

/// Waits for other work, and drops the message of a BDAT sequence if it is evicted.
async fn while_held<F: Future>(incoming: &mut Option<(String, Incoming)>, work: F) -> F::Output {
    match incoming {
        Some((_, incoming)) => incoming.while_held(work).await,
        None => work.await,
    }
}

/// The answer to a client when the server stops.
const STOPS: &str = "The server is shutting down; try again later";

/// The answer to a client whose account was changed so that its login no longer holds.
const REVOKED: &str =
    "Your login has ended: the account is disabled or removed, or its credential is no longer valid";

/// The answer to a client that gives commands and sends no message.
const LATE: &str = "No message was sent for too long";

fn closing(enhanced: (u8, u16, u16), text: &'static str) -> Reply {
    Reply::new(421, Enhanced(enhanced.0, enhanced.1, enhanced.2), text)
}

/// An id that no other message of this server has: the time in microseconds, and a count for those
/// within one.
fn message_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    format!("{now:x}.{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(all(test, target_os = "linux"))]
mod ack_tests;
#[cfg(test)]
mod late_tests;
#[cfg(test)]
mod slice_tests;
#[cfg(test)]
mod test_service;
