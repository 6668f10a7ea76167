//! SEARCH for one page of the result: PARTIAL of RFC 9394 §3.1.
//!
//! Messages are looked at in windows, from the end at which the page begins. The search stops when
//! the page is full. So its cost is that of the page and of the messages before it, not that of
//! the folder. Each window is twice as long as the one before it: a search that finds little looks
//! at all messages in few windows.

use std::num::NonZeroU32;
use std::sync::Arc;

use posthaste_imap_codec::PageRange;
use posthaste_mail_model::{NumSet, SeqNum};

use super::criteria::Criterion;
use super::job::{Job, Matches, without_excluded};
use crate::offload::range_steps;
use crate::reply::Failure;

/// Messages of the first window, at least: a key may read a body for each.
const WINDOW_MIN: u32 = 16;
/// And at most: 4096 rows take some 20 µs.
const WINDOW_MAX: u32 = 4096;

impl Job<'_> {
    /// The sequence numbers of the messages on a page.
    pub(super) async fn find_page(&mut self, page: PageRange) -> Result<Matches, Failure> {
        let (view, question) = (Arc::clone(&self.selected.announced), Arc::clone(&self.question));
        let criterion = &question.criterion;
        if matches!(criterion, Criterion::All) {
            return Ok(page.of(&view.all()).into());
        }
        let (_, last) = page.places();
        let mut window = last.clamp(WINDOW_MIN, WINDOW_MAX);
        let mut left = {
            let (view, question, excluded) =
                (Arc::clone(&view), Arc::clone(&question), self.excluded.clone());
            let work = move || {
                let within = question.criterion.within(&view).unwrap_or_else(|| view.all());
                without_excluded(within, excluded.as_deref())
            };
            self.threads().run(self.question.narrowing_steps(&self.selected.announced), work).await?
        };
        let (mut found, mut expunged) = (NumSet::new(), 0);
        for round in 0u32.. {
            if left.is_empty() || found.count() >= u64::from(last) {
                break;
            }
            if round == 1 {
                // Few messages match, so the search by flags skips whole chunks from now on.
                let candidates = self.candidates().await?;
                let steps = set_steps(&left) + set_steps(&candidates);
                left = self.threads().run(steps, move || left.intersection(&candidates)).await?;
                if matches!(criterion, Criterion::Flags { .. }) {
                    let steps = set_steps(&found) + set_steps(&left);
                    found = self.threads().run(steps, move || found.union(&left)).await?;
                    break;
                }
            }
            let (steps, next);
            steps = 2 * set_steps(&left);
            (next, left) = self.threads().run(steps, move || cut(&left, page, window)).await?;
            let more = self.matching(&next).await?;
            found = found.union(&more.seqs);
            expunged += more.expunged;
            window = window.saturating_mul(2);
        }
        // Messages that were not searched are beyond the page.
        let steps = set_steps(&found);
        let seqs = self.threads().run(steps, move || page.of(&found)).await?;
        Ok(Matches { seqs, expunged })
    }
}

/// Steps of an operation on a set.
fn set_steps(set: &NumSet<SeqNum>) -> u64 {
    range_steps(set.ranges().len())
}

/// The next window of what is left, and the rest.
fn cut(left: &NumSet<SeqNum>, page: PageRange, window: u32) -> (NumSet<SeqNum>, NumSet<SeqNum>) {
    let next = window_of(left, page, window);
    let rest = left.difference(&next);
    (next, rest)
}

/// The `count` messages at the end from which the page counts.
fn window_of(left: &NumSet<SeqNum>, page: PageRange, count: u32) -> NumSet<SeqNum> {
    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let window = match page {
        PageRange::First(..) => PageRange::First(NonZeroU32::MIN, count),
        PageRange::Last(..) => PageRange::Last(NonZeroU32::MIN, count),
    };
    window.of(left)
}
