//! Which destination is tried when. A value: it has no clock, and does nothing by itself.
//!
//! An item waits for its own next time, which follows from how often its host has refused it for
//! now. A destination that cannot be reached waits as a whole. So 100,000 items for a host that is
//! down cost one attempt to connect at each of its times, and nothing between them.
//!
//! Of the items that are due at a host, those of the highest priority are first (RFC 6710 §5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::item::{Destination, ItemId};
use crate::priority::{Priority, Turn};

/// When a message is tried again, warned about and given up. Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTimes {
    /// Wait after the first failure; each further one doubles it. RFC 5321 §4.5.4.1 advises half
    /// an hour; most hosts that greylist take mail after five minutes.
    pub first: i64,
    /// The longest wait.
    pub longest: i64,
    /// Age at which the sender gets one report that the message is late; 0 for never.
    pub warn_after: i64,
    /// Age at which a message is given up: RFC 5321 §4.5.4.1 says at least 4 to 5 days.
    pub expire_after: i64,
}

impl Default for RetryTimes {
    fn default() -> Self {
        Self { first: 300, longest: 4 * 3600, warn_after: 4 * 3600, expire_after: 5 * 24 * 3600 }
    }
}

impl RetryTimes {
    /// The wait after this many failures in a row.
    pub fn wait(&self, failures: u32) -> i64 {
        let doubled = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doubled).clamp(1, self.longest.max(1))
    }
}

/// Items of one destination: the highest priority first, there by their next time. A priority
/// without items has no entry.
#[derive(Debug, Default)]
struct Items(BTreeMap<Reverse<Priority>, BTreeSet<(i64, ItemId)>>);

impl Items {
    fn insert(&mut self, id: ItemId, Turn { next, priority }: Turn) {
        self.0.entry(Reverse(priority)).or_default().insert((next, id));
    }

    fn remove(&mut self, id: ItemId, Turn { next, priority }: Turn) {
        if let Some(items) = self.0.get_mut(&Reverse(priority)) {
            items.remove(&(next, id));
            if items.is_empty() {
                self.0.remove(&Reverse(priority));
            }
        }
    }

    /// The earliest next time of all.
    fn next(&self) -> Option<i64> {
        self.0.values().filter_map(|items| items.first()).map(|(next, _)| *next).min()
    }

    /// The first of those that are due.
    fn due(&self, now: i64) -> Option<ItemId> {
        let firsts = self.0.values().filter_map(|items| items.first());
        firsts.filter(|(next, _)| *next <= now).map(|(_, id)| *id).next()
    }

    fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.0.values().flatten().map(|(_, id)| *id)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, Default)]
struct Waiting {
    items: Items,
    /// Not before then the destination is tried.
    not_before: i64,
    /// How often in a row it could not be reached.
    failures: u32,
    /// Whether it is being sent to.
    busy: bool,
    /// Before then none of its items is late or too old, as long as no other comes.
    quiet_until: i64,
}

impl Waiting {
    /// When to try it; none while it is tried, or if nothing waits.
    fn due(&self) -> Option<i64> {
        let next = self.items.next()?;
        (!self.busy).then_some(self.not_before.max(next))
    }
}

/// All items that wait, by destination.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    destinations: HashMap<Destination, Waiting>,
    /// Destinations by when they are due.
    due: BTreeSet<(i64, Destination)>,
    /// Where each item is.
    places: HashMap<ItemId, (Destination, Turn)>,
}

impl Schedule {
    /// Changes a destination, and its place among the due ones with it.
    fn with<R>(&mut self, destination: &Destination, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let waiting = self.destinations.entry(destination.clone()).or_default();
        if let Some(due) = waiting.due() {
            self.due.remove(&(due, destination.clone()));
        }
        let result = change(waiting);
        if let Some(due) = waiting.due() {
            self.due.insert((due, destination.clone()));
        } else if waiting.items.is_empty() && !waiting.busy && waiting.failures == 0 {
            self.destinations.remove(destination);
        }
        result
    }

    /// Puts an item where its record says. One that is there already moves.
    pub fn put(&mut self, id: ItemId, destination: &Destination, turn: Turn) {
        self.remove(id);
        self.places.insert(id, (destination.clone(), turn));
        self.with(destination, |waiting| {
            waiting.quiet_until = 0;
            waiting.items.insert(id, turn);
        });
    }

    /// Whether no item of a destination has to be looked at, as far as is known.
    pub fn is_quiet(&self, destination: &Destination, now: i64) -> bool {
        self.destinations.get(destination).is_some_and(|waiting| now < waiting.quiet_until)
    }

    /// All items of a destination were looked at: none is late or too old before then.
    pub fn quiet(&mut self, destination: &Destination, until: i64) {
        self.with(destination, |waiting| waiting.quiet_until = until);
    }

    /// Forgets an item.
    pub fn remove(&mut self, id: ItemId) {
        if let Some((destination, turn)) = self.places.remove(&id) {
            self.with(&destination, |waiting| waiting.items.remove(id, turn));
        }
    }

    /// A destination that is due, which is then being sent to until [`Schedule::finished`].
    pub fn start_due(&mut self, now: i64) -> Option<Destination> {
        let (due, destination) = self.due.first()?.clone();
        if due > now {
            return None;
        }
        self.with(&destination, |waiting| waiting.busy = true);
        Some(destination)
    }

    /// The next item for a destination that is being sent to, if one is due.
    pub fn next_item(&self, destination: &Destination, now: i64) -> Option<ItemId> {
        self.destinations.get(destination)?.items.due(now)
    }

    /// The items of a destination, oldest first.
    pub fn items(&self, destination: &Destination) -> Vec<ItemId> {
        let waiting = self.destinations.get(destination);
        let mut ids: Vec<ItemId> = waiting.iter().flat_map(|waiting| waiting.items.ids()).collect();
        ids.sort_unstable();
        ids
    }

    /// The destination was reached.
    pub fn reached(&mut self, destination: &Destination) {
        self.with(destination, |waiting| (waiting.failures, waiting.not_before) = (0, 0));
    }

    /// The destination could not be reached. Until when it waits.
    pub fn unreachable(&mut self, destination: &Destination, now: i64, times: &RetryTimes) -> i64 {
        self.with(destination, |waiting| {
            waiting.failures += 1;
            waiting.not_before = now + times.wait(waiting.failures);
            waiting.not_before
        })
    }

    /// The destination waits until then, for a reason of our own.
    pub fn delay(&mut self, destination: &Destination, until: i64) {
        self.with(destination, |waiting| waiting.not_before = until);
    }

    /// Forgets items that are not wanted.
    pub fn keep(&mut self, wanted: impl Fn(ItemId) -> bool) {
        let unwanted: Vec<ItemId> = self.places.keys().copied().filter(|id| !wanted(*id)).collect();
        unwanted.into_iter().for_each(|id| self.remove(id));
    }

    /// An administrator wants all that waits to be tried now.
    pub fn forgive(&mut self, destination: &Destination) {
        self.with(destination, |waiting| waiting.not_before = 0);
    }

    /// Nobody sends to the destination any more.
    pub fn finished(&mut self, destination: &Destination) {
        self.with(destination, |waiting| waiting.busy = false);
    }

    /// When something is due next.
    pub fn next_time(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(next: i64) -> Turn {
        Turn { next, priority: Priority::NORMAL }
    }

    fn schedule(items: &[(ItemId, &str, i64)]) -> Schedule {
        let mut schedule = Schedule::default();
        items.iter().for_each(|(id, to, next)| schedule.put(*id, &(*to).to_owned(), at(*next)));
        schedule
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let times = RetryTimes { first: 10, longest: 65, ..RetryTimes::default() };
        assert_eq!([1, 2, 3, 4, 5, 40].map(|n| times.wait(n)), [10, 20, 40, 65, 65, 65]);
    }

    #[test]
    fn a_destination_is_sent_to_once_at_a_time() {
        let mut schedule = schedule(&[(1, "a", 5), (2, "a", 6), (3, "b", 7)]);
        assert_eq!((schedule.next_time(), schedule.start_due(4)), (Some(5), None));
        assert_eq!(schedule.start_due(6).as_deref(), Some("a"));
        assert_eq!(schedule.start_due(6), None, "a is busy, b is not due");
        assert_eq!(schedule.next_item(&"a".into(), 6), Some(1));
        schedule.remove(1);
        assert_eq!(schedule.next_item(&"a".into(), 6), Some(2));
        schedule.put(2, &"a".into(), at(100));
        assert_eq!(schedule.next_item(&"a".into(), 6), None);
        schedule.finished(&"a".into());
        assert_eq!((schedule.next_time(), schedule.len()), (Some(7), 2));
    }

    #[test]
    fn an_unreachable_destination_waits_whatever_its_items_say() {
        let mut schedule = schedule(&[(1, "a", 5), (2, "a", 5)]);
        let (a, times) = ("a".to_owned(), RetryTimes { first: 10, longest: 100, ..RetryTimes::default() });
        for (now, until) in [(5, 15), (15, 35)] {
            assert_eq!(schedule.start_due(now - 1), None);
            assert_eq!(schedule.start_due(now).as_deref(), Some("a"));
            assert_eq!(schedule.unreachable(&a, now, &times), until);
            schedule.finished(&a);
            assert_eq!(schedule.next_time(), Some(until));
        }
        // What arrives meanwhile waits, too.
        schedule.put(3, &a, at(16));
        assert_eq!(schedule.next_time(), Some(35));
        schedule.forgive(&a);
        assert_eq!(schedule.next_time(), Some(5));
        schedule.reached(&a);
        assert_eq!(schedule.items(&a), [1, 2, 3]);
    }

    #[test]
    fn the_most_urgent_of_those_that_are_due_is_first() {
        let mut schedule = schedule(&[(1, "a", 5)]);
        let (a, of) = ("a".to_owned(), |value: i8| Priority::try_from(value).unwrap());
        for (id, next, priority) in [(2, 4, -9), (3, 6, 9), (4, 7, 2), (5, 6, 2), (6, 100, 9)] {
            schedule.put(id, &a, Turn { next, priority: of(priority) });
        }
        assert_eq!((schedule.next_time(), schedule.start_due(4)), (Some(4), Some(a.clone())));
        // Before the others are due, the one that is.
        assert_eq!(schedule.next_item(&a, 4), Some(2));
        let mut order = Vec::new();
        while let Some(id) = schedule.next_item(&a, 10) {
            schedule.remove(id);
            order.push(id);
        }
        assert_eq!(order, [3, 5, 4, 1, 2]);
        assert_eq!(schedule.items(&a), [6]);
        schedule.finished(&a);
        assert_eq!(schedule.next_time(), Some(100));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(ItemId, u8, (i64, i8)),
        Remove(ItemId),
        Start(i64),
        Finish(u8),
        Fail(u8, i64),
        Reach(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0u32..9, 0u8..4, (0i64..50, -9i8..=9)).prop_map(|(id, to, turn)| Step::Put(id, to, turn)),
            (0u32..9).prop_map(Step::Remove),
            (0i64..60).prop_map(Step::Start),
            (0u8..4).prop_map(Step::Finish),
            (0u8..4, 0i64..50).prop_map(|(to, now)| Step::Fail(to, now)),
            (0u8..4).prop_map(Step::Reach),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        /// `due` names exactly the destinations that have an item and are not busy, each at the
        /// later of its own time and that of its first item.
        #[test]
        fn the_due_ones_follow_from_the_items(steps in steps()) {
            let (mut schedule, times) = (Schedule::default(), RetryTimes::default());
            for step in steps {
                match step {
                    Step::Put(id, to, (next, priority)) => {
                        let turn = Turn { next, priority: Priority::try_from(priority).unwrap() };
                        schedule.put(id, &to.to_string(), turn);
                    }
                    Step::Remove(id) => schedule.remove(id),
                    Step::Start(now) => { schedule.start_due(now); }
                    Step::Finish(to) => schedule.finished(&to.to_string()),
                    Step::Fail(to, now) => { schedule.unreachable(&to.to_string(), now, &times); }
                    Step::Reach(to) => schedule.reached(&to.to_string()),
                }
                let mut due = BTreeSet::new();
                for (name, waiting) in &schedule.destinations {
                    if let (Some(next), false) = (waiting.items.next(), waiting.busy) {
                        due.insert((waiting.not_before.max(next), name.clone()));
                    }
                }
                prop_assert_eq!(&schedule.due, &due);
                let items: usize = schedule.destinations.values().map(|w| w.items.ids().count()).sum();
                prop_assert_eq!(items, schedule.len());
            }
        }
    }
}
