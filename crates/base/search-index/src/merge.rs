//! Several segments as one, without the messages that are expunged. No text is read for it.

use crate::Scope;
use crate::layout::MESSAGES_MAX;
use crate::segment::{Segment, each_ordinal, ones};
use crate::sort_keys::{KeyColumns, SortKeys};
use crate::write::{Head, Writer};

/// No message of the new segment.
const LEFT_OUT: u16 = u16::MAX;

/// One segment of the messages of these that are `kept`. A message that several have is taken from
/// each: its terms are those of all. `scanned`: the ranges of UIDs that were looked at. `None` if
/// the messages are more than a segment has. This is long work.
pub fn merge(segments: &[&Segment], scanned: &[(u32, u32)], kept: impl Fn(u32) -> bool) -> Option<Segment> {
    let mut uids: Vec<u32> =
        segments.iter().flat_map(|segment| segment.uids()).filter(|uid| kept(*uid)).collect();
    uids.sort_unstable();
    uids.dedup();
    if uids.len() > MESSAGES_MAX {
        return None;
    }
    let place = |uid| uids.binary_search(&uid).map_or(LEFT_OUT, |at| at as u16);
    let places: Vec<Vec<u16>> = segments.iter().map(|segment| segment.uids().map(place).collect()).collect();
    let mut opaque = vec![false; uids.len()];
    for (segment, places) in segments.iter().zip(&places) {
        for place in ones(&segment.opaque()).filter_map(|ordinal| places.get(ordinal)) {
            if let Some(slot) = opaque.get_mut(usize::from(*place)) {
                *slot = true;
            }
        }
    }
    let text_bytes = text_bytes(segments, uids.len());
    let keys = merge_keys(segments, &places, uids.len());
    let mut writer = Writer::new(&Head { uids: &uids, opaque: &opaque, scanned, text_bytes, keys: &keys });
    for scope in Scope::ALL {
        merge_scope(segments, &places, scope, &mut writer);
    }
    Some(writer.finish())
}

/// Bytes of the text of this many messages. The length of each text is not stored: all count as
/// the mean.
fn text_bytes(segments: &[&Segment], left: usize) -> u64 {
    let was: usize = segments.iter().map(|segment| segment.messages()).sum();
    let text = segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.text_bytes()));
    (u128::from(text) * left as u128 / was.max(1) as u128) as u64
}

/// The sort keys of this many messages. Where several segments have those of one, they are the
/// same.
fn merge_keys(segments: &[&Segment], places: &[Vec<u16>], messages: usize) -> Vec<u8> {
    let mut all: Vec<Option<SortKeys<'_>>> = vec![None; messages];
    for (segment, places) in segments.iter().zip(places) {
        let keys = segment.front().map(|front| *front.keys());
        for (place, keys) in places.iter().zip(keys.iter().flat_map(|keys| keys.messages())) {
            if let Some(slot) = all.get_mut(usize::from(*place)) {
                *slot = slot.or(keys);
            }
        }
    }
    let mut columns = KeyColumns::default();
    all.into_iter().for_each(|keys| columns.push(keys));
    columns.finish()
}

/// Writes the words of one scope. The words of each segment ascend, so only one of each is held.
fn merge_scope(segments: &[&Segment], places: &[Vec<u16>], scope: Scope, writer: &mut Writer) {
    let mut inputs: Vec<_> = segments
        .iter()
        .zip(places)
        .map(|(segment, places)| (segment.map_len(), places, segment.words(scope)))
        .collect();
    let (mut word, mut ordinals) = (Vec::new(), Vec::new());
    while let Some((least, _)) =
        inputs.iter().filter_map(|(_, _, words)| words.current()).min_by_key(|(word, _)| *word)
    {
        word.clear();
        word.extend_from_slice(least);
        ordinals.clear();
        for (map_len, places, words) in &mut inputs {
            // A damaged one may have a word twice, or out of order.
            while let Some((_, list)) = words.current().filter(|(other, _)| *other == word) {
                words.advance();
                each_ordinal(list, *map_len, |ordinal| {
                    ordinals.extend(places.get(ordinal).filter(|place| **place != LEFT_OUT));
                });
            }
        }
        // Mostly, the messages of one segment follow those of another.
        if !ordinals.is_sorted_by(|a, b| a < b) {
            ordinals.sort_unstable();
            ordinals.dedup();
        }
        writer.word(&word, &ordinals);
    }
    writer.end_scope();
}
