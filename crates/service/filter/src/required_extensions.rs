//! The extensions that a host must have to take a message as it is.

use posthaste_queue::header_lines;

/// The extensions that a host must have to take a message as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequiredExtensions {
    /// Octets that are no lines (BINARYMIME, RFC 3030 §3).
    pub binary: bool,
    /// Header fields or addresses in UTF-8 (SMTPUTF8, RFC 6531 §3.4).
    pub smtputf8: bool,
}

impl RequiredExtensions {
    /// The extensions for a message that this server made, of lines.
    pub(crate) fn of_own(text: &[u8]) -> Self {
        Self { binary: false, smtputf8: !is_header_ascii(text) }
    }

    /// The extensions for a stored message, whose envelope is no longer known.
    pub(crate) fn of_stored(text: &[u8]) -> Self {
        Self { binary: !is_lines(text), smtputf8: !is_header_ascii(text) }
    }

    /// The extensions for a report, which has the header of a message in its body.
    pub(crate) fn of_report(text: &[u8]) -> Self {
        Self { binary: false, smtputf8: !text.is_ascii() }
    }
}

/// Whether a message can be sent by DATA as it is: no NUL, and CR and LF only together (RFC 5321
/// §2.3.8).
fn is_lines(text: &[u8]) -> bool {
    let mut last = 0;
    let is_whole = text.iter().all(|byte| {
        let fits = *byte != 0 && (last == b'\r') == (*byte == b'\n');
        last = *byte;
        fits
    });
    is_whole && last != b'\r'
}

/// Whether the header of a message is ASCII. Imported mail may have lines that end with a bare LF.
fn is_header_ascii(message: &[u8]) -> bool {
    header_lines(message).all(<[u8]>::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_eight_bits_needs_no_utf8_header() {
        for (end, blank) in [("\n", "\n"), ("\n", "\r\n"), ("\r\n", "\n"), ("\r\n", "\r\n")] {
            let message = format!("Subject: a{end}{blank}gr\u{fc}\u{df}e\r\n");
            assert!(!RequiredExtensions::of_stored(message.as_bytes()).smtputf8, "{message:?}");
            let message = format!("Subject: gr\u{fc}\u{df}e{end}{blank}a\r\n");
            assert!(RequiredExtensions::of_stored(message.as_bytes()).smtputf8, "{message:?}");
        }
        assert!(!RequiredExtensions::of_stored("\r\ngr\u{fc}\u{df}e\r\n".as_bytes()).smtputf8);
    }
}
