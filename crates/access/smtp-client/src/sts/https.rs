//! Fetches a policy over HTTPS (RFC 8461 §3.3).

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::policy::POLICY_LEN_MAX;

/// For all of it: RFC 8461 §3.3 advises one minute.
const FETCH_WITHIN: Duration = Duration::from_secs(60);
/// To connect to one address, so that another one is tried in time.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Octets of a response's header. hyper's own bound is 400 KiB, and strangers choose the hosts that
/// answer at the same time. Usual headers have 1 KiB.
const HEADER_LEN_MAX: usize = 16 * 1024;

/// Characters of an error of TLS that are kept. It may name each host of a certificate.
const ERROR_CHARS_MAX: usize = 300;

/// The reason why there is no text.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The host cannot be reached, or has no such page.
    Away(String),
    /// The certificate is not valid for the host's name.
    Certificate(String),
}

/// The text at a path of a host, which must have a certificate for its name. Redirects are not
/// followed (RFC 8461 §3.3).
pub(super) async fn fetch(
    tls: &TlsConnector,
    host: &str,
    addresses: &[SocketAddr],
    path: &str,
) -> Result<String, FetchError> {
    let done = timeout(FETCH_WITHIN, fetch_in_time(tls, host, addresses, path)).await;
    done.unwrap_or_else(|_| Err(FetchError::Away(format!("{host} does not answer in time"))))
}

async fn fetch_in_time(
    tls: &TlsConnector,
    host: &str,
    addresses: &[SocketAddr],
    path: &str,
) -> Result<String, FetchError> {
    let away = |why: String| FetchError::Away(format!("{host}: {why}"));
    let tcp = connect(addresses).await.map_err(away)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|e| away(e.to_string()))?;
    let stream = tls.connect(name, tcp).await.map_err(|error| {
        let is_certificate = |e: &rustls::Error| matches!(e, rustls::Error::InvalidCertificate(_));
        let words: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        match error.get_ref().and_then(|e| e.downcast_ref()).is_some_and(is_certificate) {
            true => FetchError::Certificate(format!("{host}: {words}")),
            false => FetchError::Away(format!("{host}: {words}")),
        }
    })?;
    get(stream, host, path).await
}

/// The text at a path of the host at the other end.
async fn get<S>(stream: S, host: &str, path: &str) -> Result<String, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let away = |why: String| FetchError::Away(format!("{host}: {why}"));
    let http = http1::Builder::new().max_buf_size(HEADER_LEN_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = http.map_err(|e| away(e.to_string()))?;
    let request = Request::get(path).header(HOST, host).body(Empty::<hyper::body::Bytes>::new());
    let request = request.map_err(|e| away(e.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| away(e.to_string()))?;
        if response.status() != StatusCode::OK {
            return Err(away(format!("answers {} to {path}", response.status())));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("text/plain") {
            return Err(away(format!("{path} is not text/plain")));
        }
        let body = Limited::new(response.into_body(), POLICY_LEN_MAX).collect().await;
        let body = body.map_err(|e| away(e.to_string()))?.to_bytes();
        String::from_utf8(body.to_vec()).map_err(|_| away(format!("{path} is not text")))
    };
    tokio::pin!(answer);
    // The connection moves the bytes, so both are waited for, here and not in a task of its own.
    tokio::select! {
        text = &mut answer => text,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(away(error.to_string())),
        },
    }
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut last = "it has no address".to_owned();
    for address in addresses {
        match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "no answer".to_owned(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// A host that strangers choose could make hyper hold 400 KiB of its header.
    #[tokio::test]
    async fn the_header_of_a_response_is_bounded() {
        for (fields, is_read) in [(10, true), (60, false)] {
            let (ours, mut theirs) = duplex(1 << 20);
            let field = format!("X-Field: {}\r\n", "x".repeat(990));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{}", field.repeat(fields));
            let response = format!("{head}Content-Length: 6\r\n\r\npolicy");
            let answer = async {
                let mut request = [0; 4];
                theirs.read_exact(&mut request).await.unwrap();
                assert_eq!(&request, b"GET ");
                theirs.write_all(response.as_bytes()).await.unwrap();
            };
            let (text, ()) = tokio::join!(get(ours, "mta-sts.example.org", "/policy"), answer);
            assert_eq!(text.ok().as_deref(), is_read.then_some("policy"), "{fields} fields");
        }
    }
}
