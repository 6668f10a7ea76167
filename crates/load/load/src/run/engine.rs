//! A run from start to result: threads, the clock, samples of cost, and everything put together.

use super::arrivals::arrive;
use super::ledger::Ledger;
use super::live::{Live, State};
use super::open_loop::Lane;
use super::options::RunOptions;
use super::recorder::{Recorder, Second};
use super::shared::Shared;
use super::user::User;
use crate::interrupt;
use crate::measure::own::{self, Own};
use crate::measure::{Done, Monitor, WatchTarget, machine, rates};
use crate::results::{
    GeneratorCost, NamedSummary, Outcome, RunResult, SCHEMA, Series, Transaction, Window, WorkloadFacts,
};
use crate::stats::{Latency, steady};
use posthaste_load_workload::SessionKind;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows of the engine's own behind the workload's transactions: deleting beyond the threshold, and
/// mail arriving.
pub(super) const TRIM: usize = 0;
const ARRIVAL: usize = 1;
/// How long users may take to finish what they are at when the run ends.
const GRACE: Duration = Duration::from_secs(10);
/// Unfinished tasks per user beyond which a run is saturated: Exchange Load Generator's figure.
const SATURATED_PER_USER: f64 = 1.5;
/// The generator's share of the server's CPU beyond which figures may be its own.
const OWN_SHARE_MAX: f64 = 0.1;
/// The generator's own lateness in dispatching, 99 %, beyond which figures may be its own.
const LATE_MS_MAX: f64 = 10.0;
/// Share of the machine that other work may take before throughput and times are what it left.
const OTHERS_SHARE_MAX: f64 = 0.1;

/// A run that has ended.
pub struct Ended {
    /// Its result; the audit is still to be entered.
    pub result: RunResult,
    /// What an audit will expect.
    pub ledger: Option<Ledger>,
}

/// Runs. `ledger`: already holds what was there before, if there is to be an audit.
pub fn run(options: RunOptions, ledger: Option<Ledger>) -> io::Result<Ended> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    own::make_room_for(options.clients).map_err(io::Error::other)?;
    let mut caveats = Vec::new();
    let machine = machine::facts(options.mhz);
    let mut monitor = Monitor::start(&options.watch)?;
    let shared = Arc::new(Shared::new(options, ledger, started.as_micros() as u32));
    let rows = shared.options.workload.transactions.len() + 2;
    let recorders: Vec<_> =
        (0..shared.options.threads.max(1)).map(|_| Arc::new(Mutex::new(Recorder::new(rows)))).collect();
    let threads = recorders
        .iter()
        .enumerate()
        .map(|(lane, recorder)| {
            let (shared, recorder, lanes) = (shared.clone(), recorder.clone(), recorders.len());
            let body = move || lane_thread(&shared, recorder, lane, lanes, rows - 2 + ARRIVAL);
            std::thread::Builder::new().name(format!("users-{lane}")).spawn(body)
        })
        .collect::<io::Result<Vec<_>>>()?;
    let watched = conduct(&shared, &recorders, monitor.as_mut(), &mut caveats);
    for thread in threads {
        if !matches!(thread.join(), Ok(Ok(()))) {
            caveats
                .push("a generator thread failed: its users' figures are missing from its failure on".into());
        }
    }
    let record = gather(&recorders, rows);
    let mut result = conclude(&shared, &record, &watched, monitor.as_ref(), machine, caveats);
    result.started_unix = started.as_secs();
    let ledger = Arc::try_unwrap(shared).ok().and_then(|shared| shared.ledger);
    Ok(Ended { result, ledger })
}

/// One thread's life: its users, its share of the tasks and of arriving mail.
fn lane_thread(
    shared: &Arc<Shared>,
    recorder: Arc<Mutex<Recorder>>,
    number: usize,
    lanes: usize,
    arrival_row: usize,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let lane = Rc::new(Lane::new(recorder));
    local.block_on(&runtime, async {
        let mut users = tokio::task::JoinSet::new();
        for index in (number as u32..shared.options.clients).step_by(lanes) {
            users.spawn_local(User::new(shared.clone(), lane.clone(), index).live());
        }
        let dispatching = async {
            match shared.options.arrivals {
                Some(arrivals) => lane.dispatch(shared, arrivals, number, lanes).await,
                None => shared.phase.stopping().await,
            }
        };
        tokio::join!(dispatching, arrive(shared, &lane, number, lanes, arrival_row), shared.phase.stopping());
        let finishing = async { while users.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, finishing).await;
        users.abort_all();
        lane.close().await;
    });
    Ok(())
}

/// The main thread during a run: a look every second and at both ends of the window; Ctrl-C.
fn conduct(
    shared: &Shared,
    recorders: &[Arc<Mutex<Recorder>>],
    mut monitor: Option<&mut Monitor>,
    caveats: &mut Vec<String>,
) -> Watched {
    let phase = &shared.phase;
    let total = phase.measure_end() - phase.start();
    let live = Live::new(shared.options.live, total);
    let mut watched = Watched::default();
    let mut lost = false;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        phase.stop();
        return watched;
    };
    let mut moments: Vec<Instant> =
        (0..=total.as_secs()).map(|s| phase.start() + Duration::from_secs(s)).collect();
    moments.extend([phase.measure_start(), phase.measure_end()]);
    moments.sort_unstable();
    moments.dedup();
    interrupt::listen();
    for moment in moments {
        runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep_until(moment.into()) => {}
                () = interrupt::wait() => {}
            }
        });
        let now = Instant::now();
        let at_s = phase.seconds(now);
        watched.own.push((at_s, own::now()));
        if let Some(monitor) = monitor.as_deref_mut().filter(|_| !lost)
            && let Err(error) = monitor.sample(at_s)
        {
            lost = true;
            caveats.push(format!("the server's cost is known only up to {at_s:.0} s: {error}"));
        }
        let glance = glance(recorders, at_s);
        let unfinished = shared.unfinished.load(std::sync::atomic::Ordering::Relaxed);
        watched.states.push((at_s, glance.online.max(0) as u64, unfinished.max(0) as u64));
        live.show(&State {
            phase: phase.name(now),
            at_s,
            total_s: total.as_secs_f64(),
            last: glance.last,
            online: glance.online,
            errors: glance.errors,
            server_cpus: monitor.as_deref().and_then(Monitor::now),
            own_cpus: own_rate(&watched.own),
            unfinished: shared.options.arrivals.map(|_| unfinished),
        });
        if interrupt::happened() {
            phase.interrupt();
            break;
        }
    }
    live.end();
    phase.stop();
    watched
}

/// What the main thread saw.
#[derive(Default)]
struct Watched {
    own: Vec<(f64, Own)>,
    /// Second, users online, tasks unfinished.
    states: Vec<(f64, u64, u64)>,
}

/// A look at the recorders that costs next to nothing.
struct Glance {
    last: Second,
    online: i64,
    errors: u64,
}

fn glance(recorders: &[Arc<Mutex<Recorder>>], at_s: f64) -> Glance {
    let mut glance = Glance { last: Second::default(), online: 0, errors: 0 };
    for recorder in recorders {
        let recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        glance.online += recorder.online;
        glance.errors += recorder.error_count();
        if let Some(second) = recorder.seconds.get((at_s as usize).saturating_sub(1)) {
            glance.last.add(second);
        }
    }
    glance
}

fn own_rate(own: &[(f64, Own)]) -> f64 {
    let [.., (t0, a), (t1, b)] = own else { return 0.0 };
    (b.user_s + b.system_s - a.user_s - a.system_s) / (t1 - t0).max(1e-3)
}

fn gather(recorders: &[Arc<Mutex<Recorder>>], rows: usize) -> Recorder {
    let mut all = Recorder::new(rows);
    for recorder in recorders {
        all.merge(&recorder.lock().unwrap_or_else(PoisonError::into_inner));
    }
    all
}

fn conclude(
    shared: &Shared,
    record: &Recorder,
    watched: &Watched,
    monitor: Option<&Monitor>,
    machine: crate::results::Machine,
    mut caveats: Vec<String>,
) -> RunResult {
    let options = &shared.options;
    let phase = &shared.phase;
    let own = watched.own.as_slice();
    let start_s = phase.seconds(phase.measure_start());
    let end_s = own.last().map_or(start_s, |(t, _)| t.min(phase.seconds(phase.measure_end())));
    let seconds = (end_s - start_s).max(0.0);
    let series = series(record, monitor, watched, end_s);
    let window = window(&series, start_s, end_s);
    let transactions = transactions(options, record, seconds);
    let total = total(options, record, seconds);
    let done = Done { sessions: record.sessions, messages: record.messages, transactions: total.count };
    let server = monitor.and_then(|m| m.cost(start_s, end_s, &done, &machine));
    let server_cpu_s = server.as_ref().map(|s| s.cpu_user_s + s.cpu_system_s);
    let mut generator = generator(own, start_s, end_s, total.count, record, server_cpu_s);
    let here = match options.watch {
        WatchTarget::Nothing => None,
        WatchTarget::Local { .. } => server_cpu_s,
        // The server is on a machine of its own.
        WatchTarget::Agent { .. } => Some(0.0),
    };
    generator.other_cpus = here.and_then(|server_s| others(own, start_s, end_s, server_s));
    let saturation = SATURATED_PER_USER * f64::from(options.clients);
    let unfinished_max = shared.unfinished_max.load(std::sync::atomic::Ordering::Relaxed);
    let mut outcome = Outcome {
        errors: record.error_count(),
        outages: record.outages.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        interrupted: phase.was_interrupted(),
        saturated: options.arrivals.is_some() && unfinished_max as f64 > saturation,
        unfinished_max,
        ..Outcome::default()
    };
    warn(options, &outcome, &generator, (&window, total.count), &machine, &mut caveats);
    caveats.extend(absent(options, &series, &window));
    outcome.clean = outcome.errors == 0;
    outcome.headline = headline(&outcome, record, &total);
    RunResult {
        schema: SCHEMA,
        tool: concat!("posthaste-load ", env!("CARGO_PKG_VERSION")).into(),
        command: options.command.clone(),
        started_unix: 0,
        label: options.label.clone(),
        workload: WorkloadFacts {
            name: options.workload.name.clone(),
            description: options.workload.description.clone(),
            toml: options.workload.source.clone(),
        },
        settings: options.settings.clone(),
        clients: options.clients,
        machine,
        outcome,
        caveats,
        window,
        total,
        transactions,
        commands: record
            .commands
            .iter()
            .map(|(name, tally)| NamedSummary {
                name: (*name).to_owned(),
                summary: tally.latency.summary(seconds, tally.errors, tally.bytes),
            })
            .collect(),
        series,
        errors: record.errors.values().cloned().collect(),
        slowest: record.slowest.clone(),
        server,
        generator,
        audit: None,
    }
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

fn window(series: &Series, start_s: f64, end_s: f64) -> Window {
    let from = start_s.ceil() as usize;
    let samples: Vec<f64> = series.done.iter().skip(from).map(|n| *n as f64).collect();
    let found = steady::find(&samples);
    Window {
        start_s,
        // Ctrl-C before it began leaves an empty window.
        end_s: end_s.max(start_s),
        steady_start_s: (from + found.start) as f64,
        steady_end_s: (from + found.end) as f64,
        steady: found.is_steady,
        drift: found.drift,
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
    let own = [("(trim)", "Deleting what arrived beyond the threshold"), ("(arrival)", "Mail from outside")];
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

fn total(options: &RunOptions, record: &Recorder, seconds: f64) -> crate::results::Summary {
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

fn generator(
    own: &[(f64, Own)],
    start_s: f64,
    end_s: f64,
    transactions: u64,
    record: &Recorder,
    server_cpu_s: Option<f64>,
) -> GeneratorCost {
    let near = |t: f64| own.iter().min_by(|a, b| (a.0 - t).abs().total_cmp(&(b.0 - t).abs())).map(|o| o.1);
    let (before, after) = (near(start_s).unwrap_or_default(), near(end_s).unwrap_or_default());
    let (user, system) = (after.user_s - before.user_s, after.system_s - before.system_s);
    GeneratorCost {
        cpu_user_s: user,
        cpu_system_s: system,
        cpu_us_per_transaction: (transactions > 0).then(|| (user + system) * 1e6 / transactions as f64),
        share_of_server: server_cpu_s.filter(|s| *s > 0.0).map(|s| (user + system) / s),
        rss_max_bytes: after.rss_max_bytes,
        late_p99_ms: (record.lateness.count() > 0).then(|| record.lateness.percentile_ms(99.0)),
        other_cpus: None,
    }
}

/// Processors of this machine that were busy with neither the generator nor the server.
fn others(own: &[(f64, Own)], start_s: f64, end_s: f64, server_s: f64) -> Option<f64> {
    let near = |t: f64| own.iter().min_by(|a, b| (a.0 - t).abs().total_cmp(&(b.0 - t).abs()));
    let ((t0, before), (t1, after)) = (near(start_s)?, near(end_s)?);
    let busy_s = after.machine_busy_s? - before.machine_busy_s?;
    let own_s = after.user_s + after.system_s - before.user_s - before.system_s;
    (t1 > t0).then(|| ((busy_s - own_s - server_s) / (t1 - t0)).max(0.0))
}

fn warn(
    options: &RunOptions,
    outcome: &Outcome,
    generator: &GeneratorCost,
    (window, total): (&Window, u64),
    machine: &crate::results::Machine,
    caveats: &mut Vec<String>,
) {
    if let Some(share) = generator.share_of_server.filter(|s| *s > OWN_SHARE_MAX) {
        caveats.push(format!(
            "the generator used {:.0} % of the CPU the server used: on a busy machine the times may be its own",
            share * 100.0
        ));
    }
    if let Some(late) = generator.late_p99_ms.filter(|l| *l > LATE_MS_MAX) {
        caveats.push(format!(
            "the generator was late: 1 % of tasks were dispatched {late:.0} ms or more after they were due"
        ));
    }
    let cpus = f64::from(machine.cpus);
    if let Some(others) = generator.other_cpus.filter(|o| *o > OTHERS_SHARE_MAX * cpus) {
        caveats.push(format!(
            "other work on this machine took {others:.2} of its {cpus} processors: throughput and times are what it left"
        ));
    }
    if outcome.saturated {
        caveats.push(format!(
            "saturated: up to {} tasks were due and unfinished, more than {SATURATED_PER_USER} per user",
            outcome.unfinished_max
        ));
    }
    if outcome.interrupted {
        caveats.push(format!(
            "interrupted: the window is {:.0} s instead of {:.0} s",
            window.end_s - window.start_s,
            options.measure.as_secs_f64()
        ));
    }
    // Where nothing was to end, as with idle sessions, there is no throughput to be steady.
    if !window.steady && total > 0 {
        caveats.push(format!(
            "throughput was not steady in the window (drift {:.0} %, or too few seconds to tell)",
            window.drift * 100.0
        ));
    }
    if machine.build == "debug" {
        caveats
            .push("the generator is a debug build: it costs several times what a release build does".into());
    }
    let tls = options.server.endpoint.security != posthaste_imap_client::net::Security::Plain;
    if options.workload.tls != tls {
        let (wants, has) = if tls { ("no TLS", "TLS") } else { ("TLS", "no TLS") };
        caveats.push(format!("the workload's article used {wants}; this run used {has}"));
    }
}

/// Users who were to be online and never all were: those who still wait to connect fail nothing and
/// measure nothing.
fn absent(options: &RunOptions, series: &Series, window: &Window) -> Option<String> {
    let online = series.online.iter().skip(window.start_s as usize).max().copied()?;
    (options.workload.session == SessionKind::Online && online < u64::from(options.clients)).then(|| {
        format!(
            "of {} users at most {online} were online at a time: a longer --ramp may help",
            options.clients
        )
    })
}

fn headline(outcome: &Outcome, record: &Recorder, total: &crate::results::Summary) -> String {
    let figures = format!(
        "{} transactions, {:.1}/s, mean {:.2} ms, p99 {:.2} ms",
        total.count, total.rate_per_s, total.mean_ms, total.p99_ms
    );
    let outages: Vec<String> = outcome.outages.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    let figures = match outages.is_empty() {
        true => figures,
        false => format!("{figures}; outages tolerated: {}", outages.join(", ")),
    };
    if outcome.clean {
        return figures;
    }
    let kinds: Vec<String> = record.errors.iter().map(|(kind, e)| format!("{} {kind}", e.count)).collect();
    format!("{} ERRORS ({}): {figures}", outcome.errors, kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_others_is_what_is_left_of_a_busy_machine() {
        let at = |user_s, busy| Own { user_s, system_s: 1.0, machine_busy_s: busy, ..Own::default() };
        let own = [(0.0, at(0.0, Some(100.0))), (10.0, at(2.0, Some(115.0)))];
        // 15 s busy in 10 s, 2 of them the generator's and 8 the server's.
        assert_eq!(others(&own, 0.0, 10.0, 8.0), Some(0.5));
        assert_eq!(others(&own, 0.0, 10.0, 14.0), Some(0.0), "clocks that differ make no negative work");
        assert_eq!(others(&[own[0], (10.0, at(2.0, None))], 0.0, 10.0, 8.0), None);
        assert_eq!(others(&own, 10.0, 10.0, 0.0), None);
    }
}
