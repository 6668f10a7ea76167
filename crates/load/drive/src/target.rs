//! Addresses of servers as URLs: `imap://`, `imaps://`, `imap+starttls://`, likewise pop3, smtp,
//! lmtp, submission.

use std::str::FromStr;

use posthaste_imap_client::net::{Endpoint, Security};

/// A protocol and where it is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host, port, protection.
    pub endpoint: Endpoint,
    /// The protocol.
    pub scheme: Scheme,
}

/// Protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Reading mail, RFC 9051 and 3501.
    Imap,
    /// Reading mail, RFC 1939.
    Pop3,
    /// Delivering mail from outside, RFC 5321.
    Smtp,
    /// Delivering mail, RFC 2033.
    Lmtp,
    /// Sending mail as a user, RFC 6409.
    Submission,
}

const SCHEMES: &[(&str, Scheme, Security, u16)] = &[
    ("imap", Scheme::Imap, Security::Plain, 143),
    ("imaps", Scheme::Imap, Security::Tls, 993),
    ("imap+starttls", Scheme::Imap, Security::StartTls, 143),
    ("pop3", Scheme::Pop3, Security::Plain, 110),
    ("pop3s", Scheme::Pop3, Security::Tls, 995),
    ("pop3+starttls", Scheme::Pop3, Security::StartTls, 110),
    ("smtp", Scheme::Smtp, Security::Plain, 25),
    ("smtp+starttls", Scheme::Smtp, Security::StartTls, 25),
    ("lmtp", Scheme::Lmtp, Security::Plain, 24),
    ("submission", Scheme::Submission, Security::StartTls, 587),
    ("submission+plain", Scheme::Submission, Security::Plain, 587),
    ("submissions", Scheme::Submission, Security::Tls, 465),
];

impl Scheme {
    /// The names of the protocol in URLs.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        SCHEMES.iter().filter(move |(_, scheme, ..)| *scheme == self).map(|(name, ..)| *name)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let (name, rest) = url
            .split_once("://")
            .ok_or_else(|| format!("`{url}` is not an address; write imap://HOST:PORT"))?;
        let known = SCHEMES.iter().map(|s| s.0);
        let (_, scheme, security, default_port) = SCHEMES.iter().find(|s| s.0 == name).ok_or_else(|| {
            format!("unknown protocol `{name}`{}", posthaste_load_text::suggestion(name, known))
        })?;
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port))
                if !host.ends_with(':') && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) =>
            {
                (host, port.parse().map_err(|_| format!("`{url}`: port {port} does not exist"))?)
            }
            _ => (rest, *default_port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("`{url}` names no host; write {name}://HOST:PORT"));
        }
        let endpoint = Endpoint { host: host.to_owned(), port, security: *security };
        Ok(Self { endpoint, scheme: *scheme })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let t: Target = "imaps://localhost:1993".parse().unwrap();
        assert_eq!((t.scheme, t.endpoint.port, t.endpoint.security), (Scheme::Imap, 1993, Security::Tls));
        assert_eq!("lmtp://[::1]".parse::<Target>().unwrap().endpoint.host, "::1");
        assert!("imapz://x".parse::<Target>().unwrap_err().contains("`imap`"));
        assert!("x".parse::<Target>().is_err() && "imap://".parse::<Target>().is_err());
        assert!("imap://h:99999".parse::<Target>().is_err());
    }
}
