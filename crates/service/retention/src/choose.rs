//! Chooses the messages of a view to which a rule applies.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, NumSet};
use posthaste_net::copying;
use posthaste_store::{Row, View};

use crate::rule::Rule;

/// Looks at all messages of a folder. With many of them this is done on another thread: sessions
/// would wait for it.
pub(crate) async fn looked_at<T: Send + 'static>(
    view: &Arc<View>,
    look: impl FnOnce(&View) -> T + Send + 'static,
) -> T {
    let all = Arc::clone(view);
    copying(view.exists() as usize * Row::LEN, move || look(&all)).await
}

/// The conditions of a rule that a view can decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Internal dates before this, in unix seconds.
    pub(crate) received_before: Option<u32>,
    /// All but this many newest.
    pub(crate) keep_newest: Option<u32>,
    pub(crate) keep_flagged: bool,
}

impl Conditions {
    /// The conditions of a rule. The age counts only if it is `received`.
    pub(crate) fn of(rule: &Rule, received_before: Option<i64>) -> Self {
        // A time before 1970 chooses nothing, one beyond the last that a row can hold chooses all.
        let clamped = |at: i64| u32::try_from(at.max(0)).unwrap_or(u32::MAX);
        Self {
            received_before: received_before.map(clamped),
            keep_newest: rule.keep_newest,
            keep_flagged: rule.keep_flagged,
        }
    }

    /// UIDs of the chosen messages: those that meet all conditions.
    pub(crate) fn choose(&self, view: &View) -> NumSet {
        let newest = match self.keep_newest {
            Some(count) => match Newest::of(view, count) {
                Some(newest) => Some(newest),
                // There are not more than may stay.
                None => return NumSet::new(),
            },
            None => None,
        };
        let chosen = |row: &Row| {
            let is_old = self.received_before.is_none_or(|before| row.date() < before);
            let stays = self.keep_flagged && row.flags().contains(FlagSet::FLAGGED);
            is_old && !stays && newest.is_none_or(|newest| !newest.has(row))
        };
        let mut uids = NumSet::new();
        view.for_each_run(&NumSet::range(1, view.exists()), |_, rows| {
            for row in rows.iter().filter(|row| chosen(row)) {
                uids.push(row.uid().value());
            }
        });
        uids
    }
}

/// The newest messages of a view: from this date and UID on.
#[derive(Clone, Copy, Debug)]
struct Newest {
    date: u32,
    uid: u32,
}

impl Newest {
    /// `None` if there are not more messages than `count`. Linear in the folder's size, 8 bytes a
    /// message for the time.
    fn of(view: &View, count: u32) -> Option<Self> {
        if view.exists() <= count {
            return None;
        }
        let Some(last) = count.checked_sub(1) else { return Some(Self { date: u32::MAX, uid: u32::MAX }) };
        let mut all = Vec::with_capacity(view.exists() as usize);
        view.for_each_run(&NumSet::range(1, view.exists()), |_, rows| {
            all.extend(rows.iter().map(|row| (row.date(), row.uid().value())));
        });
        let (_, &mut (date, uid), _) = all.select_nth_unstable_by(last as usize, |a, b| b.cmp(a));
        Some(Self { date, uid })
    }

    fn has(self, row: &Row) -> bool {
        (row.date(), row.uid().value()) >= (self.date, self.uid)
    }
}
