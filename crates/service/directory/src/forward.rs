//! The targets of an account's forwarded mail, referred logins and referred mailboxes.

use std::sync::Arc;

use posthaste_mail_model::MailboxName;

use crate::account::{
    Account, FORWARDS_MAX, Forward, MAILBOX_REFERRAL_BYTES_MAX, MAILBOX_REFERRALS_MAX, MailboxReferral,
    Referral,
};
use crate::error::{DirectoryError, Result};
use crate::group::member;
use crate::record::Stored;
use crate::records::Records;

/// Sends an account's mail on from now on, or no longer.
pub(crate) async fn set_forward(records: &Records, name: &str, forward: Option<Forward>) -> Result<Account> {
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
    records.update(name, |stored| Arc::make_mut(&mut stored.account).forward.clone_from(&forward)).await
}

/// Whether this is an address to which mail is sent on, in the form in which a command stores it.
pub(crate) fn member_as_stored(to: &str) -> bool {
    member(to).is_ok_and(|normal| normal == to)
}

/// Refers IMAP logins of an account to another server from now on, or no longer.
pub(crate) async fn set_referral(
    records: &Records,
    name: &str,
    referral: Option<Referral>,
) -> Result<Account> {
    let referral = referral.map(Box::new);
    records.update(name, |stored| Arc::make_mut(&mut stored.account).referral.clone_from(&referral)).await
}

/// Refers clients for a mailbox, and for all below it, to another server (`url`), or no longer.
pub(crate) async fn set_mailbox_referral(
    records: &Records,
    name: &str,
    mailbox: &MailboxName,
    url: Option<&str>,
) -> Result<Account> {
    let mailbox = mailbox.as_str();
    let change = |stored: &mut Stored| {
        let mut all = stored.account.mailbox_referrals.to_vec();
        all.retain(|one| one.mailbox != mailbox);
        if let Some(url) = url {
            all.push(MailboxReferral { mailbox: mailbox.to_owned(), url: url.to_owned() });
            let octets: usize = all.iter().map(|one| one.mailbox.len() + one.url.len()).sum();
            if all.len() > MAILBOX_REFERRALS_MAX || octets > MAILBOX_REFERRAL_BYTES_MAX {
                return Err(DirectoryError::TooManyReferrals);
            }
        }
        all.sort_by(|a, b| a.mailbox.cmp(&b.mailbox));
        Arc::make_mut(&mut stored.account).mailbox_referrals = all.into_boxed_slice();
        Ok(())
    };
    records.try_update(name, change).await
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Secret;

    use super::*;
    use crate::account::NewAccount;
    use crate::testing::directory;

    const NAME: &str = "ana@example.org";

    #[tokio::test]
    async fn referrals_of_mailboxes_are_bounded() {
        let (_, directory) = directory();
        directory.add(NAME, &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
        let name = |n: usize| MailboxName::new(&format!("m{n:03}")).unwrap();
        for n in (0..MAILBOX_REFERRALS_MAX).rev() {
            directory.set_mailbox_referral(NAME, &name(n), Some("imap://two/x")).await.unwrap();
        }
        let one_more = directory.set_mailbox_referral(NAME, &name(100), Some("imap://two/x")).await;
        assert!(matches!(one_more, Err(DirectoryError::TooManyReferrals)));
        // One that is there gets another URL, and none is there twice.
        let account = directory.set_mailbox_referral(NAME, &name(7), Some("imap://three/x")).await.unwrap();
        assert_eq!(account.mailbox_referrals.len(), MAILBOX_REFERRALS_MAX);
        assert!(account.mailbox_referrals.is_sorted_by(|a, b| a.mailbox < b.mailbox));
        assert_eq!(account.mailbox_referrals[7].url, "imap://three/x");
        let long = "x".repeat(MAILBOX_REFERRAL_BYTES_MAX);
        assert!(directory.set_mailbox_referral(NAME, &name(7), Some(&long)).await.is_err());
        directory.set_mailbox_referral(NAME, &name(7), None).await.unwrap();
        let account = directory.account(NAME).await.unwrap().unwrap();
        assert_eq!(account.mailbox_referrals.len(), MAILBOX_REFERRALS_MAX - 1);
        assert!(account.mailbox_referrals.iter().all(|one| one.mailbox != "m007"));
    }
}
