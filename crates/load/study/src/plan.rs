//! Turns a study into points: the server and its settings, the contents of its mailboxes, the
//! workload, and the time.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_load_drive::populate::Contents;
use posthaste_load_text::quantity::{show_bytes, show_duration};
use posthaste_load_workload::{Choice, Track, Workload};

use crate::Length;
use crate::file::Study;
use crate::kinds::PlannedKind;
use crate::mailbox_size::sized;
use crate::pools::Users;
use crate::product::product;

/// Bytes that a message in a file of its own takes besides its own: half a block is lost at the
/// end, and an index knows it.
const FILE_BYTES: f64 = 4096.0;

/// Accounts and what they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Pattern of names.
    pub accounts: String,
    /// The number of accounts.
    pub count: u32,
    /// The contents of each account.
    pub contents: Contents,
}

impl Population {
    /// Messages in all accounts.
    pub(crate) fn messages(&self) -> f64 {
        self.contents.messages() as f64 * f64::from(self.count)
    }
}

/// One point to measure.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// The swept values.
    pub at: BTreeMap<String, f64>,
    /// Index into the study's workloads.
    pub workload: usize,
    /// Index into the workload's transactions, if one of them runs alone.
    pub transaction: Option<usize>,
    /// Virtual users; `None`: raised until the server is busy.
    pub clients: Option<u32>,
    /// Think time instead of the study's.
    pub think: Option<Duration>,
    /// Run again for this time, to sample the server's functions.
    pub profile: Option<Duration>,
    /// Index into the plan's populations: of a mix, that of the first kind.
    pub population: usize,
    /// The kinds of users, if the workload is a mix.
    pub kinds: Vec<PlannedKind>,
}

impl PlannedPoint {
    /// The name of the workload, in words: the workload, or its one transaction.
    pub fn name<'a>(&self, study: &'a Study) -> &'a str {
        let workload = &study.workloads[self.workload];
        self.transaction.map_or(&workload.name, |t| &workload.transactions[t].name)
    }

    /// The workload.
    pub fn workload(&self, study: &Study) -> Workload {
        self.adapted(study.workloads[self.workload].clone())
    }

    /// A workload with the values of this point.
    pub(crate) fn adapted(&self, mut workload: Workload) -> Workload {
        if let Some(rate) = self.at.get("arrivals_per_hour") {
            workload.arrivals_per_user_per_s = rate / 3600.0;
        }
        if let Some(speed) = self.at.get("speed") {
            workload = workload.hurried(*speed);
        }
        if let Some(transaction) = self.transaction {
            workload.choice = Choice::Sequence(vec![transaction]);
        }
        workload
    }

    /// Whether the server must have been started since anybody selected the mailboxes.
    pub fn is_cold(&self, study: &Study) -> bool {
        self.workload(study).selects_fresh()
    }
}

/// The transactions that are points of their own, or none.
fn transactions(study: &Study, workload: usize) -> Vec<Option<usize>> {
    match study.each_transaction {
        true => (0..study.workloads[workload].transactions.len()).map(Some).collect(),
        false => vec![None],
    }
}

/// One start of a server and the points measured on it.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Processors the server may use, if limited.
    pub cpus: Option<u32>,
    /// Memory it may use, if limited.
    pub memory_mb: Option<u32>,
    /// Nodes of the cluster, if nodes are swept.
    pub nodes: Option<u32>,
    /// The points.
    pub points: Vec<PlannedPoint>,
}

/// The work that a study does on each server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The populations of accounts.
    pub populations: Vec<Population>,
    /// The starts, in order.
    pub stages: Vec<Stage>,
    /// The parts that were left out, and why.
    pub caveats: Vec<String>,
}

impl Plan {
    /// The plan of a study, on a machine with this many processors.
    pub fn of(study: &Study, machine_cpus: u32) -> Self {
        let mut plan = Self { populations: Vec::new(), stages: Vec::new(), caveats: Vec::new() };
        for sweep in &study.sweeps {
            for at in product(sweep) {
                let whole = |key: &str| at.get(key).map(|v| *v as u32);
                if whole("cpus").is_some_and(|cpus| cpus > machine_cpus) {
                    let all =
                        sweep.get("cpus").map(|v| v.iter().filter(|c| **c > f64::from(machine_cpus)).count());
                    let what = format!(
                        "{} settings of processors left out: this machine has {machine_cpus}",
                        all.unwrap_or(0)
                    );
                    if !plan.caveats.contains(&what) {
                        plan.caveats.push(what);
                    }
                    continue;
                }
                for workload in 0..study.workloads.len() {
                    let kinds = plan.kinds(study, workload, &at);
                    let population = match kinds.first() {
                        Some(first) => first.population,
                        None => plan.population(study, workload, &at),
                    };
                    let think = at.get("think_s").map(|s| Duration::from_secs_f64(*s));
                    let clients = whole("clients").or(study.users.map(|users| users.active));
                    let plain = at.keys().all(|k| k == "clients");
                    let profile =
                        study.profile.filter(|p| plain && clients == Some(p.clients)).map(|p| p.measure);
                    for transaction in transactions(study, workload) {
                        let (at, kinds) = (at.clone(), kinds.clone());
                        let point = PlannedPoint {
                            at,
                            workload,
                            transaction,
                            clients,
                            think,
                            profile,
                            population,
                            kinds,
                        };
                        let limits = [whole("cpus"), whole("memory_mb"), whole("nodes")];
                        plan.stage(limits).points.push(point);
                    }
                }
            }
        }
        plan
    }

    /// Points of each server; each is measured once a round.
    pub fn points(&self) -> usize {
        self.stages.iter().map(|s| s.points.len()).sum()
    }

    /// The stage with these processors, memory and nodes, made if there is none like it.
    fn stage(&mut self, limits: [Option<u32>; 3]) -> &mut Stage {
        let known = self.stages.iter().position(|s| [s.cpus, s.memory_mb, s.nodes] == limits);
        let at = known.unwrap_or_else(|| {
            let [cpus, memory_mb, nodes] = limits;
            self.stages.push(Stage { cpus, memory_mb, nodes, points: Vec::new() });
            self.stages.len() - 1
        });
        &mut self.stages[at]
    }

    /// The population for a point, made if there is none like it. One population of a kind serves
    /// all numbers of clients: it has an account for the most of them.
    fn population(&mut self, study: &Study, workload: usize, at: &BTreeMap<String, f64>) -> usize {
        let w = &study.workloads[workload];
        let most =
            study.sweeps.iter().filter_map(|s| s.get("clients")).flatten().fold(0.0, |a: f64, b| a.max(*b));
        let raised = match (study.load, w.track) {
            (Some(load), Track::Static) => load.accounts,
            (Some(load), Track::Messages) => load.clients_max,
            (None, _) => most.max(1.0) as u32,
        };
        // One more account, to which the others send. Workloads of the same mail share accounts.
        let recipient = !w.selects_fresh() && study.workloads.iter().any(Workload::sends_to_others);
        let count = study.users.map_or(raised.max(1 + u32::from(recipient)), |users| users.registered);
        let (prefix, contents) = self.contents(study, w, at);
        self.filled_with(&prefix, count, contents.with_shares(w.shares))
    }

    /// The population with these accounts, made if there is none like it.
    pub(crate) fn filled_with(&mut self, prefix: &str, count: u32, contents: Contents) -> usize {
        let accounts = format!("{prefix}{{0..{}}}@example.org", count - 1);
        if let Some(known) = self.populations.iter().position(|p| p.accounts == accounts) {
            return known;
        }
        self.populations.push(Population { accounts, count, contents });
        self.populations.len() - 1
    }

    /// The first part of a population's names, and the contents of each account.
    pub(crate) fn contents(
        &self,
        study: &Study,
        w: &Workload,
        at: &BTreeMap<String, f64>,
    ) -> (String, Contents) {
        let sizes = study.sizes.clone().unwrap_or_else(|| w.fill.sizes.clone());
        match (at.get("items"), at.get("mailbox_mb")) {
            // A folder for each SELECT, of accounts that nobody else uses.
            (Some(items), _) if w.selects_fresh() => {
                (format!("fresh{items}-"), Contents::new(0, w.fill.folders, *items as u32, sizes))
            }
            (Some(items), _) => {
                let (fill, items) = (&w.fill, *items as u32);
                let large = study.large_folders.as_ref().filter(|large| items > large.over);
                let sizes = large.map_or(sizes, |large| large.sizes.clone());
                (format!("items{items}-"), Contents::new(items, fill.folders, fill.per_folder, sizes))
            }
            (None, Some(mb)) => {
                // The name has the number of messages: on a server that runs already, accounts of
                // this size may be there with fewer and larger ones.
                let contents = sized(&w.fill, *mb, &sizes);
                (format!("mb{mb}-{}-{}-", contents.messages(), w.name), contents)
            }
            (None, None) => {
                let fill = &w.fill;
                let contents = Contents::new(fill.inbox, fill.folders, fill.per_folder, sizes);
                // The workloads of a study with pools have the same users, if they need the same
                // mail.
                let same = study.users.is_some()
                    && self.populations.iter().all(|p| p.contents.mailboxes == contents.mailboxes);
                (if same { "user".to_owned() } else { format!("{}-", w.name) }, contents)
            }
        }
    }

    /// Bytes of mail on each server.
    pub fn mail_bytes(&self) -> u64 {
        let of = |p: &Population| p.messages() * p.contents.sizes.mean_bytes();
        self.populations.iter().map(of).sum::<f64>() as u64
    }

    /// Bytes of disk that a server may take for it: with a file for each message, the last block of
    /// each is half empty.
    pub fn disk_bytes(&self) -> u64 {
        self.mail_bytes() + self.populations.iter().map(|p| (p.messages() * FILE_BYTES) as u64).sum::<u64>()
    }

    /// The planned work, for `--plan`.
    pub fn describe(&self, study: &Study, servers: &[String]) -> String {
        let mut text = format!("study {}{}\n", study.name, study_length(study));
        text.push_str(&format!("  {}\n  after: {}\n", study.description, study.after));
        let order = match study.rounds {
            1 => "one after the other".to_owned(),
            n => format!("in turn at each point, {n} rounds"),
        };
        let put_back = if study.put_back { "; the filled store is put back before each point" } else { "" };
        text.push_str(&format!("  servers, {order}: {}{put_back}\n", servers.join(", ")));
        if let Some(Users { registered, receiving, active }) = study.users {
            text.push_str(&format!(
                "  {registered} users are registered, {receiving} of them get mail, {active} are at work\n"
            ));
        }
        text.push_str("on each server, fill:\n");
        for p in &self.populations {
            let size = p.contents.messages() as f64 * p.contents.sizes.mean_bytes();
            text.push_str(&format!(
                "  {:<44} {} account{} of {} messages, {} each\n",
                p.accounts,
                p.count,
                plural(p.count as usize),
                p.contents.messages(),
                show_bytes(size as u64)
            ));
        }
        text.push_str("then measure:\n");
        for stage in &self.stages {
            describe_stage(stage, study, &mut text);
        }
        self.describe_runs_of_their_own(study, &mut text);
        let (fill, measure) = self.estimate(study);
        text.push_str(&format!(
            "{} point{} on each of {} server{}, {} of mail each; about {} to fill and {} to measure per server\n",
            self.points(),
            plural(self.points()),
            servers.len(),
            plural(servers.len()),
            show_bytes(self.mail_bytes()),
            show_duration(fill),
            show_duration(measure)
        ));
        self.caveats.iter().for_each(|c| text.push_str(&format!("note: {c}\n")));
        text
    }

    /// The runs besides the points: the profiles, and the simulated processor.
    fn describe_runs_of_their_own(&self, study: &Study, text: &mut String) {
        let (profiles, sampled) = self.profiles(study);
        if profiles > 0 {
            let (runs, sampled) = (plural(profiles), show_duration(sampled));
            text.push_str(&format!("and {profiles} run{runs} under perf, about {sampled} in all\n"));
        }
        if let Some(simulate) = study.simulate {
            let (workloads, each) = (study.workloads.len(), self.simulation_time(study));
            let (once, twice) = (simulate.transactions_each, simulate.transactions_each.saturating_mul(2));
            text.push_str(&format!(
                "and {} runs under valgrind, of Posthaste alone: {} clients with {once} and {twice} transactions each, in \
                 each of {workloads} workload{}, with the store put back before each; about {} in all\n",
                2 * workloads,
                simulate.clients,
                plural(workloads),
                show_duration(workloads as u32 * each)
            ));
        }
    }
}

fn describe_stage(stage: &Stage, study: &Study, text: &mut String) {
    if let Some(cpus) = stage.cpus {
        text.push_str(&format!("  the server on {cpus} processor{}:\n", plural(cpus as usize)));
    }
    if let Some(memory) = stage.memory_mb {
        text.push_str(&format!("  the server with {memory} MB:\n"));
    }
    if let Some(nodes) = stage.nodes {
        text.push_str(&format!("  {nodes} node{} on one cluster:\n", plural(nodes as usize)));
    }
    for point in &stage.points {
        let at: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let name = point.name(study);
        let again =
            point.profile.map_or("", |_| ", and once more with the server's functions sampled by perf");
        text.push_str(&format!("  {name:<26} {}{again}\n", at.join(", ")));
    }
}

fn study_length(study: &Study) -> &'static str {
    match study.length {
        Length::Full => "",
        Length::Quick => " (quick)",
        Length::Shortest => " (shortest)",
    }
}

/// The ending of a noun.
pub(crate) fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn koka_is_both_mixes_and_fewer_processors() {
        let study = load("koka", Length::Full).unwrap();
        let plan = Plan::of(&study, 2);
        // Eight numbers of clients, four with think time and two of processors, in two mixes.
        assert_eq!((plan.points(), plan.stages.len(), plan.populations.len()), (28, 3, 2));
        assert_eq!(plan.populations[0].count, 400);
        let of = |wanted: fn(&&PlannedPoint) -> bool| {
            plan.stages.iter().flat_map(|s| &s.points).filter(wanted).count()
        };
        assert_eq!(of(|p| p.think == Some(Duration::from_secs(4)) && p.clients == Some(200)), 2);
        // The functions are sampled at 90 clients, once in each mix: not again on fewer processors.
        assert_eq!(of(|p| p.profile.is_some()), 2);
        assert!(plan.caveats[0].starts_with("3 settings of processors left out"), "{:?}", plan.caveats);
        let said = plan.describe(&study, &["posthaste".into()]);
        assert!(said.contains("28 points on each of 1 server,"), "{said}");
    }

    #[test]
    fn runs_under_perf_and_valgrind_are_in_the_plan() {
        let study = load("koka", Length::Full).unwrap();
        let plan = Plan::of(&study, 2);
        let said = plan.describe(&study, &["posthaste".into()]);
        // 10 s of ramp, 20 s of warm-up and 20 s of sampling, in two mixes.
        assert!(said.contains("and 2 runs under perf, about 1 min 40 s in all"), "{said}");
        // 40 s of starts, 12 s of waits and 3 × 4 × 200 transactions of 50 ms, in two mixes.
        // The store is copied before each of the four runs.
        let simulated = Duration::from_secs(2 * (40 + 12 + 120)) + 4 * plan.copy_time();
        assert!(plan.copy_time() > Duration::from_secs(1));
        assert!(said.contains("and 4 runs under valgrind, of Posthaste alone: 4 clients with 200 and 400"));
        let time = format!("put back before each; about {} in all", show_duration(simulated));
        assert!(said.contains(&time), "{said}");
        let without = Study { simulate: None, profile: None, ..study.clone() };
        let less = Plan::of(&without, 2);
        let besides = plan.estimate(&study).1 - less.estimate(&without).1;
        assert_eq!(besides, Duration::from_secs(100) + simulated);
        assert!(!less.describe(&without, &["posthaste".into()]).contains("runs under"));
    }

    #[test]
    fn items_have_accounts_of_their_own() {
        let study = load("item-count", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        assert_eq!(plan.populations.len(), 4);
        assert_eq!(plan.populations[3].accounts, "items50000-{0..1}@example.org");
        assert_eq!(plan.populations[3].contents.messages(), 50_000);
        let (fill, measure) = plan.estimate(&study);
        assert!(fill.as_secs() > 10 && measure.as_secs() < 300);
        // Two accounts each of 61,100 messages in all, 1 kB and a block's rest each.
        assert_eq!((plan.mail_bytes(), plan.disk_bytes()), (122_200_000, 122_200 * 5_096));
    }

    #[test]
    fn the_largest_folders_hold_small_messages() {
        let study = load("item-count", Length::Full).unwrap();
        let sizes = Plan::of(&study, 2).populations.into_iter().map(|p| p.contents);
        let means: Vec<_> = sizes.map(|c| (c.messages(), c.sizes.mean_bytes())).collect();
        assert_eq!(means[7..], [(500_000, 75_000.0), (1_000_000, 1_000.0)]);
    }

    #[test]
    fn each_operation_is_a_point_and_runs_alone() {
        let study = load("operations", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        let operations: usize = study.workloads.iter().map(|w| w.transactions.len()).sum();
        assert_eq!(plan.points(), 2 * operations);
        // For each size of the folder, an account whose folders are selected once, and two accounts
        // of which one sends to the other. These also have another mailbox.
        let populations: Vec<(&str, u32, u64)> = plan
            .populations
            .iter()
            .map(|p| (p.accounts.split('-').next().unwrap(), p.count, p.contents.messages()))
            .collect();
        assert_eq!(
            populations,
            [
                ("fresh1000", 1, 5_000),
                ("items1000", 2, 1_200),
                ("fresh10000", 1, 50_000),
                ("items10000", 2, 10_200)
            ]
        );
        let points = &plan.stages[0].points;
        let cold: Vec<&str> = points.iter().filter(|p| p.is_cold(&study)).map(|p| p.name(&study)).collect();
        assert_eq!(cold, ["SELECT, cold"; 2]);
        // A folder for each SELECT, and one for the rehearsal.
        assert!(plan.populations[0].contents.mailboxes.len() as u32 > study.transactions_alone + 1);
        let point = points.iter().find(|p| p.name(&study) == "STORE +FLAGS.SILENT of 1,000").unwrap();
        assert!(point.workload(&study).is_measured_alone());
        let point = points.iter().find(|p| p.name(&study) == "FETCH FLAGS").unwrap();
        assert!(!point.workload(&study).is_measured_alone() && point.workload(&study).chosen().count() == 1);
        let said = plan.describe(&study, &["posthaste".into(), "dovecot".into()]);
        assert!(said.contains("in turn at each point, 3 rounds: posthaste, dovecot"), "{said}");
    }

    #[test]
    fn the_users_of_storage_format_are_pools_and_both_workloads_are_theirs() {
        let study = load("storage-format", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        assert_eq!((plan.populations.len(), study.workloads.len()), (1, 2));
        let users = study.users.unwrap();
        assert_eq!(plan.populations[0].count, users.registered);
        assert_eq!(plan.populations[0].contents.messages(), 1_000);
        assert!(plan.stages[0].points.iter().all(|p| p.clients == Some(users.active)));
        let said = plan.describe(&study, &["mime".into()]);
        assert!(said.contains("put back") && said.contains("are at work"), "{said}");
    }

    #[test]
    fn both_builds_begin_each_measurement_with_the_same_mail() {
        for length in [Length::Full, Length::Quick] {
            let study = load("regress", length).unwrap();
            let plan = Plan::of(&study, 2);
            let said = plan.describe(&study, &["old".into(), "new".into()]);
            assert!(said.contains("old, new; the filled store is put back before each point"), "{said}");
        }
    }

    #[test]
    fn each_number_of_nodes_is_a_start() {
        let study = load("scale-out", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        let nodes: Vec<Option<u32>> = plan.stages.iter().map(|stage| stage.nodes).collect();
        assert_eq!(nodes, [Some(1), Some(2), Some(3)]);
        let users = study.sweeps[0]["clients"].len();
        assert!(plan.stages.iter().all(|stage| stage.points.len() == users * study.workloads.len()));
        // All nodes serve the same accounts.
        assert_eq!(plan.populations.len(), study.workloads.len());
        let said = plan.describe(&study, &["Posthaste".into()]);
        assert!(said.contains("  1 node on one cluster:\n"), "{said}");
        assert!(said.contains("  3 nodes on one cluster:\n"), "{said}");
    }

    #[test]
    fn mailboxes_are_as_large_as_asked() {
        let study = load("mailbox-size", Length::Full).unwrap();
        for p in Plan::of(&study, 2).populations {
            let mb = p.contents.messages() as f64 * p.contents.sizes.mean_bytes() / 1e6;
            let asked: f64 =
                p.accounts.strip_prefix("mb").unwrap().split('-').next().unwrap().parse().unwrap();
            assert!((mb / asked - 1.0).abs() < 0.01, "{} holds {mb} MB", p.accounts);
            let messages = format!("mb{asked}-{}-", p.contents.messages());
            assert!(p.accounts.starts_with(&messages), "{}", p.accounts);
        }
    }
}
