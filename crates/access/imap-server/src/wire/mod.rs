//! Both directions of a session: commands in, a bounded buffer of responses out.
//!
//! Only this file calls the [`Transport`]. It keeps the input that was read and not yet consumed,
//! splits it into commands and lines, and gathers responses. A session calls [fill](Wire::fill)
//! for input and [flush](Wire::flush) for output. The bytes below may be a socket or a test's
//! memory, and the clock may be a test's.
//!
//! Responses are printed straight into [`Wire::out`]. A caller that prints many responses calls
//! [`Wire::relieve`] now and then. It sends a full buffer and waits until the peer has taken it.
//! Invariants: the buffer never grows with the folder, and a waiting session owns no buffer.

mod say;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use posthaste_directory::Client;
use posthaste_directory::sasl::Channel;
use posthaste_imap_codec::framing::{
    CommandFrame, CommandFramer, FramerLimits, IncomingMessage, LiteralWanted,
};
use posthaste_imap_codec::limits::LINE_BYTES_MAX;
use posthaste_imap_codec::{NameEncoding, Tag};
use posthaste_net::{AccountShare, Certificates, Clock, LoginEnd, NetError};

use crate::freed::free;
use crate::heavy::Pace;
use crate::options::ImapOptions;
use crate::progress::Reports;
use crate::transport::{Peer, StreamChange, Then, Transport, Wait};

/// Bytes that the output buffer has at first: most answers fit. A buffer that grows from nothing is
/// moved six times before it has as many.
const OUT_FIRST_BYTES: usize = 1024;

/// Bytes gathered before they are sent. One TLS record is 16 KiB. With four of them, the system
/// call costs little compared with the printing. Twice as many gain nothing measurable.
pub(crate) const OUT_BYTES: usize = 64 * 1024;

/// Bodies of at least this size are sent without a copy.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a body or of a long response that are written at a time: a slice of the task has two of
/// them.
const PUT_BYTES: usize = 512 * 1024;
/// Steps of sending a byte. The kernel copies it, and over loopback also receives it.
const SENT_STEPS: u64 = 2;

/// A session's connection: its input and its output.
pub(crate) struct Wire {
    transport: Box<dyn Transport>,
    peer: Peer,
    /// The clock of every deadline of the session.
    clock: Clock,
    is_compressed: bool,
    /// The end of the login, while there is one.
    pub(crate) login_end: LoginEnd,
    /// The bytes that were read and not yet consumed.
    input: BytesMut,
    /// Splits the input into commands.
    framer: CommandFramer,
    /// The encoding of mailbox names.
    pub(crate) names: NameEncoding,
    out: Vec<u8>,
    write_within: Duration,
    /// The time by which the client must have logged in; `None` after that.
    login_due: Option<Instant>,
    pace: Pace,
    /// A report of progress could not be sent.
    is_broken: bool,
}

/// Steps of receiving a byte: it is copied twice, to memory that was not used before.
const RECEIVED_STEPS: u64 = 2;

/// The longest time that a client without a login may take to read the last words.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Input of later commands that is read while a command runs, to notice that the client has
/// disconnected: two lines. If more is pending, the state of the socket shows it.
const PIPELINED_MAX: usize = 2 * LINE_BYTES_MAX;

/// The time that a running command waits for input: the client need not send any.
const UNHURRIED: Duration = Duration::from_secs(24 * 60 * 60);

impl Wire {
    /// A wire before its greeting, with the time limits of these options.
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        peer: Peer,
        clock: Clock,
        options: &ImapOptions,
    ) -> Self {
        Self {
            login_due: Some(clock.now() + options.login_within),
            write_within: options.write_within,
            transport,
            peer,
            clock,
            is_compressed: false,
            login_end: LoginEnd::default(),
            input: BytesMut::new(),
            framer: CommandFramer::new(FramerLimits::default()),
            names: NameEncoding::Utf7,
            out: Vec::new(),
            pace: Pace::default(),
            is_broken: false,
        }
    }

    /// The client's end.
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// The session's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether TLS is active.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.peer.is_encrypted
    }

    /// Whether COMPRESS is active.
    pub(crate) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Whether bytes wait after the command that was taken.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Bytes that were received and are in no command yet.
    pub(crate) fn input_len(&self) -> usize {
        self.input.len()
    }

    /// The properties of the connection for SASL; see [`Transport::channel`].
    pub(crate) fn channel(&self, client: Client) -> Channel {
        self.transport.channel(client)
    }

    /// Counts a command. Whether it has to wait until it is [allowed](Self::command_allowed).
    pub(crate) fn count_command(&mut self) -> bool {
        self.transport.count_command()
    }

    /// Waits until the account may give its next command, or the client has left.
    pub(crate) async fn command_allowed(&mut self) -> Result<(), NetError> {
        self.transport.read(&mut self.input, Wait::CommandAllowed).await.map(drop)
    }

    /// Takes a command from the input if one is complete; see [`CommandFramer::next_frame`].
    pub(crate) fn next_frame(&mut self) -> Option<CommandFrame> {
        self.framer.next_frame(&mut self.input)
    }

    /// The announced literal belongs to the command. If the client waits for a go-ahead, the caller
    /// sends it.
    pub(crate) fn accept_literal(&mut self, wanted: &LiteralWanted) {
        self.framer.accept_literal(wanted);
    }

    /// The message whose literal was announced; see [`CommandFramer::message`].
    pub(crate) fn message(&mut self, wanted: &LiteralWanted) -> Option<IncomingMessage> {
        self.framer.message(wanted, &self.input)
    }

    /// Drops the command with this literal. The caller sends the tagged response.
    pub(crate) fn refuse_literal(&mut self, wanted: &LiteralWanted) {
        self.framer.refuse_literal(wanted, &mut self.input);
    }

    /// Drops the command whose literal is arriving, and returns its tag.
    pub(crate) fn drop_literal(&mut self) -> Option<Tag> {
        self.framer.drop_literal(&mut self.input)
    }

    /// Moves the input to memory of its own. Until then it shares the memory of what was split off
    /// before, which may have been large. Returns the input in that memory.
    pub(crate) fn own_input(&mut self) -> BytesMut {
        own(&mut self.input)
    }

    /// The client has logged in, or it has to do so again within this time.
    pub(crate) fn set_login_within(&mut self, within: Option<Duration>) {
        let now = self.clock.now();
        self.login_due = within.map(|within| now + within);
    }

    /// The time that the client still has to log in; `None` if it has logged in.
    pub(crate) fn login_left(&self) -> Option<Duration> {
        let due = self.login_due?;
        Some(due.saturating_duration_since(self.clock.now()))
    }

    /// The timeout of a write. Before the login, it ends with the login's deadline at the latest.
    fn write_within(&self) -> Duration {
        self.login_left().map_or(self.write_within, |left| left.min(self.write_within))
    }

    /// The number of bytes of input that are held, and of those that the accepted literal still
    /// needs.
    pub(crate) fn input_bytes(&mut self) -> InputBytes {
        InputBytes { held: self.input.len(), missing: self.framer.missing(&self.input) }
    }

    /// Whether a command has begun to arrive.
    pub(crate) fn mid_command(&mut self) -> bool {
        self.framer.mid_command(&self.input)
    }

    /// Waits until bytes arrive, and reads them. The input then holds at most `input_max` bytes.
    /// Bytes that it holds already are the start of a command. Returns the number of new bytes.
    pub(crate) async fn fill(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        if self.input.is_empty() {
            let wait = Wait::Input { most: self.most(input_max)?, within };
            return self.transport.read(&mut self.input, wait).await;
        }
        self.fill_rest(input_max, within).await
    }

    /// Reads the rest of a command whose beginning may have left the input.
    pub(crate) async fn fill_rest(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        let wait = Wait::Rest { most: self.most(input_max)?, within };
        self.transport.read(&mut self.input, wait).await
    }

    /// Counts received bytes as work, so that other sessions get their turn.
    pub(crate) async fn note_arrived(&mut self, bytes: usize) {
        self.pace.worked(bytes as u64 * RECEIVED_STEPS).await;
    }

    /// The number of bytes that may be read until the input holds `input_max`.
    fn most(&self, input_max: usize) -> Result<usize, NetError> {
        let most = input_max.saturating_sub(self.input.len());
        if most > 0 { Ok(most) } else { Err(NetError::InputFull { max: input_max }) }
    }

    /// The connection counts for this account from now on. Its responses end with the login.
    pub(crate) fn belongs_to(&mut self, share: AccountShare, login_end: LoginEnd) {
        self.login_end = login_end.clone();
        self.transport.belongs_to(Some((share, login_end)));
    }

    /// The connection counts for nobody until the next login.
    pub(crate) fn belongs_to_nobody(&mut self) {
        self.login_end = LoginEnd::default();
        self.transport.belongs_to(None);
    }

    /// Adds TLS, after the tagged OK was sent. Refuses if the client sent anything after the
    /// command: an attacker might have inserted it into the clear text (CVE-2011-0411,
    /// RFC 9051 §6.2.1).
    pub(crate) async fn start_tls(
        &mut self,
        certificates: &Certificates,
        within: Duration,
    ) -> Result<(), NetError> {
        self.nothing_pipelined()?;
        self.transport.change(StreamChange::Tls(certificates), &mut self.input, within).await?;
        self.peer.is_encrypted = true;
        Ok(())
    }

    /// Adds compression, after the tagged OK was sent. Refuses if the client did not wait for it
    /// (RFC 4978 §3).
    pub(crate) async fn start_deflate(&mut self) -> Result<(), NetError> {
        self.nothing_pipelined()?;
        let within = self.write_within();
        self.transport.change(StreamChange::Deflate, &mut self.input, within).await?;
        self.is_compressed = true;
        Ok(())
    }

    fn nothing_pipelined(&self) -> Result<(), NetError> {
        match self.input.len() {
            0 => Ok(()),
            count => Err(NetError::PipelinedUpgrade(count)),
        }
    }

    /// Ends compression, after the tagged OK was printed; see [`Connection::end_deflate`].
    pub(crate) async fn end_deflate(&mut self) -> Result<(), NetError> {
        self.flush().await?;
        let within = self.write_within();
        self.transport.change(StreamChange::StopDeflate, &mut self.input, within).await?;
        self.is_compressed = false;
        Ok(())
    }

    /// Closes the connection. It waits at most as long as for any other write.
    pub(crate) async fn close(mut self) -> Result<(), NetError> {
        self.input = BytesMut::new();
        let most = if self.login_due.is_some() { CLOSE_WITHIN } else { Duration::MAX };
        self.transport.close(self.write_within.min(most)).await
    }

    /// The output buffer, to which responses are printed.
    #[inline]
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out.reserve(OUT_FIRST_BYTES);
        }
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
        let sent = self.send_pieces().await;
        // The earlier pieces are counted.
        let steps = self.out.len().min(PUT_BYTES) as u64 * SENT_STEPS;
        self.out.clear();
        // A single response may have been larger than the usual buffer.
        self.out.shrink_to(2 * OUT_BYTES);
        self.pace.worked(steps).await;
        sent
    }

    /// Sends the printed output, of which more follows. A response may have megabytes: it is sent a
    /// piece at a time.
    async fn send_pieces(&mut self) -> Result<(), NetError> {
        let within = self.write_within();
        for (at, piece) in self.out.chunks(PUT_BYTES).enumerate() {
            if at > 0 {
                self.pace.worked(PUT_BYTES as u64 * SENT_STEPS).await;
            }
            self.transport.write(piece, Then::More, within).await?;
        }
        Ok(())
    }

    /// Does work during which nothing is printed, while the client is connected. If the client
    /// disconnects or its login ends, the command is cancelled. A client that has closed its
    /// sending side counts as disconnected, although it might still read.
    pub(crate) async fn while_there<T>(&mut self, work: impl Future<Output = T>) -> Result<T, NetError> {
        self.wait_for(work, None).await
    }

    /// Does work as `while_there` does, and reports its progress if it takes long (RFC 9585).
    pub(crate) async fn while_reporting<T>(
        &mut self,
        reports: Reports<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, NetError> {
        let mut work = std::pin::pin!(work);
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            return Ok(done);
        }
        // Boxed: most work has ended, so its caller need not hold what waiting takes.
        Box::pin(self.wait_for(polled(work), Some(reports))).await
    }

    /// Does work of a command that has printed no part of a response, and reports that it is
    /// continuing if it takes long (RFC 9585). The work is not cancelled when the connection
    /// breaks: after it, the caller does the rest of the change.
    pub(crate) async fn reporting<T>(&mut self, reports: Reports<'_>, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        // Work that ends at once needs neither the time nor a timer.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            return done;
        }
        let mut work = std::pin::pin!(polled(work));
        let clock = self.clock.clone();
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
            let (done, sent) = self.report_beside(reports, work.as_mut()).await;
            self.is_broken = sent.is_err();
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Does work as `reporting` does, if there are reports.
    pub(crate) async fn reporting_if<T>(
        &mut self,
        reports: Option<Reports<'_>>,
        work: impl Future<Output = T>,
    ) -> T {
        match reports {
            Some(reports) => self.reporting(reports, work).await,
            None => work.await,
        }
    }

    /// Sends a report while the work goes on. The client may take minutes to read it, and the work
    /// may have permits that others wait for. Returns the result of the work if it ended, and
    /// whether the report was sent.
    pub(crate) async fn report_beside<T>(
        &mut self,
        reports: Reports<'_>,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> (Option<T>, Result<(), NetError>) {
        self.say_code(reports.now(), "Working");
        let mut sending = std::pin::pin!(self.flush());
        tokio::select! {
            biased;
            done = &mut work => (Some(done), sending.await),
            sent = &mut sending => (None, sent),
        }
    }

    /// Sends nothing more: a report could not be sent.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Does work as `while_there` does. With reports, it reports its progress if it takes long.
    pub(crate) async fn wait_for<T>(
        &mut self,
        work: impl Future<Output = T>,
        reports: Option<Reports<'_>>,
    ) -> Result<T, NetError> {
        let mut work = std::pin::pin!(work);
        let clock = self.clock.clone();
        let mut login_end = self.login_end.clone();
        let mut due = reports.map(|reports| clock.now() + reports.times.first);
        loop {
            let left = due.map(|due| due.saturating_duration_since(clock.now()));
            let heard = async {
                if self.input.len() >= PIPELINED_MAX {
                    return self.transport.read(&mut self.input, Wait::Leave).await.map(drop);
                }
                match self.fill(PIPELINED_MAX, UNHURRIED).await {
                    Ok(_) | Err(NetError::TimedOut(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                heard = heard => heard?,
                () = login_end.reached() => return Err(NetError::LoginEnded),
                () = clock.sleep(left.unwrap_or_default()), if left.is_some() => {
                    let Some(reports) = reports else { continue };
                    // Boxed: few commands take so long.
                    let (done, sent) = Box::pin(self.report_beside(reports, work.as_mut())).await;
                    sent?;
                    if let Some(done) = done {
                        return Ok(done);
                    }
                    due = Some(clock.now() + reports.times.every);
                }
            }
            // The work may have paused for others. Input that is there does not end its pause:
            // a client that always has more would do away with all pauses.
            tokio::task::yield_now().await;
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
        let sent = self.transport.write(&self.out, Then::Flush, within).await;
        self.out.clear();
        sent
    }

    /// Sends all printed output, which the client may take minutes to read. Once `displaced`
    /// returns, the command whose literal is arriving is dropped at once. A caller that drops the
    /// waiting future must close the connection.
    pub(crate) async fn flush_beside(
        &mut self,
        displaced: impl Future<Output = ()>,
    ) -> Result<Option<DroppedLiteral>, NetError> {
        if self.out.is_empty() {
            return Ok(None);
        }
        let within = self.write_within();
        let Self { transport, framer, input, out, .. } = self;
        let mut dropped = None;
        let sent = {
            let mut writing = transport.write(out, Then::Flush, within);
            tokio::select! {
                biased;
                sent = &mut writing => sent,
                () = displaced => {
                    let bytes = input.capacity();
                    dropped = Some(DroppedLiteral { tag: framer.drop_literal(input) });
                    free(own(input), bytes);
                    writing.await
                }
            }
        };
        out.clear();
        sent.map(|()| dropped)
    }

    /// Adds bytes to the response under way. Large ones are sent without being copied, a piece at a
    /// time: a client that reads as fast as they are sent would never make the task wait.
    pub(crate) async fn put(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        if bytes.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(bytes);
            return self.relieve().await;
        }
        if !self.out.is_empty() {
            self.send_pieces().await?;
            self.out.clear();
        }
        let within = self.write_within();
        for piece in bytes.chunks(PUT_BYTES) {
            self.transport.write(piece, Then::More, within).await?;
            self.pace.worked(piece.len() as u64 * SENT_STEPS).await;
        }
        Ok(())
    }

    /// Frees the buffer before waiting for the client.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.out.is_empty());
        self.out = Vec::new();
    }

    /// Takes a line from the input if one is complete; see [`CommandFramer::next_line`].
    pub(crate) fn line(&mut self) -> Option<Line> {
        match self.framer.next_line(&mut self.input)? {
            CommandFrame::Command(line) => Some(Line::Whole(line)),
            CommandFrame::LineTooLong { .. } | CommandFrame::LiteralWanted(_) => Some(Line::TooLong),
        }
    }
}

/// Work that was polled a moment ago and is not done: this task is woken for it. Its next poll
/// would compute again without a pause, so the first one here does nothing.
fn polled<F: Future>(mut work: Pin<&mut F>) -> impl Future<Output = F::Output> {
    let mut was_polled = true;
    poll_fn(move |cx| match std::mem::take(&mut was_polled) {
        true => Poll::Pending,
        false => work.as_mut().poll(cx),
    })
}

/// Moves the input to new memory, and returns its old memory.
fn own(input: &mut BytesMut) -> BytesMut {
    let copy = BytesMut::from(&input[..]);
    std::mem::replace(input, copy)
}

/// A command whose literal was dropped while it was arriving.
pub(crate) struct DroppedLiteral {
    /// The command's tag, if it has one.
    pub(crate) tag: Option<Tag>,
}

/// Bytes of the input.
pub(crate) struct InputBytes {
    /// The number of bytes that arrived and are not consumed.
    pub(crate) held: usize,
    /// The accepted literal still needs this many.
    pub(crate) missing: usize,
}

/// An input line that is not a command.
pub(crate) enum Line {
    /// A whole line, with its line end if the framer leaves it there.
    Whole(Bytes),
    /// Over the limit; its rest is dropped.
    TooLong,
}
