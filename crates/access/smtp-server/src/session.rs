//! The session as a machine: lines and outcomes go in, actions come out. No socket, no clock, no
//! waiting.
//!
//! The order of commands (RFC 5321 §4.1.4), per role:
//!
//! | command | legal when |
//! | --- | --- |
//! | EHLO, HELO / LHLO | always; forgets the transaction |
//! | STARTTLS | before TLS, outside a transaction |
//! | AUTH | submission, after EHLO, once, outside a transaction |
//! | MAIL | after the greeting; submission: after AUTH; outside a transaction |
//! | RCPT | in a transaction, before the message |
//! | DATA, BDAT | with at least one recipient; not mixed (RFC 3030 §2) |
//! | BURL | submission, as BDAT, and mixed with it (RFC 4468 §3) |
//! | RSET, NOOP, QUIT, HELP, VRFY | always |

pub(crate) mod replies;

use std::{net::SocketAddr, sync::Arc};

use posthaste_delivery::ResolveError;
use posthaste_directory::sasl::Mechanisms;
use posthaste_directory::{Account, LoginError, Target, normal_domain};
use posthaste_net::TlsFacts;
use posthaste_store::StoreError;
use time::OffsetDateTime;

use crate::{
    Role, SenderRule, SmtpOptions,
    address::{Mailbox, ReversePath},
    command::{BodyKind, Command, MailParameters, RcptParameters},
    reply::Reply,
    syntax::SyntaxError,
    trace::{Trace, Transmission},
};

/// Extensions that are always offered.
const EXTENSIONS: [&str; 6] =
    ["PIPELINING", "8BITMIME", "BINARYMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "CHUNKING"];

/// What the session knows of its connection.
#[derive(Clone, Debug)]
pub struct Link {
    /// The other end.
    pub peer: SocketAddr,
    /// What TLS agreed on.
    pub tls: Option<TlsFacts>,
    /// Whether STARTTLS is available.
    pub starttls: bool,
    /// Mechanisms to offer, strongest first.
    pub mechanisms: Mechanisms,
}

/// What is to be done about a line.
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
        /// The mechanism asked for.
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
        /// How many.
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
        /// How many.
        size: u64,
        /// What to say then.
        reply: Reply,
    },
}

/// A message's envelope, while it is being put together.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Who sends it.
    pub from: ReversePath,
    /// How.
    pub parameters: MailParameters,
    /// To whom.
    pub recipients: Vec<Addressee>,
}

/// A recipient of a message.
#[derive(Clone, Debug)]
pub struct Addressee {
    /// As named in RCPT.
    pub to: Mailbox,
    /// What RCPT said beside.
    pub parameters: RcptParameters,
    /// Who that is here; `None` in a domain that is not ours.
    pub target: Option<Target>,
}

/// Where a message stands.
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
    account: Option<Account>,
    /// A MAIL whose sender is being looked up.
    pending: Option<(ReversePath, MailParameters)>,
    /// What the RCPT said whose recipient is being looked up.
    pending_recipient: RcptParameters,
    transaction: Option<Transaction>,
    stage: Stage,
    errors: u32,
}

impl Session {
    /// A session that has said nothing yet.
    pub fn new(role: Role, options: Arc<SmtpOptions>, link: Link) -> Self {
        Self {
            role,
            options,
            link,
            greeting: None,
            account: None,
            pending: None,
            pending_recipient: RcptParameters::default(),
            transaction: None,
            stage: Stage::Envelope,
            errors: 0,
        }
    }

    /// What the server says first.
    pub fn welcome(&self) -> Reply {
        let protocol = if self.role == Role::Lmtp { "LMTP" } else { "ESMTP" };
        Reply::bare(220, format!("{} {protocol} Posthaste", self.options.host))
    }

    /// Who logged in.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Takes a line, without its CRLF. `room` is how many octets of messages could be taken just
    /// now.
    pub fn line(&mut self, line: &[u8], room: usize) -> Action {
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

    /// What to say to a line that ended in a bare LF, or not within the limit.
    pub fn bad_line(&mut self, error: &SyntaxError) -> Action {
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
            // RFC 5321 §3.5.3, §7.3: no address is confirmed to whoever asks.
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

    /// Whether senders get the reports that they ask for (RFC 3461): those elsewhere can be reached
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

    /// After the handshake nothing is known of the client but its address (RFC 3207 §4.2).
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

    /// The exchange ended well.
    pub fn authenticated(&mut self, account: Account) -> Reply {
        self.account = Some(account);
        replies::authenticated()
    }

    /// It did not.
    pub fn login_failed(&mut self, error: &LoginError) -> Action {
        let action = self.mistake(replies::login(&error.failure));
        self.bounded(action)
    }

    /// It did, but the account has as many connections as it may.
    pub fn too_many_connections(&mut self) -> Action {
        let action = self.mistake(replies::too_many_connections());
        self.bounded(action)
    }

    /// How many recipients the message has so far.
    pub fn recipients(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.recipients.len())
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

    /// The sender of the transaction; empty for the null sender.
    pub fn sender(&self) -> &str {
        self.transaction.as_ref().map_or("", |transaction| transaction.from.as_str())
    }

    /// The client gave up with `*`, or sent what is not base 64 (RFC 4954 §4).
    pub fn login_abandoned(&mut self, error: Option<&SyntaxError>) -> Action {
        let reply = match error {
            None => replies::login_cancelled(),
            Some(error) => replies::syntax(error, replies::PathOf::Recipient),
        };
        let action = self.mistake(reply);
        self.bounded(action)
    }

    fn mail(&mut self, from: ReversePath, parameters: MailParameters, room: usize) -> Action {
        let Some(_) = &self.greeting else {
            return self.mistake(replies::sequence("Greet first"));
        };
        if self.role == Role::Submission && self.account.is_none() {
            // RFC 4954 §6, RFC 6409 §4.3.
            return self.mistake(replies::login_required());
        }
        if self.transaction.is_some() {
            return self.mistake(replies::sequence("One transaction at a time: RSET or finish it"));
        }
        if parameters.require_tls && !self.offers_require_tls() {
            return self.mistake(replies::needs_tls());
        }
        if !self.reports() && (parameters.ret.is_some() || parameters.envid.is_some()) {
            return self.mistake(replies::syntax(&SyntaxError::Parameter, replies::PathOf::Sender));
        }
        if let Some(size) = parameters.size {
            if size > self.options.message_size_max as u64 {
                return Action::Reply(replies::too_large(self.options.message_size_max));
            }
            if size > room as u64 {
                return Action::Reply(replies::no_room());
            }
        }
        match from {
            ReversePath::Mailbox(mailbox) if mailbox.needs_utf8() && !parameters.smtputf8 => {
                Action::Reply(replies::needs_smtputf8())
            }
            ReversePath::Mailbox(mailbox)
                if self.role == Role::Submission && self.options.sender == SenderRule::Own =>
            {
                self.pending = Some((ReversePath::Mailbox(mailbox.clone()), parameters));
                Action::CheckSender(mailbox)
            }
            from => Action::Reply(self.begin(from, parameters)),
        }
    }

    fn begin(&mut self, from: ReversePath, parameters: MailParameters) -> Reply {
        self.transaction = Some(Transaction { from, parameters, recipients: Vec::new() });
        self.stage = Stage::Envelope;
        replies::sender_ok()
    }

    /// Whose the sender address of [`Action::CheckSender`] is.
    pub fn sender_resolved(&mut self, found: Result<Target, ResolveError>) -> Reply {
        let Some((from, parameters)) = self.pending.take() else {
            return replies::sequence("Send MAIL first");
        };
        let own = self.account.as_ref().map(|account| account.id);
        match found {
            Ok(Target::Account(owner)) if Some(owner.account.id) == own => self.begin(from, parameters),
            Err(ResolveError::Directory(_)) => replies::directory_away(),
            // RFC 6409 §6.1.
            Ok(_) | Err(_) => replies::not_your_address(),
        }
    }

    fn rcpt(&mut self, to: Mailbox, parameters: RcptParameters) -> Action {
        let Some(transaction) = self.transaction.as_ref().filter(|_| self.stage == Stage::Envelope) else {
            return self.mistake(replies::sequence("Send MAIL first"));
        };
        if transaction.recipients.len() >= self.options.recipients_max {
            // RFC 5321 §4.5.3.1.10.
            return Action::Reply(replies::too_many_recipients());
        }
        if !self.reports() && parameters != RcptParameters::default() {
            return self.mistake(replies::syntax(&SyntaxError::Parameter, replies::PathOf::Recipient));
        }
        // RFC 6533 §3: UTF-8 as it is only with SMTPUTF8.
        let is_ascii =
            !to.needs_utf8() && parameters.orcpt.as_ref().is_none_or(|orcpt| orcpt.as_str().is_ascii());
        if !is_ascii && !transaction.parameters.smtputf8 {
            return Action::Reply(replies::needs_smtputf8());
        }
        self.pending_recipient = parameters;
        Action::Resolve(to)
    }

    /// Whose the recipient of [`Action::Resolve`] is.
    pub fn recipient_resolved(&mut self, to: Mailbox, found: Result<Target, ResolveError>) -> Action {
        let relays = self.options.relays && self.may_relay(&to);
        let parameters = std::mem::take(&mut self.pending_recipient);
        let action = match (&mut self.transaction, found) {
            (Some(transaction), Ok(target)) => {
                transaction.recipients.push(Addressee { to, parameters, target: Some(target) });
                Action::Reply(replies::recipient_ok())
            }
            (Some(transaction), Err(ResolveError::NotLocal)) if relays => {
                transaction.recipients.push(Addressee { to, parameters, target: None });
                Action::Reply(replies::recipient_ok())
            }
            // An agent next door hands on what others guessed; a client that guesses is counted.
            (Some(_), Err(error)) if self.role == Role::Lmtp => Action::Reply(replies::resolve(&error)),
            (Some(_), Err(error)) => self.mistake(replies::resolve(&error)),
            (None, _) => self.mistake(replies::sequence("Send MAIL first")),
        };
        self.bounded(action)
    }

    /// RFC 5321 §3.6.2: mail is relayed for our own users, and for domains that the administrator
    /// named.
    fn may_relay(&self, to: &Mailbox) -> bool {
        match self.role {
            Role::Lmtp => false,
            Role::Submission => self.account.is_some(),
            Role::Smtp => {
                let Some((local, domain)) = to.as_str().rsplit_once('@') else { return false };
                // The next host may take such a local part apart, and relay for strangers.
                let is_routed = local.contains(['@', '%', '!']);
                let ours = &self.options.relay_domains;
                !is_routed && normal_domain(domain).is_ok_and(|domain| ours.contains(&domain))
            }
        }
    }

    fn data(&mut self) -> Action {
        match self.ready(Stage::Envelope) {
            // RFC 3030 §3: octets that are no lines come by BDAT.
            Ok(()) if self.is_binary() => self.mistake(replies::sequence("Binary mail comes by BDAT")),
            Ok(()) => Action::Data(replies::go_on()),
            Err(reply) => self.mistake(reply),
        }
    }

    fn is_binary(&self) -> bool {
        let body = self.transaction.as_ref().and_then(|transaction| transaction.parameters.body);
        body == Some(BodyKind::BinaryMime)
    }

    fn bdat(&mut self, size: u64, last: bool) -> Action {
        match self.ready(self.stage) {
            Ok(()) => {
                self.stage = Stage::Chunks;
                Action::Chunk { size, last }
            }
            // RFC 3030 §2: the octets follow whatever we say, and must not be taken for commands.
            Err(reply) => {
                self.errors += 1;
                Action::Discard { size, reply }
            }
        }
    }

    /// RFC 4468 §3
    fn burl(&mut self, url: String, last: bool) -> Action {
        if self.role != Role::Submission {
            return self.mistake(replies::not_implemented());
        }
        match self.ready(self.stage) {
            Ok(()) => {
                self.stage = Stage::Chunks;
                Action::Url { url, last }
            }
            Err(reply) => self.mistake(reply),
        }
    }

    /// A URL names nothing that may be sent. The transaction is over.
    pub fn url_refused(&mut self) -> Action {
        self.reset();
        let action = self.mistake(replies::url_refused());
        self.bounded(action)
    }

    fn ready(&self, stage: Stage) -> Result<(), Reply> {
        match &self.transaction {
            None => Err(replies::sequence("Send MAIL first")),
            // RFC 2033 §4.2: no message without a recipient.
            Some(transaction) if transaction.recipients.is_empty() => Err(replies::no_recipients()),
            // RFC 3030 §2: DATA and BDAT cannot be mixed.
            Some(_) if self.stage != stage => Err(replies::sequence("The message is coming by BDAT")),
            Some(_) => Ok(()),
        }
    }

    /// Whether a message has come in part (BDAT).
    pub fn is_receiving(&self) -> bool {
        self.transaction.is_some() && self.stage == Stage::Chunks
    }

    /// As the client named itself; empty before its greeting.
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
            now,
        }
        .print()
    }

    /// The message is whole: what to deliver, to whom. The transaction is over.
    pub fn message_received(&mut self) -> Option<Transaction> {
        self.stage = Stage::Envelope;
        self.transaction.take()
    }

    /// What to say of a message for this many recipients that was not taken at all.
    pub fn refused(&self, recipients: usize, reply: Reply) -> Vec<Reply> {
        vec![reply; if self.role == Role::Lmtp { recipients } else { 1 }]
    }

    /// What to say of a message, from what there is to say of each recipient: all of it in LMTP
    /// (RFC 2033 §4.2), one reply in SMTP. There one failure fails the message: the client keeps
    /// it and tries again, so that someone may get it twice and nobody never.
    pub fn delivered(&self, replies: Vec<Reply>) -> Vec<Reply> {
        if self.role == Role::Lmtp {
            return replies;
        }
        // Failures that time may heal go first: the client must not give up for all because of one.
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
                tracing::info!(peer = %self.link.peer, last = %reply.to_string().trim_end(), "too many errors");
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

/// Whether the directory's failure is one of the store's, for logs.
pub(crate) fn store_failure(error: &ResolveError) -> Option<&StoreError> {
    match error {
        ResolveError::Directory(posthaste_directory::DirectoryError::Store(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
