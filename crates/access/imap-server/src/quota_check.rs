//! Refuses a message that exceeds the quota of its account before the client sends it (RFC 9208
//! §4.3.1).
//!
//! Only what is certain is refused here. The command itself reserves the quota of its messages.

use std::borrow::Cow;

use posthaste_delivery::{ErrorKind, Usage};
use posthaste_directory::Account;
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::framing::{IncomingMessage, LiteralSync, LiteralWanted};
use posthaste_mail_model::Rights;

use crate::reply::{Failure, Reply, Verdict};
use crate::rights::{Act, without_usage};
use crate::session::Session;
use crate::wire::Wire;

/// A message that the client sends at once and that is no longer than this is read in any case.
/// That costs less than a check of the quota. RFC 7888 §5 has the same number for LITERAL-.
const READ_IN_ANY_CASE: u64 = 4096;

/// A message that has come whole already, and that is no longer than this, is left to the command
/// as well. A refusal could save only its summary.
const LEFT_TO_THE_COMMAND: u64 = 16 * 1024;

/// The announced message, if its quota must be checked before it is read.
pub(crate) fn due(wire: &mut Wire, wanted: &LiteralWanted) -> Option<IncomingMessage> {
    let arrived = wire.input_len().saturating_sub(wanted.held) as u64;
    if is_left_to_the_command(wanted.sync, wanted.size, arrived) {
        return None;
    }
    wire.message(wanted)
}

/// Whether the command alone checks a message of this size, of which these bytes have arrived.
const fn is_left_to_the_command(sync: LiteralSync, size: u64, arrived: u64) -> bool {
    match sync {
        // RFC 3502 §3: an empty message cancels the command.
        LiteralSync::Waits => size == 0,
        LiteralSync::Follows => size <= READ_IN_ANY_CASE || (size <= LEFT_TO_THE_COMMAND && size <= arrived),
    }
}

/// Refuses a message of this size if it is larger than the quota that is left in the account of
/// its mailbox.
pub(crate) async fn check(session: &Session, message: &IncomingMessage, size: u64) -> Result<(), Reply> {
    // A mailbox that cannot be used is answered by the command, with a better reason.
    let Ok((owner, rights)) = owner_of(session, message).await else { return Ok(()) };
    let bytes = message.before.saturating_add(size);
    let delivery = &session.service.delivery;
    let allowed = match message.replaces {
        true => delivery.could_replace(&owner, bytes).await,
        false => delivery.could_append(&owner, Usage { bytes, messages: 1 }).await,
    };
    match allowed {
        Err(error) if error.kind() == ErrorKind::OverQuota => {
            match without_usage(error.into(), rights).verdict() {
                Verdict::Answer(reply) => Err(reply),
                Verdict::Bye(_) | Verdict::HangUp(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The account that the message would count for, and the user's rights in the mailbox.
async fn owner_of<'s>(
    session: &'s Session,
    message: &IncomingMessage,
) -> Result<(Cow<'s, Account>, Rights), Failure> {
    let asker = session.asker()?;
    let mailbox = MailboxArg::decode(&message.mailbox, session.wire.names);
    let found = asker.find(&mailbox, Act::Insert).await?;
    Ok((asker.owner(&found.resolved).await?, found.rights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_that_has_come_is_left_to_the_command() {
        let is_left = is_left_to_the_command;
        assert!(is_left(LiteralSync::Follows, 4096, 0));
        assert!(is_left(LiteralSync::Follows, 5000, 5000) && !is_left(LiteralSync::Follows, 5000, 4999));
        assert!(!is_left(LiteralSync::Follows, LEFT_TO_THE_COMMAND + 1, u64::MAX));
        // The client waits for the answer.
        assert!(!is_left(LiteralSync::Waits, 1, u64::MAX) && is_left(LiteralSync::Waits, 0, 0));
    }
}
