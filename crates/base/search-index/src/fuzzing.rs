//! Any bytes as a segment. For the fuzz target, and for the test below.

use crate::{Builder, Grams, Segment};

/// As a segment, once as it is and once with the right sum: what is read proposes only messages
/// that it has. As the texts of messages: each is proposed for a word of its own.
pub fn segment(data: &[u8]) {
    let _ = Segment::read(data.to_vec());
    let mut summed = data.to_vec();
    let sum = crc32c::crc32c(summed.get(12..).unwrap_or_default());
    if let Some(place) = summed.get_mut(8..12) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(segment) = Segment::read(summed) {
        let proposed = segment.propose(b"abcdef").unwrap_or_default();
        assert!(proposed.len() <= segment.messages() && segment.uids().count() == segment.messages());
        assert!(proposed.iter().all(|uid| segment.uids().any(|other| other == *uid)));
    }
    built(data);
}

fn built(data: &[u8]) {
    let texts: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(64).collect();
    let mut builder = Builder::default();
    for (uid, text) in (1..).zip(&texts) {
        let mut grams = Grams::default();
        grams.add(text);
        assert!(builder.add(uid, &grams));
    }
    let segment = builder.build();
    assert_eq!(Segment::read(segment.as_bytes().to_vec()).as_ref(), Ok(&segment));
    for (uid, text) in (1..).zip(&texts) {
        let word = text.get(..text.len().min(20)).unwrap_or_default();
        assert!(segment.propose(word).is_none_or(|uids| uids.contains(&uid)));
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_bytes_are_a_segment_or_none() {
        fuzz_seeds("segment", 5_000, segment);
    }
}
