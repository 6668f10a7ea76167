//! One point of a study: the run that measures it, and what is recorded of it.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_load_drive::interrupt;
use posthaste_load_drive::run::{Pools, RunOptions, SendBy};
use posthaste_load_drive::{Accounts, Scheme};
use posthaste_load_measure::hottest::Profile;
use posthaste_load_measure::processors::of_its_own;
use posthaste_load_measure::{self as measure, WatchTarget};
use posthaste_load_results::{Offered, RunResult, StudyPoint};
use posthaste_load_text::quantity::show_duration;
use posthaste_load_workload::{Think, Workload};

use super::measured::{at_once, measure};
use super::position::StudyPosition;
use super::ways::{Ways, others, outside, reading, ways};
use super::work::Work;
use crate::plan::{PlannedPoint, Stage};
use crate::server::{Instance, ServerChoice};
use crate::settings::{ARRIVES_BY, FILLED_BYTES, SENT_BY, TAKEN_BY_OTHER};

/// Virtual users with which raising load begins.
const CLIENTS_FIRST: u32 = 2;
/// Longest time for the transactions of a point that are measured alone. Each needs some commands
/// on 1,000 messages: at 100 messages a second, nine of them fit. With more, a server that hangs
/// would hold up a study for too long.
const ALONE_WITHIN: Duration = Duration::from_secs(300);
/// Load is raised no further when twice the users bring less than this more throughput.
const GAIN_MIN: f64 = 1.05;

impl Work<'_> {
    /// Measures one point on one server, and records it. Points that were measured are left out.
    pub(super) fn point(
        &mut self,
        which: &ServerChoice,
        place: StudyPosition,
        instance: &Instance,
        accounts: &[Accounts],
    ) {
        let StudyPosition { stage, number, round } = place;
        let Some(point) = stage.points.get(number) else { return };
        let options = self.run_options(which, stage, point, instance, &accounts[point.population]);
        let options = options.and_then(|options| self.fitted(which, point, instance, options));
        let options =
            options.and_then(|first| self.of_all_kinds((which, instance), point, (first, accounts)));
        if self.record.run(which.name(), point, round).is_none() {
            self.say_point(which, place, point);
            let run = self.run_of((which, instance), stage, point, &options);
            self.interrupted |= interrupt::happened();
            // The window of a run that Ctrl-C ended is too short.
            if self.interrupted {
                return;
            }
            let (server, at) = (which.name().to_owned(), point.at.clone());
            let workload = point.name(self.study).to_owned();
            self.record.put(StudyPoint { server, at, workload, round, run: run.map(Box::new) });
        }
        if let (true, Some(length), Ok(all)) = (self.wants_profile(which, place), point.profile, &options)
            && let Some(first) = all.first()
        {
            self.say("  again, sampling the server's functions");
            let found = hottest(instance.pid, first, length);
            self.interrupted |= interrupt::happened();
            if !self.interrupted {
                self.record.note_hottest(which.name(), point, found);
            }
        }
    }

    /// Says which point is next, and how much is left.
    fn say_point(&self, which: &ServerChoice, place: StudyPosition, point: &PlannedPoint) {
        let at: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let round =
            if self.study.rounds > 1 { format!(", round {}", place.round + 1) } else { String::new() };
        let (name, at) = (point.name(self.study), at.join(", "));
        self.say(&format!("{}: {}{round}: {name}, {at}", self.progress(), which.name()));
    }

    /// Measures a point.
    fn run_of(
        &self,
        (which, instance): (&ServerChoice, &Instance),
        stage: &Stage,
        point: &PlannedPoint,
        options: &Result<Vec<RunOptions>, String>,
    ) -> Result<RunResult, String> {
        let before = self.taken(instance);
        let cpus = self.cpus(which, stage);
        let all = options.clone()?;
        let mut run = match (point.clients, all.first()) {
            (None, Some(first)) => self.raised(first.clone(), cpus)?,
            _ => {
                let mut run = at_once(all, &self.study.workloads[point.workload])?;
                of_its_own(&mut run, cpus);
                run
            }
        };
        self.say(&summary(&run));
        self.note_taken(instance, before, &mut run);
        if let Some(bytes) = self.filled_bytes {
            run.settings.insert(FILLED_BYTES.into(), bytes.to_string());
        }
        Ok(run)
    }

    /// Messages that the other server has taken, and of these, those that were not as sent.
    fn taken(&self, instance: &Instance) -> (u64, u64) {
        let own = instance.relay.as_ref().map(|relay| &relay.taken);
        let taken = own.or(self.other.as_ref().map(|other| &other.taken));
        taken.map_or((0, 0), |taken| (taken.messages(), taken.altered() + taken.foreign()))
    }

    /// Records what the other server took during a run. Accepted messages are counted until the
    /// run ends. Messages that wait in a queue then are not counted.
    fn note_taken(&self, instance: &Instance, before: (u64, u64), run: &mut RunResult) {
        let now = self.taken(instance);
        if !instance.at.sends_on {
            return;
        }
        run.settings.insert(TAKEN_BY_OTHER.into(), (now.0 - before.0).to_string());
        if now.1 > before.1 {
            let altered = now.1 - before.1;
            run.caveats
                .push(format!("{altered} messages for the other server came altered or were not sent by us"));
        }
    }

    /// Load raised until the server is busy enough or nothing more comes of it; then held.
    fn raised(&self, options: RunOptions, cpus: Option<u32>) -> Result<RunResult, String> {
        let measure = |options: RunOptions| {
            let mut run = measure(options)?;
            of_its_own(&mut run, cpus);
            Ok::<_, String>(run)
        };
        let Some(load) = self.study.load else { return measure(options) };
        let mut clients = CLIENTS_FIRST.min(load.clients_max);
        let mut before = 0.0;
        loop {
            let mut trial = options.clone();
            trial.clients = clients;
            (trial.ramp, trial.warmup) = (Duration::from_millis(500), Duration::from_millis(500));
            trial.measure = self.study.times.trial;
            trial.live = false;
            let result = measure(trial)?;
            let cpu = result.server.as_ref().map_or(0.0, |s| s.cpu_percent);
            self.say(&format!("  {clients} clients: server CPU {cpu:.0} %"));
            let rate = result.total.rate_per_s;
            if result.outcome.interrupted {
                return Ok(result);
            }
            if cpu > load.until_cpu_percent || clients >= load.clients_max || rate < before * GAIN_MIN {
                break;
            }
            before = rate;
            clients = (clients * 2).min(load.clients_max);
        }
        let mut result = measure(RunOptions { clients, ..options })?;
        let cpu = result.server.as_ref().map_or(0.0, |s| s.cpu_percent);
        if cpu < load.until_cpu_percent {
            result.caveats.push(format!(
                "more load did not raise the server's CPU above {cpu:.0} % (the target is {} %)",
                load.until_cpu_percent
            ));
        }
        Ok(result)
    }

    /// The settings of a point that a report shows.
    fn settings(&self, point: &PlannedPoint, workload: &Workload, ways: &Ways) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> =
            point.at.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        let population = &self.plan.populations[point.population];
        let times = &self.study.times;
        for (name, value) in [
            ("accounts", population.accounts.clone()),
            ("messages in each", population.contents.messages().to_string()),
            ("ramp", show_duration(times.ramp)),
            ("warmup", show_duration(times.warmup)),
            ("measure", show_duration(times.measure)),
            ("tls", workload.tls.to_string()),
        ] {
            settings.insert(name.to_owned(), value);
        }
        for (name, way) in [(SENT_BY, &ways.sent_by), (ARRIVES_BY, &ways.arrives_by)] {
            if let Some(way) = way {
                settings.insert(name.to_owned(), way.clone());
            }
        }
        settings
    }

    /// The processes and the folder that a run measures. Servers that the study starts have their
    /// mail in its folder.
    pub(super) fn watched(&self, which: &ServerChoice, instance: &Instance) -> WatchTarget {
        let ours = !matches!(which, ServerChoice::Running(_));
        let data = ours.then_some(self.options.folder.as_path());
        instance.watch(self.options.agent_token.as_deref(), data)
    }

    /// The options of a point that not every server offers, or whose transactions are measured
    /// alone.
    fn fitted(
        &self,
        which: &ServerChoice,
        point: &PlannedPoint,
        instance: &Instance,
        mut options: RunOptions,
    ) -> Result<RunOptions, String> {
        if options.workload.chosen().any(|t| t.needs_lmtp) {
            let lmtp = instance.at.deliver.clone().filter(|target| target.scheme == Scheme::Lmtp);
            let lmtp = lmtp.ok_or_else(|| format!("{}: LMTP is not offered", which.name()))?;
            options.send = Some(SendBy::Mail(lmtp));
        }
        if point.is_cold(self.study) && !which.is_started_here() {
            return Err(format!(
                "{}: {} needs a server that the study starts again, and this one runs already",
                which.name(),
                point.name(self.study)
            ));
        }
        if options.workload.is_measured_alone() {
            // One more, which is a rehearsal.
            options.transactions_each = Some(self.study.transactions_alone + 1);
            (options.ramp, options.warmup) = (Duration::ZERO, Duration::ZERO);
            options.measure = ALONE_WITHIN;
            for time in ["ramp", "warmup", "measure"] {
                options.settings.remove(time);
            }
            let count = format!("{}, each measured alone", self.study.transactions_alone);
            options.settings.insert("transactions".into(), count);
        }
        Ok(options)
    }

    pub(super) fn run_options(
        &self,
        which: &ServerChoice,
        stage: &Stage,
        point: &PlannedPoint,
        instance: &Instance,
        accounts: &Accounts,
    ) -> Result<RunOptions, String> {
        let mut workload = point.workload(self.study);
        let mail = which.mail(&self.study.arms);
        if !self.study.arms.is_empty() {
            workload.shares = mail.shares;
        }
        if let Some(sizes) = self.study.sizes.as_ref().filter(|_| self.study.users.is_some()) {
            workload.sizes = sizes.clone();
        }
        let at = &instance.at;
        let outside = outside(self.study, which, at, &workload);
        let pools = Pools { receiving: self.study.users.map(|users| users.receiving), outside };
        let ways = ways(self.study, at, &workload);
        let times = &self.study.times;
        let mut settings = self.settings(point, &workload, &ways);
        if let Some(cpus) = self.cpus(which, stage) {
            settings.insert("server's processors".into(), cpus.to_string());
        }
        Ok(RunOptions {
            server: reading(which, at, &workload)?,
            cluster: others(instance, &workload),
            send: ways.send,
            deliver: ways.deliver,
            accounts: accounts.clone(),
            clients: point.clients.unwrap_or(CLIENTS_FIRST),
            think: point.think.or(self.study.think).map(|t| Think::Fixed(t.as_secs_f64())),
            arrivals: None,
            ramp: times.ramp,
            warmup: times.warmup,
            measure: times.measure,
            threads: self.options.threads,
            seed: self.options.seed,
            audit: false,
            dialer: self.dialer.clone(),
            watch: self.watched(which, instance),
            pools,
            transactions_each: None,
            figures: instance.figures.clone(),
            mhz: None,
            label: which.name().to_owned(),
            command: self.options.command.clone(),
            settings,
            live: false,
            workload,
        })
    }
}

/// Repeats the run while the server's functions are sampled. Only the samples are kept.
fn hottest(pid: Option<u32>, options: &RunOptions, length: Duration) -> Offered<Profile> {
    let mut options = options.clone();
    let Some(root) = pid else { return Offered::NotOffered("needs the server's process".into()) };
    let before = options.ramp + options.warmup;
    options.measure = length;
    let sampling = std::thread::spawn(move || measure::hottest::sample(root, before, length));
    let run = measure(options);
    let found = sampling.join().unwrap_or_else(|_| Offered::NotOffered("sampling failed".into()));
    run.map_or_else(Offered::NotOffered, |_| found)
}

fn summary(run: &RunResult) -> String {
    let cpu = run.server.as_ref().map_or(String::new(), |s| format!(", server CPU {:.0} %", s.cpu_percent));
    format!(
        "  {} clients: {:.1}/s, median {:.2} ms, 99 % {:.2} ms{cpu}: {}",
        run.clients, run.total.rate_per_s, run.total.p50_ms, run.total.p99_ms, run.outcome.headline
    )
}
