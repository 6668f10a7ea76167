//! The processes whose cost is measured: of a server, or of one part of a cluster.

use std::path::{Path, PathBuf};

use posthaste_load_measure::WatchTarget;

/// The processes of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The root of their tree, on this machine or on the agent's.
    pub pid: Option<u32>,
    /// The agent on their machine.
    pub agent: Option<String>,
    /// The control group of the processes, if they were given one.
    pub cgroup: Option<PathBuf>,
}

impl Watched {
    /// A process of this machine.
    pub fn process(pid: u32) -> Self {
        Self { pid: Some(pid), ..Self::default() }
    }

    /// A server that an agent watches.
    pub fn by_agent(address: &str) -> Self {
        Self { agent: Some(address.to_owned()), ..Self::default() }
    }

    /// Whether there is anything to watch.
    pub fn is_something(&self) -> bool {
        self.pid.is_some() || self.agent.is_some()
    }

    /// The target that a run watches. An agent requires its token; `data` is the mail folder on
    /// this machine.
    pub fn target(&self, token: Option<&str>, data: Option<&Path>) -> WatchTarget {
        match (&self.agent, token, self.pid) {
            (Some(address), Some(token), pid) => {
                WatchTarget::Agent { address: address.clone(), token: token.to_owned(), pid }
            }
            (_, _, Some(pid)) => {
                let data = data.map(Path::to_path_buf);
                WatchTarget::Local { pid: Some(pid), cgroup: self.cgroup.clone(), data }
            }
            (_, _, None) => WatchTarget::Nothing,
        }
    }
}
