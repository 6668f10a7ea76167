//! `listen.https`: the MTA-STS policy of our domains (RFC 8461 §3.3), and nothing else.
//!
//! One request is read and answered. Then the connection ends, because a client needs only one
//! page.

use std::sync::Arc;
use std::time::Duration;

use posthaste_authentication::DomainKeys;
use posthaste_net::{Connection, NetError, Shutdown};
use posthaste_store::Engine;

use super::request_head::{Request, find_end};

/// Time for a request as a whole, and for its answer to be taken.
const WITHIN: Duration = Duration::from_secs(10);
/// Octets of a request: a line and some fields.
const REQUEST_LEN_MAX: usize = 8 * 1024;
const PATH: &str = "/.well-known/mta-sts.txt";

/// Serves the policy.
pub struct Policies {
    engine: Arc<dyn Engine>,
    text: String,
    within: Duration,
}

impl Policies {
    /// Serves this text for the domains that are set up in a store.
    pub fn new(text: String, engine: Arc<dyn Engine>) -> Self {
        Self { engine, text, within: WITHIN }
    }

    /// Answers one request.
    pub async fn serve(&self, mut connection: Connection, mut shutdown: Shutdown) {
        let peer = connection.peer();
        let answered = tokio::select! {
            answered = self.answer(&mut connection) => answered,
            () = shutdown.requested() => Ok(()),
        };
        if let Err(error) = answered {
            tracing::debug!(%peer, %error, "no answer over HTTPS");
        }
        let _ = connection.close(WITHIN).await;
    }

    async fn answer(&self, connection: &mut Connection) -> Result<(), NetError> {
        let head = match tokio::time::timeout(self.within, head(connection)).await {
            Ok(head) => head?,
            Err(_) => return Err(NetError::TimedOut(self.within)),
        };
        let Some(head) = head else {
            let text =
                response("431 Request Header Fields Too Large", "The request is too long\n", Body::Sent);
            return connection.write_all_within(text.as_bytes(), WITHIN).await;
        };
        if head.is_empty() {
            return Ok(());
        }
        let text = self.response(&head).await;
        connection.write_all_within(text.as_bytes(), WITHIN).await
    }

    async fn response(&self, head: &str) -> String {
        let Some(Request { method, path, host }) = Request::parse(head) else {
            return response("400 Bad Request", "This is not an HTTP/1.1 request\n", Body::Sent);
        };
        let body = match method {
            "GET" => Body::Sent,
            "HEAD" => Body::Left,
            _ => return response("405 Method Not Allowed", "Only GET and HEAD are allowed\n", Body::Sent),
        };
        if path != PATH || !self.is_ours(&host).await {
            return response("404 Not Found", "There is no such page\n", body);
        }
        response("200 OK", &self.text, body)
    }

    /// Whether a host is that of the policy of a domain that is set up.
    async fn is_ours(&self, host: &str) -> bool {
        let Some(domain) = host.strip_prefix("mta-sts.") else { return false };
        match DomainKeys::find(&*self.engine, domain).await {
            Ok(found) => found.is_some(),
            Err(error) => {
                tracing::error!(domain, %error, "the policy of a domain cannot be served");
                false
            }
        }
    }
}

/// Reads the head of a request: empty if the client leaves, `None` if it is too long.
async fn head(connection: &mut Connection) -> Result<Option<String>, NetError> {
    let mut searched = 0;
    loop {
        let input = connection.input();
        // The end may have begun in what was searched.
        let from = usize::saturating_sub(searched, 3);
        if let Some(end) = find_end(&input[from..]) {
            let head = &input[..from + end];
            return Ok(Some(String::from_utf8_lossy(head).into_owned()));
        }
        searched = input.len();
        if searched >= REQUEST_LEN_MAX {
            return Ok(None);
        }
        if connection.fill(REQUEST_LEN_MAX, WITHIN).await? == 0 {
            return Ok(Some(String::new()));
        }
    }
}

/// Whether the body that is announced is sent: not to HEAD (RFC 9110 §9.3.2).
#[derive(Clone, Copy)]
enum Body {
    Sent,
    Left,
}

fn response(status: &str, text: &str, body: Body) -> String {
    let sent = match body {
        Body::Sent => text,
        Body::Left => "",
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n{sent}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_request_byte_by_byte_has_a_deadline() {
        let engine = Arc::new(posthaste_store::MemoryEngine::new());
        let mut policies = Policies::new("version: STSv1".to_owned(), engine);
        policies.within = Duration::from_millis(50);
        let (client, server) = tokio::io::duplex(64);
        let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let stream = posthaste_net::Stream::over(server, address(40_000), address(443));
        let (_trigger, shutdown) = Shutdown::new();
        let (mut reader, mut writer) = tokio::io::split(client);
        // Each byte comes long before a read of its own would time out.
        let trickle = async {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let mut said = Vec::new();
        let served = policies.serve(Connection::new(stream), shutdown);
        tokio::join!(served, trickle, async { reader.read_to_end(&mut said).await.unwrap_or(0) });
        assert!(said.is_empty(), "the request did not end: {:?}", String::from_utf8_lossy(&said));
    }

    #[test]
    fn the_end_of_a_head() {
        assert_eq!(find_end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"), Some(23));
        assert_eq!(find_end(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
    }
}
