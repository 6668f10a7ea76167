//! Modified UTF-7: mailbox names of RFC 3501 §5.1.3.
//!
//! Decoding is strict, so that each name has one encoding and no two spellings name one mailbox. A
//! text that the encoder would not write is refused.

use std::borrow::Cow;

/// The reason why bytes are not modified UTF-7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Utf7Error {
    /// A byte outside printable ASCII.
    #[error("a byte outside &...- is not printable ASCII")]
    NotPrintable,
    /// `&` without its `-`, or a character base64 does not have.
    #[error("&...- is not closed or holds a character that modified base64 does not have")]
    Base64,
    /// Bits left over that are not zero, or too many of them.
    #[error("&...- does not hold whole UTF-16 units")]
    Units,
    /// Half a surrogate pair.
    #[error("&...- holds half a surrogate pair")]
    Surrogate,
    /// Printable ASCII in base64, or `-&` where one shift would do.
    #[error("&...- does not follow RFC 3501 section 5.1.3")]
    NotCanonical,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";

fn is_direct(unit: u16) -> bool {
    matches!(unit, 0x20..=0x7e)
}

/// The text that the bytes encode.
pub fn decode(bytes: &[u8]) -> Result<String, Utf7Error> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut after_shift = false;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'&' {
            if !is_direct(u16::from(byte)) {
                return Err(Utf7Error::NotPrintable);
            }
            text.push(char::from(byte));
            (rest, after_shift) = (tail, false);
            continue;
        }
        let end = memchr::memchr(b'-', tail).ok_or(Utf7Error::Base64)?;
        let (shifted, tail) = (&tail[..end], &tail[end + 1..]);
        if shifted.is_empty() {
            text.push('&');
            (rest, after_shift) = (tail, false);
            continue;
        }
        if after_shift {
            return Err(Utf7Error::NotCanonical);
        }
        decode_shifted(shifted, &mut text)?;
        (rest, after_shift) = (tail, true);
    }
    Ok(text)
}

fn decode_shifted(shifted: &[u8], text: &mut String) -> Result<(), Utf7Error> {
    let mut units = Vec::with_capacity(shifted.len() * 3 / 8);
    let (mut bits, mut held) = (0u32, 0u32);
    for &byte in shifted {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b',' => 63,
            _ => return Err(Utf7Error::Base64),
        };
        (bits, held) = ((bits << 6) | u32::from(value), held + 6);
        if held >= 16 {
            held -= 16;
            units.push((bits >> held) as u16);
            bits &= (1 << held) - 1;
        }
    }
    if held >= 6 || bits != 0 || units.is_empty() {
        return Err(Utf7Error::Units);
    }
    if units.iter().any(|&u| is_direct(u)) {
        return Err(Utf7Error::NotCanonical);
    }
    for c in char::decode_utf16(units) {
        text.push(c.map_err(|_| Utf7Error::Surrogate)?);
    }
    Ok(())
}

/// The bytes that encode the text; the text itself if it is printable ASCII without `&`.
pub fn encode(text: &str) -> Cow<'_, [u8]> {
    if text.bytes().all(|b| is_direct(u16::from(b)) && b != b'&') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len() * 2);
    let (mut bits, mut held, mut shifted) = (0u32, 0u32, false);
    for unit in text.encode_utf16() {
        if is_direct(unit) {
            unshift(&mut out, &mut bits, &mut held, &mut shifted);
            out.push(unit as u8);
            if unit == u16::from(b'&') {
                out.push(b'-');
            }
            continue;
        }
        if !shifted {
            out.push(b'&');
            shifted = true;
        }
        (bits, held) = ((bits << 16) | u32::from(unit), held + 16);
        while held >= 6 {
            held -= 6;
            out.push(ALPHABET[(bits >> held & 63) as usize]);
        }
        bits &= (1 << held) - 1;
    }
    unshift(&mut out, &mut bits, &mut held, &mut shifted);
    Cow::Owned(out)
}

fn unshift(out: &mut Vec<u8>, bits: &mut u32, held: &mut u32, shifted: &mut bool) {
    if *shifted {
        if *held > 0 {
            out.push(ALPHABET[(*bits << (6 - *held) & 63) as usize]);
        }
        out.push(b'-');
    }
    (*bits, *held, *shifted) = (0, 0, false);
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_names() {
        for (text, wire) in [
            ("INBOX", "INBOX"),
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("Entwürfe", "Entw&APw-rfe"),
            ("R&D", "R&-D"),
            ("&é&", "&-&AOk-&-"),
            ("😀", "&2D3eAA-"),
            ("\u{7}", "&AAc-"),
            ("", ""),
        ] {
            assert_eq!(encode(text).as_ref(), wire.as_bytes(), "{text}");
            assert_eq!(decode(wire.as_bytes()).as_deref(), Ok(text), "{wire}");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for (wire, error) in [
            ("Hi Mom &Jjo", Utf7Error::Base64),
            ("&Jjo!-", Utf7Error::Base64),
            ("&A-", Utf7Error::Units),
            ("&AOkA-", Utf7Error::Units),
            ("&AOl-", Utf7Error::Units),
            ("&AGE-", Utf7Error::NotCanonical),
            ("&ACY-", Utf7Error::NotCanonical),
            ("&U,BTFw-&ZeVnLIqe-", Utf7Error::NotCanonical),
            ("&2D0-", Utf7Error::Surrogate),
            ("&3gA-", Utf7Error::Surrogate),
            ("é", Utf7Error::NotPrintable),
            ("a\tb", Utf7Error::NotPrintable),
        ] {
            assert_eq!(decode(wire.as_bytes()), Err(error), "{wire}");
        }
    }

    properties! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            prop_assert_eq!(decode(&encode(&text)), Ok(text));
        }

        #[test]
        fn decoded_names_encode_to_the_same_text(wire in "[&A-Za-c,+/é-]{0,12}") {
            if let Ok(text) = decode(wire.as_bytes()) {
                let encoded = encode(&text);
                prop_assert_eq!(encoded.as_ref(), wire.as_bytes());
            }
        }
    }
}
