//! `posthaste account referral`: where IMAP logins of an account are sent (RFC 2221).

use posthaste_directory::Referral;
use posthaste_imap_codec::UrlServer;

use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

/// Sends logins elsewhere (`to`: a URL, and whether logins here succeed), or no longer, or shows
/// where they are sent.
pub async fn run(config: &Config, name: &str, to: Option<(String, bool)>, remove: bool) -> Result<()> {
    let name = full_name(name, config);
    let opened = open::existing(config).await?;
    let account = opened.found(&name).await?;
    let referral = match to {
        None if !remove => {
            println!("{}", account.referral.as_deref().map_or_else(|| "none".to_owned(), words));
            return Ok(());
        }
        None => None,
        Some((to, admits)) => {
            let url = url(&to, &account.name, &config.hostname).map_err(Failure::Usage)?;
            Some(Referral { url, admits })
        }
    };
    let account = opened.directory.set_referral(&account.name, referral).await?;
    println!("changed {}", account.name);
    Ok(())
}

/// The URL of a referral as it is sent.
fn url(given: &str, account: &str, hostname: &str) -> std::result::Result<String, String> {
    let mut server = UrlServer::parse(given)
        .map_err(|why| format!("--to {given}: {why}; write for example imap://mail2.example.org/"))?;
    // RFC 2221 §3: no referral to a server that answers with one.
    if server.host.eq_ignore_ascii_case(hostname) {
        return Err(format!("--to {given}: this is the server's own `hostname`; name another one"));
    }
    // RFC 2221 §3: without a user and `;AUTH=` a client might log in as anonymous.
    server.user.get_or_insert_with(|| account.to_owned());
    server.mechanism.get_or_insert_with(|| "*".to_owned());
    Ok(format!("{server}/"))
}

/// A referral, for people.
pub fn words(referral: &Referral) -> String {
    let admits = if referral.admits { "logins here succeed, too" } else { "logins here are refused" };
    format!("{} ({admits})", referral.url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_user_and_another_host() {
        let url = |given| url(given, "ana@example.org", "mail.example.org");
        assert_eq!(
            url("imap://mail2.example.org"),
            Ok("imap://ana%40example.org;AUTH=*@mail2.example.org/".into())
        );
        assert_eq!(
            url("IMAP://bo;AUTH=GSSAPI@Mail2.example.org:1143/"),
            Ok("imap://bo;AUTH=GSSAPI@mail2.example.org:1143/".into())
        );
        for wrong in [
            "imap://mail.example.org/",
            "mail2.example.org",
            "imaps://mail2.example.org/",
            "imap://mail2.example.org/INBOX",
            "imap:///",
            "imap://a b/",
            "imap://mail2]\r\nx/",
        ] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
