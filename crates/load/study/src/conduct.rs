//! Conducts a study: each server started, filled and measured at every point. What fails at one
//! point is said there; the rest goes on. Ctrl-C ends the point being measured and then the study;
//! what was measured is kept.

use crate::analysis::analyse;
use crate::file::Study;
use crate::plan::{Plan, PlannedPoint, Stage};
use crate::server::{self, Instance, PASSWORD, Setting, Which};
use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::interrupt;
use posthaste_load_drive::populate::{PopulateOptions, populate};
use posthaste_load_drive::run::{ClusterOptions, RunOptions, SendBy, run};
use posthaste_load_measure::{self as measure, WatchTarget, machine};
use posthaste_load_results::{HotFunction, Offered, RunResult, SCHEMA, ServerFacts, StudyPoint, StudyResult};
use posthaste_load_text::quantity::show_duration;
use posthaste_load_workload::Think;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Virtual users with which raising load begins.
const CLIENTS_FIRST: u32 = 2;
/// Load is raised no further when twice the users bring less than this more throughput.
const GAIN_MIN: f64 = 1.05;

/// What is decided besides the study itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers, in order.
    pub servers: Vec<Which>,
    /// Where servers keep their data.
    pub folder: PathBuf,
    /// Whether it stays; otherwise each server's data goes before the next one's comes.
    pub keep: bool,
    /// The binary of ours.
    pub posthaste: Option<PathBuf>,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Threads of the generator.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Show progress.
    pub live: bool,
}

/// Conducts it.
pub fn conduct(study: &Study, options: &Options) -> Result<StudyResult, String> {
    interrupt::listen();
    let machine = machine::facts(None);
    let plan = Plan::of(study, machine.cpus);
    let dialer = Dialer::new(Trust::Anyone, PATIENCE).map_err(|e| e.to_string())?;
    let mut work = Work { study, options, plan: &plan, dialer, points: Vec::new(), interrupted: false };
    let mut servers = Vec::new();
    for (number, which) in options.servers.iter().enumerate() {
        let measured = work.points.len();
        servers.push(match work.server(number, which) {
            Ok(facts) => facts,
            // The results of the other servers are kept.
            Err(why) => {
                work.points.truncate(measured);
                for stage in &plan.stages {
                    work.not_measured(which, stage, &why);
                }
                ServerFacts { name: which.name().into(), version: why, ..ServerFacts::default() }
            }
        });
        if work.interrupted {
            break;
        }
    }
    let mut caveats = plan.caveats.clone();
    caveats.push(format!(
        "servers and generator share the {} processors of one machine: throughput is what both together reach",
        machine.cpus
    ));
    if plan.stages.iter().any(|stage| stage.memory_mb.is_some()) {
        caveats.push(
            "memory is Posthaste's budget for its cache, and other servers' control group limit, the system's cache of their \
             files included: the curves show each server's knee, and are not one scale"
                .into(),
        );
    }
    if study.quick {
        caveats
            .push("quick: fewer points, smaller messages and shorter windows than the study defines".into());
    }
    if work.interrupted {
        caveats.push("interrupted: points are missing".into());
    }
    let points = work.points;
    Ok(StudyResult {
        schema: SCHEMA,
        tool: concat!("posthaste-load ", env!("CARGO_PKG_VERSION")).into(),
        command: options.command.clone(),
        study: study.name.clone(),
        description: study.description.clone(),
        after: study.after.clone(),
        toml: study.source.clone(),
        quick: study.quick,
        machine,
        analysis: analyse(study.analysis, &servers, &points),
        servers,
        points,
        caveats,
    })
}

struct Work<'a> {
    study: &'a Study,
    options: &'a Options,
    plan: &'a Plan,
    dialer: Dialer,
    points: Vec<StudyPoint>,
    interrupted: bool,
}

impl Work<'_> {
    fn say(&self, what: &str) {
        if self.options.live {
            eprintln!("study {}: {what}", self.study.name);
        }
    }

    /// One server from its first start to its last stop. An error here means that nothing of it can
    /// be measured.
    fn server(&mut self, number: usize, which: &Which) -> Result<ServerFacts, String> {
        let accounts: Vec<Accounts> = self
            .plan
            .populations
            .iter()
            .map(|p| Accounts::parse(&p.accounts).map(|a| a.with_password(PASSWORD)))
            .collect::<Result<_, _>>()?;
        let folder = self.options.folder.join(format!("{}-{number}", which.name().to_lowercase()));
        let mut facts = None;
        for stage in &self.plan.stages {
            self.say(&format!("starting {}", which.name()));
            let setting = Setting {
                folder: &folder,
                accounts: &accounts,
                cpus: stage.cpus,
                memory_mb: stage.memory_mb,
                posthaste: self.options.posthaste.clone(),
            };
            match server::start(which, &setting) {
                Ok(instance) => {
                    if facts.is_none() {
                        self.fill(&instance, &accounts)?;
                    }
                    facts.get_or_insert_with(|| instance.facts.clone());
                    if !self.interrupted {
                        self.stage(which, stage, &instance, &accounts);
                    }
                }
                // A stage that this server or machine cannot offer; one that cannot start at all is
                // an error.
                Err(why) if stage.cpus.is_some() || stage.memory_mb.is_some() => {
                    self.not_measured(which, stage, &why)
                }
                Err(why) => return Err(format!("{}: {why}", which.name())),
            }
            if self.interrupted {
                break;
            }
        }
        if !self.options.keep
            && let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            self.say(&format!("{} stays: {error}", folder.display()));
        }
        Ok(facts.unwrap_or_else(|| ServerFacts { name: which.name().into(), ..ServerFacts::default() }))
    }

    fn not_measured(&mut self, which: &Which, stage: &Stage, why: &str) {
        self.say(why);
        for point in &stage.points {
            self.points.push(StudyPoint {
                server: which.name().into(),
                at: point.at.clone(),
                workload: self.study.workloads[point.workload].name.clone(),
                run: Err(why.to_owned()),
            });
        }
    }

    fn fill(&mut self, instance: &Instance, accounts: &[Accounts]) -> Result<(), String> {
        for (population, accounts) in self.plan.populations.iter().zip(accounts) {
            self.say(&format!(
                "filling {} with {} messages each",
                population.accounts,
                population.wish.messages()
            ));
            let done = populate(PopulateOptions {
                imap: instance.imap.clone(),
                lmtp: None,
                accounts: accounts.clone(),
                wish: population.wish.clone(),
                seed: self.options.seed,
                mail: None,
                parallel: 4,
                dialer: self.dialer.clone(),
                live: self.options.live,
            })
            .map_err(|e| e.to_string())?;
            if done.interrupted {
                self.interrupted = true;
                return Ok(());
            }
            if done.failed > 0 {
                return Err(format!(
                    "{} accounts of {} could not be filled",
                    done.failed, population.accounts
                ));
            }
        }
        Ok(())
    }

    fn stage(&mut self, which: &Which, stage: &Stage, instance: &Instance, accounts: &[Accounts]) {
        for (number, point) in stage.points.iter().enumerate() {
            let workload = &self.study.workloads[point.workload];
            let at: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
            let place = format!("{}/{}", number + 1, stage.points.len());
            self.say(&format!("{} {place}: {}, {}", which.name(), workload.name, at.join(", ")));
            let options = self.run_options(which, stage, point, instance, &accounts[point.population]);
            let mut run = match point.clients {
                Some(_) => measure(options.clone()),
                None => self.raised(options.clone()),
            };
            self.interrupted |= interrupt::happened();
            if run.as_ref().is_ok_and(|r| r.outcome.interrupted && r.window.end_s <= r.window.start_s) {
                run = Err("interrupted before anything was measured".into());
            }
            if let Ok(run) = &mut run {
                self.say(&summary(run));
                if let (Some(length), Some(server), false) =
                    (point.profile, &mut run.server, self.interrupted)
                {
                    self.say("  once more, sampling the server's functions");
                    server.hottest = Some(hottest(instance.pid, options, length));
                }
            }
            let (server, workload) = (which.name().to_owned(), workload.name.clone());
            self.points.push(StudyPoint { server, at: point.at.clone(), workload, run: run.map(Box::new) });
            if self.interrupted {
                return;
            }
        }
    }

    /// Load raised until the server is busy enough or nothing more comes of it; then held.
    fn raised(&self, options: RunOptions) -> Result<RunResult, String> {
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
                "more load did not bring the server's CPU above {cpu:.0} % ({} % was asked for)",
                load.until_cpu_percent
            ));
        }
        Ok(result)
    }

    fn run_options(
        &self,
        which: &Which,
        stage: &Stage,
        point: &PlannedPoint,
        instance: &Instance,
        accounts: &Accounts,
    ) -> RunOptions {
        let workload = self.study.workloads[point.workload].clone();
        let send = match &instance.send {
            _ if !workload.sends() => None,
            Some(target) => Some(SendBy::Mail(target.clone())),
            None => Some(SendBy::Append),
        };
        let times = &self.study.times;
        let mut settings: BTreeMap<String, String> =
            point.at.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        let population = &self.plan.populations[point.population];
        for (name, value) in [
            ("accounts", population.accounts.clone()),
            ("messages in each", population.wish.messages().to_string()),
            ("ramp", show_duration(times.ramp)),
            ("warmup", show_duration(times.warmup)),
            ("measure", show_duration(times.measure)),
            ("tls", workload.tls.to_string()),
        ] {
            settings.insert(name.to_owned(), value);
        }
        if let Some(cpus) = stage.cpus {
            settings.insert("server's processors".into(), cpus.to_string());
        }
        match &send {
            Some(SendBy::Mail(target)) => settings.insert("mail by".into(), format!("{:?}", target.scheme)),
            Some(SendBy::Append) => settings.insert("mail by".into(), "append".into()),
            None => None,
        };
        RunOptions {
            server: if workload.tls { instance.imaps.clone() } else { instance.imap.clone() },
            cluster: ClusterOptions::default(),
            send,
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
            watch: match instance.pid {
                Some(pid) => WatchTarget::Local { pid: Some(pid), cgroup: instance.cgroup.clone() },
                None => WatchTarget::Nothing,
            },
            mhz: None,
            label: which.name().to_owned(),
            command: self.options.command.clone(),
            settings,
            live: false,
            workload,
        }
    }
}

fn measure(options: RunOptions) -> Result<RunResult, String> {
    run(options, None).map(|ended| ended.result).map_err(|e| e.to_string())
}

/// The same run once more while the server's functions are sampled; only they are kept of it.
fn hottest(pid: Option<u32>, mut options: RunOptions, length: Duration) -> Offered<Vec<HotFunction>> {
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
