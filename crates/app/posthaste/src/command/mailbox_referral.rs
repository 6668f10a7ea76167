//! `posthaste account mailbox-referral`: the mailboxes of an account that are on other servers (RFC
//! 2193).

use posthaste_directory::MailboxReferral;
use posthaste_imap_codec::MailboxUrl;
use posthaste_mail_model::{MailboxName, masked};

use crate::command::names::full_name;
use crate::command::referral::refuse_password;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_line;
use crate::open;

/// A change of a referral.
pub enum Change {
    /// No change: the referral is shown.
    None,
    /// The mailbox is at this URL from now on.
    To(String),
    /// The mailbox is no longer on another server.
    Remove,
}

/// Changes the referral of a mailbox, or shows it, or all of them.
pub async fn run(config: &Config, name: &str, mailbox: Option<&str>, change: Change) -> Result<()> {
    let name = full_name(name, config);
    let opened = open::existing(config).await?;
    let account = opened.found(&name).await?;
    let url = match change {
        Change::None => {
            let shown = account.mailbox_referrals.iter();
            let shown: Vec<_> = shown.filter(|one| mailbox.is_none_or(|name| one.mailbox == name)).collect();
            if shown.is_empty() {
                println!("none");
            }
            shown.iter().for_each(|one| println!("{}", words(one)));
            return Ok(());
        }
        Change::To(to) => Some(url(&to, &account.name, &config.hostname).map_err(Failure::Usage)?),
        Change::Remove => None,
    };
    let mailbox = self::mailbox(mailbox.unwrap_or_default()).map_err(Failure::Usage)?;
    if url.is_some() {
        let list = opened.store.list(account.id).await?;
        let is_here = |name: &MailboxName| *name == mailbox || name.is_below(&mailbox);
        if let Some(there) = list.entries.iter().find(|entry| is_here(&entry.name)) {
            return Err(Failure::Usage(format!(
                "the account has a mailbox '{}' here: rename or delete it first, or clients cannot open it",
                there.name
            )));
        }
    }
    opened.directory.set_mailbox_referral(&account.name, &mailbox, url.as_deref()).await?;
    println!("changed {}", account.name);
    Ok(())
}

/// The name of a mailbox that another server may have.
fn mailbox(given: &str) -> std::result::Result<MailboxName, String> {
    let name = MailboxName::new(given).map_err(|why| format!("mailbox '{given}': {why}"))?;
    if name.is_inbox() {
        return Err("INBOX stays here: `account referral` sends logins to another server".into());
    }
    Ok(name)
}

/// The URL of a mailbox as it is sent.
fn url(given: &str, account: &str, hostname: &str) -> std::result::Result<String, String> {
    refuse_password(given)?;
    let shown = masked(given);
    let mut url = MailboxUrl::parse(given)
        .map_err(|why| format!("--to {shown}: {why}; write for example imap://mail2.example.org/Team"))?;
    // RFC 2193 §3: no loop of referrals.
    if url.server.host.eq_ignore_ascii_case(hostname) {
        return Err(format!("--to {shown}: this is the server's own `hostname`; name another one"));
    }
    // RFC 2193 §3: without a user and `;AUTH=` a client might log in as anonymous.
    url.server.user.get_or_insert_with(|| account.to_owned());
    url.server.mechanism.get_or_insert_with(|| "*".to_owned());
    Ok(url.to_string())
}

/// A referral, for people.
pub fn words(referral: &MailboxReferral) -> String {
    for_line(&format!("{} {}", referral.mailbox, referral.url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_user_a_mailbox_and_another_host() {
        let url = |given| url(given, "ana@example.org", "mail.example.org");
        assert_eq!(
            url("imap://mail2.example.org/Team/a%20b"),
            Ok("imap://ana%40example.org;AUTH=*@mail2.example.org/Team/a%20b".into())
        );
        for wrong in ["imap://mail.example.org/Team", "imap://mail2.example.org/", "mail2/Team"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
        let refused = url("imap://u:SECRET@two.example.org/Team").unwrap_err();
        assert!(refused.contains("has no password") && !refused.contains("SECRET"), "{refused}");
        assert!(mailbox("inbox").is_err() && mailbox("").is_err() && mailbox("Shared/Team").is_ok());
    }
}
