//! Finds the part of a run in steady state.
//!
//! The start is cut by MSER (White 1997): the cut that leaves the smallest standard error of the
//! mean. What is left counts as steady if a straight line through it changes by less than a tenth
//! of the mean.

use crate::Window;
use crate::fit::Polynomial;

/// Most that throughput may drift across the window: 10 % of its mean.
const DRIFT_MAX: f64 = 0.1;

/// A steady window, in samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// First sample.
    pub start: usize,
    /// One past the last sample.
    pub end: usize,
    /// Change across it by a straight line, as a fraction of the mean.
    pub drift: f64,
    /// Whether that is little enough.
    pub is_steady: bool,
}

/// Finds the steady window of per-second values. At most half of them are cut.
pub fn find(samples: &[f64]) -> Steady {
    let start = cut(samples);
    let kept = &samples[start..];
    let points: Vec<(f64, f64)> = kept.iter().enumerate().map(|(i, &y)| (i as f64, y)).collect();
    let mean = kept.iter().sum::<f64>() / kept.len().max(1) as f64;
    let slope = Polynomial::fit(&points, 1).map_or(0.0, |line| line.coefficient(1));
    let drift = if mean > 0.0 { slope * kept.len() as f64 / mean } else { 0.0 };
    Steady {
        start,
        end: samples.len(),
        drift,
        is_steady: kept.len() >= 5 && mean > 0.0 && drift.abs() < DRIFT_MAX,
    }
}

impl Window {
    /// The window from one second of a run to another, with the steady part of it. `done`:
    /// transactions of each second of the run.
    pub fn of(done: &[u64], start_s: f64, end_s: f64) -> Self {
        let from = start_s.ceil() as usize;
        let samples: Vec<f64> = done.iter().skip(from).map(|n| *n as f64).collect();
        let found = find(&samples);
        Self {
            start_s,
            // Ctrl-C before it began leaves an empty window.
            end_s: end_s.max(start_s),
            steady_start_s: (from + found.start) as f64,
            steady_end_s: (from + found.end) as f64,
            steady: found.is_steady,
            drift: found.drift,
        }
    }
}

fn cut(samples: &[f64]) -> usize {
    // Sums from the end, so that each cut costs one step.
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (at, &x) in samples.iter().enumerate().rev() {
        n += 1.0;
        sum += x;
        squares += x * x;
        if at <= samples.len() / 2 {
            let error = (squares - sum * sum / n) / (n * n);
            if error <= best.0 {
                best = (error, at);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_cut_off() {
        let samples: Vec<f64> = (0..100).map(|i| if i < 20 { f64::from(i) * 5.0 } else { 100.0 }).collect();
        let steady = find(&samples);
        assert!((19..=21).contains(&steady.start) && steady.is_steady, "{steady:?}");
    }

    #[test]
    fn a_slope_is_not_steady() {
        let samples: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i)).collect();
        assert!(!find(&samples).is_steady);
        assert!(!find(&[]).is_steady);
    }
}
