//! The nodes of a cluster in a study that sweeps them: what a start gets, and what a reader must
//! know.

use crate::file::Study;
use crate::options::Options;
use crate::plan::Stage;
use crate::server::{self, Nodes, ServerChoice};

/// The nodes of a stage, if nodes are swept.
pub(super) fn nodes(stage: &Stage, options: &Options) -> Option<Nodes> {
    stage.nodes.map(|count| Nodes { count, cassandra: options.cassandra.clone() })
}

/// Whether a study can begin: the other programs that its servers need are there.
///
/// # Errors
/// What is missing, and the remedy.
pub fn may_begin(study: &Study, options: &Options) -> Result<(), String> {
    let cassandra = &options.cassandra;
    match study.nodes_max() {
        Some(_) if options.server_cpus.is_some() => Err(
            "--server-cpus does not hold for Cassandra, so a study that sweeps `nodes` does not take it; start Cassandra \
             by taskset"
                .into(),
        ),
        Some(most) => server::ready(&options.servers, most, cassandra, options.posthaste.as_deref()),
        None if *cassandra == server::Cassandra::default() => Ok(()),
        None => Err(format!(
            "--cassandra is for studies that sweep `nodes`, such as scale-out; {} does not",
            study.name
        )),
    }
}

/// The conditions that limit the figures of a cluster.
pub(super) fn conditions(study: &Study, options: &Options, cpus: u32) -> Vec<String> {
    let mut caveats = Vec::new();
    if study.nodes_max().is_none() {
        return caveats;
    }
    let starts = options.servers.iter().any(|which| !matches!(which, ServerChoice::Running(_)));
    let store_is_here = options.cassandra.place.as_ref().is_some_and(|place| place.is_here());
    if starts {
        let store = if store_is_here { ", and so does Cassandra" } else { "" };
        caveats.push(format!(
            "all nodes run on this machine and share its {cpus} processors{store}: the speed-up is not that of nodes with a \
             machine each"
        ));
    }
    if options.cassandra.watched.is_empty() {
        caveats.push(
            "the CPU of Cassandra is not measured: name its processes by --cassandra-pid, or agents by --cassandra-agent"
                .into(),
        );
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Cassandra, Watched};
    use crate::{Length, load};

    #[test]
    fn a_study_begins_with_what_it_needs_and_no_more() {
        let options = || Options::new(vec!["x=imap://a,imap://b".parse().unwrap()], "x".into());
        let refused = |study: &str, cassandra: Cassandra| {
            may_begin(&load(study, Length::Quick).unwrap(), &Options { cassandra, ..options() })
        };
        let some = Cassandra { place: None, watched: vec![Watched::process(7)] };
        assert!(refused("koka", some).unwrap_err().contains("koka does not"));
        assert_eq!(refused("koka", Cassandra::default()), Ok(()));
        assert!(refused("scale-out", Cassandra::default()).unwrap_err().contains("up to 3 nodes"));
        let pinned = Options { server_cpus: Some(1), ..options() };
        let said = may_begin(&load("scale-out", Length::Quick).unwrap(), &pinned).unwrap_err();
        assert!(said.contains("--server-cpus does not hold"), "{said}");
    }

    #[test]
    fn the_report_names_shared_resources_and_unmeasured_ones() {
        let said = |study: &str, server: &str, cassandra: Cassandra| {
            let study = load(study, Length::Quick).unwrap();
            let options = Options::new(vec![server.parse().unwrap()], "x".into());
            conditions(&study, &Options { cassandra, ..options }, 2).join("\n")
        };
        let place = Some("127.0.0.1:19042".parse().unwrap());
        let here = Cassandra { place, watched: vec![Watched::process(7)] };
        let local = said("scale-out", "posthaste", here);
        assert!(
            local.contains("its 2 processors, and so does Cassandra") && !local.contains("not measured"),
            "{local}"
        );
        let away = said("scale-out", "x=imap://a,imap://b", Cassandra::default());
        assert!(!away.contains("processors") && away.contains("--cassandra-agent"), "{away}");
        assert_eq!(said("koka", "posthaste", Cassandra::default()), "");
    }
}
