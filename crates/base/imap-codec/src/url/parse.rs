//! Reads IMAP URLs: RFC 5092 §11, RFC 4467 §9.

use std::num::NonZeroU64;

use bytes::Bytes;
use posthaste_mail_model::{Uid, UidValidity};

use super::{
    DAY_SECONDS, ImapUrl, URL_BYTES_MAX, UrlAccess, UrlAuth, UrlError, UrlMailbox, UrlPartial, UrlProof,
    UrlServer,
};
use crate::cursor::{Cursor, Quoting};
use crate::{Date, Section};

/// Hexadecimal digits of an authorisation at most: RFC 4467 §4 has 32 or more.
const TOKEN_DIGITS: std::ops::RangeInclusive<usize> = 32..=256;

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

/// The access of a URL whose `;EXPIRE=` was read, and whose `;URLAUTH=` was not. No user has an
/// empty name.
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
    // The colons of an IPv6 address are in brackets.
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
