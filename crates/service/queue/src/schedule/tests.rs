//! The schedule, step by step and against a model.

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;

fn at(next: i64) -> Rank {
    Rank { next, priority: Priority::NORMAL }
}

fn item(id: ItemId, to: &str, rank: Rank) -> Arrival {
    Arrival { id, destination: to.to_owned(), rank, arrived: 60 * i64::from(id) }
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
    assert_eq!((schedule.next_time(), schedule.start_due(4)), (Some(5), None));
    assert_eq!(schedule.start_due(6).as_deref(), Some("a"));
    assert_eq!(schedule.start_due(6), None, "a is busy, b is not due");
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
        assert_eq!(schedule.start_due(now - 1), None);
        assert_eq!(schedule.start_due(now).as_deref(), Some("a"));
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
        assert_eq!(schedule.start_due(5).as_ref(), Some(&name));
        assert_eq!(schedule.unreachable(&name, 5, &times), 15);
        schedule.finished(&name);
    }
    // An item that moves is still there.
    schedule.put(item(1, "a", at(6)));
    assert_eq!((schedule.next_time(), schedule.take_forgotten()), (Some(15), vec![]));
    // One is dropped without a visit, the other expires during one.
    schedule.remove(1);
    assert_eq!(schedule.start_due(15).as_deref(), Some("b"));
    assert_eq!(schedule.unreachable(&"b".into(), 15, &times), 35);
    assert!(schedule.claim(2));
    schedule.remove(2);
    assert!(schedule.knows("b"));
    schedule.finished(&"b".into());
    assert_eq!(schedule.take_forgotten(), ["a", "b"]);
    assert!(!schedule.knows("a") && !schedule.knows("b"));
    schedule.put(item(3, "b", at(40)));
    assert_eq!(schedule.start_due(40).as_deref(), Some("b"));
    assert_eq!(schedule.unreachable(&"b".into(), 40, &times), 50, "the first wait");
}

#[test]
fn the_most_urgent_of_those_that_are_due_is_first() {
    let mut schedule = schedule(&[(1, "a", 5)]);
    let (a, of) = ("a".to_owned(), |value: i8| Priority::try_from(value).unwrap());
    for (id, next, priority) in [(2, 4, -9), (3, 6, 9), (4, 7, 2), (5, 6, 2), (6, 100, 9)] {
        schedule.put(item(id, "a", Rank { next, priority: of(priority) }));
    }
    assert_eq!((schedule.next_time(), schedule.start_due(4)), (Some(4), Some(a.clone())));
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
    let mut started: Vec<_> = std::iter::from_fn(|| schedule.start_due(5)).collect();
    started.sort_unstable();
    assert_eq!(started, ["a", "a", "a+requiretls", "b"], "as many as there are items, or visits");
    let a = "a".to_owned();
    assert_eq!((schedule.claim_next(&a, 5), schedule.claim_next(&a, 5)), (Some(1), Some(3)));
    assert_eq!(schedule.claim_next(&a, 5), None);
    // A reading of the queue brings no visit an item that another has.
    schedule.put(item(1, "a", at(9)));
    assert!(schedule.claim_next(&a, 9).is_none() && !schedule.claim(1) && schedule.items(&a).is_empty());
    schedule.put(item(6, "a", at(5)));
    assert_eq!((schedule.start_due(5), schedule.start_due(5)), (Some(a.clone()), None));
    schedule.unclaim(1);
    assert_eq!((schedule.items(&a), schedule.claim_next(&a, 5)), (vec![1, 6], Some(6)));
}

#[test]
fn a_visit_keeps_what_an_administrator_holds_to_its_end() {
    let mut schedule = Schedule::new(Connections { each: 2, ..Connections::default() });
    let a = "a".to_owned();
    for is_released in [false, true] {
        schedule.put(item(1, "a", at(5)));
        assert_eq!(schedule.start_due(5).as_ref(), Some(&a));
        assert_eq!(schedule.claim_next(&a, 5), Some(1));
        schedule.hold(item(1, "a", at(5)));
        if is_released {
            schedule.put(item(1, "a", at(4)));
        }
        assert!(schedule.start_due(5).is_none() && !schedule.claim(1));
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
    let a = schedule.start_due(5).unwrap();
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
    Start(i64),
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
        (0i64..60).prop_map(Step::Start),
        (0u8..4).prop_map(Step::Finish),
        (0u8..4, 0i64..50).prop_map(|(to, now)| Step::Fail(to, now)),
        (0u8..4).prop_map(Step::Reach),
    ];
    proptest::collection::vec(step, 0..60)
}

properties! {
    /// `due` names exactly the destinations with more items than their visits will take. The time
    /// of each is the later of its own and that of its first item. Counts follow from the items.
    #[test]
    fn the_due_ones_follow_from_the_items(steps in steps()) {
        let connections = Connections { each: 1, domains: [("3".to_owned(), 2)].into() };
        let (mut schedule, times) = (Schedule::new(connections), RetryTimes::default());
        for step in steps {
            match step {
                Step::Put(id, to, (next, priority)) => {
                    let rank = Rank { next, priority: Priority::try_from(priority).unwrap() };
                    let to = schedule.items.get(&id).map_or(to.to_string(), |p| p.item.destination.clone());
                    schedule.put(item(id, &to, rank));
                }
                Step::ClaimNext(to, now) => { schedule.claim_next(&to.to_string(), now); }
                Step::Unclaim(id) => schedule.unclaim(id),
                Step::Hold(id) => schedule.hold(item(id, "0", at(0))),
                Step::Remove(id) => schedule.remove(id),
                Step::Start(now) => { schedule.start_due(now); }
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
            prop_assert_eq!(&schedule.due, &due);
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
