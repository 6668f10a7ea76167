//! Any bytes as a segment. For the fuzz target, and for the test below.

use crate::{Builder, Collector, Front, Query, Scope, Segment, SortKeys, TEXTS, merge};

/// Checks the data as a segment, once as it is and once with the right sum: what is read proposes
/// only messages that it has. Then checks it as the texts of messages: each is proposed for its
/// own pieces.
pub fn segment(data: &[u8]) {
    let _ = Segment::read(data.to_vec());
    front(data);
    let mut summed = data.to_vec();
    let sum = crc32c::crc32c(summed.get(12..).unwrap_or_default());
    if let Some(place) = summed.get_mut(8..12) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(segment) = Segment::read(summed) {
        front(segment.as_bytes());
        for (scope, key) in [(Scope::Envelope, "abcdef"), (Scope::Texts, "a-bcd-e"), (Scope::Texts, "漢字")]
        {
            let Some(query) = Query::new(scope, key.as_bytes()) else { continue };
            let proposed = segment.propose(&query);
            assert!(proposed.len() <= segment.messages() && segment.uids().count() == segment.messages());
            assert!(proposed.iter().all(|uid| segment.uids().any(|other| other == *uid)));
        }
        let merged = merge(&[&segment, &segment], &[], |_| true).map(|merged| merged.messages());
        assert_eq!(merged, Some(segment.messages()));
    }
    built(data);
}

/// As the front of a segment, once as it is and once with the right sum: what is read has a value
/// for each of its messages.
fn front(data: &[u8]) {
    let mut summed = data.to_vec();
    let Some(len) = Front::len_of(data) else { return };
    summed.truncate(len);
    let _ = Front::read(&summed);
    let Some(sum) = crate::front::sum_of(&summed) else { return };
    if let Some(place) = summed.get_mut(crate::front::FRONT_SUM_AT..Front::HEAD_LEN) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(front) = Front::read(&summed) else { return };
    assert_eq!(front.keys().links().count(), front.uids().len());
    for (message, _) in front.uids().enumerate().filter(|(message, _)| front.keys().has(*message)) {
        for key in 0..TEXTS {
            let texts = front.keys().texts(key);
            assert!(texts.text(texts.number(message)).len() <= summed.len());
            assert!(texts.number(message) < texts.len());
        }
    }
}

fn built(data: &[u8]) {
    let texts: Vec<String> = data
        .split(|byte| *byte == b'\n')
        .take(64)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    let mut builder = Builder::default();
    for (uid, text) in (1..).zip(&texts) {
        let mut collector = Collector::default();
        collector.add(Scope::Texts, text.as_bytes());
        collector.set_sort_keys(&sort_keys(uid, text));
        assert!(builder.add(uid, &collector.finish()));
    }
    let segment = builder.build(&[(1, 64)]);
    assert_eq!(Segment::read(segment.as_bytes().to_vec()).as_ref(), Ok(&segment));
    let len = Front::len_of(segment.as_bytes()).unwrap_or(0);
    let front = Front::read(segment.as_bytes().get(..len).unwrap_or_default());
    let front = front.expect("the front of a segment that was built");
    for ((uid, text), keys) in (1..).zip(&texts).zip(front.keys().messages()) {
        assert!(keys.is_none_or(|keys| keys == sort_keys(uid, text)));
    }
    for (uid, text) in (1..).zip(&texts) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for (from, to) in places.iter().zip(places.iter().skip(7)).step_by(5) {
            let query = Query::new(Scope::Texts, &text.as_bytes()[*from..*to]);
            assert!(query.is_none_or(|query| segment.propose(&query).contains(&uid)));
        }
    }
}

fn sort_keys(uid: u32, text: &str) -> SortKeys<'_> {
    let bytes = text.as_bytes();
    let texts = [bytes, b"", b"x", bytes, &[], bytes];
    let (id, is_reply) = (Some(bytes.len() as u64), uid.is_multiple_of(2));
    SortKeys { sent: Some(-i64::from(uid)), id, is_reply, references: bytes.as_chunks().0, texts }
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
