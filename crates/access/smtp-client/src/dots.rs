//! A message as DATA sends it: dots doubled, lines ended by CR LF, and the dot at the end
//! (RFC 5321 §4.5.2, §2.3.8).

/// Octets that are made ready at a time.
pub(crate) const BLOCK: usize = 64 * 1024;

/// Makes a message ready for DATA, part by part.
#[derive(Debug)]
pub(crate) struct Dotted<'m> {
    rest: &'m [u8],
    at_line_start: bool,
    ended: bool,
}

impl<'m> Dotted<'m> {
    pub fn new(message: &'m [u8]) -> Self {
        Self { rest: message, at_line_start: true, ended: false }
    }

    /// Whether the last part has the end of the message.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next part, some [`BLOCK`] octets; `false` at the end.
    ///
    /// A bare CR or LF becomes CR LF. RFC 5321 §2.3.8 forbids to send either. Some hosts take one
    /// for the end of a line, and would see an end of the message where there is none.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.ended {
            return false;
        }
        while out.len() < BLOCK && !self.rest.is_empty() {
            if self.at_line_start && self.rest.first() == Some(&b'.') {
                out.push(b'.');
            }
            let end = memchr::memchr2(b'\r', b'\n', self.rest).unwrap_or(self.rest.len());
            let end = end.min(BLOCK);
            let (line, rest) = self.rest.split_at(end);
            out.extend_from_slice(line);
            self.at_line_start = line.is_empty() && self.at_line_start;
            self.rest = match rest {
                [b'\r', b'\n', rest @ ..] | [b'\r' | b'\n', rest @ ..] => {
                    out.extend_from_slice(b"\r\n");
                    self.at_line_start = true;
                    rest
                }
                rest => rest,
            };
        }
        if self.rest.is_empty() {
            self.ended = true;
            let end: &[u8] = if self.at_line_start { b".\r\n" } else { b"\r\n.\r\n" };
            out.extend_from_slice(end);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn dotted(message: &[u8]) -> Vec<u8> {
        let (mut dotted, mut all, mut part) = (Dotted::new(message), Vec::new(), Vec::new());
        while dotted.next(&mut part) {
            all.extend_from_slice(&part);
        }
        all
    }

    #[test]
    fn known_messages() {
        assert_eq!(dotted(b"a\r\n.b\r\n..\r\n"), b"a\r\n..b\r\n...\r\n.\r\n");
        assert_eq!(dotted(b""), b".\r\n");
        assert_eq!(dotted(b"."), b"..\r\n.\r\n");
        assert_eq!(dotted(b"no end"), b"no end\r\n.\r\n");
    }

    #[test]
    fn nothing_inside_can_be_taken_for_the_end() {
        // Each of these has ended a message at some host.
        for smuggled in ["\n.\n", "\n.\r\n", "\r.\r", "\r\n.\r", "\r\n.\n", "\n.\r"] {
            let sent = dotted(format!("a{smuggled}MAIL FROM:<x>\r\n").as_bytes());
            let text = String::from_utf8(sent).unwrap();
            let body = text.strip_suffix("\r\n.\r\n").unwrap();
            assert!(body.replace("\r\n", "").find(['\r', '\n']).is_none(), "{text:?}");
            assert!(!body.contains("\r\n.\r\n"), "{text:?}");
        }
    }

    #[test]
    fn long_messages_come_in_parts() {
        let message = [vec![b'x'; 3 * BLOCK], b"\r\n.y\r\n".to_vec()].concat();
        assert_eq!(dotted(&message), [vec![b'x'; 3 * BLOCK], b"\r\n..y\r\n.\r\n".to_vec()].concat());
    }

    /// The message as a server reads it (RFC 5321 §4.5.2).
    fn undotted(sent: &[u8]) -> Vec<u8> {
        let body = sent.strip_suffix(b".\r\n").unwrap();
        let mut message = Vec::new();
        for line in body.split_inclusive(|b| *b == b'\n') {
            message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
        message
    }

    properties! {
        #[test]
        fn a_server_reads_the_same_message(message in "([a.]{0,3}\r\n){0,20}") {
            prop_assert_eq!(undotted(&dotted(message.as_bytes())), message.into_bytes());
        }

        #[test]
        fn all_lines_end_in_cr_lf(message in "[a.\r\n]{0,60}") {
            let sent = String::from_utf8(dotted(message.as_bytes())).unwrap();
            prop_assert!(sent.replace("\r\n", "").find(['\r', '\n']).is_none());
            prop_assert_eq!(sent.matches("\r\n.\r\n").count() + usize::from(sent == ".\r\n"), 1);
        }
    }
}
