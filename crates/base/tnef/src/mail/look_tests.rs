//! Each way to detect rich content agrees with a simple one, for any message.

use posthaste_property::properties;
use proptest::prelude::*;

use super::*;
use crate::samples;

#[test]
fn a_name_in_a_text_is_no_mark() {
    for text in ["a.data", "x.date = 1", "rfc.dat1", "a.DATA"] {
        assert!(!might_be_rich(text.as_bytes()), "{text}");
    }
    for text in ["winmail.dat", "winmail.dat\"", "Winmail.DAT;", "application/ms-tnef", "x-TNEFx"] {
        assert!(might_be_rich(text.as_bytes()), "{text}");
    }
    assert!(!says_it_is_rich(b"Subject: x\r\n\r\napplication/ms-tnef winmail.dat"));
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    let unnamed = mail.replace("application/ms-tnef", "application/octet-stream");
    assert!(says_it_is_rich(mail.as_bytes()) && says_it_is_rich(unnamed.as_bytes()));
    assert!(!says_it_is_rich(unnamed.replace("winmail.dat", "other.dat").as_bytes()));
}

/// The simplest way to detect it: each byte, then each part with all its parameters.
fn plainly(message: &[u8]) -> bool {
    let is_mark = |at: usize| {
        let rest = message.get(at..).unwrap_or_default();
        let begins = |mark: &[u8]| rest.get(..mark.len()).is_some_and(|it| it.eq_ignore_ascii_case(mark));
        begins(b"-tnef") || begins(b".dat") && rest.get(4).is_none_or(|b| !b.is_ascii_alphanumeric())
    };
    let says = |part: &Part| part.kind == Kind::Leaf && (has_type(part, message) || has_name(part, message));
    (0..message.len()).any(is_mark) && Structure::parse(message).parts().iter().any(says)
}

fn looks(message: &[u8]) -> [bool; 2] {
    [says_it_is_rich(message), declares_rich(&Structure::parse(message), message)]
}

/// Lines of which messages are made that may be rich.
const LINES: &[&str] = &[
    "Content-Type: application/ms-tnef",
    "content-type: APPLICATION/vnd.MS-TNEF; name=x",
    "Content-Type: (a) application / ms-tnef (b)",
    "Content-Type: application/octet-stream; name=winmail.dat",
    "Content-Type: application/octet-stream",
    "Content-Disposition: attachment; filename=\"WINMAIL.DAT\"",
    "Content-Disposition: attachment; filename*=utf-8''winmail%2Edat",
    "Content-Type: text/plain; name=winmail.dat",
    "Content-Type:\r\n\tTEXT/html",
    "Content-Type: text",
    "Content-Type: message/rfc822",
    "Content-Type: multipart/mixed; boundary=b",
    "Content-Type: multipart/digest; boundary=c",
    "Content-Transfer-Encoding: base64",
    "--b",
    "--b--",
    "--c",
    "",
    "",
    "see winmail.dat",
    "a.data",
    "application/ms-tnef",
];

properties! {
    #[test]
    fn both_looks_decide_as_the_plain_one(lines in prop::collection::vec(prop::sample::select(LINES), 0..24)) {
        let message = lines.join("\r\n");
        let plain = plainly(message.as_bytes());
        prop_assert_eq!(looks(message.as_bytes()), [plain, plain]);
    }
}

#[test]
fn both_looks_find_a_part_at_any_depth() {
    let rich = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    let inside = format!("Content-Type: message/rfc822\r\n\r\n{rich}");
    let digest = format!("Content-Type: multipart/digest; boundary=d\r\n\r\n--d\r\n\r\n{rich}\r\n--d--\r\n");
    for message in [&rich, &inside, &digest] {
        assert!(plainly(message.as_bytes()));
        assert_eq!(looks(message.as_bytes()), [true, true]);
        assert_eq!(looks(message.replace("tnef", "word").as_bytes()), [false, false]);
    }
}
