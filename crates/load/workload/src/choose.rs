//! Chooses the next transaction: by Markov table, by frequencies, or in sequence.

use crate::markov::stationary;
use crate::random::Random;

/// The way of choosing the next transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// By a table of transitions; rows are normalised when used.
    Markov {
        /// The first transaction.
        start: usize,
        /// Row: from; columns in the order of the transactions.
        table: Vec<Vec<f64>>,
    },
    /// Independently, by weight.
    Frequency(Vec<f64>),
    /// One after the other, round and round.
    Sequence(Vec<usize>),
}

impl Choice {
    /// The share of each transaction that this choice defines.
    pub fn shares(&self, transactions: usize) -> Vec<f64> {
        match self {
            Self::Markov { table, .. } => stationary(table),
            Self::Frequency(weights) => {
                let sum: f64 = weights.iter().sum();
                weights.iter().map(|w| w / sum).collect()
            }
            Self::Sequence(order) => (0..transactions)
                .map(|t| order.iter().filter(|&&o| o == t).count() as f64 / order.len().max(1) as f64)
                .collect(),
        }
    }
}

/// The state of one virtual user's choices.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    last: Option<usize>,
    turn: usize,
}

impl Chooser {
    /// Draws the next transaction. Call [`Self::note_done`] with the one that is really done.
    pub fn draw(&mut self, choice: &Choice, random: &mut Random) -> usize {
        match choice {
            Choice::Markov { start, table } => match self.last {
                None => *start,
                Some(last) => table.get(last).and_then(|row| random.weighted(row)).unwrap_or(*start),
            },
            Choice::Frequency(weights) => random.weighted(weights).unwrap_or(0),
            Choice::Sequence(order) => {
                let next = order.get(self.turn % order.len().max(1)).copied().unwrap_or(0);
                self.turn += 1;
                next
            }
        }
    }

    /// Notes the transaction that is done, from which a Markov table continues.
    pub fn note_done(&mut self, transaction: usize) {
        self.last = Some(transaction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_goes_round() {
        let choice = Choice::Sequence(vec![0, 2, 1]);
        let (mut chooser, mut random) = (Chooser::default(), Random::new(1, 1));
        let drawn: Vec<usize> = (0..4).map(|_| chooser.draw(&choice, &mut random)).collect();
        assert_eq!(drawn, [0, 2, 1, 0]);
        assert_eq!(choice.shares(3), vec![1.0 / 3.0; 3]);
    }

    #[test]
    fn a_table_is_followed() {
        let choice = Choice::Markov { start: 1, table: vec![vec![0.0, 1.0], vec![1.0, 0.0]] };
        let (mut chooser, mut random) = (Chooser::default(), Random::new(1, 1));
        let drawn: Vec<usize> = (0..3)
            .map(|_| {
                let t = chooser.draw(&choice, &mut random);
                chooser.note_done(t);
                t
            })
            .collect();
        assert_eq!(drawn, [1, 0, 1]);
    }
}
