//! A run from start to end: threads, the clock, samples of cost.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste_load_measure::own;
use posthaste_load_measure::{Meter, Monitor, Reference, machine};
use posthaste_load_results::RunResult;

use super::alone::refuse_company;
use super::arrivals::arrive;
use super::ledger::Ledger;
use super::live::{Live, LiveState};
use super::open_loop::Lane;
use super::options::RunOptions;
use super::recorder::{OWN_ROWS, Recorder};
use super::result::Ending;
use super::shared::Shared;
use super::user::User;
use super::watched::{Watched, snapshot};
use crate::interrupt;

/// The time that users may take to finish their transactions when the run ends.
const GRACE: Duration = Duration::from_secs(10);
/// A run that has ended.
pub struct Ended {
    /// The run's result; the audit is still to be entered.
    pub result: RunResult,
    /// The messages that an audit will expect.
    pub ledger: Option<Ledger>,
}

/// The start of a run, and the clock by which its result reports it.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The start of the ramp; `None`: as soon as all is ready.
    pub at: Option<Instant>,
    /// The clock.
    pub clock: Reference,
}

impl Default for Begin {
    fn default() -> Self {
        Self { at: None, clock: Reference::own() }
    }
}

/// Runs. `ledger`: already holds the earlier messages, if there is an audit.
pub fn run(options: RunOptions, ledger: Option<Ledger>) -> io::Result<Ended> {
    run_from(options, ledger, &Begin::default())
}

/// Runs from a moment on.
pub fn run_from(options: RunOptions, ledger: Option<Ledger>, begin: &Begin) -> io::Result<Ended> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    own::make_room_for(options.clients).map_err(io::Error::other)?;
    refuse_company(&options).map_err(io::Error::other)?;
    let mut caveats = Vec::new();
    let machine = machine::facts(options.mhz);
    let mut monitor = Monitor::start(&options.watch)?;
    let meter = if options.workload.is_measured_alone() { Meter::open(&options.watch)? } else { None };
    let mut watched = Watched::default();
    if options.transactions_each.is_some() {
        // The users may have done all before the main thread looks for the first time.
        if (options.ramp + options.warmup).is_zero() {
            watched.read_figures(options.figures.as_ref());
        }
        if let Some(monitor) = &mut monitor {
            monitor.sample(0.0)?;
        }
    }
    let now = Instant::now();
    if begin.at.is_some_and(|at| at < now) {
        return Err(io::Error::other(
            "the time to begin passed while the run was prepared: choose a later one",
        ));
    }
    let start = begin.at.unwrap_or(now);
    let mut shared = Shared::new(options, ledger, started.as_micros() as u32, start);
    shared.meter = meter.map(Mutex::new);
    let shared = Arc::new(shared);
    let rows = shared.options.workload.transactions.len() + OWN_ROWS;
    let recorders: Vec<_> =
        (0..shared.options.threads.max(1)).map(|_| Arc::new(Mutex::new(Recorder::new(rows)))).collect();
    let threads = recorders
        .iter()
        .enumerate()
        .map(|(lane, recorder)| {
            let (shared, recorder, lanes) = (shared.clone(), recorder.clone(), recorders.len());
            let body = move || lane_thread(&shared, recorder, lane, lanes);
            std::thread::Builder::new().name(format!("users-{lane}")).spawn(body)
        })
        .collect::<io::Result<Vec<_>>>()?;
    conduct(&shared, &recorders, &mut watched, monitor.as_mut(), &mut caveats);
    for thread in threads {
        if !matches!(thread.join(), Ok(Ok(()))) {
            caveats.push("a generator thread failed: figures of its users are missing from then on".into());
        }
    }
    let record = gather(&recorders, rows);
    let ending =
        Ending { shared: &shared, record: &record, watched: &watched, monitor: monitor.as_ref(), machine };
    let mut result = ending.result();
    let clock = begin.clock.clock(start);
    result.started_unix = clock.start_unix_s as u64;
    result.clock = Some(clock);
    caveats.append(&mut result.caveats);
    result.caveats = caveats;
    let ledger = Arc::try_unwrap(shared).ok().and_then(|shared| shared.ledger);
    Ok(Ended { result, ledger })
}

/// One thread's life: its users, its share of the tasks and of arriving mail.
fn lane_thread(
    shared: &Arc<Shared>,
    recorder: Arc<Mutex<Recorder>>,
    number: usize,
    lanes: usize,
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
        tokio::join!(dispatching, arrive(shared, &lane, number, lanes), shared.phase.stopping());
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
    watched: &mut Watched,
    mut monitor: Option<&mut Monitor>,
    caveats: &mut Vec<String>,
) {
    let phase = &shared.phase;
    let total = phase.measure_end() - phase.start();
    let live = Live::new(shared.options.live, total);
    let mut lost = false;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        phase.stop();
        return;
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
                () = phase.stopping() => {}
            }
        });
        let now = Instant::now();
        let at_s = phase.seconds(now);
        // Known before anything is read: if the run ends meanwhile, the next round reads its end.
        let ends_early = interrupt::happened() || phase.is_stopping();
        watched.own.push((at_s, own::now()));
        let begins = moment == phase.measure_start() && watched.figures.is_empty();
        if begins || moment == phase.measure_end() || ends_early {
            watched.read_figures(shared.options.figures.as_ref());
        }
        if let Some(monitor) = monitor.as_deref_mut().filter(|_| !lost)
            && let Err(error) = monitor.sample(at_s)
        {
            lost = true;
            caveats.push(format!("the server's cost is known only up to {at_s:.0} s: {error}"));
        }
        let snapshot = snapshot(recorders, at_s);
        let unfinished = shared.unfinished.load(std::sync::atomic::Ordering::Relaxed);
        watched.states.push((at_s, snapshot.online.max(0) as u64, unfinished.max(0) as u64));
        live.show(&LiveState {
            phase: phase.name(now),
            at_s,
            total_s: total.as_secs_f64(),
            last: snapshot.last,
            online: snapshot.online,
            errors: snapshot.errors,
            server_cpus: monitor.as_deref().and_then(Monitor::now),
            own_cpus: watched.own_rate(),
            unfinished: shared.options.arrivals.map(|_| unfinished),
        });
        if interrupt::happened() {
            phase.interrupt();
        }
        if ends_early {
            break;
        }
    }
    live.end();
    phase.stop();
}

fn gather(recorders: &[Arc<Mutex<Recorder>>], rows: usize) -> Recorder {
    let mut all = Recorder::new(rows);
    for recorder in recorders {
        all.merge(&recorder.lock().unwrap_or_else(PoisonError::into_inner));
    }
    all
}
