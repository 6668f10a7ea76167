//! Long headers of messages that are sent on.

use posthaste_net::given_to_compute_threads;

use super::*;
use crate::author::named;
use crate::send::was_sent_on_by;

/// All addresses of a header of 1 MiB were read several times in one poll: 100 ms and more. So
/// were those of a header of 64 KiB, for each recipient and each redirect.
#[tokio::test]
async fn the_fields_of_a_long_header_are_read_on_another_thread() {
    for (authors, is_long) in [(10, false), (1_000, true), (30_000, true)] {
        let message = Bytes::from(format!("From: {}\r\n\r\n", "a@b, ".repeat(authors)));
        let before = given_to_compute_threads();
        named([&message; 3], "x@b.test").await;
        let between = given_to_compute_threads();
        was_sent_on_by(&message, ANA).await;
        let given = [between - before, given_to_compute_threads() - between];
        assert_eq!(given.map(|works| works > 0), [is_long; 2], "{authors} authors");
    }
}

/// A reply of a script may have as many authors as a script has room for.
#[tokio::test]
async fn the_fields_of_a_long_reply_are_read_on_another_thread() {
    let world = World::new().await;
    let ana = world.filter.resolve(ANA).await.unwrap();
    for (authors, is_long) in [(1, false), (1_000, true)] {
        let text = Bytes::from(format!("From: {}\r\n\r\n", vec![ANA; authors].join(", ")));
        let before = given_to_compute_threads();
        let is_own = world.filter.is_authored_by(&ana, &text).await;
        assert_eq!((given_to_compute_threads() > before, is_own), (is_long, !is_long), "{authors} authors");
    }
}
