//! Compares two quantities that are measured in turns: the mean ratio of pairs with its confidence
//! interval.
//!
//! Both were measured within seconds of each other in each round, so other work of the machine is
//! in both. Ratios are compared as logarithms: twice as much and half as much are equally far from
//! one.

use std::f64::consts::{FRAC_PI_2, PI};

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Pairs.
    pub pairs: usize,
    /// Geometric mean of second ÷ first.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The verdict of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second is larger.
    Larger,
    /// The second is smaller.
    Smaller,
    /// The two differ by less than the tolerance.
    Same,
    /// The interval is too wide for a verdict.
    Undecided,
}

impl Paired {
    /// Computes it from (first, second) of each round, with this confidence (0–1). `None` with
    /// fewer than two pairs above zero.
    pub fn of(pairs: &[(f64, f64)], confidence: f64) -> Option<Self> {
        let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite());
        let logs: Vec<f64> = usable.map(|(a, b)| (b / a).ln()).collect();
        let n = logs.len();
        if n < 2 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / n as f64;
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half = quantile(n - 1, confidence) * (variance / n as f64).sqrt();
        Some(Self { pairs: n, ratio: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
    }

    /// The verdict, if a difference below `tolerance` (0.02: two percent) does not matter.
    pub fn verdict(self, tolerance: f64) -> Verdict {
        let most = 1.0 + tolerance.max(0.0);
        match self {
            _ if self.low >= 1.0 / most && self.high <= most => Verdict::Same,
            _ if self.low > 1.0 => Verdict::Larger,
            _ if self.high < 1.0 => Verdict::Smaller,
            _ => Verdict::Undecided,
        }
    }
}

/// The t for which a variable of Student's distribution with this many degrees of freedom lies
/// between
/// -t and t with this probability.
fn quantile(freedom: usize, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // With one degree of freedom and a probability of 1 - 1e-6 it is 636,619.
    while within(freedom, high) < probability && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if within(freedom, middle) < probability { low = middle } else { high = middle }
    }
    high
}

/// The probability of lying between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn within(freedom: usize, t: f64) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan().min(FRAC_PI_2);
    let (sin, cos) = angle.sin_cos();
    let odd = !freedom.is_multiple_of(2);
    // The terms of the sum: each is the one before it times cos² and a fraction.
    let (mut term, mut sum) = if odd { (cos, cos) } else { (1.0, 1.0) };
    let mut below = if odd { 2.0 } else { 1.0 };
    while below + 1.0 < freedom as f64 {
        term *= cos * cos * below / (below + 1.0);
        sum += term;
        below += 2.0;
    }
    match (odd, freedom) {
        (true, 1) => 2.0 * angle / PI,
        (true, _) => 2.0 / PI * (angle + sin * sum),
        (false, _) => sin * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, probability, t) in [
            (1, 0.95, 12.706),
            (2, 0.95, 4.303),
            (3, 0.95, 3.182),
            (4, 0.95, 2.776),
            (5, 0.95, 2.571),
            (6, 0.95, 2.447),
            (9, 0.95, 2.262),
            (10, 0.95, 2.228),
            (10, 0.99, 3.169),
            (30, 0.95, 2.042),
        ] {
            let found = quantile(freedom, probability);
            assert!((found - t).abs() < 0.001, "{freedom} {probability}: {found}");
        }
    }

    #[test]
    fn a_clear_difference_is_shown_and_noise_is_not() {
        let pairs = |ratios: &[f64]| -> Vec<(f64, f64)> {
            // The machine's speed drifts by half; both of a pair have the same.
            ratios.iter().zip(1..).map(|(r, n)| (f64::from(n), f64::from(n) * r)).collect()
        };
        let verdict = |ratios: &[f64]| Paired::of(&pairs(ratios), 0.95).unwrap().verdict(0.02);
        assert_eq!(verdict(&[1.11, 1.09, 1.10, 1.10, 1.12]), Verdict::Larger);
        assert_eq!(verdict(&[0.91, 0.92, 0.90, 0.91, 0.92]), Verdict::Smaller);
        assert_eq!(verdict(&[1.005, 0.998, 1.001, 1.0, 0.996]), Verdict::Same);
        assert_eq!(verdict(&[1.3, 0.8, 1.1, 0.9, 1.05]), Verdict::Undecided);
        let shown = Paired::of(&pairs(&[1.1; 5]), 0.95).unwrap();
        assert!((shown.ratio - 1.1).abs() < 1e-9 && (shown.low - 1.1).abs() < 1e-9 && shown.pairs == 5);
    }

    #[test]
    fn one_round_shows_nothing() {
        assert_eq!(Paired::of(&[(1.0, 2.0)], 0.95), None);
        assert_eq!(Paired::of(&[(1.0, 2.0), (0.0, 1.0), (f64::NAN, 1.0)], 0.95), None);
    }
}
