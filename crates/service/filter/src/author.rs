//! The author and the sender of mail that scripts send.
//!
//! The server signs replies and notifications, and SPF passes for what it sends on under an
//! address of its own. A reader may be shown the sender, or who sent a message again, in place of
//! the author. So a script may write only its own account into these fields.

use std::collections::HashSet;

use bytes::Bytes;
use posthaste_authentication::{NamedSender, SENDER_ADDRESSES_MAX, has_bare_cr, named_senders, srs};
use posthaste_directory::Recipient;

use crate::filter::Filter;
use crate::header::reading;
use crate::mail::Mail;

impl Filter {
    /// Whether a message may be sent on with the author and the senders that it names. Fields
    /// that a script wrote must name the account. So must `From` of a message under the account's
    /// own address that nobody sent on before. SPF passes for that address and is aligned with
    /// each author of the organization, so DMARC would pass for another user (RFC 7489 §3.1.2).
    /// DMARC does not look at `Sender`, so a mailing list or a secretary may stay there.
    pub(crate) async fn may_name_author(&self, recipient: &Recipient, text: &Bytes, mail: Mail<'_>) -> bool {
        let named = named([text, mail.served, mail.sent], mail.from).await;
        let passes = !mail.chain.is_sent_on()
            && named.may_align
            && self.resolve(mail.from).await.is_ok_and(|owner| owner.account.id == recipient.account.id);
        if (named.is_changed || passes) && !self.is_own(recipient, named.author.as_deref()).await {
            return false;
        }
        self.are_own(recipient, named.written).await
    }

    /// Whether a message of a script has one author, the account, and no other sender. The server
    /// signs what leaves, so `:from` or `:mime` with another user's address would be vouched for
    /// (RFC 5230 §4.3, RFC 5435 §3.3).
    pub(crate) async fn is_authored_by(&self, recipient: &Recipient, text: &Bytes) -> bool {
        let own = text.clone();
        let read = move || {
            let named: Vec<NamedSender> = named_senders(&own).collect();
            (one_author(&own, &named), all_addresses(named))
        };
        let (author, named) = reading(&[text], read).await;
        self.is_own(recipient, author.as_deref()).await && self.are_own(recipient, named).await
    }

    /// Whether there is an author, and it is the account.
    async fn is_own(&self, recipient: &Recipient, author: Option<&str>) -> bool {
        let Some(author) = author else { return false };
        self.resolve(author).await.is_ok_and(|owner| owner.account.id == recipient.account.id)
    }

    /// Whether [`all_addresses`] of some fields are known, and each is the account.
    async fn are_own(&self, recipient: &Recipient, addresses: Option<Vec<String>>) -> bool {
        let Some(addresses) = addresses else { return false };
        for address in &addresses {
            if !self.is_own(recipient, Some(address)).await {
                return false;
            }
        }
        true
    }
}

/// The authors and senders that a version of a message names.
pub(crate) struct Named {
    /// Its authors are not those of the message before.
    is_changed: bool,
    /// Its author may be of the same organization as the sender.
    may_align: bool,
    /// Its author, if it has one.
    author: Option<String>,
    /// [`all_addresses`] of the fields that the message did not have before: a script wrote them.
    written: Option<Vec<String>>,
}

/// Reads a version of a message, the message before, and the message as it came.
pub(crate) async fn named(messages: [&Bytes; 3], from: &str) -> Named {
    let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain).to_owned();
    let own = messages.map(Bytes::clone);
    let read = move || compared(&own, &domain, |message| named_senders(message).collect());
    reading(&messages, read).await
}

/// Compares them. The addresses of a header may take a while, so each message is read once: a
/// version that is one of the others is not read again.
fn compared(
    [text, before, sent]: &[Bytes; 3],
    domain: &str,
    mut read: impl FnMut(&[u8]) -> Vec<NamedSender>,
) -> Named {
    let mut named = read(text);
    let author = one_author(text, &named);
    let before = (!is_same(text, before)).then(|| read(before));
    let is_changed = before.as_ref().is_some_and(|before| authors(before).ne(authors(&named)));
    match before {
        Some(before) if !is_same(text, sent) => {
            let known: HashSet<NamedSender> = before.into_iter().chain(read(sent)).collect();
            named.retain(|named| !known.contains(named));
        }
        // No script edited it.
        _ => named.clear(),
    }
    Named { is_changed, may_align: srs::may_align(text, domain), author, written: all_addresses(named) }
}

/// Whether two messages are one in memory.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    std::ptr::eq(&one[..], &other[..])
}

/// The addresses of each `From`, from the top.
fn authors(named: &[NamedSender]) -> impl Iterator<Item = &[String]> {
    named.iter().filter_map(|named| match named {
        NamedSender::Field("From", addresses) => Some(addresses.as_slice()),
        NamedSender::Field(..) | NamedSender::Imitated(_) => None,
    })
}

/// The author of a message that has one. These are the fields that name its senders.
fn one_author(text: &[u8], named: &[NamedSender]) -> Option<String> {
    let mut fields = authors(named);
    let (Some([author]), None) = (fields.next(), fields.next()) else { return None };
    (!has_bare_cr(text)).then(|| author.clone())
}

/// The addresses in fields of which each must name the account alone. `None` if one names nobody
/// or is an imitation, or if they have too many addresses. A task would drop all of them in one
/// poll.
pub(crate) fn all_addresses(named: impl IntoIterator<Item = NamedSender>) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for named in named {
        let NamedSender::Field(_, addresses) = named else { return None };
        if addresses.is_empty() || all.len() + addresses.len() > SENDER_ADDRESSES_MAX {
            return None;
        }
        all.extend(addresses);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses of one header were read up to three times, and six in all.
    #[test]
    fn the_addresses_of_each_message_are_read_once() {
        let [one, two, three] =
            ["a@b.test", "c@d.test", "e@f.test"].map(|from| Bytes::from(format!("From: {from}\r\n\r\n")));
        for (messages, expected) in [
            ([&one, &two, &three], "ace"),
            // What no script edited is not read again.
            ([&one, &two, &one], "ac"),
            ([&one, &one, &three], "a"),
            ([&one; 3], "a"),
        ] {
            let mut read = String::new();
            let named = compared(&messages.map(Bytes::clone), "b.test", |message| {
                read.push(char::from(message["From: ".len()]));
                named_senders(message).collect()
            });
            assert_eq!(read, expected);
            assert_eq!(named.author.as_deref(), Some("a@b.test"));
            assert_eq!((named.is_changed, named.may_align), (expected != "a", true));
            let written: &[&str] = if expected == "ace" { &["a@b.test"] } else { &[] };
            assert_eq!(named.written.unwrap(), written);
        }
    }
}
