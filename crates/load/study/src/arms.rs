//! Arms: Posthaste several times in one study, each time with other settings and other mail.
//!
//! Every Posthaste of a study becomes as many servers as there are arms. Servers of others have one
//! column. They get the mail of the arms that have none of the rich kind.

use std::path::PathBuf;

use posthaste_load_text::{Mistake, Source};
use serde::Deserialize;
use toml::Spanned;

use crate::file::Study;
use crate::server::Which;

/// One arm, as a study's file names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name in tables.
    pub name: String,
    /// Lines of `posthaste.toml`, with dotted keys.
    pub settings: String,
    /// The mail that it gets.
    pub mail: MailMix,
}

/// The kinds of mail in an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MailMix {
    /// The share that is rich mail, 0 to 1: of the mail filled in and of the mail that arrives.
    pub rich: f64,
    /// The share of the mail that arrives which is for another server, 0 to 1.
    pub outside: f64,
}

/// Posthaste in one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct InArm {
    /// Its name in tables.
    pub name: String,
    /// Its binary, if it is not the usual one.
    pub program: Option<PathBuf>,
    /// The arm.
    pub arm: Arm,
}

/// An arm in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawArm {
    name: Spanned<String>,
    #[serde(default)]
    settings: String,
    rich: Option<Spanned<f64>>,
    outside: Option<Spanned<f64>>,
}

/// The arms of a file.
pub(crate) fn read(source: Source, raw: &[RawArm]) -> Result<Vec<Arm>, Mistake> {
    let share = |given: Option<&Spanned<f64>>| match given {
        None => Ok(0.0),
        Some(share) if (0.0..=1.0).contains(share.get_ref()) => Ok(*share.get_ref()),
        Some(share) => Err(source.at(share.span(), "a share of the mail is from 0 to 1")),
    };
    let mut arms: Vec<Arm> = Vec::new();
    for arm in raw {
        let name = arm.name.get_ref();
        if name.is_empty() || arms.iter().any(|known| known.name == *name) {
            return Err(source.at(arm.name.span(), "each arm has a name of its own"));
        }
        let mail = MailMix { rich: share(arm.rich.as_ref())?, outside: share(arm.outside.as_ref())? };
        arms.push(Arm { name: name.clone(), settings: arm.settings.clone(), mail });
    }
    Ok(arms)
}

/// The servers of a study: each Posthaste in every arm, others as they are.
pub fn expand(study: &Study, servers: &[Which]) -> Vec<Which> {
    if study.arms.is_empty() {
        return servers.to_vec();
    }
    let ours = |which: &&Which| matches!(which, Which::Posthaste | Which::Build(_));
    let several = servers.iter().filter(ours).count() > 1;
    let in_arms = |which: &Which, program: Option<PathBuf>| {
        let name = |arm: &Arm| match several {
            true => format!("{}: {}", which.name(), arm.name),
            false => arm.name.clone(),
        };
        let arm =
            |arm: &Arm| Which::Arm(InArm { name: name(arm), program: program.clone(), arm: arm.clone() });
        study.arms.iter().map(arm).collect::<Vec<_>>()
    };
    servers
        .iter()
        .flat_map(|which| match which {
            Which::Posthaste => in_arms(which, None),
            Which::Build(build) => in_arms(which, Some(build.program.clone())),
            other => vec![other.clone()],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    #[test]
    fn every_posthaste_has_all_arms_and_others_one_column() {
        let study = load("storage-format", Length::Quick).unwrap();
        let servers: Vec<Which> = ["posthaste", "dovecot"].iter().map(|name| name.parse().unwrap()).collect();
        let names = |servers: &[Which]| {
            expand(&study, servers).iter().map(|w| w.name().to_owned()).collect::<Vec<_>>()
        };
        let arms = ["mime", "rich", "keep", "rich + items", "keep + items", "only MIME"];
        assert_eq!(names(&servers), [&arms[..], &["Dovecot"]].concat());
        let two: Vec<Which> = ["posthaste", "new=./posthaste"].map(|s| s.parse().unwrap()).into();
        assert_eq!(names(&two)[6], "new: mime");
        let koka = load("koka", Length::Quick).unwrap();
        assert_eq!(expand(&koka, &servers), servers);
    }
}
