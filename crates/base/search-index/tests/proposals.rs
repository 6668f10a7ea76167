//! What holds a word is proposed, and what is damaged is refused.

use posthaste_search_index::{Builder, Grams, Segment};
use proptest::prelude::*;

fn build(texts: &[Vec<u8>]) -> Segment {
    let (mut builder, mut grams) = (Builder::default(), Grams::default());
    for (text, uid) in texts.iter().zip(1..) {
        grams.add(text);
        assert!(builder.add(uid * 3, &grams));
        grams.clear();
    }
    builder.build()
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

proptest! {
    /// Few letters, so that words are often held and lists are often bit maps.
    #[test]
    fn every_message_that_holds_a_word_is_proposed(
        texts in prop::collection::vec(prop::collection::vec(b'a'..=b'e', 0..60), 0..80),
        word in prop::collection::vec(b'a'..=b'e', 3..7),
    ) {
        let segment = build(&texts);
        let proposed = segment.propose(&word).unwrap();
        for (text, uid) in texts.iter().zip(1..) {
            prop_assert!(!holds(text, &word) || proposed.contains(&(uid * 3)));
        }
        if word.len() == 3 {
            // One gram, and no two of these letters' grams have the same hash.
            let held = texts.iter().filter(|text| holds(text, &word)).count();
            prop_assert_eq!(proposed.len(), held);
        }
        prop_assert_eq!(Segment::read(segment.as_bytes().to_vec()), Ok(segment));
    }

    #[test]
    fn any_bytes_are_a_segment_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Segment::read(bytes.clone()).is_err());
        // With the right sum, lengths and offsets are what they are.
        bytes.splice(0..0, *b"PHSEARC\x01\0\0\0\0\x03\0\0\0\x02\0\0\0");
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        if let Ok(segment) = Segment::read(bytes) {
            let _ = segment.propose(b"word");
        }
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let bytes = build(&[b"hello world".to_vec(), b"hold the line".to_vec()]).as_bytes().to_vec();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Segment::read(damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn rare_and_frequent_grams_of_many_messages_are_found() {
    let text = |n: usize| match n {
        17 | 900 | 3999 => b"common needle".to_vec(),
        _ => b"common".to_vec(),
    };
    let texts: Vec<Vec<u8>> = (0..4096).map(text).collect();
    let segment = build(&texts);
    assert_eq!(segment.propose(b"needle"), Some(vec![18 * 3, 901 * 3, 4000 * 3]));
    assert_eq!(segment.propose(b"common").unwrap().len(), 4096);
    assert_eq!(segment.propose(b"absent"), Some(Vec::new()));
    assert_eq!(segment.propose(b"co"), None);
}

#[test]
fn a_builder_takes_ascending_uids_until_it_is_full() {
    let (mut builder, grams) = (Builder::default(), Grams::default());
    assert!(builder.add(5, &grams) && !builder.add(5, &grams) && !builder.add(4, &grams));
    assert!((6..6 + 4095).all(|uid| builder.add(uid, &grams)));
    assert!(builder.is_full() && !builder.add(90_000, &grams));
    assert_eq!(builder.build().messages(), 4096);
}
