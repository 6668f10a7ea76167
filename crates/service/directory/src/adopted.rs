//! Which account of another store is taken over. A backup may be forged, and a record in it may
//! harm others: by the cost of its password, by its size, or by addresses or limits that no
//! command accepts.

use posthaste_mail_model::MailboxName;
use posthaste_net::OwnLimits;

use crate::account::{FORWARDS_MAX, MAILBOX_REFERRAL_BYTES_MAX, MAILBOX_REFERRALS_MAX};
use crate::credential::AppPassword;
use crate::error::{DirectoryError, Result};
use crate::forward::member_as_stored;
use crate::limits::{APP_PASSWORDS_MAX, CERTIFICATES_MAX, LABEL_CHARS_MAX};
use crate::password::Policy;
use crate::record::{Stored, account_key, over_limits};
use crate::scripts::SCRIPT_NAME_CHARS_MAX;

/// The last second of the year 9999, since 1970. No date after it can be printed.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Refuses an account that no command of this program could have made.
pub(crate) fn refuse_forged(stored: &Stored, policy: Policy) -> Result<()> {
    let record = account_key(&stored.account.name);
    if policy.is_far_below(&stored.credentials.argon2) {
        let why = "the hash of its password costs more than four times what `login.argon2_memory` and \
                   `login.argon2_passes` say: raise them, or restore the account with another password"
            .into();
        return Err(DirectoryError::Record { record, why });
    }
    let account = &stored.account;
    let forwards = account.forward.as_deref().map_or(&[][..], |forward| &forward.to[..]);
    let referrals = &account.mailbox_referrals;
    let octets: usize = referrals.iter().map(|one| one.mailbox.len() + one.url.len()).sum();
    let referral = account.referral.as_deref().map_or(0, |referral| referral.url.len());
    // Commands print all of these.
    let is_line =
        |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
    let is_url = |url: &str| url.bytes().all(|octet| octet.is_ascii_graphic());
    let is_mailbox = |name: &str| MailboxName::new(name).is_ok_and(|normal| normal.as_str() == name);
    let has_times = |one: &AppPassword| one.created.max(one.expires.unwrap_or(0)) <= SECONDS_MAX;
    let is_sound = forwards.len() <= FORWARDS_MAX
        && forwards.iter().all(|to| member_as_stored(to))
        && referrals.len() <= MAILBOX_REFERRALS_MAX
        && octets.max(referral) <= MAILBOX_REFERRAL_BYTES_MAX
        && account.referral.as_deref().is_none_or(|referral| is_url(&referral.url))
        && referrals.iter().all(|one| is_mailbox(&one.mailbox) && is_url(&one.url))
        && account.scripts.active.as_deref().is_none_or(|name| is_line(name, SCRIPT_NAME_CHARS_MAX))
        && stored.certificates.len() <= CERTIFICATES_MAX
        && stored.app_passwords.len() <= APP_PASSWORDS_MAX
        && stored.app_passwords.iter().all(|one| is_line(&one.label, LABEL_CHARS_MAX) && has_times(one))
        && account.own_limits.as_deref().is_none_or(OwnLimits::is_sound);
    if is_sound { Ok(()) } else { Err(over_limits(&record)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_net::AccountLimit;

    use super::*;
    use crate::account::{Account, Forward, MailboxReferral, Referral};
    use crate::credential::Verifier;
    use crate::grant::AppPasswordId;
    use crate::testing::{add, directory};

    #[tokio::test]
    async fn a_record_that_would_harm_others_is_refused() {
        let (_, directory) = directory();
        let ana = add(&directory, "ana@example.org", "pencil").await;
        let good = directory.records.existing(&ana.name).await.unwrap();
        let policy = Policy::cheap_for_tests();
        refuse_forged(&good, policy).unwrap();
        let forged = |change: fn(&mut Stored)| {
            let mut stored = good.clone();
            change(&mut stored);
            refuse_forged(&stored, policy).unwrap_err().to_string()
        };
        // A gibibyte for each wrong password.
        let why = forged(|stored| {
            stored.credentials.argon2 = stored.credentials.argon2.replace("m=64,", "m=1048576,");
        });
        assert!(why.contains("login.argon2_memory"), "{why}");
        let changes: [fn(&mut Stored); 4] = [
            |stored| {
                Arc::make_mut(&mut stored.account).forward = forward("x@other.test>\r\nRCPT TO:<y@other.test")
            },
            |stored| Arc::make_mut(&mut stored.account).forward = forward("X@other.test"),
            |stored| stored.certificates = vec![[7; 32]; CERTIFICATES_MAX + 1],
            // A byte an hour: a session would hold what others wait for.
            |stored| {
                let mut own = OwnLimits::NONE;
                own.set(AccountLimit::Sent, Some(1));
                Arc::make_mut(&mut stored.account).own_limits = Some(Box::new(own));
            },
        ];
        for change in changes {
            let why = forged(change);
            assert!(why.contains("account/ana@example.org") && why.contains("limits"), "{why}");
        }
    }

    /// They reach the terminal of an administrator.
    #[tokio::test]
    async fn a_record_whose_texts_control_a_terminal_is_refused() {
        let (_, directory) = directory();
        let ana = add(&directory, "ana@example.org", "pencil").await;
        let good = directory.records.existing(&ana.name).await.unwrap();
        let judged = |change: &dyn Fn(&mut Account, &mut Vec<AppPassword>)| {
            let mut stored = good.clone();
            change(Arc::make_mut(&mut stored.account), &mut stored.app_passwords);
            refuse_forged(&stored, Policy::cheap_for_tests()).is_ok()
        };
        for (end, is_taken) in [("", true), ("\u{1b}[2J", false), ("\n", false), ("\u{9b}2J", false)] {
            let (url, name) = (format!("imap://ana@mail2.example.org/{end}"), format!("a{end}"));
            let referral = Referral { url: url.clone(), admits: false };
            let of_mailbox = MailboxReferral { mailbox: "Team".to_owned(), url };
            let of_name = MailboxReferral { mailbox: name.clone(), ..of_mailbox.clone() };
            let results = [
                judged(&|account, _| account.referral = Some(Box::new(referral.clone()))),
                judged(&|account, _| account.mailbox_referrals = Box::new([of_mailbox.clone()])),
                judged(&|account, _| account.mailbox_referrals = Box::new([of_name.clone()])),
                judged(&|account, _| account.scripts.active = Some(name.clone())),
            ];
            assert_eq!(results, [is_taken; 4], "{end:?}");
        }
        // A date that cannot be printed would end the command that lists them.
        for (created, expires, is_taken) in [
            (1, None, true),
            (1, Some(SECONDS_MAX), true),
            (1, Some(u64::MAX), false),
            (u64::MAX, None, false),
        ] {
            let (id, verifier) = (AppPasswordId(1), Verifier([7; 32]));
            let one = AppPassword { id, label: "x".to_owned(), services: vec![], created, expires, verifier };
            assert_eq!(
                judged(&|_, passwords| passwords.push(one.clone())),
                is_taken,
                "{created} {expires:?}"
            );
        }
    }

    fn forward(to: &str) -> Option<Box<Forward>> {
        Some(Box::new(Forward { to: vec![to.to_owned()], keep: true }))
    }
}
