//! Servers under test: started on loopback with settings that are printed, stopped when dropped; or
//! already running.

mod cassandra;
mod cluster;
mod courier;
mod cyrus;
mod dovecot;
mod flavour;
mod folder;
mod group;
mod instance;
mod packages;
mod posthaste;
mod process;
mod ready;
mod user_folder;
mod watched;

use std::path::PathBuf;
use std::str::FromStr;

use posthaste_load_drive::{Scheme, Target};
use posthaste_load_results::ServerFacts;

use crate::arms::{Arm, InArm, MailMix, mail_of_others};
use crate::settings::{ACCESS, STORE};
use instance::parts;

pub use cassandra::{Cassandra, CassandraPlace};
pub use flavour::Flavour;
pub(crate) use folder::{make_empty, require_own};
pub use instance::{Addresses, ELSEWHERE, Import, Instance, Nodes, PASSWORD, Setting};
pub use process::output;
pub use ready::ready;
pub use watched::Watched;

/// A server of a study.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerChoice {
    /// Ours, by its binary.
    Posthaste,
    /// Debian's Dovecot, in one of its forms.
    Dovecot(Flavour),
    /// Debian's Cyrus.
    Cyrus,
    /// Debian's Courier IMAP.
    Courier,
    /// A build of ours: its name and its binary.
    Build(Build),
    /// Ours, in one arm of a study.
    Arm(InArm),
    /// One that runs: its name, addresses and process.
    Running(Running),
}

/// A build of ours, started like [`ServerChoice::Posthaste`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The build's name in plots.
    pub name: String,
    /// The build's binary.
    pub program: PathBuf,
}

/// A server that already runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The server's name in plots.
    pub name: String,
    /// The address at which mail is read by IMAP, if it is.
    pub imap: Option<Target>,
    /// Other nodes that serve the same accounts by IMAP.
    pub nodes: Vec<Target>,
    /// The address at which mail is read by POP3, if it is.
    pub pop3: Option<Target>,
    /// The address at which mail from outside arrives, by LMTP or SMTP, and accounts are filled.
    pub deliver: Option<Target>,
    /// The address to which users send mail.
    pub submission: Option<Target>,
    /// The root of its process tree, on this machine or on the agent's.
    pub pid: Option<u32>,
    /// The agent on its machine that reports its cost.
    pub agent: Option<String>,
    /// The processes of further nodes, in the order of these.
    pub more: Vec<Watched>,
}

impl Running {
    /// The addresses of the server, all of them.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let reading = self.imap.iter().chain(&self.nodes).chain(&self.pop3);
        reading.chain(&self.deliver).chain(&self.submission)
    }

    /// `imap://HOST:PORT,lmtp://HOST:PORT,pid=N`.
    fn named(name: &str, parts: &str) -> Result<Self, String> {
        let mut running = Self {
            name: name.to_owned(),
            imap: None,
            nodes: Vec::new(),
            pop3: None,
            deliver: None,
            submission: None,
            pid: None,
            agent: None,
            more: Vec::new(),
        };
        for part in parts.split(',') {
            match part.split_once('=') {
                Some(("pid", pid)) => {
                    let pid = pid.parse().map_err(|_| format!("`{part}`: pid is a number"))?;
                    running.watch(Watched::process(pid));
                }
                Some(("agent", agent)) if agent.contains(':') => running.watch(Watched::by_agent(agent)),
                Some(_) => return Err(format!("`{part}` is not pid=N or agent=HOST:PORT")),
                None => running.add(part.parse()?)?,
            }
        }
        if running.imap.is_none() && running.pop3.is_none() {
            return Err(format!("`{name}` has no address where mail is read: add imap:// or pop3://"));
        }
        let (nodes, watched) = (running.nodes.len() + 1, running.more.len() + 1);
        if watched > nodes {
            // Their costs would be added to those of the server.
            return Err(format!(
                "`{name}` has processes or agents of {watched} nodes, and the addresses of {nodes}: name one pid, one \
                 agent or both for each"
            ));
        }
        Ok(running)
    }

    fn add(&mut self, target: Target) -> Result<(), String> {
        let (place, protocols) = match target.scheme {
            Scheme::Imap if self.imap.is_some() => {
                self.nodes.push(target);
                return Ok(());
            }
            Scheme::Imap => (&mut self.imap, "IMAP"),
            Scheme::Pop3 => (&mut self.pop3, "POP3"),
            Scheme::Smtp | Scheme::Lmtp => (&mut self.deliver, "SMTP and LMTP: mail arrives one way"),
            Scheme::Submission => (&mut self.submission, "submission"),
        };
        match place.replace(target) {
            None => Ok(()),
            Some(_) => Err(format!("`{}` has two addresses of {protocols}; name one", self.name)),
        }
    }

    fn instance(&self) -> Instance {
        let reading = self.imap.as_ref().or(self.pop3.as_ref()).map(|target| &target.endpoint);
        let place = reading.map(|at| format!("{}:{}", at.host, at.port)).unwrap_or_default();
        Instance {
            // Its addresses say whether they are with TLS.
            at: Addresses {
                imap: self.imap.clone(),
                imaps: self.imap.clone(),
                pop3: self.pop3.clone(),
                pop3s: self.pop3.clone(),
                deliver: self.deliver.clone(),
                submission: self.submission.clone(),
                submissions: self.submission.clone(),
                routes: None,
                sends_on: false,
            },
            import: None,
            relay: None,
            nodes: self.nodes.iter().map(Addresses::of_imap).collect(),
            parts: if self.more.is_empty() { Vec::new() } else { parts(ACCESS, &self.watched()) },
            pid: self.pid,
            agent: self.agent.clone(),
            cgroup: None,
            figures: None,
            facts: ServerFacts {
                name: self.name.clone(),
                version: format!("already running at {place}"),
                ..ServerFacts::default()
            },
            _child: None,
        }
    }

    /// The processes of its nodes: the first one's, and those of the others.
    pub fn watched(&self) -> Vec<Watched> {
        let first = Watched { pid: self.pid, agent: self.agent.clone(), cgroup: None };
        [first].into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// The first this many of its nodes.
    fn first(&self, nodes: u32) -> Self {
        let others = (nodes as usize).saturating_sub(1);
        let mut first = self.clone();
        first.nodes.truncate(others);
        first.more.truncate(others);
        first
    }

    /// Another process: the first one is of the first node.
    fn watch(&mut self, new: Watched) {
        let mut all = self.watched();
        // An agent and the process that it knows are of one node.
        let fits = |known: &Watched| {
            (new.pid.is_none() || known.pid.is_none()) && (new.agent.is_none() || known.agent.is_none())
        };
        let at = all.iter().position(fits).unwrap_or(all.len());
        if at == all.len() {
            all.push(Watched::default());
        }
        let Watched { pid, agent, cgroup } = std::mem::take(&mut all[at]);
        all[at] = Watched { pid: pid.or(new.pid), agent: agent.or(new.agent), cgroup };
        let first = all.remove(0);
        (self.pid, self.agent, self.more) = (first.pid, first.agent, all);
    }
}

/// The form of a server that already runs.
const RUNNING: &str = "NAME=imap://HOST:PORT[,imap://NODE:PORT][,pop3://HOST:PORT][,lmtp://HOST:PORT]\
                       [,submission://HOST:PORT][,pid=N][,agent=HOST:PORT]";

impl FromStr for ServerChoice {
    type Err = String;

    /// `posthaste`, `dovecot`, `dovecot-FORM`, `cyrus`, `courier`, `NAME=/path/to/posthaste`, or
    /// the addresses of a running server in any order.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "posthaste" => return Ok(Self::Posthaste),
            "cyrus" => return Ok(Self::Cyrus),
            "courier" => return Ok(Self::Courier),
            _ => {}
        }
        if let Some(flavour) = Flavour::named(text) {
            return Ok(Self::Dovecot(flavour));
        }
        let forms = || {
            let dovecot = Flavour::words().collect::<Vec<_>>().join(", ");
            format!(
                "`{text}` is not posthaste, {dovecot}, cyrus, courier, NAME=/path/to/posthaste or {RUNNING}"
            )
        };
        let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(forms)?;
        if rest.contains('/') && !rest.contains("://") {
            return Ok(Self::Build(Build { name: name.to_owned(), program: rest.into() }));
        }
        Running::named(name, rest).map(Self::Running).map_err(|why| format!("{why}; {}", forms()))
    }
}

impl ServerChoice {
    /// Whether it is ours, and started by a study.
    pub(crate) fn is_posthaste(&self) -> bool {
        matches!(self, Self::Posthaste | Self::Build(_) | Self::Arm(_))
    }

    /// Whether a study starts and stops it.
    pub fn is_started_here(&self) -> bool {
        !matches!(self, Self::Running(_))
    }

    /// The server's name in plots.
    pub fn name(&self) -> &str {
        match self {
            Self::Posthaste => "Posthaste",
            Self::Dovecot(flavour) => flavour.name(),
            Self::Cyrus => "Cyrus",
            Self::Courier => "Courier",
            Self::Build(build) => &build.name,
            Self::Arm(arm) => &arm.name,
            Self::Running(running) => &running.name,
        }
    }

    /// Debian's package of its POP3 server.
    pub(crate) fn pop3_package(&self) -> Option<&'static str> {
        match self {
            Self::Dovecot(_) => Some("dovecot-pop3d"),
            Self::Cyrus => Some("cyrus-pop3d"),
            Self::Courier => Some("courier-pop"),
            Self::Posthaste | Self::Build(_) | Self::Arm(_) | Self::Running(_) => None,
        }
    }

    /// The reason why this server has no POP3 here, if that is known before a start.
    pub(crate) fn without_pop3(&self) -> Option<String> {
        let lacks = match self {
            Self::Dovecot(_) => !dovecot::has("pop3"),
            Self::Cyrus => cyrus::lacks_pop3(),
            Self::Running(running) => running.pop3.is_none(),
            // Courier's packages are unpacked with the one of POP3.
            Self::Courier | Self::Posthaste | Self::Build(_) | Self::Arm(_) => false,
        };
        let name = self.name();
        let why = match self.pop3_package() {
            Some(package) => format!("{name} has no POP3 server here; Debian: apt-get install {package}"),
            None => format!("{name} has no address of it: add pop3://HOST:PORT"),
        };
        lacks.then_some(why)
    }

    /// The mail that it gets in a study with these arms.
    pub(crate) fn mail(&self, arms: &[Arm]) -> MailMix {
        match self {
            Self::Arm(arm) => arm.arm.mail,
            _ => mail_of_others(arms),
        }
    }
}

/// Starts a server, or looks at one that runs.
pub fn start(which: &ServerChoice, setting: &Setting) -> Result<Instance, String> {
    if setting.memory_mb.is_some() {
        // Pages that an earlier start has read are in the cache of the system, and no longer in a
        // group.
        folder::forget(setting.folder);
    }
    if setting.counts.is_some() {
        may_be_simulated(which)?;
    }
    if let Some(nodes) = &setting.nodes {
        return start_nodes(which, setting, nodes);
    }
    match which {
        ServerChoice::Posthaste => posthaste::start(setting, ""),
        ServerChoice::Dovecot(flavour) => with_other_ports(|| dovecot::start(setting, *flavour)),
        ServerChoice::Cyrus => with_other_ports(|| cyrus::start(setting)),
        ServerChoice::Courier => with_other_ports(|| courier::start(setting)),
        ServerChoice::Build(build) => {
            let setting = Setting { posthaste: Some(build.program.clone()), ..setting.clone() };
            let mut instance = posthaste::start(&setting, "")?;
            instance.facts.name.clone_from(&build.name);
            Ok(instance)
        }
        ServerChoice::Arm(arm) => {
            let posthaste = arm.program.clone().or_else(|| setting.posthaste.clone());
            let mut instance =
                posthaste::start(&Setting { posthaste, ..setting.clone() }, &arm.arm.settings)?;
            instance.facts.name.clone_from(&arm.name);
            Ok(instance)
        }
        ServerChoice::Running(running) => match (setting.cpus, setting.memory_mb) {
            (None, None) => Ok(running.instance()),
            _ => Err("a server that already runs is not given other processors or memory".into()),
        },
    }
}

/// Whether cachegrind can count the work of a server.
///
/// # Errors
/// Why it cannot.
pub(crate) fn may_be_simulated(which: &ServerChoice) -> Result<(), String> {
    let why = match which {
        ServerChoice::Posthaste | ServerChoice::Build(_) | ServerChoice::Arm(_) => return Ok(()),
        ServerChoice::Running(_) => "runs already: cachegrind counts only what it starts",
        ServerChoice::Dovecot(_) | ServerChoice::Cyrus | ServerChoice::Courier => {
            "starts processes that change users and end with their sessions: cachegrind does not follow them"
        }
    };
    Err(format!("{} {why}", which.name()))
}

/// Starts a cluster, or looks at this many nodes of one that runs.
fn start_nodes(which: &ServerChoice, setting: &Setting, nodes: &Nodes) -> Result<Instance, String> {
    match which {
        ServerChoice::Posthaste => cluster::start(setting, nodes),
        ServerChoice::Build(build) => {
            let setting = Setting { posthaste: Some(build.program.clone()), ..setting.clone() };
            let mut instance = cluster::start(&setting, nodes)?;
            instance.facts.name.clone_from(&build.name);
            Ok(instance)
        }
        ServerChoice::Running(running) => {
            let running = running.first(nodes.count);
            let mut instance = running.instance();
            instance.parts = parts(ACCESS, &running.watched());
            instance.parts.extend(parts(STORE, &nodes.cassandra.watched));
            Ok(instance)
        }
        other => Err(cluster::no_nodes(other.name())),
    }
}

/// Starts of a server that is given its ports.
const STARTS_MAX: u32 = 3;

/// Starts a server that cannot choose its ports itself. Another program may take one of them before
/// the server does, so it is tried again with others.
fn with_other_ports(start: impl Fn() -> Result<Instance, String>) -> Result<Instance, String> {
    let mut started = start();
    for _ in 1..STARTS_MAX {
        if started.is_ok() {
            break;
        }
        started = start();
    }
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(text: &str) -> Running {
        match text.parse() {
            Ok(ServerChoice::Running(running)) => running,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_server_whose_port_was_taken_is_started_again_and_not_for_ever() {
        let starts = std::cell::Cell::new(0);
        let start = |fails: u32| {
            starts.set(0);
            with_other_ports(|| {
                starts.set(starts.get() + 1);
                match starts.get() > fails {
                    true => Ok(running("x=imap://127.0.0.1:1").instance()),
                    false => Err("address in use".into()),
                }
            })
        };
        assert!(start(0).is_ok() && starts.get() == 1);
        assert!(start(2).is_ok() && starts.get() == 3);
        assert!(start(9).is_err() && starts.get() == 3);
    }

    #[test]
    fn servers_by_name() {
        assert_eq!("dovecot".parse::<ServerChoice>(), Ok(ServerChoice::Dovecot(Flavour::Sdbox)));
        assert_eq!(
            "courier".parse::<ServerChoice>().map(|which| which.name().to_owned()),
            Ok("Courier".to_owned())
        );
        assert_eq!("dovecot-maildir".parse::<ServerChoice>().unwrap().name(), "Dovecot Maildir");
        let build = ServerChoice::Build(Build { name: "new".into(), program: "./posthaste".into() });
        assert_eq!("new=./posthaste".parse(), Ok(build));
        let packages = ["dovecot-tuned", "cyrus", "courier", "posthaste"];
        assert_eq!(
            packages.map(|name| name.parse::<ServerChoice>().unwrap().pop3_package()),
            [Some("dovecot-pop3d"), Some("cyrus-pop3d"), Some("courier-pop"), None]
        );
    }

    #[test]
    fn a_running_server_has_an_address_for_each_way_of_mail() {
        let port = |target: &Option<Target>| target.as_ref().map(|t| t.endpoint.port);
        let all =
            running("mine=imaps://mail,lmtp://mail,pop3://mail,submission://mail,pid=7,agent=mail:9200");
        assert_eq!(
            [&all.imap, &all.deliver, &all.pop3, &all.submission].map(port),
            [993, 24, 110, 587].map(Some)
        );
        assert_eq!((all.pid, all.agent.as_deref(), all.targets().count()), (Some(7), Some("mail:9200"), 4));
        let at = all.instance().at;
        assert_eq!((at.deliver, at.submission), (all.deliver, all.submission.clone()));
        // Its address decides about TLS, not a workload.
        assert_eq!((at.pop3s, at.submissions), (all.pop3, all.submission));
        let nodes = running("mine=imap://a,imap://b,agent=a:9200");
        assert_eq!((nodes.nodes[0].endpoint.host.as_str(), nodes.targets().count()), ("b", 2));
        assert!(nodes.more.is_empty());
        // Also a server of POP3 alone, and in any order.
        let pop3 = running("mine=smtp://mail,pop3s://mail");
        assert_eq!((pop3.imap.is_none(), port(&pop3.pop3), port(&pop3.deliver)), (true, Some(995), Some(25)));
        assert!(pop3.instance().facts.version.ends_with("mail:995"));
    }

    #[test]
    fn a_server_that_cannot_be_simulated_has_its_own_reason() {
        let said = |server: &str| may_be_simulated(&server.parse().unwrap());
        assert_eq!(said("posthaste"), Ok(()));
        assert_eq!(said("new=./posthaste"), Ok(()));
        let peer = said("dovecot").unwrap_err();
        assert!(peer.starts_with("Dovecot starts processes that change users"), "{peer}");
        let running = said("mine=imap://h").unwrap_err();
        assert_eq!(running, "mine runs already: cachegrind counts only what it starts");
    }

    #[test]
    fn each_node_has_its_processes() {
        let nodes = running("mine=imap://a,imap://b,imap://c,pid=7,agent=a:9,agent=b:9,pid=8,agent=c:9");
        let each: Vec<_> = nodes.watched().into_iter().map(|w| (w.pid, w.agent.unwrap())).collect();
        let expected = [(Some(7), "a:9"), (Some(8), "b:9"), (None, "c:9")];
        assert_eq!(each, expected.map(|(pid, agent)| (pid, agent.to_owned())));
        let two = nodes.first(2);
        assert_eq!((two.nodes.len(), two.watched().len()), (1, 2));
    }

    #[test]
    fn a_wrong_address_is_named() {
        // The last of them does not win.
        for two in [
            "x=imap://h,lmtp://h,smtp://h",
            "x=imap://h,pop3://h,pop3://g",
            "x=pop3://h,submission://h,submissions://h",
        ] {
            let error = two.parse::<ServerChoice>().unwrap_err();
            assert!(error.contains("`x` has two addresses of"), "{error}");
        }
        for (wrong, said) in [
            ("dovecote", "is not posthaste"),
            ("x=smtp://h", "no address where mail is read"),
            ("=imap://h", "is not posthaste"),
            ("x=imap://h,pid=y", "pid is a number"),
            ("x=imap://h,agent=h", "agent=HOST:PORT"),
            ("x=imap://h,host=h:1", "`host=h:1` is not"),
            ("x=imap://h,pid=7,pid=8", "agents of 2 nodes, and the addresses of 1:"),
            ("x=imap://a,imap://b,agent=a:9,agent=b:9,agent=c:9", "of 3 nodes, and the addresses of 2:"),
            ("=/bin/posthaste", "is not posthaste"),
        ] {
            let error = wrong.parse::<ServerChoice>().unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
