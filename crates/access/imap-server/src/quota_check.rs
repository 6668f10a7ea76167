//! Refuses a message that exceeds the quota of its account before the client sends it (RFC 9208
//! §4.3.1).
//!
//! Only what is certain is refused here. The command itself reserves the quota of its messages.

use std::borrow::Cow;

use posthaste_delivery::{ErrorKind, Usage};
use posthaste_directory::Account;
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::framing::{IncomingMessage, LiteralSync, LiteralWanted};

use crate::reply::{Failure, Reply, Verdict};
use crate::rights::Act;
use crate::session::Session;

/// A message that the client sends at once and that is no longer than this is read in any case.
/// That costs less than a check of the quota. RFC 7888 §5 has the same number for LITERAL-.
const READ_IN_ANY_CASE: u64 = 4096;

/// Refuses a message that is larger than the quota that is left in the account of its mailbox.
pub(crate) async fn check(session: &Session, wanted: &LiteralWanted) -> Result<(), Reply> {
    let Some(message) = &wanted.message else { return Ok(()) };
    // RFC 3502 §3: an empty message cancels the command.
    let is_small = wanted.sync == LiteralSync::Follows && wanted.size <= READ_IN_ANY_CASE;
    if wanted.size == 0 || is_small {
        return Ok(());
    }
    // A mailbox that cannot be used is answered by the command, with a better reason.
    let Ok(owner) = owner_of(session, message).await else { return Ok(()) };
    let bytes = message.before.saturating_add(wanted.size);
    let delivery = &session.service.delivery;
    let allowed = match message.replaces {
        true => delivery.could_replace(&owner, bytes).await,
        false => delivery.could_append(&owner, Usage { bytes, messages: 1 }).await,
    };
    match allowed {
        Err(error) if error.kind() == ErrorKind::OverQuota => match Failure::from(error).verdict() {
            Verdict::Answer(reply) => Err(reply),
            Verdict::Bye(_) | Verdict::HangUp(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The account that the message would count for.
async fn owner_of<'s>(session: &'s Session, message: &IncomingMessage) -> Result<Cow<'s, Account>, Failure> {
    let asker = session.asker()?;
    let mailbox = MailboxArg::decode(&message.mailbox, session.wire.names);
    let found = asker.find(&mailbox, Act::Insert).await?;
    asker.owner(&found.resolved).await
}
