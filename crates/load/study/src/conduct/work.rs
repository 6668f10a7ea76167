//! A running study, and its options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use posthaste_imap_client::net::Dialer;
use posthaste_load_null_server::{Taken, sink};
use posthaste_load_results::StudyPoint;

use crate::file::Study;
use crate::plan::Plan;
use crate::server::Which;

/// The options besides the study itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers, in order.
    pub servers: Vec<Which>,
    /// Where servers keep their data.
    pub folder: PathBuf,
    /// Whether it stays; otherwise each server's data goes before the next one's comes.
    pub keep: bool,
    /// The binary of ours.
    pub posthaste: Option<PathBuf>,
    /// Processors that servers are kept to; the instrument gets the others.
    pub server_cpus: Option<u32>,
    /// The token that agents of running servers know.
    pub agent_token: Option<String>,
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
    pub fn new(servers: Vec<Which>, folder: PathBuf) -> Self {
        Self {
            servers,
            folder,
            keep: false,
            posthaste: None,
            server_cpus: None,
            agent_token: None,
            command: Vec::new(),
            threads: 1,
            seed: 1,
            live: false,
        }
    }
}

/// A study under way.
pub(super) struct Work<'a> {
    pub(super) study: &'a Study,
    pub(super) options: &'a Options,
    pub(super) plan: &'a Plan,
    pub(super) dialer: Dialer,
    pub(super) points: Vec<StudyPoint>,
    pub(super) interrupted: bool,
    /// The server that takes mail for other domains, if a study has such mail.
    pub(super) other: Option<OtherServer>,
    /// The bytes of the filled store on the disk, if it is put back.
    pub(super) filled_bytes: Option<u64>,
}

/// A server of another domain: it takes mail and keeps none.
pub(super) struct OtherServer {
    pub(super) address: SocketAddr,
    pub(super) taken: Arc<Taken>,
}

impl OtherServer {
    /// Starts one, if any server of the study gets mail for it.
    pub(super) fn for_study(servers: &[Which]) -> Result<Option<Self>, String> {
        if !servers.iter().any(|which| which.mail().outside > 0.0) {
            return Ok(None);
        }
        let (address, taken) = sink("127.0.0.1:0").map_err(|e| format!("the other server: {e}"))?;
        Ok(Some(Self { address, taken }))
    }
}

impl Work<'_> {
    /// Shows progress.
    pub(super) fn say(&self, what: &str) {
        if self.options.live {
            eprintln!("study {}: {what}", self.study.name);
        }
    }
}
