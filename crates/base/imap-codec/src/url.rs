//! IMAP URLs: RFC 5092, with the authorisation of RFC 4467 (URLAUTH).
//!
//! A URL here names a message or a part of one, as CATENATE, URLFETCH and BURL need. It is absolute
//! (`imap://ana@example.org/INBOX/;UID=3`), a path on the server at hand (`/INBOX/;UID=3`), or
//! relative to a mailbox (`;UID=3/;SECTION=1`). URLs that name only a mailbox, a search or a server
//! are not such URLs. Neither are relative names of mailboxes.
//!
//! Mailbox names are UTF-8 in percent encoding, independent of the encoding of names on the
//! connection (§8).

use std::fmt::{self, Write as _};
use std::num::NonZeroU64;

use bytes::Bytes;
use posthaste_mail_model::{Uid, UidValidity};

use crate::chars::is_astring_char;
use crate::cursor::{Cursor, Quoting};
use crate::{Date, Section};

/// Bytes of a URL. The longest name of a mailbox takes some 3,000 in percent encoding, and a list
/// of header fields as many. Twice as much names nothing that exists.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// Hexadecimal digits of an authorisation at most: RFC 4467 §4 has 32 or more.
const TOKEN_DIGITS: std::ops::RangeInclusive<usize> = 32..=256;

/// A URL of a message, or of a part of one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ImapUrl {
    /// Which server, and as whom; `None` for the server at hand.
    pub server: Option<UrlServer>,
    /// Which mailbox; `None` for the one at hand, only without a server.
    pub mailbox: Option<UrlMailbox>,
    /// Which message; `None` for the one at hand, only without a mailbox.
    pub uid: Option<Uid>,
    /// The requested section; `None` for the whole message.
    pub section: Option<Section>,
    /// Which bytes of that.
    pub partial: Option<UrlPartial>,
    /// The users that may use the URL, and the proof of it.
    pub auth: Option<UrlAuth>,
}

/// `imap://user;AUTH=type@host:port`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlServer {
    /// `enc-user`
    pub user: Option<String>,
    /// `;AUTH=`: a SASL mechanism in capitals, or `*`.
    pub mechanism: Option<String>,
    /// The host, in small letters.
    pub host: String,
    /// The port, if it is named.
    pub port: Option<u16>,
}

/// `enc-mailbox [uidvalidity]`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlMailbox {
    /// Its name; never empty.
    pub name: String,
    /// `;UIDVALIDITY=`
    pub uid_validity: Option<UidValidity>,
}

/// `;PARTIAL=offset.count`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UrlPartial {
    /// First byte, from 0.
    pub offset: u64,
    /// At most so many bytes; `None` for all from there on.
    pub count: Option<NonZeroU64>,
}

/// `;EXPIRE=…;URLAUTH=access:mechanism:token`: RFC 4467 §3.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlAuth {
    /// `;EXPIRE=`: from then on the URL is void, seconds since 1970.
    pub expires: Option<i64>,
    /// The users that may use it.
    pub access: UrlAccess,
    /// The proof; `None` in a URL that has none yet.
    pub proof: Option<UrlProof>,
}

/// The users that may use a URL: RFC 4467 §3.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UrlAccess {
    /// `submit+user`: submission on behalf of this user.
    Submit(String),
    /// `user+user`: this user.
    User(String),
    /// `authuser`: every user who has logged in, but not as anonymous.
    AuthUser,
    /// `anonymous`: everybody.
    Anonymous,
}

/// `:mechanism:token`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UrlProof {
    /// In capitals: `INTERNAL` is the one that RFC 4467 defines.
    pub mechanism: String,
    /// The token: hexadecimal digits as they stand.
    pub token: String,
}

/// Why a text is no such URL. `Display` is fit for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the URL is longer than 8192 bytes")]
    TooLong,
    /// A `%` that is not followed by two digits, or what it says is not UTF-8 or holds a control.
    #[error("the URL has a character that it may not have, or a wrong percent encoding")]
    Encoding,
    /// Another scheme, or a host or user that cannot be.
    #[error("the URL names no IMAP server")]
    Server,
    /// A mailbox without a message, or a search.
    #[error("the URL names no message: it needs ;UID=")]
    NoMessage,
    /// A server alone.
    #[error("the URL names no mailbox")]
    NoMailbox,
    /// A path without its `/` in front.
    #[error("the name of the mailbox in the URL has no / in front")]
    RelativeMailbox,
    /// Something else than the parameters above, or out of their order.
    #[error("a parameter of the URL is unknown, has a wrong value or is in the wrong place")]
    Parameter,
}

impl UrlServer {
    /// Reads a URL that names a server alone: `imap://host/`, with a user or without.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("imap://"));
        scheme.ok_or(UrlError::Server)?;
        match server_and_path(&text[7..])? {
            (Some(server), "" | "/") => Ok(server),
            _ => Err(UrlError::Server),
        }
    }
}

impl ImapUrl {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let (server, path) = match text.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case("imap://") => server_and_path(&text[7..])?,
            // RFC 5092 §7: a network path has the scheme of its base.
            _ => match text.strip_prefix("//") {
                Some(rest) => server_and_path(rest)?,
                None => (None, text),
            },
        };
        let mut url = Self { server, mailbox: None, uid: None, section: None, partial: None, auth: None };
        url.read_path(path)?;
        Ok(url)
    }

    /// The URL up to the proof: what the proof is made of (RFC 4467 §6, iurlauth-rump). `None` if
    /// it has none.
    pub fn rump(text: &str) -> Option<&str> {
        // No character of the access may be a colon, nor may one of the proof.
        let auth = text.to_ascii_uppercase().rfind(";URLAUTH=")?;
        let proof = text.get(auth..)?.find(':')?;
        text.get(..auth + proof)
    }

    fn read_path(&mut self, path: &str) -> Result<(), UrlError> {
        if path.contains('?') {
            return Err(UrlError::NoMessage);
        }
        let mut pieces = path.split(';');
        let name = pieces.next().unwrap_or_default();
        let mut pieces = pieces.peekable();
        match name {
            "" | "/" if self.server.is_none() => {}
            "" | "/" => return Err(UrlError::NoMessage),
            _ if name.contains("://") => return Err(UrlError::Server),
            _ => {
                let name = name.strip_prefix('/').ok_or(UrlError::RelativeMailbox)?;
                let name = decoded(name.strip_suffix('/').unwrap_or(name))?;
                if name.is_empty() {
                    return Err(UrlError::NoMessage);
                }
                self.mailbox = Some(UrlMailbox { name, uid_validity: None });
            }
        }
        let mut last = 0;
        while let Some(piece) = pieces.next() {
            // The slash before the next parameter.
            let piece = match pieces.peek() {
                Some(_) => piece.strip_suffix('/').unwrap_or(piece),
                None => piece,
            };
            let (key, value) = piece.split_once('=').ok_or(UrlError::Parameter)?;
            let place = self.read_parameter(&key.to_ascii_uppercase(), value)?;
            if place <= last {
                return Err(UrlError::Parameter);
            }
            last = place;
        }
        match (&self.auth, &self.mailbox, self.uid) {
            (_, Some(_), None) | (Some(_), _, None) => Err(UrlError::NoMessage),
            (Some(auth), ..) if auth.access == UNKNOWN_ACCESS => Err(UrlError::Parameter),
            _ if self.uid.is_none() && self.section.is_none() && self.partial.is_none() => {
                Err(UrlError::NoMessage)
            }
            _ => Ok(()),
        }
    }

    /// Reads a parameter and returns its place in the order of RFC 5092 §11.
    fn read_parameter(&mut self, key: &str, value: &str) -> Result<u8, UrlError> {
        let wrong = UrlError::Parameter;
        match key {
            "UIDVALIDITY" => {
                let mailbox = self.mailbox.as_mut().ok_or(wrong)?;
                mailbox.uid_validity = Some(nz_number(value).and_then(UidValidity::new).ok_or(wrong)?);
                Ok(1)
            }
            "UID" => {
                self.uid = Some(nz_number(value).and_then(Uid::new).ok_or(wrong)?);
                Ok(2)
            }
            "SECTION" => {
                self.section = Some(section(value)?);
                Ok(3)
            }
            "PARTIAL" => {
                self.partial = Some(partial(value).ok_or(wrong)?);
                Ok(4)
            }
            "EXPIRE" => {
                let expires = Some(moment(value).ok_or(wrong)?);
                self.auth = Some(UrlAuth { expires, access: UNKNOWN_ACCESS, proof: None });
                Ok(5)
            }
            "URLAUTH" => {
                let expires = self.auth.as_ref().and_then(|auth| auth.expires);
                self.auth = Some(authorisation(value, expires)?);
                Ok(6)
            }
            _ => Err(wrong),
        }
    }
}

/// Stands in a URL between `;EXPIRE=` and `;URLAUTH=`: no user has an empty name.
const UNKNOWN_ACCESS: UrlAccess = UrlAccess::User(String::new());

pub(crate) fn server_and_path(text: &str) -> Result<(Option<UrlServer>, &str), UrlError> {
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let mut server = UrlServer { user: None, mechanism: None, host: String::new(), port: None };
    if let Some(user) = user {
        // `iuserinfo`: a user, a mechanism, or both.
        let (name, mechanism) = match user.split_once(';') {
            Some((name, auth)) => (name, Some(auth)),
            None => (user, None),
        };
        if !name.is_empty() {
            server.user = Some(decoded(name)?);
        }
        if let Some(auth) = mechanism {
            let (key, value) = auth.split_once('=').ok_or(UrlError::Server)?;
            let value = decoded(value)?.to_ascii_uppercase();
            if !key.eq_ignore_ascii_case("AUTH") || value.is_empty() {
                return Err(UrlError::Server);
            }
            server.mechanism = Some(value);
        }
        if server.user.is_none() && server.mechanism.is_none() {
            return Err(UrlError::Server);
        }
    }
    // The colons of an IPv6 address stand in brackets.
    let colon = host.rfind(':').filter(|&at| !host.get(at..).is_some_and(|rest| rest.contains(']')));
    let (host, port) = match colon {
        Some(at) => (&host[..at], Some(host[at + 1..].parse().map_err(|_| UrlError::Server)?)),
        None => (host, None),
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'[' | b']' | b':');
    if host.is_empty() || !host.bytes().all(is_plain) {
        return Err(UrlError::Server);
    }
    server.host = host.to_ascii_lowercase();
    server.port = port;
    Ok((Some(server), path))
}

/// Undoes percent encoding. The result is UTF-8 without controls.
pub(crate) fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        if b != b'%' {
            // RFC 3986 §2: bytes beyond ASCII, and a few signs, are always encoded.
            if !(0x21..0x7f).contains(&b) {
                return Err(UrlError::Encoding);
            }
            bytes.push(b);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(UrlError::Encoding);
        };
        bytes.push((high * 16 + low) as u8);
    }
    let text = String::from_utf8(bytes).map_err(|_| UrlError::Encoding)?;
    if text.bytes().any(|b| b.is_ascii_control()) { Err(UrlError::Encoding) } else { Ok(text) }
}

fn nz_number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|&n| is_number && n > 0)
}

fn number64(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&n| is_number && n <= i64::MAX as u64)
}

fn section(value: &str) -> Result<Section, UrlError> {
    let text = decoded(value)?;
    if text.is_empty() {
        return Err(UrlError::Parameter);
    }
    let bytes = Bytes::from(format!("[{text}]"));
    let mut c = Cursor::new(&bytes, Quoting::Strict);
    let section = Section::parse(&mut c).map_err(|_| UrlError::Parameter)?;
    if c.at_end() { Ok(section) } else { Err(UrlError::Parameter) }
}

/// `partial-range = number ["." nz-number]`
fn partial(value: &str) -> Option<UrlPartial> {
    let (offset, count) = match value.split_once('.') {
        Some((offset, count)) => (offset, Some(NonZeroU64::new(number64(count)?)?)),
        None => (value, None),
    };
    Some(UrlPartial { offset: number64(offset)?, count })
}

/// `access [":" mechanism ":" token]`
fn authorisation(value: &str, expires: Option<i64>) -> Result<UrlAuth, UrlError> {
    let mut pieces = value.split(':');
    let access = pieces.next().unwrap_or_default();
    let after = |prefix: &str| {
        let head = access.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then(|| &access[prefix.len()..])
    };
    let user = |name: &str| {
        decoded(name).and_then(|name| if name.is_empty() { Err(UrlError::Parameter) } else { Ok(name) })
    };
    let access = if let Some(name) = after("submit+") {
        UrlAccess::Submit(user(name)?)
    } else if let Some(name) = after("user+") {
        UrlAccess::User(user(name)?)
    } else if access.eq_ignore_ascii_case("authuser") {
        UrlAccess::AuthUser
    } else if access.eq_ignore_ascii_case("anonymous") {
        UrlAccess::Anonymous
    } else {
        return Err(UrlError::Parameter);
    };
    let proof = match (pieces.next(), pieces.next(), pieces.next()) {
        (None, ..) => None,
        (Some(mechanism), Some(token), None) => {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
            let is_mechanism = !mechanism.is_empty() && mechanism.bytes().all(is_name);
            let is_token =
                TOKEN_DIGITS.contains(&token.len()) && token.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_mechanism || !is_token {
                return Err(UrlError::Parameter);
            }
            Some(UrlProof { mechanism: mechanism.to_ascii_uppercase(), token: token.to_owned() })
        }
        _ => return Err(UrlError::Parameter),
    };
    Ok(UrlAuth { expires, access, proof })
}

const DAY_SECONDS: i64 = 86_400;

/// `date-time` of RFC 3339 §5.6: `2026-01-31T12:00:00Z`, `…T12:00:00.5+01:00`.
fn moment(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    let two = |at: usize| match (b.get(at)?, b.get(at + 1)?) {
        (x @ b'0'..=b'9', y @ b'0'..=b'9') => Some(u32::from(x - b'0') * 10 + u32::from(y - b'0')),
        _ => None,
    };
    let sign =
        |at: usize, wanted: u8| b.get(at).is_some_and(|b| b.eq_ignore_ascii_case(&wanted)).then_some(());
    let year = two(0)? * 100 + two(2)?;
    sign(4, b'-')?;
    sign(7, b'-')?;
    sign(10, b'T')?;
    sign(13, b':')?;
    sign(16, b':')?;
    let date = Date::new(year as u16, two(5)? as u8, two(8)? as u8)?;
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    if b.get(at) == Some(&b'.') {
        let digits = b.get(at + 1..)?.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
    }
    let offset = match (b.get(at)?, b.len() - at) {
        (b'Z' | b'z', 1) => 0,
        (east @ (b'+' | b'-'), 6) => {
            sign(at + 3, b':')?;
            let (hours, minutes) = (two(at + 1)?, two(at + 4)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = i64::from(hours * 60 + minutes);
            if *east == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    // A leap second counts as the second before.
    let of_day = i64::from(hour * 3600 + minute * 60 + second.min(59));
    Some(date.unix_days() * DAY_SECONDS + of_day - offset * 60)
}

/// Writes text in percent encoding: `achar` and, where it may, `bchar` stay (RFC 5092 §11).
pub(crate) fn encode(f: &mut fmt::Formatter<'_>, text: &str, also: &[u8]) -> fmt::Result {
    for b in text.bytes() {
        // `sub-delims-sh` and `unreserved`
        let stays = b.is_ascii_alphanumeric() || b"-._~!$'()*+,&=".contains(&b) || also.contains(&b);
        if stays {
            f.write_char(char::from(b))?;
        } else {
            write!(f, "%{b:02X}")?;
        }
    }
    Ok(())
}

/// A section without its brackets. Names of header fields are in quotes where they have to be: no
/// literal can stand in a URL.
fn section_text(section: &Section) -> String {
    let mut text = Vec::new();
    if let Some(names) = crate::print::section_head(&mut text, section) {
        for (i, name) in names.iter().enumerate() {
            text.push(if i == 0 { b'(' } else { b' ' });
            if !name.is_empty() && name.bytes().all(is_astring_char) {
                text.extend_from_slice(name.as_bytes());
                continue;
            }
            text.push(b'"');
            for b in name.bytes() {
                if matches!(b, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(b);
            }
            text.push(b'"');
        }
        text.push(b')');
    }
    // The head begins with a bracket.
    String::from_utf8_lossy(&text[1..]).into_owned()
}

impl fmt::Display for ImapUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            server.fmt(f)?;
        }
        if let Some(mailbox) = &self.mailbox {
            f.write_char('/')?;
            encode(f, &mailbox.name, b":@/")?;
            if let Some(validity) = mailbox.uid_validity {
                write!(f, ";UIDVALIDITY={}", validity.value())?;
            }
        }
        let mut slash = if self.mailbox.is_some() { "/" } else { "" };
        if let Some(uid) = self.uid {
            write!(f, "{slash};UID={}", uid.value())?;
            slash = "/";
        }
        if let Some(section) = &self.section {
            write!(f, "{slash};SECTION=")?;
            encode(f, &section_text(section), b":@/")?;
            slash = "/";
        }
        if let Some(partial) = self.partial {
            write!(f, "{slash};PARTIAL={}", partial.offset)?;
            if let Some(count) = partial.count {
                write!(f, ".{count}")?;
            }
        }
        self.auth.as_ref().map_or(Ok(()), |auth| auth.fmt(f))
    }
}

impl fmt::Display for UrlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("imap://")?;
        if let Some(user) = &self.user {
            encode(f, user, b"")?;
        }
        if let Some(mechanism) = &self.mechanism {
            f.write_str(";AUTH=")?;
            encode(f, mechanism, b"")?;
        }
        if self.user.is_some() || self.mechanism.is_some() {
            f.write_char('@')?;
        }
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for UrlAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(expires) = self.expires
            && let Some(day) = Date::from_unix_days(expires.div_euclid(DAY_SECONDS))
        {
            let second = expires.rem_euclid(DAY_SECONDS);
            let (year, month, day) = (day.year(), day.month(), day.day());
            let (hour, minute) = (second / 3600, second / 60 % 60);
            write!(f, ";EXPIRE={year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)?;
        }
        f.write_str(";URLAUTH=")?;
        match &self.access {
            UrlAccess::Submit(user) => {
                f.write_str("submit+")?;
                encode(f, user, b"")?;
            }
            UrlAccess::User(user) => {
                f.write_str("user+")?;
                encode(f, user, b"")?;
            }
            UrlAccess::AuthUser => f.write_str("authuser")?,
            UrlAccess::Anonymous => f.write_str("anonymous")?,
        }
        match &self.proof {
            Some(UrlProof { mechanism, token }) => write!(f, ":{mechanism}:{token}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_urls_of_the_rfcs_mean() {
        for text in [
            "imap://minbari.example.org/gray-council;UIDVALIDITY=385759045/;UID=20/;PARTIAL=0.1024",
            "imap://psicorp.example.org/~peter/%E6%97%A5%E6%9C%AC%E8%AA%9E/%E5%8F%B0%E5%8C%97/;UID=1",
            "imap://;AUTH=GSSAPI@minbari.example.org/gray-council/;UID=20/;SECTION=1.2",
            "imap://michael@example.org/INBOX/;UID=5;EXPIRE=2007-02-01T12:00:00Z;URLAUTH=submit+fred",
            "imap://joe@example.com/INBOX/;UID=20/;SECTION=1.2;URLAUTH=submit+fred:INTERNAL:91354a473744909de610943775f92038",
            "/Drafts;UIDVALIDITY=385759045/;UID=20/;SECTION=HEADER",
            ";UID=3/;SECTION=1.MIME/;PARTIAL=7",
            ";SECTION=1",
            ";PARTIAL=0.1",
            "imap://ana;AUTH=*@[::1]:1143/a/b/;UID=1/;SECTION=HEADER.FIELDS%20(DATE%20FROM)",
        ] {
            let url = ImapUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.to_string(), text);
        }
    }

    #[test]
    fn other_spellings() {
        for (text, same) in [
            ("IMAP://Example.ORG/INBOX/;uid=1", "imap://example.org/INBOX/;UID=1"),
            ("//example.org/INBOX;UID=1", "imap://example.org/INBOX/;UID=1"),
            ("/INBOX/;UID=113330;section=1.5.9", "/INBOX/;UID=113330/;SECTION=1.5.9"),
            ("/;UID=1/;section=text", ";UID=1/;SECTION=TEXT"),
            (
                "/a/;UID=1;EXPIRE=2026-01-01T01:00:00.25+01:00;URLAUTH=AuthUser",
                "/a/;UID=1;EXPIRE=2026-01-01T00:00:00Z;URLAUTH=authuser",
            ),
        ] {
            assert_eq!(ImapUrl::parse(text).map(|url| url.to_string()).as_deref(), Ok(same), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_message() {
        use UrlError as E;
        for (text, error) in [
            ("", E::NoMessage),
            ("http://example.org/INBOX/;UID=1", E::Server),
            ("imap://example.org", E::NoMessage),
            ("imap://example.org/", E::NoMessage),
            ("imap://example.org/INBOX", E::NoMessage),
            ("imap://example.org/INBOX?SUBJECT%20x", E::NoMessage),
            ("imap:///INBOX/;UID=1", E::Server),
            ("imap://@h/INBOX/;UID=1", E::Server),
            ("imap://h:x/INBOX/;UID=1", E::Server),
            ("INBOX/;UID=1", E::RelativeMailbox),
            ("/INBOX/;UID=0", E::Parameter),
            ("/INBOX/;UID=1/;UID=2", E::Parameter),
            ("/INBOX/;SECTION=1/;UID=2", E::Parameter),
            ("/INBOX;UIDVALIDITY=x/;UID=2", E::Parameter),
            ("/INBOX/;UID=2/;SECTION=", E::Parameter),
            ("/INBOX/;UID=2/;SECTION=MIME", E::Parameter),
            ("/INBOX/;UID=2/;SECTION=1]x", E::Parameter),
            ("/INBOX/;UID=2/;PARTIAL=1.0", E::Parameter),
            ("/INBOX/;UID=2/;PARTIAL=-1", E::Parameter),
            ("/IN%4/;UID=2", E::Encoding),
            ("/IN%0D%0A/;UID=2", E::Encoding),
            ("/IN%FF/;UID=2", E::Encoding),
            ("/IN BOX/;UID=2", E::Encoding),
            ("/a/;UID=1;EXPIRE=2026-01-01T01:00:00Z", E::Parameter),
            ("/a/;UID=1;URLAUTH=somebody", E::Parameter),
            ("/a/;UID=1;URLAUTH=user+", E::Parameter),
            ("/a/;UID=1;URLAUTH=anonymous:INTERNAL:1234", E::Parameter),
            ("/a/;UID=1;URLAUTH=anonymous:INTERNAL", E::Parameter),
            ("/a;URLAUTH=anonymous", E::NoMessage),
        ] {
            assert_eq!(ImapUrl::parse(text).map(|url| url.to_string()), Err(error), "{text}");
        }
        assert_eq!(ImapUrl::parse(&format!("/{}/;UID=1", "x".repeat(URL_BYTES_MAX))), Err(E::TooLong));
    }

    #[test]
    fn the_rump_is_what_stands_before_the_proof() {
        let rump = "imap://joe@example.com:143/INBOX/;UID=20;urlauth=submit+fred";
        assert_eq!(ImapUrl::rump(&format!("{rump}:INTERNAL:00")), Some(rump));
        assert_eq!(ImapUrl::rump(rump), None);
        assert_eq!(ImapUrl::rump("/a/;UID=1"), None);
    }
}
