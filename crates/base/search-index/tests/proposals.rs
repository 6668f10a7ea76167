//! A message that holds a key is proposed, and a damaged segment is refused.

use posthaste_property::{one_of, properties};
use posthaste_search_index::{Builder, Collector, Query, Scope, Segment, Terms, merge};
use proptest::prelude::*;

const TEXTS: Scope = Scope::Texts;

fn terms(text: &str) -> Terms {
    let mut collector = Collector::default();
    collector.add(TEXTS, text.as_bytes());
    collector.finish()
}

/// Messages with the UIDs 3, 6, 9 ….
fn build(texts: &[String]) -> Segment {
    let mut builder = Builder::default();
    for (text, uid) in texts.iter().zip(1..) {
        assert!(builder.add(uid * 3, &terms(text)));
    }
    builder.build(&[(1, 3 + texts.len() as u32 * 3)])
}

fn propose(segment: &Segment, key: &str) -> Vec<u32> {
    segment.propose(&Query::new(TEXTS, key.as_bytes()).expect("a key that can be looked up"))
}

/// Letters, digits, gaps and scripts without spaces; few, so that keys are often held.
fn text(len: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let character = prop::sample::select(vec![
        'a', 'b', 'a', 'b', 'c', '1', 'é', 'я', '漢', '字', 'ก', '😀', ' ', '-', '\n',
    ]);
    prop::collection::vec(character, len).prop_map(String::from_iter)
}

/// Texts of ordinary length, and some with long words.
fn any_text() -> impl Strategy<Value = String> {
    one_of![4 => text(0..60), 1 => prop::collection::vec(prop::sample::select(vec!['a', 'b', 'é']), 40..200).prop_map(String::from_iter)]
}

/// Any characters, with runs of one kind: words longer than all bounds, scripts without spaces,
/// marks, gaps.
fn wild_text() -> impl Strategy<Value = String> {
    let run = one_of![
        prop::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter),
        "[a-c0-2]{1,120}",
        "[a-c]{1,6}",
        "[ ,.@_-]{1,3}",
        "[漢字文書]{1,8}",
        "[กขค]{1,8}",
        "[あいう。]{1,8}",
        "[а-г]{1,50}",
        "(e\u{301}|o\u{308}|\u{1100}\u{1161}){1,20}",
        "[\u{10000}\u{1f600}\u{10ffff}]{1,3}",
        "[\0\r\n\t]{1,2}",
    ];
    prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
}

/// A piece of a text between two of its characters.
fn piece(text: &str, from: prop::sample::Index, len: usize) -> String {
    let from = from.index(text.chars().count() + 1);
    text.chars().skip(from).take(len).collect()
}

fn holds(text: &[u8], key: &str) -> bool {
    key.is_empty() || text.windows(key.len()).any(|window| window == key.as_bytes())
}

properties! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// The index proposes every message that a naive scan of the texts finds. This holds for any
    /// keys and any texts, which come in pieces and are cut off at any byte. It holds for one
    /// segment and for merged ones.
    #[test]
    fn the_index_proposes_every_match_of_a_naive_scan(
        texts in prop::collection::vec((wild_text(), any::<prop::sample::Index>(), any::<bool>()), 1..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        pieces in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_usize..90), 1..12),
        foreign in prop::collection::vec(wild_text(), 0..3),
    ) {
        let texts: Vec<Vec<u8>> = texts
            .into_iter()
            .map(|(text, at, is_cut)| {
                let len = if is_cut { at.index(text.len() + 1) } else { text.len() };
                text.as_bytes()[..len].to_vec()
            })
            .collect();
        let in_pieces = |text: &[u8]| {
            // Pieces end between characters, if the text has them there.
            let whole = String::from_utf8_lossy(text);
            let mut ends: Vec<usize> = cuts.iter().map(|at| at.index(text.len() + 1)).collect();
            ends.retain(|at| whole.len() == text.len() && whole.is_char_boundary(*at));
            ends.sort_unstable();
            let (mut collector, mut from) = (Collector::default(), 0);
            for end in ends {
                collector.add_piece(TEXTS, &text[from..end]);
                from = end;
            }
            collector.add_piece(TEXTS, &text[from..]);
            collector.end_text(TEXTS);
            collector.finish()
        };
        let all: Vec<Terms> = texts.iter().map(|text| in_pieces(text)).collect();
        let segment = |take: fn(usize) -> bool| {
            let mut builder = Builder::default();
            for (terms, number) in all.iter().zip(0..).filter(|(_, number)| take(*number)) {
                assert!(builder.add(number as u32 + 1, terms));
            }
            builder.build(&[(1, 12)])
        };
        let (whole, odd, even) = (segment(|_| true), segment(|n| n % 2 == 1), segment(|n| n % 2 == 0));
        let merged = merge(&[&odd, &even], &[(1, 12)], |_| true).unwrap();
        let again = Segment::read(merged.as_bytes().to_vec()).unwrap();
        let own = pieces.iter().map(|(which, from, len)| {
            piece(&String::from_utf8_lossy(&texts[which.index(texts.len())]), *from, *len)
        });
        for key in own.chain(foreign) {
            let Some(query) = Query::new(TEXTS, key.as_bytes()) else { continue };
            prop_assert!(!key.is_empty());
            let answers = [whole.propose(&query), again.propose(&query)];
            for ((text, terms), uid) in texts.iter().zip(&all).zip(1..) {
                if holds(text, &key) {
                    prop_assert!(terms.may_match(&query), "{key:?} in {text:?}");
                    prop_assert!(answers.iter().all(|uids| uids.contains(&uid)), "{key:?} in {text:?}");
                }
            }
        }
    }

    #[test]
    fn every_message_that_holds_a_key_is_proposed(
        texts in prop::collection::vec(any_text(), 1..60),
        key in text(1..7),
        (which, from, len) in (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_usize..40),
    ) {
        let segment = build(&texts);
        // A key of its own, and a piece of a text.
        let source: Vec<char> = texts[which.index(texts.len())].chars().collect();
        let at = if source.is_empty() { 0 } else { from.index(source.len()) };
        let piece: String = source.iter().skip(at).take(len).collect();
        for key in [key, piece] {
            let Some(query) = Query::new(TEXTS, key.as_bytes()) else { continue };
            let proposed = segment.propose(&query);
            for (text, uid) in texts.iter().zip(1..) {
                let is_proposed = proposed.contains(&(uid * 3));
                prop_assert!(is_proposed || !text.contains(&key), "{key:?} in {text:?}");
                prop_assert!(is_proposed || !terms(text).may_match(&query) );
            }
        }
        prop_assert_eq!(Segment::read(segment.as_bytes().to_vec()), Ok(segment));
    }

    /// Where the pieces of a text end does not matter.
    #[test]
    fn pieces_give_the_same_result_as_the_whole(pieces in prop::collection::vec(any_text(), 0..8)) {
        let mut collector = Collector::default();
        pieces.iter().for_each(|piece| collector.add_piece(TEXTS, piece.as_bytes()));
        collector.end_text(TEXTS);
        prop_assert_eq!(collector.finish(), terms(&pieces.concat()));
    }

    /// Merged segments are what one segment of the same messages is.
    #[test]
    fn merged_segments_propose_the_same(
        texts in prop::collection::vec((any_text(), 0_usize..3, any::<bool>()), 0..100),
        key in text(3..6),
    ) {
        let (mut parts, mut whole) = ([const { Vec::new() }; 3], Vec::new());
        for ((text, part, kept), uid) in texts.iter().zip(1..) {
            if *kept {
                whole.push((uid, terms(text)));
            }
            parts[*part].push((uid, terms(text)));
        }
        let segment = |messages: &[(u32, Terms)]| {
            let mut builder = Builder::default();
            assert!(messages.iter().all(|(uid, terms)| builder.add(*uid, terms)));
            builder.build(&[(1, 120)])
        };
        let parts: Vec<Segment> = parts.iter().map(|part| segment(part)).collect();
        let merged = merge(&parts.iter().collect::<Vec<_>>(), &[(1, 120)], |uid| texts[uid as usize - 1].2).unwrap();
        prop_assert!(merged.uids().eq(whole.iter().map(|(uid, _)| *uid)));
        if let Some(query) = Query::new(TEXTS, key.as_bytes()) {
            let proposed = merged.propose(&query);
            for (uid, terms) in &whole {
                prop_assert!(proposed.contains(uid) || !terms.may_match(&query));
            }
        }
        prop_assert_eq!(Segment::read(merged.as_bytes().to_vec()), Ok(merged));
    }

    #[test]
    fn any_bytes_are_a_segment_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Segment::read(bytes.clone()).is_err());
        // With the right checksum, lengths and offsets may have any value.
        bytes.splice(0..0, *b"PHSEARC\x07\0\0\0\0\x03\0\0\0\x01\0\0\0");
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        if let Ok(segment) = Segment::read(bytes) {
            let _ = propose(&segment, "word");
        }
    }
}

/// A segment of version 2 had trigrams. It is never read as one of words.
#[test]
fn a_segment_of_an_earlier_version_is_refused() {
    let mut bytes = b"PHSEARC\x02\0\0\0\0".to_vec();
    // Three messages, no gram, one range, bytes of the text, the range, the UIDs.
    for number in [3_u32, 0, 1, 90, 0, 1, 3, 1, 2, 3] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let sum = crc32c::crc32c(&bytes[12..]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    assert!(Segment::read(bytes).is_err());
    let mut bytes = build(&["hello world".to_owned()]).as_bytes().to_vec();
    for version in (0..=u8::MAX).filter(|version| *version != 7) {
        bytes[7] = version;
        assert!(Segment::read(bytes.clone()).is_err(), "version {version}");
    }
}

#[test]
fn an_empty_or_short_key_is_not_asked_for() {
    for key in ["", " ", "a", "ab", "a b", "- -", "é"] {
        assert!(Query::new(TEXTS, key.as_bytes()).is_none(), "{key:?}");
    }
}

/// Where a text is not ended, its last word is a word anyway.
#[test]
fn the_end_of_a_message_ends_its_texts() {
    let mut collector = Collector::default();
    collector.add_piece(TEXTS, b"some wo");
    collector.add_piece(Scope::Envelope, b"subject");
    collector.add_piece(TEXTS, b"rds");
    let terms = collector.finish();
    for (scope, key) in [(TEXTS, "some words"), (Scope::Envelope, "subject")] {
        assert!(terms.may_match(&Query::new(scope, key.as_bytes()).unwrap()), "{key}");
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let bytes = build(&["hello world".to_owned(), "hold the line".to_owned()]).as_bytes().to_vec();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Segment::read(damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn exactly_the_messages_with_the_word_are_proposed() {
    let text = |n: usize| match n {
        17 | 900 | 3999 => format!("common needles number{n}"),
        _ => format!("common number{n} ne-ed-le"),
    };
    let texts: Vec<String> = (0..4096).map(text).collect();
    let segment = build(&texts);
    let found = vec![18 * 3, 901 * 3, 4000 * 3];
    for key in ["needle", "eedl", "needles number", "common needle", "dles number"] {
        assert_eq!(propose(&segment, key), found, "{key}");
    }
    assert_eq!(propose(&segment, "common").len(), 4096);
    assert_eq!(
        propose(&segment, "number123"),
        [3 * 124].into_iter().chain((1230..1240).map(|n| 3 * (n + 1))).collect::<Vec<_>>()
    );
    assert!(propose(&segment, "absent").is_empty());
    assert!(propose(&segment, "needle number").is_empty());
    assert!(Query::new(TEXTS, b"co").is_none());
}

#[test]
fn scopes_have_words_of_their_own() {
    let mut collector = Collector::default();
    collector.add(Scope::Envelope, b"invoice");
    collector.add(TEXTS, b"meeting");
    let terms = collector.finish();
    let mut builder = Builder::default();
    builder.add(1, &terms);
    let segment = builder.build(&[(1, 1)]);
    for (scope, key, found) in
        [(Scope::Envelope, "invoice", true), (TEXTS, "invoice", false), (TEXTS, "meeting", true)]
    {
        let query = Query::new(scope, key.as_bytes()).unwrap();
        assert_eq!(terms.may_match(&query), found);
        assert_eq!(!segment.propose(&query).is_empty(), found);
    }
}

/// Random texts are not indexed but always proposed, so that the segment stays small.
#[test]
fn noise_does_not_make_a_segment_large() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut texts: Vec<String> =
        (0..300).map(|n| format!("ordinary words of message{n} {}", "and more ".repeat(200))).collect();
    for n in (0..300).step_by(2) {
        texts[n] = (0..300).map(|_| format!("{:08x} ", random())).collect();
    }
    let segment = build(&texts);
    assert!(segment.as_bytes().len() as u64 * 10 < segment.text_bytes() * 4, "{}", segment.as_bytes().len());
    let proposed = propose(&segment, "message17");
    assert!(proposed.contains(&(3 * 18)) && proposed.len() < 170, "{}", proposed.len());
    let noise: String = texts[0].chars().take(8).collect();
    assert!(propose(&segment, &noise).contains(&3));
}

/// Merges do not, either: each message of the parts has words that no other has, as many as a
/// part keeps.
#[test]
fn merged_segments_stay_small() {
    let text = |n: u32| {
        let own = (0..30_u32).map(|word| format!("{:08x} ", (n * 30 + word).wrapping_mul(0x9E37_79B1)));
        own.collect::<String>() + &"and more ".repeat(60)
    };
    let part = |number: u32| {
        let mut builder = Builder::default();
        // The parts' messages alternate, so that gaps become larger.
        assert!((0..1000).all(|n| builder.add(n * 4 + number + 1, &terms(&text(n * 4 + number)))));
        builder.build(&[(1, 4000)])
    };
    let parts: Vec<Segment> = (0..4).map(part).collect();
    let merged = merge(&parts.iter().collect::<Vec<_>>(), &[(1, 4000)], |_| true).unwrap();
    assert_eq!((merged.messages(), merged.text_bytes() / 4000), (4000, 810));
    for segment in parts.iter().chain([&merged]) {
        let bound = segment.text_bytes() * 2 / 5 + segment.messages() as u64 * 96;
        assert!(segment.as_bytes().len() as u64 <= bound, "{} bytes", segment.as_bytes().len());
    }
}

#[test]
fn a_message_of_too_many_words_may_hold_anything() {
    let text: String = (0..70_000).map(|n| format!("w{n} ")).collect();
    let terms = terms(&text);
    assert_eq!(terms.count(), 0);
    let mut builder = Builder::default();
    builder.add(1, &terms);
    let segment = builder.build(&[(1, 1)]);
    assert_eq!(propose(&segment, "w69999"), [1]);
}

#[test]
fn a_builder_takes_ascending_uids_until_it_is_full() {
    let mut builder = Builder::default();
    let terms = terms("1234567");
    assert!(builder.add(5, &terms) && !builder.add(5, &terms) && !builder.add(4, &terms));
    assert!((6..6 + 4095).all(|uid| builder.add(uid, &terms)));
    assert!(builder.is_full() && !builder.add(90_000, &terms));
    let segment = builder.build(&[(1, 4100)]);
    assert_eq!((segment.messages(), segment.text_bytes()), (4096, 4096 * 7));
    assert_eq!(segment.scanned().collect::<Vec<_>>(), [(1, 4100)]);
}
