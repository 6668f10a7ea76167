//! Making a message from seed, serial and size distribution.

use super::digest::{DIGEST_HEADER, SERIAL_HEADER, digest_of, rich_digest_of};
use super::pool::{Pool, subject};
use super::rich::RichPool;
use super::shares::{own_attachments, shared_attachment};
use super::{Serial, Shares, Sizes, serial_token};
use crate::random::Random;

/// The sender and the recipients of a message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// Address of the sender.
    pub from: &'a str,
    /// Address of the recipient.
    pub to: &'a str,
}

/// The generator: seed and prepared lines. Shared by all threads.
pub struct Corpus {
    seed: u64,
    text: Pool,
    html: Pool,
    base64: Pool,
    rich: Option<Rich>,
    shared_attachments: f64,
}

/// The part of the messages that are rich.
struct Rich {
    share: f64,
    bodies: RichPool,
}

/// Keeps the stream that decides whether a message is rich apart from that of its content.
const RICH_SALT: u64 = 0x5249_4348;

/// One in this many messages of the wide mix has an attachment.
const WIDE_ATTACHMENT_ONE_IN: u64 = 10;
/// Messages are dated in the 300 days from here: 2026-01-01 00:00 UTC.
const DATES_FROM_UNIX: u64 = 1_767_225_600;
const DATES_SECONDS: u64 = 300 * 86_400;
const PART_BREAK: &str = "=_posthaste_part_break";
const LAST_PART: &str = "--=_posthaste_part_break--\r\n";

enum Shape {
    Text,
    Html,
    Alternative,
    Attachment,
}

impl Corpus {
    /// A corpus from a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        Self {
            seed,
            text: Pool::text(&mut random),
            html: Pool::html(&mut random),
            base64: Pool::base64(&mut random),
            rich: None,
            shared_attachments: 0.0,
        }
    }

    /// A corpus from a seed; these shares of the messages are special, and rich mail has these
    /// sizes.
    pub fn with_shares(seed: u64, shares: Shares, sizes: &Sizes) -> Self {
        let mut corpus = Self::new(seed);
        corpus.shared_attachments = shares.shared_attachments;
        if shares.rich > 0.0 {
            let bodies = RichPool::new(seed, sizes, &corpus.html);
            corpus.rich = Some(Rich { share: shares.rich, bodies });
        }
        corpus
    }

    /// Appends message `serial` to `out`.
    pub fn write(&self, serial: Serial, sizes: &Sizes, envelope: Envelope<'_>, out: &mut Vec<u8>) {
        let mut random = Random::new(self.seed, serial);
        let is_rich = |rich: &&Rich| Random::new(self.seed ^ RICH_SALT, serial).unit() < rich.share;
        if let Some(body) = self.rich.as_ref().filter(is_rich).and_then(|r| r.bodies.pick(&mut random)) {
            let mut header = Vec::new();
            self.header(serial, envelope, &mut random, &mut header);
            let sent = [header.as_slice(), &body.sent].concat();
            let digest = rich_digest_of(&sent, [&header, &body.mime]);
            let token = serial_token(serial);
            out.extend_from_slice(
                format!("{SERIAL_HEADER}{token}\r\n{DIGEST_HEADER}{digest}\r\n").as_bytes(),
            );
            out.extend_from_slice(&sent);
            return;
        }
        let mut shared = self.shared(serial, sizes);
        let shape = match sizes {
            _ if shared.is_some() => Shape::Attachment,
            Sizes::Wide(_) => self.shape(&mut random),
            _ => Shape::Html,
        };
        let is_attachment = matches!(shape, Shape::Attachment);
        let bytes = sizes.draw(shared.as_mut().unwrap_or(&mut random), is_attachment) as usize;
        let token = serial_token(serial);
        out.extend_from_slice(format!("{SERIAL_HEADER}{token}\r\n{DIGEST_HEADER}").as_bytes());
        let digest_at = out.len();
        out.extend_from_slice(digest_of(b"").as_bytes());
        out.extend_from_slice(b"\r\n");
        let digested_from = out.len();
        self.header(serial, envelope, &mut random, out);
        let left = bytes.saturating_sub(out.len() - digest_at);
        match shared {
            // The attachment's size does not depend on the header, nor on the message's text.
            Some(mut shared) => {
                self.text_before(&mut random, out);
                self.attachment(bytes, &mut shared, out);
            }
            None => self.body(&shape, left, &mut random, out),
        }
        let digest = digest_of(&out[digested_from..]);
        out[digest_at..digest_at + digest.len()].copy_from_slice(digest.as_bytes());
    }

    /// The header below the digest, without `Content-Type`.
    fn header(&self, serial: Serial, envelope: Envelope<'_>, random: &mut Random, out: &mut Vec<u8>) {
        let date = rfc5322_date(DATES_FROM_UNIX + random.below(DATES_SECONDS));
        let (from, to, seed, words) = (envelope.from, envelope.to, self.seed, subject(random));
        let token = serial_token(serial);
        out.extend_from_slice(
            format!(
                "Date: {date}\r\nFrom: <{from}>\r\nTo: <{to}>\r\nSubject: {words} {token}\r\n\
                 Message-ID: <{token}.{seed:x}@posthaste-load.invalid>\r\nMIME-Version: 1.0\r\n"
            )
            .as_bytes(),
        );
    }

    /// The random numbers of the attachment that this message shares with others, if it does.
    fn shared(&self, serial: Serial, sizes: &Sizes) -> Option<Random> {
        let all = 1.0 / WIDE_ATTACHMENT_ONE_IN as f64;
        matches!(sizes, Sizes::Wide(_))
            .then(|| shared_attachment(self.seed, serial, self.shared_attachments, all))?
    }

    /// The shape of a message of the wide mix that shares nothing.
    fn shape(&self, random: &mut Random) -> Shape {
        let (share, one_in) = (self.shared_attachments, WIDE_ATTACHMENT_ONE_IN);
        let is_attachment = random.below(one_in) == 0
            && (share <= 0.0 || random.unit() < own_attachments(share, 1.0 / one_in as f64));
        if is_attachment {
            return Shape::Attachment;
        }
        match random.below(9) {
            0..5 => Shape::Text,
            5..8 => Shape::Html,
            _ => Shape::Alternative,
        }
    }

    /// The text of a message with an attachment.
    fn text_before(&self, random: &mut Random, out: &mut Vec<u8>) {
        let head = format!("Content-Type: multipart/mixed; boundary=\"{PART_BREAK}\"\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        part(out, "text/plain; charset=us-ascii\r\n");
        self.text.write(random, 1_000, out);
    }

    /// The attachment of a message of this many bytes.
    fn attachment(&self, bytes: usize, random: &mut Random, out: &mut Vec<u8>) {
        let kinds = ["application/pdf", "image/jpeg", "application/zip", "application/msword"];
        let kind = random.pick(&kinds).copied().unwrap_or("application/octet-stream");
        part(out, kind);
        out.extend_from_slice(
            b"Content-Disposition: attachment; filename=\"attachment.bin\"\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        );
        self.base64.write(random, bytes.saturating_sub(1_600), out);
        out.extend_from_slice(LAST_PART.as_bytes());
    }

    fn body(&self, shape: &Shape, bytes: usize, random: &mut Random, out: &mut Vec<u8>) {
        match shape {
            Shape::Text => {
                out.extend_from_slice(b"Content-Type: text/plain; charset=us-ascii\r\n\r\n");
                self.text.write(random, bytes.saturating_sub(46), out);
            }
            Shape::Html => {
                out.extend_from_slice(b"Content-Type: text/html; charset=us-ascii\r\n\r\n<html><body>\r\n");
                self.html.write(random, bytes.saturating_sub(75), out);
                out.extend_from_slice(b"</body></html>\r\n");
            }
            Shape::Alternative => {
                let head = format!("Content-Type: multipart/alternative; boundary=\"{PART_BREAK}\"\r\n\r\n");
                out.extend_from_slice(head.as_bytes());
                part(out, "text/plain; charset=us-ascii\r\n");
                self.text.write(random, bytes.saturating_sub(360) / 3, out);
                part(out, "text/html; charset=us-ascii\r\n");
                self.html.write(random, bytes.saturating_sub(360) * 2 / 3, out);
                out.extend_from_slice(LAST_PART.as_bytes());
            }
            Shape::Attachment => {
                self.text_before(random, out);
                self.attachment(bytes, random, out);
            }
        }
    }
}

/// Appends the first lines of a part.
fn part(out: &mut Vec<u8>, kind: &str) {
    out.extend_from_slice(format!("--{PART_BREAK}\r\nContent-Type: {kind}\r\n").as_bytes());
}

/// A date as RFC 5322 §3.3 writes it, in UTC.
fn rfc5322_date(unix: u64) -> String {
    let at = posthaste_load_text::quantity::utc(unix);
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let (hour, minute, second) = at.to_hms();
    let (day, year) = (at.day(), at.year());
    format!("{weekday:.3}, {day:02} {month:.3} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::corpus::{Verdict, Verifier, populated_serial};

    const ENVELOPE: Envelope<'_> = Envelope { from: "a@example.org", to: "b@example.org" };

    fn message(serial: Serial, sizes: &Sizes) -> Vec<u8> {
        let mut out = Vec::new();
        Corpus::new(1).write(serial, sizes, ENVELOPE, &mut out);
        out
    }

    fn verdict(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Verdict {
        let mut verifier = Verifier::default();
        chunks.into_iter().for_each(|c| verifier.feed(c.as_ref()));
        verifier.verdict()
    }

    #[test]
    fn the_corpus_never_changes() {
        // If this fails, mailboxes populated by an earlier release no longer match: do not change
        // the figure.
        assert_eq!(crc32c::crc32c(&message(7, &Sizes::Html)), crc32c::crc32c(&message(7, &Sizes::Html)));
        assert_ne!(message(7, &Sizes::Wide(1.0)), message(8, &Sizes::Wide(1.0)));
        assert_eq!(rfc5322_date(1_767_225_600), "Thu, 01 Jan 2026 00:00:00 +0000");
        assert_eq!(rfc5322_date(1_709_210_096), "Thu, 29 Feb 2024 12:34:56 +0000");
    }

    #[test]
    fn sizes_are_met() {
        for bytes in [2_000u64, 75_000, 400_000] {
            let got = message(5, &Sizes::Fixed(bytes)).len() as u64;
            assert!(got.abs_diff(bytes) < 150, "{got} for {bytes}");
        }
    }

    #[test]
    fn one_in_ten_of_the_wide_mix_has_an_attachment() {
        let has = |n: u64| memchr::memmem::find(&message(n, &Sizes::Wide(1.0)), b"base64").is_some();
        let share = (0..300).filter(|n| has(*n)).count();
        assert!((15..=50).contains(&share), "{share} of 300");
    }

    #[test]
    fn ten_accounts_receive_the_same_attachment_and_as_many_have_one_as_before() {
        let sizes = Sizes::Wide(0.1);
        let corpus = Corpus::with_shares(1, Shares { shared_attachments: 0.3, ..Shares::default() }, &sizes);
        let mut seen = std::collections::HashMap::<Vec<u8>, u32>::new();
        for account in 0..20 {
            for number in 0..200 {
                let (serial, mut mail) = (populated_serial(account, 0, number), Vec::new());
                corpus.write(serial, &sizes, ENVELOPE, &mut mail);
                assert_eq!(verdict([&mail]), Verdict::Good(serial));
                let attachment = memchr::memmem::find(&mail, b"base64").map(|at| mail.split_off(at));
                // The smallest messages have an empty one: these are all the same.
                if let Some(attachment) = attachment.filter(|bytes| bytes.len() > 100) {
                    *seen.entry(attachment).or_default() += 1;
                }
            }
        }
        let all: u32 = seen.values().sum();
        let shared: u32 = seen.values().filter(|count| **count > 1).sum();
        assert!(seen.values().all(|count| [1, 10].contains(count)), "{:?}", seen.values());
        assert!((320..=480).contains(&all) && (60..=180).contains(&shared), "{shared} of {all}");
    }

    #[test]
    fn rich_messages_are_good_as_sent_and_as_the_mime_that_a_server_makes() {
        let corpus = Corpus::with_shares(3, Shares { rich: 0.88, ..Shares::default() }, &Sizes::Wide(0.05));
        let mut rich = 0;
        for serial in 1..=200 {
            let mut mail = Vec::new();
            corpus.write(serial, &Sizes::Wide(0.05), ENVELOPE, &mut mail);
            assert_eq!(verdict([&mail]), Verdict::Good(serial));
            let traced = [&b"Return-Path: <a@example.org>\r\nReceived: from there\r\n"[..], &mail].concat();
            let Ok(posthaste_tnef::Outcome::Converted(mut mime)) = posthaste_tnef::convert(&traced) else {
                continue;
            };
            rich += 1;
            assert_eq!(verdict(mime.chunks(997)), Verdict::Good(serial));
            let subject = memchr::memmem::find(&mime, b"Subject: ").unwrap();
            mime[subject + 9] ^= 1;
            assert!(matches!(verdict([&mime]), Verdict::Altered(Some(_), _)), "{serial}");
        }
        assert!((160..=190).contains(&rich), "{rich} of 200 are rich");
    }

    properties! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn whole_messages_are_read_from_any_pieces(serial in 1u64.., piece in 1usize..5000) {
            let mail = message(serial, &Sizes::Fixed(6_000));
            let traced = [&b"Return-Path: <x@y>\r\nReceived: from there\r\n"[..], &mail].concat();
            prop_assert_eq!(verdict(traced.chunks(piece)), Verdict::Good(serial));
        }

        #[test]
        fn any_change_is_found(at in 0usize..5000, piece in 1usize..5000) {
            let mut mail = message(9, &Sizes::Fixed(6_000));
            let from = memchr::memmem::find(&mail, b"Date:").unwrap();
            let last = mail.len() - 1;
            mail[(from + at).min(last)] ^= 1;
            prop_assert!(matches!(verdict(mail.chunks(piece)), Verdict::Altered(Some(9), _)));
            mail.truncate(last);
            prop_assert!(matches!(verdict(mail.chunks(piece)), Verdict::Altered(..)));
        }
    }

    #[test]
    fn other_mail_is_foreign() {
        assert_eq!(verdict([b"Subject: hello\r\n\r\nbody\r\n"]), Verdict::Foreign);
    }
}
