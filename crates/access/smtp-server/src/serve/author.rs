//! The author of a submitted message is its account.

use bytes::Bytes;
use posthaste_authentication::authors;
use posthaste_directory::{ResolveError, Target};

use super::Driver;
use crate::reply::Reply;
use crate::session::replies;
use crate::{Role, SenderRule};

/// Addresses of one message's `From` fields. Each costs a look-up in the directory.
const AUTHORS_MAX: usize = 16;

impl Driver {
    /// Whether each author is the account itself (RFC 6409 §6.1). The server signs what leaves, so
    /// that another user's address in `From` would be vouched for. A message without `From` passes:
    /// nothing signs it.
    pub(super) async fn authored(&self, id: &str, message: &Bytes) -> Result<(), Reply> {
        let service = &self.service;
        if service.role != Role::Submission || service.options.sender != SenderRule::Own {
            return Ok(());
        }
        let own = self.session.account().map(|account| account.id);
        let fields = authors(message);
        let count: usize = fields.iter().map(Vec::len).sum();
        let refused = |author: Option<&str>| {
            let account = self.session.account().map(|account| account.name.as_str());
            tracing::info!(id, account, author, "refused: the author is not the account");
            Err(replies::not_your_author(author))
        };
        if count > AUTHORS_MAX || fields.iter().any(Vec::is_empty) {
            return refused(None);
        }
        for author in fields.iter().flatten() {
            match self.resolve(author).await {
                Ok(Target::Account(owner)) if Some(owner.account.id) == own => {}
                Err(ResolveError::Directory(_)) => return Err(replies::directory_away()),
                Ok(_) | Err(_) => return refused(Some(author)),
            }
        }
        Ok(())
    }
}
