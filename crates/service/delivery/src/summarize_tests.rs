//! Known answers: what FETCH sends for messages as they are written and as they are broken.

use bytes::Bytes;
use posthaste_imap_codec::{NameEncoding, parse_response};
use posthaste_mime_summary::{FieldMask, SearchKey, Section, SummaryRef};
use posthaste_property::properties;
use posthaste_tnef::samples;
use proptest::prelude::*;

use super::{of_structure, structure_unless_rich, summarize};

struct Summary(Vec<u8>);

impl Summary {
    fn of(message: &str) -> Self {
        Summary(summarize(message.replace('\n', "\r\n").as_bytes()))
    }

    fn read(&self) -> SummaryRef<'_> {
        SummaryRef::new(&self.0).unwrap()
    }

    fn envelope(&self) -> String {
        String::from_utf8(self.read().envelope().to_vec()).unwrap()
    }

    fn body(&self) -> String {
        String::from_utf8(self.read().body().to_vec()).unwrap()
    }

    fn body_structure(&self) -> String {
        String::from_utf8_lossy(self.read().body_structure()).into_owned()
    }
}

#[test]
fn a_whole_envelope() {
    let summary = Summary::of(
        "Date: Fri, 20 Nov 2026 11:00:00 +0100\nSubject: =?utf-8?q?=C3=BC?= \"quoted\"\n\
         From: Ana Example <ana@example.org>\nSender: \"Bob, junior\" <bob@example.org>\nReply-To:\n\
         To: team: c@x.org, Dora <d@x.org>;, e@x.org (Eve)\nTo: <@a,@b:f@x.org>\nCc: undisclosed-recipients:;\n\
         In-Reply-To: <1@x>\nMessage-ID:\n <2@x>\n\nbody\n",
    );
    assert_eq!(
        summary.envelope(),
        "(\"Fri, 20 Nov 2026 11:00:00 +0100\" \"=?utf-8?q?=C3=BC?= \\\"quoted\\\"\" \
         ((\"Ana Example\" NIL \"ana\" \"example.org\")) ((\"Bob, junior\" NIL \"bob\" \"example.org\")) \
         ((\"Ana Example\" NIL \"ana\" \"example.org\")) \
         ((NIL NIL \"team\" NIL)(NIL NIL \"c\" \"x.org\")(\"Dora\" NIL \"d\" \"x.org\")(NIL NIL NIL NIL)\
         (\"Eve\" NIL \"e\" \"x.org\")(NIL \"@a,@b\" \"f\" \"x.org\")) \
         ((NIL NIL \"undisclosed-recipients\" NIL)(NIL NIL NIL NIL)) NIL \"<1@x>\" \"<2@x>\")"
    );
}

#[test]
fn an_envelope_of_nothing() {
    assert_eq!(Summary::of("").envelope(), "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)");
    assert_eq!(Summary::of("Subject:\nFrom:\n\n").envelope(), "(NIL \"\" NIL NIL NIL NIL NIL NIL NIL NIL)");
}

#[test]
fn text_that_quotes_cannot_hold_is_a_literal() {
    assert_eq!(
        Summary::of("Subject: gr\u{fc}n\n\n").envelope(),
        "(NIL {5}\r\ngr\u{fc}n NIL NIL NIL NIL NIL NIL NIL NIL)"
    );
}

#[test]
fn plain_bodies() {
    for (message, structure) in [
        ("", "(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 0 0 NIL NIL NIL NIL)"),
        ("\nx\n", "(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 3 1 NIL NIL NIL NIL)"),
        (
            "Content-Type: Image/PNG; name=\"a\\\"b.png\"; x*0*=utf-8''%C3; x*1*=%BC\nContent-Transfer-Encoding: BASE64\n\
             Content-ID: <i@x>\nContent-Description: a\n picture\nContent-MD5: abc==\n\
             Content-Disposition: attachment; filename=a b.png; size=4\nContent-Language: en, de\n\
             Content-Location: http://x/\n\nAAAA\n",
            "(\"Image\" \"PNG\" (\"name\" \"a\\\"b.png\" \"x*\" \"utf-8''%C3%BC\") \"<i@x>\" \"a picture\" \
             \"BASE64\" 6 \"abc==\" (\"attachment\" (\"filename\" \"a b.png\" \"size\" \"4\")) (\"en\" \"de\") \"http://x/\")",
        ),
        (
            "Content-Type: text/html; charset=utf-8 (that one); format=flowed\nContent-Language: en\n\nx\ny",
            "(\"text\" \"html\" (\"charset\" \"utf-8\" \"format\" \"flowed\") NIL NIL \"7bit\" 4 1 NIL NIL \"en\" NIL)",
        ),
    ] {
        assert_eq!(Summary::of(message).body_structure(), structure, "{message:?}");
    }
}

const NESTED: &str = "From: a@x\nContent-Type: multipart/mixed; boundary=\"o u\"\n\nprologue\n--o u\n\
    Content-Type: text/plain\n\nfirst\n\n--o u\nContent-Type: message/rfc822\nX-Mime: of the part\n\n\
    Subject: inner\nFrom: b@x\nContent-Type: multipart/alternative; boundary=i\n\n--i\n\nplain\n--i\n\
    Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n<b>r=C3=ADch</b>\n--i--\n\n--o u--\n\
    epilogue\n";

#[test]
fn nested_bodies() {
    let summary = Summary::of(NESTED);
    let plain = "(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 5 0";
    let html = "(\"text\" \"html\" NIL NIL NIL \"quoted-printable\" 16 0";
    let inner = "(NIL \"inner\" ((NIL NIL \"b\" \"x\")) ((NIL NIL \"b\" \"x\")) ((NIL NIL \"b\" \"x\")) NIL NIL NIL NIL NIL)";
    let message = format!(
        "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 194 {inner} ({plain}){html}) \"alternative\") 13)"
    );
    assert_eq!(summary.body(), format!("((\"text\" \"plain\" NIL NIL NIL \"7bit\" 7 1){message} \"mixed\")"));
}

#[test]
fn sections_are_found_without_the_message() {
    let message = NESTED.replace('\n', "\r\n");
    let summary = Summary::of(NESTED);
    let section = |path: &[u32], section| {
        summary
            .read()
            .locate(path, section)
            .map(|found| found.span.of(message.as_bytes()))
            .map(String::from_utf8_lossy)
    };
    let nested_start = message.find("Subject: inner").unwrap();
    let nested_end = message.find("\r\n--o u--").unwrap();
    let nested = &message[nested_start..nested_end];
    let (header, text) = nested.split_at(nested.find("--i").unwrap());
    assert_eq!(section(&[], Section::Body).unwrap(), message);
    assert_eq!(section(&[], Section::Mime), None);
    assert_eq!(section(&[1], Section::Body).unwrap(), "first\r\n");
    assert_eq!(section(&[1], Section::Mime).unwrap(), "Content-Type: text/plain\r\n\r\n");
    assert_eq!(section(&[1], Section::Header), None);
    assert_eq!(section(&[1, 1], Section::Body), None);
    assert_eq!(section(&[2], Section::Body).unwrap(), nested);
    assert_eq!(section(&[2], Section::Header).unwrap(), header);
    assert_eq!(section(&[2], Section::Text).unwrap(), text);
    assert_eq!(
        section(&[2], Section::Mime).unwrap(),
        "Content-Type: message/rfc822\r\nX-Mime: of the part\r\n\r\n"
    );
    assert_eq!(section(&[2, 1], Section::Body).unwrap(), "plain");
    assert_eq!(section(&[2, 1], Section::Mime).unwrap(), "\r\n");
    assert_eq!(section(&[2, 2], Section::Body).unwrap(), "<b>r=C3=ADch</b>");
    for path in [&[0][..], &[3], &[2, 0], &[2, 3], &[2, 1, 1], &[u32::MAX]] {
        assert_eq!(section(path, Section::Body), None, "{path:?}");
    }
}

#[test]
fn a_message_that_is_a_message() {
    let message = "Content-Type: message/rfc822\n\nSubject: in\n\ntext\n".replace('\n', "\r\n");
    let record = summarize(message.as_bytes());
    let summary = SummaryRef::new(&record).unwrap();
    let section =
        |path: &[u32], section| summary.locate(path, section).map(|found| found.span.of(message.as_bytes()));
    assert_eq!(section(&[1], Section::Body).unwrap(), b"Subject: in\r\n\r\ntext\r\n");
    assert_eq!(section(&[1], Section::Header).unwrap(), b"Subject: in\r\n\r\n");
    assert_eq!(section(&[1, 1], Section::Body).unwrap(), b"text\r\n");
    assert_eq!(section(&[1, 1, 1], Section::Body), None);
    assert_eq!(section(&[1, 2], Section::Body), None);
}

/// RFC 6532 §3.7 allows these encodings for message/global. RFC 2046 §5.2.1 does not for
/// message/rfc822, but programs write them.
#[test]
fn a_message_that_is_encoded_has_the_envelope_of_the_decoded_one() {
    let inner = "(NIL \"in\" NIL NIL NIL NIL NIL NIL NIL NIL) \
                 (\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 6 1 NIL NIL NIL NIL)";
    for (message, structure) in [
        (
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogaW4NCg0KdGV4dA0K\n",
            format!("(\"message\" \"rfc822\" NIL NIL NIL \"base64\" 30 {inner} 1 NIL NIL NIL NIL)"),
        ),
        (
            "Content-Type: message/global\nContent-Transfer-Encoding: quoted-printable\n\nSubject: i=6E\n\ntext\n",
            format!("(\"message\" \"global\" NIL NIL NIL \"quoted-printable\" 23 {inner} 3 NIL NIL NIL NIL)"),
        ),
        (
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: x-unknown\n\nSubject: in\n",
            "(\"application\" \"octet-stream\" NIL NIL NIL \"x-unknown\" 13 NIL NIL NIL NIL)".to_owned(),
        ),
    ] {
        assert_eq!(Summary::of(message).body_structure(), structure, "{message:?}");
    }
}

/// The bytes that every message may print are enough for a digest of empty messages, and for parts
/// of one letter: docs/differences.md has these numbers.
#[test]
fn tiny_parts_are_whole() {
    let parts = |kind: &str, part: &str, count: usize| {
        let head = format!("Content-Type: multipart/{kind}; boundary=b\n\n");
        let summary = Summary::of(&format!("{head}{}--b--\n", part.repeat(count)));
        (summary.body_structure().matches("\"rfc822\"").count(), summary.read().part_count())
    };
    for count in [1, 30, 39] {
        assert_eq!(parts("digest", "--b\n\n", count), (count, 2 * count + 1));
    }
    assert_eq!(parts("digest", "--b\n\n", 40).0, 39);
    assert_eq!(parts("mixed", "--b\n\nx\n", 210), (0, 211));
    assert!(parts("mixed", "--b\n\nx\n", 300).1 < 301);
}

#[test]
fn ten_thousand_parts_print_and_are_found() {
    let mut message = String::from("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    for number in 1..=10_000 {
        message.push_str(&format!("--b\r\n\r\npart {number}\r\n"));
    }
    message.push_str("--b--\r\n");
    let record = summarize(message.as_bytes());
    let summary = SummaryRef::new(&record).unwrap();
    assert_eq!(summary.part_count(), 10_001);
    let last = summary.locate(&[10_000], Section::Body).unwrap();
    assert_eq!(last.span.of(message.as_bytes()), b"part 10000");
    assert_eq!(summary.body().to_vec().windows(6).filter(|w| w == b"\"text\"").count(), 10_000);
    assert!(SearchKey::new("PART 9999").is_in_body(message.as_bytes(), &summary));
}

/// Boundaries of one width end no other's part. Boundaries that begin alike do (RFC 2046 §5.1.1:
/// `--10` begins with `--1`), so there are many parts: fewer bytes than the message anyway.
#[test]
fn nesting_bombs_print() {
    for (width, most) in [(5, 100_000), (0, 400_000)] {
        let mut bomb = String::new();
        for depth in 0..5_000 {
            bomb.push_str(&format!(
                "Content-Type: multipart/mixed; boundary={depth:0width$}\n\n--{depth:0width$}\n\
                 Content-Type: message/rfc822\n\n"
            ));
        }
        let record = summarize(bomb.as_bytes());
        let length = SummaryRef::new(&record).unwrap().body_structure().len();
        assert!(length < most && length < bomb.len(), "{length} of {}", bomb.len());
    }
}

#[test]
fn a_listing_reads_fields_as_they_stand() {
    let summary = Summary::of(
        "Received: by x\nSubject: a\n\tb\nFROM: a@x\nX-Own: 1\nto: b@x\n c@x\nX-Other: 2\n\nbody",
    );
    let summary = summary.read();
    let fetch = |mask: &FieldMask| {
        let mut out = Vec::new();
        summary.header_fields(mask).append_to(&mut out);
        assert_eq!(out.len(), summary.header_fields(mask).len());
        String::from_utf8(out).unwrap()
    };
    let mask = FieldMask::only(["To", "subject", "x-own", "absent"]);
    assert!(!summary.needs_body(&mask));
    assert_eq!(fetch(&mask), "Subject: a\r\n\tb\r\nX-Own: 1\r\nto: b@x\r\n c@x\r\n\r\n");
    assert!(summary.needs_body(&FieldMask::only(["received"])));
    assert!(summary.needs_body(&FieldMask::all_but(["to"])));
    let not = FieldMask::all_but(["Received", "to", "X-OTHER"]);
    assert!(!summary.needs_body(&not));
    assert_eq!(fetch(&not), "Subject: a\r\n\tb\r\nFROM: a@x\r\nX-Own: 1\r\n\r\n");
    assert!(!summary.has_all_fields());
}

/// The words that matter to MIME, and noise.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"\r\n",
        b"\r\n\r\n",
        b"\r\n--b\r\n",
        b"\r\n--c\r\n",
        b"\r\n--b--\r\n",
        b"Content-Type: multipart/mixed; boundary=b\r\n",
        b"Content-Type: multipart/digest; boundary=c\r\n\r\n",
        b"Content-Type: message/rfc822\r\n\r\n",
        b"Content-Type: text/html; charset=\"u\\\"tf\"; x=\xff\r\n",
        b"Content-Disposition: attachment; filename=\"a\0\r\n b\"\r\n",
        b"Content-Language: en, de\r\n",
        b"Content-Type: /;=",
        b"Content-ID: \r\n",
        b"From: a <b@c>, d: \"e\\\\\"@f;, (g\r\n",
        b"Subject: \xc3\xbc \"\\\r\n",
        b"Content-Transfer-Encoding: base64\r\n",
        b"Content-Transfer-Encoding: (x\r\n",
        b"\0",
        b"\r",
        b"\n",
        b"text",
        b" ",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..50).prop_map(|pieces| pieces.concat())
}

/// The record of a message from an earlier program, and the message: both read the same.
#[test]
fn records_of_version_1_are_still_read() {
    let old = include_bytes!("../tests/data/summary-version-1.bin");
    let new = summarize(include_bytes!("../tests/data/summary-version-1.eml"));
    assert!(new.len() < old.len());
    let [old, new] = [&old[..], &new].map(|record| SummaryRef::new(record).unwrap());
    let texts = |of: SummaryRef<'_>| {
        let folded = [of.subject_folded(), of.from_folded(), of.to_folded(), of.cc_folded(), of.bcc_folded()];
        let keys = [of.base_subject(), of.sort_from(), of.sort_to(), of.sort_cc(), of.preview().as_bytes()];
        let responses = [of.envelope().to_vec(), of.body().to_vec(), of.body_structure().to_vec()];
        [folded.map(<[u8]>::to_vec).to_vec(), keys.map(<[u8]>::to_vec).to_vec(), responses.to_vec()].concat()
    };
    assert_eq!(texts(old), texts(new));
    assert!(!texts(old).iter().take(4).any(Vec::is_empty), "the test has something to compare");
    let numbers = |of: SummaryRef<'_>| (of.sent(), of.is_reply(), of.message_size(), of.header_size());
    assert_eq!(numbers(old), numbers(new));
    assert!(
        old.reference_hashes().eq(new.reference_hashes()) && old.message_id_hash() == new.message_id_hash()
    );
    assert!(old.parts().eq(new.parts()) && old.part_count() == 3);
    for mask in [
        FieldMask::only(["subject", "x-own"]),
        FieldMask::all_but(["received"]),
        FieldMask::only(["received"]),
    ] {
        assert_eq!(old.needs_body(&mask), new.needs_body(&mask));
        assert!(old.selected(&mask).eq(new.selected(&mask)));
    }
}

properties! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the message is, a client can read what FETCH sends of it.
    #[test]
    fn stored_responses_follow_the_grammar(message in message()) {
        let record = summarize(&message);
        let summary = SummaryRef::new(&record).unwrap();
        for (item, value) in [
            (&b"ENVELOPE"[..], summary.envelope().to_vec()),
            (b"BODY", summary.body().to_vec()),
            (b"BODYSTRUCTURE", summary.body_structure().to_vec()),
        ] {
            let response = Bytes::from([b"* 1 FETCH (", item, b" ", &value, b")\r\n"].concat());
            let read = parse_response(&response, NameEncoding::Utf7);
            prop_assert!(read.is_ok(), "{read:?} {}", String::from_utf8_lossy(&response));
        }
    }
}

/// One pass over a message serves its summary and the look for rich content.
#[test]
fn a_message_that_is_not_rich_has_its_summary_at_once() {
    let rich = samples::mail(&samples::note());
    assert_eq!(structure_unless_rich(&rich), None);
    let named = String::from_utf8(rich).unwrap().replace("winmail.dat", "other.dat");
    let ordinary = named.replace("application/ms-tnef", "application/octet-stream");
    for message in [ordinary.as_bytes(), b"Subject: x\r\n\r\nsee winmail.dat\r\n", b""] {
        let structure = structure_unless_rich(message).unwrap();
        assert_eq!(of_structure(message, structure), summarize(message));
    }
}
