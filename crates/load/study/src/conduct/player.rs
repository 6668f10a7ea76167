//! The servers that take turns at the points of a study.

use std::path::PathBuf;

use super::work::Work;
use crate::server::ServerChoice;

/// A server that takes part.
pub(super) struct Player<'a> {
    pub(super) which: &'a ServerChoice,
    pub(super) folder: PathBuf,
    /// Whether its mailboxes are filled.
    pub(super) filled: bool,
    /// The reason why this server cannot be measured.
    pub(super) failed: Option<String>,
}

impl<'a> Player<'a> {
    /// The servers of a study.
    pub(super) fn all(work: &Work<'a>) -> Vec<Self> {
        let player = |(number, which)| {
            let folder = work.folder(number, which);
            Self { which, folder, filled: false, failed: None }
        };
        work.options.servers.iter().enumerate().map(player).collect()
    }
}
