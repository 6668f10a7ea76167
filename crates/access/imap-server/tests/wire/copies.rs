//! COPY, MOVE and RENAME of INBOX take their memory from a budget.

use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_net::ByteBudget;
use posthaste_store::StoreOptions;

use crate::harness::Server;

/// Bytes of 1,200 messages, of which an account may have a quarter.
const BYTES: usize = 1200 * 700;

#[test]
fn copies_take_memory_from_a_budget_and_give_it_back() {
    let budget = ByteBudget::new(BYTES);
    let service = |delivery: posthaste_delivery::Delivery| {
        let delivery = delivery.with_summaries(budget.clone());
        ImapService::new(ImapOptions::default(), delivery, None, ByteBudget::new(256 << 20))
    };
    let server = Server::start_storing(StoreOptions::default(), |engine| engine, service);
    server.with_messages(25);
    let mut wire = server.select("INBOX");
    // 400 messages; the last copy is of 200.
    for _ in 0..4 {
        wire.run("C: a COPY 1:* INBOX\nS~ a OK …");
    }
    wire.run(
        r#"
        C: b CREATE Other
        S: b OK …
        C: c COPY 1:* Other
        S: c NO [LIMIT] One command copies or moves at most 300 messages: name fewer of them
        C: d MOVE 1:* Other
        S: d NO [LIMIT] One command copies or moves at most 300 messages: name fewer of them
        C: e RENAME INBOX Old
        S: e NO [LIMIT] INBOX has over 300 messages: move them to the new mailbox in parts
        C: f COPY 1:300 Other
        S: f OK [COPYUID …
        C: g MOVE 1:300 Other
        S~ g OK …
        C: h COPY 1:* INBOX
        S~ h OK …
        C: i RENAME INBOX Old
        S~ i OK …
        C: j STATUS Old (MESSAGES)
        S~ * STATUS Old (MESSAGES 200)
        S: j OK …
    "#,
    );
    // The leader of a mailbox frees a change after its answer.
    while budget.available() < BYTES {
        std::thread::yield_now();
    }
}
