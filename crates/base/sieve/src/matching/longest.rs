//! The longest match of a regular expression and the longest of each part of it, as POSIX has them
//! (IEEE Std 1003.1, XBD §9.1). The crate `regex` takes the first of several.
//!
//! All ways through the expression go along the text at once. If two ways meet, the better one
//! continues, so no way is walked twice. Each part of a sequence is a group here, also without
//! parentheses. A way is better whose first group that differs is longer.

use std::ops::Range;
use std::rc::Rc;

use regex_automata::nfa::thompson::{self, NFA, State};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::{Capture, Hir, HirKind, Repetition};

/// Steps that one search may take: some ten milliseconds. An expression of usual size gets through
/// a field of 10 KiB. Twice as many would let a script that matches in a loop take seconds.
const STEPS_MAX: usize = 1 << 18;
/// Groups of an expression. Each has eight bytes on each way.
const GROUPS_MAX: u32 = 256;
/// Bytes that all ways may take: half of the memory that a run has besides its message.
const WAYS_BYTES_MAX: usize = 2 << 20;
/// A position that a way has not come to.
const UNSET: u32 = u32::MAX;

/// The positions where the groups of a way begin and end.
type GroupBounds = Rc<[u32]>;

/// An expression whose parts are all groups.
pub(crate) struct Longest {
    nfa: NFA,
    /// The groups that were written, by their numbers here.
    written: Vec<u32>,
    count: u32,
}

/// The ways that have come to a position of the text.
struct Front {
    /// The best way to each state.
    best: Vec<Option<GroupBounds>>,
    /// The states that have one, those that the expression prefers first.
    order: Vec<StateID>,
}

impl Front {
    fn new(states: usize) -> Self {
        Self { best: vec![None; states], order: Vec::new() }
    }

    fn clear(&mut self) {
        for state in self.order.drain(..) {
            self.best[state.as_usize()] = None;
        }
    }
}

impl Longest {
    /// The expression in the syntax of the crate; `None` if it is too large.
    pub(crate) fn new(pattern: &str, ignores_case: IgnoresCase, bytes_max: usize) -> Option<Self> {
        let mut parser = regex_syntax::ParserBuilder::new();
        parser.case_insensitive(ignores_case.0).dot_matches_new_line(true).nest_limit(NEST_MAX);
        let parsed = parser.build().parse(pattern).ok()?;
        let mut groups = Groups { count: 1, written: vec![0] };
        let whole = groups.within(&parsed);
        if groups.count > GROUPS_MAX {
            return None;
        }
        let config = thompson::Config::new().nfa_size_limit(Some(bytes_max));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(&whole).ok()?;
        // A way to each state, at this position of the text and at the next.
        let ways_bytes = nfa.states().len() * groups.count as usize * 2 * 2 * size_of::<u32>();
        (ways_bytes <= WAYS_BYTES_MAX).then_some(Self { nfa, written: groups.written, count: groups.count })
    }

    /// The longest match that begins at a position, and its groups as they were written. `None`
    /// without a match, or if the search takes too long.
    pub(crate) fn find(&self, text: &str, from: usize, steps: &mut u64) -> Option<Vec<Range<usize>>> {
        let mut left = STEPS_MAX;
        let found = self.walk(text.as_bytes(), from, &mut left);
        *steps += (STEPS_MAX - left + self.nfa.states().len()) as u64;
        let (end, bounds) = found?;
        let range = |group: &u32| {
            let at = *group as usize * 2;
            match (bounds.get(at).copied(), bounds.get(at + 1).copied()) {
                (Some(start), Some(end)) if start != UNSET && end != UNSET => start as usize..end as usize,
                _ => 0..0,
            }
        };
        let mut captures: Vec<Range<usize>> = self.written.iter().map(range).collect();
        if let Some(whole) = captures.first_mut() {
            *whole = from..end;
        }
        Some(captures)
    }

    fn walk(&self, text: &[u8], from: usize, left: &mut usize) -> Option<(usize, GroupBounds)> {
        let states = self.nfa.states().len();
        let (mut now, mut next) = (Front::new(states), Front::new(states));
        let none: GroupBounds = vec![UNSET; self.count as usize * 2].into();
        let mut found: Option<(usize, GroupBounds)> = None;
        self.enter(&mut now, (self.nfa.start_anchored(), none), (text, from), left)?;
        for at in from..=text.len() {
            if now.order.is_empty() {
                break;
            }
            for state in &now.order {
                let Some(bounds) = &now.best[state.as_usize()] else { continue };
                if let State::Match { .. } = self.nfa.state(*state) {
                    // One way at most comes to it, and each position of the text is further on.
                    found = Some((at, Rc::clone(bounds)));
                    continue;
                }
                let target = text.get(at).and_then(|byte| after(self.nfa.state(*state), *byte));
                if let Some(target) = target {
                    self.enter(&mut next, (target, Rc::clone(bounds)), (text, at + 1), left)?;
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
        }
        found
    }

    /// Adds a way to a front, with all that it leads to without a byte. `None` if that takes too
    /// long.
    fn enter(
        &self,
        front: &mut Front,
        way: (StateID, GroupBounds),
        (text, at): (&[u8], usize),
        left: &mut usize,
    ) -> Option<()> {
        let mut stack = vec![way];
        while let Some((state, bounds)) = stack.pop() {
            *left = left.checked_sub(1)?;
            match &mut front.best[state.as_usize()] {
                Some(known) if !is_better(&bounds, known) => continue,
                Some(known) => *known = Rc::clone(&bounds),
                unknown => {
                    *unknown = Some(Rc::clone(&bounds));
                    front.order.push(state);
                }
            }
            match self.nfa.state(state) {
                State::Look { look, next } => {
                    if self.nfa.look_matcher().matches(*look, text, at) {
                        stack.push((*next, bounds));
                    }
                }
                State::Union { alternates } => {
                    stack.extend(alternates.iter().rev().map(|next| (*next, Rc::clone(&bounds))));
                }
                State::BinaryUnion { alt1, alt2 } => {
                    stack.push((*alt2, Rc::clone(&bounds)));
                    stack.push((*alt1, bounds));
                }
                State::Capture { next, slot, .. } => {
                    let at = u32::try_from(at).ok().filter(|at| *at != UNSET)?;
                    *left = left.checked_sub(self.count as usize / 8)?;
                    let mut moved = bounds.to_vec();
                    let slot = slot.as_usize();
                    if let Some(position) = moved.get_mut(slot) {
                        *position = at;
                    }
                    if slot % 2 == 0
                        && let Some(end) = moved.get_mut(slot + 1)
                    {
                        *end = UNSET;
                    }
                    stack.push((*next, moved.into()));
                }
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Fail
                | State::Match { .. } => {}
            }
        }
        Some(())
    }
}

/// Whether a pattern ignores case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IgnoresCase(pub(crate) bool);

/// The most levels of groups.
pub(crate) const NEST_MAX: u32 = 50;

/// The state after a byte.
fn after(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(all) => all.matches_byte(byte),
        State::Dense(all) => all.matches_byte(byte),
        _ => None,
    }
}

/// Whether a way is better than another one to the same state: the first group that differs
/// decides. A match is better than no match, then an earlier begin, then a later end.
fn is_better(bounds: &GroupBounds, than: &GroupBounds) -> bool {
    for (ours, theirs) in bounds.chunks_exact(2).zip(than.chunks_exact(2)).skip(1) {
        if let ([start, end], [their_start, their_end]) = (ours, theirs) {
            if start != their_start {
                // An unset one is the greatest.
                return start < their_start;
            }
            if end != their_end && *end != UNSET && *their_end != UNSET {
                return end > their_end;
            }
        }
    }
    false
}

/// Numbers the groups: those that were written, and one for each part of a sequence.
struct Groups {
    count: u32,
    written: Vec<u32>,
}

impl Groups {
    fn group(&mut self, sub: &Hir, written: Option<u32>) -> Hir {
        let index = self.count;
        self.count += 1;
        if let Some(number) = written {
            let number = number as usize;
            if self.written.len() <= number {
                self.written.resize(number + 1, 0);
            }
            if let Some(position) = self.written.get_mut(number) {
                *position = index;
            }
        }
        let sub = Box::new(self.within(sub));
        Hir::capture(Capture { index, name: None, sub })
    }

    fn within(&mut self, hir: &Hir) -> Hir {
        if self.count > GROUPS_MAX {
            return hir.clone();
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
            HirKind::Capture(capture) => self.group(&capture.sub, Some(capture.index)),
            HirKind::Repetition(repetition) => {
                let sub = Box::new(self.within(&repetition.sub));
                let Repetition { min, max, .. } = *repetition;
                Hir::repetition(Repetition { min, max, greedy: true, sub })
            }
            HirKind::Concat(parts) => Hir::concat(parts.iter().map(|part| self.part(part)).collect()),
            HirKind::Alternation(parts) => {
                Hir::alternation(parts.iter().map(|part| self.within(part)).collect())
            }
        }
    }

    /// A part of a sequence. One of a fixed length has no choice.
    fn part(&mut self, hir: &Hir) -> Hir {
        let properties = hir.properties();
        let is_fixed =
            properties.minimum_len().is_some() && properties.minimum_len() == properties.maximum_len();
        match hir.kind() {
            HirKind::Capture(_) => self.within(hir),
            _ if is_fixed && properties.explicit_captures_len() == 0 => hir.clone(),
            _ => self.group(hir, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    /// The longest match at the first position that has one, and its groups.
    fn found(pattern: &str, text: &str) -> Option<Vec<String>> {
        let first = regex::RegexBuilder::new(pattern).dot_matches_new_line(true).build().unwrap();
        let from = first.find(text)?.start();
        let longest = Longest::new(pattern, IgnoresCase(false), 1 << 20).unwrap();
        let captures = longest.find(text, from, &mut 0).unwrap();
        Some(captures.into_iter().map(|range| text[range].to_owned()).collect())
    }

    #[test]
    fn the_longest_of_all_and_of_each_part() {
        for (pattern, text, groups) in [
            ("(a|ab)", "xab", &["ab", "ab"][..]),
            ("(a|ab)(c|bcd)", "abcd", &["abcd", "a", "bcd"]),
            ("(a|ab)(c|bcd)(d*)", "abcd", &["abcd", "ab", "c", "d"]),
            ("(a*)(ab)*(b*)", "abb", &["abb", "a", "", "bb"]),
            ("a*(a*)(b?)", "aab", &["aab", "", "b"]),
            ("(a?)(ab)?", "ab", &["ab", "", "ab"]),
            ("(week|wee)(night|knights)", "xweeknights", &["weeknights", "wee", "knights"]),
            ("(x|xy|xyz)+", "xyzx", &["xyzx", "x"]),
            ("(foo|foobar)(bar)?$", "foobar", &["foobar", "foobar", ""]),
            ("ü(.|..)é?", "aüxé", &["üxé", "xé"]),
            ("b|^ab", "ab", &["ab"]),
        ] {
            assert_eq!(found(pattern, text).unwrap(), groups, "{pattern} in {text}");
        }
    }

    #[test]
    fn long_matches_are_abandoned() {
        let longest = Longest::new("((a|b)*(a|ab)*)*c?", IgnoresCase(false), 1 << 20).unwrap();
        let mut steps = 0;
        assert!(longest.find(&"ab".repeat(1 << 16), 0, &mut steps).is_none());
        assert!(steps <= STEPS_MAX as u64 + 1_000, "{steps}");
        let many = "(a?)".repeat(GROUPS_MAX as usize);
        assert!(Longest::new(&many, IgnoresCase(false), 1 << 20).is_none());
        assert!(Longest::new("(a{1,500}){1,500}", IgnoresCase(false), 1 << 16).is_none());
    }

    properties! {
        /// No match of any length at the same position is longer.
        #[test]
        fn no_other_match_is_longer(pattern in "(\\(?[ab.]\\)?[*+?|]?){1,6}", text in "[abc]{0,8}") {
            let Ok(first) = regex::Regex::new(&format!("(?s){pattern}")) else { return Ok(()) };
            let Some(start) = first.find(&text).map(|found| found.start()) else { return Ok(()) };
            let exact = regex::Regex::new(&format!("(?s)^(?:{pattern})$")).unwrap();
            let ends = (start..=text.len()).rev().find(|end| exact.is_match(&text[start..*end]));
            let groups = found(&pattern, &text).unwrap();
            prop_assert_eq!(Some(start + groups[0].len()), ends, "{} in {}: {:?}", pattern, text, groups);
        }
    }
}
