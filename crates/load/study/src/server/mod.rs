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
pub use instance::{ELSEWHERE, Import, Instance, Node, Nodes, PASSWORD, Setting};
pub use process::output;
pub use ready::ready;
pub use watched::Watched;

/// Which server.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
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

/// A build of ours, started like [`Which::Posthaste`].
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
    /// Where mail is read.
    pub imap: Target,
    /// Other nodes that serve the same accounts by IMAP.
    pub nodes: Vec<Target>,
    /// Where mail is read by POP3, if it is.
    pub pop3: Option<Target>,
    /// Where mail is sent, if it can be.
    pub send: Option<Target>,
    /// The root of its process tree, on this machine or on the agent's.
    pub pid: Option<u32>,
    /// The agent on its machine that reports its cost.
    pub agent: Option<String>,
    /// The processes of further nodes, in the order of these.
    pub more: Vec<Watched>,
}

impl Running {
    /// All its addresses.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.imap].into_iter().chain(&self.nodes).chain(&self.pop3).chain(&self.send)
    }

    /// The processes of its nodes: the first one's, and those of the others.
    pub fn watched(&self) -> Vec<Watched> {
        let first = Watched { pid: self.pid, agent: self.agent.clone(), cgroup: None };
        [first].into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// The first so many of its nodes.
    fn first(&self, nodes: u32) -> Self {
        let others = (nodes as usize).saturating_sub(1);
        let mut first = self.clone();
        first.nodes.truncate(others);
        first.more.truncate(others);
        first
    }

    /// Another process: the first one is of the first node.
    fn add(&mut self, new: Watched) {
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

impl FromStr for Which {
    type Err = String;

    /// `posthaste`, `dovecot`, `dovecot-FORM`, `cyrus`, `courier`, `NAME=/path/to/posthaste`, or
    /// `NAME=imap://HOST:PORT[,imap://NODE:PORT…][,pop3://HOST:PORT][,lmtp://HOST:PORT][,pid=N]
    /// [,agent=HOST:PORT]`.
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
        let wrong = || {
            format!(
                "`{text}` is not posthaste, {}, cyrus, courier, NAME=/path/to/posthaste or \
                 NAME=imap://HOST:PORT[,imap://NODE:PORT][,pop3://HOST:PORT][,lmtp://HOST:PORT][,pid=N][,agent=HOST:PORT]",
                Flavour::words().collect::<Vec<_>>().join(", ")
            )
        };
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        if rest.contains('/') && !rest.contains("://") && !name.is_empty() {
            return Ok(Self::Build(Build { name: name.to_owned(), program: rest.into() }));
        }
        let mut parts = rest.split(',');
        let imap: Target = parts.next().ok_or_else(wrong)?.parse()?;
        if imap.scheme != Scheme::Imap || name.is_empty() {
            return Err(wrong());
        }
        let name = name.to_owned();
        let mut running = Running {
            name,
            imap,
            nodes: Vec::new(),
            pop3: None,
            send: None,
            pid: None,
            agent: None,
            more: Vec::new(),
        };
        for part in parts {
            match part.split_once('=') {
                Some(("pid", pid)) => running.add(Watched::process(pid.parse().map_err(|_| wrong())?)),
                Some(("agent", agent)) if agent.contains(':') => running.add(Watched::by_agent(agent)),
                Some(_) => return Err(wrong()),
                None => {
                    let target: Target = part.parse()?;
                    let name = &running.name;
                    match target.scheme {
                        Scheme::Imap => running.nodes.push(target),
                        Scheme::Pop3 if running.pop3.is_some() => {
                            return Err(format!("`{name}` has two addresses of POP3: name one"));
                        }
                        Scheme::Pop3 => running.pop3 = Some(target),
                        _ if running.send.is_some() => {
                            return Err(format!(
                                "`{name}` has two addresses of lmtp, smtp and submission: mail goes one way, so name one"
                            ));
                        }
                        Scheme::Smtp | Scheme::Lmtp | Scheme::Submission => running.send = Some(target),
                    }
                }
            }
        }
        Ok(Self::Running(running))
    }
}

impl Which {
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

    /// The mail that it gets in a study with these arms.
    pub(crate) fn mail(&self, arms: &[Arm]) -> MailMix {
        match self {
            Self::Arm(arm) => arm.arm.mail,
            _ => mail_of_others(arms),
        }
    }
}

/// Starts a server, or looks at one that runs.
pub fn start(which: &Which, setting: &Setting) -> Result<Instance, String> {
    if setting.memory_mb.is_some() {
        // Pages that an earlier start has read are in the cache of the system, and no longer in a
        // group.
        folder::forget(setting.folder);
    }
    if setting.counts.is_some() && !matches!(which, Which::Posthaste | Which::Build(_) | Which::Arm(_)) {
        return Err(format!(
            "{} starts processes that change users and end with their sessions: cachegrind does not follow them",
            which.name()
        ));
    }
    if let Some(nodes) = &setting.nodes {
        return start_nodes(which, setting, nodes);
    }
    match which {
        Which::Posthaste => posthaste::start(setting, ""),
        Which::Dovecot(flavour) => with_other_ports(|| dovecot::start(setting, *flavour)),
        Which::Cyrus => with_other_ports(|| cyrus::start(setting)),
        Which::Courier => with_other_ports(|| courier::start(setting)),
        Which::Build(build) => {
            let setting = Setting { posthaste: Some(build.program.clone()), ..setting.clone() };
            let mut instance = posthaste::start(&setting, "")?;
            instance.facts.name.clone_from(&build.name);
            Ok(instance)
        }
        Which::Arm(arm) => {
            let posthaste = arm.program.clone().or_else(|| setting.posthaste.clone());
            let mut instance =
                posthaste::start(&Setting { posthaste, ..setting.clone() }, &arm.arm.settings)?;
            instance.facts.name.clone_from(&arm.name);
            Ok(instance)
        }
        Which::Running(running) => match (setting.cpus, setting.memory_mb) {
            (None, None) => Ok(of_running(running)),
            _ => Err("a server that already runs is not given other processors or memory".into()),
        },
    }
}

/// Starts a cluster, or looks at so many nodes of one that runs.
fn start_nodes(which: &Which, setting: &Setting, nodes: &Nodes) -> Result<Instance, String> {
    match which {
        Which::Posthaste => cluster::start(setting, nodes),
        Which::Build(build) => {
            let setting = Setting { posthaste: Some(build.program.clone()), ..setting.clone() };
            let mut instance = cluster::start(&setting, nodes)?;
            instance.facts.name.clone_from(&build.name);
            Ok(instance)
        }
        Which::Running(running) => {
            let running = running.first(nodes.count);
            let mut instance = of_running(&running);
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

fn of_running(running: &Running) -> Instance {
    Instance {
        imap: running.imap.clone(),
        imaps: running.imap.clone(),
        pop3: running.pop3.clone(),
        send: running.send.clone(),
        routes: None,
        import: None,
        nodes: running.nodes.iter().map(Node::of_imap).collect(),
        parts: if running.more.is_empty() { Vec::new() } else { parts(ACCESS, &running.watched()) },
        pid: running.pid,
        agent: running.agent.clone(),
        cgroup: None,
        figures: None,
        facts: ServerFacts {
            name: running.name.clone(),
            version: format!(
                "already running at {}:{}",
                running.imap.endpoint.host, running.imap.endpoint.port
            ),
            ..ServerFacts::default()
        },
        _child: None,
    }
}

#[cfg(test)]
mod tests {
    use super::instance::loopback;
    use super::*;

    #[test]
    fn a_server_whose_port_was_taken_is_started_again_and_not_for_ever() {
        let starts = std::cell::Cell::new(0);
        let start = |fails: u32| {
            starts.set(0);
            with_other_ports(|| {
                starts.set(starts.get() + 1);
                match starts.get() > fails {
                    true => Ok(of_running(&Running {
                        name: "x".into(),
                        imap: loopback("imap", 1)?,
                        nodes: Vec::new(),
                        pop3: None,
                        send: None,
                        pid: None,
                        agent: None,
                        more: Vec::new(),
                    })),
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
        assert_eq!("dovecot".parse::<Which>(), Ok(Which::Dovecot(Flavour::Sdbox)));
        assert_eq!("courier".parse::<Which>().map(|which| which.name().to_owned()), Ok("Courier".to_owned()));
        assert_eq!("dovecot-maildir".parse::<Which>().unwrap().name(), "Dovecot Maildir");
        let Which::Running(r) = "mine=imaps://mail:993,pop3://mail,lmtp://mail:24,pid=7".parse().unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (r.name.as_str(), r.imap.endpoint.port, r.send.unwrap().endpoint.port, r.pid),
            ("mine", 993, 24, Some(7))
        );
        assert_eq!(r.pop3.unwrap().endpoint.port, 110);
        let Which::Running(nodes) = "mine=imap://a,imap://b,agent=a:9200".parse().unwrap() else { panic!() };
        assert_eq!((nodes.nodes[0].endpoint.host.as_str(), nodes.agent.as_deref()), ("b", Some("a:9200")));
        assert_eq!(nodes.targets().count(), 2);
        assert!(nodes.more.is_empty());
        let Which::Running(nodes) =
            "mine=imap://a,imap://b,imap://c,pid=7,agent=a:9,agent=b:9,pid=8,agent=c:9".parse().unwrap()
        else {
            panic!()
        };
        let each: Vec<_> = nodes.watched().into_iter().map(|w| (w.pid, w.agent.unwrap())).collect();
        let expected = [(Some(7), "a:9"), (Some(8), "b:9"), (None, "c:9")];
        assert_eq!(each, expected.map(|(pid, agent)| (pid, agent.to_owned())));
        let two = nodes.first(2);
        assert_eq!((two.nodes.len(), two.watched().len()), (1, 2));
        let build = Which::Build(Build { name: "new".into(), program: "./posthaste".into() });
        assert_eq!("new=./posthaste".parse(), Ok(build));
        // The last of them does not win.
        for two in ["x=imap://h,lmtp://h:24,submission://h:587", "x=imap://h,pop3://h,pop3://g"] {
            let error = two.parse::<Which>().unwrap_err();
            assert!(error.contains("`x` has two addresses"), "{error}");
        }
        for wrong in [
            "dovecote",
            "x=smtp://h",
            "=imap://h",
            "x=imap://h,pid=y",
            "x=imap://h,agent=h",
            "x=imap://h,host=h:1",
            "=/bin/posthaste",
        ] {
            assert!(wrong.parse::<Which>().is_err(), "{wrong}");
        }
    }
}
