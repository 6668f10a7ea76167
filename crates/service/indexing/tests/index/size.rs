//! How large the index of very short mail is, with the keys of SORT and THREAD.

use posthaste_indexing::TermReader;
use posthaste_mime_summary::{SummaryRef, TextSearch};
use posthaste_search_index::{Builder, Segment, Terms};

const MESSAGES: u32 = 1000;

/// A number below `end`, the same for the same seed. Small ones are frequent, as words are.
fn below(seed: u32, end: u32) -> u32 {
    let mixed = seed.wrapping_mul(0x9E37_79B1) ^ (seed >> 7).wrapping_mul(0x85EB_CA6B);
    let part = f64::from(mixed) / f64::from(u32::MAX);
    (f64::from(end).powf(part) as u32).min(end - 1)
}

/// A word of three letters to ten.
fn word(number: u32) -> String {
    const PARTS: [&str; 16] = [
        "ba", "ko", "lin", "ter", "ma", "ul", "sen", "su", "for", "ni", "ed", "ga", "pro", "wi", "ta", "cel",
    ];
    let mut word = PARTS[(number % 16) as usize].to_owned();
    let mut left = number / 16 + 1;
    while left > 0 {
        word += PARTS[(left * 7 % 16) as usize];
        left /= 16;
    }
    word
}

/// A message of some 640 bytes: a header as programs write it, and three sentences.
fn message(n: u32) -> String {
    let words = |from: u32, count: u32| {
        (0..count).map(|w| word(below(n * 1009 + from + w * 131, 20_000))).collect::<Vec<_>>().join(" ")
    };
    let (ann, bob) = (below(n * 31, 400), below(n * 37 + 5, 400));
    let unique = n.wrapping_mul(2_654_435_761);
    format!(
        "Return-Path: <{ann}@mail{}.example.org>\r\n\
         From: {} {} <{}@mail{}.example.org>\r\nTo: {} <{}@example.com>\r\nSubject: {}\r\n\
         Date: Mon, {} Jun 2026 {:02}:{:02}:{:02} +0200\r\nMessage-ID: <{unique:08x}.{:06x}@mail{}.example.org>\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: 8bit\r\n\r\n{}\r\n",
        ann % 20,
        word(ann),
        word(ann + 900),
        word(ann),
        ann % 20,
        word(bob),
        word(bob + 500),
        words(0, 4),
        n % 28 + 1,
        n % 24,
        n * 7 % 60,
        n * 13 % 60,
        unique >> 9 & 0xFF_FFFF,
        ann % 20,
        words(10, 40),
    )
}

fn terms(message: &[u8]) -> Terms {
    let summary = posthaste_delivery::summarize(message);
    let summary = SummaryRef::new(&summary).unwrap();
    let mut terms = TermReader::default();
    terms.begin(&summary);
    let mut search = TextSearch::new(&[], &summary);
    while terms.step(&mut search, &[], message).is_some() {}
    terms.finish()
}

/// The sizes of a segment's parts: the layout is in `search-index/src/segment.rs`, that of the
/// sort keys in `sort_keys.rs` beside it.
fn print_parts(segment: &Segment) {
    let bytes = segment.as_bytes();
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let (messages, ranges) = (number(12), number(16));
    let each = |what: &str, len: usize| eprintln!("{:6.1} {what}", len as f64 / messages as f64);
    each("head and ranges", 60 + ranges * 8);
    each("UIDs, and bits of messages that may hold anything", messages * 4 + messages.div_ceil(8));
    let keys_at = 60 + ranges * 8 + messages * 4 + messages.div_ceil(8);
    each("sort keys: flags, dates, Message-IDs, numbers of references", messages * 19);
    each("sort keys: references", number(keys_at) * 8);
    for (text, what) in (0..).zip(["base subject", "from", "to", "cc", "shown from", "shown to"]) {
        let (count, len) = (number(keys_at + 4 + text * 8), number(keys_at + 8 + text * 8));
        each(&format!("sort keys: {what}, numbers"), messages * 2);
        each(&format!("sort keys: {what}, {count} texts with their ends"), len + count * 4);
    }
    for (at, scope) in [(28, "envelope"), (40, "texts")] {
        let (words, words_len, lists_len) = (number(at), number(at + 4), number(at + 8));
        let blocks = words.div_ceil(64);
        each(&format!("{scope}: {words} words, as they are stored"), words_len);
        each(&format!("{scope}: lists"), lists_len);
        each(&format!("{scope}: places of blocks"), blocks * 8);
        each(&format!("{scope}: rows"), 1024 * blocks.div_ceil(8));
    }
}

#[test]
fn the_index_of_very_short_mail_takes_less_than_forty_percent() {
    let (mut builder, mut bytes) = (Builder::default(), 0);
    for n in 1..=MESSAGES {
        let message = message(n);
        bytes += message.len() as u64;
        assert!(builder.add(n, &terms(message.as_bytes())));
    }
    let segment = builder.build(&[(1, MESSAGES)]);
    let (size, keys) = (segment.as_bytes().len() as u64, segment.sort_key_bytes());
    let each = u64::from(MESSAGES);
    assert!((600..680).contains(&(bytes / each)), "{} bytes a message", bytes / each);
    eprintln!(
        "{} bytes a message, {} of {} in the index are sort keys",
        bytes / each,
        keys / each,
        size / each
    );
    print_parts(&segment);
    assert!(size * 100 < bytes * 40, "{size} of {bytes} bytes, {keys} of them sort keys");
}
