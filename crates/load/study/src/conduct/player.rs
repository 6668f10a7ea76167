//! The servers that take turns at the points of a study.

use std::path::PathBuf;

use posthaste_load_results::ServerFacts;

use super::work::Work;
use crate::server::Which;

/// A server that takes part.
pub(super) struct Player<'a> {
    pub(super) which: &'a Which,
    pub(super) folder: PathBuf,
    pub(super) facts: Option<ServerFacts>,
    /// Why nothing of it can be measured.
    pub(super) failed: Option<String>,
}

impl<'a> Player<'a> {
    /// All servers of a study.
    pub(super) fn all(work: &Work<'a>) -> Vec<Self> {
        let player = |(number, which)| {
            let folder = work.folder(number, which);
            Self { which, folder, facts: None, failed: None }
        };
        work.options.servers.iter().enumerate().map(player).collect()
    }

    /// Its facts for a report.
    pub(super) fn into_facts(self) -> ServerFacts {
        let (name, why) = (self.which.name().into(), self.failed.unwrap_or_default());
        self.facts.unwrap_or(ServerFacts { name, version: why, ..ServerFacts::default() })
    }
}
