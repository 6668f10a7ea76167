//! Nanoseconds of the codec's hot paths: `cargo bench -p posthaste-imap-codec`.
//!
//! Least of many rounds, since other work on the machine can only add. No harness: nothing to
//! install, and the figures are for comparing with each other.

use std::hint::black_box;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use posthaste_imap_codec::framing::{CommandFramer, ResponseFramer};
use posthaste_imap_codec::print;
use posthaste_imap_codec::{ListMatcher, NameEncoding, parse_command, parse_response};

const ROUNDS: usize = 200;
const REPEATS: u32 = 1000;

fn measure(name: &str, mut work: impl FnMut()) {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..REPEATS {
            work();
        }
        least = least.min(start.elapsed().as_nanos() as f64 / f64::from(REPEATS));
    }
    println!("{least:9.1} ns  {name}");
}

fn main() {
    let utf7 = NameEncoding::Utf7;
    for text in [
        "a1 NOOP\r\n",
        "a1 UID FETCH 1:* (UID FLAGS)\r\n",
        "a1 FETCH 1:100 (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT MESSAGE-ID)])\r\n",
        "a1 UID STORE 5 +FLAGS.SILENT (\\Seen)\r\n",
        "a1 UID SEARCH RETURN (ALL) UNSEEN SUBJECT \"some words\" SINCE 1-Feb-1994\r\n",
        "a1 LOGIN ana@example.org \"secret word\"\r\n",
    ] {
        let input = Bytes::from_static(text.as_bytes());
        measure(text.trim_end(), || {
            let _ = black_box(parse_command(black_box(&input), utf7));
        });
    }
    let append = [b"a1 APPEND INBOX (\\Seen) {1000000+}\r\n", &[b'x'; 1_000_000][..], b"\r\n"].concat();
    let append = Bytes::from(append);
    measure("APPEND of 1 MB", || {
        let _ = black_box(parse_command(black_box(&append), utf7));
    });
    for text in [
        "* 12345 FETCH (UID 23456 FLAGS (\\Seen \\Answered))\r\n",
        "a1 OK [READ-WRITE] SELECT completed\r\n",
        "* 1 FETCH (ENVELOPE (\"Wed, 17 Jul 1996 02:23:25 -0700\" \"minutes\" ((\"T G\" NIL \"g\" \"w.edu\")) \
         NIL NIL ((NIL NIL \"i\" \"w.edu\")) NIL NIL NIL \"<B27397@w.edu>\"))\r\n",
    ] {
        let input = Bytes::from_static(text.as_bytes());
        measure(text.trim_end(), || {
            let _ = black_box(parse_response(black_box(&input), utf7));
        });
    }
    let lines = "a1 NOOP\r\n".repeat(100);
    measure("framing of 100 pipelined commands", || {
        let (mut framer, mut buffer) = (CommandFramer::default(), BytesMut::from(lines.as_str()));
        while let Some(frame) = framer.next_frame(&mut buffer) {
            black_box(frame);
        }
    });
    let lines = "* 12345 FETCH (UID 23456 FLAGS (\\Seen))\r\n".repeat(100);
    measure("framing of 100 responses", || {
        let (mut framer, mut buffer) = (ResponseFramer::default(), BytesMut::from(lines.as_str()));
        while let Ok(Some(frame)) = framer.next_frame(&mut buffer) {
            black_box(frame);
        }
    });
    let mut out = Vec::with_capacity(64);
    measure("printing a number of 7 digits", || {
        out.clear();
        print::number(&mut out, black_box(1_234_567));
        black_box(&out);
    });
    measure("printing a string of 40 bytes", || {
        out.clear();
        print::string(&mut out, black_box(b"Re: the minutes of last week's meeting.."));
        black_box(&out);
    });
    let mut matcher = ListMatcher::new("", "Lists/%");
    measure("matching a name against Lists/%", || {
        black_box(matcher.matches(black_box("Lists/rust-users/2026")));
    });
}
