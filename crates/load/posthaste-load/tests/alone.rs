//! Transactions that are measured alone: what prepares and undoes them is not counted.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_imap_client::net::{Dialer, Trust};
use posthaste_load_drive::populate::{Contents, PopulateOptions, populate};
use posthaste_load_drive::run::{ClusterOptions, Pools, RunOptions, SendBy, run};
use posthaste_load_drive::{Accounts, Target};
use posthaste_load_measure::WatchTarget;
use posthaste_load_null_server::{Addresses, Faults, start};
use posthaste_load_results::RunResult;
use posthaste_load_workload::{Choice, Workload, load};

const MESSAGES: u32 = 30;

/// Two accounts with INBOX and folders.
fn fill(at: Addresses, folders: u32) {
    populate(PopulateOptions {
        server: format!("imap://{}", at.imap).parse().unwrap(),
        lmtp: None,
        accounts: Accounts::parse("user{0..1}@example.org").unwrap().with_password("x"),
        contents: Contents::new(MESSAGES, folders, MESSAGES, "fixed:1k".parse().unwrap()),
        seed: 1,
        mail: None,
        parallel: 2,
        dialer: dialer(),
        live: false,
    })
    .unwrap();
}

fn dialer() -> Dialer {
    Dialer::new(Trust::Anyone, Duration::from_secs(60)).unwrap()
}

/// A workload with one of its transactions.
fn only(workload: &str, transaction: &str) -> Workload {
    let mut workload = load(workload).unwrap();
    let at = workload.transactions.iter().position(|t| t.name == transaction).unwrap();
    workload.choice = Choice::Sequence(vec![at]);
    workload
}

/// The options of a run of this many transactions. The server is this process itself.
fn options(at: Addresses, workload: Workload, transactions: u32) -> RunOptions {
    let server: Target = format!("imap://{}", at.imap).parse().unwrap();
    RunOptions {
        workload,
        server,
        cluster: ClusterOptions::default(),
        send: Some(SendBy::Mail(format!("lmtp://{}", at.lmtp).parse().unwrap())),
        deliver: None,
        accounts: Accounts::parse("user{0..1}@example.org").unwrap().with_password("x"),
        clients: 1,
        think: None,
        arrivals: None,
        ramp: Duration::ZERO,
        warmup: Duration::ZERO,
        // An hour, which is not waited for.
        measure: Duration::from_secs(3600),
        transactions_each: Some(transactions),
        threads: 1,
        seed: 1,
        audit: false,
        dialer: dialer(),
        watch: WatchTarget::Local { pid: Some(std::process::id()), cgroup: None, data: None },
        pools: Pools::default(),
        figures: None,
        mhz: None,
        label: "null".into(),
        command: Vec::new(),
        settings: Default::default(),
        live: false,
    }
}

fn clean(options: RunOptions) -> RunResult {
    let result = run(options, None).unwrap().result;
    assert!(result.outcome.clean, "{}: {:#?}", result.outcome.headline, result.errors);
    result
}

#[test]
fn preparation_and_undoing_of_a_transaction_are_not_counted() {
    let at = start(Faults::default()).unwrap();
    fill(at, 1);
    for (name, verb) in [
        ("STORE +FLAGS.SILENT of 1,000", "STORE"),
        ("STORE -FLAGS.SILENT of 1,000", "STORE"),
        ("COPY of 1,000", "COPY"),
        ("EXPUNGE of 1,000", "EXPUNGE"),
    ] {
        let result = clean(options(at, only("operations", name), 4));
        // The first of four is a rehearsal.
        assert_eq!(result.total.count, 3, "{name}");
        let done: Vec<(&str, u64)> = result
            .commands
            .iter()
            .filter(|c| c.name == "STORE" || c.name == "COPY" || c.name == "EXPUNGE")
            .map(|c| (c.name.as_str(), c.summary.count))
            .collect();
        // Its own command in each of the four, and none of those beside it.
        assert_eq!(done, [(verb, 4)], "{name}");
        let server = result.server.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", result.caveats));
        assert!(server.source.ends_with("each transaction alone"), "{}", server.source);
        assert!(server.seconds > 0.0 && server.seconds < result.window.end_s, "{name}: {server:?}");
        assert!(server.roles.is_empty() && server.disk_write_bytes.value().is_none());
        assert!(!result.caveats.iter().any(|c| c.contains("steady")), "{:?}", result.caveats);
    }
    // All is as it was: the next session finds the messages of the first.
    let listing = clean(options(at, only("operations", "FETCH FLAGS"), 2));
    assert_eq!(listing.total.count, 2, "no rehearsal where a window is measured");
    let fetched = listing.commands.iter().find(|c| c.name == "FETCH").unwrap();
    assert!(fetched.summary.count > 0);
    assert_eq!(listing.server.unwrap().messages, 2 * u64::from(MESSAGES));
}

#[test]
fn each_folder_is_selected_cold_once_and_the_run_ends_with_the_last() {
    let at = start(Faults::default()).unwrap();
    fill(at, 5);
    let result = clean(options(at, load("select-cold").unwrap(), 9));
    assert_eq!(result.total.count, 4, "five folders, one of them for the rehearsal");
}

#[test]
fn mail_for_others_comes_to_the_other_account() {
    let at = start(Faults::default()).unwrap();
    fill(at, 1);
    let delivery = only("operations", "LMTP delivery");
    assert!(delivery.chosen().all(|t| t.needs_lmtp));
    assert_eq!(clean(options(at, delivery, 3)).total.count, 3);
    let own = clean(options(at, only("operations", "FETCH FLAGS"), 1));
    assert_eq!(own.server.unwrap().messages, u64::from(MESSAGES), "nothing came to the sender");
}

#[test]
fn several_users_cannot_be_measured_alone() {
    let at = start(Faults::default()).unwrap();
    let two = RunOptions { clients: 2, ..options(at, load("select-cold").unwrap(), 1) };
    let error = run(two, None).err().unwrap().to_string();
    assert!(error.contains("select-cold") && error.contains("--clients 1"), "{error}");
}

#[test]
fn a_session_of_each_transaction_connects_and_leaves() {
    let at = start(Faults::default()).unwrap();
    fill(at, 1);
    let result = clean(options(at, load("session").unwrap(), 3));
    assert_eq!(
        (result.total.count, result.transactions[0].name.as_str()),
        (3, "connect, LOGIN, SELECT, LOGOUT")
    );
    assert_eq!(result.server.unwrap().sessions, 3);
}
