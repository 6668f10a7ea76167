//! The author of a submitted message is its account.

use bytes::Bytes;
use posthaste_authentication::{NamedSender, SENDER_ADDRESSES_MAX, named_senders, reading_header};
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
        // A field of 1 MiB may have 200,000 addresses, and each takes 0.1 µs.
        let holder = self.header_holder();
        let Named { fields, other } = reading_header(holder, message, |message| named(&message)).await;
        for (field, authors) in fields {
            for author in &authors {
                match self.resolve(author).await {
                    Ok(Target::Account(owner)) if Some(owner.account.id) == own => {}
                    Err(ResolveError::Directory(_)) => return Err(replies::directory_away()),
                    Ok(_) | Err(_) => return refused(field, Some(author)),
                }
            }
        }
        other.map_or(Ok(()), |field| refused(field, None))
    }
}

/// The authors and senders that a message names.
struct Named {
    /// The fields that may all name the account, from the top, with their addresses.
    fields: Vec<(&'static str, Vec<String>)>,
    /// The first field that does not name the account alone, whatever its addresses are. Nothing
    /// is read after it.
    other: Option<&'static str>,
}

fn named(message: &[u8]) -> Named {
    let (mut left, mut fields) = (SENDER_ADDRESSES_MAX, Vec::new());
    for named in named_senders(message) {
        match named {
            NamedSender::Field(field, authors) if !authors.is_empty() && authors.len() <= left => {
                left -= authors.len();
                fields.push((field, authors));
            }
            NamedSender::Field(field, _) | NamedSender::Imitated(field) => {
                return Named { fields, other: Some(field) };
            }
        }
    }
    Named { fields, other: None }
}
