//! The length of a summary, and the memory that making it takes, counted by an allocator. The
//! messages are made to take as much as they can.

mod bounds;

use posthaste_delivery::MESSAGE_COST;
use posthaste_mime_summary::{ADDRESSES_MAX, Section, SummaryRef};
use posthaste_property::properties;
use posthaste_testkit::fuzz_seeds;
use proptest::prelude::*;

use bounds::{repeated, summary_within_bounds, within_bounds};

/// Fails if it is over its bounds; says what it takes.
fn check(what: &str, message: &[u8]) -> Vec<u8> {
    // If it panics, this says on what.
    println!("{what}: {} bytes …", message.len());
    let (summary, memory) = summary_within_bounds(message);
    println!("{what}: {} bytes, summary {}, memory {memory}", message.len(), summary.len());
    summary
}

/// Parts that are messages, each with a header and as many bytes in all.
fn nested(header: &str, len: usize) -> Vec<u8> {
    let mut message = String::from("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    while message.len() < len {
        message.push_str("--b\r\nContent-Type: message/rfc822\r\n\r\n");
        message.push_str(header);
        message.push_str("\r\n\r\n");
    }
    message.into_bytes()
}

/// The same, encoded: what has no `=` is quoted-printable of itself.
fn encoded(header: &str, len: usize) -> Vec<u8> {
    let encoding = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable";
    let message = String::from_utf8(nested(header, len)).expect("ASCII");
    message.replace("Content-Type: message/rfc822", encoding).into_bytes()
}

/// Ten mebibytes of nested messages, each with 10,000 addresses of two bytes in From, which Sender
/// and Reply-To repeat. They once took 4 GB of memory and half a gigabyte of summary.
#[test]
fn nested_messages_with_many_addresses() {
    let message = nested(&format!("From: {}", "a,".repeat(10_000)), 10 << 20);
    let summary = check("addresses", &message);
    let summary = SummaryRef::new(&summary).unwrap();
    // The first ones are messages still, and all else can be fetched as the body of a part.
    let first = summary.locate(&[1], Section::Header).unwrap();
    assert!(first.span.of(&message).starts_with(b"From: a,a,"));
    let (last, beyond) = (summary.parts().count() as u32, summary.locate(&[2000], Section::Body));
    assert!(last < 2000 && beyond.is_none());
}

/// A message counts 1 KiB in addition to its octets, whatever its summary is. So a small one that
/// is made to have a long summary takes most of what an account pays for.
#[test]
fn small_messages_made_to_take_much() {
    let mut most = 0;
    for len in (0..64).map(|n| n * 64) {
        let messages = [
            nested(&format!("From: {}", "a,".repeat(len / 2)), 1),
            nested(&format!("From: {}", "a,".repeat(20)), len),
            nested("", len),
            encoded("", len),
            encoded(&format!("From: {}", "a,".repeat(len / 2)), 1),
            encoded(&format!("From: {}", "a,".repeat(20)), len),
            encoded(
                &format!("Content-Type: multipart/digest; boundary=c\r\n{}", "\r\n--c\r\n".repeat(len / 7)),
                1,
            ),
            format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\n\n".repeat(len / 5))
                .into_bytes(),
            format!("Subject: {}\n\n", "\u{fdfa}".repeat(len / 3)).into_bytes(),
            format!("To: {}\n\n", "a,".repeat(len / 2)).into_bytes(),
            "a:\n".repeat(len / 3).into_bytes(),
            format!("References: {}\n\n", "<a>".repeat(len / 3)).into_bytes(),
        ];
        for message in messages {
            let (summary, _) = summary_within_bounds(&message);
            most = most.max(summary.len() * 10 / (message.len() + MESSAGE_COST as usize));
        }
    }
    println!("a summary took {}.{} times the octets that its message counted", most / 10, most % 10);
}

#[test]
fn any_bytes_are_summarised_within_the_bounds() {
    fuzz_seeds("summarize", 500, within_bounds);
}

/// The seeds of the fuzz target reach the bounds of long messages, although they are short.
#[test]
fn short_inputs_make_long_messages() {
    const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/summarize/");
    let made = |name: &str| {
        let seed = std::fs::read(format!("{SEEDS}{name}")).unwrap();
        assert!(seed.len() < 200, "{name}: {} bytes", seed.len());
        repeated(&seed).unwrap_or_else(|| panic!("{name}: nothing is repeated"))
    };
    let commas = made("repeated-addresses").into_iter().filter(|byte| *byte == b',').count();
    assert!(commas > ADDRESSES_MAX, "{commas} addresses");
    // With 12 bytes of responses for each of its own, it reaches their bound of 8 MiB.
    assert!(made("repeated-messages").len() >= 1 << 20);
    assert_eq!(repeated(b"To: a,\r\n\r\n\x04\0\x01\x03").unwrap(), b"To: a,a,a,a,\r\n\r\n");
    for none in [&b"To: a\r\n\r\n\0\0\0\x15"[..], b"\0\0\0\0", b"abc", b""] {
        assert_eq!(repeated(none), None);
    }
}

#[test]
fn messages_made_to_take_much() {
    let long = "x".repeat(250 << 10);
    let deep: String = (0..3000)
        .map(|n| format!("Content-Type: multipart/mixed; boundary={n}\n\n--{n}\nContent-Type: message/rfc822\nFrom: {n}@x,b,c\n\n"))
        .collect();
    let parts = |header: &str| {
        format!("Content-Type: multipart/mixed; boundary=b\n\n{}", format!("--b\n{header}\n").repeat(100_000))
    };
    let multiparts = "Content-Type: multipart/mixed; boundary=b\n\n--b\n".repeat(100);
    let texts: [(&str, Vec<u8>); 23] = [
        ("encoded addresses", encoded(&format!("From: {}", "a,".repeat(10_000)), 10 << 20)),
        ("encoded names", encoded(&format!("From: \"{long}\" <a@b>"), 10 << 20)),
        ("encoded subjects", encoded(&format!("Subject: {}", "\"".repeat(60_000)), 10 << 20)),
        ("encoded long header", encoded(&format!("To: \"{}\" <a@b>", "x".repeat(15 << 20)), 1)),
        ("encoded fields", encoded(&"To: a\r\n".repeat(2_000_000), 1)),
        ("encoded messages", encoded("", 10 << 20)),
        ("names", nested(&format!("From: \"{long}\" <a@b>"), 10 << 20)),
        ("quotes", nested(&format!("From: {} <a@b>", "\\\"".repeat(100_000)), 10 << 20)),
        ("subjects", nested(&format!("Subject: {}", "\"".repeat(60_000)), 10 << 20)),
        (
            "own lists",
            format!("From: {0}\nTo: {0}\nCc: {0}\nBcc: {0}\n\n", "a,".repeat(100_000)).into_bytes(),
        ),
        ("many fields", "To: a\n".repeat(1_000_000).into_bytes()),
        ("groups", format!("To: {}\n\n", "a:;".repeat(80_000)).into_bytes()),
        ("depth", deep.into_bytes()),
        ("empty parts", parts("").into_bytes()),
        ("digest", parts("").replacen("mixed", "digest", 1).into_bytes()),
        ("types", parts(&format!("Content-Type: {0}/{0}\n", "x".repeat(127))).into_bytes()),
        ("long types", parts(&format!("Content-Type: {0}/{0}\n", "x".repeat(500))).into_bytes()),
        ("parameters", parts(&format!("Content-Type: a/b{}\n", ";a=\"".repeat(100))).into_bytes()),
        ("languages", parts(&format!("Content-Language: {}\n", "a,".repeat(50))).into_bytes()),
        ("folding", format!("Subject: {0}\nTo: {0}\nCc: {0}\n\n", "\u{fdfa}".repeat(80_000)).into_bytes()),
        ("references", format!("References: {}\n\n", "<a>".repeat(80_000)).into_bytes()),
        ("fields of nothing", ":\na:\n".repeat(1_000_000).into_bytes()),
        // Each line was once compared with each of a hundred boundaries.
        ("boundaries", format!("{multiparts}\n{}", "--a\n".repeat(1_000_000)).into_bytes()),
    ];
    for (what, message) in texts {
        check(what, &message);
        // The same, as small as such messages are.
        for len in [100, 1000, 10_000, 100_000] {
            check(what, message.get(..len).unwrap_or(&message));
        }
    }
}

/// The properties that determine the length of a summary, so that a short message can have a long
/// one.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"\n--b\n",
        b"\n--b\n\n",
        b"\n--c\n",
        b"--b\n",
        b"Content-Type: multipart/mixed; boundary=b\n\n",
        b"Content-Type: multipart/digest; boundary=c\n\n",
        b"Content-Type: message/rfc822\n\n",
        b"Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n",
        b"Content-Type: message/rfc822\n\nFrom: a,b,c,d,e,f,g,h\n",
        b"Content-Type: text/x;a=;b=;c=;d=\";\"\n",
        b"Content-Disposition: a;a=;b=;c=\n",
        b"Content-Language: a,b,c,d\n",
        b"Content-ID: \"\"\"\"\n",
        b"Content-Description: \\\\\\\\\n",
        b"From: a,b,c,d,e:f,g;\n",
        b"Sender: x\n",
        b"To: \xef\xb7\xba\n",
        b"Subject: \xef\xb7\xba\xef\xb7\xba\n",
        b"References: <a> <b>\n",
        b"\n",
        b":\n",
        b"a:\n",
    ];
    let piece = prop::sample::select(pieces);
    let runs = prop::collection::vec((piece, 1_usize..60), 1..40);
    runs.prop_map(|runs| runs.into_iter().flat_map(|(piece, times)| piece.repeat(times)).collect())
}

properties! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_summary_is_in_proportion_to_its_message(message in message()) {
        summary_within_bounds(&message);
    }
}
