//! What the script of a mailbox sends is submitted by the user whose command runs it (RFC 6785
//! §3.4).
//!
//! A message that was delivered and then copied looks like one that the user has written. So the
//! rules of submission hold for both: the authors, and the limits. A message of foreign authors may
//! leave for other domains nevertheless. The next host verifies it, and nothing vouches for it: it
//! is not signed, and its envelope names the owner of the mailbox. A mailbox here would get it
//! unverified.

use bytes::Bytes;
use posthaste_authentication::{has_bare_cr, named_senders};
use posthaste_directory::{Account, ResolveError};

use crate::author::all_addresses;
use crate::filter::Filter;
use crate::header::reading;
use crate::mail::{Mail, Trigger};
use crate::send::NotSent;

impl Filter {
    /// Counts a redirect, if the message may be sent to this address. `header` is what the script
    /// has made of its header; `None` if it is unchanged.
    pub(crate) async fn admit_redirect(
        &self,
        to: &str,
        header: Option<&[u8]>,
        mail: Mail<'_>,
    ) -> Result<(), NotSent> {
        if let Trigger::Stored { user, author } = mail.trigger {
            let header = header.map_or_else(|| mail.sent.clone(), Bytes::copy_from_slice);
            if !self.may_submit(author, to, &header).await {
                let name = user.name.clone();
                return Err(match author {
                    Some(_) => NotSent::Submitter(name),
                    None => NotSent::Reader(name),
                });
            }
        }
        self.count_sent(mail)
    }

    /// Counts a message that a script sends, or returns why it may send no more.
    pub(crate) fn count_sent(&self, mail: Mail<'_>) -> Result<(), NotSent> {
        if !mail.chain.count() {
            return Err(NotSent::TooMany);
        }
        match mail.trigger {
            Trigger::Delivered => Ok(()),
            Trigger::Stored { user, .. } => self.accounts.submit(user.limited()).map_err(NotSent::Submission),
        }
    }

    /// Whether each author and sender that a header names may be named to this address: the author
    /// (RFC 6409 §6.1), or, if the message leaves for another domain, somebody of another domain.
    async fn may_submit(&self, author: Option<&Account>, to: &str, header: &Bytes) -> bool {
        let own = header.clone();
        // A reader may take a CR as the end of a line, so that another field begins.
        let read = move || if has_bare_cr(&own) { None } else { all_addresses(named_senders(&own)) };
        let Some(named) = reading(&[header], read).await else { return false };
        let leaves = matches!(self.resolve(to).await, Err(ResolveError::NotLocal));
        for address in &named {
            let may_name = match self.resolve(address).await {
                Ok(owner) => author.is_some_and(|author| author.id == owner.account.id),
                // Some programs end `ceo@a.test x bo@b.test` at the space.
                Err(ResolveError::NotLocal) => leaves && address.matches('@').count() == 1,
                Err(_) => false,
            };
            if !may_name {
                return false;
            }
        }
        true
    }
}
