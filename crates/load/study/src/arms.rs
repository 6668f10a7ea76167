//! Arms: Posthaste several times in one study, each time with other settings and other mail.
//!
//! Every Posthaste of a study becomes as many servers as there are arms. Servers of others have one
//! column. They get the mail of the arms that have none of the rich kind.

use std::path::PathBuf;

use posthaste_load_text::{Mistake, Source};
use serde::Deserialize;
use toml::Spanned;

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
