//! Commands of clients that send no message and do not log in.

use std::time::Duration;

use posthaste_net::CommandsBeforeLogin;

/// Octets of a later chunk that is no command by itself. Answering it takes as long as receiving
/// some 500 octets. With half of them, clients could have most answers without a wait. Twice as
/// many would slow down programs that send a line at a time.
const CHUNK_LEAST: u64 = 512;

/// Whether a line announces a chunk of at least [`CHUNK_LEAST`] octets (RFC 3030 §2).
pub(super) fn is_long_chunk(line: &[u8]) -> bool {
    let size = line.split(|octet| *octet == b' ').nth(1);
    let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse::<u64>().ok());
    size.is_some_and(|size| size >= CHUNK_LEAST)
}

/// Commands of a client that has not logged in, since its last message.
#[derive(Default)]
pub(super) struct WithoutMessage {
    recipients: usize,
    others: CommandsBeforeLogin,
}

impl WithoutMessage {
    /// Counts a command. How long it has to wait, if it has to. The recipients of one message do
    /// not count, and neither do its later chunks, if they are long.
    pub(super) fn count(&mut self, verb: &str, recipients_max: usize) -> Option<Duration> {
        if verb == "RCPT" && self.recipients < recipients_max {
            self.recipients += 1;
            return None;
        }
        self.others.count()
    }
}

#[cfg(test)]
mod tests {
    use super::is_long_chunk;

    #[test]
    fn the_announced_octets_of_a_chunk_count() {
        for (line, is_long) in [
            ("BDAT 512", true),
            ("bdat 18446744073709551615 LAST", true),
            ("BDAT 511 LAST", false),
            ("BDAT 0", false),
            ("BDAT", false),
            ("BDAT  512", false),
            ("BDAT -512", false),
            ("BDAT \u{664}\u{664}\u{664}", false),
        ] {
            assert_eq!(is_long_chunk(line.as_bytes()), is_long, "{line}");
        }
    }
}
