//! The total size of the index, for metrics. It is computed from the heads of the mailboxes that
//! have segments, and no segment is read.

use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use posthaste_store::Result;

use crate::index::{SearchIndex, Totals};
use crate::{places, stored};

/// Mailboxes whose heads are read at a time.
const PAGE: usize = 256;

impl SearchIndex {
    /// The size of all segments, counted at most `age_max` ago. A count reads one head for each
    /// mailbox that has segments. Callers at the same time wait for one count.
    #[boxed]
    pub async fn totals(&self, age_max: Duration) -> Result<Totals> {
        let mut counted = self.shared.counted.lock().await;
        if let Some((at, totals)) = *counted
            && at.elapsed() < age_max
        {
            return Ok(totals);
        }
        let totals = self.count().await?;
        *counted = Some((Instant::now(), totals));
        Ok(totals)
    }

    async fn count(&self) -> Result<Totals> {
        let (store, mut totals, mut after) = (&self.shared.store, Totals::default(), None);
        loop {
            let marked = stored::marked(store, after, PAGE).await?;
            let Some(last) = marked.last() else { return Ok(totals) };
            after = Some(*last);
            let with_segments: Vec<_> = marked.iter().map(|mailbox| places::of(*mailbox)).collect();
            for head in store.engine().heads(&with_segments).await?.into_iter().flatten() {
                if head.counts.messages > 0 {
                    totals.mailboxes += 1;
                    totals.segments += u64::from(head.counts.messages);
                    totals.bytes += head.counts.octets();
                }
            }
            tokio::task::yield_now().await;
        }
    }
}
