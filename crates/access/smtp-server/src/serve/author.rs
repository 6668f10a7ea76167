//! The author of a submitted message is its account.

use bytes::Bytes;
use posthaste_authentication::{NamedSender, SENDER_ADDRESSES_MAX, named_senders};
use posthaste_directory::{ResolveError, Target};

use super::Driver;
use crate::reply::Reply;
use crate::session::replies;
use crate::{Role, SenderRule};

impl Driver {
    /// Whether each author and sender is the account itself (RFC 6409 §6.1). The server signs what
    /// leaves, so that another user's address in `From` would be vouched for. A reader may be shown
    /// the sender, or who sent it again, in place of the author. A message without these fields
    /// passes: nothing signs it.
    pub(super) async fn authored(&self, id: &str, message: &Bytes) -> Result<(), Reply> {
        let service = &self.service;
        if service.role != Role::Submission || service.options.sender != SenderRule::Own {
            return Ok(());
        }
        let own = self.session.account().map(|account| account.id);
        let refused = |field: &str, author: Option<&str>| {
            let account = self.session.account().map(|account| account.name.as_str());
            tracing::info!(id, account, field, author, "refused: the author is not the account");
            Err(replies::not_your_author(field, author))
        };
        let mut left = SENDER_ADDRESSES_MAX;
        for named in named_senders(message) {
            let (field, authors) = match named {
                NamedSender::Field(field, authors) if !authors.is_empty() && authors.len() <= left => {
                    (field, authors)
                }
                NamedSender::Field(field, _) | NamedSender::Imitated(field) => return refused(field, None),
            };
            left -= authors.len();
            for author in &authors {
                match self.resolve(author).await {
                    Ok(Target::Account(owner)) if Some(owner.account.id) == own => {}
                    Err(ResolveError::Directory(_)) => return Err(replies::directory_away()),
                    Ok(_) | Err(_) => return refused(field, Some(author)),
                }
            }
        }
        Ok(())
    }
}
