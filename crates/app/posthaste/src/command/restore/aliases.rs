//! The aliases of a restored account.
//!
//! An alias may divert mail of others without being anybody's address: mail for `ben+bank` comes to
//! `ben`, and a group of a domain gets all that nobody else has. So out of a backup that may be
//! forged (`--account`), only aliases come back for which nobody gets mail now. Nor may they belong
//! to another server or to a postmaster. The others are named, with the command that adds them.

use indicatif::ProgressBar;
use posthaste_directory::{Address, DirectoryError, ResolveError, Target};

use super::job::{RestoreJob, Scope};
use crate::audit::shell_word;
use crate::failure::Result;
use crate::logging::for_line;

/// Local parts of those who control a domain. Mail for a postmaster has a rule of its own (RFC 5321
/// §4.5.1). Certification authorities take an answer from each of them as a proof of control.
const ROLES: [&str; 5] = ["postmaster", "hostmaster", "webmaster", "admin", "administrator"];

/// Why an alias is left out whose address an account, an alias or a group has.
const TAKEN: &str = "the address is taken";

/// What a restore did with an alias.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AliasOutcome {
    /// This address, in normal form, belongs to the account now.
    Added(String),
    /// It belonged to the account before.
    Unchanged,
    /// It does not, for this reason.
    LeftOut(String),
}

impl RestoreJob {
    /// Restores the aliases of an account. Names those that are left out.
    pub(super) async fn restore_aliases(&self, account: &str, bar: &ProgressBar) -> Result<()> {
        for alias in self.ends.aliases(|owner| owner == account).await? {
            match self.restore_alias(&alias, account).await? {
                AliasOutcome::Added(address) if self.scope == Scope::Named => {
                    bar.suspend(|| println!("{account}: {address} is an alias of it"));
                }
                AliasOutcome::Added(_) | AliasOutcome::Unchanged => {}
                AliasOutcome::LeftOut(why) => {
                    bar.suspend(|| eprintln!("posthaste: alias {} was left out: {why}", for_line(&alias)));
                }
            }
        }
        Ok(())
    }

    /// Restores an alias.
    pub(super) async fn restore_alias(&self, alias: &str, account: &str) -> Result<AliasOutcome> {
        let there = &self.ends.there;
        let Ok(address) = Address::parse(alias) else { return Ok(left_out("it is no address")) };
        match there.aliases().owner(address.as_str()).await? {
            Some(owner) if owner == account => return Ok(AliasOutcome::Unchanged),
            Some(_) => return Ok(left_out(TAKEN)),
            None => {}
        }
        if self.scope == Scope::Named
            && there.account(address.as_str()).await?.is_none()
            && let Some(why) = self.diverted(&address, account).await?
        {
            let option = format!("--alias={address}");
            let (account, option) = (shell_word(account), shell_word(&option));
            return Ok(left_out(&format!("{why}; `posthaste account set {account} {option}` adds it")));
        }
        match there.aliases().add(address.as_str(), account).await {
            Ok(added) => Ok(AliasOutcome::Added(added.address)),
            Err(
                DirectoryError::AliasExists { .. }
                | DirectoryError::AccountExists(_)
                | DirectoryError::GroupExists(_),
            ) => Ok(left_out(TAKEN)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whose mail an alias might divert; `None` if nobody's.
    async fn diverted(&self, address: &Address, account: &str) -> Result<Option<String>> {
        let there = &self.ends.there;
        let why = match there.target(address.as_str()).await {
            Ok(Target::Account(recipient)) if recipient.account.name == account => return Ok(None),
            // It is refused for that.
            Ok(Target::Group(group)) if group.address == address.as_str() => return Ok(None),
            Ok(target) => format!("{} gets its mail", target.name()),
            Err(ResolveError::Disabled) => "a disabled account has it".to_owned(),
            Err(ResolveError::NotLocal) => {
                "its domain is not one of this store, or is shared with another server".to_owned()
            }
            Err(ResolveError::Invalid(why)) => why.to_string(),
            Err(ResolveError::Directory(error)) => return Err(error.into()),
            Err(ResolveError::NoSuchUser) => {
                if ROLES.contains(&address.local()) || self.postmaster.as_ref() == Some(address) {
                    "its mail is for those who control the domain".to_owned()
                } else if there.groups().have_details_of(address).await? {
                    "it takes the mail of a group whose address has a detail".to_owned()
                } else {
                    return Ok(None);
                }
            }
        };
        Ok(Some(why))
    }
}

fn left_out(why: &str) -> AliasOutcome {
    AliasOutcome::LeftOut(why.to_owned())
}
