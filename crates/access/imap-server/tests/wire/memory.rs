//! Memory for incoming messages: reserved as they arrive, and taken from senders that pause.

use std::time::{Duration, Instant};

use posthaste_imap_server::ImapOptions;
use posthaste_net::ByteBudget;
use posthaste_testkit::READ_WITHIN;

use crate::harness::Server;

const TOTAL: usize = 1 << 20;

/// A server that counts every client without input at this moment as slow.
fn impatient() -> (Server, ByteBudget) {
    let budget = ByteBudget::new(TOTAL).with_pause_max(Duration::ZERO);
    (Server::start_within(ImapOptions::default(), None, budget.clone()), budget)
}

/// Waits until this many bytes are reserved.
fn until_held(budget: &ByteBudget, bytes: usize) {
    let deadline = Instant::now() + READ_WITHIN;
    while TOTAL - budget.available() < bytes {
        assert!(Instant::now() < deadline, "{} bytes are free", budget.available());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn announced_literals_cost_nothing() {
    let (server, budget) = impatient();
    let mut waiting: Vec<_> = (0..8).map(|_| server.login()).collect();
    for wire in &mut waiting {
        wire.run("C: a APPEND INBOX {1000000}\nS: + …");
    }
    // Their lines have come, and nothing else.
    assert!(budget.available() > TOTAL - 1000, "{} bytes are free", budget.available());
    let mut wire = server.login();
    wire.run("C: b APPEND INBOX {700000}\nS: + …");
    wire.send(&vec![b'x'; 700_000]);
    wire.run("C: \nS: b OK …");
}

#[test]
fn a_stalled_literal_is_evicted() {
    let (server, budget) = impatient();
    let (mut still, mut moving) = (server.login(), server.login());
    still.run("C: a APPEND INBOX {900000}\nS: + …");
    still.send(&vec![b'x'; 800_000]);
    until_held(&budget, 800_000);
    moving.run("C: b APPEND INBOX {500000}\nS: + …");
    moving.send(&vec![b'y'; 500_000]);
    moving.run("C: \nS: b OK …");
    still.expect("a NO [UNAVAILABLE] …");
    // Its rest is no command.
    still.send(&vec![b'x'; 100_000]);
    still.run("C: \nC: c STATUS INBOX (MESSAGES)\nS: * STATUS INBOX (MESSAGES 1)\nS: c OK …");
}
