//! Mailboxes on other servers: RFC 2193. The administrator sets them.
//!
//! A referral applies to a name and to all names below it. It takes precedence over a local mailbox
//! of that name. The names below it on the other server are not known here, so RLIST shows only the
//! name itself.

use posthaste_directory::Account;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{MailboxUrl, UrlServer};
use posthaste_mail_model::MailboxName;

use crate::reply::{Failure, Reply};

/// The URL of a mailbox that another server has. Among several referrals the longest name counts.
fn url_of(login: &Account, name: &MailboxName) -> Option<String> {
    let rest = |of: &str| {
        let rest = name.as_str().strip_prefix(of)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let referrals = login.mailbox_referrals.iter();
    let found = referrals.filter_map(|one| Some((one, rest(&one.mailbox)?)));
    let (referral, rest) = found.max_by_key(|(one, _)| one.mailbox.len())?;
    match MailboxUrl::parse(&referral.url) {
        Ok(mut url) => {
            url.mailbox.push_str(rest);
            Some(url.to_string())
        }
        // The command that sets it admits no such URL.
        Err(error) => {
            tracing::warn!(account = login.name, %error, "the referral of a mailbox has a wrong URL");
            None
        }
    }
}

fn refer(urls: Vec<String>) -> Failure {
    Reply::no(Code::Referral(urls), "That mailbox is on another server").into()
}

/// Refuses a name of a mailbox that another server has: RFC 2193 §4.
pub(crate) fn check(login: &Account, name: &MailboxName) -> Result<(), Failure> {
    match url_of(login, name) {
        None => Ok(()),
        Some(url) => Err(refer(vec![url])),
    }
}

/// The same for the two names of RENAME. The client gets the URLs of both, also of the one that is
/// here: RFC 2193 §4.3.
pub(crate) fn check_pair(
    login: &Account,
    hostname: &str,
    from: &MailboxName,
    to: &MailboxName,
) -> Result<(), Failure> {
    let (from_url, to_url) = (url_of(login, from), url_of(login, to));
    if from_url.is_none() && to_url.is_none() {
        return Ok(());
    }
    let here = |name: &MailboxName| {
        let server = UrlServer {
            user: Some(login.name.clone()),
            mechanism: Some("*".to_owned()),
            host: hostname.to_owned(),
            port: None,
        };
        MailboxUrl { server, mailbox: name.as_str().to_owned() }.to_string()
    };
    Err(refer(vec![from_url.unwrap_or_else(|| here(from)), to_url.unwrap_or_else(|| here(to))]))
}

/// The names that RLIST and RLSUB show in addition to those of mailboxes here.
pub(crate) fn names(login: &Account) -> Vec<MailboxName> {
    login.mailbox_referrals.iter().filter_map(|one| MailboxName::new(&one.mailbox).ok()).collect()
}
