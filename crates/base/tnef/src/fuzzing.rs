//! Any bytes as TNEF, as compressed RTF, as RTF, and as a message with a TNEF part. For fuzz
//! targets, and for the tests below.

use crate::{Outcome, convert, decode, encode, rtf};

/// As all of these: nothing panics, what is read is written again, and conversions are bounded,
/// repeatable, and leave nothing rich that could be converted.
pub fn any(data: &[u8]) {
    if let Ok(message) = decode(data) {
        let again = encode(&message).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(decode(&again).as_ref(), Ok(&message));
    }
    let limit = 40 * data.len() + 4096;
    for text in [Some(data.to_vec()), rtf::decompress(data, limit).ok()].into_iter().flatten() {
        if let Ok(document) = rtf::read(&text, limit) {
            assert!(document.text.len() + document.html.map_or(0, |html| html.len()) <= limit + 4096);
        }
    }
    mail(data);
    let head =
        b"Subject: x\r\nContent-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    mail(&[head, data].concat());
}

fn mail(message: &[u8]) {
    let outcome = convert(message);
    assert_eq!(convert(message), outcome);
    if let Ok(Outcome::Converted(mime)) = outcome {
        assert!(mime.len() <= 200 * message.len() + 16_384, "{} of {}", mime.len(), message.len());
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;
    use crate::samples;

    /// Writes the seeds that our own encoder makes: `cargo test -p posthaste-tnef --features
    /// fuzzing -- --ignored seeds`.
    #[test]
    #[ignore = "writes the seeds"]
    fn seeds() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/tnef");
        std::fs::create_dir_all(folder).expect("a folder");
        let note = samples::note();
        let html = rtf::wrap_html(samples::HTML);
        let request = samples::meeting("IPM.Schedule.Meeting.Request");
        for (name, bytes) in [
            ("note", encode(&note).expect("valid")),
            ("meeting", encode(&request).expect("valid")),
            ("mail", samples::mail(&note)),
            ("lzfu", rtf::compress(&html)),
            ("html", html),
            ("rtf", b"{\\rtf1\\ansi{\\fonttbl{\\f0\\fcharset128 A;}}\\b a\\par{\\field{\\*\\fldinst HYPERLINK \"http://x\"}{\\fldrslt \\u228?y}}}".to_vec()),
        ] {
            std::fs::write(format!("{folder}/{name}"), bytes).expect("a seed");
        }
    }

    #[test]
    fn any_bytes_are_tnef_or_not() {
        fuzz_seeds("tnef", 20_000, any);
    }
}
