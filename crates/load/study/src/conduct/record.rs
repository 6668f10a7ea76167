//! The measured part of a study, of this sitting and earlier ones. It is saved after each part,
//! so the study can continue from there after any end.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_load_measure::hottest::Profile;
use posthaste_load_results::{
    Machine, Offered, RunResult, SCHEMA, ServerFacts, Simulated, Sitting, StudyPoint, StudyResult,
};

use crate::Length;
use crate::agenda::Agenda;
use crate::analysis::{self, analyse};
use crate::file::{Analysis, Study};
use crate::options::{Course, Options, settings};
use crate::plan::PlannedPoint;

/// The name of the instrument in results.
const TOOL: &str = concat!("posthaste-load ", env!("CARGO_PKG_VERSION"));

/// Everything measured so far.
pub(super) struct Record<'a> {
    study: &'a Study,
    analysis: Analysis,
    agenda: Agenda,
    result: StudyResult,
    /// The conditions that a reader must know.
    conditions: Vec<String>,
    save: Box<dyn FnMut(&StudyResult) + 'a>,
}

impl<'a> Record<'a> {
    /// Begins this sitting, with the points of the earlier ones.
    pub(super) fn begin(
        study: &'a Study,
        options: &Options,
        agenda: Agenda,
        (machine, conditions): (Machine, Vec<String>),
        course: Course<'a>,
    ) -> Self {
        let now = now();
        let sitting = Sitting {
            started_unix: now,
            ended_unix: now,
            command: options.command.clone(),
            tool: TOOL.into(),
            kernel: machine.kernel.clone(),
            ..Sitting::default()
        };
        let unknown = |name: &str| ServerFacts { name: name.into(), ..ServerFacts::default() };
        let names = options.servers.iter().map(|which| which.name());
        let (command, servers, points, mut sittings) = match course.earlier {
            Some(earlier) => {
                let points = agenda.sorted(earlier.points);
                (earlier.command, earlier.servers, points, earlier.sittings)
            }
            None => (options.command.clone(), names.map(unknown).collect(), Vec::new(), Vec::new()),
        };
        sittings.push(sitting);
        let result = StudyResult {
            schema: SCHEMA,
            tool: TOOL.into(),
            command,
            study: study.name.clone(),
            description: study.description.clone(),
            after: study.after.clone(),
            published: study.published.clone(),
            toml: study.source.clone(),
            quick: study.length != Length::Full,
            machine,
            analysis: posthaste_load_results::Analysis::default(),
            servers,
            points,
            caveats: Vec::new(),
            rounds: study.rounds,
            planned: agenda.planned(),
            unmeasured: 0,
            simulations_left: 0,
            settings: settings(study, options),
            sittings,
        };
        Self { study, analysis: study.analysis, agenda, result, conditions, save: course.save }
    }

    /// The run of a point, if it was measured.
    pub(super) fn run(&self, server: &str, point: &PlannedPoint, round: u32) -> Option<&RunResult> {
        let name = point.name(self.study);
        let here = |p: &&StudyPoint| {
            p.round == round && p.server == server && p.workload == name && p.at == point.at
        };
        self.result.points.iter().find(here)?.measured()
    }

    /// Points that are measured, and all of them.
    pub(super) fn done(&self) -> (usize, usize) {
        let measured = self.result.points.iter().filter(|p| p.measured().is_some()).count();
        (measured, self.agenda.planned())
    }

    /// Points that are still to be measured.
    pub(super) fn left(&self) -> usize {
        self.agenda.unmeasured(&self.result.points)
    }

    /// Records a point, and saves.
    pub(super) fn put(&mut self, point: StudyPoint) {
        if point.measured().is_some()
            && let Some(sitting) = self.result.sittings.last_mut()
        {
            sitting.points += 1;
        }
        self.agenda.put(&mut self.result.points, point);
        self.save();
    }

    /// Records the functions in which a server spent its CPU at a point of the first round.
    pub(super) fn note_hottest(&mut self, server: &str, point: &PlannedPoint, found: Offered<Profile>) {
        let name = point.name(self.study);
        let here = |p: &&mut StudyPoint| {
            p.round == 0 && p.server == server && p.workload == name && p.at == point.at
        };
        let run = self.result.points.iter_mut().find(here).and_then(|p| p.run.as_mut().ok());
        if let Some(cost) = run.and_then(|run| run.server.as_mut()) {
            cost.hottest = Some(match found {
                Offered::Value(profile) => {
                    cost.sampled = profile.sampled;
                    Offered::Value(profile.hottest)
                }
                Offered::NotOffered(why) => Offered::NotOffered(why),
            });
        }
        self.save();
    }

    /// Records what a server says of itself. Its settings are those of its first start.
    pub(super) fn note_server(&mut self, facts: &ServerFacts) {
        if let Some(sitting) = self.result.sittings.last_mut() {
            sitting.versions.insert(facts.name.clone(), facts.version.clone());
        }
        if let Some(known) = self.facts(&facts.name)
            && (known.settings.is_empty() || known.version != facts.version)
        {
            known.version.clone_from(&facts.version);
            known.settings.clone_from(&facts.settings);
        }
    }

    /// Records a condition that a reader of the figures must know.
    pub(super) fn note_condition(&mut self, what: String) {
        self.conditions.push(what);
    }

    /// Records why nothing of a server can be measured.
    pub(super) fn note_failure(&mut self, server: &str, why: &str) {
        if let Some(known) = self.facts(server)
            && known.settings.is_empty()
        {
            why.clone_into(&mut known.version);
        }
    }

    /// Whether a workload was simulated on a server. Earlier versions recorded no runs. Their
    /// second run began with the store that the first had changed, so it is simulated again.
    pub(super) fn is_simulated(&self, server: &str, workload: &str) -> bool {
        let holds = |s: &Simulated| s.counts.value().is_none() || !s.runs.is_empty();
        let of = |facts: &ServerFacts| facts.simulated.iter().any(|s| s.workload == workload && holds(s));
        self.result.servers.iter().any(|facts| facts.name == server && of(facts))
    }

    /// Records the counts of a simulated processor, and saves.
    pub(super) fn note_simulated(&mut self, server: &str, simulated: Simulated) {
        if let Some(known) = self.facts(server) {
            known.simulated.retain(|earlier| earlier.workload != simulated.workload);
            known.simulated.push(simulated);
        }
        self.save();
    }

    fn facts(&mut self, server: &str) -> Option<&mut ServerFacts> {
        self.result.servers.iter_mut().find(|facts| facts.name == server)
    }

    /// Notes that this sitting has lasted until now.
    fn note_time(&mut self) {
        if let Some(sitting) = self.result.sittings.last_mut() {
            sitting.ended_unix = now();
        }
    }

    /// Saves all that was measured.
    fn save(&mut self) {
        self.note_time();
        self.conclude();
        (self.save)(&self.result);
    }

    /// The whole result. A sitting in which nothing was measured is not in it.
    pub(super) fn finish(mut self) -> StudyResult {
        let nothing = |sitting: &Sitting| sitting.points == 0 && sitting.versions.is_empty();
        if self.result.sittings.last().is_some_and(nothing) {
            self.result.sittings.pop();
        } else {
            self.note_time();
        }
        self.conclude();
        self.result
    }

    /// Workloads with a point that are not simulated yet, on each server that was started. Where a
    /// simulation is not offered, that is its result.
    fn simulations_left(&self) -> usize {
        if self.study.simulate.is_none() {
            return 0;
        }
        let (points, workloads) = (&self.result.points, &self.study.workloads);
        let has_point = |name: &str| points.iter().any(|p| p.workload == name && !p.at.contains_key("cpus"));
        let started = self.result.servers.iter().filter(|facts| !facts.settings.is_empty());
        let left = |facts: &ServerFacts| {
            let is_left = |name: &str| has_point(name) && !self.is_simulated(&facts.name, name);
            workloads.iter().filter(|workload| is_left(&workload.name)).count()
        };
        started.map(left).sum()
    }

    /// Draws the conclusions of the points so far.
    fn conclude(&mut self) {
        let simulations_left = self.simulations_left();
        let result = &mut self.result;
        result.simulations_left = simulations_left;
        result.unmeasured = self.agenda.unmeasured(&result.points);
        result.analysis = analyse(self.analysis, &result.servers, &result.points);
        result.caveats.clone_from(&self.conditions);
        result.caveats.extend(apart(result));
        result.caveats.extend(mixed(result));
        result.caveats.extend(cut(&result.servers));
        result.caveats.extend(analysis::caveats(&result.servers, &result.points));
        if result.unmeasured > 0 {
            let (left, all) = (result.unmeasured, result.planned);
            result.caveats.push(format!("{left} of {all} points are still to be measured"));
        }
        if simulations_left > 0 {
            result
                .caveats
                .push(format!("runs on a simulated processor are still missing: {simulations_left}"));
        }
    }
}

/// Servers that were compared at a point, and measured there in several sittings.
fn apart(result: &StudyResult) -> Option<String> {
    let sitting = |started: u64| result.sittings.iter().rposition(|s| s.started_unix <= started);
    let runs = || result.points.iter().filter_map(|p| Some((p, p.measured()?)));
    let mut places = BTreeSet::new();
    for (point, run) in runs() {
        let other = |(p, r): &(&StudyPoint, &RunResult)| {
            p.round == point.round
                && p.workload == point.workload
                && p.at == point.at
                && sitting(r.started_unix) != sitting(run.started_unix)
        };
        if runs().any(|one| other(&one)) {
            let at: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
            places.insert((point.round, &point.workload, at));
        }
    }
    let at = match places.len() {
        0 => return None,
        1 => "at one point of one round".to_owned(),
        count => format!("at {count} points of a round"),
    };
    Some(format!(
        "{at} the servers were measured in different sittings, so the machine may have had another speed for each"
    ))
}

/// Servers that had several versions.
fn mixed(result: &StudyResult) -> Vec<String> {
    let of = |facts: &ServerFacts| {
        let mut versions: Vec<&str> = Vec::new();
        for sitting in &result.sittings {
            if let Some(version) =
                sitting.versions.get(&facts.name).filter(|v| versions.last() != Some(&v.as_str()))
            {
                versions.push(version);
            }
        }
        let said =
            || format!("rounds of {} are of several versions: {}", facts.name, versions.join("; then "));
        (versions.len() > 1).then(said)
    };
    let mut said: Vec<String> = result.servers.iter().filter_map(of).collect();
    let mut kernels: Vec<&str> = result.sittings.iter().map(|s| s.kernel.as_str()).collect();
    kernels.dedup();
    if kernels.len() > 1 {
        said.push(format!("the kernel was {}", kernels.join("; then ")));
    }
    said
}

/// Servers whose work on a simulated processor was cut.
fn cut(servers: &[ServerFacts]) -> impl Iterator<Item = String> {
    let of = |server: &ServerFacts, simulated: &Simulated| {
        let waited = simulated.runs.iter().filter_map(|run| run.cut_after_s).fold(0.0, f64::max);
        (waited > 0.0).then(|| {
            format!(
                "{} on a simulated processor, {}: still at work in the background {waited:.0} s after the last \
                 transaction, and then stopped; its counts lack the rest of that work",
                server.name, simulated.workload
            )
        })
    };
    servers.iter().flat_map(move |server| server.simulated.iter().filter_map(move |s| of(server, s)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{SimulatedCounts, SimulatedRun};

    use super::*;
    use crate::load;
    use crate::plan::Plan;

    #[test]
    fn a_sitting_lasts_until_its_last_simulation_and_its_end() {
        let study = load("koka", Length::Quick).unwrap();
        let options = Options::new(vec!["posthaste".parse().unwrap()], "x".into());
        let agenda = Agenda::of(&study, &Plan::of(&study, 2), vec!["Posthaste".into()]);
        let course = Course { earlier: None, save: Box::new(|_| ()), max_time: None };
        let mut record = Record::begin(&study, &options, agenda, (Machine::default(), Vec::new()), course);
        let began = |record: &mut Record, ago: u64| {
            let sitting = record.result.sittings.last_mut().unwrap();
            sitting.started_unix = now() - ago;
            sitting.ended_unix = sitting.started_unix;
        };
        began(&mut record, 600);
        record.note_simulated("Posthaste", Simulated::default());
        assert!(record.result.took().unwrap().as_secs() >= 600);
        // A server that was filled, and nothing saved since.
        began(&mut record, 900);
        record.note_server(&ServerFacts { name: "Posthaste".into(), ..ServerFacts::default() });
        assert!(record.finish().took().unwrap().as_secs() >= 900);
    }

    #[test]
    fn a_simulation_of_an_earlier_version_is_done_again() {
        let study = load("koka", Length::Quick).unwrap();
        let options = Options::new(vec!["posthaste".parse().unwrap()], "x".into());
        let agenda = Agenda::of(&study, &Plan::of(&study, 2), vec!["Posthaste".into()]);
        let course = Course { earlier: None, save: Box::new(|_| ()), max_time: None };
        let mut record = Record::begin(&study, &options, agenda, (Machine::default(), Vec::new()), course);
        let workload = study.workloads[0].name.clone();
        let counts = Offered::Value(SimulatedCounts::default());
        let earlier = Simulated { workload: workload.clone(), counts, runs: Vec::new() };
        record.note_simulated("Posthaste", earlier.clone());
        assert!(!record.is_simulated("Posthaste", &workload));
        let again = Simulated { runs: vec![SimulatedRun::default(); 2], ..earlier };
        record.note_simulated("Posthaste", again.clone());
        assert!(record.is_simulated("Posthaste", &workload));
        assert_eq!(record.finish().servers[0].simulated, [again]);
    }

    #[test]
    fn a_simulation_that_was_cut_is_a_caveat() {
        let run = |cut_after_s| SimulatedRun { cut_after_s, ..SimulatedRun::default() };
        let simulated = |workload: &str, runs| Simulated {
            workload: workload.into(),
            counts: Offered::Value(SimulatedCounts::default()),
            runs,
        };
        let server = ServerFacts {
            name: "Posthaste".into(),
            simulated: vec![
                simulated("browse", vec![run(None), run(None)]),
                simulated("manage", vec![run(None), run(Some(300.0))]),
            ],
            ..ServerFacts::default()
        };
        let said: Vec<String> = cut(&[server]).collect();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("manage: still at work in the background 300 s after"), "{}", said[0]);
    }

    #[test]
    fn a_study_whose_simulations_are_missing_is_not_finished() {
        let study = load("koka", Length::Quick).unwrap();
        let options = Options::new(vec!["posthaste".parse().unwrap()], "x".into());
        let agenda = Agenda::of(&study, &Plan::of(&study, 2), vec!["Posthaste".into()]);
        let course = Course { earlier: None, save: Box::new(|_| ()), max_time: None };
        let mut record = Record::begin(&study, &options, agenda, (Machine::default(), Vec::new()), course);
        let point = |workload: &str| StudyPoint {
            server: "Posthaste".into(),
            at: [("clients".to_owned(), 2.0)].into(),
            workload: workload.into(),
            round: 0,
            run: Err("not here".into()),
        };
        let names: Vec<String> = study.workloads.iter().map(|workload| workload.name.clone()).collect();
        names.iter().for_each(|name| record.put(point(name)));
        assert_eq!(record.result.simulations_left, 0, "it was never started");
        let (name, settings) = ("Posthaste".to_owned(), "serve".to_owned());
        record.note_server(&ServerFacts { name, settings, ..ServerFacts::default() });
        for (done, name) in names.iter().enumerate() {
            record.save();
            assert_eq!(record.result.simulations_left, names.len() - done);
            let workload = name.clone();
            record.note_simulated("Posthaste", Simulated { workload, ..Simulated::default() });
        }
        let result = record.finish();
        assert_eq!(result.simulations_left, 0);
        assert!(!result.caveats.iter().any(|caveat| caveat.contains("simulated processor")));
    }
}
