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
    /// point. `None` with fewer than two different numbers of messages.
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
        Some(Self { base: y - slope * x, slope })
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
        assert_eq!(Line::through(&points[..1]), None);
        assert_eq!(Line::through(&[]), None);
    }
}
