//! Results of several generators that drove one server at the same time, as one result.
//!
//! Operations, errors, bytes and the generators' own cost are added, and histograms by their
//! counts. The server's cost is used only once. [`checks`] refuses results that do not belong
//! together. [`overlap`] places all of them on one axis of time. [`server`] chooses whose reading
//! of the server's cost is used.
//!
//! Windows that coincide only in part are of different load. So the common part must be most of
//! each window ([`OVERLAP_MIN`]), and rates are added, each over its own window.

mod checks;
mod overlap;
mod part;
mod server;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::sums::{commands, errors, merged, outages, slowest};
use crate::{
    AuditResult, GeneratorResult, Offered, Outcome, RunResult, Series, Summary, Transaction, UserKindResult,
    Window,
};
use overlap::Axis;
use part::Part;
use server::ChosenReading;

/// The least share of the longest window that must be common to all windows. With windows that
/// coincide by nine tenths, a tenth of each figure at most is from a time with fewer users.
pub const OVERLAP_MIN: f64 = 0.9;
/// Samples of errors of one kind that are kept.
const SAMPLES_MAX: usize = 10;

/// One result of the results of several generators, each with a name. `overlap_min` is the share
/// of the longest window that must be common to all.
///
/// # Errors
/// They do not belong together: which of them, why, and what to do.
pub fn merge(named: Vec<(String, RunResult)>, overlap_min: f64) -> Result<RunResult, String> {
    checks::alike(&named)?;
    let (parts, axis) = overlap::place(named)?;
    axis.refuse_below(overlap_min)?;
    let first = parts.first().ok_or("merge needs the results of two generators or more")?;
    let reading = server::choose_reading(&parts, &axis);
    let mut all = first.run.clone();
    all.started_unix = parts.iter().map(|p| p.run.started_unix).min().unwrap_or_default();
    all.clock = axis.clock.clone();
    all.clients = parts.iter().map(|p| p.run.clients).sum();
    all.settings = settings(&parts, &axis);
    all.machine = reading.part.unwrap_or(first).run.machine.clone();
    all.total = merged(parts.iter().map(|p| &p.run.total));
    all.transactions = transactions(&parts);
    all.kinds = kinds(&parts);
    all.commands = commands(parts.iter().flat_map(|p| &p.run.commands));
    all.errors = all_errors(&parts);
    all.slowest = slowest(parts.iter().flat_map(|p| {
        p.run.slowest.iter().cloned().map(|mut slow| {
            slow.at_s += p.shift_s;
            slow
        })
    }));
    all.series = series(&parts, &axis, &reading);
    all.window = Window::of(&all.series.done, axis.start_s, axis.end_s);
    all.audit = audit(&parts);
    all.generators = parts.iter().map(generator).collect();
    server::enter(&mut all, &parts, &reading);
    all.outcome = outcome(&parts, &all);
    all.caveats = caveats(&parts, &axis, &reading, &all);
    Ok(all)
}

fn generator(part: &Part) -> GeneratorResult {
    let run = &part.run;
    GeneratorResult {
        name: part.name.clone(),
        command: run.command.clone(),
        machine: run.machine.clone(),
        users: run.settings.get("users").cloned().unwrap_or_default(),
        clients: run.clients,
        start_s: part.start_s(),
        end_s: part.end_s(),
        clock: run.clock.clone().unwrap_or_default(),
        total: run.total.clone(),
        cost: run.generator.clone(),
        server_cpus: run.server.as_ref().map(server::cpus),
    }
}

/// Settings that all have, and where they differ, those of each.
fn settings(parts: &[Part], axis: &Axis) -> BTreeMap<String, String> {
    let keys: BTreeSet<&String> = parts.iter().flat_map(|p| p.run.settings.keys()).collect();
    let mut all = BTreeMap::new();
    for key in keys {
        let of = |p: &Part| p.run.settings.get(key).cloned().unwrap_or_else(|| "not given".into());
        let values: BTreeSet<String> = parts.iter().map(of).collect();
        let text = match values.first() {
            Some(same) if values.len() == 1 => same.clone(),
            _ => parts.iter().map(|p| format!("{}: {}", p.name, of(p))).collect::<Vec<_>>().join("; "),
        };
        all.insert(key.clone(), text);
    }
    all.insert("clients".into(), parts.iter().map(|p| u64::from(p.run.clients)).sum::<u64>().to_string());
    all.insert("generators".into(), parts.len().to_string());
    all.insert("common window".into(), axis.words());
    all
}

/// Transactions of one name together. Shares are of all transactions.
fn transactions(parts: &[Part]) -> Vec<Transaction> {
    let all: u64 = parts.iter().map(|p| p.run.total.count).sum();
    let mut names: Vec<&str> = Vec::new();
    for row in parts.iter().flat_map(|p| &p.run.transactions) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let row = |name: &&str| {
        let rows: Vec<(f64, &Transaction)> = parts
            .iter()
            .filter_map(|p| {
                let part = p.run.total.count as f64 / all.max(1) as f64;
                Some((part, p.run.transactions.iter().find(|row| row.name == *name)?))
            })
            .collect();
        let asked = rows.iter().any(|(_, row)| row.share_asked.is_some());
        Transaction {
            name: (*name).to_owned(),
            description: rows.first().map(|(_, row)| row.description.clone()).unwrap_or_default(),
            share_asked: asked
                .then(|| rows.iter().map(|(part, row)| part * row.share_asked.unwrap_or(0.0)).sum()),
            share_realised: rows.iter().map(|(part, row)| part * row.share_realised).sum(),
            redrawn: rows.iter().map(|(_, row)| row.redrawn).sum(),
            summary: merged(rows.iter().map(|(_, row)| &row.summary)),
        }
    };
    names.iter().map(row).collect()
}

/// Kinds of users of one workload together.
fn kinds(parts: &[Part]) -> Vec<UserKindResult> {
    let mut by_workload = BTreeMap::<&str, Vec<&UserKindResult>>::new();
    for kind in parts.iter().flat_map(|p| &p.run.kinds) {
        by_workload.entry(&kind.workload).or_default().push(kind);
    }
    let one = |(workload, kinds): (&str, Vec<&UserKindResult>)| UserKindResult {
        workload: workload.to_owned(),
        clients: kinds.iter().map(|kind| kind.clients).sum(),
        total: merged(kinds.iter().map(|kind| &kind.total)),
        commands: commands(kinds.iter().flat_map(|kind| &kind.commands)),
    };
    by_workload.into_iter().map(one).collect()
}

fn all_errors(parts: &[Part]) -> Vec<crate::ErrorCount> {
    let mut placed = Vec::new();
    for part in parts {
        placed.extend(part.run.errors.iter().cloned().map(|mut error| {
            error.samples.iter_mut().for_each(|sample| sample.at_s += part.shift_s);
            error
        }));
    }
    let mut all = errors(placed.iter());
    all.iter_mut().for_each(|error| error.samples.truncate(SAMPLES_MAX));
    all
}

/// Values of each second of the merged result, until the common window ends.
fn series(parts: &[Part], axis: &Axis, reading: &ChosenReading) -> Series {
    let length = axis.end_s.floor().max(0.0) as usize;
    let sum = |of: fn(&Series) -> &Vec<u64>| -> Vec<u64> {
        (0..length).map(|s| parts.iter().filter_map(|p| at(p, of, s)).sum()).collect()
    };
    let done = sum(|s| &s.done);
    let mean_ms = (0..length)
        .map(|s| {
            let times =
                parts.iter().filter_map(|p| Some((at(p, |s| &s.done, s)? as f64, at(p, |s| &s.mean_ms, s)?)));
            let (count, ms) = times.fold((0.0, 0.0), |(n, ms), (count, mean)| (n + count, ms + mean * count));
            if count > 0.0 { ms / count } else { 0.0 }
        })
        .collect();
    let greatest = |s: usize| parts.iter().filter_map(|p| at(p, |s| &s.max_ms, s)).fold(0.0, f64::max);
    let own = |s: usize| parts.iter().filter_map(|p| at(p, |s| &s.generator_cpus, s)).sum::<f64>();
    let server = reading.part.filter(|p| !p.run.series.server_cpus.is_empty());
    Series {
        done,
        errors: sum(|s| &s.errors),
        mean_ms,
        max_ms: (0..length).map(greatest).collect(),
        online: sum(|s| &s.online),
        unfinished: sum(|s| &s.unfinished),
        server_cpus: server.map_or_else(Vec::new, |p| {
            (0..length).map(|s| at(p, |s| &s.server_cpus, s).unwrap_or(0.0)).collect()
        }),
        generator_cpus: (0..length).map(own).collect(),
    }
}

/// The value of a part in a second of the merged result. Parts begin at whole seconds of it, to
/// the nearest.
fn at<T: Copy>(part: &Part, of: impl Fn(&Series) -> &Vec<T>, second: usize) -> Option<T> {
    of(&part.run.series).get(second.checked_sub(part.shift_s.round() as usize)?).copied()
}

fn audit(parts: &[Part]) -> Option<AuditResult> {
    let audits: Vec<&AuditResult> = parts.iter().filter_map(|p| p.run.audit.as_ref()).collect();
    if audits.is_empty() {
        return None;
    }
    let sum = |of: fn(&AuditResult) -> u64| audits.iter().map(|audit| of(audit)).sum::<u64>();
    Some(AuditResult {
        accounts: sum(|a| a.accounts),
        messages_found: sum(|a| a.messages_found),
        messages_expected: sum(|a| a.messages_expected),
        missing: sum(|a| a.missing),
        duplicated: sum(|a| a.duplicated),
        unexpected: sum(|a| a.unexpected),
        altered: sum(|a| a.altered),
        reused: sum(|a| a.reused),
        unreadable: sum(|a| a.unreadable),
        findings: audits.iter().flat_map(|a| a.findings.iter().cloned()).collect(),
    })
}

fn outcome(parts: &[Part], all: &RunResult) -> Outcome {
    let each = || parts.iter().map(|p| &p.run.outcome);
    let mut outcome = Outcome {
        clean: each().all(|o| o.clean),
        errors: each().map(|o| o.errors).sum(),
        outages: outages(each()),
        interrupted: each().any(|o| o.interrupted),
        saturated: each().any(|o| o.saturated),
        unfinished_max: each().map(|o| o.unfinished_max).sum(),
        ..Outcome::default()
    };
    let kinds = all.errors.iter().map(|error| (error.kind.as_str(), error.count));
    outcome.headline = format!("{} generators: {}", parts.len(), outcome.sentence(kinds, &all.total));
    outcome
}

impl Outcome {
    /// The sentence that sums up a run: errors by kind first, then figures.
    pub fn sentence<'a>(&self, errors: impl Iterator<Item = (&'a str, u64)>, total: &Summary) -> String {
        let figures = format!(
            "{} transactions, {:.1}/s, mean {:.2} ms, p99 {:.2} ms",
            total.count, total.rate_per_s, total.mean_ms, total.p99_ms
        );
        let outages: Vec<String> = self.outages.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let figures = match outages.is_empty() {
            true => figures,
            false => format!("{figures}; outages tolerated: {}", outages.join(", ")),
        };
        if self.clean {
            return figures;
        }
        let kinds: Vec<String> = errors.map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("{} ERRORS ({}): {figures}", self.errors, kinds.join(", "))
    }
}

/// The caveats of the merged figures, then those of each generator.
fn caveats(parts: &[Part], axis: &Axis, reading: &ChosenReading, all: &RunResult) -> Vec<String> {
    let mut said = axis.caveats.clone();
    said.extend(checks::differences(parts));
    said.extend(reading.caveats.iter().cloned());
    if !all.window.steady && all.total.count > 0 {
        said.push(format!(
            "throughput of all generators together was not steady in the common window (drift {:.0} %, or too few \
             seconds to judge)",
            all.window.drift * 100.0
        ));
    }
    for part in parts {
        said.extend(part.run.caveats.iter().map(|caveat| format!("{}: {caveat}", part.name)));
    }
    if let Some(Offered::NotOffered(why)) = &all.counted {
        said.push(format!("the server's own counts are missing: {why}"));
    }
    said
}
