//! Encoded words: `=?charset?Q?text?=` in header fields, as text. RFC 2047.
//!
//! White space between two encoded words is dropped (§6.2); adjacent words of one charset are put
//! together before decoding, because programs cut characters in the middle. In a charset with
//! states, words are decoded separately, because each begins in the initial state (§3). Text that
//! does not parse is kept unchanged.

use std::borrow::Cow;

use crate::charset::{decode_bytes, has_states};
use crate::header::unfold;
use crate::in_bounds::InBounds;
use crate::scan::is_space;
use crate::transfer::Encoding;
use crate::transfer::TransferDecoder;

/// Longest encoded word that is decoded; RFC 2047 §2 says 75, programs write whole subjects as
/// one.
const WORD_MAX: usize = 4096;

/// A field's value as text: unfolded, trimmed, encoded words decoded.
pub fn decode_words(raw: &[u8]) -> Cow<'_, str> {
    match unfold(raw) {
        Cow::Borrowed(bytes) if memchr::memmem::find(bytes, b"=?").is_none() => decode_bytes(b"", bytes),
        bytes => {
            let mut text = String::with_capacity(bytes.len());
            decode_words_into(&bytes, &mut text);
            Cow::Owned(text)
        }
    }
}

/// Appends an unfolded value as text to `into`.
pub fn decode_words_into(value: &[u8], into: &mut String) {
    let mut at = 0;
    // The charset of the words just seen and their bytes, not yet turned into text.
    let mut pending: Option<(&[u8], Vec<u8>)> = None;
    while let Some(found) = value.get(at..).and_then(|rest| memchr::memmem::find(rest, b"=?")) {
        let start = at + found;
        let between = value.in_bounds(at..start);
        let Some((word, end)) = read_word(value, start) else {
            flush(&mut pending, into);
            into.push_str(&decode_bytes(b"", value.in_bounds(at..start + 2)));
            at = start + 2;
            continue;
        };
        let joins = pending.is_some() && between.iter().all(|&b| is_space(b));
        let same_charset =
            pending.as_ref().is_some_and(|(charset, _)| charset.eq_ignore_ascii_case(word.charset));
        if !joins || !same_charset || has_states(word.charset) {
            flush(&mut pending, into);
        }
        if !joins {
            into.push_str(&decode_bytes(b"", between));
        }
        let (_, bytes) = pending.get_or_insert_with(|| (word.charset, Vec::new()));
        word.decode(bytes);
        at = end;
    }
    flush(&mut pending, into);
    into.push_str(&decode_bytes(b"", value.in_bounds(at..)));
}

fn flush(pending: &mut Option<(&[u8], Vec<u8>)>, into: &mut String) {
    if let Some((charset, bytes)) = pending.take() {
        into.push_str(&decode_bytes(charset, &bytes));
    }
}

struct EncodedWord<'m> {
    charset: &'m [u8],
    is_base64: bool,
    text: &'m [u8],
}

impl EncodedWord<'_> {
    fn decode(&self, into: &mut Vec<u8>) {
        if self.is_base64 {
            if let Ok(mut decoder) = TransferDecoder::new(Encoding::Base64) {
                decoder.decode(self.text, into);
                decoder.finish(into);
            }
            return;
        }
        // RFC 2047 §4.2: like quoted-printable, with _ for a space.
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            let hex = |at: usize| self.text.get(at).and_then(|&b| (b as char).to_digit(16));
            at += 1;
            match (byte, hex(at), hex(at + 1)) {
                (b'_', ..) => into.push(b' '),
                (b'=', Some(high), Some(low)) => {
                    into.push((high * 16 + low) as u8);
                    at += 2;
                }
                _ => into.push(byte),
            }
        }
    }
}

/// The encoded word that starts with `=?` at `start`, and its end.
fn read_word(value: &[u8], start: usize) -> Option<(EncodedWord<'_>, usize)> {
    let rest = value.get(start + 2..)?;
    let rest = rest.get(..WORD_MAX).unwrap_or(rest);
    let charset_len = memchr::memchr(b'?', rest.get(..100).unwrap_or(rest))?;
    // RFC 2231 §5: a language may follow the charset.
    let charset = rest.get(..charset_len)?.split(|&b| b == b'*').next()?;
    let is_base64 = match rest.get(charset_len + 1)? {
        b'b' | b'B' => true,
        b'q' | b'Q' => false,
        _ => return None,
    };
    if charset.is_empty() || charset.iter().any(|&b| is_space(b)) || rest.get(charset_len + 2) != Some(&b'?')
    {
        return None;
    }
    let text_start = charset_len + 3;
    // The text has no question mark; programs that write one must not make us look twice at the
    // same bytes.
    let text_len = memchr::memchr(b'?', rest.get(text_start..)?)?;
    let text = rest.get(text_start..text_start + text_len)?;
    (rest.get(text_start + text_len + 1) == Some(&b'='))
        .then_some((EncodedWord { charset, is_base64, text }, start + 2 + text_start + text_len + 2))
}

#[cfg(test)]
mod tests {
    use super::decode_words;

    #[test]
    fn known_answers() {
        for (raw, text) in [
            ("plain", "plain"),
            ("  folded\r\n value \r\n", "folded value"),
            ("=?utf-8?q?gr=C3=BC=C3=9Fe?=", "grüße"),
            ("=?UTF-8?B?R3LDvMOfZQ==?= aus", "Grüße aus"),
            ("=?iso-8859-1?Q?a_b?=", "a b"),
            ("(=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=)", "(ab)"),
            ("=?ISO-8859-1?Q?a?= b", "a b"),
            ("=?ISO-8859-1?Q?a?=\r\n =?ISO-8859-2?Q?_b?=", "a b"),
            // One character cut in two.
            ("=?utf-8?B?w7w=?= =?utf-8?q?=C3?= =?utf-8?q?=BC?=", "üü"),
            ("=?US-ASCII*EN?Q?Keith_Moore?=", "Keith Moore"),
            ("=?iso-2022-jp?B?GyRCJTkbKEI=?=", "ス"),
            ("=?utf-7?Q?Hi_+2D3eCw-?=", "Hi 😋"),
            // Each word begins in the first state, with a mark of its own.
            ("=?iso-2022-jp?B?GyRCJTk=?= =?iso-2022-jp?Q?a?=", "スa"),
            ("=?utf-16?B?/v8AYQ==?= =?utf-16?B?/v8AYg==?=", "ab"),
            ("=?broken", "=?broken"),
            ("=?utf-8?x?a?= b", "=?utf-8?x?a?= b"),
            ("=?utf-8?q?a", "=?utf-8?q?a"),
            ("raw ü", "raw ü"),
            ("a =? b =?= c", "a =? b =?= c"),
        ] {
            assert_eq!(decode_words(raw.as_bytes()), text, "{raw:?}");
        }
        // Latin-1 without a label.
        assert_eq!(decode_words(b"gr\xfc\xdfe"), "grüße");
    }
}
