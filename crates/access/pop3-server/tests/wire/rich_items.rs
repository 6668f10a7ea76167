//! Rich mail whose items were not made at delivery: sizes are those of the message that RETR sends.

use bytes::Bytes;
use posthaste_directory::Precompute;
use posthaste_tnef::{Outcome, convert, samples};

use crate::talk::{Setup, USER};

const PLAIN: &str = "Subject: 1\r\n\r\none\r\n";

#[tokio::test]
async fn sizes_equal_the_octets_that_retr_sends() {
    let rich = samples::mail(&samples::note());
    let Ok(Outcome::Converted(mime)) = convert(&rich) else { panic!("the sample is rich") };
    for precompute in [Precompute::Delivery, Precompute::FirstFetch, Precompute::Never] {
        let server = Setup { precompute, ..Setup::default() }.start().await;
        let recipient = server.delivery.resolve(USER).await.unwrap();
        for message in [PLAIN.as_bytes(), &rich, &rich] {
            let sent = Bytes::copy_from_slice(message);
            server.delivery.deliver(sent, std::slice::from_ref(&recipient)).await.remove(0).unwrap();
        }
        let (one, two) = (PLAIN.len(), mime.len());
        for _ in 0..2 {
            let mut client = server.logged_in().await;
            client
                .play(&format!(
                    "C: STAT
                     S: +OK 3 {}
                     C: LIST
                     S: +OK 3 messages ({} octets)
                     S: 1 {one}
                     S: 2 {two}
                     S: 3 {two}
                     S: .
                     C: LIST 2
                     S: +OK 2 {two}
                     C: DELE 2
                     S: +OK …
                     C: STAT
                     S: +OK 2 {}
                     C: RSET
                     S: +OK …
                     C: RETR 3
                     S: +OK {two} octets",
                    one + 2 * two,
                    one + 2 * two,
                    one + two
                ))
                .await;
        }
    }
}
