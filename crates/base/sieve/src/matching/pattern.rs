//! A key with its match type and comparator, ready to be compared with many values.

use std::cmp::Ordering;
use std::ops::Range;

use crate::matching::comparator::Comparator;
use crate::matching::glob::{Glob, SEGMENT_MAX};
use crate::matching::longest::IgnoresCase;
use crate::matching::regular::Regular;
use crate::meter::{Meter, Spent};

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

/// The reason why a key is not a pattern.
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
    Regex(Box<Regular>),
    /// The unchanged key, for `:value` and `:count`.
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
        let folded = || comparator.fold(key).into_owned().into_boxed_str();
        Ok(match kind {
            MatchKind::Is => Pattern::Is(folded()),
            MatchKind::Contains => Pattern::Contains(folded()),
            MatchKind::Matches => {
                let glob = Glob::new(key, |text| comparator.fold(text).into_owned());
                if glob.is_too_long() {
                    return Err(PatternError(format!(
                        "a pattern with \"?\" has more than {SEGMENT_MAX} characters between two \"*\": cut it"
                    )));
                }
                Pattern::Matches(glob)
            }
            MatchKind::Regex => {
                let regular = Regular::new(key, IgnoresCase(comparator.ignores_case()), regex_bytes_max);
                Pattern::Regex(Box::new(regular.map_err(PatternError)?))
            }
            MatchKind::Value(relation) | MatchKind::Count(relation) => {
                Pattern::Relation(relation, key.into())
            }
        })
    }

    /// Whether the value matches. `captures` is filled for wildcards.
    pub(crate) fn matches(
        &self,
        comparator: Comparator,
        value: &str,
        captures: &mut Captures,
        meter: &Meter<'_>,
    ) -> Result<bool, Spent> {
        captures.clear();
        meter.step(1)?;
        Ok(match self {
            Pattern::Is(key) => *comparator.fold_counted(value, meter)? == **key,
            Pattern::Contains(key) => {
                let folded = comparator.fold_counted(value, meter)?;
                key.len() <= folded.len() && memchr::memmem::find(folded.as_bytes(), key.as_bytes()).is_some()
            }
            Pattern::Matches(glob) => {
                let folded = comparator.fold_counted(value, meter)?;
                if !glob.matches(&folded, captures, meter)? {
                    return Ok(false);
                }
                comparator.unfold(value, captures);
                captures.insert(0, 0..value.len());
                true
            }
            Pattern::Regex(regular) => regular.is_match(value, meter)?,
            Pattern::Relation(relation, key) => {
                meter.work(key.len() as u64)?;
                comparator.fold_counted(value, meter)?;
                relation.holds(comparator.compare(value, key))
            }
        })
    }

    /// Fills the groups of a regular expression that matches.
    pub(crate) fn fill(&self, value: &str, captures: &mut Captures, meter: &Meter<'_>) -> Result<(), Spent> {
        if let Pattern::Regex(regular) = self {
            *captures = regular.captures(value, meter)?;
        }
        Ok(())
    }

    /// Whether a match fills match variables (RFC 5229 §3.2).
    pub(crate) const fn has_captures(&self) -> bool {
        matches!(self, Pattern::Matches(_) | Pattern::Regex(_))
    }
}
