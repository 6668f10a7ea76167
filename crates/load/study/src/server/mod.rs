//! Servers under test: started on loopback with settings that are printed, stopped when dropped; or
//! already running.

mod cyrus;
mod dovecot;
mod folder;
mod group;
mod posthaste;
mod process;

use posthaste_load_drive::Accounts;
use posthaste_load_drive::{Scheme, Target};
use posthaste_load_results::ServerFacts;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use process::Child;

/// The password of every account of a study.
pub const PASSWORD: &str = "measured";

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Ours, by its binary.
    Posthaste,
    /// Debian's Dovecot.
    Dovecot,
    /// Debian's Cyrus.
    Cyrus,
    /// One that runs: its name, addresses and process.
    Running(Running),
}

/// A server that already runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name in plots.
    pub name: String,
    /// Where mail is read.
    pub imap: Target,
    /// Where mail is sent, if it can be.
    pub send: Option<Target>,
    /// The root of its process tree, if it is on this machine.
    pub pid: Option<u32>,
}

impl FromStr for Which {
    type Err = String;

    /// `posthaste`, `dovecot`, `cyrus`, or `NAME=imap://HOST:PORT[,lmtp://HOST:PORT][,pid=N]`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "posthaste" => return Ok(Self::Posthaste),
            "dovecot" => return Ok(Self::Dovecot),
            "cyrus" => return Ok(Self::Cyrus),
            _ => {}
        }
        let wrong = || {
            format!(
                "`{text}` is not posthaste, dovecot, cyrus or NAME=imap://HOST:PORT[,lmtp://HOST:PORT][,pid=N]"
            )
        };
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let mut parts = rest.split(',');
        let imap: Target = parts.next().ok_or_else(wrong)?.parse()?;
        if imap.scheme != Scheme::Imap || name.is_empty() {
            return Err(wrong());
        }
        let mut running = Running { name: name.to_owned(), imap, send: None, pid: None };
        for part in parts {
            match part.strip_prefix("pid=") {
                Some(pid) => running.pid = Some(pid.parse().map_err(|_| wrong())?),
                None => running.send = Some(part.parse()?),
            }
        }
        Ok(Self::Running(running))
    }
}

impl Which {
    /// Its name in plots.
    pub fn name(&self) -> &str {
        match self {
            Self::Posthaste => "Posthaste",
            Self::Dovecot => "Dovecot",
            Self::Cyrus => "Cyrus",
            Self::Running(running) => &running.name,
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// A folder of its own; it stays from start to start.
    pub folder: &'a Path,
    /// Every account it must know.
    pub accounts: &'a [Accounts],
    /// Processors it may use.
    pub cpus: Option<u32>,
    /// Memory it may use for caches.
    pub memory_mb: Option<u32>,
    /// The binary of ours.
    pub posthaste: Option<PathBuf>,
}

/// A server that accepts connections.
pub struct Instance {
    /// IMAP without TLS.
    pub imap: Target,
    /// IMAP with TLS.
    pub imaps: Target,
    /// LMTP.
    pub send: Option<Target>,
    /// The root of its process tree.
    pub pid: Option<u32>,
    /// Its control group, if it was given one.
    pub cgroup: Option<PathBuf>,
    /// What the report says of it.
    pub facts: ServerFacts,
    /// Stops it when dropped.
    _child: Option<Child>,
}

/// Starts a server, or looks at one that runs.
pub fn start(which: &Which, setting: &Setting) -> Result<Instance, String> {
    match which {
        Which::Posthaste => posthaste::start(setting),
        Which::Dovecot => dovecot::start(setting),
        Which::Cyrus => cyrus::start(setting),
        Which::Running(running) => match (setting.cpus, setting.memory_mb) {
            (None, None) => Ok(of_running(running)),
            _ => Err("a server that already runs is not given other processors or memory".into()),
        },
    }
}

fn of_running(running: &Running) -> Instance {
    Instance {
        imap: running.imap.clone(),
        imaps: running.imap.clone(),
        send: running.send.clone(),
        pid: running.pid,
        cgroup: None,
        facts: ServerFacts {
            name: running.name.clone(),
            version: format!(
                "already running at {}:{}",
                running.imap.endpoint.host, running.imap.endpoint.port
            ),
            settings: String::new(),
        },
        _child: None,
    }
}

/// A target on loopback.
fn loopback(scheme: &str, port: u16) -> Result<Target, String> {
    format!("{scheme}://127.0.0.1:{port}").parse()
}

/// The words before a command that keep it to the first processors.
fn pinned(cpus: Option<u32>) -> Vec<String> {
    cpus.map_or_else(Vec::new, |n| vec!["taskset".into(), "-c".into(), format!("0-{}", n.max(1) - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_by_name() {
        assert_eq!("dovecot".parse::<Which>(), Ok(Which::Dovecot));
        let Which::Running(r) = "mine=imaps://mail:993,lmtp://mail:24,pid=7".parse().unwrap() else {
            panic!()
        };
        assert_eq!(
            (r.name.as_str(), r.imap.endpoint.port, r.send.unwrap().endpoint.port, r.pid),
            ("mine", 993, 24, Some(7))
        );
        for wrong in ["dovecote", "x=smtp://h", "=imap://h", "x=imap://h,pid=y"] {
            assert!(wrong.parse::<Which>().is_err(), "{wrong}");
        }
    }
}
