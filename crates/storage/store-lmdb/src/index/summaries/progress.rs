//! How far one listing of summaries has come, over all its slices.

use std::ops::ControlFlow;

use posthaste_mail_model::{MailboxId, NumSet, Uid};
use posthaste_store::{Stored, Unreadable, Visit};

use super::record::Arrival;
use super::repair::{Examined, Repaired};

/// Damaged messages of one call that are logged one by one: twenty show what happened. A mailbox
/// whose records are all damaged does not fill the log.
const LOGGED_MAX: usize = 20;

/// The progress of one call.
pub(crate) struct Progress {
    pub(super) mailbox: MailboxId,
    /// Each requested UID up to this one was visited or reported, or has no row.
    pub(super) after: u32,
    /// LMDB met a damaged page. The rest is read message by message.
    pub(super) is_broken: bool,
    unreadable: NumSet,
    logged: usize,
}

impl Progress {
    /// A call that begins.
    pub(crate) fn new(mailbox: MailboxId) -> Self {
        Self { mailbox, after: 0, is_broken: false, unreadable: NumSet::new(), logged: 0 }
    }

    /// Whether nothing of this set is left.
    pub(crate) fn is_past(&self, uids: &NumSet) -> bool {
        uids.last().is_none_or(|last| last <= self.after)
    }

    /// The messages that have rows and could not be visited.
    pub(crate) fn unreadable(self) -> Unreadable {
        Unreadable(self.unreadable)
    }

    /// Visits messages that were read again, or notes that they cannot be read. UIDs rise from call
    /// to call.
    pub(crate) fn visit(&mut self, read: Vec<(u32, Examined)>, visit: &mut Visit<'_>) -> ControlFlow<()> {
        for (uid, examined) in read {
            self.after = uid;
            let Some(of) = Uid::new(uid) else { continue };
            match examined {
                Examined::Expunged => {}
                Examined::Found(Repaired { arrival, summary, is_made }) => {
                    let Arrival { body, saved, created } = arrival;
                    if is_made {
                        self.log(uid, "the summary is damaged; it was rebuilt from the body");
                    }
                    visit(Stored { uid: of, body, saved, created, summary: &summary, is_shared: false })?;
                }
                Examined::Lost(why) => {
                    self.log(uid, &why);
                    self.unreadable.push(uid);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn log(&mut self, uid: u32, what: &str) {
        self.logged += 1;
        match self.logged.cmp(&LOGGED_MAX) {
            std::cmp::Ordering::Less => {
                tracing::error!(mailbox = %self.mailbox, uid, what, "damage in the index")
            }
            std::cmp::Ordering::Equal => {
                tracing::error!(
                    mailbox = %self.mailbox, uid, what,
                    "damage in the index; further messages of this call are not logged"
                );
            }
            std::cmp::Ordering::Greater => {}
        }
    }
}
