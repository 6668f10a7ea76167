//! Retention: rules remove old mail, or mail beyond a number of messages, from a folder. They move
//! it to the trash or to an archive folder for its month, or delete it. Seed 000 advised
//! administrators to keep folders small, but they had no tool for it.
//!
//! | module | what |
//! | --- | --- |
//! | [`Rule`] | which messages a rule chooses |
//! | [`Retention`] | applies rules to accounts, or reports what they would do |
//! | [`InboxExpiry`] | how long mail stays in the INBOX |
//!
//! Invariants:
//! * a message is moved in one commit, as by MOVE (RFC 6851). It is in exactly one of both folders,
//!   also after a crash;
//! * a dry run changes nothing, not even the mailbox list;
//! * a folder takes no more messages than its owner's limit allows. The rest stays, and is named;
//! * what was moved is reported, also if an error ends the work;
//! * changes are made in batches, between which clients get their turn. A message that was flagged
//!   meanwhile stays, if the rule keeps flagged ones;
//! * a folder's messages are chosen from its view, without reading bodies. For ages that count from
//!   the save date (RFC 8514) one record is read for each halving of the folder, and one for each
//!   chosen message.

mod choose;
mod expiry;
mod folders;
mod rule;
mod run;
#[cfg(test)]
mod tests;

pub use expiry::{InboxExpiry, Stay};
pub use rule::{Action, AgeFrom, Rule, RuleError};
pub use run::{Mode, Outcome, Report, Retention, RetentionError, Target};
