//! A key with its match type and comparator, ready to be compared with many values.

use std::cmp::Ordering;
use std::ops::Range;

use crate::matching::comparator::Comparator;
use crate::matching::glob::Glob;
use crate::matching::longest::{IgnoresCase, Longest, NEST_MAX};
use crate::matching::posix::translated;

/// RFC 5231 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

impl Relation {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "gt" => Relation::Greater,
            "ge" => Relation::GreaterOrEqual,
            "lt" => Relation::Less,
            "le" => Relation::LessOrEqual,
            "eq" => Relation::Equal,
            "ne" => Relation::NotEqual,
            _ => return None,
        })
    }

    pub(crate) const fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
        }
    }
}

/// A match type. RFC 5228 §2.7.1, RFC 5231 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchKind {
    Is,
    Contains,
    Matches,
    Regex,
    Value(Relation),
    Count(Relation),
}

/// Bytes that an expression takes while its longest match is looked for. It is made for that and
/// dropped: a script keeps no more than its limit.
const LONGEST_BYTES_MAX: usize = 256 * 1024;

/// Why a key is no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternError(pub(crate) String);

/// A key, compiled.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The key, folded.
    Is(Box<str>),
    /// The key, folded.
    Contains(Box<str>),
    Matches(Glob),
    Regex(Box<regex::Regex>),
    /// The key as it stands, for `:value` and `:count`.
    Relation(Relation, Box<str>),
}

/// The texts that the wildcards matched, as ranges of the value. The first one is the whole match.
pub(crate) type Captures = Vec<Range<usize>>;

impl Pattern {
    pub(crate) fn new(
        kind: MatchKind,
        comparator: Comparator,
        key: &str,
        regex_bytes_max: usize,
    ) -> Result<Self, PatternError> {
        let folded = || comparator.fold_text(key).into_owned().into_boxed_str();
        Ok(match kind {
            MatchKind::Is => Pattern::Is(folded()),
            MatchKind::Contains => Pattern::Contains(folded()),
            MatchKind::Matches => {
                Pattern::Matches(Glob::new(key, |text| comparator.fold_text(text).into_owned()))
            }
            MatchKind::Regex => regex::RegexBuilder::new(&translated(key))
                .case_insensitive(comparator.ignores_case())
                .unicode(true)
                // POSIX: a dot is any character, a line end too.
                .dot_matches_new_line(true)
                .size_limit(regex_bytes_max)
                .dfa_size_limit(regex_bytes_max)
                .nest_limit(NEST_MAX)
                .build()
                .map(|regex| Pattern::Regex(Box::new(regex)))
                .map_err(|error| PatternError(said(&error)))?,
            MatchKind::Value(relation) | MatchKind::Count(relation) => {
                Pattern::Relation(relation, key.into())
            }
        })
    }

    /// Whether the value matches. `captures` is filled for wildcards and groups; `steps` counts
    /// bytes looked at.
    pub(crate) fn matches(
        &self,
        comparator: Comparator,
        value: &str,
        captures: &mut Captures,
        steps: &mut u64,
    ) -> bool {
        captures.clear();
        *steps += value.len() as u64;
        match self {
            Pattern::Is(key) => *comparator.fold_text(value) == **key,
            Pattern::Contains(key) => {
                memchr::memmem::find(comparator.fold_text(value).as_bytes(), key.as_bytes()).is_some()
            }
            Pattern::Matches(glob) => {
                let folded = comparator.fold(value);
                if !glob.matches(&folded.text, captures, steps) {
                    return false;
                }
                for range in captures.iter_mut() {
                    *range = folded.source(range.start)..folded.source(range.end);
                }
                captures.insert(0, 0..value.len());
                true
            }
            Pattern::Regex(regex) => match regex.captures(value) {
                None => false,
                Some(found) => {
                    captures.extend(found.iter().map(|group| group.map_or(0..0, |group| group.range())));
                    true
                }
            },
            Pattern::Relation(relation, key) => relation.holds(comparator.compare(value, key)),
        }
    }

    /// Makes the match of a regular expression the longest one, as POSIX has it. `matches` finds
    /// the first, which stays if the expression or the text is too large for that.
    pub(crate) fn lengthen(
        &self,
        comparator: Comparator,
        value: &str,
        captures: &mut Captures,
        steps: &mut u64,
    ) {
        let (Pattern::Regex(regex), Some(whole)) = (self, captures.first()) else { return };
        let ignores_case = IgnoresCase(comparator.ignores_case());
        let longest = Longest::new(regex.as_str(), ignores_case, LONGEST_BYTES_MAX);
        if let Some(found) = longest.and_then(|longest| longest.find(value, whole.start, steps))
            && found.len() <= captures.len()
        {
            captures.iter_mut().zip(found).for_each(|(range, longest)| *range = longest);
        }
    }

    /// Whether a match fills match variables (RFC 5229 §3.2).
    pub(crate) const fn has_captures(&self) -> bool {
        matches!(self, Pattern::Matches(_) | Pattern::Regex(_))
    }
}

/// The crate's error in one line.
fn said(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(max) => {
            format!(
                "the regular expression is too large: it may take {max} bytes, make its repetitions smaller"
            )
        }
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("this is not a regular expression: {reason}")
        }
    }
}
