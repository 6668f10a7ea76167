//! Replies: a code, an enhanced status code and lines of text; printed, and read back by tests and
//! clients.
//!
//! RFC 5321 §4.2, RFC 2034 §3 and RFC 3463. A printed reply cannot contain a second reply:
//! control characters in the text become spaces.

use std::borrow::Cow;
use std::fmt;

/// An enhanced status code: class, subject, detail (RFC 3463 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced(pub u8, pub u16, pub u16);

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    code: u16,
    enhanced: Option<Enhanced>,
    lines: Vec<Cow<'static, str>>,
}

impl Reply {
    /// A reply of one line with an enhanced status code.
    pub fn new(code: u16, enhanced: Enhanced, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, enhanced: Some(enhanced), lines: vec![text.into()] }
    }

    /// Greetings, answers to EHLO and invitations to continue carry no enhanced status code
    /// (RFC 2034 §4).
    pub fn bare(code: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, enhanced: None, lines: vec![text.into()] }
    }

    /// One more line.
    #[must_use]
    pub fn line(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.lines.push(text.into());
        self
    }

    /// The basic code.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The enhanced code.
    pub fn enhanced(&self) -> Option<Enhanced> {
        self.enhanced
    }

    /// The text of each line.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(AsRef::as_ref)
    }

    /// Whether it is a refusal, for now (4xx) or permanently (5xx).
    pub fn is_refusal(&self) -> bool {
        self.code >= 400
    }

    /// Appends the reply as sent.
    pub fn print(&self, out: &mut Vec<u8>) {
        let count = self.lines.len();
        for (at, text) in self.lines.iter().enumerate() {
            out.reserve(CODES_MAX + text.len() + 2);
            number(out, self.code);
            out.push(if at + 1 == count { b' ' } else { b'-' });
            if let Some(Enhanced(class, subject, detail)) = self.enhanced {
                for (part, end) in [(class.into(), b'.'), (subject, b'.'), (detail, b' ')] {
                    number(out, part);
                    out.push(end);
                }
            }
            out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Reads a whole reply off the front and says how many bytes it took; `None` if it is not all
    /// there, or not a reply.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut used = 0;
        let mut found: Option<Self> = None;
        loop {
            let rest = bytes.get(used..)?;
            let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
            let line = std::str::from_utf8(rest.get(..end)?).ok()?;
            used += end + 2;
            let code: u16 = line.get(..3)?.parse().ok()?;
            let (separator, text) = line.get(3..)?.split_at_checked(1).unwrap_or((" ", ""));
            let (enhanced, text) = enhanced_prefix(code, text);
            let reply = found.get_or_insert(Self { code, enhanced, lines: Vec::new() });
            if reply.code != code {
                return None;
            }
            reply.lines.push(Cow::Owned(text.to_owned()));
            match separator {
                " " => return Some((found?, used)),
                "-" => {}
                _ => return None,
            }
        }
    }
}

/// Octets of a code, an enhanced code and what separates them: `65535 255.65535.65535 `.
const CODES_MAX: usize = 22;

/// Appends the decimal digits of a number.
fn number(out: &mut Vec<u8>, number: u16) {
    if number >= 10 {
        self::number(out, number / 10);
    }
    out.push(b'0' + (number % 10) as u8);
}

/// An enhanced code counts only where its class is the reply's (RFC 2034 §4).
fn enhanced_prefix(code: u16, text: &str) -> (Option<Enhanced>, &str) {
    let parsed = text.split_once(' ').and_then(|(word, rest)| {
        let mut numbers = word.split('.').map(|number| number.parse::<u16>().ok());
        let (class, subject, detail) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let fits = numbers.next().is_none() && class == code / 100 && matches!(class, 2 | 4 | 5);
        fits.then_some((Enhanced(class as u8, subject, detail), rest))
    });
    match parsed {
        Some((enhanced, rest)) => (Some(enhanced), rest),
        None => (None, text),
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.print(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_replies() {
        let reply = Reply::new(250, Enhanced(2, 1, 5), "Recipient taken");
        assert_eq!(reply.to_string(), "250 2.1.5 Recipient taken\r\n");
        let reply = Reply::bare(250, "mail.example").line("PIPELINING").line("SIZE 10");
        assert_eq!(reply.to_string(), "250-mail.example\r\n250-PIPELINING\r\n250 SIZE 10\r\n");
        assert!(!reply.is_refusal());
    }

    #[test]
    fn text_cannot_forge_a_reply() {
        let reply = Reply::new(550, Enhanced(5, 1, 1), "a\r\n250 ok\0".to_owned());
        assert_eq!(reply.to_string(), "550 5.1.1 a  250 ok \r\n");
    }

    #[test]
    fn incomplete_input_is_not_read() {
        for bad in ["", "250", "250 ok", "250-ok\r\n", "250-a\r\n251 b\r\n", "2x0 a\r\n", "250?a\r\n"] {
            assert_eq!(Reply::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Reply::parse(b"250\r\n").unwrap().1, 5);
    }

    properties! {
        #[test]
        fn printed_replies_are_read_back(
            class in prop::sample::select(vec![2_u8, 4, 5]),
            rest in 0..100_u16,
            enhanced in any::<Option<(u16, u16)>>(),
            lines in prop::collection::vec("[ -~ü]{0,40}", 1..5),
            behind in "[a-z]{0,5}",
        ) {
            // Text that looks like an enhanced code would be read as one.
            let lines: Vec<_> = lines.into_iter().map(|line| Cow::Owned(line.replace('.', ","))).collect();
            let enhanced = enhanced.map(|(subject, detail)| Enhanced(class, subject, detail));
            let reply = Reply { code: u16::from(class) * 100 + rest, enhanced, lines };
            let mut printed = reply.to_string().into_bytes();
            let length = printed.len();
            printed.extend_from_slice(behind.as_bytes());
            prop_assert_eq!(Reply::parse(&printed), Some((reply, length)));
        }

        #[test]
        fn anything_may_be_sent(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Reply::parse(&bytes);
        }
    }
}
