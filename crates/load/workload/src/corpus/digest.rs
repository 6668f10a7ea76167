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
pub fn digest_of(bytes: &[u8]) -> String {
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

/// A serial in hexadecimal digits, and nothing else.
fn hexadecimal(digits: &[u8]) -> Option<Serial> {
    digits.iter().try_fold(0, |n, digit| Some(n << 4 | Serial::from(char::from(*digit).to_digit(16)?)))
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
        let Some(at) = memmem::find(&self.head, DIGEST_HEADER.as_bytes()) else {
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
}
