//! Checks a recipient: its local account, and whether it has space.

use posthaste_delivery::{ErrorKind, ResolveError};
use posthaste_directory::Target;
use posthaste_net::NetError;

use super::Driver;
use crate::Role;
use crate::address::{self, Literal, Mailbox};
use crate::postmaster::takes_no_mail;
use crate::reply::Reply;
use crate::session::{Action, replies};

impl Driver {
    /// Takes a recipient, or says why not.
    pub(super) async fn recipient(&mut self, mailbox: Mailbox) -> Result<Action, NetError> {
        if let Some(refusal) = self.screened(mailbox.as_str()).await? {
            return Ok(self.session.recipient_refused(refusal));
        }
        let found = match address::literal(mailbox.as_str()) {
            Some((local, literal)) => match self.resolve_literal(local, literal).await {
                Some(found) => found,
                None => return Ok(self.session.recipient_elsewhere()),
            },
            None => self.resolve_recipient(mailbox.as_str()).await,
        };
        if let Some(refusal) = self.screened_as(mailbox.as_str(), &found) {
            return Ok(self.session.recipient_refused(refusal));
        }
        match self.full(&found).await {
            Some(reply) => Ok(self.session.recipient_put_off(reply)),
            None => Ok(self.session.recipient_resolved(mailbox, found)),
        }
    }

    /// The reply for a recipient whose quota has no room. After the message there is one reply for
    /// all recipients, so a client would send it again to those who have it. LMTP has a reply for
    /// each.
    async fn full(&self, found: &Result<Target, ResolveError>) -> Option<Reply> {
        let target = found.as_ref().ok().filter(|_| self.service.role != Role::Lmtp)?;
        let error = self.service.sink.has_room(target, self.session.declared_size()).await.err()?;
        // Any other failure is named by delivery.
        (error.kind() == ErrorKind::OverQuota).then(|| replies::delivery(ErrorKind::OverQuota))
    }

    /// The target of a recipient. A postmaster of ours has one, also if nobody has that address.
    /// Senders are looked up without this: the account that gets the mail is not the postmaster.
    pub(super) async fn resolve_recipient(&self, address: &str) -> Result<Target, ResolveError> {
        match self.resolve(address).await {
            Err(missing) if takes_no_mail(&missing) => {
                let (names, directory) = (self.service.options.postmaster_names(), &self.service.directory);
                // Boxed: most recipients are found.
                let (found, _) = Box::pin(names.find(directory, address, missing)).await;
                if let Err(ResolveError::Directory(cause)) = &found {
                    tracing::error!(%cause, "the directory cannot be read");
                }
                found
            }
            found => found,
        }
    }

    /// The target of a recipient at an address literal (RFC 5321 §4.1.3). If it is the address at
    /// which this connection came in, its mailboxes are those of our first domain. `None` if it is
    /// the address of another host: mail for that is not taken.
    async fn resolve_literal(&self, local: &str, literal: Literal) -> Option<Result<Target, ResolveError>> {
        let Literal::Address(address) = literal else { return None };
        let options = &self.service.options;
        if address.to_canonical() == self.connection.local().ip().to_canonical() {
            return Some(match &options.domain {
                _ if local.eq_ignore_ascii_case("postmaster") => self.resolve_recipient(local).await,
                Some(domain) => self.resolve(&format!("{local}@{domain}")).await,
                None => Err(ResolveError::NoSuchUser),
            });
        }
        let is_user = self.service.role == Role::Submission && self.session.account().is_some();
        (is_user && options.relays && options.relays_to_addresses).then_some(Err(ResolveError::NotLocal))
    }
}
