//! The transport of a session: commands in, a bounded buffer of responses out.
//!
//! Only this file reads from the connection, writes to it and changes its layers. A session gets
//! frames and lines from it, prints responses, and asks it to [fill](Wire::fill) the input and to
//! [flush](Wire::flush) the output. The bytes below may be a socket or a test's memory, and the
//! clock may be a test's: see [`posthaste_net::Connection::with_clock`].
//!
//! Responses are printed straight into [`Wire::out`]. A caller that prints many responses calls
//! [`Wire::relieve`] now and then. It sends a full buffer and waits until the peer has taken it.
//! What always holds: the buffer never grows with the folder, and a waiting session owns no buffer.

use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use posthaste_imap_codec::framing::{CommandFrame, CommandFramer, FramerLimits, LiteralWanted};
use posthaste_imap_codec::limits::LINE_BYTES_MAX;
use posthaste_imap_codec::print;
use posthaste_imap_codec::response::{Code, Response, Status, StatusKind, Untagged};
use posthaste_imap_codec::{NameEncoding, Tag};
use posthaste_net::{AccountShare, Certificates, Connection, LoginEnd, NetError};

use crate::heavy::{Pace, STEPS_MAX};
use crate::progress::Reports;

/// Bytes gathered before they are sent. One TLS record is 16 KiB. With four of them, the system
/// call costs little beside the printing. Twice as many gain nothing measurable.
pub(crate) const OUT_BYTES: usize = 64 * 1024;

/// Bodies of at least this size are sent without a copy.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// Both directions.
pub(crate) struct Wire {
    connection: Connection,
    /// Splits the input into commands.
    framer: CommandFramer,
    /// How mailbox names are written.
    pub(crate) names: NameEncoding,
    out: Vec<u8>,
    write_within: Duration,
    /// When the client must have logged in; `None` after that.
    login_due: Option<Instant>,
    pace: Pace,
    /// A report of progress could not be sent.
    is_broken: bool,
}

/// How long a client that has not logged in may take to read the last words.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Input of later commands that is read while a command runs, to notice that the client has
/// disconnected: two lines. If more is pending, the state of the socket shows it.
const AHEAD_MAX: usize = 2 * LINE_BYTES_MAX;

/// How long a running command waits for input: the client need not send any.
const UNHURRIED: Duration = Duration::from_secs(24 * 60 * 60);

impl Wire {
    /// A wire on a connection before its greeting. The login must succeed within `login_within`.
    pub(crate) fn new(connection: Connection, write_within: Duration, login_within: Duration) -> Self {
        let login_due = Some(connection.clock().now() + login_within);
        Self {
            login_due,
            connection,
            framer: CommandFramer::new(FramerLimits::default()),
            names: NameEncoding::Utf7,
            out: Vec::new(),
            write_within,
            pace: Pace::default(),
            is_broken: false,
        }
    }

    /// What is known of the connection: its addresses, its layers, its account and its clock.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Takes a command from the input if one is complete; see [`CommandFramer::next_frame`].
    pub(crate) fn next_frame(&mut self) -> Option<CommandFrame> {
        self.framer.next_frame(self.connection.input_mut())
    }

    /// The announced literal belongs to the command. If the client waits for a go-ahead, the caller
    /// sends it.
    pub(crate) fn accept_literal(&mut self, wanted: &LiteralWanted) {
        self.framer.accept_literal(wanted);
    }

    /// Drops the command with this literal. The caller sends the tagged response.
    pub(crate) fn refuse_literal(&mut self, wanted: &LiteralWanted) {
        self.framer.refuse_literal(wanted, self.connection.input_mut());
    }

    /// Drops the command whose literal is arriving, and returns its tag.
    pub(crate) fn abandon_literal(&mut self) -> Option<Tag> {
        self.framer.abandon_literal(self.connection.input_mut())
    }

    /// Moves the input to memory of its own; see [`Connection::own_input`].
    pub(crate) fn own_input(&mut self) {
        self.connection.own_input();
    }

    /// The client has logged in, or it has to do so again within this time.
    pub(crate) fn set_login_within(&mut self, within: Option<Duration>) {
        let now = self.connection.clock().now();
        self.login_due = within.map(|within| now + within);
    }

    /// How long the client may still take to log in; `None` if it has.
    pub(crate) fn login_left(&self) -> Option<Duration> {
        let due = self.login_due?;
        Some(due.saturating_duration_since(self.connection.clock().now()))
    }

    /// How long the client may take to read. Before the login that ends with its deadline.
    fn write_within(&self) -> Duration {
        self.login_left().map_or(self.write_within, |left| left.min(self.write_within))
    }

    /// How many bytes of input are held, and how many the accepted literal still needs.
    pub(crate) fn input_bytes(&mut self) -> InputBytes {
        let input = self.connection.input_mut();
        InputBytes { held: input.len(), missing: self.framer.missing(input) }
    }

    /// Whether a command has begun to arrive.
    pub(crate) fn mid_command(&mut self) -> bool {
        self.framer.mid_command(self.connection.input_mut())
    }

    /// Waits for input; see [`Connection::fill`].
    pub(crate) async fn fill(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        self.connection.fill(input_max, within).await
    }

    /// Waits for the rest of a command; see [`Connection::fill_rest`].
    pub(crate) async fn fill_rest(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        self.connection.fill_rest(input_max, within).await
    }

    /// The connection counts for this account from now on.
    pub(crate) fn belongs_to(&mut self, share: AccountShare) {
        self.connection.belongs_to(share);
    }

    /// See [`Connection::ends_with`].
    pub(crate) fn ends_with(&mut self, login_end: LoginEnd) {
        self.connection.ends_with(login_end);
    }

    /// See [`Connection::belongs_to_nobody`].
    pub(crate) fn belongs_to_nobody(&mut self) {
        self.connection.belongs_to_nobody();
    }

    /// Adds TLS, after the tagged OK was sent; see [`Connection::start_tls`].
    pub(crate) async fn start_tls(
        &mut self,
        certificates: &Certificates,
        within: Duration,
    ) -> Result<(), NetError> {
        self.connection.start_tls(certificates, within).await
    }

    /// Adds compression, after the tagged OK was sent; see [`Connection::start_deflate`].
    pub(crate) fn start_deflate(&mut self) -> Result<(), NetError> {
        self.connection.start_deflate()
    }

    /// Ends compression, after the tagged OK was printed; see [`Connection::end_deflate`].
    pub(crate) async fn end_deflate(&mut self) -> Result<(), NetError> {
        self.flush().await?;
        let within = self.write_within();
        self.connection.end_deflate(within).await
    }

    /// Closes the connection. It waits at most as long as for any other write.
    pub(crate) async fn close(self) -> Result<(), NetError> {
        let most = if self.login_due.is_some() { CLOSE_WITHIN } else { Duration::MAX };
        self.connection.close(self.write_within.min(most)).await
    }

    /// Where responses are printed.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether something is printed that was not sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether it is time to [`relieve`](Self::relieve).
    pub(crate) fn is_full(&self) -> bool {
        self.out.len() >= OUT_BYTES
    }

    /// Sends the printed output if it is large.
    pub(crate) async fn relieve(&mut self) -> Result<(), NetError> {
        if self.is_broken {
            return Err(NetError::Closed);
        }
        if !self.is_full() {
            return Ok(());
        }
        let within = self.write_within();
        let sent = self.connection.write_more_within(&self.out, within).await;
        // Sending a byte costs about as much as looking at one.
        let steps = (self.out.len() as u64).min(STEPS_MAX);
        self.out.clear();
        // A single response may have been larger than the usual buffer.
        self.out.shrink_to(2 * OUT_BYTES);
        self.pace.worked(steps).await;
        sent
    }

    /// Does work during which nothing is printed, while the client is connected. If the client
    /// disconnects or its login ends, the command is cancelled. A client that has closed its
    /// sending side counts as disconnected, although it might still read.
    pub(crate) async fn while_there<T>(&mut self, work: impl Future<Output = T>) -> Result<T, NetError> {
        self.wait_for(work, None).await
    }

    /// The same, and reports how far the work is if it takes long (RFC 9585).
    pub(crate) async fn while_reporting<T>(
        &mut self,
        reports: Reports<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, NetError> {
        self.wait_for(work, Some(reports)).await
    }

    /// Does work that changes mailboxes, and reports that it is going on if it takes long
    /// (RFC 9585). It is done to its end, whatever becomes of the connection: what belongs to the
    /// change comes after it.
    pub(crate) async fn reporting<T>(&mut self, reports: Reports<'_>, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let clock = self.connection.clock().clone();
        let mut due = clock.now() + reports.times.first;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep(due.saturating_duration_since(clock.now())) => {}
            }
            due = clock.now() + reports.times.every;
            if self.is_broken {
                continue;
            }
            self.say_code(reports.now(), "Working");
            let (done, sent) = {
                let mut sending = std::pin::pin!(self.flush());
                tokio::select! {
                    biased;
                    done = &mut work => (Some(done), sending.await),
                    sent = &mut sending => (None, sent),
                }
            };
            self.is_broken = sent.is_err();
            if let Some(done) = done {
                return done;
            }
        }
    }

    async fn wait_for<T>(
        &mut self,
        work: impl Future<Output = T>,
        reports: Option<Reports<'_>>,
    ) -> Result<T, NetError> {
        let mut work = std::pin::pin!(work);
        let clock = self.connection.clock().clone();
        let mut login_end = self.connection.login_end();
        let mut due = reports.as_ref().map(|reports| clock.now() + reports.times.first);
        loop {
            let report = async {
                match due {
                    Some(due) => clock.sleep(due.saturating_duration_since(clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            let heard = async {
                if self.connection.input().len() >= AHEAD_MAX {
                    self.connection.peer_left().await;
                    return Err(NetError::Closed);
                }
                match self.connection.fill(AHEAD_MAX, UNHURRIED).await {
                    Ok(_) | Err(NetError::TimedOut(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                heard = heard => heard?,
                () = login_end.reached() => return Err(NetError::LoginEnded),
                () = report => {
                    if let Some(reports) = &reports {
                        self.say_code(reports.now(), "Working");
                        self.flush().await?;
                        due = Some(clock.now() + reports.times.every);
                    }
                }
            }
        }
    }

    /// Sends all printed output.
    pub(crate) async fn flush(&mut self) -> Result<(), NetError> {
        if self.is_broken {
            return Err(NetError::Closed);
        }
        if self.out.is_empty() {
            return Ok(());
        }
        let within = self.write_within();
        let sent = self.connection.write_all_within(&self.out, within).await;
        self.out.clear();
        sent
    }

    /// Sends all printed output. Once `displaced` returns, the command whose literal is arriving is
    /// dropped at once. The client may take minutes to read. Not to be dropped while it waits,
    /// unless the connection is closed then.
    pub(crate) async fn flush_beside(
        &mut self,
        displaced: impl Future<Output = ()>,
    ) -> Result<Option<Abandoned>, NetError> {
        if self.out.is_empty() {
            return Ok(None);
        }
        let within = self.write_within();
        let Self { connection, framer, out, .. } = self;
        // Nothing is read meanwhile.
        let mut input = std::mem::take(connection.input_mut());
        let mut abandoned = None;
        let sent = {
            let mut sent = pin!(connection.write_all_within(out, within));
            tokio::select! {
                biased;
                sent = &mut sent => sent,
                () = displaced => {
                    abandoned = Some(Abandoned { tag: framer.abandon_literal(&mut input) });
                    input = BytesMut::from(&input[..]);
                    sent.await
                }
            }
        };
        *connection.input_mut() = input;
        out.clear();
        sent.map(|()| abandoned)
    }

    /// Adds bytes to the response under way; large ones are sent without being copied.
    pub(crate) async fn put(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        if bytes.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(bytes);
            return self.relieve().await;
        }
        let within = self.write_within();
        if !self.out.is_empty() {
            self.connection.write_more_within(&self.out, within).await?;
            self.out.clear();
        }
        self.connection.write_more_within(bytes, within).await?;
        self.pace.worked((bytes.len() as u64).min(STEPS_MAX)).await;
        Ok(())
    }

    /// Frees the buffer before waiting for the client.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.out.is_empty());
        self.out = Vec::new();
    }

    /// Prints `* data`.
    pub(crate) fn say(&mut self, data: Untagged) {
        print::response(&mut self.out, &Response::Data(data), self.names);
    }

    /// Prints a status response.
    pub(crate) fn say_status(&mut self, status: Status) {
        print::response(&mut self.out, &Response::Status(status), self.names);
    }

    /// Prints `* OK [code] text`.
    pub(crate) fn say_code(&mut self, code: posthaste_imap_codec::response::Code, text: &str) {
        self.say_status(Status { tag: None, kind: StatusKind::Ok, code: Some(code), text: text.to_owned() });
    }

    /// Prints a line of these pieces, without line ends in them.
    pub(crate) fn say_line(&mut self, pieces: &[&str]) {
        let out = self.out();
        pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        out.extend_from_slice(b"\r\n");
    }

    /// Prints `* BYE [REFERRAL url] text`: RFC 2221 §3.
    pub(crate) fn say_referral(&mut self, url: String) {
        let (code, text) =
            (Some(Code::Referral(vec![url])), "Your mailboxes are on another server".to_owned());
        self.say_status(Status { tag: None, kind: StatusKind::Bye, code, text });
    }

    /// Prints `* BYE text`.
    pub(crate) fn say_bye(&mut self, text: &str) {
        self.say_status(Status { tag: None, kind: StatusKind::Bye, code: None, text: text.to_owned() });
    }

    /// Sends a continuation request: `+ text` (RFC 9051 §7.6).
    pub(crate) async fn ask(&mut self, text: &str) -> Result<(), NetError> {
        self.say_continue(text);
        self.flush().await
    }

    /// Prints a continuation request.
    pub(crate) fn say_continue(&mut self, text: &str) {
        print::response(&mut self.out, &Response::Continue(text.to_owned()), self.names);
    }

    /// Takes a line from the input if one is complete; see [`CommandFramer::next_line`].
    pub(crate) fn line(&mut self) -> Option<Line> {
        match self.framer.next_line(self.connection.input_mut())? {
            CommandFrame::Command(line) => Some(Line::Whole(line)),
            CommandFrame::LineTooLong { .. } | CommandFrame::LiteralWanted(_) => Some(Line::TooLong),
        }
    }
}

/// A command whose literal was dropped while it was arriving.
pub(crate) struct Abandoned {
    /// The command's tag, if it has one.
    pub(crate) tag: Option<Tag>,
}

/// Bytes of the input.
pub(crate) struct InputBytes {
    /// They arrived and are not consumed.
    pub(crate) held: usize,
    /// The accepted literal still needs this many.
    pub(crate) missing: usize,
}

/// An input line that is not a command.
pub(crate) enum Line {
    /// With its line end, if the framer leaves it there.
    Whole(Bytes),
    /// Over the limit; its rest is dropped.
    TooLong,
}
