//! Rich mail: messages with a `winmail.dat` (TNEF), as Outlook and Exchange send them.
//!
//! A server may convert such a message to MIME. So it has two digests: that of the message as
//! sent, and that of its MIME by our own converter. The server makes the boundaries of the MIME
//! from a hash of the message as it stored it, trace headers included. [`WithoutBoundaries`]
//! leaves those names out.
//!
//! Encoding TNEF and converting it would cost the generator more than the server. So bodies are
//! made once, and messages differ in their headers. Neither the body as sent nor its MIME depends
//! on the header.

use base64::Engine as _;
use posthaste_tnef::tags::{attribute, property};
use posthaste_tnef::{Attachment, Attribute, Message, Outcome, Property, Value, convert, encode, rtf};

use super::Sizes;
use super::pool::Pool;
use crate::random::Random;

/// Bodies without an attachment. Their sizes are drawn, so the mean of this number is within a
/// tenth of the distribution's mean.
const PLAIN_BODIES: u64 = 192;
/// Bodies with an attachment, where sizes have them.
const ATTACHED_BODIES: u64 = 24;
/// One in this many messages with attachments in the mix has one.
const ATTACHMENT_ONE_IN: u64 = 10;
/// The text before an attachment, in bytes.
const TEXT_WITH_ATTACHMENT: usize = 1_000;
/// The stream of random numbers of the bodies: no serial has this number.
const STREAM: u64 = u64::MAX - 1;
const PART_BREAK: &str = "=_posthaste_rich_break";
/// A header that has all fields which a converter might add.
const ANY_HEADER: &str = "Date: Thu, 01 Jan 2026 00:00:00 +0000\r\nFrom: <a@example.org>\r\nTo: <b@example.org>\r\n\
                          Subject: any\r\nMessage-ID: <any@posthaste-load.invalid>\r\nMIME-Version: 1.0\r\n";

/// A body and what a server makes of it. Both begin with `Content-Type`.
pub(super) struct RichBody {
    pub(super) sent: Vec<u8>,
    pub(super) mime: Vec<u8>,
}

/// The bodies of rich messages.
pub(super) struct RichPool {
    plain: Vec<RichBody>,
    attached: Vec<RichBody>,
}

impl RichPool {
    /// Bodies of these sizes. The size of a message is that of its MIME.
    pub(super) fn new(seed: u64, sizes: &Sizes, html: &Pool) -> Self {
        let mut random = Random::new(seed, STREAM);
        let attachments = if matches!(sizes, Sizes::Wide(_)) { ATTACHED_BODIES } else { 0 };
        let header = ANY_HEADER.len();
        let mut make = |with: With| {
            let bytes = sizes.draw(&mut random, with == With::File) as usize;
            body(bytes.saturating_sub(header), with, &mut random, html)
        };
        Self {
            plain: (0..PLAIN_BODIES).map(|_| make(With::Text)).collect(),
            attached: (0..attachments).map(|_| make(With::File)).collect(),
        }
    }

    /// One of them.
    pub(super) fn pick(&self, random: &mut Random) -> Option<&RichBody> {
        if !self.attached.is_empty() && random.below(ATTACHMENT_ONE_IN) == 0 {
            return random.pick(&self.attached);
        }
        random.pick(&self.plain)
    }
}

/// The content of a body.
#[derive(Clone, Copy, PartialEq)]
enum With {
    /// A text.
    Text,
    /// A text and a file.
    File,
}

/// A text, and a `winmail.dat` with the same as HTML in RTF, and a file.
fn body(bytes: usize, with: With, random: &mut Random, html: &Pool) -> RichBody {
    let words = match with {
        With::Text => bytes.saturating_sub(700),
        With::File => TEXT_WITH_ATTACHMENT.min(bytes),
    };
    let mut lines = Vec::new();
    // The text has three bytes for four of the page.
    html.write(random, words * 4 / 7, &mut lines);
    let lines = String::from_utf8_lossy(&lines);
    let page = format!("<html><body>\r\n{lines}</body></html>\r\n");
    let mut message = Message {
        attributes: vec![Attribute {
            id: attribute::MESSAGE_CLASS,
            data: b"IPM.Microsoft Mail.Note\0".to_vec(),
        }],
        properties: vec![Property::new(
            property::RTF_COMPRESSED,
            Value::Binary(rtf::compress(&rtf::wrap_html(&page))),
        )],
        ..Message::default()
    };
    if with == With::File {
        // Base64 makes four bytes of three.
        let file = (0..bytes.saturating_sub(words) * 3 / 4 / 8).flat_map(|_| random.next_u64().to_le_bytes());
        message.attachments.push(attachment(file.collect()));
    }
    let mut sent = format!(
        "Content-Type: multipart/mixed; boundary=\"{PART_BREAK}\"\r\n\r\n--{PART_BREAK}\r\n\
         Content-Type: text/plain; charset=us-ascii\r\n\r\n"
    )
    .into_bytes();
    without_tags(&lines, &mut sent);
    sent.extend_from_slice(
        format!(
            "--{PART_BREAK}\r\nContent-Type: application/ms-tnef; name=\"winmail.dat\"\r\n\
             Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"winmail.dat\"\r\n\r\n"
        )
        .as_bytes(),
    );
    // Our own encoder fails only on values that are too long for the format; these are not.
    for chunk in encode(&message).unwrap_or_default().chunks(57) {
        sent.extend_from_slice(base64::engine::general_purpose::STANDARD.encode(chunk).as_bytes());
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(format!("--{PART_BREAK}--\r\n").as_bytes());
    let whole = [ANY_HEADER.as_bytes(), &sent].concat();
    let mime = match convert(&whole) {
        Ok(Outcome::Converted(mime)) => mime.get(ANY_HEADER.len()..).unwrap_or_default().to_vec(),
        // A test converts every body, so this is never so.
        Ok(Outcome::Ordinary | Outcome::Sealed) | Err(_) => sent.clone(),
    };
    RichBody { sent, mime }
}

/// The text of a page without entities.
fn without_tags(page: &str, into: &mut Vec<u8>) {
    for piece in page.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)) {
        into.extend_from_slice(piece.as_bytes());
    }
}

fn attachment(file: Vec<u8>) -> Attachment {
    Attachment {
        attributes: vec![
            Attribute { id: attribute::ATTACH_DATA, data: file },
            Attribute { id: attribute::ATTACH_TITLE, data: b"attachment.bin\0".to_vec() },
        ],
        properties: vec![Property::new(
            property::ATTACH_LONG_FILENAME,
            Value::String("attachment.bin".to_owned()),
        )],
        ..Attachment::default()
    }
}

/// Digits of the hash in a boundary that the server's converter made: `=_`, these, `_`, a number.
const HASH_DIGITS: usize = 24;
const MARK: &[u8] = b"=_";

/// CRC-32C and length of bytes, with zeros in place of the hash in each boundary.
#[derive(Debug, Default)]
pub(super) struct WithoutBoundaries {
    /// The end of what came, if a boundary may begin there.
    held: Vec<u8>,
    crc: u32,
    bytes: u64,
}

impl WithoutBoundaries {
    /// Takes the next bytes.
    pub(super) fn feed(&mut self, chunk: &[u8]) {
        if self.held.is_empty() {
            let rest = self.scan(chunk);
            self.held = chunk.get(rest..).unwrap_or_default().to_vec();
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(chunk);
            let rest = self.scan(&joined);
            joined.drain(..rest);
            self.held = joined;
        }
    }

    /// Adds what is complete; where the rest begins, which is shorter than a boundary.
    fn scan(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while let Some(at) = bytes.get(done..).and_then(|rest| memchr::memmem::find(rest, MARK)) {
            let hash = done + at + MARK.len();
            let Some(name) = bytes.get(hash..=hash + HASH_DIGITS) else {
                self.add(bytes.get(done..hash - MARK.len()).unwrap_or_default());
                return hash - MARK.len();
            };
            let is_hash = name
                .split_last()
                .is_some_and(|(last, digits)| *last == b'_' && digits.iter().all(u8::is_ascii_hexdigit));
            self.add(bytes.get(done..hash).unwrap_or_default());
            done = hash;
            if is_hash {
                self.add(&[b'0'; HASH_DIGITS]);
                done += HASH_DIGITS;
            }
        }
        let end = bytes.len() - usize::from(bytes.last() == Some(&b'=') && done < bytes.len());
        self.add(bytes.get(done..end).unwrap_or_default());
        end
    }

    fn add(&mut self, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.bytes += bytes.len() as u64;
    }

    /// CRC and length.
    pub(super) fn finish(mut self) -> (u32, u64) {
        let held = std::mem::take(&mut self.held);
        self.add(&held);
        (self.crc, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn unbound(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> (u32, u64) {
        let mut all = WithoutBoundaries::default();
        chunks.into_iter().for_each(|c| all.feed(c.as_ref()));
        all.finish()
    }

    #[test]
    fn every_body_is_rich_and_is_converted() {
        let mut random = Random::new(1, 1);
        let html = Pool::html(&mut random);
        let pool = RichPool::new(7, &Sizes::Wide(0.1), &html);
        assert_eq!((pool.plain.len() as u64, pool.attached.len() as u64), (PLAIN_BODIES, ATTACHED_BODIES));
        for body in pool.plain.iter().chain(&pool.attached) {
            assert_ne!(body.sent, body.mime);
            assert!(memchr::memmem::find(&body.mime, b"text/html").is_some());
            assert!(memchr::memmem::find(&body.mime, b"ms-tnef").is_none());
        }
        assert!(pool.attached.iter().all(|b| memchr::memmem::find(&b.mime, b"attachment.bin").is_some()));
    }

    #[test]
    fn sizes_are_those_of_the_mime() {
        let mut random = Random::new(1, 1);
        let html = Pool::html(&mut random);
        for bytes in [5_000, 20_000] {
            let pool = RichPool::new(7, &Sizes::Fixed(bytes), &html);
            let found = pool.plain[0].mime.len() as u64 + ANY_HEADER.len() as u64;
            assert!(found.abs_diff(bytes) < bytes / 10 + 300, "{found} for {bytes}");
        }
    }

    properties! {
        #[test]
        fn hashes_of_boundaries_do_not_count(pieces in prop::collection::vec("[a=_\r\n-]{0,9}", 0..6), size in 1usize..40) {
            let join = |hash: &str| pieces.join(&format!("=_{hash}_1")).into_bytes();
            let (one, other) = (join(&"a1".repeat(12)), join(&"9f".repeat(12)));
            prop_assert_eq!(unbound(one.chunks(size)), unbound([&other]));
            prop_assert_eq!(unbound([&one]).1, one.len() as u64);
            let longer = [one.as_slice(), b"="].concat();
            prop_assert_ne!(unbound(longer.chunks(size)), unbound([&one]));
        }
    }
}
