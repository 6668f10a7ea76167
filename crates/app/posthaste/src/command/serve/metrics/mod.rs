//! The metrics of a running server: over HTTP at `listen.metrics`, and on a Unix socket in the data
//! directory, which `posthaste report cost` reads.
//!
//! `GET /metrics` answers with OpenMetrics text, which Prometheus reads, and `GET /cost` with the
//! same sums as JSON. `GET /accounts` has the commands of each account in its folders. There is no
//! login. Everybody who reaches an address can read the names of accounts. The socket is open only
//! to the server's own user, like the data directory.
//!
//! With ten thousand accounts, a page takes longer than a poll may, and megabytes. So another
//! thread makes it, one page at a time.

mod queue;
mod text;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use posthaste_indexing::SearchIndex;
use posthaste_metrics::{Metered, Registry};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use super::current_runner::CurrentRunner;
use crate::failure::{Failure, Result};

/// The socket's name in the data directory.
pub const SOCKET: &str = "metrics.sock";

/// Connections at once on one listener: a monitor needs one. A further one replaces the oldest. An
/// answer takes milliseconds, so the oldest is of a peer that does not send or read.
const CONNECTIONS_MAX: usize = 16;
/// Time for a request and for its answer.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Between two attempts to accept when the system has no files left.
const PAUSE: Duration = Duration::from_millis(200);

/// The size of the search index is counted again after this time. A count reads a record for each
/// mailbox, and a monitor sends several requests a minute.
const INDEX_COUNTED_FOR: Duration = Duration::from_secs(10 * 60);

/// The parts of the server that have the figures.
pub struct Sources {
    /// The costs of sessions and tasks.
    pub registry: Arc<Registry>,
    /// The time since which the costs are counted.
    pub started: Instant,
    /// The search index.
    pub index: SearchIndex,
    /// The runner that sends the queue's mail.
    pub runner: CurrentRunner,
}

/// The pages of these sources.
struct Pages {
    sources: Sources,
    /// Held while a page is made.
    turn: Arc<Mutex<()>>,
}

/// Binds the addresses. Root may bind ports that it may no longer bind as another user.
pub async fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    let mut bound = Vec::new();
    for address in addresses {
        let failed = |error| Failure::Usage(format!("`listen.metrics`: cannot listen at {address}: {error}"));
        bound.push(TcpListener::bind(address).await.map_err(failed)?);
    }
    Ok(bound)
}

/// Answers until it is dropped.
pub struct Metrics {
    /// Ends the listeners when it is dropped.
    _listeners: JoinSet<()>,
    addresses: Vec<SocketAddr>,
    socket: Option<PathBuf>,
}

impl Metrics {
    /// Serves these listeners, and the socket in `data`. Without the socket, which is logged, the
    /// server runs on.
    pub fn start(sources: Sources, bound: Vec<TcpListener>, data: &Path) -> Result<Self> {
        let pages = Arc::new(Pages { sources, turn: Arc::default() });
        let (mut listeners, mut addresses) = (JoinSet::new(), Vec::new());
        for listener in bound {
            let address = listener.local_addr()?;
            addresses.push(address);
            if !address.ip().is_loopback() {
                tracing::warn!(%address, "metrics have no login: any client that reaches this address can read the \
                                          names of accounts");
            }
            listeners.spawn(accepting(&pages, Socket::Tcp(listener)));
        }
        let socket = match unix_listener(data) {
            Ok((listener, path)) => {
                listeners.spawn(accepting(&pages, Socket::Unix(listener)));
                Some(path)
            }
            Err(error) => {
                let path = data.join(SOCKET);
                tracing::warn!(path = %path.display(), %error, "no socket for metrics: `posthaste report cost` cannot be used");
                None
            }
        };
        Ok(Self { _listeners: listeners, addresses, socket })
    }

    /// `metrics=127.0.0.1:9100`, with a space before each.
    pub fn addresses(&self) -> String {
        self.addresses.iter().map(|address| format!(" metrics={address}")).collect()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            // If it stays, the next start removes it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The caller holds the lock of the data directory, so a socket that is there belongs to no running
/// server.
fn unix_listener(data: &Path) -> std::io::Result<(UnixListener, PathBuf)> {
    let path = data.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok((UnixListener::bind(&path)?, path))
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    async fn next(&self) -> std::io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
        }
    }
}

/// The task of a listener, metered as its connections are.
fn accepting(pages: &Arc<Pages>, socket: Socket) -> Metered<impl Future<Output = ()> + use<>> {
    let pages = Arc::clone(pages);
    let registry = Arc::clone(&pages.sources.registry);
    Metered::background(registry, "metrics", async move { accept(&pages, &socket).await })
}

/// Each listener has connections of its own: those of an address do not displace those of the
/// socket.
async fn accept(pages: &Arc<Pages>, socket: &Socket) {
    let mut connections = JoinSet::new();
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let Ok(stream) = socket.next().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let metered = Arc::clone(&pages.sources.registry);
        let pages = Arc::clone(pages);
        let connection = async move {
            let answer = service_fn(move |request| {
                let pages = Arc::clone(&pages);
                async move { Ok::<_, Infallible>(answer(&pages, &request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST_WITHIN).keep_alive(false);
            let served = http.serve_connection(TokioIo::new(stream), answer);
            // A monitor that goes away needs no word.
            let _ = tokio::time::timeout(2 * REQUEST_WITHIN, served).await;
        };
        while connections.try_join_next().is_some() {}
        open.retain(|connection| !connection.is_finished());
        if open.len() == CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(connections.spawn(Metered::background(metered, "metrics", connection)));
    }
}

async fn answer(pages: &Arc<Pages>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is allowed\n");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
        return response;
    }
    page(pages, request.uri().path()).await
}

async fn page(pages: &Arc<Pages>, path: &str) -> Response<Full<Bytes>> {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const JSON: &str = "application/json";
    match path {
        "/metrics" => {
            let index = index_size(&pages.sources.index).await;
            let text = move |from: &Sources| {
                text::open_metrics(&from.registry.snapshot(), index, from.runner.figures()).ok()
            };
            made(pages, OPEN_METRICS, text).await
        }
        "/cost" => made(pages, JSON, |from| Some(text::json(&from.registry.snapshot()))).await,
        "/accounts" => {
            let text = |from: &Sources| {
                Some(text::accounts(&from.registry.uses(), from.started.elapsed().as_secs()))
            };
            made(pages, JSON, text).await
        }
        _ => plain(StatusCode::NOT_FOUND, "The pages are /metrics, /cost and /accounts\n"),
    }
}

/// Makes a page on another thread, after those that are being made. It is made even if its client
/// leaves.
async fn made(
    pages: &Arc<Pages>,
    kind: &'static str,
    text: impl FnOnce(&Sources) -> Option<String> + Send + 'static,
) -> Response<Full<Bytes>> {
    let turn = Arc::clone(&pages.turn).lock_owned().await;
    let pages = Arc::clone(pages);
    let work = move || {
        let text = text(&pages.sources);
        drop(turn);
        text
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Some(text)) => of_type(kind, text),
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be written\n"),
    }
}

/// The size of the search index. Without the store, the other figures are sent.
async fn index_size(index: &SearchIndex) -> text::IndexSize {
    let stored = match index.totals(INDEX_COUNTED_FOR).await {
        Ok(totals) => Some(totals),
        Err(error) => {
            tracing::warn!(%error, "the size of the search index cannot be counted");
            None
        }
    };
    text::IndexSize { stored, memory_bytes: index.memory_bytes() }
}

fn of_type(kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = of_type("text/plain; charset=utf-8", text.to_owned());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use posthaste_store::{MemoryEngine, Store, StoreOptions};

    use super::*;

    #[test]
    fn pages_are_made_on_another_thread_one_at_a_time() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let store = Store::new(Arc::new(MemoryEngine::new()), StoreOptions::default());
            let sources = Sources {
                registry: Arc::default(),
                started: Instant::now(),
                index: SearchIndex::off(store),
                runner: CurrentRunner::default(),
            };
            let pages = Arc::new(Pages { sources, turn: Arc::default() });
            for path in ["/cost", "/accounts", "/metrics"] {
                // The only other thread has something else to do.
                let (release, released) = std::sync::mpsc::channel::<()>();
                let busy = tokio::task::spawn_blocking(move || released.recv().is_err());
                let mut coming = std::pin::pin!(page(&pages, path));
                tokio::select! {
                    biased;
                    _ = &mut coming => panic!("{path} was made on this thread"),
                    () = tokio::task::yield_now() => {}
                }
                drop(release);
                assert_eq!(coming.await.status(), StatusCode::OK, "{path}");
                assert!(busy.await.unwrap());
            }
            let turn = pages.turn.lock().await;
            let mut coming = std::pin::pin!(page(&pages, "/cost"));
            tokio::select! {
                biased;
                _ = &mut coming => panic!("two pages were made at a time"),
                () = tokio::task::yield_now() => {}
            }
            drop(turn);
            assert_eq!(coming.await.status(), StatusCode::OK);
        });
    }
}
