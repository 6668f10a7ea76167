//! The session as a machine: lines and outcomes go in, actions come out. No socket, no clock, no
//! waiting.
//!
//! The order of commands (RFC 5321 §4.1.4), per role:
//!
//! | command | legal when |
//! | --- | --- |
//! | EHLO, HELO / LHLO | always; ends the transaction |
//! | STARTTLS | before TLS, outside a transaction |
//! | AUTH | submission, after EHLO, once, outside a transaction |
//! | MAIL | after the greeting; submission: after AUTH; outside a transaction |
//! | RCPT | in a transaction, before the message |
//! | DATA, BDAT | with at least one recipient; not mixed (RFC 3030 §2) |
//! | BURL | submission, as BDAT, and mixed with it (RFC 4468 §3) |
//! | RSET, NOOP, QUIT, HELP, VRFY | always |

mod envelope;
pub(crate) mod replies;
mod transaction;

pub use envelope::{Addressee, Transaction};

use std::net::SocketAddr;
use std::sync::Arc;

use posthaste_delivery::ResolveError;
use posthaste_directory::sasl::Mechanisms;
use posthaste_directory::{Account, LoginError};
use posthaste_net::TlsFacts;
use posthaste_store::StoreError;
use time::OffsetDateTime;

use crate::address::{Mailbox, ReversePath};
use crate::command::{Command, MailParameters, RcptParameters};
use crate::reply::Reply;
use crate::syntax::SyntaxError;
use crate::trace::{Trace, Transmission};
use crate::{Role, SmtpOptions};

/// Extensions that are always offered.
const EXTENSIONS: [&str; 6] =
    ["PIPELINING", "8BITMIME", "BINARYMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "CHUNKING"];

/// The facts of its connection that the session needs.
#[derive(Clone, Debug)]
pub struct Link {
    /// The other end.
    pub peer: SocketAddr,
    /// The outcome of the TLS handshake.
    pub tls: Option<TlsFacts>,
    /// Whether STARTTLS is available.
    pub starttls: bool,
    /// Mechanisms to offer, strongest first.
    pub mechanisms: Mechanisms,
}

/// The action that a line requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Reply(Reply),
    /// Send this and hang up.
    Close(Reply),
    /// Find out whose this sender address is; then [`Session::sender_resolved`].
    CheckSender(Mailbox),
    /// Find out whose this recipient is; then [`Session::recipient_resolved`].
    Resolve(Mailbox),
    /// Run the exchange; then [`Session::authenticated`] or [`Session::login_failed`].
    Authenticate {
        /// The mechanism requested.
        mechanism: String,
        /// The initial response, decoded.
        initial: Option<Vec<u8>>,
    },
    /// Send this, do the handshake; then [`Session::tls_started`].
    StartTls(Reply),
    /// Send this and read a message up to its dot.
    Data(Reply),
    /// Read this many octets of the message.
    Chunk {
        /// The number of octets.
        size: u64,
        /// Whether they end the message.
        last: bool,
    },
    /// Read the next of the message from a URL.
    Url {
        /// The URL.
        url: String,
        /// Whether it ends the message.
        last: bool,
    },
    /// Read this many octets, forget them, and send this.
    Discard {
        /// The number of octets.
        size: u64,
        /// The reply then.
        reply: Reply,
    },
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Envelope,
    /// BDAT has begun it.
    Chunks,
}

#[derive(Clone, Debug)]
struct Greeting {
    name: String,
    /// `SMTP`, `ESMTP` or `LMTP`.
    protocol: &'static str,
}

/// One client's session.
#[derive(Debug)]
pub struct Session {
    role: Role,
    options: Arc<SmtpOptions>,
    link: Link,
    greeting: Option<Greeting>,
    /// Shared with the other sessions of the account.
    account: Option<Arc<Account>>,
    /// A MAIL whose sender is being looked up.
    pending: Option<(ReversePath, MailParameters)>,
    /// Whether the last MAIL requested a priority that its client may not have.
    is_lowered: bool,
    /// The parameters of the RCPT whose recipient is being looked up.
    pending_recipient: RcptParameters,
    transaction: Option<Transaction>,
    stage: Stage,
    errors: u32,
    /// Whether a line has come.
    has_begun: bool,
}

impl Session {
    /// A session that has sent nothing yet.
    pub fn new(role: Role, options: Arc<SmtpOptions>, link: Link) -> Self {
        Self {
            role,
            options,
            link,
            greeting: None,
            account: None,
            pending: None,
            is_lowered: false,
            pending_recipient: RcptParameters::default(),
            transaction: None,
            stage: Stage::Envelope,
            errors: 0,
            has_begun: false,
        }
    }

    /// The greeting of the server.
    pub fn welcome(&self) -> Reply {
        let protocol = if self.role == Role::Lmtp { "LMTP" } else { "ESMTP" };
        Reply::bare(220, format!("{} {protocol} Posthaste", self.options.host))
    }

    /// The account that has logged in.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Takes a line, without its CRLF. `room` is how many octets of messages could be taken just
    /// now.
    pub fn line(&mut self, line: &[u8], room: usize) -> Action {
        self.has_begun = true;
        if is_http(line) {
            // A web page can make a browser post to any port, with our commands in the body.
            // Nothing is read of it.
            return Action::Close(replies::no_web_server());
        }
        let action = match Command::parse(line) {
            Ok(command) => self.command(command, room),
            Err(error) => {
                let is_mail = line.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'M'));
                let path = if is_mail { replies::PathOf::Sender } else { replies::PathOf::Recipient };
                self.mistake(replies::syntax(&error, path))
            }
        };
        self.bounded(action)
    }

    /// The answer to a line that ended in a bare LF ([`SyntaxError::Line`]), or not within the
    /// limit.
    pub fn bad_line(&mut self, error: &SyntaxError) -> Action {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first && *error != SyntaxError::Line {
            // A browser that requests a long target. No mail program begins with a line over the
            // limit.
            return Action::Close(replies::no_web_server());
        }
        let action = self.mistake(replies::syntax(error, replies::PathOf::Recipient));
        self.bounded(action)
    }

    fn command(&mut self, command: Command, room: usize) -> Action {
        match command {
            Command::Ehlo(name) if self.role != Role::Lmtp => self.greet(name, "ESMTP"),
            Command::Helo(name) if self.role != Role::Lmtp => self.greet(name, "SMTP"),
            Command::Lhlo(name) if self.role == Role::Lmtp => self.greet(name, "LMTP"),
            // RFC 2033 §4.1: each protocol has its own greeting, and no other.
            Command::Ehlo(_) | Command::Helo(_) => self.mistake(replies::wrong_greeting("LHLO")),
            Command::Lhlo(_) => self.mistake(replies::wrong_greeting("EHLO")),
            Command::StartTls => self.starttls(),
            Command::Auth { mechanism, initial } => self.auth(mechanism, initial),
            Command::Mail { from, parameters } => self.mail(from, parameters, room),
            Command::Rcpt { to, parameters } => self.rcpt(to, parameters),
            Command::Data => self.data(),
            Command::Bdat { size, last } => self.bdat(size, last),
            Command::Burl { url, last } => self.burl(url, last),
            Command::Rset => {
                self.reset();
                Action::Reply(replies::ok("Forgotten"))
            }
            Command::Noop => Action::Reply(replies::ok("Nothing done")),
            Command::Help => Action::Reply(replies::help()),
            // RFC 5321 §3.5.3, §7.3: VRFY confirms no address to anybody.
            Command::Vrfy(_) => Action::Reply(replies::vrfy()),
            Command::Expn(_) => self.mistake(replies::not_implemented()),
            Command::Quit => Action::Close(replies::goodbye(&self.options.host)),
        }
    }

    fn greet(&mut self, name: String, protocol: &'static str) -> Action {
        self.reset();
        self.greeting = Some(Greeting { name, protocol });
        let mut reply = Reply::bare(250, self.options.host.clone());
        if protocol == "SMTP" {
            return Action::Reply(reply);
        }
        for extension in EXTENSIONS {
            reply = reply.line(extension);
        }
        if self.reports() {
            reply = reply.line("DSN");
            // RFC 6710 §3: without a profile any priority may be requested.
            reply = reply.line("MT-PRIORITY");
        }
        // RFC 9422 §4.
        reply = reply.line(format!("LIMITS RCPTMAX={}", self.options.recipients_max));
        reply = reply.line(format!("SIZE {}", self.options.message_size_max));
        if self.link.starttls && self.link.tls.is_none() {
            reply = reply.line("STARTTLS");
        }
        if self.offers_require_tls() {
            reply = reply.line("REQUIRETLS");
        }
        if self.offers_auth() {
            reply = reply.line(format!("AUTH {}", self.link.mechanisms));
        }
        if self.reads_urls() {
            // RFC 4468 §3: URLs of IMAP, once somebody has logged in.
            reply = reply.line("BURL imap");
        }
        Action::Reply(reply.line("HELP"))
    }

    fn reads_urls(&self) -> bool {
        self.role == Role::Submission && self.account.is_some()
    }

    /// Whether senders get the reports that they request (RFC 3461): those elsewhere can be reached
    /// only if mail is relayed. In LMTP it is the agent next door that reports.
    pub fn reports(&self) -> bool {
        self.options.relays && self.role != Role::Lmtp
    }

    /// RFC 8689 §2: inside TLS alone. The agent next door to LMTP delivers here.
    fn offers_require_tls(&self) -> bool {
        self.link.tls.is_some() && self.role != Role::Lmtp
    }

    fn offers_auth(&self) -> bool {
        self.role == Role::Submission && self.account.is_none() && !self.link.mechanisms.is_empty()
    }

    fn starttls(&mut self) -> Action {
        // RFC 3207 §4.
        if self.link.tls.is_some() {
            self.mistake(replies::sequence("TLS is active already"))
        } else if self.transaction.is_some() {
            self.mistake(replies::sequence("Not within a transaction"))
        } else if !self.link.starttls {
            self.mistake(replies::not_implemented())
        } else {
            Action::StartTls(replies::start_tls())
        }
    }

    /// Records that TLS has started: nothing is known of the client then but its address (RFC
    /// 3207 §4.2).
    pub fn tls_started(&mut self, tls: Option<TlsFacts>, mechanisms: Mechanisms) {
        self.reset();
        self.greeting = None;
        self.account = None;
        self.link.tls = tls;
        self.link.mechanisms = mechanisms;
    }

    fn auth(&mut self, mechanism: String, initial: Option<Vec<u8>>) -> Action {
        // RFC 4954 §4.
        if self.role != Role::Submission {
            self.mistake(replies::not_implemented())
        } else if self.greeting.as_ref().is_none_or(|greeting| greeting.protocol == "SMTP") {
            self.mistake(replies::sequence("Send EHLO first"))
        } else if self.account.is_some() {
            self.mistake(replies::sequence("You are logged in already"))
        } else if self.transaction.is_some() {
            self.mistake(replies::sequence("Not within a transaction"))
        } else {
            Action::Authenticate { mechanism, initial }
        }
    }

    /// The client has logged in.
    pub fn authenticated(&mut self, account: impl Into<Arc<Account>>) -> Reply {
        self.account = Some(account.into());
        replies::authenticated()
    }

    /// The login failed.
    pub fn login_failed(&mut self, error: &LoginError) -> Action {
        let action = self.mistake(replies::login(&error.failure));
        self.bounded(action)
    }

    /// The client gave a right password, but its account is at its limit of connections.
    pub fn too_many_connections(&mut self) -> Action {
        let action = self.mistake(replies::too_many_connections());
        self.bounded(action)
    }

    /// The number of recipients that the message has so far.
    pub fn recipients(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.recipients.len())
    }

    /// Bytes of memory that the recipients of the message take.
    pub fn envelope_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::held)
    }

    /// The message is not taken before it has come. The transaction is over.
    pub fn message_refused(&mut self, reply: Reply) -> Reply {
        self.reset();
        reply
    }

    /// The recipient of [`Action::Resolve`] is not taken, whether it exists or not.
    pub fn recipient_refused(&mut self, reply: Reply) -> Action {
        self.pending_recipient = RcptParameters::default();
        let action = self.mistake(reply);
        self.bounded(action)
    }

    /// The recipient of [`Action::Resolve`] is at the address of another host.
    pub fn recipient_elsewhere(&mut self) -> Action {
        match self.role {
            // LMTP peers relay what others sent: it is no mistake of theirs.
            Role::Lmtp => self.recipient_put_off(replies::at_an_address()),
            _ => self.recipient_refused(replies::at_an_address()),
        }
    }

    /// The recipient of [`Action::Resolve`] is not taken now, which is no mistake of the client.
    pub fn recipient_put_off(&mut self, reply: Reply) -> Action {
        self.pending_recipient = RcptParameters::default();
        self.bounded(Action::Reply(reply))
    }

    /// Octets that the client declared for the message (RFC 1870 §4); 0 if it did not.
    pub fn declared_size(&self) -> u64 {
        self.transaction.as_ref().and_then(|transaction| transaction.parameters.size).unwrap_or(0)
    }

    /// The sender of the transaction; empty for the null sender.
    pub fn sender(&self) -> &str {
        self.transaction.as_ref().map_or("", |transaction| transaction.from.as_str())
    }

    /// The client cancelled with `*`, or sent what is not base64 (RFC 4954 §4).
    pub fn login_cancelled(&mut self, error: Option<&SyntaxError>) -> Action {
        let reply = match error {
            None => replies::login_cancelled(),
            Some(error) => replies::syntax(error, replies::PathOf::Recipient),
        };
        let action = self.mistake(reply);
        self.bounded(action)
    }

    /// Whether a message has come in part (BDAT).
    pub fn is_receiving(&self) -> bool {
        self.transaction.is_some() && self.stage == Stage::Chunks
    }

    /// The name that the client gave; empty before its greeting.
    pub fn client_name(&self) -> &str {
        self.greeting.as_ref().map_or("", |greeting| greeting.name.as_str())
    }

    /// The trace headers for the message that is about to come.
    pub fn trace(&self, id: &str, now: OffsetDateTime) -> String {
        let (Some(transaction), Some(greeting)) = (&self.transaction, &self.greeting) else {
            return String::new();
        };
        let tls = self.link.tls;
        let transmission = Transmission {
            base: greeting.protocol,
            smtputf8: transaction.parameters.smtputf8,
            tls: tls.is_some(),
            authenticated: self.account.is_some(),
        };
        let recipient = match &transaction.recipients[..] {
            [one] => Some(&one.to),
            _ => None,
        };
        Trace {
            from: &transaction.from,
            client: &greeting.name,
            peer: self.link.peer,
            host: &self.options.host,
            protocol: transmission.name(),
            tls,
            id,
            recipient,
            priority: transaction.parameters.priority.unwrap_or_default(),
            now,
        }
        .print()
    }

    /// The message is complete. Ends the transaction and returns it.
    pub fn message_received(&mut self) -> Option<Transaction> {
        self.stage = Stage::Envelope;
        self.transaction.take()
    }

    /// The replies about a message for this many recipients that was not taken at all.
    pub fn refused(&self, recipients: usize, reply: Reply) -> Vec<Reply> {
        vec![reply; if self.role == Role::Lmtp { recipients } else { 1 }]
    }

    /// The replies about a message, from the outcome of each recipient. LMTP gets all of them
    /// (RFC 2033 §4.2), SMTP gets one. SMTP gets a failure only if nobody has the message, or if
    /// no queue takes over those who missed it.
    pub fn delivered(&self, replies: Vec<Reply>) -> Vec<Reply> {
        if self.role == Role::Lmtp {
            return replies;
        }
        // Failures that time may heal go first: one recipient must not make the client abandon
        // the others.
        let worst = replies.into_iter().min_by_key(|reply| match reply.code() {
            400..500 => 0,
            500.. => 1,
            _ => 2,
        });
        vec![worst.unwrap_or_else(replies::no_recipients)]
    }

    fn reset(&mut self) {
        self.transaction = None;
        self.pending = None;
        self.stage = Stage::Envelope;
    }

    fn mistake(&mut self, reply: Reply) -> Action {
        self.errors += 1;
        Action::Reply(reply)
    }

    /// Ends a session of too many errors (RFC 5321 §3.8 allows 421 at any time).
    fn bounded(&self, action: Action) -> Action {
        match action {
            Action::Reply(reply) | Action::Discard { reply, .. }
                if reply.is_refusal() && self.errors > self.options.errors_max =>
            {
                tracing::info!(peer = %self.link.peer, last = reply.to_string().trim_end(), "too many errors");
                Action::Close(replies::too_many_errors())
            }
            action => action,
        }
    }
}

/// Whether a line begins an HTTP request (RFC 9112 §3): a method, a target, `HTTP/` and a version.
fn is_http(line: &[u8]) -> bool {
    let mut words = line.rsplitn(2, |&byte| byte == b' ');
    let version = words.next().unwrap_or_default();
    version.starts_with(b"HTTP/") && words.next().is_some_and(|before| before.contains(&b' '))
}

/// Whether the directory failed because of the store, for logs.
pub(crate) fn store_failure(error: &ResolveError) -> Option<&StoreError> {
    match error {
        ResolveError::Directory(posthaste_directory::DirectoryError::Store(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
