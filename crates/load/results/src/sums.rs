//! Sums of several results of one time: counts, histograms, errors.

use std::collections::BTreeMap;

use crate::{ErrorCount, Latency, NamedSummary, Outcome, RunResult, Slow, Summary};

/// Slowest transactions kept.
const SLOWEST_MAX: usize = 20;

/// The words of all results, with others between them.
pub fn joined(runs: &[RunResult], between: &str, of: impl Fn(&RunResult) -> String) -> String {
    runs.iter().map(of).collect::<Vec<_>>().join(between)
}

/// Counts and times of several summaries. Their histograms are added by the counts of equal edges,
/// so percentiles are of all. Each rate is of its own window, so the rates are added.
pub fn merged<'a>(parts: impl Iterator<Item = &'a Summary> + Clone) -> Summary {
    let buckets: Vec<(u64, u64)> = parts.clone().flat_map(|s| s.histogram_us.iter().copied()).collect();
    let sum = |of: fn(&Summary) -> u64| parts.clone().map(of).sum::<u64>();
    let bytes = (sum(|s| s.bytes_in), sum(|s| s.bytes_out));
    let mut all = Latency::from_buckets(&buckets).summary(0.0, sum(|s| s.errors), bytes);
    all.rate_per_s = parts.clone().map(|s| s.rate_per_s).sum();
    // Exact, where buckets are within a thousandth.
    let times: f64 = parts.clone().map(|s| s.mean_ms * s.count as f64).sum();
    all.mean_ms = if all.count > 0 { times / all.count as f64 } else { 0.0 };
    all.max_ms = parts.map(|s| s.max_ms).fold(0.0, f64::max);
    all
}

/// Commands of one name together.
pub fn commands<'a>(all: impl Iterator<Item = &'a NamedSummary>) -> Vec<NamedSummary> {
    let mut by_name = BTreeMap::<&str, Vec<&Summary>>::new();
    for command in all {
        by_name.entry(&command.name).or_default().push(&command.summary);
    }
    by_name
        .into_iter()
        .map(|(name, parts)| NamedSummary { name: name.to_owned(), summary: merged(parts.into_iter()) })
        .collect()
}

/// Errors of one kind together.
pub fn errors<'a>(all: impl Iterator<Item = &'a ErrorCount>) -> Vec<ErrorCount> {
    let mut by_kind = BTreeMap::<&str, ErrorCount>::new();
    for error in all {
        let known = by_kind.entry(&error.kind).or_default();
        known.kind.clone_from(&error.kind);
        known.count += error.count;
        known.samples.extend(error.samples.iter().cloned());
    }
    by_kind.into_values().collect()
}

/// Outages of one kind together.
pub fn outages<'a>(all: impl Iterator<Item = &'a Outcome>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (kind, count) in all.flat_map(|outcome| &outcome.outages) {
        *sum.entry(kind.clone()).or_default() += count;
    }
    sum
}

/// The slowest of all, slowest first.
pub fn slowest(all: impl Iterator<Item = Slow>) -> Vec<Slow> {
    let mut slowest: Vec<Slow> = all.collect();
    slowest.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    slowest.truncate(SLOWEST_MAX);
    slowest
}
