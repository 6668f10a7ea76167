//! Random commands to Dovecot and to Posthaste on the same mail: the answers mean the same, except
//! for what `docs/differences.md` allows.
//!
//! `tests/clients/differential.py` makes messages and commands from a seed, asks both servers and
//! compares. `tests/clients/odd_messages.py` makes malformed messages, `differential_names.py`
//! names of mailboxes, and `differential_resync.py` changes by mod-sequence.
//! `differential_sessions.py` has sessions that do not know of an EXPUNGE yet,
//! `differential_reads.py` extensions for reading, and `differential_extensions.py` those for
//! mailboxes. A failure names the seed and the kind of sequence. `POSTHASTE_DIFFERENTIAL="SEED
//! COUNT"` runs others, and `"SEED COUNT NAMES"` only some kinds, as `"7 1 tree,metadata"`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use posthaste_testkit::{ServerBuilder, client_tests_wanted, run_python};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Dovecot's IMAP session as a program: it speaks over its standard input.
const DOVECOT: &str = "/usr/lib/dovecot/imap";
/// The first sequence, and the number of sequences: some seconds.
const SEED_AND_COUNT: &str = "1 50";

#[test]
fn dovecot_answers_the_same() {
    if !client_tests_wanted() {
        return;
    }
    if !Path::new(DOVECOT).exists() {
        println!("SKIPPED: there is no {DOVECOT} (Debian: apt-get install dovecot-imapd)");
        return;
    }
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    let chosen = std::env::var("POSTHASTE_DIFFERENTIAL").unwrap_or_else(|_| SEED_AND_COUNT.to_owned());
    let (seed, rest) = chosen.split_once(' ').unwrap();
    let (count, names) = rest.split_once(' ').unwrap_or((rest, ""));
    let port = server.address("imap").port().to_string();
    let script = [
        include_str!("clients/odd_messages.py"),
        include_str!("clients/differential_names.py"),
        include_str!("clients/differential_resync.py"),
        include_str!("clients/differential_sessions.py"),
        include_str!("clients/differential_reads.py"),
        include_str!("clients/differential_extensions.py"),
        include_str!("clients/differential.py"),
    ]
    .concat();
    let said = run_python(&script, &[&port, USER, PASSWORD, DOVECOT, seed, count, names]);
    println!("{said}");
    assert!(said.contains("differential: done"), "{said}");
}
