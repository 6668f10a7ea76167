//! A server's first report of itself: its version and its settings.

use posthaste_load_results::ServerFacts;

use super::nodes::nodes;
use super::work::OtherServer;
use crate::file::Study;
use crate::options::Options;
use crate::plan::{Plan, Stage};
use crate::server::{self, ServerChoice, Setting};

/// Starts a server in a folder of its own, without accounts, as for its first point. It is stopped
/// at once.
///
/// # Errors
/// It does not start: why.
pub(crate) fn first_facts(
    study: &Study,
    options: &Options,
    plan: &Plan,
    which: &ServerChoice,
) -> Result<ServerFacts, String> {
    let other = OtherServer::for_study(std::slice::from_ref(which), study)?;
    let plain = Stage::default();
    // Where the store is put back, servers are filled without limits.
    let stage = if study.put_back { &plain } else { plan.stages.first().unwrap_or(&plain) };
    let all = options.server_cpus.filter(|_| !matches!(which, ServerChoice::Running(_)));
    let folder = options.folder.join("first");
    let started = server::start(
        which,
        &Setting {
            folder: &folder,
            accounts: &[],
            cpus: stage.cpus.or(all),
            memory_mb: stage.memory_mb,
            posthaste: options.posthaste.clone(),
            counts: None,
            sink: other.map(|other| other.address),
            submits: !study.submission.is_empty(),
            nodes: nodes(stage, options),
        },
    );
    let facts = started.map(|instance| instance.facts.clone());
    // The folder is in one that is removed at the end.
    let _ = std::fs::remove_dir_all(&folder);
    facts.map_err(|why| format!("{} does not start: {why}", which.name()))
}
