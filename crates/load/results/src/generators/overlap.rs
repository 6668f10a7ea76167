//! Places the results of several generators on one axis of time, and finds the window that is
//! common to all.
//!
//! Each result has the start of its ramp by a clock. Clocks of one machine are one clock: the
//! agent's, if all generators compared theirs with it. Clocks of different machines differ by at
//! most the sum of both kernels' bounds for UTC, if these are known.

use super::part::Part;
use crate::{Clock, Offered, RunResult};

/// The common axis.
#[derive(Debug)]
pub struct Axis {
    /// The clock of the generator that began first: second 0.
    pub clock: Option<Clock>,
    /// The start of the common window.
    pub start_s: f64,
    /// The end of it.
    pub end_s: f64,
    /// The longest window.
    longest_s: f64,
    /// The largest difference of two clocks, as far as it is known.
    clocks_s: f64,
    /// The unknowns about the clocks.
    pub caveats: Vec<String>,
    /// All results, for an error.
    names: String,
}

impl Axis {
    /// The share of the longest window that is common to all windows, however the clocks differ
    /// within their bounds.
    pub fn share(&self) -> f64 {
        ((self.end_s - self.start_s - self.clocks_s) / self.longest_s.max(1e-3)).clamp(0.0, 1.0)
    }

    /// The common window in words.
    pub fn words(&self) -> String {
        format!(
            "{:.2} s of {:.2} s, clocks within {:.2} ms: {:.1} %",
            (self.end_s - self.start_s).max(0.0),
            self.longest_s,
            self.clocks_s * 1e3,
            self.share() * 100.0
        )
    }

    /// Refuses windows that coincide too little.
    pub fn refuse_below(&self, least: f64) -> Result<(), String> {
        if self.share() >= least && self.end_s > self.start_s {
            return Ok(());
        }
        Err(format!(
            "{}: the windows have {} in common, and at least {:.1} % are needed: start all generators by one \
             --start-at, with the same --ramp, --warmup and --measure, or lower --overlap",
            self.names,
            self.words(),
            least * 100.0
        ))
    }
}

/// Places the results.
///
/// # Errors
/// A result does not say when it began.
pub fn place(named: Vec<(String, RunResult)>) -> Result<(Vec<Part>, Axis), String> {
    let mut clocks = Vec::with_capacity(named.len());
    for (name, run) in &named {
        let clock = run.clock.clone().ok_or_else(|| {
            format!("{name} does not say when its window began: an earlier version wrote it; run it again")
        })?;
        clocks.push(clock);
    }
    let first = clocks.iter().min_by(|a, b| a.start_unix_s.total_cmp(&b.start_unix_s)).cloned();
    let zero = first.as_ref().map_or(0.0, |clock| clock.start_unix_s);
    let names = named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let (clocks_s, caveats) = difference(&named, &clocks);
    let parts: Vec<Part> = named
        .into_iter()
        .zip(&clocks)
        .map(|((name, run), clock)| Part { name, run, shift_s: clock.start_unix_s - zero })
        .collect();
    let axis = Axis {
        clock: first,
        start_s: parts.iter().map(Part::start_s).fold(f64::NEG_INFINITY, f64::max),
        end_s: parts.iter().map(Part::end_s).fold(f64::INFINITY, f64::min),
        longest_s: parts.iter().map(Part::seconds).fold(0.0, f64::max),
        clocks_s,
        caveats,
        names,
    };
    Ok((parts, axis))
}

/// The largest difference of two of the clocks, and what is not known of it.
fn difference(named: &[(String, RunResult)], clocks: &[Clock]) -> (f64, Vec<String>) {
    let one_machine = clocks.windows(2).all(|pair| pair[0].machine == pair[1].machine);
    let mut bounds: Vec<f64> = clocks
        .iter()
        .map(|clock| {
            let utc = if one_machine { 0.0 } else { clock.utc_bound_s.value().copied().unwrap_or(0.0) };
            utc + clock.reading_bound_s
        })
        .collect();
    // The two worst clocks, each off by its bound in opposite directions.
    bounds.sort_by(|a, b| b.total_cmp(a));
    let most = bounds.iter().take(2).sum();
    let unknown = |((name, _), clock): (&(String, RunResult), &Clock)| match &clock.utc_bound_s {
        Offered::NotOffered(why) if !one_machine => Some(format!("{name} ({}): {why}", clock.reference)),
        _ => None,
    };
    let unknown: Vec<String> = named.iter().zip(clocks).filter_map(unknown).collect();
    if unknown.is_empty() {
        return (most, Vec::new());
    }
    let caveat = format!(
        "how far the generators' clocks differ is not known, so the windows may coincide less than shown: {}; give all \
         generators the server's --agent, or synchronise their clocks",
        unknown.join("; ")
    );
    (most, vec![caveat])
}
