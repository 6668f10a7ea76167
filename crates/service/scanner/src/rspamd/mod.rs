//! Sends a message to rspamd by its HTTP protocol (`POST /checkv2`). The envelope is in header
//! fields of the request, the message is its body, and the answer is JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use posthaste_net::copying;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::fields::{Occurrence, SPAM};
use crate::{Envelope, FieldChanges, Scan, Verdict};

/// Octets of an answer: a few hundred symbols with their descriptions are 50 KiB.
const ANSWER_MAX: usize = 4 << 20;
/// An octet of an answer takes as long to read as so many octets to copy. So a session reads
/// ordinary answers itself, and has those over 64 KiB read on another thread.
const READING_COST: usize = 16;
/// Characters of a reason that the client gets.
const REASON_MAX: usize = 200;
/// The port of rspamd's worker "normal".
const PORT: u16 = 11333;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The time is up.
    #[error("rspamd at {0} did not answer in time")]
    Late(String),
    /// The connection was refused, or it broke.
    #[error("rspamd at {at}: {why}")]
    Unreachable {
        /// Where it should be.
        at: String,
        /// The system's error.
        why: String,
    },
    /// It answers something else than it should.
    #[error("the answer of rspamd at {at} is not understood: {why}")]
    Answer {
        /// Where it is.
        at: String,
        /// The fault.
        why: String,
    },
}

/// A text that is not an address of rspamd.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another one, or none at all.
    #[error("`{0}` is not an address of rspamd: write http://HOST:PORT or unix:/PATH")]
    Other(String),
    /// It has a user or a password, which nothing would send.
    #[error(
        "the part before `@` is not sent to rspamd, whose worker `normal` needs no password: write \
         http://HOST:PORT or unix:/PATH"
    )]
    Login,
}

/// Where rspamd listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    Tcp(String, u16),
    Unix(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{path}"),
        }
    }
}

impl Endpoint {
    fn parse(url: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError::Other(url.to_owned());
        if let Some(path) = url.strip_prefix("unix:") {
            return if path.starts_with('/') { Ok(Self::Unix(path.to_owned())) } else { Err(wrong()) };
        }
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        // RFC 3986 §3.2.1
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(UrlError::Login);
        }
        let is_bare = matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/"));
        let host = uri.host().filter(|_| is_bare && uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self::Tcp(host, uri.port_u16().unwrap_or(PORT)))
    }
}

/// An rspamd.
#[derive(Clone, Debug)]
pub struct Rspamd {
    endpoint: Endpoint,
    within: Duration,
}

impl Rspamd {
    /// The one at `url`, `http://HOST:PORT` or `unix:/PATH`. It has this time for an answer.
    pub fn new(url: &str, within: Duration) -> Result<Self, UrlError> {
        Ok(Self { endpoint: Endpoint::parse(url)?, within })
    }

    /// Queries the verdict on a message as it came, without fields of our own.
    #[boxed]
    pub async fn scan(&self, envelope: &Envelope<'_>, message: Bytes) -> Result<Scan, ScanError> {
        let asked = tokio::time::timeout(self.within, self.query(envelope, message)).await;
        let answer = asked.map_err(|_| ScanError::Late(self.endpoint.to_string()))??;
        parsed(answer).await.map_err(|why| self.misunderstood(why))
    }

    async fn query(&self, envelope: &Envelope<'_>, message: Bytes) -> Result<Bytes, ScanError> {
        match &self.endpoint {
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                self.exchange(stream.map_err(|error| self.unreachable(error))?, envelope, message).await
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                self.exchange(stream.map_err(|error| self.unreachable(error))?, envelope, message).await
            }
        }
    }

    async fn exchange<S>(
        &self,
        stream: S,
        envelope: &Envelope<'_>,
        message: Bytes,
    ) -> Result<Bytes, ScanError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.unreachable(error))?;
        // Ends with the answer, or with this call if its time is up.
        let connection = AbortOnDrop(tokio::spawn(posthaste_metrics::current().metered(connection)));
        let request = self.request(envelope, message)?;
        let answer = sender.send_request(request).await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(self.misunderstood(format!("status {status}")));
        }
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        drop(connection);
        body.map(|body| body.to_bytes()).map_err(|error| self.unreachable(error))
    }

    /// The field `MTA-Name` is left out: results in our name are our own.
    fn request(&self, envelope: &Envelope<'_>, message: Bytes) -> Result<Request<Full<Bytes>>, ScanError> {
        let Envelope { id, address, name, helo, from, to } = envelope;
        let mut request = Request::post("/checkv2")
            .header("Host", "rspamd")
            .header("Queue-Id", *id)
            .header("IP", address.to_string())
            .header("Helo", helo.as_bytes())
            .header("From", from.as_bytes());
        if let Some(name) = name {
            request = request.header("Hostname", name.as_bytes());
        }
        for recipient in to {
            request = request.header("Rcpt", recipient.as_bytes());
        }
        request.body(Full::new(message)).map_err(|error| self.misunderstood(error))
    }

    fn unreachable(&self, why: impl fmt::Display) -> ScanError {
        ScanError::Unreachable { at: self.endpoint.to_string(), why: why.to_string() }
    }

    fn misunderstood(&self, why: impl fmt::Display) -> ScanError {
        ScanError::Answer { at: self.endpoint.to_string(), why: why.to_string() }
    }
}

/// Ends a task with its owner.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the body of an answer, a long one on another thread.
async fn parsed(answer: Bytes) -> Result<Scan, String> {
    copying(answer.len().saturating_mul(READING_COST), move || understood(&answer)).await
}

/// Reads the body of an answer.
pub(crate) fn understood(answer: &[u8]) -> Result<Scan, String> {
    serde_json::from_slice::<Answer>(answer).map_err(|error| error.to_string())?.read()
}

/// The used fields of rspamd's answer.
#[derive(Debug, Deserialize)]
struct Answer {
    action: String,
    #[serde(default)]
    score: f64,
    #[serde(default)]
    required_score: f64,
    #[serde(default)]
    messages: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    milter: Milter,
}

#[derive(Debug, Default, Deserialize)]
struct Milter {
    #[serde(default)]
    add_headers: BTreeMap<String, OneOrMore<Added>>,
    #[serde(default)]
    remove_headers: BTreeMap<String, OneOrMore<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::More(more) => more.iter(),
        }
    }
}

/// A value, or a value with its place among the fields. Here all get the same place.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Added {
    Placed { value: String },
    Plain(String),
}

impl Answer {
    fn read(self) -> Result<Scan, String> {
        let reason = |else_: &str| match self.messages.get("smtp_message") {
            Some(serde_json::Value::String(text)) => printable(text),
            _ => else_.to_owned(),
        };
        let mut fields = FieldChanges::default();
        fields.remove(SPAM, Occurrence::All);
        // A new subject would break signatures: this field and the folder say the same. It comes
        // before fields that may take all the room.
        if matches!(self.action.as_str(), "add header" | "rewrite subject") {
            fields.add(SPAM, "Yes");
        }
        for (name, which) in &self.milter.remove_headers {
            which.iter().for_each(|nth| {
                fields.remove(name, if *nth == 0 { Occurrence::All } else { Occurrence::Nth(*nth) });
            });
        }
        for (name, values) in &self.milter.add_headers {
            for value in values.iter() {
                let (Added::Placed { value } | Added::Plain(value)) = value;
                fields.add(name, value);
            }
        }
        let verdict = match self.action.as_str() {
            "no action" => Verdict::Accept,
            "greylist" | "soft reject" => Verdict::Defer(reason("Try again later")),
            "reject" => Verdict::Reject(reason("The message looks like spam")),
            "add header" | "rewrite subject" | "discard" | "quarantine" => Verdict::Junk,
            other => return Err(format!("the action `{other}`")),
        };
        Ok(Scan { verdict, score: self.score, required: self.required_score, fields })
    }
}

/// A reason in a form that a reply can contain.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(REASON_MAX).collect()
}

#[cfg(test)]
mod tests;
