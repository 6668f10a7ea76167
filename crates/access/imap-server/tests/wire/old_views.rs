//! Old views: sessions hold them until they report the changes, within a bound.

use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_net::ByteBudget;
use posthaste_store::StoreOptions;

use crate::harness::{Server, unhurried};

/// More than one chunk of rows. A view of this number takes some 9 kB.
const MESSAGES: usize = 300;

/// A server where an account may hold its largest old view and 23 kB: two more of these.
fn server() -> Server {
    let options = StoreOptions { old_views_bytes: 100_000, ..StoreOptions::default() };
    let service = |delivery| {
        ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
    };
    let server = Server::start_storing(options, |engine| engine, service);
    server.with_messages(MESSAGES);
    server
}

/// The change of a round: of all messages, so that the next view shares no row with the last one.
fn change(round: usize) -> String {
    let sign = if round.is_multiple_of(2) { '+' } else { '-' };
    format!("C: b STORE 1:* {sign}FLAGS.SILENT (\\Flagged)\nS: b OK …")
}

#[test]
fn the_sessions_furthest_behind_end_and_nothing_is_lost() {
    let server = server();
    let mut neighbour = server.login_as_new("bob@example.org");
    neighbour.run("C: a SELECT INBOX\nS~ a OK [READ-WRITE] …");
    let mut worker = server.select("INBOX");
    let mut behind = Vec::new();
    for round in 0..8 {
        behind.push(server.select("INBOX"));
        worker.run(&change(round));
    }
    for wire in &mut behind[..4] {
        wire.expect("* BYE [UNAVAILABLE] …");
        wire.expect_end();
    }
    // The last one reports what changed since it opened the mailbox.
    let latest = &mut behind[7];
    latest.run("C: n NOOP");
    let reported = latest.skip_to("n OK …");
    assert_eq!(reported.iter().filter(|line| line.contains(" FETCH ")).count(), MESSAGES);
    neighbour.run("C: n NOOP\nS: n OK …");
    server
        .select("INBOX")
        .run("C: f SEARCH RETURN (COUNT) UNFLAGGED\nS: * ESEARCH (TAG \"f\") COUNT 300\nS: f OK …");
}

#[test]
fn sessions_that_report_each_change_stay() {
    let server = server();
    let mut worker = server.select("INBOX");
    let mut idle: Vec<_> = (0..3).map(|_| server.select("INBOX")).collect();
    for wire in &mut idle {
        wire.run("C: i IDLE\nS: + …");
    }
    for round in 0..8 {
        worker.run(&change(round));
        for wire in &mut idle {
            for _ in 0..MESSAGES {
                wire.expect("* … FETCH …");
            }
        }
    }
    for wire in &mut idle {
        wire.run("C: DONE\nS: i OK …");
    }
}
