//! The options of a study, besides the study itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use posthaste_load_results::StudyResult;

use crate::Length;
use crate::file::Study;
use crate::server::{Cassandra, ServerChoice};

/// The options besides the study itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers, in order.
    pub servers: Vec<ServerChoice>,
    /// The folder in which servers keep their data.
    pub folder: PathBuf,
    /// Whether the data stays. Else the data of a server is removed before the next server starts.
    pub keep: bool,
    /// The binary of Posthaste.
    pub posthaste: Option<PathBuf>,
    /// Processors that the servers may use. The instrument uses the others.
    pub server_cpus: Option<u32>,
    /// The token that agents of running servers know.
    pub agent_token: Option<String>,
    /// The Cassandra that nodes share, in a study that sweeps nodes.
    pub cassandra: Cassandra,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Threads of the generator.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Show progress.
    pub live: bool,
}

impl Options {
    /// Measures these servers with one thread, and shows no progress.
    pub fn new(servers: Vec<ServerChoice>, folder: PathBuf) -> Self {
        Self {
            servers,
            folder,
            keep: false,
            posthaste: None,
            server_cpus: None,
            agent_token: None,
            cassandra: Cassandra::default(),
            command: Vec::new(),
            threads: 1,
            seed: 1,
            live: false,
        }
    }
}

/// The course of a study.
pub struct Course<'a> {
    /// The result to continue from; [`may_resume`](crate::may_resume) says whether it is one.
    pub earlier: Option<StudyResult>,
    /// Is called with everything measured so far, after each point.
    pub save: Box<dyn FnMut(&StudyResult) + 'a>,
    /// The longest time of the study: no point begins that would end later.
    pub max_time: Option<Duration>,
}

/// The settings on which figures depend, by the name of the flag.
pub(crate) fn settings(study: &Study, options: &Options) -> BTreeMap<String, String> {
    let length = match study.length {
        Length::Full => "full",
        Length::Quick => "quick",
        Length::Shortest => "shortest",
    };
    let times = &study.times;
    let time = |time: Duration| format!("{}s", time.as_secs_f64());
    [
        ("length", length.to_owned()),
        ("--ramp", time(times.ramp)),
        ("--warmup", time(times.warmup)),
        ("--measure", time(times.measure)),
        ("--seed", options.seed.to_string()),
        ("--threads", options.threads.to_string()),
        ("--server-cpus", options.server_cpus.map_or("all".to_owned(), |cpus| cpus.to_string())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn the_settings_name_flags() {
        let study = load("koka", Length::Quick).unwrap();
        let options = Options::new(Vec::new(), "x".into());
        let settings = settings(&study, &options);
        let of = |name: &str| settings.get(name).map(String::as_str);
        assert_eq!(
            [of("length"), of("--measure"), of("--server-cpus")],
            [Some("quick"), Some("6s"), Some("all")]
        );
    }
}
