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

const STEPS: [SummaryMemory; 4] =
    [SummaryMemory::Counted, SummaryMemory::SentOn(1), SummaryMemory::SentOn(2), SummaryMemory::Last];

/// A message that another thread summarises.
fn long() -> Bytes {
    format!("Subject: long\r\n\r\n{}", "words\r\n".repeat(20_000)).into()
}

fn one(bytes: Bytes) -> NewMessage {
    NewMessage { bytes, flags: Vec::new(), date: None }
}

fn new(bytes: Bytes) -> Vec<NewMessage> {
    vec![one(bytes)]
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

/// A script holds memory for a summary while the mail that it sends is delivered. That mail must
/// not wait for a turn of an earlier step: the mail that has it may wait for that memory.
#[tokio::test]
async fn each_step_has_a_turn_of_its_own() {
    let (delivery, ana) = delivery().await;
    let to = [delivery.resolve(&ana.name).await.unwrap()];
    let (whose, available) = (WorkFor::mail_to(&to), delivery.finished.available());
    for taken in STEPS {
        let turn = delivery.long_work.turn(whose, taken).await;
        for step in STEPS.into_iter().filter(|step| *step != taken) {
            delivery.forms(whose, long(), &to, step).await.unwrap();
        }
        let mut forms = pin!(delivery.forms(whose, long(), &to, taken));
        let mut other = pin!(delivery.incoming_held(whose, one(long()), taken));
        assert!(waits(forms.as_mut()).await && waits(other.as_mut()).await, "{taken:?}");
        // They hold no memory for their summaries.
        assert_eq!(delivery.finished.available(), available);
        drop(turn);
        forms.await.unwrap();
        other.await.unwrap();
    }
}

#[tokio::test]
async fn an_edited_message_takes_its_turn_before_its_memory() {
    let (delivery, ana) = delivery().await;
    let (sent, available) = (Bytes::from_static(b"Subject: short\r\n\r\n"), delivery.finished.available());
    let turn = delivery.long_work.turn(WorkFor::mail_of(ana.id), SummaryMemory::Last).await;
    let mut edited = pin!(delivery.edited(&ana, &sent, &sent, long()));
    assert!(waits(edited.as_mut()).await);
    assert_eq!(delivery.finished.available(), available);
    drop(turn);
    let (message, _held) = edited.await.unwrap();
    assert_eq!(delivery.finished.available(), available - message.summary.len());
}

/// Each of their scripts holds the summary of a message and sends it to the other account, and
/// that one's script sends it back. There is no more memory, and others wait for some.
#[tokio::test]
async fn accounts_that_send_mail_to_each_other_wait_in_no_circle() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let (ana, ben) = (WorkFor::mail_of(ana.id), WorkFor::mail_of(ben.id));
    let incoming = |whose, memory| delivery.incoming_held(whose, one(long()), memory);
    let of_ana = incoming(ana, SummaryMemory::Counted).await.unwrap();
    let of_ben = incoming(ben, SummaryMemory::Counted).await.unwrap();
    let rest = delivery.room_for_finished(delivery.finished.available()).await.unwrap();
    // These have the turns of the first step.
    let mut next_of_ana = pin!(incoming(ana, SummaryMemory::Counted));
    let mut next_of_ben = pin!(incoming(ben, SummaryMemory::Counted));
    assert!(waits(next_of_ana.as_mut()).await && waits(next_of_ben.as_mut()).await);
    let sent_on = async |from: WorkFor, to: WorkFor| {
        let _first = incoming(to, SummaryMemory::SentOn(1)).await.unwrap();
        let _second = incoming(from, SummaryMemory::SentOn(2)).await.unwrap();
        incoming(to, SummaryMemory::Last).await.unwrap();
    };
    tokio::join!(sent_on(ana, ben), sent_on(ben, ana));
    drop((of_ana, of_ben, rest));
    next_of_ana.await.unwrap();
    next_of_ben.await.unwrap();
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
