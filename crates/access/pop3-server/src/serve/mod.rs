//! The adapter: a connection's bytes and the clock on one side, the session's lines and actions on
//! the other.
//!
//! Answers are gathered while commands wait in the input (PIPELINING, RFC 2449 §6.6). They leave
//! before the session waits for anything.

mod channel;
mod login;
mod retrieve;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use posthaste_delivery::Holding;
use posthaste_directory::{Lease, revoked, sasl};
use posthaste_mail_model::{AccountId, NumSet};
use posthaste_metrics::OpenFolder;
use posthaste_net::{
    AccountLimit, CommandsBeforeLogin, Connection, LineReader, NetError, SessionFuture, Shutdown, TakenLine,
    copying,
};
use posthaste_store::{Mailbox, Row, SessionEnd, StoreError, ViewHolder};

use crate::command::{Command, SyntaxError};
use crate::maildrop::Listing;
use crate::options::{COMMAND_BYTES, LINE_MAX, OUT_BYTES, READ_AHEAD, SKIP_MAX, SLICE_BYTES};
use crate::service::Pop3Service;
use crate::session::{Action, Link, Refusal, Session};

impl Pop3Service {
    /// Serves one connection to its end. On shutdown the command under way is finished.
    pub fn serve(self: Arc<Self>, connection: Connection, shutdown: Shutdown) -> SessionFuture {
        Box::pin(self.serve_to_end(connection, shutdown))
    }

    async fn serve_to_end(self: Arc<Self>, connection: Connection, shutdown: Shutdown) {
        let peer = connection.peer();
        let mut driver = Box::new(Driver::new(self, connection, shutdown));
        let end = Arc::clone(&driver.end);
        let outcome = {
            let running = std::pin::pin!(driver.run());
            end.unless(running).await
        };
        match outcome {
            Some(Ok(())) => tracing::debug!(%peer, "session ended"),
            Some(Err(error)) if error.is_ordinary() => tracing::debug!(%peer, %error, "session lost"),
            Some(Err(error)) => tracing::info!(%peer, %error, "POP3 session failed"),
            // RFC 1939 §3: without a response, and nothing is removed.
            None => {
                tracing::info!(%peer, "session ended: its account holds too many old views of mailboxes");
            }
        }
        let within = driver.service.options.write_within.min(CLOSE_WITHIN);
        let _ = driver.connection.close(within).await;
    }
}

/// Time for a peer to receive the final response.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Commands that are counted by name.
const VERBS: &[&str] = &[
    "USER", "PASS", "AUTH", "CAPA", "STLS", "UTF8", "LANG", "STAT", "LIST", "UIDL", "RETR", "TOP", "DELE",
    "NOOP", "RSET", "QUIT",
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
    /// The session ends, with a word about why.
    Refused(Refusal),
    /// The client sent nothing for too long.
    Silent,
}

struct Inbox {
    owner: AccountId,
    /// Kept open, so that its view stays in memory.
    mailbox: Arc<Mailbox>,
    /// Counts the view for the account.
    holder: ViewHolder,
    /// The large message that was converted for TOP, or is being sent.
    holding: Holding,
}

struct Driver {
    service: Arc<Pop3Service>,
    connection: Connection,
    session: Session,
    /// Ends when the login is no longer valid.
    lease: Option<Lease>,
    /// Ends the session if it holds an old view that others need memory for.
    end: Arc<SessionEnd>,
    inbox: Option<Inbox>,
    out: Vec<u8>,
    /// Bytes sent since the last yield to other sessions.
    sent: usize,
    shutdown: Shutdown,
    login_deadline: Instant,
    before_login: CommandsBeforeLogin,
}

impl Driver {
    fn new(service: Arc<Pop3Service>, connection: Connection, shutdown: Shutdown) -> Self {
        let session = Session::new(Arc::clone(&service.options), link(&service, &connection));
        let login_deadline = connection.clock().now() + service.options.login_within;
        Self {
            service,
            connection,
            session,
            lease: None,
            end: Arc::default(),
            inbox: None,
            out: Vec::new(),
            sent: 0,
            shutdown,
            login_deadline,
            before_login: CommandsBeforeLogin::default(),
        }
    }

    async fn run(&mut self) -> Result<(), NetError> {
        self.session.welcome(&mut self.out);
        loop {
            self.relieve().await?;
            let action = match self.line().await? {
                Line::Good(line) => match self.command_begins(&line).await? {
                    None => self.session.line(&line, &mut self.out),
                    Some(refusal) => self.session.refuse(refusal, &mut self.out),
                },
                Line::Bad(error) => self.session.bad_line(error, &mut self.out),
                Line::Refused(refusal) => self.session.refuse(refusal, &mut self.out),
                // RFC 1939 §3: without a response, and nothing is removed.
                Line::Silent => return Ok(()),
            };
            if self.act(action).await? == Next::End {
                return self.flush().await;
            }
            self.rest(COMMAND_BYTES).await;
        }
    }

    /// A command begins. A refusal if its account may give none now.
    async fn command_begins(&mut self, line: &[u8]) -> Result<Option<Refusal>, NetError> {
        posthaste_metrics::command_ended();
        let of = |inbox: &Inbox| OpenFolder { messages: inbox.mailbox.view().exists(), is_inbox: true };
        posthaste_metrics::command(posthaste_metrics::verb(line, VERBS), self.inbox.as_ref().map(of));
        self.held_back().await
    }

    async fn act(&mut self, action: Action) -> Result<Next, NetError> {
        match action {
            Action::Answered => {}
            Action::Close => return Ok(Next::End),
            // Boxed: the session should not hold a command's memory while it waits.
            Action::LogIn { name, password } => return Box::pin(self.log_in(&name, &password)).await,
            Action::Authenticate { mechanism, initial } => {
                return Box::pin(self.authenticate(&mechanism, initial)).await;
            }
            Action::StartTls => return Box::pin(self.start_tls()).await,
            Action::List(listing) => self.list(listing).await?,
            Action::Size { only, command } => return Box::pin(self.size(only, command)).await,
            Action::Retrieve { row, lines } => return Box::pin(self.retrieve(row, lines)).await,
            Action::Remove => {
                let outcome = Box::pin(self.remove()).await;
                let action = self.session.removed(outcome, &mut self.out);
                debug_assert_eq!(action, Action::Close);
                return Ok(Next::End);
            }
        }
        Ok(Next::Command)
    }

    /// The next step after an answer that may end the session.
    fn after(action: &Action) -> Next {
        if *action == Action::Close { Next::End } else { Next::Command }
    }

    fn refuse(&mut self, refusal: Refusal) -> Next {
        Self::after(&self.session.refuse(refusal, &mut self.out))
    }

    async fn start_tls(&mut self) -> Result<Next, NetError> {
        let Some(certificates) = self.service.certificates.clone() else { return Ok(Next::End) };
        if self.connection.has_input() {
            // RFC 2595 §4 and CVE-2011-0411: nothing sent in the clear may be taken for something
            // sent inside.
            self.out.extend_from_slice(b"-ERR Commands were sent after STLS\r\n");
            return Ok(Next::End);
        }
        self.out.extend_from_slice(b"+OK Begin TLS negotiation\r\n");
        self.flush().await?;
        self.connection.start_tls(&certificates, self.service.options.handshake_within).await?;
        self.session.tls_started(link(&self.service, &self.connection));
        Ok(Next::Command)
    }

    /// Makes sizes, and then answers the command that needs them.
    async fn size(&mut self, only: Option<u32>, command: Command) -> Result<Next, NetError> {
        if let Err(error) = self.make_sizes(only).await {
            return Ok(self.refuse(Refusal::of_store(&error)));
        }
        match self.session.sized(command, &mut self.out) {
            Action::List(listing) => self.list(listing).await?,
            action => return Ok(Self::after(&action)),
        }
        Ok(Next::Command)
    }

    async fn make_sizes(&mut self, only: Option<u32>) -> Result<(), StoreError> {
        let (Some(inbox), Some(maildrop)) = (&self.inbox, self.session.maildrop()) else { return Ok(()) };
        let (mailbox, view) = (&inbox.mailbox, maildrop.view());
        match only {
            Some(n) => {
                let sized = mailbox.sized(view, &NumSet::range(n, n)).await?;
                maildrop.learn(sized, n);
            }
            None if maildrop.is_numbered() => {
                let sized = mailbox.sized(view, &view.all()).await?;
                maildrop.set_sizes(sized);
            }
            None => maildrop.set_sizes(mailbox.all_sized().await?),
        }
        inbox.holder.holds(&[maildrop.view()]);
        Ok(())
    }

    async fn list(&mut self, mut listing: Listing) -> Result<(), NetError> {
        while self.session.lines(&mut listing, &mut self.out) {
            self.relieve().await?;
        }
        Ok(())
    }

    /// UPDATE (RFC 1939 §6): one commit removes all marked messages, or none. Nothing interrupts
    /// it.
    async fn remove(&mut self) -> Result<(), Refusal> {
        let (Some(inbox), Some(maildrop)) = (&self.inbox, self.session.maildrop()) else { return Ok(()) };
        let Inbox { owner, mailbox, .. } = inbox;
        // Each of a million marks may be a range.
        let octets = maildrop.marked() as usize * size_of::<Row>();
        let uids = copying(octets, maildrop.take_marked()).await;
        let removed = mailbox.remove(&uids).await.map_err(|error| Refusal::of_store(&error))?;
        // The annotations of all users (RFC 5257). If this fails, the messages are removed
        // anyway.
        let directory = &self.service.directory;
        if let Err(error) = directory.message_annotations().forget(*owner, mailbox.id(), &removed.uids).await
        {
            tracing::warn!(%error, "annotations of expunged messages were not removed");
        }
        Ok(())
    }

    /// Counts a command and waits until the account may give it; what ends the session meanwhile.
    async fn held_back(&mut self) -> Result<Option<Refusal>, NetError> {
        if !self.session.is_logged_in() {
            if let Some(wait) = self.before_login.count() {
                self.flush().await?;
                self.connection.clock().sleep(wait).await;
            }
            return Ok(None);
        }
        if !self.connection.count_command() {
            return Ok(None);
        }
        // Commands before this one are answered first.
        self.flush().await?;
        let Some(share) = self.connection.share() else { return Ok(None) };
        tokio::select! {
            biased;
            () = self.shutdown.requested() => Ok(Some(Refusal::Stops)),
            () = revoked(&mut self.lease) => Ok(Some(Refusal::Revoked)),
            () = self.connection.peer_left() => Err(NetError::Closed),
            // Boxed: hardly any session needs it.
            () = Box::pin(share.wait(AccountLimit::Commands)) => Ok(None),
        }
    }

    /// The time that the server waits for a line.
    fn read_timeout(&self) -> Duration {
        let options = &self.service.options;
        if self.session.is_logged_in() {
            return options.silence_within;
        }
        options.pre_login_within.min(self.login_left())
    }

    /// The time that the client still has to log in.
    fn login_left(&self) -> Duration {
        self.login_deadline.saturating_duration_since(self.connection.clock().now())
    }

    /// The longest time for which a client may leave answers unread. Before the login that ends
    /// with its deadline.
    fn write_within(&self) -> Duration {
        let within = self.service.options.write_within;
        if self.session.is_logged_in() { within } else { within.min(self.login_left()) }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<Line, NetError> {
        let mut reader = LineReader::new(LINE_MAX, SKIP_MAX);
        loop {
            // A client that sends commands without a pause is not waited for below.
            if !self.session.is_logged_in() && self.login_left().is_zero() {
                return Ok(Line::Silent);
            }
            match reader.take(self.connection.input_mut())? {
                TakenLine::Unfinished => {}
                TakenLine::TooLong => return Ok(Line::Bad(SyntaxError::TooLong)),
                _ if self.lease.as_ref().is_some_and(Lease::is_ended) => {
                    return Ok(Line::Refused(Refusal::Revoked));
                }
                // RFC 1939 §3: a line ends with CR LF and with nothing else.
                TakenLine::BareLf => return Ok(Line::Bad(SyntaxError::Line)),
                TakenLine::Whole(line) => return Ok(Line::Good(line)),
            }
            self.flush().await?;
            posthaste_metrics::command_answered();
            let within = self.read_timeout();
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Ok(Line::Refused(Refusal::Stops)),
                () = revoked(&mut self.lease) => return Ok(Line::Refused(Refusal::Revoked)),
                filled = self.connection.fill(READ_AHEAD, within) => match filled {
                    Ok(_) => {}
                    Err(NetError::TimedOut(_)) => return Ok(Line::Silent),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Sends all answers. A session that waits for its client keeps no buffer.
    async fn flush(&mut self) -> Result<(), NetError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let within = self.write_within();
        self.connection.write_all_within(&out, within).await
    }

    /// Sends answers that have piled up although more follow.
    async fn relieve(&mut self) -> Result<(), NetError> {
        if self.out.len() < OUT_BYTES {
            return Ok(());
        }
        let within = self.write_within();
        let sent = self.connection.write_more_within(&self.out, within).await;
        let bytes = self.out.len();
        self.out.clear();
        sent?;
        self.rest(bytes).await;
        Ok(())
    }

    /// Counts bytes that were sent, or work like that, and lets other sessions run now and then.
    async fn rest(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= SLICE_BYTES {
            self.sent = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// The facts of its connection that the session needs.
fn link(service: &Pop3Service, connection: &Connection) -> Link {
    let channel = channel::channel(&service.options, connection);
    Link {
        encrypted: connection.is_encrypted(),
        stls: service.certificates.is_some(),
        passwords: channel.protects_passwords(),
        mechanisms: sasl::mechanisms(&service.directory, &channel),
    }
}

#[cfg(test)]
mod late_tests;
