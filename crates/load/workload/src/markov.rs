//! The stationary distribution of a Markov table.

/// The rows, each divided by its sum; a row of zeros stays.
pub fn normalised(table: &[Vec<f64>]) -> Vec<Vec<f64>> {
    table
        .iter()
        .map(|row| {
            let sum: f64 = row.iter().sum();
            row.iter().map(|p| if sum > 0.0 { p / sum } else { 0.0 }).collect()
        })
        .collect()
}

/// The share of time in each state in the long run, by iteration from the even distribution. Every
/// second step is averaged with the one before, so that tables that alternate between states
/// converge too.
pub fn stationary(table: &[Vec<f64>]) -> Vec<f64> {
    let table = normalised(table);
    let n = table.len();
    let mut now = vec![1.0 / n.max(1) as f64; n];
    for _ in 0..10_000 {
        let mut next = vec![0.0; n];
        for (from, row) in now.iter().zip(&table) {
            for (to, p) in next.iter_mut().zip(row) {
                *to += from * p;
            }
        }
        let moved: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        now = now.iter().zip(&next).map(|(a, b)| (a + b) / 2.0).collect();
        if moved < 1e-14 {
            break;
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_chain_with_a_known_answer() {
        // Two states, leaving with 0.1 and 0.5: 5/6 and 1/6.
        let share = stationary(&[vec![0.9, 0.1], vec![50.0, 50.0]]);
        assert!((share[0] - 5.0 / 6.0).abs() < 1e-9 && (share[1] - 1.0 / 6.0).abs() < 1e-9);
        let swap = stationary(&[vec![0.0, 1.0], vec![1.0, 0.0]]);
        assert!((swap[0] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn walking_the_chain_agrees_with_the_answer() {
        let table = vec![vec![1.0, 2.0, 3.0], vec![4.0, 1.0, 1.0], vec![0.5, 0.25, 0.25]];
        let share = stationary(&table);
        let (mut random, mut at, n) = (Random::new(3, 1), 0, 300_000);
        let mut seen = [0.0; 3];
        for _ in 0..n {
            at = random.weighted(&table[at]).unwrap();
            seen[at] += 1.0;
        }
        for (walked, known) in seen.iter().zip(&share) {
            // Four standard errors of a share, correlation allowed for.
            assert!((walked / f64::from(n) - known).abs() < 0.005);
        }
    }
}
