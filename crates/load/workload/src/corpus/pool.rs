//! Lines that bodies are cut from, made once: generating a message is then copying, which costs the
//! generator little.
//!
//! Every line is [`LINE_BYTES`] long with its CRLF, is ASCII, and starts with neither a dot nor
//! "From ".

use crate::random::Random;

/// Bytes of a line with its CRLF: 76 and two, as MIME likes it.
pub(super) const LINE_BYTES: usize = 78;
/// Lines in a pool: 4,096 × 78 = 319 kB, so that few messages share a stretch and a pool fits the
/// cache of a core.
const LINES: usize = 4096;

/// A pool of lines of one kind.
pub(super) struct Pool(Vec<u8>);

/// The vocabulary: long enough for search indexes to have something to do.
const WORDS: &[&str] = &[
    "about",
    "account",
    "after",
    "again",
    "agenda",
    "answer",
    "april",
    "arrive",
    "attached",
    "autumn",
    "before",
    "below",
    "bridge",
    "budget",
    "carry",
    "change",
    "client",
    "colleague",
    "contract",
    "courier",
    "customer",
    "deadline",
    "decide",
    "deliver",
    "despatch",
    "discuss",
    "early",
    "evening",
    "every",
    "figure",
    "final",
    "folder",
    "forward",
    "friday",
    "garden",
    "haste",
    "holiday",
    "horse",
    "inbox",
    "invoice",
    "january",
    "journey",
    "kitchen",
    "later",
    "letter",
    "little",
    "lunch",
    "mailbox",
    "manager",
    "market",
    "meeting",
    "message",
    "minutes",
    "monday",
    "morning",
    "network",
    "number",
    "offer",
    "office",
    "order",
    "packet",
    "paper",
    "parcel",
    "people",
    "please",
    "postal",
    "price",
    "project",
    "quarter",
    "question",
    "receipt",
    "regards",
    "remember",
    "reply",
    "report",
    "review",
    "rider",
    "road",
    "schedule",
    "season",
    "second",
    "server",
    "signed",
    "station",
    "summer",
    "supper",
    "thanks",
    "thursday",
    "ticket",
    "together",
    "tomorrow",
    "travel",
    "tuesday",
    "urgent",
    "version",
    "village",
    "visit",
    "waiting",
    "weather",
    "week",
    "winter",
    "without",
    "yesterday",
];

impl Pool {
    pub fn text(random: &mut Random) -> Self {
        Self::of(random, |random, line, room| {
            words(random, line, room);
        })
    }

    pub fn html(random: &mut Random) -> Self {
        Self::of(random, |random, line, room| {
            let (open, close): (&[u8], &[u8]) = match random.below(5) {
                0 => (b"<p style=\"margin:0\">", b"</p>"),
                1 => (b"<b>", b"</b><br>"),
                2 => (b"<td class=\"c\">", b"</td>"),
                3 => (b"<a href=\"http://example.org/\">", b"</a>"),
                _ => (b"<p>", b"</p>"),
            };
            line.extend_from_slice(open);
            words(random, line, room - close.len());
            line.extend_from_slice(close);
        })
    }

    pub fn base64(random: &mut Random) -> Self {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        Self::of(random, |random, line, room| {
            while line.len() < room {
                line.push(ALPHABET[random.index(64)]);
            }
        })
    }

    fn of(random: &mut Random, mut fill: impl FnMut(&mut Random, &mut Vec<u8>, usize)) -> Self {
        let mut all = Vec::with_capacity(LINES * LINE_BYTES);
        let mut line = Vec::with_capacity(LINE_BYTES);
        for _ in 0..LINES {
            line.clear();
            fill(random, &mut line, LINE_BYTES - 2);
            line.resize(LINE_BYTES - 2, b'=');
            all.extend_from_slice(&line);
            all.extend_from_slice(b"\r\n");
        }
        Self(all)
    }

    /// Appends this many bytes of whole lines (rounded up), from a random line on.
    pub fn write(&self, random: &mut Random, bytes: usize, out: &mut Vec<u8>) {
        let mut left = bytes.div_ceil(LINE_BYTES) * LINE_BYTES;
        let mut at = random.index(LINES) * LINE_BYTES;
        while left > 0 {
            let piece = &self.0[at..(at + left).min(self.0.len())];
            out.extend_from_slice(piece);
            left -= piece.len();
            at = 0;
        }
    }
}

/// Words up to `room` bytes of line, the last one cut.
fn words(random: &mut Random, line: &mut Vec<u8>, room: usize) {
    while line.len() < room {
        line.extend_from_slice(random.pick(WORDS).map_or(&b"post"[..], |w| w.as_bytes()));
        line.push(b' ');
    }
    line.truncate(room);
    if line.last() == Some(&b' ') {
        line.pop();
        line.push(b'.');
    }
}

/// A few words, for subjects.
pub(super) fn subject(random: &mut Random) -> String {
    let words: Vec<&str> = (0..3).filter_map(|_| random.pick(WORDS).copied()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_as_promised() {
        let mut random = Random::new(1, 1);
        for pool in [Pool::text(&mut random), Pool::html(&mut random), Pool::base64(&mut random)] {
            assert_eq!(pool.0.len(), LINES * LINE_BYTES);
            for line in pool.0.chunks(LINE_BYTES) {
                assert!(line.ends_with(b"\r\n") && line.is_ascii());
                assert!(!line.starts_with(b".") && !line.starts_with(b"From "));
                assert!(!line[..LINE_BYTES - 2].contains(&b'\n'));
            }
        }
    }
}
