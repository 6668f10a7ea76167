//! How long a session that idles waits for news of its mailbox (RFC 2177).

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_testkit::{Server, message};

use crate::USER;
use crate::client::Client;
use crate::table::{MS, Table};

/// Another session's change is waited for from when it is sent; another process's, from when that
/// process has ended. The median counts as the row's least, and the slowest is a row of its own.
pub fn notices(server: &Server, table: &mut Table) {
    let imap = server.address("imap");
    let mut other = Client::login(imap);
    other.ask("CREATE News");
    let mut idle = Client::login(imap);
    idle.ask("SELECT News");
    idle.stream.write_all(b"i IDLE\r\n").unwrap();
    idle.until_contains("+ ");
    let mut messages = 0;
    let mut waits = |times: usize, change: &mut dyn FnMut() -> Instant| -> Vec<Duration> {
        let mut one = || {
            messages += 1;
            let since = change();
            idle.until_contains(&format!("* {messages} EXISTS"));
            since.elapsed()
        };
        (0..times).map(|_| one()).collect()
    };
    let text = String::from_utf8(message(1)).unwrap();
    let sessions = waits(200, &mut || {
        let since = Instant::now();
        other.ask(&format!("APPEND News {{{}+}}\r\n{text}", text.len()));
        since
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.mbox");
    let mut imports = 0;
    let processes = waits(20, &mut || {
        imports += 1;
        one_message(&file, imports);
        let args = ["import", file.to_str().unwrap(), "--account", USER, "--mailbox", "News"];
        assert!(server.command(&args, "").status.success());
        Instant::now()
    });
    take(table, "another session's APPEND", sessions);
    take(table, "an import", processes);
}

/// An mbox of one message, another for each number: an import leaves out messages that it imported
/// before.
fn one_message(file: &Path, number: usize) {
    let text = String::from_utf8(message(number)).unwrap();
    std::fs::write(file, format!("From ben@example.org Mon Jan  1 00:00:00 2024\r\n{text}\r\n")).unwrap();
}

fn take(table: &mut Table, of: &str, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let (median, slowest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    for (what, wait) in [("median", median), ("slowest", slowest)] {
        let name = format!("IDLE reports {of}, {what} of {}", waits.len());
        table.take(&name, "≤ 100 ms", "ms", MS, (0, wait.as_nanos() as u64));
    }
}
