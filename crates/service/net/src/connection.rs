//! The connection of a session: a stream, the bytes that were read and not yet parsed, and
//! deadlines.
//!
//! Reads go through one scratch buffer per thread and are copied to the connection's own buffer. A
//! read that has to wait frees that buffer if it is empty. So ten thousand idle sessions own no
//! read buffer, and the copy costs less than the system call before it. Every method may be dropped
//! while it waits (`select!`) without loss, except where it says otherwise.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use posthaste_metrics::Counter;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::clock::timely;
use crate::read_timer::ReadTimer;
use crate::socket::Awaits;
use crate::{
    AccountLimit, AccountShare, Certificates, ChannelBinding, ClientCertificate, Clock, ConnectionPermit,
    LoginEnd, NetError, Stream, TlsFacts, Traffic,
};

/// Bytes one read can bring: four TLS records. Once per thread, so its size matters to nobody's
/// budget.
const SCRATCH: usize = 64 * 1024;

/// A compressed session silent for this long gives its compressor back ([`Connection::rest`]): a
/// person who reads pauses as long, a program that synchronises does not.
const REST_AFTER: Duration = Duration::from_secs(10);

thread_local! {
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
}

/// A peer's connection, as a session sees it.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    input: BytesMut,
    id: u64,
    /// The share of the account that logged in.
    share: Option<AccountShare>,
    login_end: LoginEnd,
    clock: Clock,
    read_timer: ReadTimer,
    /// Its place among all connections.
    permit: Option<ConnectionPermit>,
}

impl Connection {
    /// Wraps a stream. Timeouts go by the system's clock.
    pub fn new(stream: Stream) -> Self {
        Self::with_clock(stream, Clock::system())
    }

    /// Wraps a stream. Timeouts for reads and writes go by this clock.
    pub fn with_clock(stream: Stream, clock: Clock) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Self {
            stream,
            input: BytesMut::new(),
            id,
            share: None,
            login_end: LoginEnd::default(),
            clock,
            read_timer: ReadTimer::default(),
            permit: None,
        }
    }

    /// With its place among all connections, which it gives back at its end.
    pub(crate) fn with_permit(self, permit: ConnectionPermit) -> Self {
        Self { permit: Some(permit), ..self }
    }

    /// The stream itself, to read and write without deadlines.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Its number, which no other connection of this process has: for logs.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The clock of its timeouts.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Counts what is read and written for an account from now on. Over its limit, reads and writes
    /// take longer. The connection is not closed for a newcomer any more.
    pub fn belongs_to(&mut self, share: AccountShare) {
        posthaste_metrics::account(share.name());
        self.share = Some(share);
        if let Some(permit) = &mut self.permit {
            permit.log_in();
        }
    }

    /// Counts for nobody until the next login. The account may have another connection from here
    /// on.
    pub fn belongs_to_nobody(&mut self) {
        self.share = None;
        self.login_end = LoginEnd::default();
        if let Some(permit) = &mut self.permit {
            permit.log_out();
        }
    }

    /// Work begins whose outcome the peer has to learn, such as a delivery. Until
    /// [it ends](Self::work_ends), the connection is not closed for a newcomer. An error if it was
    /// closed already.
    pub fn work_begins(&mut self) -> Result<(), NetError> {
        let may_begin = self.permit.as_mut().is_none_or(|permit| permit.work_begins());
        if may_begin { Ok(()) } else { Err(NetError::Closed) }
    }

    /// The work is done, and the peer was sent its outcome.
    pub fn work_ends(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.work_ends();
        }
    }

    /// Answers end with this login, also those under way:
    /// [`write_more_within`](Self::write_more_within), and
    /// [`write_all_within`](Self::write_all_within) while the peer does not read.
    pub fn ends_with(&mut self, login_end: LoginEnd) {
        self.login_end = login_end;
    }

    /// When the login ends.
    pub fn login_end(&self) -> LoginEnd {
        self.login_end.clone()
    }

    /// The share of the account that logged in.
    pub fn share(&self) -> Option<&AccountShare> {
        self.share.as_ref()
    }

    /// Counts a command. Whether its account is over its limit of commands, so that the command
    /// should wait: [`AccountShare::wait`].
    pub fn count_command(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.count_command(self.peer().ip()))
    }

    /// The peer's address: behind a proxy the one that its header names.
    pub fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// The address the peer connected to.
    pub fn local(&self) -> SocketAddr {
        self.stream.local()
    }

    /// The counts so far.
    pub fn traffic(&self) -> Traffic {
        self.stream.traffic()
    }

    /// The outcome of the TLS handshake; none in the clear.
    pub fn tls(&self) -> Option<TlsFacts> {
        self.stream.tls()
    }

    /// Whether bytes are safe from listeners.
    pub fn is_encrypted(&self) -> bool {
        self.stream.tls().is_some()
    }

    /// Whether COMPRESS is active.
    pub fn is_compressed(&self) -> bool {
        self.stream.is_compressed()
    }

    /// See [`Stream::channel_binding`].
    pub fn channel_binding(&self, kind: ChannelBinding) -> Option<Vec<u8>> {
        self.stream.channel_binding(kind)
    }

    /// See [`Stream::client_certificate`].
    pub fn client_certificate(&self) -> Option<ClientCertificate> {
        self.stream.client_certificate()
    }

    /// The bytes that were read and not yet consumed.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// The bytes that were read and not yet consumed, to split frames off the front.
    pub fn input_mut(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Forgets the first `count` bytes of the input, or all if there are fewer.
    pub fn consume(&mut self, count: usize) {
        self.input.advance(count.min(self.input.len()));
    }

    /// Waits for bytes and appends them to the input, which may then hold up to `input_max`;
    /// returns how many came. The end of the stream is [`NetError::Closed`].
    ///
    /// An input that is not empty is the beginning of something. Before the connection waits for
    /// the rest, it has the kernel acknowledge the received bytes.
    pub async fn fill(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        let awaits = if self.input.is_empty() { Awaits::Anything } else { Awaits::Rest };
        self.fill_awaiting(awaits, input_max, within).await
    }

    /// Like [`fill`](Self::fill), for the rest of something whose beginning the caller has taken
    /// out of the input: a literal, a chunk, DATA. A peer may send that rest only once we have
    /// acknowledged the beginning.
    pub async fn fill_rest(&mut self, input_max: usize, within: Duration) -> Result<usize, NetError> {
        self.fill_awaiting(Awaits::Rest, input_max, within).await
    }

    async fn fill_awaiting(
        &mut self,
        awaits: Awaits,
        input_max: usize,
        within: Duration,
    ) -> Result<usize, NetError> {
        if self.input.len() >= input_max {
            return Err(NetError::InputFull { max: input_max });
        }
        self.stream.set_awaits(awaits);
        let Self { stream, clock, read_timer, input, .. } = self;
        let limits = ReadLimits { most: input_max - input.len(), within };
        let came = match fill_timely(stream, (clock, read_timer), input, limits).await {
            Ok(came) => came,
            Err(error) => return Err(Box::pin(self.ended(error)).await),
        };
        // Bytes that were read stay in the input if the wait is dropped.
        self.count_bytes(AccountLimit::Received, came).await;
        Ok(came)
    }

    /// Like [`fill`](Self::fill), for a caller that keeps the input itself: waits for at most
    /// `most` bytes and appends them to `input`. The connection's own input stays empty.
    pub async fn fill_into(
        &mut self,
        input: &mut BytesMut,
        most: usize,
        within: Duration,
    ) -> Result<usize, NetError> {
        self.fill_into_awaiting(Awaits::Anything, input, ReadLimits { most, within }).await
    }

    /// Like [`fill_rest`](Self::fill_rest), for a caller that keeps the input itself.
    pub async fn fill_rest_into(
        &mut self,
        input: &mut BytesMut,
        most: usize,
        within: Duration,
    ) -> Result<usize, NetError> {
        self.fill_into_awaiting(Awaits::Rest, input, ReadLimits { most, within }).await
    }

    async fn fill_into_awaiting(
        &mut self,
        awaits: Awaits,
        input: &mut BytesMut,
        limits: ReadLimits,
    ) -> Result<usize, NetError> {
        debug_assert!(self.input.is_empty(), "the input is kept in two places");
        self.stream.set_awaits(awaits);
        let Self { stream, clock, read_timer, .. } = self;
        let came = match fill_timely(stream, (clock, read_timer), input, limits).await {
            Ok(came) => came,
            Err(error) => return Err(Box::pin(self.ended(error)).await),
        };
        self.count_bytes(AccountLimit::Received, came).await;
        Ok(came)
    }

    /// The error that ends a connection. One without a login waits for its turn: sessions of others
    /// do not wait while thousands end.
    async fn ended(&self, error: NetError) -> NetError {
        if let (None, Some(permit)) = (&self.share, &self.permit) {
            permit.turn_to_end().await;
        }
        error
    }

    /// Counts bytes for the account, and waits while it is over its limit.
    async fn count_bytes(&self, limit: AccountLimit, bytes: usize) {
        if let Some(share) = self.is_over(limit, bytes) {
            // Boxed: hardly any wait needs it.
            Box::pin(share.wait(limit)).await;
        }
    }

    /// Counts bytes for the account. Its share, if it is over its limit now.
    fn is_over(&self, limit: AccountLimit, bytes: usize) -> Option<&AccountShare> {
        let counter = if limit == AccountLimit::Received { Counter::Received } else { Counter::Sent };
        posthaste_metrics::count(counter, bytes as u64);
        self.share.as_ref().filter(|share| share.count_bytes(limit, bytes, self.peer().ip()))
    }

    /// Returns once the peer has closed its side. Reads nothing: what the peer sent before may
    /// still wait. If a peer sent more than the kernel holds for us, its end comes after those
    /// bytes. Then only a broken connection shows that it has left.
    pub async fn peer_left(&self) {
        self.stream.left().await;
    }

    /// Writes all and flushes. A peer that does not take it in time is [`NetError::TimedOut`]; then
    /// it is unknown how much it got, so close. Not to be dropped while waiting, unless the
    /// connection is closed then. Waits while the account is over its limit, or until the login
    /// ends.
    ///
    /// Once the login [has ended](Self::ends_with), a peer that does not take all at once is not
    /// waited for. So the peer can still learn why its session ends.
    pub async fn write_all_within(&mut self, bytes: &[u8], within: Duration) -> Result<(), NetError> {
        let Self { stream, clock, login_end, .. } = self;
        {
            let sent = std::pin::pin!(timely(clock, within, async {
                stream.write_all(bytes).await?;
                stream.flush().await
            }));
            sent_unless_ended(sent, login_end).await?;
        }
        if let Some(share) = self.is_over(AccountLimit::Sent, bytes.len()) {
            // All was written: the session notices by itself that its login has ended.
            let _ = Box::pin(self.slowed_down(share, AccountLimit::Sent)).await;
        }
        Ok(())
    }

    /// Writes all; more will follow, so nothing is flushed. The rest as
    /// [`write_all_within`](Self::write_all_within).
    ///
    /// Fails if the login [has ended](Self::ends_with), or ends while the peer does not read or its
    /// account is over its limit. The answer is incomplete then, so only closing is left.
    pub async fn write_more_within(&mut self, bytes: &[u8], within: Duration) -> Result<(), NetError> {
        if self.login_end.is_reached() {
            return Err(NetError::LoginEnded);
        }
        {
            let sent = std::pin::pin!(timely(&self.clock, within, self.stream.write_all(bytes)));
            sent_unless_ended(sent, &mut self.login_end).await?;
        }
        match self.is_over(AccountLimit::Sent, bytes.len()) {
            None => Ok(()),
            Some(share) => Box::pin(self.slowed_down(share, AccountLimit::Sent)).await,
        }
    }

    /// Waits while an account is over its limit, or until the login ends.
    async fn slowed_down(&self, share: &AccountShare, limit: AccountLimit) -> Result<(), NetError> {
        let mut login_end = self.login_end.clone();
        tokio::select! {
            biased;
            () = share.wait(limit) => Ok(()),
            () = login_end.reached() => Err(NetError::LoginEnded),
        }
    }

    /// STARTTLS: does the handshake, after the answer that invites to it was written.
    ///
    /// Refuses if the peer sent anything after the command. An attacker might insert bytes into the
    /// clear text. They would count as part of the encrypted session (CVE-2011-0411; RFC 3207 §4.2,
    /// RFC 9051 §6.2.1). Check [`has_input`](Self::has_input) before answering OK; after an error
    /// here, close.
    pub async fn start_tls(&mut self, certificates: &Certificates, within: Duration) -> Result<(), NetError> {
        self.nothing_pipelined()?;
        self.stream.accept_tls(certificates, within).await
    }

    /// COMPRESS: all that follows is compressed, after the answer that says so was written.
    /// Refuses, like [`start_tls`](Self::start_tls), if the peer did not wait for that answer
    /// (RFC 4978 §3).
    pub fn start_deflate(&mut self) -> Result<(), NetError> {
        self.nothing_pipelined()?;
        self.stream.start_deflate()
    }

    /// Ends compression both ways, after the answer that says so was written: RFC 8437 §4.1. The
    /// bytes that the peer sent since are input.
    pub async fn end_deflate(&mut self, within: Duration) -> Result<(), NetError> {
        let rest = timely(&self.clock, within, self.stream.end_deflate()).await?;
        self.input.extend_from_slice(&rest);
        Ok(())
    }

    /// Whether bytes wait that were sent after what has been consumed.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    fn nothing_pipelined(&mut self) -> Result<(), NetError> {
        match self.input.len() {
            0 => Ok(()),
            count => Err(NetError::PipelinedUpgrade(count)),
        }
    }

    /// See [`Stream::rest`].
    pub fn rest(&mut self) {
        self.stream.rest();
    }

    /// Sends the rest, ends TLS, and closes our side. Then it reads what the peer still sends, for
    /// a short time and a few octets. Closing with unread input would make the kernel reset the
    /// connection, and the peer could lose our last answer.
    pub async fn close(mut self, within: Duration) -> Result<(), NetError> {
        // The account may have another connection from here on.
        self.share = None;
        timely(&self.clock, within, self.stream.shutdown()).await?;
        self.input = BytesMut::new();
        self.stream.set_awaits(Awaits::Anything);
        let linger = async {
            for _ in 0..LINGER_READS {
                let read = poll_fn(|cx| {
                    let count = ready!(poll_fill(&mut self.stream, &mut self.input, SCRATCH, cx))?;
                    self.input.clear();
                    Poll::Ready(io::Result::Ok(count))
                });
                if !matches!(read.await, Ok(1..)) {
                    break;
                }
            }
        };
        // A peer that keeps its side open is not waited for any longer.
        let _ = tokio::time::timeout(within.min(LINGER), linger).await;
        Ok(())
    }
}

/// How long a closed connection is still read from: a round trip around the world, and some.
const LINGER: Duration = Duration::from_secs(1);
/// And how many reads: with [`SCRATCH`], one mebibyte.
const LINGER_READS: usize = 16;

/// How many bytes a read may bring, and how long it may wait for them.
#[derive(Clone, Copy)]
struct ReadLimits {
    most: usize,
    within: Duration,
}

async fn fill_timely(
    stream: &mut Stream,
    (clock, timer): (&Clock, &mut ReadTimer),
    input: &mut BytesMut,
    ReadLimits { most, within }: ReadLimits,
) -> Result<usize, NetError> {
    let mut left = within;
    if stream.is_compressed() && within > REST_AFTER {
        match timer.limit(clock, REST_AFTER, poll_fn(|cx| poll_fill(stream, input, most, cx))).await {
            Err(NetError::TimedOut(_)) => {
                stream.rest();
                left -= REST_AFTER;
            }
            Ok(0) => return Err(NetError::Closed),
            outcome => return outcome,
        }
    }
    match timer.limit(clock, left, poll_fn(|cx| poll_fill(stream, input, most, cx))).await {
        Ok(0) => Err(NetError::Closed),
        Err(NetError::TimedOut(_)) => Err(NetError::TimedOut(within)),
        outcome => outcome,
    }
}

fn poll_fill(
    stream: &mut Stream,
    input: &mut BytesMut,
    most: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    SCRATCH_BUFFER.with_borrow_mut(|scratch| {
        let room = scratch.len().min(most);
        let mut buf = ReadBuf::new(&mut scratch[..room]);
        match Pin::new(stream).poll_read(cx, &mut buf) {
            Poll::Pending => {
                if input.is_empty() {
                    *input = BytesMut::new();
                }
                Poll::Pending
            }
            Poll::Ready(outcome) => {
                outcome?;
                input.extend_from_slice(buf.filled());
                Poll::Ready(Ok(buf.filled().len()))
            }
        }
    })
}

/// Sends, and waits for the peer to read only while the login is valid.
async fn sent_unless_ended(
    mut sent: Pin<&mut impl Future<Output = Result<(), NetError>>>,
    login_end: &mut LoginEnd,
) -> Result<(), NetError> {
    match poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await {
        Poll::Ready(outcome) => outcome,
        // Boxed: most pieces are taken at once.
        Poll::Pending => Box::pin(sent_or_ended(sent, login_end)).await,
    }
}

/// Goes on sending until it is done or the login ends.
async fn sent_or_ended(
    sent: impl Future<Output = Result<(), NetError>>,
    login_end: &mut LoginEnd,
) -> Result<(), NetError> {
    tokio::select! {
        biased;
        sent = sent => sent,
        () = login_end.reached() => Err(NetError::LoginEnded),
    }
}
