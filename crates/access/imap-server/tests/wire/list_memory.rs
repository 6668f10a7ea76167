//! LIST and LSUB take memory for the names that they make from the budget for reading.

use std::time::Duration;

use posthaste_imap_server::ImapService;
use posthaste_net::{ByteBudget, BytePermit, Holder};
use posthaste_store::StoreOptions;

use crate::gate::talkative_options;
use crate::harness::Server;

/// Bytes of the budget for reading.
const BYTES: usize = 64 << 20;

/// Four accounts hold all of it.
fn all_of(budget: &ByteBudget) -> Vec<BytePermit> {
    let held = |account| {
        let permit = budget.begin(Holder::Account([account; 16]));
        permit.grow_to(BYTES / 4).expect("memory that nobody holds");
        permit.complete();
        permit
    };
    (1..=4).map(held).collect()
}

/// A client that reads no answer had 50 MB of names, or twice as much, in no budget.
#[test]
fn long_lists_take_memory_from_the_budget_for_reading() {
    let budget = ByteBudget::new(BYTES);
    let service = |delivery: posthaste_delivery::Delivery| {
        let options = talkative_options(Duration::from_secs(3600));
        ImapService::new(options, delivery, None, ByteBudget::new(256 << 20)).with_reads(budget.clone())
    };
    let server = Server::start_storing(StoreOptions::default(), |engine| engine, service);
    let mut wire = server.login();
    for n in 0..8 {
        let name = format!("{n:030}{}", format!("/{}", "l".repeat(30)).repeat(31));
        wire.run(&format!("C: a SUBSCRIBE {name}\nS~ a OK …"));
    }
    let levels = ["%"; 16].join("/");
    let lsub = format!(r#"LSUB "" "{levels}""#);
    for command in [lsub.as_str(), r#"LIST (SUBSCRIBED RECURSIVEMATCH) "" "%""#] {
        let held = all_of(&budget);
        wire.send(format!("b {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"b\" NIL NIL)] Working");
        drop(held);
        wire.skip_to("b OK …");
        while budget.available() < BYTES {
            std::thread::yield_now();
        }
    }
    // Few names need no reservation.
    let _held = all_of(&budget);
    wire.run("C: c XLIST \"\" INBOX\nS~ c OK …");
}
