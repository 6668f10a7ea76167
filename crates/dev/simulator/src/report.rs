//! Counts findings of one kind: thousands of states fail for one reason.

use std::collections::BTreeMap;
use std::fmt;

/// Findings by kind, each with the first that showed it.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, (usize, String)>);

impl Tally {
    /// One more. `place` says how to repeat it.
    pub fn add(&mut self, place: &str, violation: &str) {
        self.0.entry(kind(violation)).or_insert_with(|| (0, place.to_owned())).0 += 1;
    }

    /// Findings.
    pub fn len(&self) -> usize {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, (count, place)) in &self.0 {
            writeln!(f, "{count} times ({place}): {kind}")?;
        }
        writeln!(f, "{} findings of {} kinds", self.len(), self.0.len())
    }
}

/// A violation without its ids, paths and numbers.
fn kind(violation: &str) -> String {
    let long = |word: &str| word.len() > 20 || word.contains("/posthaste-");
    let words = violation.split(' ').filter(|word| !long(word)).collect::<Vec<_>>().join(" ");
    let mut text: String = words.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    for (twice, once) in [("##", "#"), ("(#, #), (#, #)", "(#, #)")] {
        while text.contains(twice) {
            text = text.replace(twice, once);
        }
    }
    text.chars().take(110).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_make_a_kind() {
        let mut tally = Tally::default();
        tally.add("seed 1", "mailbox 00000000010000000000000007: 3 of 14 messages are lost");
        tally.add("seed 2", "mailbox 00000000020000000000000007: 1 of 9 messages are lost");
        assert_eq!((tally.len(), tally.0.len()), (2, 1));
    }
}
