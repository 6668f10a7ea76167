//! The schedule, step by step and against a model.

use std::collections::HashSet;

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;

fn at(next: i64) -> Rank {
    Rank { next, priority: Priority::NORMAL }
}

fn item(id: ItemId, to: &str, rank: Rank) -> Arrival {
    item_of(PayerId::NOBODY, id, to, rank)
}

fn item_of(payer: PayerId, id: ItemId, to: &str, rank: Rank) -> Arrival {
    Arrival { id, destination: to.to_owned(), rank, arrived: 60 * i64::from(id), payer }
}

fn payer(account: &str) -> PayerId {
    PayerId::of(Some(account), None)
}

impl Schedule {
    /// Starts a visit while all keys have room.
    fn start(&mut self, now: i64) -> Option<Destination> {
        self.start_beside(now, &[])
    }

    /// Starts a visit while these keys have no room.
    fn start_beside(&mut self, now: i64, full: &[Key]) -> Option<Destination> {
        self.start_due(now, |key| full.contains(&key)).map(|visit| visit.destination)
    }

    /// The destination that is started beside these keys.
    fn first_with_room(&self, now: i64, full: &[Key]) -> Option<Destination> {
        let has_room = |(_, name): &(i64, Destination)| {
            let has_payer = self.destinations[name].items.payers().any(|key| !full.contains(&key));
            has_payer && !full.contains(&Key::of_domain(name))
        };
        let first = self.due.all().into_iter().map(|(entry, _)| entry).filter(has_room).min();
        first.filter(|(due, _)| *due <= now).map(|(_, name)| name)
    }
}

fn schedule(items: &[(ItemId, &str, i64)]) -> Schedule {
    let mut schedule = Schedule::default();
    items.iter().for_each(|(id, to, next)| schedule.put(item(*id, to, at(*next))));
    schedule
}

fn counts(schedule: &Schedule) -> [usize; 4] {
    ItemState::ALL.map(|state| schedule.count(state))
}

#[test]
fn waits_double_up_to_the_longest() {
    let times = RetryTimes { first: 10, longest: 65, ..RetryTimes::default() };
    assert_eq!([1, 2, 3, 4, 5, 40].map(|n| times.wait(n)), [10, 20, 40, 65, 65, 65]);
}

#[test]
fn a_destination_is_sent_to_once_at_a_time() {
    let mut schedule = schedule(&[(1, "a", 5), (2, "a", 6), (3, "b", 7)]);
    assert_eq!((schedule.next_time(), schedule.start(4)), (Some(5), None));
    assert_eq!(schedule.start(6).as_deref(), Some("a"));
    assert_eq!(schedule.start(6), None, "a is busy, b is not due");
    assert_eq!(schedule.claim_next(&"a".into(), 6), Some(1));
    schedule.remove(1);
    assert_eq!(schedule.claim_next(&"a".into(), 6), Some(2));
    schedule.put(item(2, "a", at(100)));
    schedule.unclaim(2);
    assert_eq!(schedule.claim_next(&"a".into(), 6), None);
    schedule.finished(&"a".into());
    assert_eq!((schedule.next_time(), schedule.len()), (Some(7), 2));
}

#[test]
fn an_unreachable_destination_waits_whatever_its_items_say() {
    let mut schedule = schedule(&[(1, "a", 5), (2, "a", 5)]);
    let (a, times) = ("a".to_owned(), RetryTimes { first: 10, longest: 100, ..RetryTimes::default() });
    for (now, until) in [(5, 15), (15, 35)] {
        assert_eq!(schedule.start(now - 1), None);
        assert_eq!(schedule.start(now).as_deref(), Some("a"));
        assert_eq!(schedule.unreachable(&a, now, &times), until);
        schedule.finished(&a);
        assert_eq!(schedule.next_time(), Some(until));
    }
    // Mail that arrives meanwhile waits, too.
    schedule.put(item(3, "a", at(16)));
    assert_eq!(schedule.next_time(), Some(35));
    schedule.forgive(&a);
    assert_eq!(schedule.next_time(), Some(5));
    schedule.reached(&a);
    assert_eq!(schedule.items(&a), [1, 2, 3]);
}

/// Strangers name destinations: none stays without an item.
#[test]
fn a_destination_is_forgotten_with_its_last_item() {
    let mut schedule = schedule(&[(1, "a", 5), (2, "b", 5)]);
    let times = RetryTimes { first: 10, longest: 100, ..RetryTimes::default() };
    for name in ["a", "b"].map(str::to_owned) {
        assert_eq!(schedule.start(5).as_ref(), Some(&name));
        assert_eq!(schedule.unreachable(&name, 5, &times), 15);
        schedule.finished(&name);
    }
    // An item that moves is still there.
    schedule.put(item(1, "a", at(6)));
    assert_eq!((schedule.next_time(), schedule.take_forgotten()), (Some(15), vec![]));
    // One is dropped without a visit, the other expires during one.
    schedule.remove(1);
    assert_eq!(schedule.start(15).as_deref(), Some("b"));
    assert_eq!(schedule.unreachable(&"b".into(), 15, &times), 35);
    assert!(schedule.claim(2));
    schedule.remove(2);
    assert!(schedule.knows("b"));
    schedule.finished(&"b".into());
    assert_eq!(schedule.take_forgotten(), ["a", "b"]);
    assert!(!schedule.knows("a") && !schedule.knows("b"));
    schedule.put(item(3, "b", at(40)));
    assert_eq!(schedule.start(40).as_deref(), Some("b"));
    assert_eq!(schedule.unreachable(&"b".into(), 40, &times), 50, "the first wait");
}

#[test]
fn the_most_urgent_of_those_that_are_due_is_first() {
    let mut schedule = schedule(&[(1, "a", 5)]);
    let (a, of) = ("a".to_owned(), |value: i8| Priority::try_from(value).unwrap());
    for (id, next, priority) in [(2, 4, -9), (3, 6, 9), (4, 7, 2), (5, 6, 2), (6, 100, 9)] {
        schedule.put(item(id, "a", Rank { next, priority: of(priority) }));
    }
    assert_eq!((schedule.next_time(), schedule.start(4)), (Some(4), Some(a.clone())));
    // Before the others are due, the one that is.
    assert_eq!(schedule.claim_next(&a, 4), Some(2));
    schedule.unclaim(2);
    let mut order = Vec::new();
    while let Some(id) = schedule.claim_next(&a, 10) {
        schedule.remove(id);
        order.push(id);
    }
    assert_eq!(order, [3, 5, 4, 1, 2]);
    assert_eq!(schedule.items(&a), [6]);
    schedule.finished(&a);
    assert_eq!(schedule.next_time(), Some(100));
}

#[test]
fn several_visits_share_the_items() {
    let connections = Connections { each: 1, domains: [("a".to_owned(), 3)].into() };
    let mut schedule = Schedule::new(connections);
    for (id, to) in [(1, "a"), (2, "a+requiretls"), (3, "a"), (4, "b"), (5, "b")] {
        schedule.put(item(id, to, at(5)));
    }
    let mut started: Vec<_> = std::iter::from_fn(|| schedule.start(5)).collect();
    started.sort_unstable();
    assert_eq!(started, ["a", "a", "a+requiretls", "b"], "as many as there are items, or visits");
    let a = "a".to_owned();
    assert_eq!((schedule.claim_next(&a, 5), schedule.claim_next(&a, 5)), (Some(1), Some(3)));
    assert_eq!(schedule.claim_next(&a, 5), None);
    // A reading of the queue brings no visit an item that another has.
    schedule.put(item(1, "a", at(9)));
    assert!(schedule.claim_next(&a, 9).is_none() && !schedule.claim(1) && schedule.items(&a).is_empty());
    schedule.put(item(6, "a", at(5)));
    assert_eq!((schedule.start(5), schedule.start(5)), (Some(a.clone()), None));
    schedule.unclaim(1);
    assert_eq!((schedule.items(&a), schedule.claim_next(&a, 5)), (vec![1, 6], Some(6)));
}

/// Those of a key without room wait behind it, and are not looked at again before it has room.
#[test]
fn a_key_without_room_delays_no_other_mail() {
    const EVIL: u32 = 1_000;
    let evil = [Key::Payer(payer("eve")), Key::of_domain("evil.test")];
    for key in evil {
        let mut schedule = Schedule::default();
        for id in 1..=EVIL {
            schedule.put(item_of(payer("eve"), id, &format!("h{id}.evil.test"), at(5)));
        }
        schedule.put(item_of(payer("ana"), EVIL + 1, "x.test", at(6)));
        schedule.put(item_of(payer("eve"), EVIL + 2, Local::Inbox.domain(), at(6)));
        let looks: Vec<_> = (0..9).map(|_| schedule.start_beside(9, &[key])).collect();
        let mut started: Vec<_> = looks.into_iter().flatten().collect();
        started.sort();
        assert_eq!(started, ["+here", "x.test"]);
        assert_eq!((schedule.next_time(), schedule.due.all().len()), (None, EVIL as usize));
        // With room they have their turn, one for each visit that there is room for.
        assert!(schedule.start(9).unwrap().ends_with(".evil.test"));
        assert_eq!((schedule.next_time(), schedule.due.all().len()), (None, EVIL as usize - 1));
        // Older ones are before newer ones of others.
        schedule.put(item_of(payer("ana"), EVIL + 3, "y.test", at(7)));
        assert!(schedule.start(9).unwrap().ends_with(".evil.test"));
        assert_eq!(schedule.start_beside(9, &[key]).as_deref(), Some("y.test"));
    }
}

/// Mail of an account without room delays no mail of others to the same destination.
#[test]
fn a_visit_is_for_a_payer_that_has_room() {
    let [ana, ben, eve] = ["ana", "ben", "eve"].map(|account| Key::Payer(payer(account)));
    let mut schedule = Schedule::default();
    for id in 1..=3 {
        schedule.put(item_of(payer("eve"), id, "x.test", at(5)));
    }
    assert_eq!(schedule.start_beside(9, &[eve]), None);
    schedule.put(item_of(payer("ana"), 4, "x.test", at(9)));
    let visit = schedule.start_due(9, |key| key == eve).unwrap();
    assert_eq!((visit.destination.as_str(), visit.keys), ("x.test", Some([ana, Key::of_domain("x.test")])));
    schedule.finished(&visit.destination);
    // Without room for all, it waits until one of them has room, whichever that is.
    for full in [ana, eve] {
        assert_eq!(schedule.start_beside(9, &[ben, ana, eve]), None);
        let behind = schedule.due.all().into_iter().filter_map(|(_, key)| key);
        assert_eq!(behind.collect::<HashSet<_>>(), HashSet::from([ana, eve]));
        assert_eq!(schedule.start_beside(9, &[full]).as_deref(), Some("x.test"));
        schedule.finished(&"x.test".to_owned());
    }
    schedule.remove(4);
    assert_eq!(schedule.due.all(), [((5, "x.test".to_owned()), None)]);
    assert_eq!(schedule.start_beside(9, &[eve]), None);
    (1..=3).for_each(|id| schedule.remove(id));
    assert!(schedule.due.all().is_empty() && !schedule.knows("x.test"));
}

/// An item that has no memory gives way to mail of others only.
#[test]
fn a_claimed_item_gives_way_to_other_payers() {
    let (mut schedule, x) = (Schedule::default(), "x.test".to_owned());
    schedule.put(item_of(payer("eve"), 1, &x, at(5)));
    schedule.put(item_of(payer("eve"), 2, &x, at(5)));
    assert_eq!(schedule.claim_next(&x, 9), Some(1));
    assert!(!schedule.give_way(1, 69));
    schedule.put(item_of(payer("ana"), 3, &x, at(9)));
    assert!(schedule.give_way(1, 69) && !schedule.give_way(3, 69));
    schedule.unclaim(1);
    let next: Vec<_> = std::iter::from_fn(|| schedule.claim_next(&x, 9)).collect();
    assert_eq!((next, schedule.claim_next(&x, 69)), (vec![2, 3], Some(1)));
}

#[test]
fn a_visit_keeps_what_an_administrator_holds_to_its_end() {
    let mut schedule = Schedule::new(Connections { each: 2, ..Connections::default() });
    let a = "a".to_owned();
    for is_released in [false, true] {
        schedule.put(item(1, "a", at(5)));
        assert_eq!(schedule.start(5).as_ref(), Some(&a));
        assert_eq!(schedule.claim_next(&a, 5), Some(1));
        schedule.hold(item(1, "a", at(5)));
        if is_released {
            schedule.put(item(1, "a", at(4)));
        }
        assert!(schedule.start(5).is_none() && !schedule.claim(1));
        assert_eq!(counts(&schedule), [0, 1, 0, 0]);
        schedule.unclaim(1);
        assert_eq!(schedule.count(ItemState::Held), usize::from(!is_released));
        assert_eq!(schedule.claim_next(&a, 5), is_released.then_some(1));
        schedule.finished(&a);
        schedule.remove(1);
    }
}

#[test]
fn items_are_counted_by_state_and_age() {
    let mut schedule = schedule(&[(1, "a", 5), (2, "a", 6), (3, "b", 7), (4, "c", 7)]);
    schedule.hold(item(5, "a", at(0)));
    schedule.hold(item(4, "c", at(0)));
    assert_eq!(counts(&schedule), [3, 0, 0, 2]);
    let a = schedule.start(5).unwrap();
    assert_eq!((counts(&schedule), schedule.claim_next(&a, 5)), ([1, 2, 0, 2], Some(1)));
    assert_eq!(counts(&schedule), [1, 2, 0, 2]);
    schedule.unclaim(1);
    schedule.unreachable(&a, 5, &RetryTimes::default());
    schedule.finished(&a);
    assert_eq!(counts(&schedule), [1, 0, 2, 2]);
    assert_eq!([0, 60, 121, 300, 301, 360].map(|since| schedule.count_since(since)), [5, 5, 4, 1, 1, 0]);
    (1..=5).for_each(|id| schedule.remove(id));
    assert_eq!((counts(&schedule), schedule.count_since(0)), ([0; 4], 0));
}

#[derive(Debug, Clone)]
enum Step {
    Put(ItemId, u8, (i64, i8)),
    ClaimNext(u8, i64),
    Unclaim(ItemId),
    Hold(ItemId),
    Remove(ItemId),
    /// Each bit is a key without room.
    Start(i64, u8),
    Finish(u8),
    Fail(u8, i64),
    Reach(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = one_of![
        (0u32..9, 0u8..4, (0i64..50, -9i8..=9)).prop_map(|(id, to, rank)| Step::Put(id, to, rank)),
        (0u8..4, 0i64..60).prop_map(|(to, now)| Step::ClaimNext(to, now)),
        (0u32..9).prop_map(Step::Unclaim),
        (0u32..9).prop_map(Step::Hold),
        (0u32..9).prop_map(Step::Remove),
        (0i64..60, any::<u8>()).prop_map(|(now, full)| Step::Start(now, full)),
        (0u8..4).prop_map(Step::Finish),
        (0u8..4, 0i64..50).prop_map(|(to, now)| Step::Fail(to, now)),
        (0u8..4).prop_map(Step::Reach),
    ];
    proptest::collection::vec(step, 0..60)
}

properties! {
    /// `due` names exactly the destinations with more items than their visits will take. The time
    /// of each is the later of its own and that of its first item. Counts follow from the items.
    /// A visit begins if one of them is due and its domain and one of its payers have room.
    #[test]
    fn the_due_ones_follow_from_the_items(steps in steps()) {
        let connections = Connections { each: 1, domains: [("3".to_owned(), 2)].into() };
        let (mut schedule, times) = (Schedule::new(connections), RetryTimes::default());
        let payers = ["ana", "ben", "cy"].map(payer);
        let of = |id: ItemId| payers[id as usize % 3];
        let domains = (0..4).map(|to| Key::of_domain(&to.to_string()));
        let keys: Vec<Key> = domains.chain(payers.map(Key::Payer)).collect();
        for step in steps {
            match step {
                Step::Put(id, to, (next, priority)) => {
                    let rank = Rank { next, priority: Priority::try_from(priority).unwrap() };
                    let to = schedule.items.get(&id).map_or(to.to_string(), |p| p.item.destination.clone());
                    schedule.put(item_of(of(id), id, &to, rank));
                }
                Step::ClaimNext(to, now) => { schedule.claim_next(&to.to_string(), now); }
                Step::Unclaim(id) => schedule.unclaim(id),
                Step::Hold(id) => schedule.hold(item_of(of(id), id, "0", at(0))),
                Step::Remove(id) => schedule.remove(id),
                Step::Start(now, bits) => {
                    let is_full = |(bit, _): &(u8, &Key)| (bits >> bit) & 1 == 1;
                    let full: Vec<Key> = (0..).zip(&keys).filter(is_full).map(|(_, key)| *key).collect();
                    let wanted = schedule.first_with_room(now, &full);
                    prop_assert_eq!(schedule.start_beside(now, &full), wanted);
                }
                Step::Finish(to) => schedule.finished(&to.to_string()),
                Step::Fail(to, now) => { schedule.unreachable(&to.to_string(), now, &times); }
                Step::Reach(to) => schedule.reached(&to.to_string()),
            }
            let (mut due, mut in_states) = (BTreeSet::new(), [0; 3]);
            for (name, waiting) in &schedule.destinations {
                in_states[waiting.state() as usize] += waiting.len();
                let is_wanted = waiting.visits < schedule.connections.to(name)
                    && waiting.items.ids().count() + waiting.claimed > waiting.visits;
                if let (Some(next), true) = (waiting.items.next(), is_wanted || waiting.visits == 0) {
                    due.insert((waiting.not_before.max(next), name.clone()));
                }
            }
            let there: BTreeSet<_> = schedule.due.all().into_iter().map(|(entry, _)| entry).collect();
            prop_assert_eq!(there, due);
            for ((_, name), key) in schedule.due.all() {
                let behind = &schedule.destinations[&name].behind;
                prop_assert!(key.map_or(behind.is_empty(), |key| behind.contains(&key)));
            }
            for waiting in schedule.destinations.values() {
                let counted: u32 = waiting.items.payers.iter().map(|(_, count)| *count).sum();
                prop_assert_eq!(counted as usize, waiting.items.len);
            }
            prop_assert_eq!(&schedule.states, &in_states);
            let of = |status| schedule.items.values().filter(|item| item.status == status).count();
            let unclaimed: usize = schedule.destinations.values().map(|w| w.items.ids().count()).sum();
            let claimed: usize = schedule.destinations.values().map(|w| w.claimed).sum();
            let by_visits = of(ItemStatus::Claimed) + of(ItemStatus::ClaimedThenHeld);
            let found = (of(ItemStatus::Ready), by_visits, of(ItemStatus::Held));
            prop_assert_eq!((unclaimed, claimed, schedule.held), found);
            prop_assert_eq!(schedule.count_since(i64::MIN), schedule.len());
        }
    }
}
