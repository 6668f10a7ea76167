//! The terms of a message: those of its summary, those of its text, and its sort keys.

use posthaste_mime_summary::{SummaryRef, TextKey, TextSearch, tap_envelope, tap_fields};
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
    /// Takes the texts of the summary, and what SORT and THREAD compare.
    pub fn begin(&mut self, summary: &SummaryRef<'_>) {
        self.collector.set_sort_keys(&self.sort_keys.summary(summary));
        tap_envelope(summary, &mut |text| self.collector.add(Scope::Envelope, text));
        // The header of the message has them too.
        tap_fields(summary, &mut |text| self.collector.add_repeated(Scope::Texts, text));
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
