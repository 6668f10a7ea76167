//! The accept loop: from a listening socket to one task for each connection, and an orderly end.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use posthaste_metrics::{Metered, Registry};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::endpoint::Accepted;
use crate::limits::Task;
use crate::refusals::Refusals;
use crate::{
    Certificates, Connection, ConnectionLimits, ConnectionPermit, HEADER_WITHIN, Listener, Mode, NetError,
    Peers, Refused, Shutdown, Trust, proxy,
};

/// Time for a TLS handshake: two round trips on the worst of lines. Twice as much only helps those
/// who hold connections to exhaust them.
pub const HANDSHAKE_WITHIN_DEFAULT: Duration = Duration::from_secs(30);

/// Time sessions get to finish the command in flight once the server stops. Service managers kill
/// after 90 s (systemd) or 10 s (container engines): stay below both.
pub const SHUTDOWN_GRACE_DEFAULT: Duration = Duration::from_secs(8);

/// First pause after the system refused us a file or memory; doubles up to [`BACK_OFF_MAX`].
const BACK_OFF_FIRST: Duration = Duration::from_millis(20);
/// Longest such pause: peers wait in the backlog meanwhile.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// Connections accepted before other tasks have a turn. Each becomes a task that waits for a
/// processor. Tokio alone lets a task accept 128, and older sessions wait for all of those.
const ACCEPTED_AT_ONCE: u32 = 4;

/// How many connections were accepted since other tasks had a turn.
#[derive(Debug, Default)]
struct Row(u32);

impl Row {
    /// Accepts the next one. After [`ACCEPTED_AT_ONCE`] in a row, others have a turn before it. If
    /// it has to be waited for, they have one anyway. A yield would only look at all sockets again.
    async fn next<T>(&mut self, accept: impl Future<Output = T>) -> T {
        if self.0 == ACCEPTED_AT_ONCE {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
        let mut accept = pin!(accept);
        poll_fn(|context| {
            let accepted = accept.as_mut().poll(context);
            self.0 = if accepted.is_ready() { self.0 + 1 } else { 0 };
            accepted
        })
        .await
    }
}

/// How a listener treats its connections.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Shared by all listeners.
    pub limits: ConnectionLimits,
    /// Needed by [`Mode::ImplicitTls`].
    pub certificates: Option<Certificates>,
    /// Ends the listener.
    pub shutdown: Shutdown,
    /// Deadline of the handshake of [`Mode::ImplicitTls`].
    pub handshake_within: Duration,
    /// How long sessions may continue after the shutdown was requested.
    pub grace: Duration,
    /// The answer to a peer over the limit in plain mode, in its protocol's words, such as
    /// `* BYE [UNAVAILABLE] Too many connections`; empty to close without a word.
    pub refusal: &'static [u8],
    /// Peers whose connections begin with a PROXY header, which has the address of the client.
    pub proxies: Peers,
    /// Peers that are not closed for a newcomer, and that have no limit by address.
    pub trusted: Peers,
    /// Deadline of that header.
    pub proxy_header_within: Duration,
    /// Where the cost of sessions is counted, and under which protocol's name.
    pub metrics: Option<(Arc<Registry>, &'static str)>,
}

impl ServeOptions {
    /// Defaults for all that has one.
    pub fn new(shutdown: Shutdown) -> Self {
        Self {
            limits: ConnectionLimits::default(),
            certificates: None,
            shutdown,
            handshake_within: HANDSHAKE_WITHIN_DEFAULT,
            grace: SHUTDOWN_GRACE_DEFAULT,
            refusal: b"",
            proxies: Peers::default(),
            trusted: Peers::default(),
            proxy_header_within: HEADER_WITHIN,
            metrics: None,
        }
    }
}

/// A session, run to its end. Boxed, so that its code is generated in the crate that makes it, and
/// not in each program. So a listener's tasks also have the size of a pointer, not of the largest
/// session.
pub type SessionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the session of one connection.
type Session = Box<dyn FnOnce(Connection) -> SessionFuture + Send>;
/// Makes a [`Session`] for each connection.
type NewSession = Box<dyn FnMut() -> Session + Send>;
/// A listener, run to its end.
type ListenerFuture = Pin<Box<dyn Future<Output = Result<Drained, NetError>> + Send>>;

/// A listener at work.
struct Serving {
    options: ServeOptions,
    refusals: Refusals,
}

impl Serving {
    fn trust(&self, peer: IpAddr) -> Trust {
        if self.options.trusted.has(peer) { Trust::Trusted } else { Trust::Stranger }
    }
}

/// How the sessions of a listener ended after the shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// By themselves, in time.
    pub finished: usize,
    /// Cut off.
    pub aborted: usize,
}

impl Listener {
    /// Accepts connections and runs `session` for each, until a shutdown is requested. Then stops
    /// listening and waits for the sessions, which watch their own [`Shutdown`] token. A session
    /// that panics ends alone.
    pub fn serve<S, F>(self, options: ServeOptions, session: S) -> ListenerFuture
    where
        S: Fn(Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let new_session: NewSession = Box::new(move || {
            let session = session.clone();
            Box::new(move |connection| Box::pin(session(connection)))
        });
        self.serve_each(options, new_session)
    }

    /// Does [`serve`](Self::serve) for sessions of any type, and has no type parameters itself. So
    /// the code of listeners and their tasks is generated in this crate, and once.
    fn serve_each(self, options: ServeOptions, new_session: NewSession) -> ListenerFuture {
        Box::pin(self.serve_to_end(options, new_session))
    }

    async fn serve_to_end(
        self,
        options: ServeOptions,
        mut new_session: NewSession,
    ) -> Result<Drained, NetError> {
        if self.mode == Mode::ImplicitTls && options.certificates.is_none() {
            return Err(NetError::NoCertificate(self.local_addr()));
        }
        let mut shutdown = options.shutdown.clone();
        let serving = Arc::new(Serving { options, refusals: Refusals::default() });
        let options = &serving.options;
        let mut sessions = JoinSet::new();
        let mut back_off = BACK_OFF_FIRST;
        let mut row = Row::default();
        let mut stop = pin!(shutdown.requested());
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(ended) = sessions.join_next() => report(ended),
                () = serving.refusals.minute_ended() => serving.refusals.report(),
                accepted = row.next(self.accept()) => match accepted {
                    Ok((socket, peer)) => {
                        back_off = BACK_OFF_FIRST;
                        if let Some((task, place)) = self.admit(socket, peer, &serving, &mut new_session) {
                            place.runs_as(match &options.metrics {
                                Some((registry, protocol)) => {
                                    sessions.spawn(Metered::new(Arc::clone(registry), protocol, task))
                                }
                                None => sessions.spawn(task),
                            });
                        }
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // EMFILE, ENFILE, ENOBUFS, ENOMEM: trying again at once would only burn the
                        // processor.
                        tracing::error!(listener = %self.address(), %error,
                            "cannot accept connections; raise the file limit or lower the connection limit");
                        tokio::time::sleep(back_off).await;
                        back_off = (back_off * 2).min(BACK_OFF_MAX);
                    }
                }
            }
        }
        drop(self);
        serving.refusals.report();
        Ok(drain(sessions, options.grace).await)
    }

    fn admit(
        &self,
        socket: Accepted,
        peer: SocketAddr,
        serving: &Arc<Serving>,
        new_session: &mut NewSession,
    ) -> Option<(impl Future<Output = ()> + Send + use<>, Arc<Task>)> {
        let options = &serving.options;
        // A peer on a Unix socket is on this machine, and no proxy.
        let proxied = matches!(socket, Accepted::Tcp(_)) && options.proxies.has(peer.ip());
        let limits = &options.limits;
        let admitted = match proxied {
            true => limits.admit_unnamed(peer.ip()),
            false => limits.admit(peer.ip(), serving.trust(peer.ip())),
        };
        let permit = match admitted {
            Ok(permit) => permit,
            Err(reason) => {
                refuse(|answer| socket.try_write(answer), peer, reason, self.mode, serving);
                return None;
            }
        };
        if let Some(network) = permit.closed_for_it()
            && serving.refusals.note(network)
        {
            tracing::warn!(
                %network,
                "the server is full of connections without a login: the oldest one of this network was closed"
            );
        }
        let place = permit.task();
        let (mode, serving, session) = (self.mode, Arc::clone(serving), new_session());
        let proxied = if proxied { Proxied::Yes } else { Proxied::No };
        let task = async move {
            match greet(socket, mode, &serving, (permit, proxied)).await {
                Ok(connection) => {
                    drop(serving);
                    session(connection).await;
                }
                Err(error @ NetError::NoProxyHeader(_)) => {
                    if serving.refusals.note(peer.ip()) {
                        tracing::warn!(%peer, %error, "connection refused");
                    }
                }
                Err(error) => tracing::debug!(%peer, %error, "connection lost before it began"),
            }
        };
        Some((task, place))
    }
}

/// Says no to a connection over a limit.
fn refuse(
    try_write: impl FnOnce(&[u8]) -> io::Result<usize>,
    peer: SocketAddr,
    reason: Refused,
    mode: Mode,
    serving: &Serving,
) {
    if serving.refusals.note(peer.ip()) {
        tracing::warn!(%peer, %reason, "connection refused");
    }
    if mode == Mode::Plain {
        // As far as it fits into the empty send buffer: a peer that is refused gets no wait.
        let _ = try_write(serving.options.refusal);
    }
}

/// Whether a connection begins with a PROXY header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proxied {
    Yes,
    No,
}

/// Brings a socket to where the session begins. The permit of a proxy's connection names nobody
/// until the header does.
async fn greet(
    mut socket: Accepted,
    mode: Mode,
    serving: &Serving,
    (mut permit, proxied): (ConnectionPermit, Proxied),
) -> Result<Connection, NetError> {
    let options = &serving.options;
    let mut ends = None;
    if let (Proxied::Yes, Accepted::Tcp(tcp)) = (proxied, &mut socket) {
        // Boxed: connections without a proxy need no room for it in their task.
        ends = Box::pin(ends_behind(tcp, &mut permit, mode, serving)).await?;
    }
    let mut stream = socket.into_stream()?;
    if let Some(ends) = ends {
        stream.set_ends(ends);
    }
    if let (Mode::ImplicitTls, Some(certificates)) = (mode, &options.certificates) {
        // A client that hangs in its handshake does not delay the end.
        let mut shutdown = options.shutdown.clone();
        tokio::select! {
            outcome = stream.accept_tls(certificates, options.handshake_within) => outcome?,
            () = shutdown.requested() => return Err(NetError::Closed),
        }
    }
    Ok(Connection::new(stream).with_permit(permit))
}

/// The client behind a proxy. The connection counts for it.
async fn ends_behind(
    tcp: &mut TcpStream,
    permit: &mut ConnectionPermit,
    mode: Mode,
    serving: &Serving,
) -> Result<Option<proxy::Endpoints>, NetError> {
    let options = &serving.options;
    let mut shutdown = options.shutdown.clone();
    let ends = tokio::select! {
        outcome = proxy::read(tcp, options.proxy_header_within) => outcome?,
        () = shutdown.requested() => return Err(NetError::Closed),
    };
    let peer = ends.map_or_else(|| tcp.peer_addr(), |ends| Ok(ends.peer))?;
    permit.name(peer.ip(), serving.trust(peer.ip())).inspect_err(|reason| {
        refuse(|answer| tcp.try_write(answer), peer, *reason, mode, serving);
    })?;
    Ok(ends)
}

/// Errors of `accept` that are the fault of the connection being accepted (accept(2), "Error
/// handling").
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | ConnectionRefused
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | HostUnreachable
            | TimedOut
            | PermissionDenied
    )
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a session panicked: this is a bug, please report it");
    }
}

async fn drain(mut sessions: JoinSet<()>, grace: Duration) -> Drained {
    let deadline = Instant::now() + grace;
    let mut drained = Drained::default();
    while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, sessions.join_next()).await {
        report(ended);
        drained.finished += 1;
    }
    drained.aborted = sessions.len();
    sessions.shutdown().await;
    drained
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::mem::take;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn others_have_a_turn_after_some_connections_in_a_row() {
        let (mut row, mut context) = (Row::default(), Context::from_waker(Waker::noop()));
        let mut waited = Vec::new();
        for n in 0..3 * ACCEPTED_AT_ONCE {
            let mut next = pin!(row.next(ready(())));
            if next.as_mut().poll(&mut context).is_pending() {
                waited.push(n);
                assert!(next.as_mut().poll(&mut context).is_ready());
            }
        }
        assert_eq!(waited, [ACCEPTED_AT_ONCE, 2 * ACCEPTED_AT_ONCE]);
    }

    #[test]
    fn a_wait_for_a_connection_is_a_turn_of_others() {
        let (mut row, mut context) = (Row::default(), Context::from_waker(Waker::noop()));
        for _ in 0..3 * ACCEPTED_AT_ONCE {
            let mut is_first = true;
            let comes = poll_fn(|_| if take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) });
            let mut next = pin!(row.next(comes));
            assert!(next.as_mut().poll(&mut context).is_pending());
            assert!(next.as_mut().poll(&mut context).is_ready());
        }
    }
}
