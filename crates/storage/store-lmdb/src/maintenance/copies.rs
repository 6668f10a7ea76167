//! Step 1 of maintenance: adds the references of copied messages to the counts of their bodies.

use posthaste_mail_model::NumSet;
use posthaste_store::{Report, Result};

use super::holders::{Holder, holders};
use crate::index::bodies::BodyLocation;
use crate::index::copied;
use crate::writer::apply::Apply;

/// Counts at most `limit` references. Returns whether there was anything to count.
pub(super) fn count_copies(apply: &mut Apply<'_, '_>, limit: usize, report: &mut Report) -> Result<bool> {
    let (index, txn) = (apply.index, &mut apply.txn);
    let mut left = limit;
    let mut any = false;
    while left > 0 {
        let Some(note) = copied::first(index, txn)? else { break };
        let mailbox = note.mailbox;
        any = true;
        let found = holders(index, txn, mailbox, &note.set, left)?;
        for Holder { uid, body, .. } in &found {
            let location = match body {
                Some(body) => index.body(txn, *body)?.map(|location| (*body, location)),
                None => None,
            };
            match location {
                Some((body, location)) => {
                    let refs = location.refs.saturating_add(1);
                    index.put_body(txn, body, BodyLocation { refs, ..location })?;
                }
                _ => report.faults.push(format!("copied message {uid} of mailbox {mailbox} has no body")),
            }
        }
        report.examined += found.len() as u64 + 1;
        left -= found.len();
        let rest = match found.last() {
            Some(last) if left == 0 => note.set.difference(&NumSet::range(0, last.uid)),
            _ => NumSet::new(),
        };
        copied::leave(index, txn, &note, &rest)?;
    }
    Ok(any)
}
