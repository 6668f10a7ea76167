//! Points with several kinds of users. Each kind has a part of the users, and accounts of its
//! own.

use std::collections::BTreeMap;

use posthaste_load_workload::{Mix, Workload};

use crate::file::Study;
use crate::kinds::PlannedKind;
use crate::plan::{Plan, PlannedPoint};

impl Study {
    /// The mix by its number among the workloads; `None` where all users do the same.
    fn mix(&self, workload: usize) -> Option<&Mix> {
        self.mixes.get(workload).filter(|mix| mix.kinds.len() > 1)
    }
}

impl PlannedPoint {
    /// The workload of the users of one kind at this point; `None` where all users do the same.
    pub(crate) fn workload_of(&self, study: &Study, kind: usize) -> Option<Workload> {
        let kind = study.mix(self.workload)?.kinds.get(kind)?;
        Some(self.adapted(kind.workload.clone()))
    }
}

impl Plan {
    /// The kinds of users of a point. Their populations are made if there are none like them. It
    /// is empty where all users do the same.
    pub(crate) fn kinds(
        &mut self,
        study: &Study,
        workload: usize,
        at: &BTreeMap<String, f64>,
    ) -> Vec<PlannedKind> {
        let clients = at.get("clients").map_or(0, |clients| *clients as u32);
        let mix = study.mix(workload);
        let Some((mix, split)) = mix.and_then(|mix| Some((mix, mix.split(clients)?))) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        for (number, (kind, clients)) in mix.kinds.iter().zip(split).enumerate() {
            let (prefix, contents) = self.contents(study, &kind.workload, at);
            let contents = contents.with_shares(kind.workload.shares);
            // One more account, to which a single user sends.
            let recipient = u32::from(kind.workload.sends_to_others());
            let count = most(study, mix, number).max(1 + recipient);
            let population = self.filled_with(&format!("mix{workload}-{number}-{prefix}"), count, contents);
            kinds.push(PlannedKind { clients, population });
        }
        kinds
    }
}

/// The most users of a kind at any point of the study.
fn most(study: &Study, mix: &Mix, kind: usize) -> u32 {
    let all = study.sweeps.iter().filter_map(|sweep| sweep.get("clients")).flatten();
    let of = |clients: &f64| mix.split(*clients as u32)?.get(kind).copied();
    all.filter_map(of).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    #[test]
    fn each_kind_of_a_mix_has_its_users_and_accounts() {
        let study = load("online-and-cached", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        let point = &plan.stages[0].points[0];
        assert_eq!(point.name(&study), "online-and-cached-large");
        let kinds: Vec<(u32, u32, String)> = (0..2)
            .map(|kind| {
                let planned = point.kinds[kind];
                let accounts = plan.populations[planned.population].count;
                (planned.clients, accounts, point.workload_of(&study, kind).unwrap().name)
            })
            .collect();
        assert_eq!(kinds, [(6, 6, "outlook-express".to_owned()), (2, 2, "inbox-sync".to_owned())]);
        let populations = |of: &PlannedPoint| [of.kinds[0].population, of.kinds[1].population];
        let names = populations(point).map(|at| plan.populations[at].accounts.as_str());
        assert_eq!(names, ["mix0-0-items1000-{0..5}@example.org", "mix0-1-items1000-{0..1}@example.org"]);
        // Each size of the folder has accounts of its own.
        assert_eq!(plan.populations.len(), 2 * study.sweeps[0]["items"].len());
        let said = plan.describe(&study, &["posthaste".into()]);
        assert!(said.contains("online-and-cached-large") && said.contains("mix0-1-items1000-"), "{said}");
    }

    #[test]
    fn a_workload_alone_has_no_kinds() {
        let study = load("koka", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        let mut points = plan.stages.iter().flat_map(|stage| &stage.points);
        assert!(points.all(|point| point.kinds.is_empty() && point.workload_of(&study, 0).is_none()));
        assert_eq!(study.mixes.len(), study.workloads.len());
    }

    #[test]
    fn a_mix_keeps_the_files_of_all_its_kinds() {
        let study = load("online-and-cached", Length::Full).unwrap();
        let head = &study.workloads[0];
        for kind in &study.mixes[0].kinds {
            assert!(head.source.contains(&kind.workload.source), "{}", kind.workload.name);
        }
        assert!(head.source.starts_with(&study.mixes[0].source));
    }

    #[test]
    fn a_mix_refuses_what_is_of_one_workload() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        let said = |from: &str, to: &str| {
            let text = include_str!("../studies/online-and-cached.toml").replacen(from, to, 1);
            std::fs::write(&file, text).unwrap();
            load(file.to_str().unwrap(), Length::Full).unwrap_err().to_string()
        };
        assert!(said("clients = [8]", "clients = [1]").contains("as many `clients`"));
        for (to, what) in [
            ("each_transaction = true\nrounds = 3", "`each_transaction`"),
            ("rounds = 3\nsimulate = { clients = 1, transactions_each = 1 }", "`simulate`"),
            ("rounds = 3\narm = [{ name = \"a\" }]", "arms"),
            ("rounds = 3\nsubmission = [\"online-and-cached-large\"]", "`submission`"),
        ] {
            assert!(said("rounds = 3", to).contains(what), "{to}: {}", said("rounds = 3", to));
        }
    }
}
