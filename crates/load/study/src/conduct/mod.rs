//! Conducts a study: each server is started, filled and measured at every point. With several
//! rounds all servers run at once and take turns ([`side_by_side`]). Where the filled store is
//! put back before each point, one server runs at a time ([`put_back`]). A point of cold
//! mailboxes begins with a new start of the server. An error at one point is recorded there, and
//! the study continues. Ctrl-C ends the current point and then the study. Measurements are saved
//! after each point ([`record`]), so the study can continue later. A sitting may have a limit of
//! time ([`budget`]).

mod background;
mod budget;
mod copies;
mod first;
mod measured;
mod nodes;
mod player;
mod point;
mod position;
mod put_back;
mod record;
mod side_by_side;
mod simulate;
mod ways;
mod work;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::Accounts;
use posthaste_load_drive::interrupt;
use posthaste_load_drive::populate::{Contents, Maildirs, PopulateOptions, Populated, populate};
use posthaste_load_measure::{machine, processors};
use posthaste_load_results::{StudyPoint, StudyResult};

use crate::Length;
use crate::agenda::Agenda;
use crate::columns::expand;
use crate::file::Study;
use crate::options::{Course, Options};
use crate::plan::{Plan, Stage};
use crate::server::{self, Import, Instance, PASSWORD, ServerChoice, Setting};
pub(crate) use background::LEAST_WAIT;
use budget::Budget;
pub(crate) use first::first_facts;
pub use nodes::may_begin;
use nodes::nodes;
use position::StudyPosition;
use record::Record;
use ways::outside_share;
use work::{OtherServer, Work};

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Conducts a study in one sitting.
///
/// # Errors
/// Nothing can be measured: why.
pub fn conduct(study: &Study, options: &Options) -> Result<StudyResult, String> {
    conduct_on(study, options, Course { earlier: None, save: Box::new(|_| ()), max_time: None })
}

/// Conducts a study, or continues with it: points of the earlier result are kept, and the others
/// are measured. The result has all of them.
///
/// # Errors
/// Nothing can be measured: why.
pub fn conduct_on(study: &Study, options: &Options, course: Course) -> Result<StudyResult, String> {
    interrupt::listen();
    let machine = machine::facts(None);
    let plan = Plan::of(study, machine.cpus);
    if let Some(cpus) = options.server_cpus {
        processors::keep_to_the_last(cpus, machine.cpus)?;
    }
    let dialer = Dialer::new(Trust::Anyone, TIMEOUT).map_err(|e| e.to_string())?;
    let options = &Options { servers: expand(study, &options.servers), ..options.clone() };
    let other = OtherServer::for_study(&options.servers, study)?;
    let names = options.servers.iter().map(|which| which.name().to_owned()).collect();
    let agenda = Agenda::of(study, &plan, names);
    let mut known = plan.caveats.clone();
    known.extend(conditions(study, options, &plan, machine.cpus));
    known.extend(nodes::conditions(study, options, machine.cpus));
    let budget = Budget::new(course.max_time, plan.point_time(study));
    let mut work = Work {
        study,
        options,
        plan: &plan,
        dialer,
        record: Record::begin(study, options, agenda, (machine, known), course),
        budget,
        interrupted: false,
        out_of_time: false,
        other,
        filled_bytes: None,
    };
    if study.put_back {
        put_back::one_at_a_time(&mut work)?;
    } else if study.rounds > 1 {
        side_by_side::side_by_side(&mut work)?;
    } else {
        work.one_after_the_other();
    }
    Ok(work.record.finish())
}

/// The conditions of the measurement that a reader of the figures must know.
fn conditions(study: &Study, options: &Options, plan: &Plan, cpus: u32) -> Vec<String> {
    let mut caveats = vec![match options.server_cpus {
        None => format!(
            "servers and generator share the {cpus} processors of one machine: throughput is what both together reach"
        ),
        Some(of_servers) => format!(
            "servers have {of_servers} of the machine's {cpus} processors, and the generator has the others; CPU in percent \
             is of the server's own"
        ),
    }];
    if plan.stages.iter().any(|stage| stage.memory_mb.is_some()) {
        caveats.push(
            "memory is the limit of each server's control group, the system's cache of its files included; the caches of \
             files are emptied before each start"
                .into(),
        );
        if options.servers.iter().any(ServerChoice::is_posthaste) {
            caveats.push(
                "Posthaste has a `store.cache` of an eighth of that memory; the settings below are those of its first start"
                    .into(),
            );
        }
    }
    // Servers that run at once are not simulated, and those that are not ours cannot be.
    let is_simulated = study.simulate.is_some() && options.servers.iter().any(ServerChoice::is_posthaste);
    if is_simulated && !study.put_back && study.rounds == 1 {
        caveats.push(
            "this study does not put the filled store back: both runs on a simulated processor begin with a copy of the \
             store as the last measured point left it"
                .into(),
        );
    }
    match study.length {
        Length::Full => {}
        Length::Quick => caveats
            .push("quick: fewer points, smaller messages and shorter windows than the study defines".into()),
        Length::Shortest => {
            caveats.push("shortest: this shows that the study works, and measures nothing".into())
        }
    }
    caveats
}

impl Work<'_> {
    /// Each server at all points, then the next one.
    fn one_after_the_other(&mut self) {
        for (number, which) in self.options.servers.iter().enumerate() {
            if self.is_over() {
                return;
            }
            if !self.wants_server(which) {
                continue;
            }
            // The results of the other servers are kept.
            if let Err(why) = self.server(number, which) {
                for stage in &self.plan.stages {
                    self.not_measured(which, stage, 0, &why);
                }
                self.record.note_failure(which.name(), &why);
            }
        }
    }

    /// One server from its first start to its last stop. An error here means that nothing of it can
    /// be measured.
    fn server(&mut self, number: usize, which: &ServerChoice) -> Result<(), String> {
        let accounts = self.accounts()?;
        let folder = self.folder(number, which);
        let mut filled = false;
        for stage in &self.plan.stages {
            let for_simulation = !filled && self.wants_simulation(which);
            if self.is_over() || !(for_simulation || self.wants_any_of(which, stage)) {
                continue;
            }
            self.say(&format!("starting {}", which.name()));
            match self.start(which, &folder, stage, &accounts) {
                Ok(instance) => {
                    if !filled {
                        self.fill(which, &instance, &accounts)?;
                        filled = true;
                    }
                    self.record.note_server(&instance.facts);
                    self.stage((which, &folder), stage, instance, &accounts);
                }
                // A stage that this server or machine cannot offer; one that cannot start at all is
                // an error.
                Err(why) if stage.cpus.is_some() || stage.memory_mb.is_some() => {
                    self.not_measured(which, stage, 0, &why)
                }
                Err(why) => return Err(format!("{}: {why}", which.name())),
            }
        }
        if filled && self.wants_simulation(which) && !self.is_over() {
            self.simulate_from_here(which, &folder, &accounts);
        }
        self.clear(&folder);
        Ok(())
    }

    /// The accounts of each population.
    fn accounts(&self) -> Result<Vec<Accounts>, String> {
        let populations = self.plan.populations.iter();
        populations.map(|p| Accounts::parse(&p.accounts).map(|a| a.with_password(PASSWORD))).collect()
    }

    /// The folder of a server's data. Its name has no character that a configuration would have to
    /// quote.
    fn folder(&self, number: usize, which: &ServerChoice) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = which.name().chars().map(plain).collect();
        self.options.folder.join(format!("{name}-{number}"))
    }

    fn start(
        &self,
        which: &ServerChoice,
        folder: &Path,
        stage: &Stage,
        accounts: &[Accounts],
    ) -> Result<Instance, String> {
        let setting = Setting {
            folder,
            accounts,
            cpus: self.cpus(which, stage),
            memory_mb: stage.memory_mb,
            posthaste: self.options.posthaste.clone(),
            counts: None,
            sink: self.other.as_ref().map(|o| o.address).filter(|_| outside_share(self.study, which) > 0.0),
            submits: !self.study.submission.is_empty(),
            nodes: nodes(stage, self.options),
        };
        server::start(which, &setting)
    }

    /// The processors that a server is kept to.
    fn cpus(&self, which: &ServerChoice, stage: &Stage) -> Option<u32> {
        let all = self.options.server_cpus.filter(|_| !matches!(which, ServerChoice::Running(_)));
        stage.cpus.or(all)
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

    /// Records why no point of a stage was measured in a round. Points of earlier sittings stay.
    fn not_measured(&mut self, which: &ServerChoice, stage: &Stage, round: u32, why: &str) {
        self.say(why);
        for point in &stage.points {
            self.record.put(StudyPoint {
                server: which.name().into(),
                at: point.at.clone(),
                workload: point.name(self.study).to_owned(),
                round,
                run: Err(why.to_owned()),
            });
        }
    }

    /// Fills a server for the first time, and waits for what it does with the mail in the
    /// background.
    fn fill(
        &mut self,
        which: &ServerChoice,
        instance: &Instance,
        accounts: &[Accounts],
    ) -> Result<(), String> {
        let arms = !self.study.arms.is_empty();
        for (population, accounts) in self.plan.populations.iter().zip(accounts) {
            self.say(&format!(
                "filling {} with {} messages each",
                population.accounts,
                population.contents.messages()
            ));
            let contents = match arms {
                true => population.contents.clone().with_shares(which.mail(&self.study.arms).shares),
                false => population.contents.clone(),
            };
            // The format of an account applies to mail that is imported, and not to APPEND.
            let import = instance.import.as_ref().filter(|_| arms);
            let done = match import {
                Some(import) => self.import(import, accounts, &contents)?,
                None => self.append(instance, accounts, contents)?,
            };
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
        self.wait_until_idle(which, instance)
    }

    fn append(
        &self,
        instance: &Instance,
        accounts: &Accounts,
        contents: Contents,
    ) -> Result<Populated, String> {
        let at = &instance.at;
        let (server, lmtp) = match (&at.imap, &at.pop3) {
            (Some(imap), _) => (imap.clone(), None),
            (None, Some(pop3)) => (pop3.clone(), at.deliver.clone()),
            (None, None) => return Err("the server has neither IMAP nor POP3".into()),
        };
        populate(PopulateOptions {
            server,
            lmtp,
            accounts: accounts.clone(),
            contents,
            seed: self.options.seed,
            mail: None,
            parallel: 4,
            dialer: self.dialer.clone(),
            live: self.options.live,
        })
        .map_err(|e| e.to_string())
    }

    /// Fills accounts by the server's own import, one after the other.
    fn import(&self, import: &Import, accounts: &Accounts, contents: &Contents) -> Result<Populated, String> {
        let maildirs = Maildirs::new(accounts, contents, self.options.seed);
        let folder = self.options.folder.join("import");
        let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
        let mut done = Populated::default();
        for account in 0..accounts.count() {
            if interrupt::happened() {
                done.interrupted = true;
                break;
            }
            server::make_empty(&folder)?;
            maildirs.write(account, &folder).map_err(fail)?;
            let imported = import.run(&accounts.name(account), &folder);
            std::fs::remove_dir_all(&folder).map_err(fail)?;
            imported?;
            done.added += contents.messages();
        }
        Ok(done)
    }

    /// Every point of a stage, one after the other.
    fn stage(
        &mut self,
        (which, folder): (&ServerChoice, &Path),
        stage: &Stage,
        instance: Instance,
        accounts: &[Accounts],
    ) {
        let mut running = Some(instance);
        for number in 0..stage.points.len() {
            let place = StudyPosition { stage, number, round: 0 };
            if !self.wants(which, place) {
                continue;
            }
            if !self.begins(place, 1) {
                return;
            }
            let begun = Instant::now();
            self.make_cold(which, folder, &mut running, (place, accounts));
            let Some(instance) = &running else { return };
            self.point(which, place, instance, accounts);
            self.budget.note(begun.elapsed());
        }
    }

    /// Before a point that measures mailboxes which the server has not in its memory: starts the
    /// server again. Nothing runs afterwards if that fails.
    fn make_cold(
        &mut self,
        which: &ServerChoice,
        folder: &Path,
        running: &mut Option<Instance>,
        (place, accounts): (StudyPosition, &[Accounts]),
    ) {
        let point = place.stage.points.get(place.number).filter(|point| point.is_cold(self.study));
        let Some(point) = point.filter(|_| which.is_started_here()) else { return };
        self.say(&format!("starting {} again", which.name()));
        // It stops before it is started again.
        *running = None;
        match self.start(which, folder, place.stage, accounts) {
            Ok(instance) => *running = Some(instance),
            Err(why) => {
                let (server, at) = (which.name().to_owned(), point.at.clone());
                let workload = point.name(self.study).to_owned();
                let run = Err(format!("it was not started again: {why}"));
                self.record.put(StudyPoint { server, at, workload, round: place.round, run });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn the_reader_hears_of_settings_that_follow_the_memory() {
        let said = |study: &str, server: &str| {
            let study = load(study, Length::Quick).unwrap();
            let options = Options::new(vec![server.parse().unwrap()], "x".into());
            conditions(&study, &options, &Plan::of(&study, 2), 2).join("\n")
        };
        assert!(said("memory", "posthaste").contains("`store.cache`"));
        let peer = said("memory", "dovecot");
        assert!(peer.contains("control group") && !peer.contains("store.cache"), "{peer}");
        assert!(!said("koka", "posthaste").contains("store.cache"));
    }

    #[test]
    fn a_simulation_that_does_not_begin_with_the_filled_store_is_a_condition() {
        let is_said = |server: &str, rounds: u32, put_back: bool| {
            let study = Study { rounds, put_back, ..load("koka", Length::Quick).unwrap() };
            let options = Options::new(vec![server.parse().unwrap()], "x".into());
            let said = conditions(&study, &options, &Plan::of(&study, 2), 2);
            said.iter().any(|what| what.contains("as the last measured point left it"))
        };
        assert!(is_said("posthaste", 1, false));
        assert!(!is_said("posthaste", 1, true));
        // Servers that are not simulated.
        assert!(!is_said("posthaste", 3, false) && !is_said("dovecot", 1, false));
    }
}
