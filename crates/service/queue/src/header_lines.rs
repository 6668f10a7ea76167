//! The header of a message that is sent on.

/// The lines of a message's header, each with its end. A bare LF ends a line, too: the host that
/// sends the message on makes CR LF of it. So what follows a blank line of any kind is its body.
pub fn header_lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = message.split_inclusive(|octet| *octet == b'\n');
    lines.take_while(|line| !matches!(*line, b"\n" | b"\r\n"))
}
