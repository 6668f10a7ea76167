//! Evaluates a message whose keys take long, in pieces. A summary may have 10 MiB, and a command
//! may have 4,096 keys that are looked for in it: some minutes of work.
//!
//! The answer of each key is kept, in the order in which the keys are evaluated. The next piece
//! evaluates the message again from the beginning, with these answers.

use posthaste_mime_summary::SummaryRef;

use super::criteria::{Candidate, Criterion, Evaluation, KEY_STEPS, Question, all_of};
use super::weight::{exact_steps, field_steps, folded_steps};
use crate::command::walk::Visited;

/// The answers of a message's keys so far.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<Evaluation>);

impl Question {
    /// Continues the evaluation of a message. `None` if more pieces follow, because this one has
    /// done this many steps.
    pub(super) fn evaluate_piece(
        &self,
        message: &Visited<'_>,
        texts: Option<&[bool]>,
        steps_max: u64,
        answers: &mut Answers,
    ) -> Option<Evaluation> {
        let &Visited { seq, row, stored } = message;
        let candidate = Candidate { seq, row, stored: Some(stored), texts };
        answers.piece(&self.criterion, steps_max, |key| (key.evaluate(candidate), key.steps(&stored.summary)))
    }
}

impl Answers {
    /// Continues an evaluation. `of` has the answer of a key, and the steps that it takes.
    fn piece(
        &mut self,
        criterion: &Criterion,
        steps_max: u64,
        mut of: impl FnMut(&Criterion) -> (Evaluation, u64),
    ) -> Option<Evaluation> {
        let (mut place, mut steps, mut is_paused) = (0, 0, false);
        let whole = criterion.combined(&mut |key: &Criterion| {
            let known = self.0.get(place).copied();
            place += 1;
            if let Some(known) = known {
                return known;
            }
            is_paused |= steps >= steps_max;
            if is_paused {
                return Evaluation::Unknown;
            }
            let (answer, more) = of(key);
            steps += more;
            self.0.push(answer);
            answer
        });
        (!is_paused).then_some(whole)
    }
}

impl Criterion {
    /// As [`Self::evaluate`], with the answer of each key from this function.
    fn combined(&self, answer: &mut dyn FnMut(&Self) -> Evaluation) -> Evaluation {
        match self {
            Self::And(all) => all_of(all.iter().map(|key| key.combined(answer))),
            Self::Or(a, b) => a.combined(answer).or(|| b.combined(answer)),
            Self::Not(inner) => inner.combined(answer).negated(),
            key => answer(key),
        }
    }

    /// Steps of evaluating a key that is not made of other keys.
    fn steps(&self, summary: &SummaryRef<'_>) -> u64 {
        let in_text = match self {
            Self::Subject(text) | Self::From(text) | Self::To(text) | Self::Cc(text) | Self::Bcc(text) => {
                folded_steps(summary) + if text.is_plain() { 0 } else { exact_steps(summary) }
            }
            Self::Header { .. } => field_steps(summary),
            Self::Parts(condition) => condition.octet_steps() * summary.body_structure().len() as u64,
            _ => 0,
        };
        KEY_STEPS + in_text
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A key with this answer: its number says which.
    fn key(answer: Evaluation) -> Criterion {
        Criterion::Larger(match answer {
            Evaluation::Yes => 1,
            Evaluation::No => 2,
            Evaluation::Unknown => 3,
        })
    }

    fn answer_of(key: &Criterion) -> Evaluation {
        match key {
            Criterion::Larger(1) => Evaluation::Yes,
            Criterion::Larger(2) => Evaluation::No,
            _ => Evaluation::Unknown,
        }
    }

    #[test]
    fn pieces_have_the_answer_of_the_whole_and_ask_each_key_once() {
        use Evaluation::{No, Unknown, Yes};
        let or = |a, b| Criterion::Or(Box::new(a), Box::new(b));
        let not = |a| Criterion::Not(Box::new(a));
        for (criterion, answer, keys) in [
            (or(or(key(No), key(No)), or(key(No), key(Yes))), Yes, 4_u32),
            (or(key(Yes), key(Unknown)), Yes, 1),
            (Criterion::And(vec![key(Yes), not(key(No)), key(Unknown), key(Yes)]), Unknown, 4),
            (Criterion::And(vec![key(Yes), or(key(Unknown), key(No)), key(No), key(Yes)]), No, 4),
            (not(Criterion::And(vec![key(Yes), key(Yes), key(Yes)])), No, 3),
        ] {
            for steps_max in [1, 10, 11, 1000] {
                let (mut answers, asked, mut pieces) = (Answers::default(), Cell::new(0_u32), 1);
                let whole = loop {
                    let piece = answers.piece(&criterion, steps_max, |key| {
                        asked.set(asked.get() + 1);
                        (answer_of(key), 10)
                    });
                    match piece {
                        Some(whole) => break whole,
                        None => pieces += 1,
                    }
                };
                assert_eq!((whole, asked.get()), (answer, keys), "{criterion:?}");
                let in_one: u64 = steps_max.div_ceil(10);
                assert_eq!(pieces, u64::from(keys).div_ceil(in_one), "{criterion:?}, {steps_max} steps");
            }
        }
    }
}
