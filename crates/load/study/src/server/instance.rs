//! A server that was started, and how.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use posthaste_load_drive::{Accounts, Target};
use posthaste_load_measure::{Figures, WatchTarget};
use posthaste_load_null_server::Relay;
use posthaste_load_results::ServerFacts;
use posthaste_load_workload::{Protocol, Workload};

use super::cassandra::Cassandra;
use super::process::{Child, output};
use super::watched::Watched;

/// The password of every account of a study.
pub const PASSWORD: &str = "measured";

/// The setting in which a server is started.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// A folder of its own; it stays from start to start.
    pub folder: &'a Path,
    /// Every account it must know.
    pub accounts: &'a [Accounts],
    /// Processors it may use.
    pub cpus: Option<u32>,
    /// Memory that its control group may use, the system's cache of its files included.
    pub memory_mb: Option<u32>,
    /// The binary of ours.
    pub posthaste: Option<PathBuf>,
    /// Run it under cachegrind, which writes its counts to this file.
    pub counts: Option<PathBuf>,
    /// The other server, to which mail for [`ELSEWHERE`] is sent on.
    pub sink: Option<SocketAddr>,
    /// Users send by submission, where the server offers it.
    pub submits: bool,
    /// The number of nodes, if the server is a cluster.
    pub nodes: Option<Nodes>,
}

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The number of nodes.
    pub count: u32,
    /// The Cassandra that they share.
    pub cassandra: Cassandra,
}

/// The domain of the other server.
pub const ELSEWHERE: &str = "elsewhere.example";

/// The addresses of a server, as far as it offers the protocols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IMAP without TLS.
    pub imap: Option<Target>,
    /// IMAP with TLS.
    pub imaps: Option<Target>,
    /// POP3 without TLS.
    pub pop3: Option<Target>,
    /// POP3 with TLS.
    pub pop3s: Option<Target>,
    /// The address at which mail from outside arrives: LMTP or SMTP.
    pub deliver: Option<Target>,
    /// The address to which users send mail, without TLS.
    pub submission: Option<Target>,
    /// The address to which users send mail, with TLS.
    pub submissions: Option<Target>,
    /// SMTP, for mail that it sends on to [`ELSEWHERE`].
    pub routes: Option<Target>,
    /// Whether it sends on what users submit for [`ELSEWHERE`].
    pub sends_on: bool,
}

impl Addresses {
    /// A server of which one address of IMAP is known. The address says whether it is with TLS.
    pub fn of_imap(imap: &Target) -> Self {
        Self { imap: Some(imap.clone()), imaps: Some(imap.clone()), ..Self::default() }
    }

    /// The address at which users of a workload read mail.
    pub fn reading(&self, workload: &Workload) -> Option<&Target> {
        let at = match (workload.protocol, workload.tls) {
            (Protocol::Imap, true) => &self.imaps,
            (Protocol::Imap, false) => &self.imap,
            (Protocol::Pop3, true) => &self.pop3s,
            (Protocol::Pop3, false) => &self.pop3,
        };
        at.as_ref()
    }

    /// The address to which users of a workload send mail by submission.
    pub fn submitting(&self, workload: &Workload) -> Option<&Target> {
        if workload.tls { self.submissions.as_ref() } else { self.submission.as_ref() }
    }
}

/// A server that accepts connections.
pub struct Instance {
    /// The addresses of the server.
    pub at: Addresses,
    /// The server's own import, with which it is filled.
    pub import: Option<Import>,
    /// The next host of a server that only passes on what users submit.
    pub relay: Option<Relay>,
    /// Other nodes that serve the same accounts.
    pub nodes: Vec<Addresses>,
    /// The parts of a cluster, whose cost is measured apart. Empty for one server.
    pub parts: Vec<Part>,
    /// The root of its process tree.
    pub pid: Option<u32>,
    /// The agent on its machine.
    pub agent: Option<String>,
    /// The server's control group, if it was given one.
    pub cgroup: Option<PathBuf>,
    /// The place where the server gives its own figures, if it does.
    pub figures: Option<Figures>,
    /// The server's facts for the report.
    pub facts: ServerFacts,
    /// Stops it when dropped.
    pub(super) _child: Option<Child>,
}

impl Instance {
    /// A server that runs as one process tree of ours, and has no other parts.
    pub(super) fn of_child(at: Addresses, child: Child, facts: ServerFacts) -> Self {
        Self {
            at,
            import: None,
            relay: None,
            nodes: Vec::new(),
            parts: Vec::new(),
            pid: Some(child.pid()),
            agent: None,
            cgroup: child.cgroup(),
            figures: None,
            facts,
            _child: Some(child),
        }
    }

    /// The target that a run watches. Agents require their token. `data` is the mail folder of
    /// one server on this machine.
    pub fn watch(&self, token: Option<&str>, data: Option<&Path>) -> WatchTarget {
        if self.parts.is_empty() {
            let (agent, cgroup) = (self.agent.clone(), self.cgroup.clone());
            return Watched { pid: self.pid, agent, cgroup }.target(token, data);
        }
        let part = |part: &Part| (part.name.clone(), part.watched.target(token, None));
        WatchTarget::Parts(self.parts.iter().map(part).collect())
    }
}

/// A part of a cluster.
pub struct Part {
    /// The name of the part: what it is, and its number.
    pub name: String,
    /// The processes of the part.
    pub watched: Watched,
    /// Stops it when dropped.
    pub(super) _child: Option<Child>,
}

/// The parts that nobody starts here. Numbers are those of the processes that are watched.
pub(super) fn parts(what: &str, watched: &[Watched]) -> Vec<Part> {
    let part = |(at, watched): (usize, &Watched)| {
        let name = format!("{what} {}", at + 1);
        watched.is_something().then(|| Part { name, watched: watched.clone(), _child: None })
    };
    watched.iter().enumerate().filter_map(part).collect()
}

/// The import of a running Posthaste.
#[derive(Clone, Debug)]
pub struct Import {
    pub(super) program: PathBuf,
    pub(super) config: PathBuf,
    pub(super) data: String,
}

impl Import {
    /// Imports a Maildir and the Maildirs in it into an account.
    ///
    /// # Errors
    /// The command fails: its own words.
    pub fn run(&self, account: &str, maildir: &Path) -> Result<(), String> {
        let [program, config, maildir] =
            [&self.program, &self.config, maildir].map(|p| p.display().to_string());
        let words =
            [&program, "import", "--config", &config, "--data", &self.data, "--account", account, &maildir];
        output(&words).map(drop)
    }
}

/// A target on loopback.
pub(super) fn loopback(scheme: &str, port: u16) -> Result<Target, String> {
    format!("{scheme}://127.0.0.1:{port}").parse()
}

/// The words before a command that keep it to the first processors.
pub(super) fn pinned(cpus: Option<u32>) -> Vec<String> {
    cpus.map_or_else(Vec::new, |n| vec!["taskset".into(), "-c".into(), format!("0-{}", n.max(1) - 1)])
}
