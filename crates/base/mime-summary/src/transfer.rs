//! Decodes a transfer encoding, piece by piece, for BINARY and SEARCH.
//!
//! Decoders accept the errors that mail programs accept. In base64, bytes outside the alphabet
//! are skipped (RFC 2045 §6.8). In quoted-printable, an invalid `=XY` stays unchanged (§6.7).
//! Only an encoding that we do not know is an error, for which IMAP has [UNKNOWN-CTE] (RFC 9051
//! §7.1).

use crate::in_bounds::InBounds;

/// The transfer encoding of the content of a part. RFC 2045 §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Lines of ASCII; also what an absent field means.
    #[default]
    SevenBit,
    /// Lines with 8-bit bytes.
    EightBit,
    /// Any bytes.
    Binary,
    /// Base64.
    Base64,
    /// Quoted-printable.
    QuotedPrintable,
    /// Something that we cannot decode.
    Unknown,
}

impl Encoding {
    /// Whether the content is not encoded.
    pub const fn is_identity(self) -> bool {
        matches!(self, Encoding::SevenBit | Encoding::EightBit | Encoding::Binary)
    }
}

/// Content that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Content-Transfer-Encoding names something unknown.
    #[error("unknown content transfer encoding")]
    UnknownEncoding,
}

/// Decodes one part, given in pieces of any size.
#[derive(Debug, Clone)]
pub struct TransferDecoder(TransferDecoding);

#[derive(Debug, Clone)]
enum TransferDecoding {
    Identity,
    /// Collected bits, how many 6-bit groups they are, and whether padding ended the content.
    Base64 {
        bits: u32,
        groups: u8,
        is_ended: bool,
    },
    /// The unfinished end of a piece: `=…` or white space that may be at the end of a line.
    QuotedPrintable {
        held: Vec<u8>,
    },
}

/// 6-bit values of the base64 alphabet; 64 is `=`, 255 is skipped. RFC 2045 table 1.
static BASE64: [u8; 256] = {
    let mut table = [255; 256];
    let mut value = 0;
    while value < 26 {
        table[b'A' as usize + value] = value as u8;
        table[b'a' as usize + value] = value as u8 + 26;
        value += 1;
    }
    let mut digit = 0;
    while digit < 10 {
        table[b'0' as usize + digit] = digit as u8 + 52;
        digit += 1;
    }
    table[b'+' as usize] = 62;
    table[b'/' as usize] = 63;
    table[b'=' as usize] = 64;
    table
};

impl TransferDecoder {
    /// A decoder for content in this encoding.
    pub fn new(encoding: Encoding) -> Result<Self, TransferError> {
        Ok(TransferDecoder(match encoding {
            Encoding::SevenBit | Encoding::EightBit | Encoding::Binary => TransferDecoding::Identity,
            Encoding::Base64 => TransferDecoding::Base64 { bits: 0, groups: 0, is_ended: false },
            Encoding::QuotedPrintable => TransferDecoding::QuotedPrintable { held: Vec::new() },
            Encoding::Unknown => return Err(TransferError::UnknownEncoding),
        }))
    }

    /// Decodes the next piece, appending to `into`. Never more bytes come out than went in.
    pub fn decode(&mut self, piece: &[u8], into: &mut Vec<u8>) {
        match &mut self.0 {
            TransferDecoding::Identity => into.extend_from_slice(piece),
            TransferDecoding::Base64 { bits, groups, is_ended } => {
                base64(piece, bits, groups, is_ended, into);
            }
            TransferDecoding::QuotedPrintable { held } if held.is_empty() => {
                quoted_printable(piece, held, into);
            }
            TransferDecoding::QuotedPrintable { held } => {
                let mut joined = std::mem::take(held);
                joined.extend_from_slice(piece);
                quoted_printable(&joined, held, into);
            }
        }
    }

    /// Appends the bytes that the last piece left undecided.
    pub fn finish(self, into: &mut Vec<u8>) {
        match self.0 {
            TransferDecoding::Identity => {}
            // Padding is often missing at the end: two groups are a byte, three are two.
            TransferDecoding::Base64 { bits, groups, is_ended: false } => base64_tail(bits, groups, into),
            TransferDecoding::Base64 { .. } => {}
            // A soft line break without a line, or white space at the end: nothing. RFC 2045 §6.7
            // (3).
            TransferDecoding::QuotedPrintable { held }
                if held.iter().all(|b| matches!(b, b'=' | b' ' | b'\t' | b'\r')) => {}
            TransferDecoding::QuotedPrintable { held } => into.extend_from_slice(&held),
        }
    }
}

/// A whole part at once.
pub fn decode_transfer(encoding: Encoding, body: &[u8]) -> Result<Vec<u8>, TransferError> {
    let mut decoder = TransferDecoder::new(encoding)?;
    let mut decoded = Vec::with_capacity(body.len());
    decoder.decode(body, &mut decoded);
    decoder.finish(&mut decoded);
    Ok(decoded)
}

fn base64(piece: &[u8], bits: &mut u32, groups: &mut u8, is_ended: &mut bool, into: &mut Vec<u8>) {
    let mut rest = piece;
    while let Some((&byte, after)) = rest.split_first() {
        if *groups == 0 {
            let done = whole_groups(rest, into);
            if done > 0 {
                *is_ended = false;
                rest = rest.in_bounds(done..);
                continue;
            }
        }
        rest = after;
        match BASE64[byte as usize] {
            64 => {
                // Some programs concatenate padded pieces: decoding starts again after each
                // padding.
                base64_tail(*bits, *groups, into);
                (*bits, *groups, *is_ended) = (0, 0, true);
            }
            255 => {}
            value => {
                *is_ended = false;
                *bits = *bits << 6 | u32::from(value);
                *groups += 1;
                if *groups == 4 {
                    into.extend_from_slice(&[(*bits >> 16) as u8, (*bits >> 8) as u8, *bits as u8]);
                    (*bits, *groups) = (0, 0);
                }
            }
        }
    }
}

/// Decodes four characters at a time while all of them are of the alphabet: the lines of an
/// attachment without their ends. Returns how many characters it took.
fn whole_groups(piece: &[u8], into: &mut Vec<u8>) -> usize {
    let mut done = 0;
    for group in piece.as_chunks::<4>().0 {
        let [a, b, c, d] = group.map(|byte| BASE64[byte as usize]);
        if (a | b | c | d) >= 64 {
            break;
        }
        let bits = u32::from(a) << 18 | u32::from(b) << 12 | u32::from(c) << 6 | u32::from(d);
        let [_, first, second, third] = bits.to_be_bytes();
        into.extend_from_slice(&[first, second, third]);
        done += 4;
    }
    done
}

fn base64_tail(bits: u32, groups: u8, into: &mut Vec<u8>) {
    match groups {
        2 => into.push((bits >> 4) as u8),
        3 => into.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
}

fn quoted_printable(mut piece: &[u8], held: &mut Vec<u8>, into: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr2(b'=', b'\n', piece) {
        let (text, rest) = piece.split_at(at);
        if rest.first() == Some(&b'\n') {
            // RFC 2045 §6.7 (3): white space at the end of a line was added on the way.
            let line_end = if text.ends_with(b"\r") { 1 } else { 0 };
            let (text, cr) = text.split_at(text.len() - line_end);
            into.extend_from_slice(trim_line(text));
            into.extend_from_slice(cr);
            into.push(b'\n');
            piece = rest.in_bounds(1..);
            continue;
        }
        into.extend_from_slice(text);
        let Some(done) = escape(rest, into) else {
            held.extend_from_slice(rest);
            return;
        };
        piece = rest.in_bounds(done..);
    }
    // Bytes that may be the end of a line wait for the next piece.
    let text = trim_line(piece.strip_suffix(b"\r").unwrap_or(piece));
    let (text, rest) = piece.split_at(text.len());
    into.extend_from_slice(text);
    if rest.len() < ESCAPE_MAX { held.extend_from_slice(rest) } else { into.extend_from_slice(rest) }
}

/// Without white space at the end of a line.
fn trim_line(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = line {
        line = rest;
    }
    line
}

/// The most white space before a line end that counts as added on the way: bounds the bytes held
/// back.
const ESCAPE_MAX: usize = 1000;

/// `=XY`, or a soft line break; returns how many bytes it took, `None` if the piece ends too early.
fn escape(rest: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let hex = |at: usize| rest.get(at).map(|&b| (b as char).to_digit(16));
    let after = rest.in_bounds(1..);
    let padding = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    match after.in_bounds(padding..) {
        [b'\n', ..] => return Some(padding + 2),
        [b'\r', b'\n', ..] => return Some(padding + 3),
        [] | [b'\r'] if padding < ESCAPE_MAX => return None,
        _ => {}
    }
    match (hex(1)?, hex(2)) {
        (Some(high), Some(Some(low))) => {
            into.push((high * 16 + low) as u8);
            Some(3)
        }
        (Some(_), None) => None,
        _ => {
            into.push(b'=');
            Some(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(encoding: Encoding, body: &str) -> String {
        String::from_utf8_lossy(&decode_transfer(encoding, body.as_bytes()).unwrap()).into_owned()
    }

    #[test]
    fn base64_known_answers() {
        for (body, text) in [
            ("", ""),
            ("aGVsbG8=", "hello"),
            ("aGVs\r\nbG8", "hello"),
            ("aGVsbG8gdw==\r\n", "hello w"),
            ("aA==aA==", "hh"),
            ("a", ""),
            ("*a*G*V*s*", "hel"),
        ] {
            assert_eq!(decoded(Encoding::Base64, body), text, "{body:?}");
        }
    }

    /// Whole groups are decoded at once, and give what single characters give.
    #[test]
    fn base64_in_pieces_of_any_size() {
        let line = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";
        for body in [
            format!("{line}\r\n{line}\r\nMDEy\r\nMw==\r\n"),
            format!("{line}A"),
            format!("a{line}"),
            format!("aGVsbG8={line}=="),
            format!("=={line}aA"),
            format!("{}*{}\n\n{line}", &line[..7], &line[7..]),
            format!(" {line} ===="),
        ] {
            let expected = decode_in(body.as_bytes(), 1);
            for size in [2, 3, 4, 5, 7, 64, 1_000] {
                assert_eq!(decode_in(body.as_bytes(), size), expected, "{body:?} in pieces of {size}");
            }
        }
        let octets: Vec<u8> = (0..48).collect();
        assert_eq!(decode_transfer(Encoding::Base64, line.as_bytes()).unwrap(), octets);
    }

    fn decode_in(body: &[u8], size: usize) -> Vec<u8> {
        let mut decoder = TransferDecoder::new(Encoding::Base64).unwrap();
        let mut decoded = Vec::new();
        body.chunks(size).for_each(|piece| decoder.decode(piece, &mut decoded));
        decoder.finish(&mut decoded);
        decoded
    }

    #[test]
    fn quoted_printable_known_answers() {
        for (body, text) in [
            ("", ""),
            ("a=3Db", "a=b"),
            ("a=3db", "a=b"),
            ("soft=\r\nbreak", "softbreak"),
            ("soft=  \r\nbreak", "softbreak"),
            ("soft=\nbreak", "softbreak"),
            ("trailing \t\r\nnext", "trailing\r\nnext"),
            ("trailing  ", "trailing"),
            ("a b", "a b"),
            ("bad=XYz", "bad=XYz"),
            ("bad=4", "bad=4"),
            ("end=", "end"),
            ("=C3=BC", "ü"),
        ] {
            assert_eq!(decoded(Encoding::QuotedPrintable, body), text, "{body:?}");
        }
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let body = b"a=3Db  \r\nsoft= \t\r\nx =4 =\r\n=C3=BC \t z=";
        for encoding in [Encoding::Base64, Encoding::QuotedPrintable, Encoding::Binary] {
            let whole = decode_transfer(encoding, body).unwrap();
            for size in 1..body.len() {
                let mut decoder = TransferDecoder::new(encoding).unwrap();
                let mut pieces = Vec::new();
                body.chunks(size).for_each(|piece| decoder.decode(piece, &mut pieces));
                decoder.finish(&mut pieces);
                assert_eq!(pieces, whole, "{encoding:?} in pieces of {size}");
            }
        }
        assert_eq!(TransferDecoder::new(Encoding::Unknown).err(), Some(TransferError::UnknownEncoding));
    }
}
