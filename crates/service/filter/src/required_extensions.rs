//! The extensions that a host must have to take a message as it is.

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

/// Whether the header of a message is ASCII.
fn is_header_ascii(message: &[u8]) -> bool {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(message.len());
    message.get(..end).is_none_or(<[u8]>::is_ascii)
}
