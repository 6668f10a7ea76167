//! Replies: RFC 5804 §1.2, §1.3, §4.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The first word of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    No,
    Bye,
}

/// A reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// The response code in its form on the wire, as `QUOTA/MAXSIZE`.
    pub(crate) code: Option<Cow<'static, str>>,
    pub(crate) text: Cow<'static, str>,
}

impl Reply {
    pub(crate) fn ok(text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: Status::Ok, code: None, text: text.into() }
    }

    pub(crate) fn no(text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: Status::No, code: None, text: text.into() }
    }

    pub(crate) fn bye(text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: Status::Bye, code: None, text: text.into() }
    }

    pub(crate) fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    pub(crate) fn print(&self, into: &mut String) {
        into.push_str(match self.status {
            Status::Ok => "OK",
            Status::No => "NO",
            Status::Bye => "BYE",
        });
        if let Some(code) = &self.code {
            let _ = write!(into, " ({code})");
        }
        into.push(' ');
        string(&self.text, into);
        into.push_str("\r\n");
    }
}

/// Octets of a quoted string at most: RFC 5804 §4.
const QUOTED_LEN_MAX: usize = 1024;

/// Prints a string: quoted if it can be, else as a literal.
pub(crate) fn string(text: &str, into: &mut String) {
    if text.len() > QUOTED_LEN_MAX || text.contains(['\r', '\n', '\0']) {
        literal(text, into);
        return;
    }
    into.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            into.push('\\');
        }
        into.push(c);
    }
    into.push('"');
}

/// Prints a string as a literal: from a server they have no `+`.
pub(crate) fn literal(text: &str, into: &mut String) {
    let _ = write!(into, "{{{}}}\r\n{text}", text.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_printed() {
        let printed = |reply: Reply| {
            let mut text = String::new();
            reply.print(&mut text);
            text
        };
        assert_eq!(printed(Reply::ok("a \"b\" \\")), "OK \"a \\\"b\\\" \\\\\"\r\n");
        assert_eq!(printed(Reply::no("1\r\n2").with_code("ACTIVE")), "NO (ACTIVE) {4}\r\n1\r\n2\r\n");
        assert_eq!(printed(Reply::bye("x")), "BYE \"x\"\r\n");
    }
}
