//! Where an account's mail, and where its logins, are sent on to.

use crate::account::{Account, FORWARDS_MAX, Forward, Referral};
use crate::directory::Directory;
use crate::error::{DirectoryError, Result};
use crate::group::member;

impl Directory {
    /// Sends an account's mail on from now on, or no longer.
    pub async fn set_forward(&self, name: &str, forward: Option<Forward>) -> Result<Account> {
        let forward = match forward {
            None => None,
            Some(Forward { to, .. }) if !(1..=FORWARDS_MAX).contains(&to.len()) => {
                return Err(DirectoryError::ForwardSize(to.len()));
            }
            Some(Forward { to, keep }) => {
                let to = to.iter().map(|to| member(to)).collect::<Result<_>>()?;
                Some(Box::new(Forward { to, keep }))
            }
        };
        self.update(name, |stored| stored.account.forward.clone_from(&forward)).await
    }

    /// Refers IMAP logins of an account to another server from now on, or no longer.
    pub async fn set_referral(&self, name: &str, referral: Option<Referral>) -> Result<Account> {
        let referral = referral.map(Box::new);
        self.update(name, |stored| stored.account.referral.clone_from(&referral)).await
    }
}
