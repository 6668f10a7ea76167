//! Who waits for whom, on the in-memory engine.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use posthaste_mail_model::Id;
use posthaste_net::given_to_compute_threads;
use posthaste_store::Serve;

use super::*;
use crate::conversions::{Conversions, enriched};
use crate::tests::{add, delivery};
use crate::{NewMessage, SummaryMemory, is_long};

/// A message that another thread summarises.
fn long() -> Bytes {
    format!("Subject: long\r\n\r\n{}", "words\r\n".repeat(20_000)).into()
}

fn new(bytes: Bytes) -> Vec<NewMessage> {
    vec![NewMessage { bytes, flags: Vec::new(), date: None }]
}

/// Whether work is not done after one more poll.
async fn waits(mut work: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await
}

fn account(number: u8) -> AccountId {
    AccountId(Id::from_bytes([number; 16]))
}

#[tokio::test]
async fn large_appends_of_an_account_compute_one_at_a_time() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let whose = WorkFor::account(ana.id);
    // A piece of work of the account runs.
    let held = delivery.long_work.acquire_of(whose).await;
    let given = given_to_compute_threads();
    let mut first = pin!(delivery.incoming_all(ana.id, new(long())));
    let mut second = pin!(delivery.incoming_all(ana.id, new(long())));
    assert!(waits(first.as_mut()).await && waits(second.as_mut()).await);
    // The first one has the turn, so the second one holds no memory for its summary.
    assert_eq!(delivery.long_work.count(whose), (1, 2));
    assert_eq!(given_to_compute_threads(), given);
    // Another account waits for nobody, and a short message takes no place.
    assert_eq!(delivery.incoming_all(ben.id, new(long())).await.unwrap().messages.len(), 1);
    let short = Bytes::from_static(b"Subject: short\r\n\r\n");
    assert_eq!(delivery.incoming_all(ana.id, new(short)).await.unwrap().messages.len(), 1);
    assert_eq!(given_to_compute_threads(), given + 1);
    drop(held);
    // The first one gives its turn away when its summary is made, not when that is stored.
    let made = first.await.unwrap();
    second.await.unwrap();
    drop(made);
    assert_eq!(delivery.long_work.count(whose), (0, 0));
}

#[tokio::test]
async fn nobody_alone_has_all_places() {
    let places = LongWork { places: KeyedSemaphore::new(2, 1), ..LongWork::new() };
    let [one, other, third] = [1, 2, 3].map(|number| WorkFor::account(account(number)));
    let held = places.place(one).await;
    let mut again = pin!(places.place(one));
    assert!(waits(again.as_mut()).await);
    // The second place stays for others, and then a third one waits for either.
    let of_other = places.place(other).await;
    assert!(of_other.is_some());
    let mut of_third = pin!(places.place(third));
    assert!(waits(of_third.as_mut()).await);
    drop(held);
    // The one who had a place takes its turn behind the one who waits.
    assert!(waits(again.as_mut()).await);
    assert!(of_third.await.is_some());
    assert!(again.await.is_some());
}

/// Otherwise the waiters of one account hold all memory, and deliveries of others wait for it.
#[tokio::test]
async fn who_waits_for_a_place_holds_no_memory_for_work() {
    let (delivery, ana) = delivery().await;
    let held = delivery.long_work.acquire_of(WorkFor::SERVER).await;
    let available = delivery.summaries().available();
    let finished = delivery.finished.available();
    let mut working = pin!(delivery.incoming(long(), Vec::new(), None));
    assert!(waits(working.as_mut()).await);
    assert_eq!(delivery.summaries().available(), available);
    // Only the account that has the turn waits for a place with memory for its summary.
    let other = delivery.long_work.acquire_of(WorkFor::account(ana.id)).await;
    let mut first = pin!(delivery.incoming_all(ana.id, new(long())));
    assert!(waits(first.as_mut()).await);
    let of_first = delivery.finished.available();
    assert!(of_first < finished);
    let mut second = pin!(delivery.incoming_all(ana.id, new(long())));
    assert!(waits(second.as_mut()).await);
    assert_eq!(delivery.finished.available(), of_first);
    drop((held, other));
    working.await.unwrap();
    first.await.unwrap();
    second.await.unwrap();
}

/// A caller that holds memory for summaries must not wait for a turn: whoever has the turn may
/// wait for that memory.
#[tokio::test]
async fn work_beside_other_summaries_takes_no_turn() {
    let (delivery, ana) = delivery().await;
    let to = [delivery.resolve(&ana.name).await.unwrap()];
    let whose = WorkFor::mail_to(&to);
    let turn = delivery.long_work.turn(whose).await;
    let mut counted = pin!(delivery.forms(whose, long(), &to, SummaryMemory::Counted));
    assert!(waits(counted.as_mut()).await);
    delivery.forms(whose, long(), &to, SummaryMemory::BesideOthers).await.unwrap();
    assert!(waits(counted.as_mut()).await);
    drop(turn);
    counted.await.unwrap();
}

/// A flood of mail to an account delays its mail, and not its sessions.
#[tokio::test]
async fn mail_that_comes_has_a_place_beside_the_account() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let to = [delivery.resolve(&ana.name).await.unwrap(), delivery.resolve(&ben.name).await.unwrap()];
    let held = delivery.long_work.acquire_of(WorkFor::mail_of(ana.id)).await;
    let mut delivered = pin!(delivery.deliver(long(), &to));
    assert!(waits(delivered.as_mut()).await);
    delivery.incoming_all(ana.id, new(long())).await.unwrap();
    for outcome in delivery.deliver(long(), &to[1..]).await {
        outcome.unwrap();
    }
    drop(held);
    assert!(delivered.await.iter().all(Result::is_ok));
}

/// FETCH of rich mail, and APPEND.
#[tokio::test]
async fn conversions_for_a_reader_share_the_place_of_the_account() {
    let long_work = LongWork::new();
    let conversions = Conversions::new(ByteBudget::new(256 << 20)).with_long_work(long_work.clone());
    let words = (0u64..20_000).map(|n| format!("{:x}\r\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let message = Bytes::from(format!("Subject: words\r\n\r\n{}", words.collect::<String>()));
    let stored = enriched(&message).unwrap();
    assert!(is_long(stored.len()));
    let [reader, other] = [1, 2].map(|number| Place::Account(account(number)));
    let held = long_work.acquire_of(WorkFor::account(account(1))).await;
    let mut serving = pin!(conversions.serve(reader, stored.clone()));
    let mut summarizing = pin!(conversions.summarize(reader, message.clone()));
    assert!(waits(serving.as_mut()).await && waits(summarizing.as_mut()).await);
    assert_eq!(conversions.serve(other, stored).await.unwrap(), message);
    drop(held);
    assert_eq!(serving.await.unwrap(), message);
    summarizing.await.unwrap();
}

#[tokio::test]
async fn the_summary_of_a_stored_message_is_made_on_another_thread_if_it_is_long() {
    let (delivery, _) = delivery().await;
    for (message, is_elsewhere) in [(Bytes::from_static(b"A: b\r\n\r\n"), false), (long(), true)] {
        let given = given_to_compute_threads();
        let summary = delivery.summary_for(WorkFor::SERVER, &message).await.unwrap();
        assert_eq!(summary, crate::summarize(&message));
        assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere));
    }
}
