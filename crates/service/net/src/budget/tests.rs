//! Tests of shares, and of permits that are revoked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use super::*;

const KIB: usize = 1024;
const ANA: Holder = Holder::Account([1; 16]);
const BEN: Holder = Holder::Account([2; 16]);

/// A budget in which a holder that does not move at this very moment is slow.
fn impatient(bytes: usize) -> ByteBudget {
    ByteBudget::new(bytes).with_pause_max(Duration::ZERO)
}

#[test]
fn an_announcement_costs_nothing() {
    let budget = ByteBudget::new(64 * KIB);
    let _waiting: Vec<_> = (0..100).map(|_| budget.begin(ANA)).collect();
    assert_eq!(budget.available(), 64 * KIB);
}

#[test]
fn reserves_grows_and_gives_back() {
    let budget = ByteBudget::new(40 * KIB);
    let one = budget.begin(ANA);
    one.grow_to(KIB).unwrap();
    one.grow_to(4 * KIB).unwrap();
    one.grow_to(100).unwrap();
    assert_eq!((one.bytes(), budget.available()), (4 * KIB, 36 * KIB));
    drop(one);
    assert_eq!(budget.available(), 40 * KIB);
    assert!(budget.lock().groups.is_empty() && budget.lock().messages.is_empty());
}

#[test]
fn a_holder_has_its_share() {
    let budget = ByteBudget::new(40 * KIB);
    let (one, two, bens) = (budget.begin(ANA), budget.begin(ANA), budget.begin(BEN));
    assert!(matches!(one.grow_to(11 * KIB), Err(NetError::BudgetExhausted)));
    one.grow_to(6 * KIB).unwrap();
    assert!(two.grow_to(5 * KIB).is_err(), "ana has ten in all");
    two.grow_to(4 * KIB).unwrap();
    bens.grow_to(10 * KIB).unwrap();
    let wide = ByteBudget::new(40 * KIB).with_share_of_at_least(30 * KIB);
    wide.begin(ANA).grow_to(30 * KIB).unwrap();
}

#[test]
fn a_slow_message_gives_way() {
    let budget = impatient(40 * KIB).with_share_of_at_least(40 * KIB);
    let (small, large, new) = (budget.begin(ANA), budget.begin(ANA), budget.begin(BEN));
    small.grow_to(10 * KIB).unwrap();
    large.grow_to(30 * KIB).unwrap();
    new.grow_to(20 * KIB).unwrap();
    assert!(large.is_revoked() && !small.is_revoked(), "the largest goes first");
    assert!(large.grow_to(1).is_err() && large.bytes() == 0);
    assert_eq!(budget.available(), 10 * KIB);
    drop(large);
    assert_eq!(budget.available(), 10 * KIB, "given back once");
}

#[test]
fn within_a_share_only_its_holder_gives_way() {
    let budget = impatient(40 * KIB);
    let (bens, old, new) = (budget.begin(BEN), budget.begin(ANA), budget.begin(ANA));
    bens.grow_to(10 * KIB).unwrap();
    old.grow_to(8 * KIB).unwrap();
    new.grow_to(9 * KIB).unwrap();
    assert!(old.is_revoked() && !bens.is_revoked());
}

#[test]
fn complete_and_arriving_messages_are_not_evicted() {
    let budget = impatient(40 * KIB).with_share_of_at_least(40 * KIB);
    let (complete, new) = (budget.begin(ANA), budget.begin(BEN));
    complete.grow_to(30 * KIB).unwrap();
    complete.complete();
    assert_eq!(budget.attainable(), 10 * KIB);
    assert!(new.grow_to(20 * KIB).is_err());
    assert!(!complete.is_revoked());

    let whole = ByteBudget::new(40 * KIB).with_share_of_at_least(40 * KIB);
    let (moving, new) = (whole.begin(ANA), whole.begin(BEN));
    moving.grow_to(30 * KIB).unwrap();
    assert!(new.grow_to(20 * KIB).is_err() && !moving.is_revoked());
    assert_eq!(whole.attainable(), 40 * KIB);
}

#[test]
fn no_holder_is_evicted_in_vain() {
    let budget = impatient(40 * KIB).with_share_of_at_least(40 * KIB);
    let (complete, slow, new) = (budget.begin(ANA), budget.begin(ANA), budget.begin(BEN));
    complete.grow_to(30 * KIB).unwrap();
    complete.complete();
    slow.grow_to(5 * KIB).unwrap();
    assert!(new.grow_to(20 * KIB).is_err());
    assert!(!slow.is_revoked());
}

#[test]
fn bytes_that_come_put_slowness_off_up_to_the_longest_pause() {
    let budget = ByteBudget::new(40 * KIB);
    let permit = budget.begin(ANA);
    let moves_until = || budget.lock().messages[&permit.key].moves_until;
    let began = Instant::now();
    permit.note_arrived(usize::MAX);
    assert!(moves_until() <= Instant::now() + PAUSE_MAX && moves_until() >= began + PAUSE_MAX);
}

/// So a sender below the least pace becomes slow, although it never pauses.
#[test]
fn bytes_earn_the_time_that_they_take_at_the_least_pace() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let budget = ByteBudget::new(40 * KIB).with_pause_max(HOUR * 2);
    let permit = budget.begin(ANA);
    let began = Instant::now();
    let earned = |before: Instant, bytes: usize| {
        budget.lock().messages.get_mut(&permit.key).unwrap().moves_until = before;
        permit.note_arrived(bytes);
        budget.lock().messages[&permit.key].moves_until
    };
    let (soon, micros) = (began + HOUR, Duration::from_micros);
    assert_eq!(earned(soon, 1), soon + micros(61));
    assert_eq!(earned(soon, 1000), soon + micros(61_035));
    assert_eq!(earned(soon, LEAST_PACE as usize * 60), soon + Duration::from_secs(60));
    // Nor does a byte give a sender that is slow the whole pause again.
    let until = earned(began, 1);
    assert!(until <= Instant::now() + micros(61), "{:?}", until - began);
}

/// A waiter checks four times a second, so a scan of all messages must be rare.
#[test]
fn a_look_within_a_share_forgets_no_other_look_and_is_remembered() {
    let budget = ByteBudget::new(40 * KIB);
    let held = [ANA, BEN, Holder::Account([3; 16]), Holder::Account([4; 16])].map(|holder| {
        let permit = budget.begin(holder);
        permit.grow_to(10 * KIB).unwrap();
        permit
    });
    assert!(budget.begin(Holder::Account([5; 16])).grow_to(KIB).is_err());
    let found = budget.lock().scan;
    assert!(found.is_some());
    budget.lock().scan = None;
    let anas = budget.begin(ANA);
    assert!(anas.grow_to(KIB).is_err(), "over her share");
    let of_ana = || budget.lock().groups[&Group::Account([1; 16])].scan;
    assert_eq!((of_ana().is_some(), budget.lock().scan), (true, None));
    budget.lock().scan = found;
    budget.lock().groups.get_mut(&Group::Account([1; 16])).unwrap().scan = None;
    assert!(anas.grow_to(KIB).is_err());
    assert_eq!(budget.lock().scan, found);
    drop(held);
}

/// Makes a message slow, although it has just begun.
fn slow_down(permit: &BytePermit) {
    permit.budget.lock().messages.get_mut(&permit.key).unwrap().moves_until = Instant::now();
}

/// One sender that sent nothing was enough for a scan of all messages at each check of a waiter.
#[test]
fn a_slow_sender_without_bytes_causes_no_scan_for_each_request() {
    let budget = ByteBudget::new(40 * KIB).with_share_of_at_least(40 * KIB);
    let (idle, moving) = (budget.begin(ANA), budget.begin(BEN));
    slow_down(&idle);
    moving.grow_to(40 * KIB).unwrap();
    let others: Vec<_> = (0..100).map(|_| budget.begin(ANA)).collect();
    assert!(others.iter().all(|one| one.grow_to(KIB).is_err()));
    assert_eq!(budget.lock().scans, 1);
}

/// Its bytes count although the last scan did not find them.
#[test]
fn a_slow_message_that_grew_after_a_scan_gives_way() {
    let budget = ByteBudget::new(40 * KIB).with_share_of_at_least(40 * KIB);
    let (idle, moving, new) = (budget.begin(ANA), budget.begin(BEN), budget.begin(ANA));
    slow_down(&idle);
    moving.grow_to(30 * KIB).unwrap();
    assert!(new.grow_to(20 * KIB).is_err());
    idle.grow_to(10 * KIB).unwrap();
    new.grow_to(10 * KIB).unwrap();
    assert!(idle.is_revoked() && !moving.is_revoked());
    assert_eq!(budget.lock().scans, 2);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// All of them looked each time, and strangers decide how often a message ends.
#[tokio::test]
async fn bytes_that_are_given_back_wake_few_of_many_waiters() {
    let woken_by_one = |budget: ByteBudget| {
        let budget = budget.with_share_of_at_least(40 * KIB);
        let held = budget.begin(BEN);
        held.grow_to(40 * KIB).unwrap();
        let permits: Vec<_> = (0..3 * WOKEN_AT_ONCE).map(|_| budget.begin(ANA)).collect();
        let grow = |permit| Box::pin(BytePermit::grow_to_within(permit, KIB, PAUSE_MAX));
        let mut waiting: Vec<_> = permits.iter().map(grow).collect();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(waiting.iter_mut().all(|one| one.as_mut().poll(&mut context).is_pending()));
        drop(held);
        woken.0.load(Ordering::Relaxed)
    };
    // No waiter is woken because the task has used up its budget of polls.
    tokio::task::unconstrained(async {
        assert_eq!(woken_by_one(ByteBudget::new(40 * KIB)), WOKEN_AT_ONCE);
        assert_eq!(woken_by_one(ByteBudget::new(40 * KIB).in_order()), 1);
    })
    .await;
}

#[test]
fn a_permit_can_give_back_a_part() {
    let budget = ByteBudget::new(400);
    let (one, two) = (budget.begin(ANA), budget.begin(ANA));
    one.grow_to(100).unwrap();
    one.complete();
    assert!(two.grow_to(1).is_err(), "ana has a hundred");
    one.shrink_to(200);
    one.shrink_to(30);
    assert_eq!((one.bytes(), budget.available(), budget.attainable()), (30, 370, 100));
    two.grow_to(70).unwrap();
    drop((one, two));
    assert_eq!((budget.available(), budget.lock().complete), (400, 0));
}

#[tokio::test]
async fn waits_for_others() {
    let budget = ByteBudget::new(KIB).with_share_of_at_least(KIB);
    let held = budget.begin(ANA);
    held.grow_to(KIB).unwrap();
    let waiting = tokio::spawn({
        let permit = budget.begin(BEN);
        async move { permit.grow_to_within(KIB, Duration::from_secs(30)).await.map(|()| permit.bytes()) }
    });
    tokio::task::yield_now().await;
    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap(), KIB);
}

#[tokio::test]
async fn waits_no_longer_than_it_may_and_never_for_the_impossible() {
    let budget = ByteBudget::new(KIB).with_share_of_at_least(KIB);
    let (held, new) = (budget.begin(ANA), budget.begin(BEN));
    held.grow_to(KIB).unwrap();
    assert!(new.grow_to_within(KIB, Duration::ZERO).await.is_err());
    assert!(new.grow_to_within(2 * KIB, Duration::MAX).await.is_err());
}

#[tokio::test]
async fn a_holder_that_loses_bytes_learns_of_it() {
    let budget = impatient(KIB).with_share_of_at_least(KIB);
    let (slow, new) = (budget.begin(ANA), budget.begin(BEN));
    slow.grow_to(KIB).unwrap();
    new.grow_to(KIB).unwrap();
    slow.revoked().await;
}

/// A command that reads on after it was given its bytes for good.
#[test]
fn a_complete_message_that_grows_gives_back_all_of_it() {
    let budget = ByteBudget::new(400);
    let permit = budget.begin(Holder::Account([1; 16]));
    permit.grow_to(40).unwrap();
    permit.complete();
    permit.grow_to(100).unwrap();
    assert_eq!((permit.bytes(), budget.available(), budget.attainable()), (100, 300, 100));
    permit.complete();
    let other = budget.begin(Holder::Account([2; 16]));
    other.grow_to(100).unwrap();
    other.complete();
    let third = budget.begin(Holder::Account([3; 16]));
    third.grow_to(100).unwrap();
    third.complete();
    // 300 of 400 are of complete messages.
    let fourth = budget.begin(Holder::Account([4; 16]));
    assert_eq!(budget.attainable(), 100);
    fourth.grow_to(60).unwrap();
    fourth.complete();
    fourth.grow_to(80).unwrap();
    assert_eq!(budget.attainable(), 20);
    drop((permit, other, third, fourth));
    assert_eq!((budget.available(), budget.attainable()), (400, 100));
}

fn host(address: &str) -> Holder {
    Holder::Address(address.parse().unwrap())
}

/// The bytes that messages from these hosts get, each in steps of a KiB.
fn greedy(budget: &ByteBudget, hosts: impl Iterator<Item = String>) -> (Vec<BytePermit>, usize) {
    let permits: Vec<_> = hosts.map(|address| budget.begin(host(&address))).collect();
    for permit in &permits {
        let mut bytes = KIB;
        while permit.grow_to(bytes).is_ok() {
            bytes += KIB;
        }
    }
    let held = permits.iter().map(BytePermit::bytes).sum();
    (permits, held)
}

#[test]
fn a_network_has_its_share_however_many_addresses_it_has() {
    let held =
        |address: &dyn Fn(u32) -> String| greedy(&ByteBudget::new(800 * KIB), (0..40).map(address)).1 / KIB;
    assert_eq!(held(&|n| format!("2001:db8:1:1::{n:x}")), 200, "a /64");
    assert_eq!(held(&|n| format!("2001:db8:1:1{n:02x}::1")), 300, "a /56");
    assert_eq!(held(&|n| format!("2001:db8:1:{n:02x}00::1")), 400, "a /48");
    assert_eq!(held(&|n| format!("192.0.2.{n}")), 400, "a /24");
    assert_eq!(held(&|n| format!("::ffff:192.0.2.{}", n / 40)), 200, "an IPv4 address");
}

#[test]
fn strangers_leave_a_quarter_to_those_who_logged_in() {
    let budget = ByteBudget::new(800 * KIB);
    let (_held, bytes) = greedy(&budget, (0..40).map(|n| format!("2001:db8:{n:x}::1")));
    assert_eq!(bytes, 600 * KIB);
    // Loopback is no stranger.
    let (local, account) = (budget.begin(host("127.0.0.1")), budget.begin(ANA));
    local.grow_to(100 * KIB).unwrap();
    account.grow_to(100 * KIB).unwrap();
}

#[test]
fn a_part_is_for_small_messages() {
    let budget = ByteBudget::new(4096 * KIB).small_first();
    let host = || budget.begin(host("192.0.2.1"));
    let (one, two, small) = (host(), host(), host());
    one.grow_to(512 * KIB).unwrap();
    assert!(two.grow_to(512 * KIB).is_err(), "a sixteenth of the share is not for it");
    two.grow_to(448 * KIB).unwrap();
    assert!(one.grow_to(513 * KIB).is_err());
    small.grow_to(64 * KIB).unwrap();
    assert!(host().grow_to(1).is_err(), "the share is used up");
    drop((two, small));
    one.grow_to(1024 * KIB).unwrap();

    let others: Vec<_> = (2..=5).map(|account| budget.begin(Holder::Account([account; 16]))).collect();
    others[0].grow_to(1024 * KIB).unwrap();
    others[1].grow_to(1024 * KIB).unwrap();
    assert!(others[2].grow_to(1024 * KIB).is_err(), "nor is a sixteenth of the whole");
    others[2].grow_to(768 * KIB).unwrap();
    others[3].grow_to(64 * KIB).unwrap();
}

#[tokio::test]
async fn in_order_a_large_one_is_not_overtaken_by_small_ones() {
    const LONG: Duration = Duration::from_secs(60);
    let budget = ByteBudget::new(100).with_share_of_at_least(100).in_order();
    let held = budget.begin(ANA);
    held.grow_to_within(60, LONG).await.unwrap();
    held.complete();
    let (large, small) = (budget.begin(BEN), budget.begin(BEN));
    let mut large_grows = Box::pin(large.grow_to_within(80, LONG));
    assert!(futures_poll(large_grows.as_mut()).await.is_none());
    let mut small_grows = Box::pin(small.grow_to_within(30, LONG));
    assert!(futures_poll(small_grows.as_mut()).await.is_none(), "there is room for it, and one before it");
    drop(held);
    large_grows.as_mut().await.unwrap();
    assert!(futures_poll(small_grows.as_mut()).await.is_none());
    drop(large_grows);
    drop(large);
    small_grows.as_mut().await.unwrap();
    // After a timeout a waiter blocks no other.
    let (all, again) = (budget.begin(ANA), budget.begin(ANA));
    assert!(all.grow_to_within(100, Duration::ZERO).await.is_err());
    again.grow_to_within(70, LONG).await.unwrap();
    assert!(budget.lock().waiting.is_empty());
}

/// The result of a future at its first poll, if it is ready.
async fn futures_poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
