//! URLs of mailboxes: RFC 5092 §6. Referrals name mailboxes by them (RFC 2193).

use std::fmt;

use crate::url::{URL_BYTES_MAX, UrlError, UrlServer, decoded, encode, server_and_path};

/// `imap://user;AUTH=type@host:port/enc-mailbox`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MailboxUrl {
    /// The server, and the user there.
    pub server: UrlServer,
    /// The mailbox there; never empty.
    pub mailbox: String,
}

impl MailboxUrl {
    /// Reads an absolute URL that names a mailbox and nothing in it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("imap://"));
        scheme.ok_or(UrlError::Server)?;
        let (Some(server), path) = server_and_path(&text[7..])? else { return Err(UrlError::Server) };
        if path.contains(['?', ';']) {
            return Err(UrlError::Parameter);
        }
        let mailbox = decoded(path.trim_matches('/'))?;
        if mailbox.is_empty() { Err(UrlError::NoMailbox) } else { Ok(Self { server, mailbox }) }
    }
}

impl fmt::Display for MailboxUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.server)?;
        encode(f, &self.mailbox, b":@/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_mailbox_is_printed_as_it_was_read() {
        for (url, mailbox) in [
            ("imap://ana%40example.org;AUTH=*@two.example.org/Lists/rust", "Lists/rust"),
            ("imap://two.example.org:1143/a%20b%3Fc", "a b?c"),
            ("imap://two.example.org/Entw%C3%BCrfe", "Entw\u{fc}rfe"),
        ] {
            let read = MailboxUrl::parse(url).unwrap();
            assert_eq!((read.mailbox.as_str(), read.to_string().as_str()), (mailbox, url));
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for wrong in [
            "imap://two.example.org/",
            "imap://two.example.org",
            "/INBOX",
            "imap:///INBOX",
            "imaps://two.example.org/INBOX",
            "imap://two.example.org/INBOX/;UID=3",
            "imap://two.example.org/INBOX?SUBJECT%20x",
            "imap://two.example.org/a b",
            "imap://two.example.org/%0D%0A",
            "imap://two.example.org/%",
        ] {
            assert!(MailboxUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
