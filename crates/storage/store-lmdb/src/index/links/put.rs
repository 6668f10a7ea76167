//! Writes copies as links.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::{NewMessage, Result, StoreError};

use super::note::LinkNote;
use super::walk::{bad, next_of};
use crate::index::checksum::seed;
use crate::index::summaries::record::{Origin, put_link, summary_from, summary_parts};
use crate::index::{Index, Indexed, Writing, summaries};

/// Appends to `origins` the origins of a run of copied messages: each message itself, or the
/// origin that it links to. `bodies`: the messages' bodies, as the copy has read them.
pub(crate) fn origins_of(
    index: &Index,
    txn: &RoTxn,
    run: &[Origin],
    bodies: impl Iterator<Item = BodyId>,
    origins: &mut Vec<Origin>,
) -> Result<()> {
    let (Some(&(from, low)), Some(&(_, high))) = (run.first(), run.last()) else { return Ok(()) };
    let mut there = summaries::cursor(index, txn, from, (low, high)).indexed()?;
    for (&(_, uid), body) in run.iter().zip(bodies) {
        let value = next_of(&mut there, from, uid)?;
        // A summary is verified when it is read. A link is copied, and so
        // verified now.
        let found = match summary_parts(value).ok_or_else(bad(from, uid))? {
            link if link.kind.origin().is_some() => {
                summary_from(seed(from.0), uid, value).ok_or_else(bad(from, uid))?
            }
            own => own,
        };
        if found.body != body {
            summary_from(seed(from.0), uid, value).ok_or_else(bad(from, uid))?;
            return Err(StoreError::Refused("a copy must name the body of its source"));
        }
        origins.push(found.kind.origin().unwrap_or((from, uid)));
    }
    Ok(())
}

/// Puts a run of copies as links to their origins, and the notes of them.
pub(crate) fn put_links(
    index: &Index,
    txn: &mut Writing,
    to: MailboxId,
    copies: &[NewMessage],
    origins: &[Origin],
) -> Result<()> {
    let (own, mut value) = (seed(to.0), Vec::new());
    let mut note: Option<LinkNote> = None;
    for (message, &origin) in copies.iter().zip(origins) {
        let uid = message.row.uid().value();
        put_link(&mut value, own, uid, message.into(), origin);
        summaries::put(index, txn, to, uid, &value)?;
        if !note.as_mut().is_some_and(|note| note.takes(origin, uid)) {
            let full = note.replace(LinkNote::new(origin, to, uid));
            full.map_or(Ok(()), |full| full.put(index, txn))?;
        }
    }
    note.map_or(Ok(()), |last| last.put(index, txn))
}
