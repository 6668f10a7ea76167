//! How much work a search key is before any message is looked at: it is parsed, copied, compiled.

use posthaste_imap_codec::SequenceSet;
use posthaste_imap_codec::command::SearchKey;

use crate::offload::range_steps;

/// Steps of preparing a key, and of folding an octet of its text.
const KEY_STEPS: u64 = 200;
const TEXT_STEPS: u64 = 16;

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
