//! Unsolicited FETCH responses with the names of entries that others changed: RFC 5257 §4.4.

use std::sync::Arc;

use posthaste_imap_codec::print::{self, Line};
use posthaste_mail_model::NumSet;
use posthaste_store::Difference;

use super::reader::{ByUid, ReadValues};
use super::reader_of;
use crate::contexts::update::Searcher;
use crate::enabled::Enabled;
use crate::fetch_head::begin_fetch;
use crate::offload::set_steps;
use crate::reply::Failure;
use crate::selected::Selected;
use crate::wire::Wire;

/// The messages that arrived, and those with the changed ones, by UID.
async fn concerned(
    selected: &Selected,
    by: Searcher<'_>,
    diff: &Difference,
) -> Result<(NumSet, NumSet), Failure> {
    let (view, arrived, changed) =
        (Arc::clone(&selected.announced), diff.arrived.clone(), diff.changed.clone());
    let work = move || {
        let arrived = view.uids_of_seqs(&arrived);
        let uids = view.uids_of_seqs(&changed).union(&arrived);
        (arrived, uids)
    };
    by.threads().run(set_steps(&diff.arrived) + 2 * set_steps(&diff.changed), work).await
}

/// Reports entries that others changed of messages that differ between two views.
pub(crate) async fn report_changes(
    wire: &mut Wire,
    selected: &mut Selected,
    by: Searcher<'_>,
    enabled: Enabled,
    diff: &Difference,
) -> Result<(), Failure> {
    let reader = reader_of(by.service, by.account, selected);
    let (arrived, uids) = concerned(selected, by, diff).await?;
    let view = &selected.announced;
    let Some(known) = &mut selected.annotations else { return Ok(()) };
    known.adopt(&diff.expunged_uids, &ByUid::new()).await;
    if uids.is_empty() {
        return Ok(());
    }
    // The memory is held as long as the values are.
    let ReadValues { by_uid: all, paid } = match wire.reporting_if(by.reports(), reader.read(&uids)).await {
        Ok(found) => found,
        Err(error) => {
            // Everything else is still reported, and changes of annotations show by MODSEQ.
            tracing::warn!(%error, "a session no longer gets reports of annotation changes");
            selected.annotations = None;
            return Ok(());
        }
    };
    let changed = known.adopt(&uids, &all).await;
    drop((all, paid));
    if known.is_full() {
        selected.annotations = None;
    }
    for (uid, names) in changed.iter().filter(|(uid, _)| !arrived.contains(*uid)) {
        for (seq, row) in view.rows(&view.seqs_of_uids(&NumSet::range(*uid, *uid))) {
            let out = wire.out();
            Line::print(out, |line| begin_fetch(line, enabled, seq, row));
            if !enabled.uid_only {
                out.extend_from_slice(b"UID ");
                print::number(out, u64::from(*uid));
                out.push(b' ');
            }
            out.extend_from_slice(b"ANNOTATION (");
            for (at, name) in names.iter().enumerate() {
                if at > 0 {
                    out.push(b' ');
                }
                print::astring(out, name.as_bytes());
            }
            out.push(b')');
            if enabled.condstore {
                // RFC 7162 §3.2: with every FETCH of a change.
                out.extend_from_slice(b" MODSEQ (");
                print::number(out, row.modseq().value());
                out.push(b')');
            }
            out.extend_from_slice(b")\r\n");
        }
        wire.relieve().await?;
    }
    Ok(())
}
