//! A view of a mailbox of another account as one user sees it: `\Seen` is the user's own, all other
//! flags are the mailbox's. See `seen` for the reason.

use std::sync::Arc;

use posthaste_directory::Reading;
use posthaste_mail_model::{FlagSet, ModSeq, NumSet, SeqNum};
use posthaste_store::{Difference, FlagChange, Row, View};

use crate::offload::{Threads, difference, range_steps};
use crate::reply::Failure;

/// Steps of overlaying a message: 100,000 take some 5 ms.
const OVERLAY_STEPS: u64 = 20;

/// Steps of overlaying a changed row: it is copied, looked up and written.
const EDITED_STEPS: u64 = 100;

/// The messages that a user has seen in the selected mailbox, over the mailbox's own views.
pub(crate) struct SeenOverlay {
    pub(crate) reading: Reading,
    /// The store's view that was overlaid last.
    under: Arc<View>,
    shown: Arc<View>,
    /// The session's own last change.
    own: Option<OwnMark>,
}

/// The flags that the session has just set: it need not be read again.
struct OwnMark {
    /// The mod-sequence of the change. A message that has a higher one was changed since, perhaps
    /// by another session of the user.
    modseq: ModSeq,
    uids: NumSet,
    is_seen: bool,
}

impl SeenOverlay {
    /// Overlays the user's `\Seen` flags on the view that a mailbox was opened with.
    pub(crate) async fn begin(
        threads: Threads<'_>,
        (reading, seen): (Reading, NumSet),
        under: Arc<View>,
    ) -> Result<Self, Failure> {
        let (below, steps) = (Arc::clone(&under), u64::from(under.exists()) * OVERLAY_STEPS);
        let shown = threads.run(steps, move || overlaid(&below, &seen)).await?;
        Ok(Self { reading, under, shown, own: None })
    }

    /// The view as the user sees it.
    pub(crate) fn shown(&self) -> Arc<View> {
        Arc::clone(&self.shown)
    }

    /// The views that the session holds: the announced one, and those that the overlay has besides.
    pub(crate) fn views_with<'v>(&'v self, announced: &'v Arc<View>) -> Vec<&'v Arc<View>> {
        let own = [&self.under, &self.shown].into_iter().filter(|view| !Arc::ptr_eq(view, announced));
        std::iter::once(announced).chain(own).collect()
    }

    /// Remembers a change of the session's own, which has this mod-sequence.
    pub(crate) fn mark_own(&mut self, modseq: ModSeq, uids: NumSet, change: FlagChange) {
        let is_seen = change == FlagChange::Add;
        self.own = Some(OwnMark { modseq, uids, is_seen });
    }

    /// A newer view as the user sees it. The cost follows the change: the user's `\Seen` is read
    /// again only for changed messages.
    pub(crate) async fn follow(
        &mut self,
        threads: Threads<'_>,
        newest: Arc<View>,
    ) -> Result<Arc<View>, Failure> {
        if Arc::ptr_eq(&newest, &self.under) {
            return Ok(self.shown());
        }
        let diff = difference(&newest, &self.under).await;
        let steps = (diff.changed.count() + diff.arrived.count()) * EDITED_STEPS
            + range_steps(diff.expunged_uids.ranges().len());
        let (own, view) = (self.own.take(), Arc::clone(&newest));
        let news = threads.run(steps, move || News::of(&view, diff, own)).await?;
        let seen = threads.service.directory.seen().among(self.reading, &news.unknown).await?;
        let (shown, view) = (self.shown(), Arc::clone(&newest));
        self.shown = threads.run(steps, move || Arc::new(news.over(&shown, &view, &seen))).await?;
        self.under = newest;
        Ok(self.shown())
    }
}

/// The changes of the view below.
struct News {
    changed: Vec<Row>,
    arrived: Vec<Row>,
    expunged: NumSet,
    own: Option<OwnMark>,
    /// The messages whose `\Seen` has to be read.
    unknown: NumSet,
}

impl News {
    fn of(view: &View, diff: Difference, own: Option<OwnMark>) -> Self {
        let rows = |seqs: &NumSet<SeqNum>| view.rows(seqs).map(|(_, row)| *row).collect::<Vec<Row>>();
        let (changed, arrived) = (rows(&diff.changed), rows(&diff.arrived));
        let unknown = changed.iter().chain(&arrived).filter(|row| known(own.as_ref(), row).is_none());
        let unknown = NumSet::from_ranges(unknown.map(|row| (row.uid().value(), row.uid().value())));
        Self { changed, arrived, expunged: diff.expunged_uids, own, unknown }
    }

    /// The view that was shown, with these changes.
    fn over(mut self, shown: &View, view: &View, seen: &NumSet) -> View {
        let own = self.own.as_ref();
        for row in self.changed.iter_mut().chain(&mut self.arrived) {
            *row = marked(row, known(own, row).unwrap_or_else(|| seen.contains(row.uid().value())));
        }
        shown.edited(view.head().clone(), &self.changed, &self.expunged, &self.arrived)
    }
}

/// Whether the user has seen a message, if the session's own change says so.
fn known(own: Option<&OwnMark>, row: &Row) -> Option<bool> {
    let own = own.filter(|own| own.modseq == row.modseq())?;
    own.uids.contains(row.uid().value()).then_some(own.is_seen)
}

/// A view in which these messages have `\Seen`, and no others.
fn overlaid(under: &Arc<View>, seen: &NumSet) -> Arc<View> {
    let has = under.uids_of_seqs(&under.with_flags(FlagSet::SEEN, FlagSet::EMPTY));
    let wanted = under.existing(seen);
    let differ = has.difference(&wanted).union(&wanted.difference(&has));
    if differ.is_empty() {
        return Arc::clone(under);
    }
    let rows: Vec<Row> = under
        .rows_of_uids(&differ)
        .map(|(_, row)| marked(row, !row.flags().contains(FlagSet::SEEN)))
        .collect();
    Arc::new(under.edited(under.head().clone(), &rows, &NumSet::new(), &[]))
}

fn marked(row: &Row, is_seen: bool) -> Row {
    let flags = row.flags().difference(FlagSet::SEEN);
    row.with_flags(if is_seen { flags.union(FlagSet::SEEN) } else { flags }, row.modseq())
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Uid;
    use posthaste_store::{MailboxHead, ViewBuilder};

    use super::*;

    #[test]
    fn only_seen_differs_and_what_is_the_same_is_shared() {
        let row = |uid: u32, flags| {
            Row::new(Uid::new(uid).unwrap(), 1, 1, flags, ModSeq::new(u64::from(uid)).unwrap())
        };
        let mut builder = ViewBuilder::default();
        let flagged = FlagSet::FLAGGED;
        builder.push_rows(&[row(1, FlagSet::SEEN), row(2, flagged), row(5, flagged.union(FlagSet::SEEN))]);
        let under = Arc::new(builder.finish(MailboxHead::default()));
        let shown = overlaid(&under, &NumSet::from_ranges([(2, 3), (5, 9)]));
        let flags: Vec<_> = shown.rows(&shown.all()).map(|(_, row)| row.flags()).collect();
        assert_eq!(flags, [FlagSet::EMPTY, flagged.union(FlagSet::SEEN), flagged.union(FlagSet::SEEN)]);
        assert_eq!(shown.head().counts.unseen, 1);
        assert!(Arc::ptr_eq(&under, &overlaid(&under, &NumSet::from_ranges([(1, 1), (5, 5)]))));
    }
}
