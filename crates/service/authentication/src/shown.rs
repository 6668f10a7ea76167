//! Authors as mail programs show them.
//!
//! `mail-auth` takes `=?utf-8?q?Ben <ben@a.test>, x?= <ana@b.test>` for one name and one address.
//! An encoded word has no spaces (RFC 2047 §2), so mail programs show Ben's address first. So does
//! ENVELOPE of this server, whose reader is used here.

use posthaste_mime_summary::{Address, address_list, unfold};

use crate::canonical;

/// The addresses in the value of a field, in lower case. Those without a domain are left out.
pub(crate) fn shown_addresses(value: &[u8]) -> Vec<String> {
    let value = unfold(value);
    address_list(&value).iter().filter_map(written).collect()
}

fn written(address: &Address<'_>) -> Option<String> {
    let local = address.mailbox.as_deref()?;
    let host = address.host.as_deref().filter(|host| !host.is_empty())?;
    Some(String::from_utf8_lossy(&[local, b"@", host].concat()).to_lowercase())
}

/// An address as [`shown_addresses`] writes it. A local part is the same with quotes (RFC 5321
/// §4.1.2).
pub(crate) fn unquoted(address: &str) -> String {
    address.replace(['"', '\\'], "")
}

/// Whether a shown address is this one, both [`unquoted`]. A name without angle brackets is shown
/// as words of the local part: `"Bo" bo@b.test`.
pub(crate) fn is_same(shown: &str, address: &str) -> bool {
    let name = shown.strip_suffix(address);
    name.is_some_and(|name| name.is_empty() || (name.ends_with(' ') && !name.contains('@')))
}

/// The domains of all authors of a message. An address with a second sign is there as a whole: some
/// programs end it at a space, as in `=?utf-8?q?ceo@a.test x?= bo@b.test`. Of several, two are
/// enough to know.
pub(crate) fn shown_domains(message: &[u8]) -> Vec<String> {
    let mut domains = Vec::<String>::new();
    for field in canonical::fields(message).filter(|field| field.is("From")) {
        for address in shown_addresses(field.value) {
            let (local, domain) = address.rsplit_once('@').unwrap_or_default();
            let shown = if local.contains('@') { address.as_str() } else { domain };
            if domains.len() < 2 && domains.iter().all(|known| known != shown) {
                domains.push(shown.to_owned());
            }
        }
    }
    domains
}

/// Whether mail programs show no domain but that of the author that was verified.
pub(crate) fn is_all_shown(domains: &[String], author: Option<&String>) -> bool {
    let author = author.map_or("", String::as_str);
    let (_, domain) = author.rsplit_once('@').unwrap_or_default();
    let whole = unquoted(author);
    domains.iter().all(|shown| shown == domain || *shown == whole)
}

#[cfg(test)]
mod tests {
    use mail_auth::AuthenticatedMessage;

    use super::*;

    #[test]
    fn authors_that_only_mail_programs_find_are_found() {
        let hidden = " =?utf-8?q?Ben <ben@a.test>, x?=\r\n <Ana@B.test>";
        assert_eq!(shown_addresses(hidden.as_bytes()), ["ben@a.test", "ana@b.test"]);
        let is_shown = |from: &str| {
            let message = format!("To: c@d.test\r\nFrom:{from}\r\n\r\nFrom: x@body.test\r\n");
            let parsed = AuthenticatedMessage::parse(message.as_bytes()).unwrap();
            is_all_shown(&shown_domains(message.as_bytes()), parsed.froms().first())
        };
        for other in [
            hidden,
            " =?utf-8?q?Ben <ben@a.test>, x?=",
            " =?utf-8?q?Ben_<ben@a.test>,_x?= <ana@b.test>",
            " =?utf-8?q?ben@a.test x?= ana@b.test",
            " ben@a.test \"Ben\"",
        ] {
            assert!(!is_shown(other), "{other}");
        }
        for usual in [
            " ana@b.test",
            " Ana <ana@B.TEST>, ben@b.test",
            " \"Ben <ben@a.test>\" <ana@b.test>",
            " ben@a.test <ana@b.test>",
            " Doe, Ana (ben@a.test) <ana@b.test>",
            " =?utf-8?q?Doe, Ana?= <ana@b.test>",
            " =?utf-8?q?Ben_=3Cben=40a.test=3E?= <ana@b.test>",
            " Team: ana@b.test, ben@b.test;",
            " Bo <\"x@y, z\"@b.test>",
            " Bo <bo@b\u{fc}cher.test>",
            " bo@B.Test (Bo of a.test <bo@a.test>)",
            " Bo < bo@b.test >",
            " \"Bo\" bo@b.test",
            " =?utf-8?q?Bo?= bo@b.test",
            " =?utf-8?q?bo@a.test_via_list?= <list@b.test>",
            " =?utf-8?q?Re:_Bo?= <bo@b.test>",
            " \"Bo via list\" <list@b.test>, Ana <ana@b.test>",
            " Bo <@a.test:bo@b.test>",
            " bo@[192.0.2.1]",
            " =?utf-8?b?Qm8gPGJvQGEudGVzdD4=?= <bo@b.test>",
            " =?iso-8859-1?q?Bo?= =?iso-8859-1?q?_X?= <bo@b.test>",
            " Bo, <bo@b.test>,",
            " <bo@b.test>;",
            " Bo [a.test] <bo@b.test>",
            " Bo: <bo@b.test>",
            " nobody",
            "",
        ] {
            assert!(is_shown(usual), "{usual}");
        }
    }
}
