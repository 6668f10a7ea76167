//! The field `Authentication-Results` (RFC 8601).

use bytes::{Bytes, BytesMut};
use memchr::memchr;

use crate::canonical;

const FIELD: &[u8] = b"authentication-results";

/// A message with `field` in front, after its Return-Path, and without the fields of others that
/// bear our name. Readers of the message must be able to believe ours (RFC 8601 §5). Copies the
/// message once.
pub fn with_results(message: &Bytes, field: &str, host: &str) -> Bytes {
    let forged = forged(message, host);
    let removed: usize = forged.iter().map(|span| span.len()).sum();
    let mut out = BytesMut::with_capacity(message.len() - removed + field.len());
    // With its folded lines: they must not become a part of our field.
    let first = &message[..end_of_field(message, 0)];
    let is_return_path = first.starts_with(b"Return-Path:") && first.ends_with(b"\n");
    let behind_return_path = if is_return_path { first.len() } else { 0 };
    out.extend_from_slice(&message[..behind_return_path]);
    out.extend_from_slice(field.as_bytes());
    let mut at = behind_return_path;
    for span in forged {
        // Ours comes after one line, which is not a field of this kind.
        out.extend_from_slice(&message[at..span.start]);
        at = span.end;
    }
    out.extend_from_slice(&message[at..]);
    out.freeze()
}

/// A message without the fields that bear our name, where nobody verified it. Copies it only if it
/// has such fields.
pub fn without_own(message: &Bytes, host: &str) -> Bytes {
    if forged(message, host).is_empty() {
        return message.clone();
    }
    with_results(message, "", host)
}

/// The value of the field that [`with_results`] put in front when the message came; `None` if it
/// was not verified here. The same field further down may be anybody's: everything that came from
/// outside comes after the trace field of its reception. Before that are only our own fields.
pub fn own<'m>(message: &'m [u8], host: &str) -> Option<&'m str> {
    let redirected = format!("by {host} (Posthaste);");
    for field in canonical::fields(message) {
        // A Return-Path may hold what its sender wrote.
        let value = std::str::from_utf8(field.value);
        if field.name.eq_ignore_ascii_case(FIELD) {
            return value.ok().filter(|_| is_ours(field.value, host));
        }
        let is_ours = field.is("Return-Path")
            || field.is("X-Sieve-Redirected-From")
            || field.is("List-Id")
            || field.is("Precedence")
            || (field.is("Received") && value.is_ok_and(|value| value.trim_start().starts_with(&redirected)));
        if !is_ours {
            return None;
        }
    }
    None
}

/// The fields whose authserv-id is our name, as places in the message, in order.
fn forged(message: &[u8], host: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let end = end_of_field(message, at);
        let field = &message[at..end];
        if matches!(field, b"\r\n" | b"\n") {
            break;
        }
        if let Some(value) = value_of(field)
            && is_ours(value, host)
        {
            found.push(at..end);
        }
        at = end;
    }
    found
}

/// Behind the field that begins at `at`, with the lines that continue it (RFC 5322 §2.2.3).
fn end_of_field(message: &[u8], at: usize) -> usize {
    let mut end = at;
    loop {
        end = memchr(b'\n', &message[end..]).map_or(message.len(), |found| end + found + 1);
        if !matches!(message.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

/// The value, if it is a field of this kind. Blanks before the colon are obsolete, and read by some
/// (RFC 5322 §4.5).
fn value_of(field: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', field)?;
    let name_end = field[..colon].iter().rposition(u8::is_ascii_graphic).map_or(0, |last| last + 1);
    field[..name_end].eq_ignore_ascii_case(FIELD).then(|| &field[colon + 1..])
}

/// Whether a value begins with our name as authserv-id (RFC 8601 §2.2). Comments in front are
/// skipped. A value that cannot be read as a name counts as ours: no reader needs it. Some readers
/// count control characters and Unicode spaces as blanks, so these do not make it another name.
fn is_ours(value: &[u8], host: &str) -> bool {
    let mut rest = value;
    loop {
        rest = &rest[rest.iter().position(u8::is_ascii_graphic).unwrap_or(rest.len())..];
        match rest {
            [b'(', ..] => match behind_comment(rest) {
                Some(behind) => rest = behind,
                None => return true,
            },
            _ => break,
        }
    }
    let name: Vec<u8> = match rest {
        [b'"', quoted @ ..] => {
            let mut name = Vec::new();
            let mut bytes = quoted.iter();
            loop {
                match bytes.next() {
                    Some(b'"') => break name,
                    Some(b'\\') => name.extend(bytes.next()),
                    Some(byte) => name.push(*byte),
                    None => return true,
                }
            }
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b';' | b' ' | b'(' | b'/') || byte.is_ascii_control();
            rest[..rest.iter().position(ends).unwrap_or(rest.len())].to_vec()
        }
    };
    let is_host = |name: &[u8]| {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let host = host.bytes().filter(u8::is_ascii_graphic).map(|byte| byte.to_ascii_lowercase());
        name.iter().map(u8::to_ascii_lowercase).eq(host)
    };
    let whole: Vec<u8> = name.iter().copied().filter(u8::is_ascii_graphic).collect();
    // Behind such a blank, a reader may find a version.
    let mut words = name.split(|byte| !byte.is_ascii_graphic()).filter(|word| !word.is_empty());
    matches!(whole.as_slice(), b"" | b".") || is_host(&whole) || words.next().is_some_and(is_host)
}

/// Behind a comment, which may hold others (RFC 5322 §3.2.2).
fn behind_comment(text: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return text.get(at..);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn results(message: &str) -> String {
        let message = Bytes::from(message.to_owned());
        let out = with_results(&message, "Authentication-Results: mx.test; spf=pass\r\n", "mx.test");
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn ours_is_in_front_and_forged_ones_go() {
        let rest = "Received: from x\r\nauthentication-results: other.test; dkim=pass\r\nSubject: a\r\n\r\n\
                    Authentication-Results: mx.test; text\r\n";
        for forged in [
            "Authentication-Results: mx.test; dkim=pass\r\n",
            "AUTHENTICATION-results \t: MX.Test. 1;\r\n\tdkim=pass\r\n",
            "Authentication-Results:\r\n (a (b) \\) c) \"mx\\.test\" /1; x\r\n",
            "Authentication-Results: (never ends\r\n",
            "Authentication-Results:\r\n",
            "Authentication-Results: mx.test\u{b}; dmarc=pass\r\n",
            "Authentication-Results: \u{b}mx.test; dmarc=pass\r\n",
            "Authentication-Results: \"mx.test\u{b}\"; dmarc=pass\r\n",
            "Authentication-Results: mx.test\u{a0}; dmarc=pass\r\n",
            "Authentication-Results: mx.test\u{a0}1; dmarc=pass\r\n",
            "Authentication-Results: \u{a0}\"mx.test\"; dmarc=pass\r\n",
            "Authentication-Results: \u{2003}MX.test.\u{2003}1; dmarc=pass\r\n",
            "Authentication-Results\u{b}: mx.test; dmarc=pass\r\n",
        ] {
            let said = results(&format!("Return-Path: <a@b>\r\n{forged}{rest}"));
            assert_eq!(
                said,
                format!("Return-Path: <a@b>\r\nAuthentication-Results: mx.test; spf=pass\r\n{rest}")
            );
            let said = results(&format!("Subject: b\r\n{forged}{forged}"));
            assert_eq!(said, "Authentication-Results: mx.test; spf=pass\r\nSubject: b\r\n");
        }
    }

    #[test]
    fn results_of_our_own_are_above_what_came() {
        let of = |message: &str| own(message.as_bytes(), "mx.test").map(str::to_owned);
        let ours = "Authentication-Results: mx.test; spf=pass\r\n";
        let (path, came) =
            ("Return-Path: <a@b>\r\n", "Received: from x by mx.test (Posthaste) with ESMTP\r\n");
        let again = "Received: by mx.test (Posthaste);\r\n\tSun\r\nX-Sieve-Redirected-From: ana@a.test\r\nList-Id: <l.a.test>\r\nPrecedence: list\r\n";
        assert_eq!(of(&format!("{path}{ours}{came}\r\n")).as_deref(), Some(" mx.test; spf=pass"));
        assert_eq!(of(&format!("{path}{again}{ours}{came}\r\n")).as_deref(), Some(" mx.test; spf=pass"));
        for none in [
            format!("{path}{came}{ours}\r\n"),
            format!("{path}{came}{again}{ours}\r\n"),
            format!("{path}{}\r\n", ours.replace("mx.test", "mx.evil")),
            format!("{path}Subject: a\r\n{ours}\r\n"),
            format!("\r\n{ours}"),
        ] {
            assert_eq!(of(&none), None, "{none}");
        }
    }

    #[test]
    fn fields_in_our_name_are_taken_away() {
        let other = "Authentication-Results: other.test; dkim=pass\r\n";
        let message = format!("Authentication-Results: mx.test;\r\n\tdmarc=pass\r\n{other}\r\n");
        assert_eq!(without_own(&Bytes::from(message), "mx.test"), format!("{other}\r\n"));
    }

    #[test]
    fn names_of_others_stay() {
        for kept in ["mx.test.evil", "amx.test", "x"] {
            let field = format!("Authentication-Results: {kept}; dkim=pass\r\n\r\n");
            assert!(results(&field).ends_with(&field));
        }
    }

    properties! {
        #[test]
        fn any_bytes_keep_all_but_whole_fields(
            text in "(Authentication-Results ?: ?|mx\\.test|[;()\"\\\\\r\n\t a-z:.]|\r\n){0,60}"
        ) {
            let said = results(&text);
            let ours = "Authentication-Results: mx.test; spf=pass\r\n";
            let rest = said.strip_prefix(ours).unwrap();
            // The result is the text without some of its bytes, in order.
            let mut all = text.bytes();
            prop_assert!(rest.bytes().all(|byte| all.any(|other| other == byte)));
            prop_assert!(forged(rest.as_bytes(), "mx.test").is_empty());
        }
    }
}
