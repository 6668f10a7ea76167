//! The author and the sender of mail that scripts send.
//!
//! The server signs replies and notifications, and SPF passes for what it sends on under an
//! address of its own. A reader may be shown the sender, or who sent a message again, in place of
//! the author. So a script may write only its own account into these fields.

use std::collections::HashSet;

use bytes::Bytes;
use posthaste_authentication::{NamedSender, SENDER_ADDRESSES_MAX, authors, has_bare_cr, named_senders, srs};
use posthaste_directory::Recipient;
use posthaste_mime_summary::has_long_header;
use posthaste_net::elsewhere;

use crate::filter::Filter;
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
    pub(crate) async fn is_authored_by(&self, recipient: &Recipient, text: &[u8]) -> bool {
        self.is_own(recipient, one_author(text).as_deref()).await
            && self.are_own(recipient, named_senders(text).collect()).await
    }

    /// Whether there is an author, and it is the account.
    async fn is_own(&self, recipient: &Recipient, author: Option<&str>) -> bool {
        let Some(author) = author else { return false };
        self.resolve(author).await.is_ok_and(|owner| owner.account.id == recipient.account.id)
    }

    /// Whether each of these fields names the account alone.
    async fn are_own(&self, recipient: &Recipient, named: Vec<NamedSender>) -> bool {
        let mut left = SENDER_ADDRESSES_MAX;
        for named in named {
            let NamedSender::Field(_, addresses) = named else { return false };
            if addresses.is_empty() || addresses.len() > left {
                return false;
            }
            left -= addresses.len();
            for address in addresses {
                let owner = self.resolve(&address).await;
                if !owner.is_ok_and(|owner| owner.account.id == recipient.account.id) {
                    return false;
                }
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
    /// The fields that the message did not have before: a script wrote them.
    written: Vec<NamedSender>,
}

/// Reads a version of a message, the message before, and the message as it came. Another thread
/// reads long headers: all addresses of 1 MiB take 30 ms, and there are several looks.
pub(crate) async fn named(messages: [&Bytes; 3], from: &str) -> Named {
    let is_long = messages.iter().any(|message| has_long_header(message));
    let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain).to_owned();
    let [text, before, sent] = messages.map(Bytes::clone);
    let read = move || Named {
        is_changed: authors(&text) != authors(&before),
        may_align: srs::may_align(&text, &domain),
        author: one_author(&text),
        written: written(&text, [&before, &sent]),
    };
    if is_long { elsewhere(read).await } else { read() }
}

/// The author of a message that has one.
fn one_author(text: &[u8]) -> Option<String> {
    let fields = authors(text);
    let [author] = fields.as_slice() else { return None };
    let [author] = author.as_slice() else { return None };
    (!has_bare_cr(text)).then(|| author.clone())
}

fn written(text: &[u8], before: [&Bytes; 2]) -> Vec<NamedSender> {
    let before: HashSet<NamedSender> =
        before.into_iter().flat_map(|message| named_senders(message)).collect();
    named_senders(text).filter(|named| !before.contains(named)).collect()
}
