//! One line for each event.

use std::io::Write;

/// Writes each event as one line. Fields that are printed for people may contain what an
/// untrusted client wrote. A control character in them might begin a line that looks like another
/// event.
pub(crate) struct Lines<W> {
    pub(crate) to: W,
    pub(crate) colours: bool,
}

impl<W: Write> Write for Lines<W> {
    /// Each event is written by one call.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let (text, end) = match event.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (event, ""),
        };
        if is_plain(text) {
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let text = String::from_utf8_lossy(text);
        let is_shown = |c: char| !c.is_control() || (self.colours && c == '\x1b');
        match text.chars().all(is_shown) {
            true => self.to.write_all(event)?,
            false => {
                let line = escaped(&text, is_shown) + end;
                self.to.write_all(line.as_bytes())?;
            }
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// A text in which each character that is not shown is escaped, as in a literal of Rust.
pub fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    shown
}

/// Whether text has only ASCII characters that are printed.
///
/// It looks at all octets, also after one that is not printed: a processor then compares many at
/// once.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(0, |others, octet| others | u8::from(!(b' '..=b'~').contains(octet))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let shown = |event: &str, colours| {
            let mut lines = Lines { to: Vec::new(), colours };
            lines.write_all(event.as_bytes()).unwrap();
            String::from_utf8(lines.to).unwrap()
        };
        assert_eq!(shown("a ü=\"b\"\n", false), "a ü=\"b\"\n");
        assert_eq!(shown("a\r\nb\tc\x1b[1m\u{85}\n", false), "a\\r\\nb\\tc\\u{1b}[1m\\u{85}\n");
        assert_eq!(shown("\x1b[1ma\nb\n", true), "\x1b[1ma\\nb\n");
    }

    #[test]
    fn text_is_plain_if_each_octet_is_printed() {
        for octet in 0..=u8::MAX {
            for at in [0, 20, 40] {
                let mut text = [b'x'; 41];
                text[at] = octet;
                assert_eq!(is_plain(&text), (b' '..=b'~').contains(&octet), "{octet} at {at}");
            }
        }
    }
}
