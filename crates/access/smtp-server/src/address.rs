//! Paths of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3): only the syntax. The directory
//! decides whose an address is, and which spellings are equal.

use std::fmt;
use std::net::IpAddr;

use posthaste_queue::address_of;

use crate::syntax::SyntaxError;

/// Octets between the brackets. RFC 5321 §4.5.3.1.3 requires 256; twice that because sub-addresses
/// made by programs and UTF-8 domains run longer. More would not fit a command line with its
/// parameters.
const PATH_LEN_MAX: usize = 512;

/// `Mailbox = Local-part "@" ( Domain / address-literal )`, or a local part alone (`<postmaster>`,
/// and the plain names that LMTP clients use for accounts). Kept as sent; a source route is dropped
/// (RFC 5321 §4.1.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    text: String,
}

/// `Reverse-path = Path / "<>"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReversePath {
    /// The sender of a report. A report must not be answered with a report (RFC 5321 §4.5.5).
    Null,
    /// The sender.
    Mailbox(Mailbox),
}

impl Mailbox {
    /// Reads the text between the brackets.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > PATH_LEN_MAX {
            return Err(SyntaxError::Path("it is longer than 512 octets"));
        }
        let text = without_route(text)?;
        let rest = local_part(text)?;
        match rest.strip_prefix('@') {
            None if rest.is_empty() => {}
            None => return Err(SyntaxError::Path("its local part holds a character that must be quoted")),
            Some(domain) if is_domain(domain) || is_literal(domain) => {}
            Some(_) => return Err(SyntaxError::Path("its domain is not one")),
        }
        Ok(Self { text: text.to_owned() })
    }

    /// The address as it was sent, without brackets and route.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it may be used with SMTPUTF8 only (RFC 6531 §3.2).
    pub fn needs_utf8(&self) -> bool {
        !self.text.is_ascii()
    }
}

impl From<Mailbox> for String {
    fn from(mailbox: Mailbox) -> Self {
        mailbox.text
    }
}

impl ReversePath {
    /// Without brackets; empty for the null path.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Null => "",
            Self::Mailbox(mailbox) => mailbox.as_str(),
        }
    }

    /// Reads the text between the brackets.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.is_empty() { Ok(Self::Null) } else { Mailbox::parse(text).map(Self::Mailbox) }
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.text)
    }
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.as_str())
    }
}

/// Cuts `<…>` off the front: the inside and what follows. A `>` inside a quoted string does not
/// end it.
pub(crate) fn bracketed(text: &str) -> Result<(&str, &str), SyntaxError> {
    let missing = SyntaxError::Path("it must be in <angle brackets>");
    let inside = text.strip_prefix('<').ok_or(missing.clone())?;
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Ok((&inside[..at], &inside[at + 1..])),
            _ => {}
        }
    }
    Err(missing)
}

/// `A-d-l ":"` in front: accepted and ignored (RFC 5321 §4.1.1.3, appendix C).
fn without_route(text: &str) -> Result<&str, SyntaxError> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let bad = SyntaxError::Path("its source route is malformed");
    let (route, rest) = text.split_once(':').ok_or(bad.clone())?;
    let valid = route.split(',').all(|hop| hop.strip_prefix('@').is_some_and(is_domain));
    if valid { Ok(rest) } else { Err(bad) }
}

/// Skips `Local-part = Dot-string / Quoted-string`.
fn local_part(text: &str) -> Result<&str, SyntaxError> {
    let (local, rest) = match text.strip_prefix('"') {
        Some(inside) => return quoted_end(inside),
        None => text.split_at(text.find(|c| !is_atext(c) && c != '.').unwrap_or(text.len())),
    };
    // RFC 5321 has no empty atoms. They are accepted because some systems make such names. At the
    // start they are refused, since one there would be no name at all. The directory refuses names
    // that it cannot store.
    if local.is_empty() { Err(SyntaxError::Path("it has no local part")) } else { Ok(rest) }
}

fn quoted_end(inside: &str) -> Result<&str, SyntaxError> {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if c.is_control() => break,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok(&inside[at + 1..]),
            _ => {}
        }
    }
    Err(SyntaxError::Path("its quoted string does not end"))
}

/// RFC 5322 §3.2.3, and RFC 6531 §3.3 beyond ASCII.
fn is_atext(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
    } else {
        !c.is_control() && !c.is_whitespace()
    }
}

/// `Domain`, and U-labels. Underscores are no host's, yet in use.
pub(crate) fn is_domain(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    (1..=255).contains(&text.len())
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.chars().all(|c| match c {
                    c if c.is_ascii() => c.is_ascii_alphanumeric() || c == '-' || c == '_',
                    c => c.is_alphanumeric() || !(c.is_control() || c.is_whitespace()),
                })
        })
}

/// `address-literal` (RFC 5321 §4.1.3), not looked into: `[` printable ASCII without brackets `]`.
pub(crate) fn is_literal(text: &str) -> bool {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).is_some_and(|inside| {
        (1..=255).contains(&inside.len())
            && inside.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b'\\'))
    })
}

/// The host of an `address-literal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `[192.0.2.1]`, `[IPv6:2001:db8::1]`.
    Address(IpAddr),
    /// An address literal of neither form. RFC 5321 §4.1.3 has room for more, and none is
    /// registered.
    Unknown,
}

/// The local part of an address and its host, if that is an address literal.
pub fn literal(address: &str) -> Option<(&str, Literal)> {
    let (local, domain) = address.rsplit_once('@')?;
    let is_literal = domain.starts_with('[');
    is_literal.then(|| (local, address_of(domain).map_or(Literal::Unknown, Literal::Address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_name_hosts() {
        let address = |text: &str| Literal::Address(text.parse().unwrap());
        for (text, found) in [
            ("ana@[192.0.2.1]", Some(("ana", address("192.0.2.1")))),
            ("\"a@[b]\"@[IPv6:2001:db8::1]", Some(("\"a@[b]\"", address("2001:db8::1")))),
            ("ana@[ipv6:::ffff:192.0.2.1]", Some(("ana", address("::ffff:192.0.2.1")))),
            ("ana@[2001:db8::1]", Some(("ana", Literal::Unknown))),
            ("ana@[192.0.2.01]", Some(("ana", Literal::Unknown))),
            ("ana@[192.0.2]", Some(("ana", Literal::Unknown))),
            ("ana@[IPv6:192.0.2.1]", Some(("ana", Literal::Unknown))),
            ("ana@[x:y]", Some(("ana", Literal::Unknown))),
            ("ana@192.0.2.1", None),
            ("postmaster", None),
        ] {
            assert_eq!(literal(text), found, "{text}");
        }
    }

    #[test]
    fn texts_that_are_mailboxes() {
        for good in [
            "ana@example.org",
            "ana+lists@example.org",
            "\"a > b\"@example.org",
            "\"a\\\"b\"@example.org",
            "postmaster",
            "ana@[127.0.0.1]",
            "ana@[IPv6:::1]",
            "jürgen@bücher.example",
            "a_b@host_1.example.",
        ] {
            assert_eq!(Mailbox::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "@",
            "@example.org",
            "ana@",
            "ana@exa mple",
            "ana@a..b",
            "a b@example.org",
            "ana@example.org>",
            "\"ana@example.org",
            "\"a\"b@example.org",
            "ana@[]",
            "ana@[1]x",
            "a\u{7f}@example.org",
            "<ana@example.org",
        ] {
            assert!(Mailbox::parse(bad).is_err(), "{bad}");
        }
        assert!(Mailbox::parse(&"x".repeat(513)).is_err());
    }

    #[test]
    fn routes_are_dropped() {
        let mailbox = Mailbox::parse("@one.example,@two.example:ana@example.org").unwrap();
        assert_eq!(mailbox.to_string(), "<ana@example.org>");
        assert!(Mailbox::parse("@one.example ana@example.org").is_err());
        assert!(Mailbox::parse("@one example:ana@example.org").is_err());
    }

    #[test]
    fn brackets_inside_quotes_do_not_end_a_path() {
        assert_eq!(bracketed("<\"a>b\\\">\"@c> SIZE=1").unwrap(), ("\"a>b\\\">\"@c", " SIZE=1"));
        assert_eq!(bracketed("<>").unwrap(), ("", ""));
        for bad in ["", "ana@example.org", "<ana", "<\"ana>"] {
            assert!(bracketed(bad).is_err(), "{bad}");
        }
    }
}
