//! Requests to the authorization server: HTTP/1.1 (RFC 9112) over TLS, or in clear on loopback.
//! Each has a connection of its own, a deadline, and a bound on its answer.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use posthaste_mail_model::{Secret, masked};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// Requests at once. Further requests wait here within the deadline, so that many logins at once do
/// not overload the authorization server.
const AT_ONCE: usize = 16;

/// An address to which requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    /// Whether a request needs TLS.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The value of the field Host: RFC 9110 §7.2.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Url {
    /// For errors and logs: without the values of the query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        f.write_str(&masked(&format!("{scheme}://{}{}", self.authority(), self.path)))
    }
}

impl FromStr for Url {
    type Err = String;

    /// The error says what to write.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a URL; write https://HOST[:PORT]/PATH, or http:// on loopback");
        let (secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(wrong()),
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_plain =
            |text: &str| text.bytes().all(|b| b.is_ascii_graphic() && !b"#\"<>\\^`{|}@".contains(&b));
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let usual = if secure { 443 } else { 80 };
        let port = port.map_or(Ok(usual), str::parse).map_err(|_| wrong())?;
        if host.is_empty() || port == 0 || !is_plain(authority) || !is_plain(path) {
            return Err(wrong());
        }
        let is_here =
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !secure && !is_here {
            return Err(format!("`{text}` would send tokens in clear to another machine; write https://"));
        }
        Ok(Self { secure, host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// Makes requests.
pub struct Http {
    tls: Option<TlsConnector>,
    within: Duration,
    permits: Semaphore,
}

impl Http {
    /// Certificates are verified with the authorities of a PEM file; without one only URLs in
    /// clear can be requested. Each request, its wait for a permit included, has the time
    /// `within`.
    pub fn new(authorities: Option<&Path>, within: Duration) -> Result<Self, String> {
        let tls = authorities.map(connector).transpose()?;
        Ok(Self { tls, within, permits: Semaphore::new(AT_ONCE) })
    }

    /// GET: the body of a 200.
    #[boxed]
    pub async fn get(&self, url: &Url, len_max: usize) -> Result<Bytes, String> {
        let request = Request::get(&url.path).header("Accept", "application/json");
        self.answer(url, request, Bytes::new(), len_max).await
    }

    /// POST of a form: the body of a 200.
    #[boxed]
    pub async fn post(
        &self,
        url: &Url,
        authorization: &Secret<String>,
        form: String,
        len_max: usize,
    ) -> Result<Bytes, String> {
        let mut request = Request::post(&url.path)
            .header("Accept", "application/json")
            .header("Content-Type", "application/x-www-form-urlencoded");
        if !authorization.expose().is_empty() {
            request = request.header("Authorization", authorization.expose());
        }
        self.answer(url, request, Bytes::from(form), len_max).await
    }

    async fn answer(
        &self,
        url: &Url,
        request: hyper::http::request::Builder,
        body: Bytes,
        len_max: usize,
    ) -> Result<Bytes, String> {
        let request = request.header("Host", url.authority()).header("Connection", "close");
        let request = request.body(Full::new(body)).map_err(|error| format!("{url}: {error}"))?;
        let asked = async {
            let _permit = self.permits.acquire().await.map_err(|error| error.to_string())?;
            self.ask(url, request, len_max).await
        };
        let answer = tokio::time::timeout(self.within, asked).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.within)));
        answer.map_err(|why| format!("{url}: {why}"))
    }

    async fn ask(&self, url: &Url, request: Request<Full<Bytes>>, len_max: usize) -> Result<Bytes, String> {
        let tcp =
            TcpStream::connect((url.host.as_str(), url.port)).await.map_err(|error| error.to_string())?;
        if !url.secure {
            return exchange(tcp, request, len_max).await;
        }
        let tls = self.tls.as_ref().ok_or("there are no authorities to verify its certificate with")?;
        let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
        let stream = tls.connect(name, tcp).await.map_err(|error| error.to_string())?;
        exchange(stream, request, len_max).await
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>, len_max: usize) -> Result<Bytes, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // Ends with the answer, or with this call if its time is up.
    let _connection = AbortOnDrop(tokio::spawn(posthaste_metrics::current().metered(connection)));
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    if status != StatusCode::OK {
        return Err(format!("the answer has status {status}"));
    }
    let body = Limited::new(answer.into_body(), len_max).collect().await;
    body.map(|body| body.to_bytes())
        .map_err(|_| format!("the answer broke off, or has over {len_max} octets"))
}

/// Ends a task with its owner.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn connector(authorities: &Path) -> Result<TlsConnector, String> {
    let named = |error: &dyn fmt::Display| format!("{}: {error}", authorities.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authorities).map_err(|error| named(&error))? {
        // A system's file may hold one that this library does not take.
        let _ = roots.add(certificate.map_err(|error| named(&error))?);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| named(&error))?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}

/// RFC 3986 §2.3: all but unreserved characters.
pub(crate) fn percent_encoded(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            byte => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_clear_text_stays_on_this_machine() {
        for (text, host, port) in [
            ("https://id.example/introspect", "id.example", 443),
            ("https://id.example:8443/", "id.example", 8443),
            ("http://127.0.0.1:9/a", "127.0.0.1", 9),
            ("http://[::1]:9/a", "::1", 9),
            ("http://localhost/a", "localhost", 80),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port, url.to_string().as_str()), (host, port, text));
        }
        assert_eq!("https://id.example".parse::<Url>().unwrap().to_string(), "https://id.example/");
        let with_secret: Url = "https://id.example/x?client_secret=s3cret".parse().unwrap();
        assert_eq!(with_secret.to_string(), "https://id.example/x?client_secret=…");
        assert!(with_secret.path.ends_with("s3cret"));
        for bad in [
            "",
            "ftp://x/",
            "https://",
            "https:///x",
            "https://a b/",
            "https://a:0/",
            "https://a:x/",
            "https://u@h/",
        ] {
            assert!(bad.parse::<Url>().unwrap_err().contains("is not a URL"), "{bad}");
        }
        assert!("http://id.example/".parse::<Url>().unwrap_err().contains("in clear"));
        assert!("http://localhost.evil.test/".parse::<Url>().is_err());
        assert_eq!(percent_encoded("a b+c/~\u{e9}&="), "a%20b%2Bc%2F~%C3%A9%26%3D");
    }
}
