//! Replies of a server (RFC 5321 §4.2), with their enhanced status (RFC 2034, RFC 3463).

use posthaste_queue::Failure;

/// Octets of a reply's line: RFC 5321 §4.5.3.1.5 says 512; some hosts write more.
pub(crate) const LINE_MAX: usize = 4 * 1024;
/// Lines of a reply: a greeting with all extensions there are has some 30.
pub(crate) const LINES_MAX: usize = 128;
/// Octets of a reply's texts that are kept. Thirty extensions take less than 1 KiB. A person
/// reads the beginning of a refusal.
const TEXTS_MAX: usize = 4 * 1024;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub code: u16,
    /// Texts of its lines, without code and CRLF: those that fit [`TEXTS_MAX`].
    pub lines: Vec<String>,
}

/// One line of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub code: u16,
    pub text: String,
    /// Whether the reply ends with it.
    pub last: bool,
}

impl Line {
    /// Reads a line without its CRLF; `None` if it is not a line of a reply.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let (code, rest) = line.split_at_checked(3)?;
        let code: u16 =
            std::str::from_utf8(code).ok().filter(|c| c.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
        // RFC 5321 §4.2.1.
        if !(200..600).contains(&code) {
            return None;
        }
        let (last, text) = match rest {
            [] => (true, rest),
            [b' ', text @ ..] => (true, text),
            [b'-', text @ ..] => (false, text),
            _ => return None,
        };
        Some(Self { code, text: String::from_utf8_lossy(text).into_owned(), last })
    }
}

impl Reply {
    /// A reply without lines so far.
    pub fn new(code: u16) -> Self {
        Self { code, lines: Vec::new() }
    }

    /// Adds the text of a line if there is room. The first one has the status, and is cut. Others
    /// are kept as they came or not at all: a cut `SIZE 1000` would be another limit.
    pub fn push(&mut self, mut text: String) {
        if self.lines.is_empty() {
            text.truncate(text.floor_char_boundary(TEXTS_MAX));
        }
        let len: usize = self.lines.iter().map(String::len).sum();
        if len + text.len() <= TEXTS_MAX {
            self.lines.push(text);
        }
    }

    /// What the reply says about a command.
    pub fn outcome(&self) -> Result<(), Failure> {
        if self.is_positive() { Ok(()) } else { Err(self.failure()) }
    }

    pub fn is_positive(&self) -> bool {
        self.code < 400
    }

    /// The reply for a person, in one line. Control characters of the host become blanks:
    /// `posthaste queue` prints the text on a terminal.
    pub fn text(&self) -> String {
        let mut text = self.code.to_string();
        for line in &self.lines {
            text.push(' ');
            text.extend(line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }));
        }
        text
    }

    /// A refusal. The status is the one that the host gave, if its class fits the code.
    pub fn failure(&self) -> Failure {
        let is_permanent = self.code >= 500;
        let class = if is_permanent { '5' } else { '4' };
        let given = self.lines.first().and_then(|line| line.split(' ').next());
        let status = given.filter(|status| status.starts_with(class) && is_status(status));
        let status = status.map_or_else(|| format!("{class}.0.0"), str::to_owned);
        match is_permanent {
            true => Failure::permanent(&status, self.text()),
            false => Failure::temporary(&status, self.text()),
        }
    }
}

/// `class "." subject "." detail` of RFC 3463 §2. A class has one digit, the others three at most.
fn is_status(text: &str) -> bool {
    let mut parts = text.split('.');
    let number = |part: Option<&str>| {
        part.is_some_and(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
    };
    parts.next().is_some_and(|class| class.len() == 1)
        && number(parts.next())
        && number(parts.next())
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use posthaste_queue::REPLY_CHARS_MAX;

    use super::*;

    #[test]
    fn lines_of_replies() {
        let line = |text: &str| Line::parse(text.as_bytes()).map(|l| (l.code, l.text, l.last));
        assert_eq!(line("250-SIZE 10"), Some((250, "SIZE 10".into(), false)));
        assert_eq!(line("250 done"), Some((250, "done".into(), true)));
        assert_eq!(line("354"), Some((354, String::new(), true)));
        for wrong in ["", "25", "25x ok", "250ok", "150 x", "600 x", "+50 x"] {
            assert_eq!(line(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_failure_has_the_hosts_status_if_it_fits() {
        let failure = |code, text: &str| Reply { code, lines: vec![text.into()] }.failure();
        assert_eq!(failure(550, "5.1.1 no such user").status, "5.1.1");
        assert_eq!(failure(450, "4.2.0 greylisted").status, "4.2.0");
        assert_eq!(failure(550, "4.2.0 odd").status, "5.0.0");
        assert_eq!(failure(421, "bye").status, "4.0.0");
        assert_eq!(failure(450, "44.2.0 odd").status, "4.0.0");
        assert_eq!(failure(550, "5.1.1 no").reply, "550 5.1.1 no");
        assert_eq!(failure(550, "5.1.1 \u{1b}[2Ja\rb\u{9b}").reply, "550 5.1.1  [2Ja b ");
        assert!(failure(550, "x").permanent && !failure(450, "x").permanent);
    }

    #[test]
    fn texts_beyond_the_bound_are_dropped() {
        let octets = |reply: &Reply| reply.lines.iter().map(String::len).sum::<usize>();
        let mut reply = Reply::new(550);
        reply.push(format!("5.1.1 {}", "ü".repeat(TEXTS_MAX)));
        assert!((TEXTS_MAX - 1..=TEXTS_MAX).contains(&octets(&reply)));
        assert_eq!(reply.failure().status, "5.1.1");
        assert_eq!(reply.failure().reply.chars().count(), REPLY_CHARS_MAX);
        let mut reply = Reply::new(250);
        for line in ["mx.test", "PIPELINING", &"x".repeat(TEXTS_MAX), "SIZE 1000"] {
            reply.push(line.to_owned());
        }
        assert_eq!(reply.lines, ["mx.test", "PIPELINING", "SIZE 1000"]);
    }
}
