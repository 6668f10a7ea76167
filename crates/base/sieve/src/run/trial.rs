//! Values against the keys of one test.

use std::borrow::Cow;

use crate::compiled::{Key, Keys, Matcher};
use crate::matching::{Captures, MatchKind, Pattern};
use crate::run::fault::Fault;
use crate::run::machine::Machine;

/// The bytes that a comparison passes in the time of one step of the longest match, by far less.
const BYTES_PER_STEP: u64 = 8;

/// The keys of a test, ready, and the result.
pub(crate) struct Trial<'t> {
    matcher: Matcher,
    patterns: Vec<Cow<'t, Pattern>>,
    count: u64,
    captures: Captures,
    /// The texts that the match took, if match variables are wanted.
    matched: Option<Vec<String>>,
}

impl<'t> Trial<'t> {
    /// Makes patterns of the keys that have variables in them.
    pub(crate) fn new(machine: &Machine<'_>, matcher: Matcher, keys: &'t Keys) -> Result<Self, Fault> {
        // A long list costs its walk, even if there is nothing to compare it with.
        machine.step(1 + keys.0.len() as u64 / 8)?;
        let mut patterns = Vec::with_capacity(keys.0.len());
        for key in &keys.0 {
            patterns.push(match key {
                Key::Ready(pattern) => Cow::Borrowed(pattern),
                Key::Later(text) => {
                    let text = machine.text(text)?;
                    // An expression is compiled, which takes up to a millisecond: two hundred of
                    // them are as much as a run may do.
                    machine.step(if matcher.kind == MatchKind::Regex { 5000 } else { 1 })?;
                    let made =
                        Pattern::new(matcher.kind, matcher.comparator, &text, machine.limits.regex_bytes_max);
                    Cow::Owned(made.map_err(|error| Fault(error.0))?)
                }
            });
        }
        Ok(Trial { matcher, patterns, count: 0, captures: Captures::new(), matched: None })
    }

    /// Whether values are counted, not compared.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.matcher.kind, MatchKind::Count(_))
    }

    /// Tries one value; whether a key matches. With `:count`, values are only counted.
    pub(crate) fn value(&mut self, machine: &Machine<'_>, value: &str) -> Result<bool, Fault> {
        self.count += 1;
        if self.counts() {
            return Ok(false);
        }
        for pattern in &self.patterns {
            let mut bytes = 0;
            let found = pattern.matches(self.matcher.comparator, value, &mut self.captures, &mut bytes);
            machine.step_bytes(bytes)?;
            if found {
                if pattern.has_captures() && machine.has_variables {
                    let mut steps = 0;
                    pattern.lengthen(self.matcher.comparator, value, &mut self.captures, &mut steps);
                    machine.step_bytes(steps * BYTES_PER_STEP)?;
                    let text =
                        |range: &std::ops::Range<usize>| value.get(range.clone()).unwrap_or_default().into();
                    self.matched = Some(self.captures.iter().map(text).collect());
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The result, after all values or the first one that matched.
    pub(crate) fn finish(&self, has_matched: bool) -> bool {
        match self.matcher.kind {
            // RFC 5231 §4.2: the number of values as a string.
            MatchKind::Count(_) => {
                let count = self.count.to_string();
                self.patterns.iter().any(|pattern| {
                    pattern.matches(self.matcher.comparator, &count, &mut Captures::new(), &mut 0)
                })
            }
            _ => has_matched,
        }
    }

    /// RFC 5229 §3.2: a match that succeeds replaces the match variables; one that fails leaves
    /// them.
    pub(crate) fn matched(self) -> Option<Vec<String>> {
        self.matched
    }
}
