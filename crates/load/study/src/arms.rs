//! Arms: Posthaste several times in one study, each time with other settings and other mail.
//!
//! Every Posthaste of a study becomes as many servers as there are arms. Servers of others have one
//! column. They get the mail of the arms that have none of the rich kind.

use std::path::PathBuf;

use posthaste_load_text::{Mistake, Source};
use posthaste_load_workload::corpus::Shares;
use serde::Deserialize;
use toml::Spanned;

/// One arm, as a study's file names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The arm's name in tables.
    pub name: String,
    /// Lines of `posthaste.toml`, with dotted keys.
    pub settings: String,
    /// The mail that it gets.
    pub mail: MailMix,
}

/// The kinds of mail in an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MailMix {
    /// The shares of special mail: of the mail filled in and of the mail that arrives.
    pub shares: Shares,
    /// The share of the mail that arrives which is for another server, 0 to 1.
    pub outside: f64,
}

impl Arm {
    /// Whether servers of others get its mail.
    fn is_for_others(&self) -> bool {
        self.mail.shares.rich == 0.0 && self.mail.outside == 0.0
    }
}

/// The mail that servers of others get in a study with these arms: none that only we convert, and
/// none for another server.
pub(crate) fn mail_of_others(arms: &[Arm]) -> MailMix {
    arms.iter().find(|arm| arm.is_for_others()).map(|arm| arm.mail).unwrap_or_default()
}

/// Posthaste in one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct InArm {
    /// The arm's name in tables.
    pub name: String,
    /// The arm's binary, if it is not the usual one.
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
    shared_attachments: Option<Spanned<f64>>,
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
        let shares = Shares {
            rich: share(arm.rich.as_ref())?,
            shared_attachments: share(arm.shared_attachments.as_ref())?,
        };
        let mail = MailMix { shares, outside: share(arm.outside.as_ref())? };
        let new = Arm { name: name.clone(), settings: arm.settings.clone(), mail };
        if new.is_for_others() && arms.iter().any(|known| known.is_for_others() && known.mail != mail) {
            let what = "arms with mail for all servers have the same `shared_attachments`";
            return Err(source.at(arm.name.span(), what));
        }
        arms.push(new);
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(shared: [f64; 2]) -> Result<Vec<Arm>, String> {
        #[derive(Deserialize)]
        struct File {
            arm: Vec<RawArm>,
        }
        let [one, other] = shared;
        let text = format!(
            "[[arm]]\nname = \"rich\"\nrich = 0.8\n[[arm]]\nname = \"a\"\nshared_attachments = {one}\n\
             [[arm]]\nname = \"b\"\nshared_attachments = {other}\n"
        );
        let source = Source { file: "x.toml", text: &text };
        let file: File = source.read().map_err(|e| e.to_string())?;
        read(source, &file.arm).map_err(|e| e.to_string())
    }

    #[test]
    fn other_servers_get_the_mail_of_the_arms_without_rich_mail() {
        let read = arms([0.3, 0.3]).unwrap();
        assert_eq!(mail_of_others(&read), read[1].mail);
        assert_eq!(read[1].mail.shares, Shares { rich: 0.0, shared_attachments: 0.3 });
        assert_eq!(mail_of_others(&read[..1]), MailMix::default());
        assert!(arms([0.3, 0.2]).unwrap_err().contains("the same `shared_attachments`"));
        assert!(arms([0.3, 1.2]).unwrap_err().contains("from 0 to 1"));
    }
}
