//! The result of a run, put together from what all threads recorded and the main thread saw.

use std::sync::atomic::Ordering;

use posthaste_load_measure::{Done, Monitor, WatchTarget, rates};
use posthaste_load_results::{
    GeneratorCost, Latency, Machine, NamedSummary, Offered, Outcome, RunResult, SCHEMA, Series, ServerCost,
    Summary, Transaction, Window, WorkloadFacts,
};

use super::alone_cost::MEASURED_ALONE;
use super::doubts::{SATURATED_PER_USER, doubts};
use super::options::RunOptions;
use super::recorder::{Recorder, Second, Tally};
use super::shared::Shared;
use super::watched::Watched;

/// A run that has ended: everything that its result is made of.
pub struct Ending<'a> {
    /// Settings, clock and counters.
    pub shared: &'a Shared,
    /// The records of all threads, merged.
    pub record: &'a Recorder,
    /// The observations of the main thread.
    pub watched: &'a Watched,
    /// The server's cost, if it was watched.
    pub monitor: Option<&'a Monitor>,
    /// The machine of the generator.
    pub machine: Machine,
}

impl Ending<'_> {
    /// The result, with every reason to doubt it. Its start and its audit are still to be entered.
    pub fn result(&self) -> RunResult {
        let (options, record) = (&self.shared.options, self.record);
        let (start_s, end_s) = self.window();
        let seconds = (end_s - start_s).max(0.0);
        let series = series(record, self.monitor, self.watched, end_s);
        let total = total(options, record, seconds);
        let done = Done { sessions: record.sessions, messages: record.messages, transactions: total.count };
        let server = self.monitor.and_then(|m| m.cost(start_s, end_s, &done, &self.machine));
        let server = server.and_then(|cost| self.alone(cost, &done));
        let mut result = RunResult {
            schema: SCHEMA,
            tool: concat!("posthaste-load ", env!("CARGO_PKG_VERSION")).into(),
            command: options.command.clone(),
            started_unix: 0,
            clock: None,
            label: options.label.clone(),
            server_says: Default::default(),
            workload: WorkloadFacts {
                name: options.workload.name.clone(),
                description: options.workload.description.clone(),
                toml: options.workload.source.clone(),
            },
            settings: options.settings.clone(),
            clients: options.clients,
            machine: self.machine.clone(),
            outcome: self.outcome(&total),
            caveats: Vec::new(),
            window: Window::of(&series.done, start_s, end_s),
            transactions: transactions(options, record, seconds),
            kinds: Vec::new(),
            generators: Vec::new(),
            commands: commands(record, seconds),
            series,
            errors: record.errors.values().cloned().collect(),
            slowest: record.slowest.clone(),
            generator: self.generator(total.count, server.as_ref()),
            total,
            server,
            counted: match self.shared.meter {
                Some(_) => self.watched.counted().map(|_| Offered::NotOffered(MEASURED_ALONE.into())),
                None => self.watched.counted(),
            },
            audit: None,
        };
        result.caveats = doubts(options, &result);
        if let Some(why) = &record.alone.failed {
            result.caveats.push(format!("the server's cost is not known: {why}"));
        }
        result
    }

    /// The server's cost: that of transactions which were measured alone, if they were.
    fn alone(&self, cost: ServerCost, done: &Done) -> Option<ServerCost> {
        match self.shared.meter {
            None => Some(cost),
            Some(_) => self.record.alone.within(cost, done.messages, &self.machine),
        }
    }

    /// Seconds from the start of the run: the part that figures are of.
    fn window(&self) -> (f64, f64) {
        let phase = &self.shared.phase;
        let start_s = phase.seconds(phase.measure_start());
        let last = self.watched.own.last();
        let end_s = last.map_or(start_s, |(t, _)| t.min(phase.seconds(phase.measure_end())));
        (start_s, end_s)
    }

    fn outcome(&self, total: &Summary) -> Outcome {
        let (options, record) = (&self.shared.options, self.record);
        let saturation = SATURATED_PER_USER * f64::from(options.clients);
        let unfinished_max = self.shared.unfinished_max.load(Ordering::Relaxed);
        let mut outcome = Outcome {
            errors: record.error_count(),
            outages: record.outages.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            interrupted: self.shared.phase.was_interrupted(),
            saturated: options.arrivals.is_some() && unfinished_max as f64 > saturation,
            unfinished_max,
            ..Outcome::default()
        };
        outcome.clean = outcome.errors == 0;
        let kinds = record.errors.iter().map(|(kind, error)| (*kind, error.count));
        outcome.headline = outcome.sentence(kinds, total);
        outcome
    }

    fn generator(&self, transactions: u64, server: Option<&ServerCost>) -> GeneratorCost {
        let server_cpu_s = server.map(|s| s.cpu_user_s + s.cpu_system_s);
        let ends = self.watched.ends(self.window()).unwrap_or_default();
        let [(_, before), (_, after)] = ends;
        let alone = &self.record.alone;
        let (user, system) = match self.shared.meter {
            Some(_) => (alone.own_user_s, alone.own_system_s),
            None => (after.user_s - before.user_s, after.system_s - before.system_s),
        };
        let here = here_s(&self.shared.options.watch, server);
        let lateness = &self.record.lateness;
        GeneratorCost {
            cpu_user_s: user,
            cpu_system_s: system,
            cpu_us_per_transaction: (transactions > 0).then(|| (user + system) * 1e6 / transactions as f64),
            share_of_server: server_cpu_s.filter(|s| *s > 0.0).map(|s| (user + system) / s),
            rss_max_bytes: after.rss_max_bytes,
            late_p99_ms: (lateness.count() > 0).then(|| lateness.percentile_ms(99.0)),
            // While transactions are measured alone, the steps around them are not other work.
            other_cpus: here
                .filter(|_| self.shared.meter.is_none())
                .and_then(|server_s| self.watched.others(self.window(), server_s)),
        }
    }
}

/// CPU seconds of the server on the generator's own machine.
fn here_s(watch: &WatchTarget, server: Option<&ServerCost>) -> Option<f64> {
    match watch {
        WatchTarget::Nothing => None,
        WatchTarget::Local { .. } => server.map(|s| s.cpu_user_s + s.cpu_system_s),
        // The server is on a machine of its own.
        WatchTarget::Agent { .. } => Some(0.0),
        WatchTarget::Parts(parts) => {
            let is_here = |name: &str| {
                parts.iter().any(|(part, of)| part == name && matches!(of, WatchTarget::Local { .. }))
            };
            Some(server?.roles.iter().filter(|role| is_here(&role.name)).map(|role| role.cpu_s).sum())
        }
    }
}

fn commands(record: &Recorder, seconds: f64) -> Vec<NamedSummary> {
    let summary = |(name, tally): (&&'static str, &Tally)| NamedSummary {
        name: (*name).to_owned(),
        summary: tally.latency.summary(seconds, tally.errors, tally.bytes),
    };
    record.commands.iter().map(summary).collect()
}

fn series(record: &Recorder, monitor: Option<&Monitor>, watched: &Watched, end_s: f64) -> Series {
    let length = end_s.floor() as usize;
    let take = |f: &dyn Fn(&Second) -> f64| -> Vec<f64> {
        (0..length).map(|s| record.seconds.get(s).map_or(0.0, f)).collect()
    };
    let own: Vec<(f64, f64)> = watched.own.iter().map(|(t, o)| (*t, o.user_s + o.system_s)).collect();
    let state = |second: usize| {
        let at = watched.states.partition_point(|s| s.0 < second as f64 + 0.5);
        watched.states.get(at).or(watched.states.last()).copied().unwrap_or_default()
    };
    Series {
        done: take(&|s| f64::from(s.done)).into_iter().map(|n| n as u64).collect(),
        errors: take(&|s| f64::from(s.errors)).into_iter().map(|n| n as u64).collect(),
        mean_ms: take(&|s| if s.done > 0 { s.sum_us as f64 / f64::from(s.done) / 1e3 } else { 0.0 }),
        max_ms: take(&|s| s.max_us as f64 / 1e3),
        online: (0..length).map(|s| state(s).1).collect(),
        unfinished: (0..length).map(|s| state(s).2).collect(),
        server_cpus: monitor.map(|m| m.per_second(length)).unwrap_or_default(),
        generator_cpus: rates(&own, length),
    }
}

fn transactions(options: &RunOptions, record: &Recorder, seconds: f64) -> Vec<Transaction> {
    let workload = &options.workload;
    let shares = workload.choice.shares(workload.transactions.len());
    let all: u64 =
        record.transactions.iter().take(workload.transactions.len()).map(|t| t.latency.count()).sum();
    let mut rows: Vec<Transaction> = workload
        .transactions
        .iter()
        .zip(&record.transactions)
        .enumerate()
        .map(|(at, (transaction, tally))| Transaction {
            name: transaction.name.clone(),
            description: transaction.description.clone(),
            share_asked: shares.get(at).copied(),
            share_realised: tally.latency.count() as f64 / all.max(1) as f64,
            redrawn: tally.redrawn,
            summary: tally.latency.summary(seconds, tally.errors, tally.bytes),
        })
        .collect();
    let own = [
        ("(trim)", "Deleting messages over the threshold"),
        ("(arrival)", "Mail from outside"),
        ("(routed)", "Mail from outside for another server"),
    ];
    for ((name, description), tally) in
        own.iter().zip(record.transactions.iter().skip(workload.transactions.len()))
    {
        if tally.latency.count() + tally.errors > 0 {
            rows.push(Transaction {
                name: (*name).into(),
                description: (*description).into(),
                summary: tally.latency.summary(seconds, tally.errors, tally.bytes),
                ..Transaction::default()
            });
        }
    }
    rows
}

fn total(options: &RunOptions, record: &Recorder, seconds: f64) -> Summary {
    let (mut latency, mut errors, mut bytes) = (Latency::default(), 0, (0, 0));
    for (at, tally) in record.transactions.iter().enumerate() {
        if at < options.workload.transactions.len() {
            latency.merge(&tally.latency);
            errors += tally.errors;
        }
        bytes = (bytes.0 + tally.bytes.0, bytes.1 + tally.bytes.1);
    }
    latency.summary(seconds, errors, bytes)
}
