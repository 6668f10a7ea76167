//! A running study, and its options.

use std::path::PathBuf;

use posthaste_imap_client::net::Dialer;
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
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Threads of the generator.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Show progress.
    pub live: bool,
}

/// A study under way.
pub(super) struct Work<'a> {
    pub(super) study: &'a Study,
    pub(super) options: &'a Options,
    pub(super) plan: &'a Plan,
    pub(super) dialer: Dialer,
    pub(super) points: Vec<StudyPoint>,
    pub(super) interrupted: bool,
}

impl Work<'_> {
    /// Shows progress.
    pub(super) fn say(&self, what: &str) {
        if self.options.live {
            eprintln!("study {}: {what}", self.study.name);
        }
    }
}
