//! Prints IMAP URLs, so that they are read again as they were.

use std::fmt::{self, Write as _};

use super::{DAY_SECONDS, ImapUrl, UrlAccess, UrlAuth, UrlProof, UrlServer};
use crate::chars::is_astring_char;
use crate::{Date, Section};

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
/// literal can be in a URL.
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
