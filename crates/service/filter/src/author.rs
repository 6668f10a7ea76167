//! The author and the sender of mail that scripts send.
//!
//! The server signs replies and notifications, and SPF passes for what it sends on under an
//! address of its own. A reader may be shown the sender, or who sent a message again, in place of
//! the author. So a script may write only its own account into these fields.

use std::collections::HashSet;

use posthaste_authentication::{NamedSender, SENDER_ADDRESSES_MAX, authors, has_bare_cr, named_senders, srs};
use posthaste_directory::Recipient;

use crate::filter::Filter;
use crate::mail::Mail;

impl Filter {
    /// Whether a message may be sent on with the author and the senders that it names. Fields
    /// that a script wrote must name the account. So must `From` of a message under the account's
    /// own address that nobody sent on before. SPF passes for that address and is aligned with
    /// each author of the organization, so DMARC would pass for another user (RFC 7489 §3.1.2).
    /// DMARC does not look at `Sender`, so a mailing list or a secretary may stay there.
    pub(crate) async fn may_name_author(&self, recipient: &Recipient, text: &[u8], mail: Mail<'_>) -> bool {
        let is_changed = authors(text) != authors(mail.served);
        let domain = mail.from.rsplit_once('@').map_or("", |(_, domain)| domain);
        let passes = !mail.chain.is_sent_on()
            && srs::may_align(text, domain)
            && self.resolve(mail.from).await.is_ok_and(|owner| owner.account.id == recipient.account.id);
        if (is_changed || passes) && !self.has_own_author(recipient, text).await {
            return false;
        }
        self.are_own(recipient, written(text, mail)).await
    }

    /// Whether a message of a script has one author, the account, and no other sender. The server
    /// signs what leaves, so `:from` or `:mime` with another user's address would be vouched for
    /// (RFC 5230 §4.3, RFC 5435 §3.3).
    pub(crate) async fn is_authored_by(&self, recipient: &Recipient, text: &[u8]) -> bool {
        self.has_own_author(recipient, text).await
            && self.are_own(recipient, named_senders(text).collect()).await
    }

    /// Whether a message has one author, the account.
    async fn has_own_author(&self, recipient: &Recipient, text: &[u8]) -> bool {
        let fields = authors(text);
        let [author] = fields.as_slice() else { return false };
        let [author] = author.as_slice() else { return false };
        let owner = self.resolve(author).await;
        !has_bare_cr(text) && owner.is_ok_and(|owner| owner.account.id == recipient.account.id)
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

/// The fields of a version of a message that the message did not have before: a script wrote
/// them.
fn written(text: &[u8], mail: Mail<'_>) -> Vec<NamedSender> {
    let before: HashSet<NamedSender> = named_senders(mail.served).chain(named_senders(mail.sent)).collect();
    named_senders(text).filter(|named| !before.contains(named)).collect()
}
