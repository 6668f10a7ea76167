//! Regular expressions, compiled once and searched within the bounds of a run.
//!
//! Whether a text matches, a lazy automaton finds: it makes its transitions when it first takes
//! them. One that is there costs a part of a step. One that is made costs a part for each state of
//! the expression. A machine that goes all ways at once then finds where the match begins, and its
//! groups. It is used only where a script reads them, and each byte costs a part for each state.
//! Both take memory that is released after the search: the script keeps the states alone.

use std::ops::Range;

use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{Compiler, Config, NFA};
use regex_automata::{Anchored, Input, PatternID};
use regex_syntax::ParserBuilder;

use crate::matching::longest::{IgnoresCase, Longest, NEST_MAX};
use crate::matching::posix::translated;
use crate::meter::{Meter, Spent};

/// Bytes of an expression. While it is read, each may take some hundred bytes. So this is less
/// than half of the memory that a run has besides its message. Literals alone fill the states
/// earlier.
const SOURCE_BYTES_MAX: usize = 8 * 1024;
/// Bytes that the groups of all states may take while a match is looked for: half of the memory
/// that a run has besides its message.
const GROUPS_BYTES_MAX: usize = 2 << 20;
/// Bytes that an expression takes while its longest match is looked for. It is made for that and
/// dropped: a script keeps at most its limit.
const LONGEST_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a position of a group. There are two fronts of states.
const SLOT_BYTES: usize = 2 * size_of::<usize>();
/// Parts of a step that it takes to compile one state.
const COMPILE_WORK: u64 = 32;
/// Parts of a step of one step of the longest match, by far less.
const LONGEST_WORK: u64 = 8;

/// An expression.
#[derive(Debug, Clone)]
pub(crate) struct Regular {
    dfa: dfa::DFA,
    /// As the crate writes it.
    source: Box<str>,
    ignores_case: bool,
}

impl Regular {
    /// Compiles an expression of draft-ietf-sieve-regex. The error says why it is invalid or too
    /// large.
    pub(crate) fn new(key: &str, IgnoresCase(ignores_case): IgnoresCase, max: usize) -> Result<Self, String> {
        if key.len() > SOURCE_BYTES_MAX {
            return Err(format!("the regular expression is longer than {SOURCE_BYTES_MAX} bytes: cut it"));
        }
        let source = translated(key);
        let mut parser = ParserBuilder::new();
        // POSIX: a dot is any character, a line end too.
        parser.case_insensitive(ignores_case).dot_matches_new_line(true).nest_limit(NEST_MAX);
        let hir = parser.build().parse(&source).map_err(|error| syntax_error(&error))?;
        let config = Config::new().nfa_size_limit(Some(max));
        let nfa = Compiler::new().configure(config).build_from_hir(&hir).map_err(|error| {
            match error.size_limit() {
                Some(max) => format!(
                    "the regular expression is too large: it may take {max} bytes, make its repetitions smaller"
                ),
                None => syntax_error(&error),
            }
        })?;
        let groups_bytes = nfa.states().len() * nfa.group_info().slot_len() * SLOT_BYTES;
        if groups_bytes > GROUPS_BYTES_MAX {
            return Err(format!(
                "the groups of the regular expression are too many for its size: they may take {GROUPS_BYTES_MAX} bytes and take {groups_bytes}, use fewer groups"
            ));
        }
        // The states stay, what is made of them is dropped after each search.
        let config = dfa::Config::new().cache_capacity(max).skip_cache_capacity_check(true);
        let dfa = dfa::Builder::new()
            .configure(config)
            .build_from_nfa(nfa)
            .map_err(|error| syntax_error(&error))?;
        Ok(Self { dfa, source: source.into(), ignores_case })
    }

    fn nfa(&self) -> &NFA {
        self.dfa.get_nfa()
    }

    /// The work of looking at all states once.
    fn states(&self) -> u64 {
        self.nfa().states().len() as u64
    }

    /// Whether a part of the text matches.
    pub(crate) fn is_match(&self, text: &str, meter: &Meter<'_>) -> Result<bool, Spent> {
        meter.work(text.len() as u64 + 2 * self.states())?;
        match self.walk(text, meter)? {
            Some(is_match) => Ok(is_match),
            None => Ok(self.slots(Input::new(text), 2, meter)?.is_some()),
        }
    }

    /// Matches by the automaton; `None` if it cannot decide.
    fn walk(&self, text: &str, meter: &Meter<'_>) -> Result<Option<bool>, Spent> {
        let mut cache = self.dfa.create_cache();
        let input = Input::new(text);
        let Ok(mut state) = self.dfa.start_state_forward(&mut cache, &input) else { return Ok(None) };
        for byte in text.bytes() {
            let known = match state.is_tagged() {
                true => None,
                false => Some(self.dfa.next_state_untagged(&cache, state, byte)),
            };
            state = match known {
                Some(next) if !next.is_unknown() => next,
                _ => {
                    meter.work(self.states())?;
                    let Ok(next) = self.dfa.next_state(&mut cache, state, byte) else { return Ok(None) };
                    next
                }
            };
            // A match is known one byte later.
            if state.is_tagged() {
                match () {
                    () if state.is_match() => return Ok(Some(true)),
                    () if state.is_dead() => return Ok(Some(false)),
                    () if state.is_quit() => return Ok(None),
                    () => {}
                }
            }
        }
        meter.work(self.states())?;
        Ok(self.dfa.next_eoi_state(&mut cache, state).ok().map(|state| state.is_match()))
    }

    /// The first match and its groups, the longest of each as POSIX has it. The first ones stay if
    /// the expression or the text is too large for that.
    pub(crate) fn captures(&self, text: &str, meter: &Meter<'_>) -> Result<Vec<Range<usize>>, Spent> {
        let Some(slots) = self.slots(Input::new(text), 2, meter)? else { return Ok(Vec::new()) };
        let Some(Some(whole)) = ranges(&slots).next() else { return Ok(Vec::new()) };
        let mut captures = vec![0..0; self.nfa().group_info().group_len(PatternID::ZERO)];
        meter.work(self.states() * COMPILE_WORK)?;
        let longest = Longest::new(&self.source, IgnoresCase(self.ignores_case), LONGEST_BYTES_MAX);
        let mut steps = 0;
        let found = longest.and_then(|longest| longest.find(text, whole.start, &mut steps));
        meter.work(steps * LONGEST_WORK)?;
        if let Some(found) = found.filter(|found| found.len() <= captures.len()) {
            captures.iter_mut().zip(found).for_each(|(range, longest)| *range = longest);
            return Ok(captures);
        }
        let input = Input::new(text).span(whole).anchored(Anchored::Yes);
        let slots = self.slots(input, self.nfa().group_info().slot_len(), meter)?.unwrap_or_default();
        captures.iter_mut().zip(ranges(&slots)).for_each(|(range, first)| *range = first.unwrap_or(0..0));
        Ok(captures)
    }

    /// The positions where this many groups begin and end in the first match.
    fn slots(&self, input: Input<'_>, count: usize, meter: &Meter<'_>) -> Result<Option<Slots>, Spent> {
        // A state copies its positions, some of them in the time of one part.
        let (len, states) = (input.get_range().len() as u64, self.states());
        let all = self.nfa().group_info().slot_len() as u64;
        let each = 1 + count as u64 / 16;
        meter.work(len.saturating_add(1).saturating_mul(states * each).saturating_add(states * all / 4))?;
        let Ok(machine) = pikevm::Builder::new().build_from_nfa(self.nfa().clone()) else { return Ok(None) };
        let mut slots = vec![None; count];
        let found = PikeVM::search_slots(&machine, &mut machine.create_cache(), &input, &mut slots);
        Ok(found.map(|_| slots))
    }
}

/// Positions of groups: where each begins and where it ends.
type Slots = Vec<Option<regex_automata::util::primitives::NonMaxUsize>>;

fn ranges(slots: &Slots) -> impl Iterator<Item = Option<Range<usize>>> {
    slots.chunks_exact(2).map(|pair| match pair {
        [Some(start), Some(end)] => Some(start.get()..end.get()),
        _ => None,
    })
}

/// The crate's error in one line.
fn syntax_error(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("this is not a regular expression: {reason}")
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 256 * 1024;

    fn regular(key: &str) -> Regular {
        Regular::new(key, IgnoresCase(false), MAX).unwrap()
    }

    #[test]
    fn the_groups_are_bounded_with_the_size() {
        let said = Regular::new(&format!("[a-d]{{150}}{}", "([ab]?)".repeat(1000)), IgnoresCase(false), MAX);
        let said = said.unwrap_err();
        assert!(said.contains("may take 2097152 bytes") && said.contains("use fewer groups"), "{said}");
        assert!(Regular::new(&"(ab|cd)".repeat(40), IgnoresCase(true), MAX).is_ok());
        let long = Regular::new(&"[ab]".repeat(SOURCE_BYTES_MAX), IgnoresCase(false), MAX).unwrap_err();
        assert!(long.contains("longer than 8192 bytes"), "{long}");
    }

    /// An automaton that makes a state for each byte ends with the steps; one that makes few costs
    /// the text.
    #[test]
    fn steps_of_the_matcher_are_counted() {
        let mut seed = 1_u32;
        let mut letter = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (seed >> 30) as u8)
        };
        let text: String = (0..500_000).map(&mut letter).collect();
        let many = Meter::new(1_000_000, None);
        assert_eq!(regular("[ab][a-d]{1500}[x-z]").is_match(&text, &many), Err(Spent::Steps(1_000_000)));
        assert!(many.steps() < 1_001_000, "{}", many.steps());
        let few = Meter::new(1_000_000, None);
        assert_eq!(regular("(price|offer) of [0-9]+").is_match(&text, &few), Ok(false));
        assert!(few.steps() < 20_000, "{}", few.steps());
    }

    #[test]
    fn groups_of_what_is_too_large_for_the_longest_are_those_of_the_first() {
        let key = "(a|ab)(c|bcd)?".to_owned() + &"y*".repeat(270);
        let captures = regular(&key).captures("zabcd", &Meter::new(u64::MAX, None)).unwrap();
        assert_eq!(captures, [1..5, 1..2, 2..5]);
    }

    properties! {
        #[test]
        fn it_matches_as_the_crate_does(key in "(\\(?[ab.^$]\\)?[*+?|]?){1,6}", text in "[abcü]{0,8}") {
            let Ok(other) = regex::RegexBuilder::new(&key).dot_matches_new_line(true).build() else { return Ok(()) };
            let meter = Meter::new(u64::MAX, None);
            prop_assert_eq!(regular(&key).is_match(&text, &meter), Ok(other.is_match(&text)), "{} {}", key, text);
            let captures = regular(&key).captures(&text, &meter).unwrap();
            let start = other.find(&text).map(|found| found.start());
            prop_assert_eq!(captures.first().map(|whole| whole.start), start, "{} {}", key, text);
        }
    }
}
