//! Serial and digest: they identify and check a message that is read back.
//!
//! The digest is CRC-32C with the number of bytes. It guards against accidents of storage and
//! transport, not against an adversary; it costs the generator a tenth of a nanosecond per byte.
//! Rich mail has a second one, of its MIME.

use std::sync::OnceLock;

use memchr::memmem;

use super::Serial;
use super::rich::WithoutBoundaries;

/// Header with the serial.
pub(super) const SERIAL_HEADER: &str = "X-Posthaste-Serial: ";
/// Header with the digest of all bytes after its line.
pub(super) const DIGEST_HEADER: &str = "X-Posthaste-Digest: ";
/// Where a digest's header must have come: trace headers put before it are at most this long.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The word by which a serial appears in headers and can be searched.
pub fn serial_token(serial: Serial) -> String {
    format!("ph-{serial:016x}")
}

/// The digest's text of some bytes.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    digest_text(crc32c::crc32c(bytes), bytes.len() as u64)
}

/// The two digests of rich mail: as sent, and as MIME without the names of boundaries.
pub(super) fn rich_digest_of(sent: &[u8], mime: [&[u8]; 2]) -> String {
    let mut unbound = WithoutBoundaries::default();
    mime.iter().for_each(|part| unbound.feed(part));
    let (crc, bytes) = unbound.finish();
    format!("{}{MIME_MARK}{}", digest_of(sent), digest_text(crc, bytes))
}

/// Before the second digest.
const MIME_MARK: &str = "; mime ";

fn digest_text(crc: u32, bytes: u64) -> String {
    format!("crc32c={crc:08x}; bytes={bytes:010}")
}

/// The serial in a header block, from our own field or from the Message-ID.
pub fn serial_in_header(header: &[u8]) -> Option<Serial> {
    let finder = TOKEN.get_or_init(|| memmem::Finder::new(b"ph-"));
    finder.find_iter(header).find_map(|at| hexadecimal(header.get(at + 3..at + 19)?))
}

/// Searches for the start of a token. Listings search in every header.
static TOKEN: OnceLock<memmem::Finder<'static>> = OnceLock::new();
/// Searches for the header with the digest. A read body is searched as often as its head arrives.
static DIGEST: OnceLock<memmem::Finder<'static>> = OnceLock::new();

/// The value of each hexadecimal digit, and [`NO_DIGIT`] for other octets.
static DIGITS: [u8; 256] = digits();
/// A bit that no digit has.
const NO_DIGIT: u8 = 0x80;

const fn digits() -> [u8; 256] {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
}

/// A serial in hexadecimal digits, and nothing else. A listing reads one for each message, so no
/// digit has a branch.
fn hexadecimal(digits: &[u8]) -> Option<Serial> {
    let (mut serial, mut all) = (0, 0);
    for digit in digits {
        let value = DIGITS[usize::from(*digit)];
        all |= value;
        serial = serial << 4 | Serial::from(value & 0xf);
    }
    (all & NO_DIGIT == 0).then_some(serial)
}

/// The verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ours, whole and unaltered.
    Good(Serial),
    /// Ours and altered: the serial if it could be read, and what is wrong.
    Altered(Option<Serial>, String),
    /// Not generated here.
    Foreign,
}

/// Checks a message as it streams by.
#[derive(Debug, Default)]
pub struct Verifier {
    head: Vec<u8>,
    /// After the digest's line: its digest, and the serial above it.
    announced: Option<(String, Option<Serial>)>,
    foreign: bool,
    crc: u32,
    bytes: u64,
    /// The digest as MIME, if two are announced.
    unbound: Option<WithoutBoundaries>,
}

impl Verifier {
    /// Takes the next bytes.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.foreign {
            return;
        }
        if self.announced.is_some() {
            self.digest(chunk);
            return;
        }
        self.head.extend_from_slice(chunk);
        let finder = DIGEST.get_or_init(|| memmem::Finder::new(DIGEST_HEADER));
        let Some(at) = finder.find(&self.head) else {
            self.foreign = self.head.len() > HEAD_BYTES_MAX;
            return;
        };
        let from = at + DIGEST_HEADER.len();
        let Some(end) = memchr::memchr(b'\n', &self.head[from..]) else { return };
        let head = std::mem::take(&mut self.head);
        let (above, rest) = head.split_at(from);
        let (line, rest) = rest.split_at(end + 1);
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        self.unbound = text.contains(MIME_MARK).then(WithoutBoundaries::default);
        self.announced = Some((text, serial_in_header(above)));
        self.digest(rest);
    }

    fn digest(&mut self, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.bytes += bytes.len() as u64;
        if let Some(unbound) = &mut self.unbound {
            unbound.feed(bytes);
        }
    }

    /// The verdict, at the end of the message.
    pub fn verdict(self) -> Verdict {
        let Some((announced, serial)) = self.announced else { return Verdict::Foreign };
        let found = digest_text(self.crc, self.bytes);
        let is_it = match (announced.split_once(MIME_MARK), self.unbound) {
            (Some((sent, mime)), Some(unbound)) => {
                let (crc, bytes) = unbound.finish();
                sent == found || mime == digest_text(crc, bytes)
            }
            _ => announced == found,
        };
        match serial {
            Some(serial) if is_it => Verdict::Good(serial),
            Some(_) => {
                Verdict::Altered(serial, format!("its header names {announced}, its content has {found}"))
            }
            None => Verdict::Altered(None, "it carries a digest and no serial".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_of_a_known_string() {
        // The check value of CRC-32C (RFC 3720 §B.4 uses the same polynomial).
        assert_eq!(digest_of(b"123456789"), "crc32c=e3069283; bytes=0000000009");
    }

    #[test]
    fn serials_are_found_in_headers() {
        assert_eq!(serial_in_header(b"Subject: graph-x ph-00000000000000ff\r\n"), Some(255));
        assert_eq!(serial_in_header(b"Subject: ph-short\r\n"), None);
    }

    #[test]
    fn a_serial_has_hexadecimal_digits_alone() {
        for octet in 0..=255u8 {
            for place in [0, 7, 15] {
                let mut token = *b"ph-00000000000000ff";
                token[3 + place] = octet;
                let digits = token[3..].iter().map(|digit| char::from(*digit).to_digit(16));
                let expected = digits.collect::<Option<Vec<u32>>>();
                let expected = expected.map(|all| all.iter().fold(0, |n, d| n << 4 | Serial::from(*d)));
                assert_eq!(serial_in_header(&token), expected, "{octet} at {place}");
            }
        }
    }

    #[test]
    fn where_a_message_is_cut_does_not_matter() {
        let body = b"Subject: x\r\n\r\n. one\r\ntwo\r\n";
        let head = format!("Received: here\r\n{SERIAL_HEADER}{}\r\n", serial_token(77));
        let head = format!("{head}{DIGEST_HEADER}{}\r\n", digest_of(body));
        let message = [head.as_bytes(), body].concat();
        for size in 1..=message.len() {
            let mut verifier = Verifier::default();
            message.chunks(size).for_each(|chunk| verifier.feed(chunk));
            assert_eq!(verifier.verdict(), Verdict::Good(77), "in pieces of {size}");
        }
    }
}
