//! Reading a study file: every mistake is named with file, line and the nearest known word.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use posthaste_load_text::quantity;
use posthaste_load_text::suggestion;
use posthaste_load_text::{Mistake, Source};
use posthaste_load_workload::corpus::Sizes;
use posthaste_load_workload::{Mix, Workload};
use serde::Deserialize;
use toml::Spanned;

use crate::arms::{self, Arm, RawArm};
use crate::bounds::{alone, rounds};
use crate::kinds;
use crate::pools::{self, RawPools, Users};
use crate::server::ServerChoice;
use crate::{BUILTIN, Length};

/// The analysis of the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analysis {
    /// Cost per session and per message, the knee.
    ItemCount,
    /// CPU against users, fits, users at the limit.
    MailboxSize,
    /// Throughput, response times, split, scale-up.
    Koka,
    /// Disk operations and times against memory.
    Memory,
    /// POP3 together with IMAP.
    Pop3,
    /// Servers compared with each other.
    Compare,
    /// The cost of single operations on each server.
    Operations,
    /// Whether the second of two builds is worse than the first.
    Regress,
    /// The cost of the forms in which mail is stored.
    StorageFormat,
    /// Throughput by the nodes of a cluster, CPU of each node and of its store.
    ScaleOut,
}

const ANALYSES: &[(&str, Analysis)] = &[
    ("item-count", Analysis::ItemCount),
    ("mailbox-size", Analysis::MailboxSize),
    ("koka", Analysis::Koka),
    ("memory", Analysis::Memory),
    ("pop3", Analysis::Pop3),
    ("compare", Analysis::Compare),
    ("operations", Analysis::Operations),
    ("regress", Analysis::Regress),
    ("storage-format", Analysis::StorageFormat),
    ("scale-out", Analysis::ScaleOut),
];

/// The values that can be swept.
pub const SWEPT: &[&str] = &[
    "items",
    "mailbox_mb",
    "clients",
    "think_s",
    "speed",
    "arrivals_per_hour",
    "cpus",
    "memory_mb",
    "nodes",
];
/// Most nodes of a cluster. They all run on one machine, unless they run already.
const NODES_MAX: f64 = 64.0;

/// Products of values by what is swept.
pub type Sweeps = Vec<BTreeMap<String, Vec<f64>>>;

/// Load raised until the server is busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Server CPU, of all processors, above which load is enough.
    pub until_cpu_percent: f64,
    /// The largest number of virtual users.
    pub clients_max: u32,
    /// Accounts they share.
    pub accounts: u32,
}

/// Points after which the same is run again, to sample the functions the server spends its CPU in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The runs with this many virtual users, on all processors and without think time of their
    /// own.
    pub clients: u32,
    /// The time of the measurement.
    pub measure: Duration,
}

/// The server again under a simulator of the processor, with a fixed number of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulate {
    /// Virtual users.
    pub clients: u32,
    /// Transactions of each.
    pub transactions_each: u32,
}

/// Folders with more messages than a disk may have space for in their usual sizes.
#[derive(Clone, Debug)]
pub struct LargeFolders {
    /// Folders with more messages than this.
    pub over: u32,
    /// The sizes of their messages.
    pub sizes: Sizes,
}

/// The lengths of the parts of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Measuring of a trial while load is raised.
    pub trial: Duration,
    /// Users start.
    pub ramp: Duration,
    /// The time before the measurement, in which nothing is counted.
    pub warmup: Duration,
    /// The time that is measured.
    pub measure: Duration,
}

/// A study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The study's name.
    pub name: String,
    /// The question it answers.
    pub description: String,
    /// The article that the study repeats.
    pub after: String,
    /// The result of the article in a sentence.
    pub published: String,
    /// The analysis of the points.
    pub analysis: Analysis,
    /// The study's workloads. A mix is here its first kind of users, with the name and the file
    /// of the mix.
    pub workloads: Vec<Workload>,
    /// The kinds of users of each workload: one, or several of a mix.
    pub mixes: Vec<Mix>,
    /// Think time instead of the workloads'.
    pub think: Option<Duration>,
    /// Sizes of messages filled in instead of the workloads'.
    pub sizes: Option<Sizes>,
    /// The sizes of the largest folders, if they differ.
    pub large_folders: Option<LargeFolders>,
    /// Products of values: each map is one, all its combinations are points.
    pub sweeps: Sweeps,
    /// Raise load instead of sweeping clients.
    pub load: Option<Load>,
    /// Sampling of functions.
    pub profile: Option<Profile>,
    /// Simulation of the processor.
    pub simulate: Option<Simulate>,
    /// Durations.
    pub times: Times,
    /// The number of times that each point is measured. With more than one round all servers run
    /// at once, and take turns at each point.
    pub rounds: u32,
    /// Whether each transaction of the workloads is a point of its own, and runs alone.
    pub each_transaction: bool,
    /// The number of transactions that a point measures, of those that are measured alone.
    pub transactions_alone: u32,
    /// The filled store is put back before each point.
    pub put_back: bool,
    /// The workloads whose users send by submission, where a server offers it.
    pub submission: Vec<String>,
    /// The share of what these users send that is for another server, 0 to 1.
    pub outside: f64,
    /// The users, by what they do; otherwise `clients` are swept or raised.
    pub users: Option<Users>,
    /// Settings and mail with which each Posthaste is measured; empty for one as it is.
    pub arms: Vec<Arm>,
    /// Servers that are measured beside another one wherever that one is.
    pub beside: Vec<(ServerChoice, Vec<ServerChoice>)>,
    /// The version of the study.
    pub length: Length,
    /// The file, whole.
    pub source: String,
}

impl Study {
    /// Whether users of a workload send by submission, where a server offers it.
    pub(crate) fn submits(&self, workload: &Workload) -> bool {
        self.submission.contains(&workload.name)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    description: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    published: String,
    analysis: Spanned<String>,
    workloads: Spanned<Vec<String>>,
    think: Option<Spanned<String>>,
    sizes: Option<Spanned<String>>,
    large_folders: Option<RawLargeFolders>,
    sweep: Spanned<Sweeps>,
    load: Option<RawLoad>,
    profile: Option<RawProfile>,
    simulate: Option<RawSimulate>,
    rounds: Option<Spanned<u32>>,
    #[serde(default)]
    each_transaction: bool,
    transactions_alone: Option<Spanned<u32>>,
    #[serde(default)]
    put_back: bool,
    #[serde(default)]
    submission: Vec<Spanned<String>>,
    outside: Option<Spanned<f64>>,
    pools: Option<RawPools>,
    arm: Option<Spanned<Vec<RawArm>>>,
    #[serde(default)]
    beside: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    time: RawTime,
    quick: Option<RawQuick>,
    shortest: Option<RawQuick>,
}

/// The values of the shortened version.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawQuick {
    workloads: Option<Spanned<Vec<String>>>,
    think: Option<Spanned<String>>,
    sizes: Option<Spanned<String>>,
    sweep: Option<Spanned<Sweeps>>,
    load: Option<RawLoad>,
    profile: Option<RawProfile>,
    simulate: Option<RawSimulate>,
    rounds: Option<Spanned<u32>>,
    transactions_alone: Option<Spanned<u32>>,
    pools: Option<RawPools>,
    time: Option<RawTime>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoad {
    until_cpu_percent: f64,
    clients_max: u32,
    accounts: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLargeFolders {
    over: u32,
    sizes: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    clients: u32,
    measure: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSimulate {
    clients: u32,
    transactions_each: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTime {
    trial: Option<Spanned<String>>,
    ramp: Spanned<String>,
    warmup: Spanned<String>,
    measure: Spanned<String>,
}

/// A built-in study, or a file.
pub fn load(name: &str, length: Length) -> Result<Study, Mistake> {
    if let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == name) {
        return parse(text, name, length);
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '.']) {
        let hint = suggestion(name, BUILTIN.iter().map(|(known, _)| *known));
        return Err(Mistake::bare(format!("no study is called `{name}`{hint}")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Mistake::bare(format!("{name}: {e}")))?;
    parse(&text, name, length)
}

fn parse(text: &str, file: &str, length: Length) -> Result<Study, Mistake> {
    let source = Source { file, text };
    let raw: Raw = source.read()?;
    let (submission, outside) = (submission(source, &raw)?, outside(source, &raw)?);
    let short = match length {
        Length::Full => RawQuick::default(),
        Length::Quick => raw.quick.unwrap_or_default(),
        Length::Shortest => raw
            .shortest
            .ok_or_else(|| source.at(raw.name.span(), "this study has no [shortest] version: use --quick"))?,
    };
    let users = short.pools.or(raw.pools).map(|p| pools::read(source, &p)).transpose()?;
    let load = short.load.or(raw.load).map(|l| Load {
        until_cpu_percent: l.until_cpu_percent,
        clients_max: l.clients_max.max(1),
        accounts: l.accounts.max(1),
    });
    let profile = short.profile.or(raw.profile).map(|p| {
        let measure = time_of(source, &p.measure)?;
        Ok::<_, Mistake>(Profile { clients: p.clients, measure })
    });
    let names = short.workloads.unwrap_or(raw.workloads);
    let mixes = kinds::load(source, &names)?;
    let workloads: Vec<Workload> = mixes.iter().map(kinds::head).collect();
    let sweep = short.sweep.unwrap_or(raw.sweep);
    let sweep_at = sweep.span();
    let study = Study {
        name: raw.name.get_ref().clone(),
        description: raw.description,
        after: raw.after,
        published: raw.published,
        analysis: source.word(&raw.analysis, ANALYSES)?,
        submission: submission.iter().filter_map(|name| named(&names, &workloads, name)).collect(),
        workloads,
        mixes,
        think: short.think.or(raw.think).map(|text| duration(source, &text)).transpose()?,
        sizes: short.sizes.or(raw.sizes).map(|text| sizes(source, &text)).transpose()?,
        large_folders: raw.large_folders.map(|large| large_folders(source, &large)).transpose()?,
        sweeps: sweeps(source, &sweep, load.is_some() || users.is_some())?,
        load,
        profile: profile.transpose()?,
        simulate: short.simulate.or(raw.simulate).map(simulate),
        times: times(source, &short.time.unwrap_or(raw.time))?,
        rounds: rounds(source, short.rounds.or(raw.rounds).as_ref())?,
        each_transaction: raw.each_transaction,
        transactions_alone: alone(source, short.transactions_alone.or(raw.transactions_alone).as_ref())?,
        put_back: raw.put_back,
        outside,
        users,
        arms: raw.arm.as_ref().map_or(Ok(Vec::new()), |arms| arms::read(source, arms.get_ref()))?,
        beside: beside(source, &raw.beside)?,
        length,
        source: text.to_owned(),
    };
    match refused_together(&study) {
        Some(what) => Err(source.at(sweep_at, what)),
        None => Ok(study),
    }
}

impl Study {
    /// The most nodes of a cluster, if nodes are swept.
    pub fn nodes_max(&self) -> Option<u32> {
        let nodes = self.sweeps.iter().filter_map(|sweep| sweep.get("nodes")).flatten();
        nodes.map(|nodes| *nodes as u32).max()
    }
}

/// Settings that exclude each other. On a cluster the mail is not in a server's folder, and the
/// server is several processes.
fn refused_together(study: &Study) -> Option<&'static str> {
    if let Some(what) = refused_with_a_mix(study) {
        return Some(what);
    }
    let each = |name: &str| study.sweeps.iter().all(|sweep| sweep.contains_key(name));
    let any = |name: &str| study.sweeps.iter().any(|sweep| sweep.contains_key(name));
    if !any("nodes") {
        let both = any("memory_mb") && !study.arms.is_empty();
        return both.then_some("`memory_mb` is not swept in a study with arms: both set [store]");
    }
    [
        (!each("nodes"), "`nodes` are in each sweep, or in none: a cluster and one server have other stores"),
        (any("memory_mb"), "`memory_mb` is not swept together with `nodes`: it limits one server"),
        (any("cpus"), "`cpus` are not swept together with `nodes`: they do not hold for Cassandra"),
        (
            study.put_back,
            "`put_back` is not offered with `nodes`: the mail is in the cluster, and in no folder",
        ),
        (study.simulate.is_some(), "`simulate` is not offered with `nodes`: it runs one server"),
        (!study.arms.is_empty(), "arms are not offered with `nodes`: they are of one server"),
        (study.outside > 0.0, "`outside` is not offered with `nodes`: they send no mail to another server"),
    ]
    .into_iter()
    .find_map(|(is, what)| is.then_some(what))
}

/// The settings that a study with a mix of users does not have: each of these is for one
/// workload.
fn refused_with_a_mix(study: &Study) -> Option<&'static str> {
    let mixes = || study.mixes.iter().filter(|mix| mix.kinds.len() > 1);
    let kinds = mixes().map(|mix| mix.kinds.len()).max()?;
    let mut clients = study.sweeps.iter().filter_map(|sweep| sweep.get("clients")).flatten();
    let few = clients.any(|clients| (*clients as usize) < kinds);
    let one = study.load.is_some() || study.users.is_some() || study.each_transaction;
    let once_more = study.profile.is_some() || study.simulate.is_some();
    [
        (
            one || once_more,
            "`load`, `pools`, `each_transaction`, `profile` and `simulate` are for workloads, not for mixes",
        ),
        (!study.arms.is_empty(), "arms are not offered with a mix of users"),
        (
            mixes().any(|mix| study.submission.contains(&mix.name)),
            "`submission` is not offered for a mix of users",
        ),
        (few, "a mix has at least one user of each kind: name as many `clients`"),
    ]
    .into_iter()
    .find_map(|(is, what)| is.then_some(what))
}

fn simulate(raw: RawSimulate) -> Simulate {
    Simulate { clients: raw.clients.max(1), transactions_each: raw.transactions_each.max(1) }
}

fn times(source: Source, time: &RawTime) -> Result<Times, Mistake> {
    let trial = time.trial.as_ref().map_or(Ok(Duration::from_secs(5)), |text| duration(source, text))?;
    Ok(Times {
        trial,
        ramp: duration(source, &time.ramp)?,
        warmup: duration(source, &time.warmup)?,
        measure: time_of(source, &time.measure)?,
    })
}

/// The workloads whose users send by submission.
fn submission(source: Source, raw: &Raw) -> Result<Vec<String>, Mistake> {
    let all = raw.workloads.get_ref();
    let known = |name: &Spanned<String>| match all.contains(name.get_ref()) {
        true => Ok(name.get_ref().clone()),
        false => {
            let hint = suggestion(name.get_ref(), all.iter().map(String::as_str));
            let what = format!("`{}` is no workload of this study{hint}", name.get_ref());
            Err(source.at(name.span(), &what))
        }
    };
    raw.submission.iter().map(known).collect()
}

/// The name that a workload has in its own file.
fn named(names: &Spanned<Vec<String>>, workloads: &[Workload], name: &str) -> Option<String> {
    let at = names.get_ref().iter().position(|known| known == name)?;
    workloads.get(at).map(|workload| workload.name.clone())
}

/// The share of what users send that is for another server.
fn outside(source: Source, raw: &Raw) -> Result<f64, Mistake> {
    let Some(share) = &raw.outside else { return Ok(0.0) };
    match *share.get_ref() {
        _ if raw.arm.is_some() => Err(source.at(share.span(), "each arm has an `outside` of its own")),
        _ if raw.submission.is_empty() => {
            let what = "mail for another server is submitted: name the workloads in `submission`";
            Err(source.at(share.span(), what))
        }
        share if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(source.at(share.span(), "a share of the mail is from 0 to 1")),
    }
}

/// Servers that the study measures wherever another one is measured.
fn beside(
    source: Source,
    raw: &BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
) -> Result<Vec<(ServerChoice, Vec<ServerChoice>)>, Mistake> {
    let server = |name: &Spanned<String>| {
        name.get_ref().parse::<ServerChoice>().map_err(|what| source.at(name.span(), &what))
    };
    let of = |(one, others): (&Spanned<String>, &Vec<Spanned<String>>)| {
        Ok((server(one)?, others.iter().map(server).collect::<Result<_, _>>()?))
    };
    raw.iter().map(of).collect()
}

fn duration(source: Source, text: &Spanned<String>) -> Result<Duration, Mistake> {
    quantity::duration(text.get_ref()).map_err(|what| source.at(text.span(), &what))
}

fn time_of(source: Source, text: &Spanned<String>) -> Result<Duration, Mistake> {
    quantity::length(text.get_ref()).map_err(|what| source.at(text.span(), &what))
}

fn sizes(source: Source, text: &Spanned<String>) -> Result<Sizes, Mistake> {
    text.get_ref().parse().map_err(|what: String| source.at(text.span(), &what))
}

fn large_folders(source: Source, raw: &RawLargeFolders) -> Result<LargeFolders, Mistake> {
    Ok(LargeFolders { over: raw.over, sizes: sizes(source, &raw.sizes)? })
}

fn sweeps(source: Source, sweeps: &Spanned<Sweeps>, raised: bool) -> Result<Sweeps, Mistake> {
    let wrong = |what: &str| Err(source.at(sweeps.span(), what));
    for sweep in sweeps.get_ref() {
        for (name, values) in sweep {
            if !SWEPT.contains(&name.as_str()) {
                let hint = suggestion(name, SWEPT.iter().copied());
                return wrong(&format!("`{name}` cannot be swept{hint}"));
            }
            // Think time may be a part of a second; everything else is counted.
            let least = if matches!(name.as_str(), "think_s" | "arrivals_per_hour") { 0.0 } else { 1.0 };
            if values.is_empty() || values.iter().any(|v| !(*v >= least && *v <= 1e7)) {
                return wrong(&format!("`{name}` needs values from {least} to 10,000,000"));
            }
            if name == "nodes" && values.iter().any(|v| *v > NODES_MAX || v.fract() != 0.0) {
                return wrong(&format!("`nodes` needs whole numbers from 1 to {NODES_MAX}"));
            }
        }
        if raised == sweep.contains_key("clients") {
            return wrong(
                "`clients` are swept, or `load` raises them, or `pools` names them: one of the three",
            );
        }
    }
    match sweeps.get_ref().is_empty() {
        true => wrong("nothing is swept"),
        false => Ok(sweeps.get_ref().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_in_both_lengths() {
        for (name, text) in BUILTIN {
            let long = parse(text, name, Length::Full).unwrap_or_else(|e| panic!("{e}"));
            let quick = parse(text, name, Length::Quick).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((long.name.as_str(), quick.analysis), (*name, long.analysis));
            assert!(quick.times.measure < long.times.measure, "{name}");
        }
        let items = load("item-count", Length::Full).unwrap();
        assert_eq!(items.sweeps[0]["items"], [100.0, 500.0, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5, 1e6]);
    }

    #[test]
    fn mistakes_have_a_place_and_a_remedy() {
        let text = BUILTIN[0].1;
        let said = |from: &str, to: &str| {
            parse(&text.replace(from, to), "x.toml", Length::Full).unwrap_err().to_string()
        };
        assert!(said("\nitems =", "\nitms =").contains("items"), "{}", said("\nitems =", "\nitms ="));
        assert!(
            said("inbox-sync", "inbox-snyc").starts_with("x.toml:7:"),
            "{}",
            said("inbox-sync", "inbox-snyc")
        );
        assert!(said("\"2m\"", "\"soon\"").contains("not a duration"));
        assert!(said("rounds = 3", "rounds = 0").contains("from 1 to 99"));
        assert!(said("rounds = 3", "transactions_alone = 0").contains("from 1 to 999"));
        let shortest = parse(text, "x.toml", Length::Shortest).unwrap_err().to_string();
        assert!(shortest.contains("--quick"), "{shortest}");
        let alone = said("rounds = 3", "rounds = 3\noutside = 0.2");
        assert!(alone.contains("name the workloads in `submission`"), "{alone}");
        let share = said("rounds = 3", "rounds = 3\nsubmission = [\"inbox-sync\"]\noutside = 2.0");
        assert!(share.contains("from 0 to 1"), "{share}");
        let other = said("rounds = 3", "rounds = 3\nsubmission = [\"inbox-snyc\"]");
        assert!(other.contains("no workload of this study") && other.contains("inbox-sync"), "{other}");
        let beside = said("[time]", "[beside]\ndovecot = [\"dovecot-sos\"]\n\n[time]");
        assert!(beside.contains("`dovecot-sos` is not"), "{beside}");
        assert!(load("item-cuont", Length::Full).unwrap_err().to_string().contains("item-count"));
    }

    #[test]
    fn a_sweep_of_nodes_refuses_what_is_of_one_server() {
        let (_, text) = BUILTIN.iter().find(|(name, _)| *name == "scale-out").unwrap();
        let study = |text: &str| parse(text, "x.toml", Length::Full);
        assert_eq!(study(text).unwrap().nodes_max(), Some(3));
        assert_eq!(load("koka", Length::Full).unwrap().nodes_max(), None);
        let said = |to: &str| study(&text.replacen("[[sweep]]", to, 1)).unwrap_err().to_string();
        for (to, what) in [
            ("[[sweep]]\nclients = [2]\n\n[[sweep]]", "in each sweep"),
            ("[[sweep]]\nmemory_mb = [64]", "`memory_mb`"),
            ("[[sweep]]\ncpus = [1]", "`cpus`"),
            ("put_back = true\n\n[[sweep]]", "`put_back`"),
            ("[simulate]\nclients = 1\ntransactions_each = 1\n\n[[sweep]]", "`simulate`"),
            ("[[arm]]\nname = \"a\"\n\n[[sweep]]", "arms"),
            ("submission = [\"koka-browse-frequencies\"]\noutside = 0.2\n\n[[sweep]]", "`outside`"),
        ] {
            assert!(said(to).contains(what), "{to}: {}", said(to));
        }
        for nodes in ["[0]", "[1.5]", "[65]"] {
            let said = study(&text.replacen("nodes = [1, 2, 3]", &format!("nodes = {nodes}"), 1));
            assert!(said.unwrap_err().to_string().contains("`nodes` needs"), "{nodes}");
        }
    }
}
