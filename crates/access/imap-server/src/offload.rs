//! Work on sets of messages, outside of the session's task if the sets are large.
//!
//! A set is a list of ranges. In a folder of a million messages, a set has half a million ranges if
//! every second message matches. One operation on it takes some milliseconds. So the steps of such
//! work are counted before it is done. Much work is done on another thread ([`Heavy`]).
//!
//! [`Heavy`]: crate::heavy::Heavy

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::Status;
use posthaste_mail_model::{AccountId, NumSet};
use posthaste_net::NetError;
use posthaste_store::{Difference, View};

use crate::heavy::{Pace, Paced, SLICE_STEPS};
use crate::reply::Failure;
use crate::service::ImapService;
use crate::wire::Wire;

/// Steps of an operation on a range: it is looked up in a view, or compared and copied. A slice
/// holds 50,000.
pub(crate) const RANGE_STEPS: u64 = SLICE_STEPS / 50_000;

/// Steps of looking at the flags or the mod-sequence of a message.
pub(crate) const ROW_STEPS: u64 = 8;

/// Rows compared between two pauses: 0.5 ms if every second one has changed, and up to three times
/// as much on a slow processor.
const ROWS_COMPARED: u64 = 40_000;

/// Ranges printed between two checks of the output buffer: some 32 KiB.
const RANGES_PER_RELIEF: usize = 2048;

/// The service whose threads do the work, and the account that it is for.
#[derive(Clone, Copy)]
pub(crate) struct Threads<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
}

impl Threads<'_> {
    /// Does work of this many steps: at once if a slice holds it, else on another thread.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        steps: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if steps > SLICE_STEPS {
            return self.service.heavy.run(self.account, work).await;
        }
        let done = work();
        // These steps count for the pauses of this task.
        Pace::default().count(steps);
        Ok(done)
    }

    /// The UIDs of a set that are not in another.
    pub(crate) async fn difference(self, uids: NumSet, others: NumSet) -> Result<NumSet, Failure> {
        let steps = range_steps(uids.ranges().len() + others.ranges().len());
        self.run(steps, move || uids.difference(&others)).await
    }

    /// The UIDs of two sets.
    pub(crate) async fn union(self, uids: NumSet, others: NumSet) -> Result<NumSet, Failure> {
        let steps = range_steps(uids.ranges().len() + others.ranges().len());
        self.run(steps, move || uids.union(&others)).await
    }

    /// Does work of about this many steps, with its pauses if they are few, else on another
    /// thread. Values that the work drops are freed there, too.
    pub(crate) async fn run_paced<T: Send + 'static>(
        self,
        steps: u64,
        pace: &mut Pace,
        work: impl for<'p> FnOnce(&'p mut Pace) -> Paced<'p, T> + Send + 'static,
    ) -> Result<T, Failure> {
        if steps > SLICE_STEPS {
            return self.service.heavy.run_paced(self.account, work).await;
        }
        Ok(work(pace).await)
    }
}

/// Steps of operations on sets with this many ranges together.
pub(crate) fn range_steps(ranges: usize) -> u64 {
    ranges as u64 * RANGE_STEPS
}

/// Steps of finding a row of a set, without those of the work on it: each range is looked up.
pub(crate) fn find_steps<N>(set: &NumSet<N>) -> u64 {
    range_steps(set.ranges().len()) / set.count().max(1)
}

/// Steps of looking at the rows of a set.
pub(crate) fn set_steps<N>(set: &NumSet<N>) -> u64 {
    range_steps(set.ranges().len()) + set.count() * ROW_STEPS
}

/// Steps of selecting messages of a view by their rows.
pub(crate) fn row_steps(view: &View) -> u64 {
    u64::from(view.exists()) * ROW_STEPS
}

/// The changes to report, found in pieces: another session may have changed very many rows at once.
pub(crate) async fn difference(new: &View, old: &View) -> Difference {
    let mut comparison = new.compared_with(old);
    while !comparison.compare(ROWS_COMPARED) {
        tokio::task::yield_now().await;
    }
    comparison.difference()
}

/// Prints ranges as a set, in slices.
pub(crate) async fn print_ranges(wire: &mut Wire, ranges: &[(u32, u32)]) -> Result<(), NetError> {
    for (i, slice) in ranges.chunks(RANGES_PER_RELIEF).enumerate() {
        if i > 0 {
            wire.out().push(b',');
        }
        print::ranges(wire.out(), slice);
        wire.relieve().await?;
    }
    Ok(())
}

/// Prints a status response. Long sets of its code (COPYUID, MODIFIED) are printed in slices.
pub(crate) async fn print_status(wire: &mut Wire, status: Status) -> Result<(), NetError> {
    let sets = status.code.as_ref().map_or([None, None], print::code_sets);
    if sets.into_iter().flatten().map(<[_]>::len).sum::<usize>() <= RANGES_PER_RELIEF {
        wire.say_status(status);
        return Ok(());
    }
    // Boxed: nearly no response is long.
    Box::pin(async {
        print::status_begin(wire.out(), &status);
        for set in sets.into_iter().flatten() {
            wire.out().push(b' ');
            print_ranges(wire, set).await?;
        }
        print::status_end(wire.out(), &status);
        Ok(())
    })
    .await
}
