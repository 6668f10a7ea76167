//! COPY, MOVE and RENAME of INBOX take their memory from a budget, and so does a STORE of
//! annotations.

use std::time::Duration;

use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_net::{ByteBudget, BytePermit, Holder};
use posthaste_store::StoreOptions;

use crate::gate::talkative_options;
use crate::harness::{Server, unhurried};

/// Bytes of 1,200 messages, of which an account may have a quarter.
const BYTES: usize = 1200 * 700;

/// A server with 25 messages and this memory for summaries.
fn server(budget: &ByteBudget) -> Server {
    let service = |delivery: posthaste_delivery::Delivery| {
        let delivery = delivery.with_summaries(budget.clone());
        ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
    };
    let server = Server::start_storing(StoreOptions::default(), |engine| engine, service);
    server.with_messages(25);
    server
}

#[test]
fn copies_take_memory_from_a_budget_and_give_it_back() {
    let budget = ByteBudget::new(BYTES);
    let server = server(&budget);
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

/// All memory of a budget of this many bytes, which four accounts hold.
fn all_of(budget: &ByteBudget, bytes: usize) -> Vec<BytePermit> {
    let quarter = |account| {
        let permit = budget.begin(Holder::Account([account; 16]));
        permit.grow_to(bytes / 4).expect("memory that nobody holds");
        permit.complete();
        permit
    };
    (1..=4).map(quarter).collect()
}

/// RFC 9585 §3. Others may hold that memory for up to 30 seconds.
#[test]
fn a_copy_that_waits_for_memory_says_that_it_is_going_on() {
    let budget = ByteBudget::new(BYTES);
    let service = |delivery: posthaste_delivery::Delivery| {
        let delivery = delivery.with_summaries(budget.clone());
        let options = talkative_options(Duration::from_secs(3600));
        ImapService::new(options, delivery, None, ByteBudget::new(256 << 20))
    };
    let server = Server::start_storing(StoreOptions::default(), |engine| engine, service);
    server.with_messages(25);
    let mut wire = server.select("INBOX");
    wire.run("C: a CREATE Other\nS~ a OK …");
    // 200 messages.
    for _ in 0..3 {
        wire.run("C: b COPY 1:* INBOX\nS~ b OK …");
    }
    for command in ["COPY 1:* INBOX", "MOVE 1:200 Other"] {
        let held = all_of(&budget, BYTES);
        wire.send(format!("c {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"c\" NIL NIL)] Working");
        drop(held);
        wire.skip_to("c OK …");
        while budget.available() < BYTES {
            std::thread::yield_now();
        }
    }
}

/// The mod-sequences of its messages rise in one commit, as by a STORE of flags.
#[test]
fn a_store_of_annotations_takes_memory_from_the_budget() {
    // One account may copy 1,000 messages.
    const BYTES: usize = 4000 * 700;
    let budget = ByteBudget::new(BYTES);
    let service = |delivery: posthaste_delivery::Delivery| {
        let delivery = delivery.with_summaries(budget.clone());
        let options = talkative_options(Duration::from_secs(3600));
        ImapService::new(options, delivery, None, ByteBudget::new(256 << 20))
    };
    let server = Server::start_storing(StoreOptions::default(), |engine| engine, service);
    server.with_messages(25);
    let mut wire = server.select("INBOX");
    // 1,600 messages.
    for _ in 0..6 {
        wire.run("C: a COPY 1:* INBOX\nS~ a OK …");
    }
    while budget.available() < BYTES {
        std::thread::yield_now();
    }
    for (tag, set, waits) in [("b", "1:1000", false), ("c", "1:*", true)] {
        let held = all_of(&budget, BYTES);
        wire.send(format!("{tag} STORE {set} ANNOTATION (/comment (value.priv NIL))\r\n").as_bytes());
        if waits {
            wire.skip_to(&format!("* OK [INPROGRESS (\"{tag}\" NIL NIL)] Working"));
            drop(held);
        }
        wire.skip_to(&format!("{tag} OK …"));
    }
    while budget.available() < BYTES {
        std::thread::yield_now();
    }
}

/// It held memory, and waited for more of it to make the summary of a rich message. Two such
/// commands could wait for each other, and all deliveries behind them.
#[test]
fn a_store_of_annotations_looks_for_parts_before_it_takes_memory() {
    const BYTES: usize = 4000 * 700;
    let budget = ByteBudget::new(BYTES);
    let server = server(&budget);
    let mut wire = server.select("INBOX");
    // 1,600 messages.
    for _ in 0..6 {
        wire.run("C: a COPY 1:* INBOX\nS~ a OK …");
    }
    while budget.available() < BYTES {
        std::thread::yield_now();
    }
    let _held = all_of(&budget, BYTES);
    wire.run(
        r#"
        C: b STORE 1:* ANNOTATION (/9/comment (value.priv "x"))
        S: b BAD A message lacks a part that the command names
        "#,
    );
}
