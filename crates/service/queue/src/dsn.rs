//! The reports that a sender requests: the parameters of MAIL and RCPT of RFC 3461 §4.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Octets of an ENVID at most (RFC 3461 §4.4).
const ENVELOPE_ID_LEN_MAX: usize = 100;
/// Octets of an ORCPT at most (RFC 3461 §4.2).
const ORIGINAL_LEN_MAX: usize = 500;

/// The outcomes that are reported: NOTIFY of RCPT (RFC 3461 §4.1). All `false` is `NEVER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Notify {
    /// The message was delivered, or handed to a host that reports nothing.
    pub success: bool,
    /// The message was given up.
    pub failure: bool,
    /// The message is late.
    pub delay: bool,
}

/// The part of a message that a report about a failure returns: RET of MAIL (RFC 3461 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Return {
    /// The whole message.
    #[serde(rename = "FULL")]
    Full,
    /// The header of the message.
    #[serde(rename = "HDRS")]
    Headers,
}

/// The sender's name for a transaction: ENVID of MAIL (RFC 3461 §4.4), in xtext.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvelopeId(String);

/// A recipient's address as the sender gave it, before any alias: ORCPT of RCPT (RFC 3461 §4.2,
/// RFC 6533 §3), as `rfc822;ana@example.org` with the address in xtext.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OriginalRecipient(String);

impl Notify {
    /// `NEVER`.
    pub const NEVER: Self = Self { success: false, failure: false, delay: false };

    /// Reads a value, in any case of letters.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("NEVER") {
            return Some(Self::NEVER);
        }
        let mut found = Self::NEVER;
        for word in text.split(',') {
            let flag = match word.to_ascii_uppercase().as_str() {
                "SUCCESS" => &mut found.success,
                "FAILURE" => &mut found.failure,
                "DELAY" => &mut found.delay,
                _ => return None,
            };
            *flag = true;
        }
        Some(found)
    }
}

impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("NEVER");
        }
        let words = [(self.success, "SUCCESS"), (self.failure, "FAILURE"), (self.delay, "DELAY")];
        let words: Vec<_> = words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect();
        f.write_str(&words.join(","))
    }
}

impl Return {
    /// Reads a value, in any case of letters.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Full, Self::Headers].into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text))
    }

    /// As in MAIL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Headers => "HDRS",
        }
    }
}

impl EnvelopeId {
    /// Reads a value. The encoded text is printable ASCII, so that it fits a field of a report.
    pub fn parse(text: &str) -> Option<Self> {
        let decoded = xtext(text).filter(|_| text.len() <= ENVELOPE_ID_LEN_MAX)?;
        is_printable(&decoded).then(|| Self(text.to_owned()))
    }

    /// As in MAIL.
    pub fn as_xtext(&self) -> &str {
        &self.0
    }

    /// The decoded octets.
    pub fn decoded(&self) -> String {
        decoded(&self.0)
    }
}

impl OriginalRecipient {
    /// Reads a value.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, address) = text.split_once(';').filter(|_| text.len() <= ORIGINAL_LEN_MAX)?;
        let is_atom = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if kind.is_empty() || !kind.bytes().all(is_atom) {
            return None;
        }
        let is_good = match kind.eq_ignore_ascii_case("utf-8") {
            // RFC 6533 §3: UTF-8 as it is, or `\x{…}` for each character beyond ASCII.
            true => !address.is_empty() && address.chars().all(|c| !c.is_control() && !" +=".contains(c)),
            false => xtext(address).is_some_and(|octets| is_printable(&octets)),
        };
        is_good.then(|| Self(text.to_owned()))
    }

    /// As in RCPT.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As in the field Original-Recipient of a report (RFC 3464 §2.3.1).
    pub fn field(&self) -> String {
        match self.0.split_once(';') {
            Some((kind, address)) if kind.eq_ignore_ascii_case("utf-8") => format!("{kind}; {address}"),
            Some((kind, address)) => format!("{kind}; {}", decoded(address)),
            None => String::new(),
        }
    }
}

/// The octets of an xtext (RFC 3461 §4): printable ASCII without `+` and `=`, which are `+XX`.
/// `None` if the text is not xtext.
pub fn xtext(text: &str) -> Option<Vec<u8>> {
    let hex = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let (mut octets, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        octets.push(match byte {
            b'+' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'=' => return None,
            byte if byte.is_ascii_graphic() => byte,
            _ => return None,
        });
    }
    (!octets.is_empty()).then_some(octets)
}

/// The decoded xtext of a value that was read before.
fn decoded(text: &str) -> String {
    let octets = xtext(text);
    debug_assert!(octets.is_some(), "a value that was read is not xtext");
    String::from_utf8_lossy(&octets.unwrap_or_default()).into_owned()
}

fn is_printable(octets: &[u8]) -> bool {
    octets.iter().all(|octet| octet.is_ascii_graphic() || *octet == b' ')
}

/// A type that is kept as its text.
macro_rules! kept_as_text {
    ($type:ty, $what:literal, $text:expr) => {
        impl TryFrom<String> for $type {
            type Error = &'static str;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text).ok_or($what)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                let text: fn($type) -> String = $text;
                text(value)
            }
        }
    };
}

kept_as_text!(Notify, "not a value of NOTIFY", |value| value.to_string());
kept_as_text!(EnvelopeId, "not a value of ENVID", |value| value.0);
kept_as_text!(OriginalRecipient, "not a value of ORCPT", |value| value.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_is_never_or_a_list() {
        for (text, printed) in [
            ("never", Some("NEVER")),
            ("Delay,SUCCESS", Some("SUCCESS,DELAY")),
            ("failure", Some("FAILURE")),
            ("", None),
            ("NEVER,FAILURE", None),
            ("SUCCESS,", None),
        ] {
            assert_eq!(Notify::parse(text).map(|notify| notify.to_string()).as_deref(), printed, "{text}");
        }
    }

    #[test]
    fn text_that_would_break_a_field_is_refused() {
        assert_eq!(EnvelopeId::parse("QQ314159+20a").unwrap().decoded(), "QQ314159 a");
        for text in ["", "a b", "a=b", "a+0Ab", "a+4", "a+zz", "é", &"x".repeat(101)] {
            assert_eq!(EnvelopeId::parse(text), None, "{text}");
        }
        let original = |text: &str| OriginalRecipient::parse(text).map(|original| original.field());
        assert_eq!(original("rfc822;a+2Bb@x.test").as_deref(), Some("rfc822; a+b@x.test"));
        assert_eq!(original("UTF-8;jörg@x.test").as_deref(), Some("UTF-8; jörg@x.test"));
        assert_eq!(original("utf-8;j\\x{F6}rg@x.test").as_deref(), Some("utf-8; j\\x{F6}rg@x.test"));
        for text in ["a@x.test", "rfc822;", ";a", "rfc 822;a", "rfc822;a+0D+0Ab", "rfc822;jörg@x.test"] {
            assert_eq!(original(text), None, "{text}");
        }
    }
}
