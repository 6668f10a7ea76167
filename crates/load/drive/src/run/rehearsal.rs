//! Reads the answer of a listing as a virtual user does, outside of a run.
//!
//! `benches/reading.rs` counts what this costs. So the cost of reading is guarded on its own,
//! without a server and without time.

use posthaste_imap_client::Client;

use super::follow::{Follow, Wanted, enough_of};
use super::model::MailboxModel;
use super::session::conclude;

/// A mailbox as a virtual user knows it.
pub struct Rehearsal(MailboxModel);

impl Rehearsal {
    /// A rehearsal with this many messages, of which the user knows nothing yet.
    pub fn new(messages: u32) -> Self {
        Self(MailboxModel { exists: Some(messages), ..MailboxModel::named("INBOX") })
    }

    /// Reads the answer to `FETCH 1:* (items)`, which was sent. The number of its FETCH responses.
    ///
    /// # Errors
    /// The fault of the answer: in itself, or compared with earlier answers.
    pub async fn read(&mut self, client: &mut Client, items: &str) -> Result<u64, String> {
        let before = self.0.exists;
        let mut follow = Follow::mailbox(Some(&mut self.0)).wanting(Wanted::From(1));
        follow.enough = Some(enough_of(items));
        let completion = client.answer(&mut follow).await.map_err(|e| e.to_string())?;
        follow.check_complete(before);
        let fetched = follow.fetched;
        conclude("FETCH", completion, follow).map(|_| fetched).map_err(|e| e.to_string())
    }
}
