//! How much work a search key is: before any message is looked at, when it is parsed, copied and
//! compiled; and in the summary of a message.

use posthaste_imap_codec::SequenceSet;
use posthaste_imap_codec::command::SearchKey;
use posthaste_mime_summary::SummaryRef;

use crate::offload::range_steps;

/// Steps of preparing a key, and of folding an octet of its text.
const KEY_STEPS: u64 = 200;
const TEXT_STEPS: u64 = 16;

/// Steps of an octet of a folded text beyond ASCII that is compared exactly.
const EXACT_STEPS: u64 = 12;
/// The same for a text that is made of its field again. Its encoded words may have three octets for
/// one.
const DECODED_STEPS: u64 = 32;

/// Steps of compiling a key, with the keys in it.
pub(crate) fn compile_steps(key: &SearchKey) -> u64 {
    use SearchKey as K;
    let text = |text: &String| text.len() as u64 * TEXT_STEPS;
    let set = |set: &SequenceSet| range_steps(set.ranges().len());
    let of_value = match key {
        K::And(keys) => return keys.iter().map(compile_steps).sum(),
        K::Or(a, b) => return compile_steps(a) + compile_steps(b),
        K::Not(key) | K::Fuzzy(key) => return compile_steps(key),
        K::Seq(seqs) => set(&seqs.0),
        K::Uid(uids) => set(&uids.0),
        K::Bcc(value) | K::Cc(value) | K::From(value) | K::Subject(value) | K::To(value) => text(value),
        K::Body(value) | K::Text(value) | K::GmRaw(value) | K::GmLabel(value) => text(value),
        K::Header(name, value) => text(name) + text(value),
        _ => 0,
    };
    KEY_STEPS + of_value
}

/// Steps of a search in the folded texts. It skips four bytes in a step. If folding lost something,
/// fields are decoded where the key is found.
#[inline]
pub(super) fn folded_steps(summary: &SummaryRef<'_>) -> u64 {
    let len = summary.folded_len() as u64;
    if summary.has_exact_texts() { len / 4 } else { len * DECODED_STEPS }
}

/// Steps of an exact comparison with the folded texts that lost nothing. Each character beyond
/// ASCII is looked up in tables of Unicode.
pub(super) fn exact_steps(summary: &SummaryRef<'_>) -> u64 {
    if !summary.has_exact_texts() {
        // It is in the steps of the search.
        return 0;
    }
    let texts = [
        summary.subject_folded(),
        summary.from_folded(),
        summary.to_folded(),
        summary.cc_folded(),
        summary.bcc_folded(),
    ];
    let steps = |text: &&[u8]| text.len() as u64 * if text.is_ascii() { 1 } else { EXACT_STEPS };
    texts.iter().map(steps).sum()
}

/// Steps of a search in the fields that a summary has.
#[inline]
pub(super) fn field_steps(summary: &SummaryRef<'_>) -> u64 {
    summary.fields_len() as u64 * 8
}
