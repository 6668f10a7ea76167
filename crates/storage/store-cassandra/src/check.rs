//! The check: every mailbox against its head, its summaries and its bodies.

use std::ops::ControlFlow;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_store::form::is_body_of;
use posthaste_store::{Counts, Report, Result, Row, StoreError, Stored};
use scylla::response::PagingState;

use crate::bodies::Bodies;
use crate::cluster::connection::AT_ONCE;
use crate::cluster::ids::id_of;
use crate::mailboxes::Mailboxes;

/// The check of a keyspace.
pub(crate) struct Check<'c> {
    pub(crate) mailboxes: &'c Mailboxes,
    pub(crate) bodies: &'c Bodies,
}

impl Check<'_> {
    /// Reads everything. The amount is not known in advance, so progress is reported at the end
    /// alone.
    pub(crate) async fn all(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        type Columns = (Vec<u8>, Option<Vec<u8>>, Option<i64>);
        let mut report = Report::default();
        let mut from = Some(PagingState::start());
        while let Some(state) = from {
            let (page, next) = self
                .mailboxes
                .cluster
                .page::<Columns>(&self.mailboxes.cluster.statements.mailbox.all, (), state)
                .await?;
            for (mailbox, _, modseq) in page {
                if modseq.unwrap_or(-1) >= 0 {
                    let mailbox = MailboxId(id_of(&mailbox)?);
                    match self.check_mailbox(mailbox, &mut report).await {
                        Ok(()) | Err(StoreError::NoMailbox(_)) => {}
                        Err(StoreError::Corrupt(why)) => {
                            report.faults.push(format!("mailbox {mailbox}: {why}"))
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            from = next;
        }
        progress(1.0);
        Ok(report)
    }

    async fn check_mailbox(&self, mailbox: MailboxId, report: &mut Report) -> Result<()> {
        let (stored, rows) = self.mailboxes.rows_of(mailbox).await?;
        report.examined += 1 + rows.len() as u64;
        let mut fault = |what: &str| report.faults.push(format!("mailbox {mailbox}: {what}"));
        if counts(&rows) != stored.head.counts {
            fault("the counts do not add up");
        }
        if !rows.windows(2).all(|pair| pair[0].uid() < pair[1].uid()) {
            fault("UIDs are not in ascending order");
        }
        if rows.iter().any(|row| row.uid() >= stored.head.uid_next || row.modseq() > stored.head.modseq) {
            fault("a row is beyond the head");
        }
        let mut bodies: Vec<(Uid, BodyId)> = Vec::with_capacity(rows.len());
        let mut take = |stored: Stored<'_>| {
            bodies.push((stored.uid, stored.body));
            ControlFlow::Continue(())
        };
        // Messages appended or expunged since the rows were read are left for the next check.
        let all = NumSet::range(1, u32::MAX);
        let unreadable = self.mailboxes.visit_summaries(mailbox, &all, &mut take).await?;
        for uid in unreadable.0.iter() {
            report.faults.push(format!("mailbox {mailbox}: UID {uid} has no summary, or a damaged one"));
        }
        let sizes = bodies.into_iter().filter_map(|(uid, body)| {
            let at = rows.binary_search_by_key(&uid, Row::uid).ok()?;
            Some((body, *rows.get(at)?))
        });
        let read = stream::iter(sizes.collect::<Vec<_>>()).map(|(body, row)| async move {
            let uid = row.uid();
            match self.bodies.range(body, 0..u64::MAX).await {
                Ok(bytes) if is_body_of(&bytes, bytes.len() as u64, &row) => Ok(None),
                Ok(_) => Ok(Some(format!(
                    "mailbox {mailbox}, UID {uid}: body {body} is not as long as its row says"
                ))),
                // An expunge and a sweep since the rows were read may have removed the body.
                Err(StoreError::Corrupt(why)) => Ok(self
                    .mailboxes
                    .has_uid(mailbox, uid)
                    .await?
                    .then(|| format!("mailbox {mailbox}, UID {uid}: {why}"))),
                Err(error) => Err(error),
            }
        });
        // A few at a time: each may be as large as a message can be.
        let faults: Vec<Option<String>> = read.buffer_unordered(AT_ONCE / 4).try_collect().await?;
        report.faults.extend(faults.into_iter().flatten());
        Ok(())
    }
}

fn counts(rows: &[Row]) -> Counts {
    let mut counts = Counts::default();
    rows.iter().for_each(|row| counts.add(row));
    counts
}
