//! Searches with many keys, or in long texts: how often other tasks have their turn meanwhile.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use crate::connection;
use crate::heavy::SLICE_STEPS;
use crate::pause_tests::{MAILBOXES, Paused};

/// Nothing of it was counted, and each label was compared with all keywords as they are stored.
#[tokio::test]
async fn labels_of_queries_are_replaced_in_slices() {
    let mut paused = Paused::begin().await;
    let query = format!(" X-GM-RAW \"{}\"", "in:a ".repeat(250));
    // Each mailbox has its own labels, and 4,008 keys are a slice.
    let command = format!("ESEARCH IN (personal) RETURN (COUNT){}", query.repeat(8));
    let pauses = paused.run(&command).await;
    assert!(pauses >= MAILBOXES, "{pauses} pauses");
}

/// With a limit of messages the sets of a search were looked up in the poll of the command.
#[tokio::test]
async fn the_messages_of_a_limited_search_are_counted_by_another_thread() {
    let mut paused = Paused::begin().await;
    paused.doubled(17).await;
    Arc::make_mut(paused.session.login.as_mut().unwrap()).command_limits.process = Some(1000);
    for (last, is_long) in [(1000, false), (1 << 17, true)] {
        paused.save_every_second(last);
        // The long one is refused: nothing else is done for it.
        assert_eq!(paused.waits_for_thread("SORT (ARRIVAL) UTF-8 $").await, is_long, "{last}");
    }
}

/// All keys were evaluated in one piece of work: some minutes for 4,096 of them.
#[tokio::test]
async fn a_message_is_evaluated_in_pieces_between_which_others_compute() {
    let mut paused = Paused::begin().await;
    // A structure of some 200 KiB.
    let part = format!("--b\r\nContent-Type: a/b{}\r\n\r\nx\r\n", ";name=x".repeat(100));
    let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n", part.repeat(200));
    paused.run(&format!("APPEND m0 {{{}+}}\r\n{message}", message.len())).await;
    paused.run("SELECT m0").await;
    let (service, account) = paused.account();
    let command = format!("a SEARCH X-GM-RAW \"{{{}}}\"\r\n", "has:attachment ".repeat(100));
    let mut first = service.heavy.acquire(account).await;
    let mut second = pin!(service.heavy.acquire(account));
    let mut work = pin!(connection::one_command(&mut paused.session, Bytes::from(command)));
    let mut polls = 0;
    // The second one waits behind the search, and gets the permit after its first piece.
    let held = loop {
        assert!(poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending());
        polls += 1;
        if polls >= 2000 {
            if let Poll::Ready(held) = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx))).await {
                break held;
            }
            drop(first.take());
        }
        tokio::task::yield_now().await;
    };
    for _ in 0..2000 {
        assert!(poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending());
        tokio::task::yield_now().await;
    }
    drop(held);
    work.await.unwrap();
}

/// Such a text is compared exactly, character by character. Only its octets counted, four in a
/// step.
#[tokio::test]
async fn texts_beyond_ascii_are_compared_in_slices() {
    const DOUBLINGS: u32 = 12;
    let mut paused = Paused::begin().await;
    let subject = "\u{65e5}\u{672c}".repeat(50);
    let message = format!("Subject: {subject}\r\n\r\nx");
    paused.run(&format!("APPEND m0 {{{}+}}\r\n{message}", message.len())).await;
    // Every second message has that subject.
    paused.doubled(DOUBLINGS).await;
    let pauses = paused.run("SEARCH RETURN (COUNT) CHARSET UTF-8 SUBJECT {3+}\r\n\u{65e5}").await;
    // An octet takes ten steps and more.
    let least = (1 << DOUBLINGS) * subject.len() as u64 * 10 / SLICE_STEPS;
    assert!(least > 3 && pauses as u64 >= least, "{pauses} pauses");
}

/// Input that came meanwhile ended each pause. So 15 searches of a folder of 131,072 messages were
/// one poll of 6 ms and more.
#[tokio::test]
async fn a_search_pauses_although_its_client_sends_more() {
    let mut paused = Paused::begin().await;
    paused.doubled(12).await;
    // Each of these keys takes steps for each message.
    let search = format!("SEARCH RETURN (COUNT){}", " NOT LARGER 9".repeat(100));
    let pauses = paused.run(&search).await;
    assert!(pauses >= 5, "{pauses} pauses");
    // Two reads take as much as is read ahead.
    paused.client_sends(&vec![b'x'; 256 << 10]).await;
    assert_eq!(paused.run(&search).await, pauses);
}
