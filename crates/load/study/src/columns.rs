//! The columns of a study: each server, and each Posthaste in every arm.

use std::path::PathBuf;

use crate::arms::{Arm, InArm};
use crate::file::Study;
use crate::server::ServerChoice;

/// The servers of a study: each Posthaste in every arm, others with those that the study measures
/// beside them.
pub fn expand(study: &Study, servers: &[ServerChoice]) -> Vec<ServerChoice> {
    let servers = &with_others(study, servers);
    if study.arms.is_empty() {
        return servers.clone();
    }
    let ours = |which: &&ServerChoice| matches!(which, ServerChoice::Posthaste | ServerChoice::Build(_));
    let several = servers.iter().filter(ours).count() > 1;
    let in_arms = |which: &ServerChoice, program: Option<PathBuf>| {
        let name = |arm: &Arm| match several {
            true => format!("{}: {}", which.name(), arm.name),
            false => arm.name.clone(),
        };
        let arm = |arm: &Arm| {
            ServerChoice::Arm(InArm { name: name(arm), program: program.clone(), arm: arm.clone() })
        };
        study.arms.iter().map(arm).collect::<Vec<_>>()
    };
    servers
        .iter()
        .flat_map(|which| match which {
            ServerChoice::Posthaste => in_arms(which, None),
            ServerChoice::Build(build) => in_arms(which, Some(build.program.clone())),
            other => vec![other.clone()],
        })
        .collect()
}

/// The servers, each once, with those beside them.
fn with_others(study: &Study, servers: &[ServerChoice]) -> Vec<ServerChoice> {
    let mut all: Vec<ServerChoice> = Vec::new();
    for which in servers {
        let others = study.beside.iter().filter(|(one, _)| one == which).flat_map(|(_, others)| others);
        for new in [which].into_iter().chain(others) {
            if !all.contains(new) {
                all.push(new.clone());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    #[test]
    fn every_posthaste_has_all_arms_and_others_one_column() {
        let study = load("storage-format", Length::Quick).unwrap();
        let servers: Vec<ServerChoice> =
            ["posthaste", "dovecot"].iter().map(|name| name.parse().unwrap()).collect();
        let names = |servers: &[ServerChoice]| {
            expand(&study, servers).iter().map(|w| w.name().to_owned()).collect::<Vec<_>>()
        };
        let arms = ["mime", "rich", "keep", "rich + items", "keep + items", "only MIME", "only MIME, zstd"];
        let others = ["Dovecot, files", "Dovecot, files, single instance", "Dovecot, encrypted"];
        let dovecot = [&["Dovecot"], &others[..]].concat();
        assert_eq!(names(&servers), [&arms[..], &dovecot].concat());
        // A server that is named already is not added again.
        let named: Vec<ServerChoice> = ["dovecot-crypt", "dovecot"].map(|s| s.parse().unwrap()).into();
        assert_eq!(names(&named), [&["Dovecot, encrypted", "Dovecot"], &others[..2]].concat());
        let two: Vec<ServerChoice> = ["posthaste", "new=./posthaste"].map(|s| s.parse().unwrap()).into();
        assert_eq!(names(&two)[7], "new: mime");
        let koka = load("koka", Length::Quick).unwrap();
        assert_eq!(expand(&koka, &servers), servers);
    }
}
