//! A line through measured points.

/// The line `cost = base + slope × messages` of least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The cost in a folder without messages.
    pub base: f64,
    /// The cost that each message adds.
    pub slope: f64,
}

impl Line {
    /// The line through `(messages, cost, weight)`. The weight is the number of commands behind a
    /// point. `None` with fewer than two different numbers of messages. The base is not below zero:
    /// where the best line would begin there, the answer is the best one that begins at zero.
    pub fn through(points: &[(f64, f64, f64)]) -> Option<Self> {
        let weight: f64 = points.iter().map(|point| point.2).sum();
        let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>() / weight;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|point| point.2 * (point.0 - x).powi(2)).sum();
        // Without points the mean is no number, and so is this.
        if spread.is_nan() || spread <= 0.0 {
            return None;
        }
        let slope = points.iter().map(|point| point.2 * (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
        let base = y - slope * x;
        if base >= 0.0 {
            return Some(Self { base, slope });
        }
        let sum = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>();
        Some(Self { base: 0.0, slope: sum(|p| p.0 * p.1) / sum(|p| p.0 * p.0) })
    }

    /// The cost at this many messages.
    pub fn at(&self, messages: f64) -> f64 {
        self.base + self.slope * messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = [100.0, 5_000.0, 100_000.0].map(|n| (n, 3.0 + n / 1_000.0, n + 1.0)).to_vec();
        let line = Line::through(&points).unwrap();
        assert!((line.base - 3.0).abs() < 1e-6 && (line.at(50_000.0) - 53.0).abs() < 1e-6, "{line:?}");
        // A cost that grows faster than folders do. No command costs less than nothing.
        let points = [(1_000.0, 1.0, 1.0), (10_000.0, 100.0, 1.0)];
        let line = Line::through(&points).unwrap();
        assert!(line.base == 0.0 && (line.slope - 1_001_000.0 / 101_000_000.0).abs() < 1e-9, "{line:?}");
        assert_eq!(Line::through(&points[..1]), None);
        assert_eq!(Line::through(&[]), None);
    }
}
