//! Conducts a study: each server is started, filled and measured at every point. With several
//! rounds all servers run at once and take turns ([`turns`]). An error at one point is recorded
//! there, and the study continues. Ctrl-C ends the current point and then the study; the measured
//! points are kept.

mod point;
mod simulate;
mod turns;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::interrupt;
use posthaste_load_drive::populate::{PopulateOptions, populate};
use posthaste_load_measure::machine;
use posthaste_load_results::{SCHEMA, ServerFacts, StudyPoint, StudyResult};

use crate::analysis::analyse;
use crate::file::Study;
use crate::plan::{Plan, Stage};
use crate::server::{self, Instance, PASSWORD, Setting, Which};
use point::StudyPosition;
pub use work::Options;
use work::Work;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Conducts a study.
pub fn conduct(study: &Study, options: &Options) -> Result<StudyResult, String> {
    interrupt::listen();
    let machine = machine::facts(None);
    let plan = Plan::of(study, machine.cpus);
    let dialer = Dialer::new(Trust::Anyone, PATIENCE).map_err(|e| e.to_string())?;
    let mut work = Work { study, options, plan: &plan, dialer, points: Vec::new(), interrupted: false };
    let mut servers = Vec::new();
    if study.rounds > 1 {
        servers = turns::side_by_side(&mut work)?;
    }
    for (number, which) in options.servers.iter().enumerate().filter(|_| study.rounds == 1) {
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
            "memory is the limit of each server's control group, the system's cache of its files included; the caches of \
             files are emptied before each start"
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

impl Work<'_> {
    /// One server from its first start to its last stop. An error here means that nothing of it can
    /// be measured.
    fn server(&mut self, number: usize, which: &Which) -> Result<ServerFacts, String> {
        let accounts = self.accounts()?;
        let folder = self.folder(number, which);
        let mut facts = None;
        for stage in &self.plan.stages {
            self.say(&format!("starting {}", which.name()));
            match self.start(which, &folder, stage, &accounts) {
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
        if let Some(facts) = &mut facts {
            facts.simulated = self.simulated(which, &folder, &accounts);
        }
        self.clear(&folder);
        Ok(facts.unwrap_or_else(|| ServerFacts { name: which.name().into(), ..ServerFacts::default() }))
    }

    /// The accounts of each population.
    fn accounts(&self) -> Result<Vec<Accounts>, String> {
        let populations = self.plan.populations.iter();
        populations.map(|p| Accounts::parse(&p.accounts).map(|a| a.with_password(PASSWORD))).collect()
    }

    /// The folder of a server's data.
    fn folder(&self, number: usize, which: &Which) -> PathBuf {
        self.options.folder.join(format!("{}-{number}", which.name().to_lowercase()))
    }

    fn start(
        &self,
        which: &Which,
        folder: &Path,
        stage: &Stage,
        accounts: &[Accounts],
    ) -> Result<Instance, String> {
        let setting = Setting {
            folder,
            accounts,
            cpus: stage.cpus,
            memory_mb: stage.memory_mb,
            posthaste: self.options.posthaste.clone(),
            counts: None,
        };
        server::start(which, &setting)
    }

    /// Removes a server's data, unless the options keep it.
    fn clear(&self, folder: &Path) {
        if !self.options.keep
            && let Err(error) = std::fs::remove_dir_all(folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            self.say(&format!("{} stays: {error}", folder.display()));
        }
    }

    /// Records why no point of a stage was measured.
    fn not_measured(&mut self, which: &Which, stage: &Stage, why: &str) {
        self.say(why);
        for point in &stage.points {
            self.points.push(StudyPoint {
                server: which.name().into(),
                at: point.at.clone(),
                workload: point.name(self.study).to_owned(),
                round: 0,
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

    /// Every point of a stage, one after the other.
    fn stage(&mut self, which: &Which, stage: &Stage, instance: &Instance, accounts: &[Accounts]) {
        for number in 0..stage.points.len() {
            if self.interrupted {
                return;
            }
            self.point(which, StudyPosition { stage, number, round: 0 }, instance, accounts);
        }
    }
}
