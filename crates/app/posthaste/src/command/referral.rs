//! `posthaste account referral`: where IMAP logins of an account are sent (RFC 2221).

use posthaste_directory::Referral;
use posthaste_imap_codec::UrlServer;
use posthaste_mail_model::masked;

use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_line;
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
    refuse_password(given)?;
    let shown = masked(given);
    let mut server = UrlServer::parse(given)
        .map_err(|why| format!("--to {shown}: {why}; write for example imap://mail2.example.org/"))?;
    // RFC 2221 §3: no referral to a server that answers with one.
    if server.host.eq_ignore_ascii_case(hostname) {
        return Err(format!("--to {shown}: this is the server's own `hostname`; name another one"));
    }
    // RFC 2221 §3: without a user and `;AUTH=` a client might log in as anonymous.
    server.user.get_or_insert_with(|| account.to_owned());
    server.mechanism.get_or_insert_with(|| "*".to_owned());
    Ok(format!("{server}/"))
}

/// An error if a URL has a password before its `@`. Everybody who may log in would see it.
///
/// RFC 5092 §3, §11: `enc-user` has no colon that is not percent-encoded.
pub fn refuse_password(given: &str) -> std::result::Result<(), String> {
    let authority = given.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let login = authority.and_then(|authority| authority.rsplit_once('@'));
    match login {
        Some((login, _)) if login.contains(':') => Err(format!(
            "--to {}: an IMAP URL has no password, and clients ask for it: write imap://USER@HOST/",
            masked(given)
        )),
        _ => Ok(()),
    }
}

/// A referral, for people.
pub fn words(referral: &Referral) -> String {
    let admits = if referral.admits { "logins here succeed, too" } else { "logins here are refused" };
    format!("{} ({admits})", for_line(&referral.url))
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
        for password in ["imap://u:SECRET@two.example.org/", "imap://u:SECRET;AUTH=*@two.example.org"] {
            let refused = url(password).unwrap_err();
            assert!(refused.contains("write imap://USER@HOST/") && !refused.contains("SECRET"), "{refused}");
        }
        // Not a URL, and not repeated either.
        assert!(!url("imap://u:SECRET/x@two.example.org/").unwrap_err().contains("SECRET"));
        // A colon that is encoded is part of a name.
        assert!(url("imap://a%3Ab@two.example.org/").is_ok());
    }
}
