//! The terms of a message: those of its summary, those of its text, and its sort keys.

use posthaste_mime_summary::{SummaryRef, TextKey, TextSearch, tap_envelope};
use posthaste_search_index::{Collector, Scope, Terms};

use crate::sort_keys::SortKeysOf;

/// Steps for a byte of a summary that is decoded, folded and collected.
const SUMMARY_STEPS: u64 = 16;

/// Steps for the summary of a message: one step is the cost of one byte read, 1 ns or less.
pub fn summary_steps(summary: &SummaryRef<'_>) -> u64 {
    (summary.folded_len() + summary.fields_len()) as u64 * SUMMARY_STEPS
}

/// Collects the terms of one message while the message is read.
#[derive(Debug, Default)]
pub struct TermReader {
    collector: Collector,
    sort_keys: SortKeysOf,
}

impl TermReader {
    /// Takes the envelope of the summary, and what SORT and THREAD compare. The header fields of
    /// the summary come with the message.
    pub fn begin(&mut self, summary: &SummaryRef<'_>) {
        self.collector.set_sort_keys(&self.sort_keys.summary(summary));
        tap_envelope(summary, &mut |text| self.collector.add(Scope::Envelope, text));
    }

    /// A step of a search that reads a message completely. `None` once all is done.
    pub fn step(&mut self, search: &mut TextSearch, keys: &[TextKey], message: &[u8]) -> Option<u64> {
        let collector = &mut self.collector;
        search.step_tapped(
            keys,
            message,
            Some(&mut |piece| {
                match piece.is_repeated {
                    true => collector.add_repeated_piece(Scope::Texts, piece.text),
                    false => collector.add_piece(Scope::Texts, piece.text),
                }
                if piece.is_last {
                    collector.end_text(Scope::Texts);
                }
            }),
        )
    }

    /// How many terms there are so far.
    pub fn count(&self) -> usize {
        self.collector.count()
    }

    /// The terms of the message that was read. The next one begins.
    pub fn finish(&mut self) -> Terms {
        self.collector.finish()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mime_summary::{FieldMask, SearchKey, decode_words};
    use posthaste_property::properties;
    use posthaste_search_index::Query;
    use proptest::prelude::*;

    use super::*;

    properties! {
        /// HEADER looks for its key in the fields of the summary, TEXT in those of the message.
        #[test]
        fn a_message_is_proposed_for_each_piece_of_its_fields(
            lines in prop::collection::vec(
                "(Subject|X-Own|To|Message-ID| |a b)[ \t]?:?[ ,:<>@a-zA-Z0-9\u{e9}\u{6f22}\t\0]{0,40}|\
                 X-Word: =\\?utf-8\\?q\\?[a-z_]{1,9}=C3=A9[a-z]{0,9}\\?= [a-z ]{0,9}",
                0..9,
            ),
            end in "\r?\n",
        ) {
            let message = format!("{}{end}{end}text", lines.join(&end));
            let summary = posthaste_delivery::summarize(message.as_bytes());
            let summary = SummaryRef::new(&summary).unwrap();
            let (mut reader, mut search) = (TermReader::default(), TextSearch::new(&[], &summary));
            reader.begin(&summary);
            while reader.step(&mut search, &[], message.as_bytes()).is_some() {}
            let terms = reader.finish();
            for raw in summary.field_values(&FieldMask::all_but([""; 0])) {
                let value: Vec<char> = decode_words(raw).chars().collect();
                for piece in (3..9).flat_map(|len| value.windows(len)) {
                    let key = SearchKey::new(&piece.iter().collect::<String>());
                    let query = Query::new(Scope::Texts, key.indexed());
                    prop_assert!(query.is_none_or(|query| terms.may_match(&query)), "{:?}", key.indexed());
                }
            }
        }
    }
}
