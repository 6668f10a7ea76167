//! The adapter: a connection, the clock and the directory on one side, the session on the other.

mod scripts;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_directory::sasl::{self, Channel, Exchange, Plaintext, SaslStep};
use posthaste_directory::{Directory, Lease, Login, LoginError, Service, Source, revoked};
use posthaste_net::{
    AccountLimit, Accounts, Certificates, CommandsBeforeLogin, Connection, KeyedSemaphore, LoginEnd,
    NetError, SessionFuture, Shutdown, compute_threads,
};

use crate::reply::{Reply, string};
use crate::session::{Action, Session, too_long};
use crate::syntax::{self, Framed, Framer};

/// The answer to a client over the connection limit.
pub const REFUSAL: &[u8] = b"BYE (TRYLATER) \"Too many connections\"\r\n";

/// Octets of a command over the limit that are read and discarded, so that the client reads the
/// answer. A client that sends more is disconnected.
const DRAIN_MAX: u64 = 4 << 20;
/// Octets read ahead of a command.
const READ_AHEAD: usize = 16 * 1024;
/// Time a peer gets to take a reply.
const WRITE_WITHIN: Duration = Duration::from_secs(300);
/// Octets of answers that may pile up while a client sends commands ahead: one script at most comes
/// on top. The input of one session has room for thousands of GETSCRIPT.
const OUTPUT_MAX: usize = 64 * 1024;
/// Time for a TLS handshake.
const TLS_WITHIN: Duration = Duration::from_secs(30);
/// Time for a peer to receive the final response.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

const STOPS: &str = "The server is shutting down; try again later";
const REVOKED: &str =
    "Your login has ended: the account is disabled or removed, or its credential is no longer valid";
const SILENT: &str = "Idle for too long";
const LATE: &str = "You took too long to log in";
const TOO_LONG: &str = "The command is too long";
const TOO_MANY_LITERALS: &str = "The command has too many literals";

/// The connections on which a way to log in may be used in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaintextAuth {
    /// Nowhere, this machine included.
    Never,
    /// Only from loopback.
    LoopbackOnly,
    /// From anywhere.
    Anywhere,
}

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ManageSieveOptions {
    /// The connections on which passwords may be sent in the clear.
    pub plaintext_auth: PlaintextAuth,
    /// The connections on which SCRAM may run in the clear, in addition to those for passwords.
    pub plaintext_scram: PlaintextAuth,
    /// The whole time before a login.
    pub login_within: Duration,
    /// The longest silence of a client that logged in (RFC 5804 §1.2: 30 minutes at least).
    pub silence_within: Duration,
}

/// The state that all sessions of a listener share.
pub struct ManageSieveService {
    options: ManageSieveOptions,
    directory: Arc<Directory>,
    certificates: Option<Certificates>,
    accounts: Accounts,
    /// For commands on scripts: a short one may read or compile hundreds of kibibytes. As many as
    /// there are processors, but one, which stays with everybody else; one for each account. Each
    /// holds one stored script at a time.
    permits: KeyedSemaphore<[u8; 16]>,
}

impl fmt::Debug for ManageSieveService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManageSieveService").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ManageSieveService {
    /// A service for the scripts of a directory's accounts. With certificates it offers STARTTLS.
    pub fn new(
        options: ManageSieveOptions,
        directory: Arc<Directory>,
        certificates: Option<Certificates>,
        accounts: Accounts,
    ) -> Self {
        let permits = KeyedSemaphore::new(compute_threads(), 1);
        Self { options, directory, certificates, accounts, permits }
    }

    /// Sets the permits for commands on scripts, one for each account. Services that
    /// follow each other share them.
    #[must_use]
    pub fn with_permits(mut self, permits: KeyedSemaphore<[u8; 16]>) -> Self {
        self.permits = permits;
        self
    }

    /// Serves one connection to its end. Once a shutdown is requested, the command under way is
    /// finished and the client gets a goodbye.
    pub fn serve(self: Arc<Self>, connection: Connection, shutdown: Shutdown) -> SessionFuture {
        Box::pin(self.serve_to_end(connection, shutdown))
    }

    async fn serve_to_end(self: Arc<Self>, connection: Connection, shutdown: Shutdown) {
        let peer = connection.peer();
        let mut driver = Driver::new(self, connection, shutdown);
        match driver.run().await {
            Ok(()) => tracing::debug!(%peer, "session ended"),
            Err(error) if error.is_ordinary() => tracing::debug!(%peer, %error, "session ended"),
            Err(error) => tracing::info!(%peer, %error, "ManageSieve session failed"),
        }
        let _ = driver.connection.close(CLOSE_WITHIN).await;
    }
}

/// Whether a session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Command,
    End,
}

/// A command, or the event that came instead.
enum Input {
    /// It is the first octets of the input, this many.
    Whole(usize),
    TooLong(u64),
    End(&'static str),
}

struct Driver {
    service: Arc<ManageSieveService>,
    connection: Connection,
    session: Session,
    lease: Option<Lease>,
    /// The time by which the client must have logged in.
    login_due: Instant,
    output: String,
    shutdown: Shutdown,
    before_login: CommandsBeforeLogin,
}

impl Driver {
    fn new(service: Arc<ManageSieveService>, connection: Connection, shutdown: Shutdown) -> Self {
        let session = Session {
            is_encrypted: connection.is_encrypted(),
            offers_tls: service.certificates.is_some(),
            ..Session::default()
        };
        let login_due = connection.clock().now() + service.options.login_within;
        let before_login = CommandsBeforeLogin::default();
        Self {
            service,
            connection,
            session,
            lease: None,
            login_due,
            output: String::new(),
            shutdown,
            before_login,
        }
    }

    async fn run(&mut self) -> Result<(), NetError> {
        self.capabilities("Posthaste is ready");
        loop {
            self.relieve().await?;
            let action = match self.input().await? {
                Input::Whole(length) => match self.held_back().await? {
                    Some(why) => Action::Close(Reply::bye(why)),
                    None => match self.taken(length, syntax::parse) {
                        Ok(command) => self.session.command(command),
                        Err(why) => self.session.mistake(why),
                    },
                },
                Input::TooLong(octets) => match self.drain(octets).await? {
                    Some(why) => Action::Close(Reply::bye(why)),
                    None => Action::Reply(too_long()),
                },
                Input::End(why) => Action::Close(Reply::bye(why)),
            };
            if self.act(action).await? == Next::End {
                return self.flush().await;
            }
        }
    }

    async fn act(&mut self, action: Action) -> Result<Next, NetError> {
        match action {
            Action::Reply(_) | Action::Close(_) => return Ok(self.say(action)),
            Action::Capabilities => self.capabilities("Capabilities listed"),
            Action::StartTls => return self.start_tls().await,
            Action::LogOut => {
                // RFC 5804 §2.14.1: as if the connection were new. The account may have another.
                self.lease = None;
                self.login_due = self.connection.clock().now() + self.service.options.login_within;
                self.connection.belongs_to_nobody();
                Reply::ok("Logged out").print(&mut self.output);
            }
            Action::Authenticate { mechanism, initial } => return self.log_in(&mechanism, initial).await,
            Action::Script(act) => return self.act_on_scripts(act).await,
        }
        Ok(Next::Command)
    }

    /// For actions that are a reply, with or without an end.
    fn say(&mut self, action: Action) -> Next {
        match action {
            Action::Close(reply) => {
                reply.print(&mut self.output);
                Next::End
            }
            Action::Reply(reply) => {
                reply.print(&mut self.output);
                Next::Command
            }
            _ => Next::Command,
        }
    }

    fn capabilities(&mut self, text: &'static str) {
        let mechanisms = sasl::mechanisms(&self.service.directory, &self.channel());
        self.session.capabilities(mechanisms, &mut self.output);
        Reply::ok(text).print(&mut self.output);
    }

    /// RFC 5804 §2.2. Input that was sent in the clear after the command never counts as
    /// something sent inside.
    async fn start_tls(&mut self) -> Result<Next, NetError> {
        let Some(certificates) = self.service.certificates.clone() else { return Ok(Next::End) };
        if self.connection.has_input() {
            Reply::bye("Commands were sent after STARTTLS").print(&mut self.output);
            return Ok(Next::End);
        }
        Reply::ok("Begin TLS").print(&mut self.output);
        self.flush().await?;
        self.connection.start_tls(&certificates, TLS_WITHIN).await?;
        self.session.is_encrypted = true;
        self.capabilities("TLS is active");
        Ok(Next::Command)
    }

    /// The facts of the connection that the directory needs.
    fn channel(&self) -> Channel {
        let connection = &self.connection;
        let peer = connection.peer().ip().to_canonical();
        let allowed = |auth| match auth {
            PlaintextAuth::LoopbackOnly if peer.is_loopback() => Plaintext::Allowed,
            PlaintextAuth::Anywhere => Plaintext::Allowed,
            PlaintextAuth::Never | PlaintextAuth::LoopbackOnly => Plaintext::Refused,
        };
        let options = &self.service.options;
        let (plaintext, scram) = (allowed(options.plaintext_auth), allowed(options.plaintext_scram));
        Channel::of(connection, Service::Sieve, plaintext, scram)
    }

    /// RFC 5804 §2.1.
    async fn log_in(&mut self, mechanism: &str, initial: Option<String>) -> Result<Next, NetError> {
        let mut exchange = match Exchange::begin(&self.service.directory, mechanism, self.channel()) {
            Ok(exchange) => exchange,
            Err(error) => return self.login_failed("", &error).await,
        };
        let mut response = match initial.map(|text| BASE64.decode(text)).transpose() {
            Ok(response) => response,
            Err(_) => return Ok(self.cancelled("the response is not in base64")),
        };
        let mut refused = None::<LoginError>;
        loop {
            match exchange.step(&self.service.directory, response.as_deref()).await {
                SaslStep::Done(login) => return Ok(self.logged_in(*login)),
                SaslStep::Fail(error) => return self.login_failed(exchange.name(), &error).await,
                SaslStep::Refuse { challenge, error } => {
                    self.note_refusal(exchange.name(), &error).await;
                    self.print_challenge(&challenge);
                    refused = Some(error);
                }
                SaslStep::Challenge(octets) => self.print_challenge(&octets),
            }
            let length = match self.input().await? {
                Input::Whole(length) => length,
                Input::TooLong(_) => {
                    return Ok(self.say(Action::Close(Reply::bye("The response is too long"))));
                }
                Input::End(why) => return Ok(self.say(Action::Close(Reply::bye(why)))),
            };
            response = match self.taken(length, syntax::parse_string) {
                Ok(text) if text == "*" => return Ok(self.cancelled("the login was cancelled")),
                Ok(text) => match BASE64.decode(text) {
                    // RFC 7628 §3.2.3: the client's answer to a refusal does not count.
                    Ok(octets) => match refused {
                        Some(error) => {
                            let action = self.session.login_failed(&error.failure);
                            return Ok(self.say(action));
                        }
                        None => Some(octets),
                    },
                    Err(_) => return Ok(self.cancelled("the response is not in base64")),
                },
                Err(why) => return Ok(self.cancelled(why)),
            };
            refused = None;
        }
    }

    fn print_challenge(&mut self, challenge: &[u8]) {
        string(&BASE64.encode(challenge), &mut self.output);
        self.output.push_str("\r\n");
    }

    fn cancelled(&mut self, why: &'static str) -> Next {
        let action = self.session.mistake(why);
        self.say(action)
    }

    fn logged_in(&mut self, login: Login) -> Next {
        let account = &login.account;
        let (accounts, peer) = (&self.service.accounts, self.connection.peer().ip());
        let Some(share) = accounts.admit(account.limited(), peer) else {
            let text = "Your account has too many connections; close some of them and try again";
            Reply::no(text).with_code("TRYLATER").print(&mut self.output);
            return Next::Command;
        };
        self.connection.belongs_to(share);
        self.source().succeeded(&login);
        let lease = self.service.directory.lease(&login);
        self.connection.ends_with(LoginEnd::new(lease.signal()));
        self.session.account = Some(lease.account());
        self.lease = Some(lease);
        Reply::ok("Logged in").print(&mut self.output);
        Next::Command
    }

    /// The source of a login, for the log.
    fn source(&self) -> Source {
        let connection = &self.connection;
        Source { address: connection.peer().ip(), protocol: Service::Sieve.name(), session: connection.id() }
    }

    async fn login_failed(&mut self, name: &str, error: &LoginError) -> Result<Next, NetError> {
        self.note_refusal(name, error).await;
        let action = self.session.login_failed(&error.failure);
        Ok(self.say(action))
    }

    /// Logs a refused login, and waits for the delay of failed logins.
    async fn note_refusal(&mut self, name: &str, error: &LoginError) {
        self.source().failed(name, &error.failure);
        tokio::select! {
            () = tokio::time::sleep(error.delay) => {}
            () = self.shutdown.requested() => {}
        }
    }

    /// The time that the client still has to log in; `None` if it has logged in.
    fn login_left(&self) -> Option<Duration> {
        let left = || self.login_due.saturating_duration_since(self.connection.clock().now());
        self.session.account.is_none().then(left)
    }

    /// The next command with its literals.
    async fn input(&mut self) -> Result<Input, NetError> {
        let max = self.session.command_len_max();
        let mut framer = Framer::default();
        loop {
            if self.lease.as_ref().is_some_and(Lease::is_ended) {
                return Ok(Input::End(REVOKED));
            }
            let login_left = self.login_left();
            // A client that sends commands without a pause is not waited for below.
            if login_left.is_some_and(|left| left.is_zero()) {
                return Ok(Input::End(LATE));
            }
            match framer.next(self.connection.input(), max) {
                Framed::Whole(length) => return Ok(Input::Whole(length)),
                Framed::TooLong(octets) => return Ok(Input::TooLong(octets)),
                Framed::TooManyLiterals => return Ok(Input::End(TOO_MANY_LITERALS)),
                Framed::Part => {}
            }
            self.flush().await?;
            let within = login_left.unwrap_or(self.service.options.silence_within);
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Ok(Input::End(STOPS)),
                () = revoked(&mut self.lease) => return Ok(Input::End(REVOKED)),
                filled = self.connection.fill(max + READ_AHEAD, within) => match filled {
                    Ok(_) => {}
                    Err(NetError::TimedOut(_)) => return Ok(Input::End(SILENT)),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Discards a command over the limit, if that is worth it. Returns why the session ends
    /// instead.
    async fn drain(&mut self, octets: u64) -> Result<Option<&'static str>, NetError> {
        if self.session.account.is_none() || octets == 0 || octets > DRAIN_MAX {
            return Ok(Some(TOO_LONG));
        }
        let mut left = usize::try_from(octets).unwrap_or(usize::MAX);
        while left > 0 {
            if !self.connection.has_input() {
                let within = self.service.options.silence_within;
                tokio::select! {
                    biased;
                    () = self.shutdown.requested() => return Ok(Some(STOPS)),
                    () = revoked(&mut self.lease) => return Ok(Some(REVOKED)),
                    filled = self.connection.fill(READ_AHEAD, within) => {
                        filled?;
                    }
                }
            }
            let used = self.connection.input().len().min(left);
            self.connection.consume(used);
            left -= used;
        }
        // The rest of the command: its line end.
        Ok(match self.input().await? {
            Input::Whole(length) => {
                self.connection.consume(length);
                None
            }
            Input::TooLong(_) => Some(TOO_LONG),
            Input::End(why) => Some(why),
        })
    }

    /// Reads a command of this length, and takes it off the input. So a command that waits for its
    /// turn is in memory once.
    fn taken<T>(&mut self, length: usize, read: impl FnOnce(&[u8]) -> T) -> T {
        let outcome = read(self.connection.input().get(..length).unwrap_or_default());
        self.connection.consume(length);
        outcome
    }

    /// Counts a command and waits until the account may give it; what ends the session meanwhile.
    async fn held_back(&mut self) -> Result<Option<&'static str>, NetError> {
        if self.session.account.is_none() {
            if let Some(wait) = self.before_login.count() {
                self.flush().await?;
                self.connection.clock().sleep(wait).await;
            }
            return Ok(None);
        }
        if !self.connection.count_command() {
            return Ok(None);
        }
        self.flush().await?;
        let Some(share) = self.connection.share() else { return Ok(None) };
        tokio::select! {
            biased;
            () = self.shutdown.requested() => Ok(Some(STOPS)),
            () = revoked(&mut self.lease) => Ok(Some(REVOKED)),
            () = self.connection.peer_left() => Err(NetError::Closed),
            () = Box::pin(share.wait(AccountLimit::Commands)) => Ok(None),
        }
    }

    /// Between two commands that were sent ahead: answers that have piled up are sent, and other
    /// sessions run. A command may read all scripts of its account.
    async fn relieve(&mut self) -> Result<(), NetError> {
        if self.output.len() > OUTPUT_MAX {
            self.flush().await?;
        }
        if self.connection.has_input() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), NetError> {
        if self.output.is_empty() {
            return Ok(());
        }
        let within = self.login_left().map_or(WRITE_WITHIN, |left| left.min(WRITE_WITHIN));
        self.connection.write_all_within(self.output.as_bytes(), within).await?;
        // An idle session keeps no buffer.
        self.output = String::new();
        Ok(())
    }
}

#[cfg(test)]
mod late_tests;
