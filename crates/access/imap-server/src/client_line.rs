//! The line of the log that names the client program of a session.
//!
//! A client names itself by ID (RFC 2971), before its login too, and as often as it likes. The
//! log has the line once for a session, after the login. So unauthenticated clients write nothing
//! into it.

/// Octets of an ID that go to the log. Ordinary clients send under 300. RFC 2971 §3.3 allows 30
/// fields of 1,024 octets.
const SHOWN_MAX: usize = 512;

/// The log line about a session's client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientLine {
    /// Nothing yet: the client has not named itself.
    #[default]
    Unnamed,
    /// The latest ID, before the login.
    Due(Box<str>),
    /// The line was written.
    Written,
}

impl ClientLine {
    /// Remembers an ID, unless the line was written.
    pub(crate) fn name(&mut self, fields: &[(String, Option<String>)]) {
        if *self != Self::Written {
            *self = Self::Due(shown(fields).into());
        }
    }

    /// The line, if there is one to write. The caller writes it, and the session has logged in.
    pub(crate) fn take(&mut self) -> Option<Box<str>> {
        match std::mem::take(self) {
            Self::Due(line) => {
                *self = Self::Written;
                Some(line)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

/// The client's ID, cut to a bounded length and without characters that could end a line of the
/// log.
fn shown(fields: &[(String, Option<String>)]) -> String {
    let mut text = String::new();
    for (key, value) in fields {
        for c in key.chars().chain(['=']).chain(value.as_deref().unwrap_or("NIL").chars()).chain([' ']) {
            if text.len() >= SHOWN_MAX {
                return text + "…";
            }
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: &str) -> Vec<(String, Option<String>)> {
        vec![("name".to_owned(), Some(value.to_owned())), ("os".to_owned(), None)]
    }

    #[test]
    fn the_log_line_of_a_client_is_bounded() {
        assert_eq!(shown(&fields("aerc")), "name=aerc os=NIL");
        assert_eq!(shown(&fields("a\nb\u{7}")), "name=a\\nb\\u{7} os=NIL");
        let long = shown(&fields(&"\u{1}\u{20ac}".repeat(100_000)));
        assert!(long.len() < SHOWN_MAX + 16 && long.ends_with('…'), "{}", long.len());
    }

    #[test]
    fn a_session_has_one_line_however_often_its_client_names_itself() {
        let mut line = ClientLine::default();
        assert_eq!(line.take(), None);
        line.name(&fields("first"));
        line.name(&fields("second"));
        assert_eq!(line.take().as_deref(), Some("name=second os=NIL"));
        line.name(&fields("third"));
        assert_eq!(line.take(), None);
    }
}
