//! Long headers of messages that are sent on.

use posthaste_net::given_to_compute_threads;

use super::*;
use crate::author::named;
use crate::send::was_sent_on_by;

/// All addresses of a header of 1 MiB were read several times in one poll: 100 ms and more.
#[tokio::test]
async fn the_fields_of_a_long_header_are_read_on_another_thread() {
    for (authors, is_long) in [(10, false), (30_000, true)] {
        let message = Bytes::from(format!("From: {}\r\n\r\n", "a@b, ".repeat(authors)));
        let before = given_to_compute_threads();
        named([&message; 3], "x@b.test").await;
        let between = given_to_compute_threads();
        was_sent_on_by(&message, ANA).await;
        let given = [between - before, given_to_compute_threads() - between];
        assert_eq!(given.map(|works| works > 0), [is_long; 2], "{authors} authors");
    }
}
