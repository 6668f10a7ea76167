//! Any bytes as TNEF, as compressed RTF, as RTF, and as a message with a TNEF part. For fuzz
//! targets, and for the tests below.

use crate::decode::checksum;
use crate::error::Damage;
use crate::{Outcome, convert, decode, encode, enrich, restore, rtf};

/// The most text of compressed RTF whose length is made right.
const TEXT_MAX: usize = 1 << 20;

/// Checks the data in every way: nothing panics, each value that is read is written again, and
/// conversions are bounded and repeatable. The data is read as it is, and again with right sums,
/// without which little of it would be read.
pub fn any(data: &[u8]) {
    one(data);
    one(&with_sums(data));
}

/// The same bytes, as far as they are attributes or compressed RTF, with right sums.
fn with_sums(data: &[u8]) -> Vec<u8> {
    const COMPRESSED: &[u8] = b"LZFu";
    let mut data = data.to_vec();
    let mut at = 6;
    while let Some(len) = data.get(at + 5..).and_then(|rest| rest.first_chunk::<4>()) {
        let from = at + 9;
        let end =
            usize::try_from(u32::from_le_bytes(*len)).map_or(usize::MAX, |len| from.saturating_add(len));
        // Compressed RTF has its sum inside of the attribute's data.
        let window = data.get(from..end).unwrap_or_default();
        if let Some(place) = memchr::memmem::find(window, COMPRESSED).filter(|place| *place >= 8) {
            fix_header(&mut data, from + place - 8);
        }
        let Some(sum) = data.get(from..end).map(checksum) else { break };
        if let Some(place) = data.get_mut(end..end + 2) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        at = end + 2;
    }
    if data.get(8..12) == Some(COMPRESSED) {
        fix_header(&mut data, 0);
    }
    data
}

/// The right CRC and length in the header of compressed RTF that begins at a place.
fn fix_header(data: &mut [u8], at: usize) {
    let Some(size) = data.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return };
    let end =
        usize::try_from(u32::from_le_bytes(*size)).map_or(usize::MAX, |size| (at + 4).saturating_add(size));
    let Some(crc) = data.get(at + 16..end).map(rtf::crc) else { return };
    if let Some(place) = data.get_mut(at + 12..at + 16) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
    let text = data.get(at..).map(|rest| rtf::decompress(rest, TEXT_MAX));
    if let (Some(Err(Damage::Length { len, .. })), Some(place)) = (text, data.get_mut(at + 4..at + 8)) {
        place.copy_from_slice(&(len as u32).to_le_bytes());
    }
}

fn one(data: &[u8]) {
    if let Ok(message) = decode(data) {
        let again = encode(&message).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(decode(&again).as_ref(), Ok(&message));
    }
    let _ = restore(data, data.len());
    let limit = 40 * data.len() + 4096;
    for text in [Some(data.to_vec()), rtf::decompress(data, limit).ok()].into_iter().flatten() {
        if let Ok(document) = rtf::read(&text, limit) {
            assert!(document.text.len() + document.html.map_or(0, |html| html.len()) <= limit + 4096);
        }
    }
    to_read(data, limit);
    to_read(&rtf::store(data), limit);
    mail(data);
    let head =
        b"Subject: x\r\nContent-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    mail(&[head, data].concat());
}

/// As compressed RTF whose pictures are left.
fn to_read(compressed: &[u8], limit: usize) {
    let limits = rtf::Limits { text: limit, pictures: compressed.len() };
    let Ok(slim) = rtf::decompress_to_read(compressed, limits) else { return };
    assert!(slim.picture_len <= limits.pictures && slim.rtf.len() - slim.picture_len <= limits.text);
    if let Ok(document) = rtf::read(&slim.rtf, limit) {
        assert!(document.text.len() + document.html.map_or(0, |html| html.len()) <= limit + 4096);
        let pictures: usize = document.pictures.iter().map(|picture| picture.bytes.len()).sum();
        assert!(pictures <= slim.rtf.len());
    }
}

fn mail(message: &[u8]) {
    if let Some(rich) = enrich(message) {
        assert!(restore(&rich, message.len()).as_deref() == Ok(message));
    }
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

    /// Pictures of all kinds, and an object.
    const PICTURES: &[u8] = br"{\rtf1\ansi a{\*\shppict{\pict{\*\picprop}\picwgoal150\picscalex50\pngblip 89504e470d0a1a0a00{\*\blipuid 0f}}}{\nonshppict{\pict\wmetafile8 0100}}{\shp{\*\shpinst{\sp{\sn pib}{\sv {\pict\jpegblip ffd8ff00}}}}{\shprslt b}}{\object{\*\objdata 0105}{\result{\pict\dibitmap0 28}}}\bin2 }}c}";

    /// The committed seeds are what our encoder makes. With `POSTHASTE_WRITE_SEEDS=yes` they are
    /// written, which a change of the encoder needs.
    #[test]
    fn seeds_are_what_the_encoder_makes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/tnef");
        let writes = std::env::var_os("POSTHASTE_WRITE_SEEDS").is_some_and(|wanted| wanted == "yes");
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
            ("picture", PICTURES.to_vec()),
        ] {
            let seed = format!("{folder}/{name}");
            if writes {
                std::fs::write(&seed, &bytes).expect("a seed");
            }
            assert!(std::fs::read(&seed).expect("a seed") == bytes, "{name}: run with POSTHASTE_WRITE_SEEDS=yes");
        }
    }

    #[test]
    fn sums_are_made_right() {
        let good = encode(&samples::note()).expect("valid");
        let mut wrong = good.clone();
        // The sum of the first attribute, and a byte of the RTF: its CRC and length are then wrong.
        wrong[19] ^= 1;
        let at = memchr::memmem::find(&wrong, b"LZFu").expect("RTF") + 12;
        wrong[at] ^= 1;
        assert!(decode(&wrong).is_err());
        let fixed = with_sums(&wrong);
        let message = decode(&fixed).expect("right sums");
        let rtf = message.property(crate::tags::property::RTF_COMPRESSED).and_then(|value| value.bytes());
        assert!(rtf::decompress(rtf.expect("RTF"), TEXT_MAX).is_ok());
        assert_eq!(with_sums(&good), good);
    }

    #[test]
    fn any_bytes_are_tnef_or_not() {
        fuzz_seeds("tnef", 20_000, any);
    }
}
