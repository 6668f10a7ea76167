//! Values against the keys of one test.

use std::borrow::Cow;

use crate::compiled::{Key, Keys, Matcher};
use crate::matching::{Captures, MatchKind, Pattern};
use crate::run::fault::Fault;
use crate::run::machine::Machine;

/// Bytes that the match variables take together. A header has less.
const MATCHED_BYTES_MAX: usize = 1 << 20;

/// Keys of a test that have variables in them, and their bytes. They are compiled and in memory
/// together, and a byte may take seventy. Four of the longest variables fit.
const MADE_MAX: usize = 1024;
const MADE_BYTES_MAX: usize = 32 * 1024;
/// Regular expressions among them: each takes up to 256 KiB.
const MADE_REGEXES_MAX: usize = 8;

/// The keys of a test, ready, and the result.
pub(crate) struct Trial<'t> {
    matcher: Matcher,
    patterns: Vec<Cow<'t, Pattern>>,
    count: u64,
    captures: Captures,
    /// Whether a match fills match variables.
    fills: bool,
    /// The texts that the match took, if match variables are wanted.
    matched: Option<Vec<String>>,
}

impl<'t> Trial<'t> {
    /// Makes patterns of the keys that have variables in them.
    pub(crate) fn new(machine: &Machine<'_>, matcher: Matcher, keys: &'t Keys) -> Result<Self, Fault> {
        // A long list costs its walk, even if there is nothing to compare it with.
        machine.step(1 + keys.0.len() as u64 / 8)?;
        let mut patterns = Vec::with_capacity(keys.0.len());
        let is_regex = matcher.kind == MatchKind::Regex;
        let most = if is_regex { MADE_REGEXES_MAX } else { MADE_MAX };
        let (mut made, mut bytes) = (0, 0);
        for key in &keys.0 {
            patterns.push(match key {
                Key::Ready(pattern) => Cow::Borrowed(pattern),
                Key::Later(text) => {
                    let text = machine.text(text)?;
                    made += 1;
                    bytes += text.len();
                    if made > most || bytes > MADE_BYTES_MAX {
                        return Err(Fault(format!(
                            "a test has more than {most} keys with variables, or they are longer than {MADE_BYTES_MAX} bytes together"
                        )));
                    }
                    // An expression is compiled, which takes up to a millisecond: two hundred of
                    // them reach the limit of a run.
                    machine.step(if is_regex { 5000 } else { 1 })?;
                    let pattern =
                        Pattern::new(matcher.kind, matcher.comparator, &text, machine.limits.regex_bytes_max);
                    Cow::Owned(pattern.map_err(|error| Fault(error.0))?)
                }
            });
        }
        Ok(Trial { matcher, patterns, count: 0, captures: Captures::new(), fills: true, matched: None })
    }

    /// RFC 5173 §6: `body` fills no match variables.
    pub(crate) fn without_variables(self) -> Self {
        Trial { fills: false, ..self }
    }

    /// Whether values are counted, not compared.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.matcher.kind, MatchKind::Count(_))
    }

    /// Tries one value; whether a key matches. With `:count`, values are only counted.
    pub(crate) fn value(&mut self, machine: &Machine<'_>, value: &str) -> Result<bool, Fault> {
        self.count += 1;
        if self.counts() || self.patterns.is_empty() {
            // The value was made anyway.
            machine.step_bytes(value.len() as u64)?;
            return Ok(false);
        }
        for pattern in &self.patterns {
            if pattern.matches(self.matcher.comparator, value, &mut self.captures, &machine.meter)? {
                if self.fills && pattern.has_captures() && machine.has_variables {
                    pattern.fill(value, &mut self.captures, &machine.meter)?;
                    self.matched = Some(texts(value, &self.captures)?);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The result, after all values or the first one that matched.
    pub(crate) fn finish(&self, machine: &Machine<'_>, has_matched: bool) -> Result<bool, Fault> {
        match self.matcher.kind {
            // RFC 5231 §4.2: the number of values as a string.
            MatchKind::Count(_) => {
                let count = self.count.to_string();
                let (comparator, mut captures) = (self.matcher.comparator, Captures::new());
                for pattern in &self.patterns {
                    if pattern.matches(comparator, &count, &mut captures, &machine.meter)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(has_matched),
        }
    }

    /// RFC 5229 §3.2: a match that succeeds replaces the match variables; one that fails leaves
    /// them.
    pub(crate) fn matched(self) -> Option<Vec<String>> {
        self.matched
    }
}

/// The matched texts.
fn texts(value: &str, captures: &Captures) -> Result<Vec<String>, Fault> {
    let bytes: usize = captures.iter().map(ExactSizeIterator::len).sum();
    if bytes > MATCHED_BYTES_MAX {
        return Err(Fault(format!(
            "the texts of a match are longer than {MATCHED_BYTES_MAX} bytes together"
        )));
    }
    Ok(captures.iter().map(|range| value.get(range.clone()).unwrap_or_default().into()).collect())
}
