//! Long headers of messages that are sent on. There is one other thread here, and it is busy.

use std::future::poll_fn;
use std::task::Poll;

use super::*;
use crate::author::named;
use crate::send::was_sent_on_by;

/// All addresses of a header of 1 MiB were read several times in one poll: 100 ms and more.
#[test]
fn the_fields_of_a_long_header_are_read_on_another_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        for (authors, is_long) in [(10, false), (30_000, true)] {
            let message = Bytes::from(format!("From: {}\r\n\r\n", "a@b, ".repeat(authors)));
            let mut naming = pin!(named([&message; 3], "x@b.test"));
            let mut sending = pin!(was_sent_on_by(&message, ANA));
            let waits = poll_fn(|cx| {
                Poll::Ready([naming.as_mut().poll(cx).is_pending(), sending.as_mut().poll(cx).is_pending()])
            });
            assert_eq!(waits.await, [is_long; 2], "{authors} authors");
        }
        go.send(()).unwrap();
        busy.await.unwrap().unwrap();
    });
}
