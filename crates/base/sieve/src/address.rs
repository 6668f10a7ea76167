//! Addresses as tests and actions see them. RFC 5228 §2.7.4, RFC 5233.

use std::borrow::Cow;

use posthaste_mime_summary::address_list;

use crate::compiled::AddressPart;

/// The addresses in the value of a field: local part and domain. Groups have no address of their
/// own, and a mailbox without a domain is no address (RFC 5228 §5.1).
pub(crate) fn of_field(value: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    address_list(value)
        .iter()
        .filter_map(|address| match (&address.mailbox, &address.host) {
            (Some(mailbox), Some(host)) if !host.is_empty() && !mailbox.is_empty() => {
                Some((text(mailbox), text(host)))
            }
            _ => None,
        })
        .collect()
}

/// The single address in a string, as `local@domain`; `None` if there is no address, or more than
/// one.
pub(crate) fn single(text: &str) -> Option<String> {
    if text.contains(['\r', '\n', '\0']) {
        return None;
    }
    let list = address_list(text.as_bytes());
    let [address] = list.as_slice() else { return None };
    let mailbox = std::str::from_utf8(address.mailbox.as_deref()?).ok()?;
    let host = std::str::from_utf8(address.host.as_deref()?).ok()?;
    let is_domain = !host.is_empty()
        && !host.contains([' ', '\t', '@', ',', '<', '>', '"', '\\', ';', ':'])
        && !host.split('.').any(str::is_empty)
        || host.starts_with('[') && host.ends_with(']');
    (!mailbox.is_empty()
        && is_domain
        && mailbox.len() + host.len() < 320
        && !mailbox.chars().any(char::is_control))
    .then(|| format!("{}@{host}", quoted(mailbox)))
}

/// A local part as it is written: quoted if it is no dot-atom (RFC 5321 §4.1.2).
fn quoted(local: &str) -> Cow<'_, str> {
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    if local.split('.').all(|word| !word.is_empty() && word.chars().all(is_atom)) {
        return Cow::Borrowed(local);
    }
    let mut made = String::from('"');
    for c in local.chars() {
        if matches!(c, '"' | '\\') {
            made.push('\\');
        }
        made.push(c);
    }
    made.push('"');
    Cow::Owned(made)
}

/// The part of an address that a test looks at; `None` if the address has no such part.
/// `separator` is between user and detail (RFC 5233 §4).
pub(crate) fn part<'a>(
    local: &'a str,
    domain: &'a str,
    part: AddressPart,
    separator: &str,
) -> Option<Cow<'a, str>> {
    let divided = || match separator.is_empty() {
        true => None,
        false => local.split_once(separator),
    };
    Some(match part {
        AddressPart::All => Cow::Owned(format!("{local}@{domain}")),
        AddressPart::LocalPart => Cow::Borrowed(local),
        AddressPart::Domain => Cow::Borrowed(domain),
        AddressPart::User => Cow::Borrowed(divided().map_or(local, |(user, _)| user)),
        // RFC 5233 §4: without a separator there is no detail, not an empty one.
        AddressPart::Detail => Cow::Borrowed(divided()?.1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_addresses() {
        for (text, expected) in [
            ("a@b.c", Some("a@b.c")),
            ("Name <a@b.c>", Some("a@b.c")),
            ("\"a b\"@c", Some("\"a b\"@c")),
            ("a@b, c@d", None),
            ("a", None),
            ("", None),
            ("a@", None),
            ("@b", None),
            ("a@b..c", None),
            ("a@b\r\nBcc: c@d", None),
            ("g: a@b;", None),
        ] {
            assert_eq!(single(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parts_of_an_address() {
        let of = |wanted| part("ken+sieve+x", "example.org", wanted, "+").map(Cow::into_owned);
        assert_eq!(of(AddressPart::All).as_deref(), Some("ken+sieve+x@example.org"));
        assert_eq!(of(AddressPart::User).as_deref(), Some("ken"));
        assert_eq!(of(AddressPart::Detail).as_deref(), Some("sieve+x"));
        assert_eq!(part("ken", "x", AddressPart::Detail, "+"), None);
        assert_eq!(part("ken+", "x", AddressPart::Detail, "+").as_deref(), Some(""));
        assert_eq!(part("ken+a", "x", AddressPart::User, ""), Some("ken+a".into()));
    }
}
