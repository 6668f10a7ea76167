//! Step 1: bodies of copied messages get their further references.

use posthaste_mail_model::NumSet;
use posthaste_store::{Report, Result};

use super::holders::{Holder, holders};
use crate::index::Indexed;
use crate::index::bodies::BodyPlace;
use crate::index::copied::{copied_from, copied_value};
use crate::writer::apply::Apply;

/// Counts at most `limit` references. Returns whether there was anything to count.
pub(super) fn count_copies(apply: &mut Apply<'_, '_>, limit: usize, report: &mut Report) -> Result<bool> {
    let (index, txn) = (apply.index, &mut apply.txn);
    let mut left = limit;
    let mut any = false;
    while left > 0 {
        let Some((key, value)) = index.copied.first(txn).indexed()? else { break };
        let (mailbox, set) = copied_from(key, value)?;
        let key = key.to_vec();
        any = true;
        let found = holders(index, txn, mailbox, &set, left)?;
        for Holder { uid, body, .. } in &found {
            let place = match body {
                Some(body) => index.body(txn, *body)?.map(|place| (*body, place)),
                None => None,
            };
            match place {
                Some((body, place)) => {
                    let refs = place.refs.saturating_add(1);
                    index.put_body(txn, body, BodyPlace { refs, ..place })?;
                }
                _ => report.faults.push(format!("copied message {uid} of mailbox {mailbox} has no body")),
            }
        }
        report.examined += found.len() as u64 + 1;
        left -= found.len();
        let rest = match found.last() {
            Some(last) if left == 0 => set.difference(&NumSet::range(0, last.uid)),
            _ => NumSet::new(),
        };
        if rest.is_empty() {
            index.copied.delete(txn, &key).indexed()?;
        } else {
            index.copied.put(txn, &key, &copied_value(&key, mailbox, &rest)).indexed()?;
        }
    }
    Ok(any)
}
