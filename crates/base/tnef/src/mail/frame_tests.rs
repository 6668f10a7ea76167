//! Tests of [`super`]: MIME becomes rich mail and comes back byte for byte.

use super::*;
use crate::decode::decode;
use crate::{Outcome, convert, encode, samples};

fn mail(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut out = "From: =?utf-8?q?=C3=89mile?= <emile@x.example>\r\nTo: Ana <ana@y.example>, b@y.example\r\n\
         Cc: c@y.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n\
         Message-ID: <1@x.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n"
        .to_owned();
    for (header, body) in parts {
        out.push_str(&format!("--b\r\n{header}\r\n\r\n{body}\r\n"));
    }
    out.push_str("--b--\r\nepilogue");
    out.into_bytes()
}

fn base64_lines(bytes: &[u8], line: usize) -> String {
    let mut out = Vec::new();
    base64_into(&mut out, bytes, line, false);
    String::from_utf8(out).unwrap()
}

const TEXT_UTF8: (&str, &str) = (
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit",
    "Gr\u{fc}\u{df}e,\r\nEmile",
);
const FILE_HEADER: &str = "Content-Type: application/pdf; name=\"a.pdf\"\r\nContent-Transfer-Encoding: base64\r\n\
     Content-Disposition: attachment; filename=\"a.pdf\"";

/// A frame's sources are those of the decoded message.
fn found_as_in_the_model(rich: &[u8]) {
    let Ok(message) = decode(rich) else { return };
    let found = sources(rich, (&SET, NAME)).unwrap();
    let is_frame = |property: &&Property| {
        let is_it = |name: &Name| name.set == SET && name.key == NameKey::Text(NAME.to_owned());
        property.name.as_deref().is_some_and(is_it)
    };
    let frame = message.properties.iter().find(is_frame).map(|property| &property.value);
    for (found, expected) in [
        (found.frame, frame),
        (found.text, message.property(property::BODY)),
        (found.html, message.property(property::HTML)),
    ] {
        assert_eq!(found, expected.map(Value::bytes));
    }
    let file = |a: &'_ Attachment| {
        crate::model::find_attribute(&a.attributes, attribute::ATTACH_DATA).map(<[u8]>::to_vec)
    };
    let files: Vec<_> = found.files.iter().map(|file| file.map(<[u8]>::to_vec)).collect();
    assert_eq!(files, message.attachments.iter().map(file).collect::<Vec<_>>());
}

/// Also in the messages of others, which have values of all types.
#[test]
fn sources_are_those_of_the_model() {
    for message in [samples::note(), samples::series(), samples::contact()] {
        let rich = encode(&message).unwrap();
        found_as_in_the_model(&rich);
        for at in 0..rich.len() {
            let mut damaged = rich.clone();
            damaged[at] ^= 0x11;
            found_as_in_the_model(&damaged);
        }
    }
}

/// Also where a line ends between two groups of characters, and where many lines are encoded one
/// after the other.
#[test]
fn base64_has_lines_of_any_length() {
    use ::base64::Engine;
    let file: Vec<u8> = (0..10_000u32).map(|n| (n * 31 % 251) as u8).collect();
    for line in [0, 1, 3, 4, 60, 64, 73, 76, 1_000, 100_000] {
        for len in [0, 1, 2, 3, 56, 57, 58, 64 * 57 - 1, 64 * 57, 64 * 57 + 1, 9_999] {
            let bytes = &file[..len];
            let text = ::base64::engine::general_purpose::STANDARD.encode(bytes);
            let pieces: Vec<&str> = match line {
                0 => vec![text.as_str()],
                _ => text.as_bytes().chunks(line).map(|one| std::str::from_utf8(one).unwrap()).collect(),
            };
            assert_eq!(base64_lines(bytes, line), pieces.join("\r\n"), "{len} bytes, lines of {line}");
        }
    }
}

/// The room for a stream is found before it is written, so it is never copied.
#[test]
fn a_header_has_its_place_before_the_rich_form() {
    let file: Vec<u8> = (0..5_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let text = base64_lines(&file, 76);
    let message = mail(&[TEXT_UTF8, (FILE_HEADER, text.as_str())]);
    let structure = Structure::parse(&message);
    let alone = enrich(&message).unwrap();
    let after = enrich_after(b"begin", &structure, &message).unwrap();
    assert_eq!(after, [&b"begin"[..], &alone].concat());
    let model = Framing::new(&message).message(&structure);
    assert!(crate::encode::len_without_objects(&model) >= alone.len());
}

#[test]
fn what_comes_back_is_what_was_sent() {
    let file: Vec<u8> = (0..5_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let (even, short) = (base64_lines(&file, 76), base64_lines(&file, 64));
    let uneven = even.replacen("\r\n", "\r\n\r\n", 1);
    let ended = format!("{even}\r\n");
    let html = ("Content-Type: text/html; charset=utf-8", "<p>Gr&uuml;&szlig;e</p>");
    let quoted = (
        "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable",
        "Gr=FC=DFe=\r\n, x",
    );
    let inner = ("Content-Type: message/rfc822", "Subject: inner\r\n\r\ntext\r\n");
    let all: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"Subject: x".to_vec(),
        b"Subject: x\r\n\r\n".to_vec(),
        b"no header at all\r\n".to_vec(),
        b"Subject: bare\n\nline ends\n".to_vec(),
        b"Subject: x\r\n\r\nplain text\r\n".to_vec(),
        b"Content-Type: text/plain; charset=utf-8\r\n\r\nwith \0 inside\0".to_vec(),
        mail(&[TEXT_UTF8, (FILE_HEADER, even.as_str())]),
        mail(&[
            quoted,
            html,
            (FILE_HEADER, short.as_str()),
            (FILE_HEADER, ended.as_str()),
            (FILE_HEADER, uneven.as_str()),
        ]),
        mail(&[inner, TEXT_UTF8, TEXT_UTF8, html, html]),
        mail(&[(FILE_HEADER, "not base64 !!"), (FILE_HEADER, "")]),
        samples::mail(&samples::note()),
    ];
    for message in all {
        let rich = enrich(&message).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&message)));
        assert!(restore(&rich, message.len()).unwrap() == message);
        found_as_in_the_model(&rich);
        assert_eq!(enrich(&message), Some(rich), "the same message gives the same bytes");
    }
}

#[test]
fn readers_of_tnef_find_text_people_and_files() {
    let file: Vec<u8> = (0..50_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let message = mail(&[TEXT_UTF8, (FILE_HEADER, base64_lines(&file, 76).as_str())]);
    let rich = enrich(&message).unwrap();
    let read = decode(&rich).unwrap();
    assert_eq!(read.class(), "IPM.Note");
    assert_eq!(read.text(property::SUBJECT).unwrap(), "Gr\u{fc}\u{df}e");
    assert_eq!(read.text(property::BODY).unwrap(), "Gr\u{fc}\u{df}e,\r\nEmile");
    assert_eq!(read.property(property::CLIENT_SUBMIT_TIME), Some(&Value::Time(samples::TIME)));
    assert_eq!(read.recipients.len(), 3);
    let data = crate::model::find_attribute(&read.attachments[0].attributes, attribute::ATTACH_DATA);
    assert_eq!(data.unwrap(), file);
    // A file takes its bytes and not its base64.
    assert!(rich.len() < message.len() - file.len() / 5, "{} {}", rich.len(), message.len());
    // As `winmail.dat` it converts, as that of any other encoder does.
    let sent =
        [&b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n"[..], &rich]
            .concat();
    let Ok(Outcome::Converted(mime)) = convert(&sent) else { panic!("it is rich") };
    let mime = String::from_utf8(mime).unwrap();
    assert!(mime.contains("To: \"Ana\" <ana@y.example>") && mime.contains("a.pdf"), "{mime}");
}

#[test]
fn sealed_mail_stays_as_it_is() {
    let signed =
        String::from_utf8(mail(&[TEXT_UTF8])).unwrap().replace("multipart/mixed", "multipart/signed");
    assert_eq!(enrich(signed.as_bytes()), None);
    let inline = b"Subject: x\r\n\r\n-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA512\r\n\r\nx\r\n";
    assert_eq!(enrich(inline), None);
}

#[test]
fn a_damaged_frame_is_an_error() {
    let rich = enrich(b"Subject: x\r\n\r\nplain text\r\n").unwrap();
    for at in 0..rich.len() {
        let mut damaged = rich.clone();
        damaged[at] ^= 0x55;
        found_as_in_the_model(&damaged);
        // An error or other bytes, and no panic.
        let _ = restore(&damaged, 1_000);
        let _ = restore(&rich[..at], 1_000);
    }
    assert!(restore(b"x", 1_000).is_err());
    assert_eq!(restore(&encode(&samples::note()).unwrap(), 1_000), Err(Damage::Frame));
}

/// Text without a charset, or in one that contains ASCII, is stored once.
#[test]
fn plain_text_is_stored_once() {
    let text = "words of a text that is long enough\r\n".repeat(1_000);
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: text/plain; charset=iso-8859-1\r\n"] {
        let message = format!("Subject: x\r\n{kind}\r\n{text}").into_bytes();
        let rich = enrich(&message).unwrap();
        assert_eq!(restore(&rich, message.len()).unwrap(), message);
        assert!(rich.len() < message.len() + 1_000, "{kind}: {} bytes of {}", rich.len(), message.len());
    }
}
