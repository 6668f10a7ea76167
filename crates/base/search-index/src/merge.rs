//! Several segments as one, without the messages that are expunged. No text is read for it.

use crate::Scope;
use crate::layout::MESSAGES_MAX;
use crate::segment::{Segment, Words, each_ordinal, ones};
use crate::sort_keys::{KeyColumns, SortKeys};
use crate::word_set::beginning;
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

/// The words of one segment, in their order.
struct Input<'s> {
    words: Words<'s>,
    /// The beginning of the word at hand: most comparisons read nothing else.
    beginning: u64,
    map_len: usize,
    /// The place of each message in the new segment.
    places: &'s [u16],
}

impl<'s> Input<'s> {
    fn new(segment: &'s Segment, places: &'s [u16], scope: Scope) -> Self {
        let mut input =
            Self { words: segment.words(scope), beginning: 0, map_len: segment.map_len(), places };
        input.begin();
        input
    }

    fn begin(&mut self) {
        self.beginning = self.words.current().map_or(0, |(word, _)| beginning(word));
    }

    /// The word at hand, behind its beginning.
    fn word(&self) -> Option<(u64, &[u8])> {
        self.words.current().map(|(word, _)| (self.beginning, word))
    }

    /// Adds the messages of a word, if it is at hand, and goes to the next one.
    fn take(&mut self, taken: (u64, &[u8]), ordinals: &mut Vec<u16>) {
        // A damaged one may have a word twice, or out of order.
        while self.word() == Some(taken) {
            if let Some((_, list)) = self.words.current() {
                each_ordinal(list, self.map_len, |ordinal| {
                    ordinals.extend(self.places.get(ordinal).filter(|place| **place != LEFT_OUT));
                });
            }
            self.words.advance();
            self.begin();
        }
    }
}

/// Writes the words of one scope. The words of each segment ascend, so only one of each is held.
fn merge_scope(segments: &[&Segment], places: &[Vec<u16>], scope: Scope, writer: &mut Writer) {
    let mut inputs: Vec<_> =
        segments.iter().zip(places).map(|(segment, places)| Input::new(segment, places, scope)).collect();
    // Mostly, the messages of one segment follow those of another: then so do their places.
    inputs.sort_by_key(|input| input.places.first().copied());
    let (mut word, mut ordinals) = (Vec::new(), Vec::new());
    while let Some((beginning, least)) = inputs.iter().filter_map(Input::word).min() {
        word.clear();
        word.extend_from_slice(least);
        ordinals.clear();
        inputs.iter_mut().for_each(|input| input.take((beginning, &word), &mut ordinals));
        if !ordinals.is_sorted_by(|a, b| a < b) {
            ordinals.sort_unstable();
            ordinals.dedup();
        }
        writer.word(&word, &ordinals);
    }
    writer.end_scope();
}
