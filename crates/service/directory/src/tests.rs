//! Accounts, aliases, addresses and logins as the rest of the server meets them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;

use crate::hashing::{HashShare, hashes_at_once};
use crate::lease::LeasesToCompare;
use crate::testing::{Ending, add, by_password, directory, other_process, secret};
use crate::{
    AccountChange, Client, Directory, DirectoryError, Format, LoginError, LoginFailure, NewAccount, Policy,
    ResolveError, ScriptError, Service,
};

const PEER: Client = from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));

const fn from(address: IpAddr) -> Client {
    Client { address, service: Service::Imap }
}

async fn login(directory: &Directory, name: &str, password: &str) -> Result<String, LoginError> {
    directory.login(name, &secret(password), PEER).await.map(|login| login.account.name.clone())
}

#[tokio::test]
async fn an_account_is_made_changed_listed_and_removed() {
    let (records, directory) = directory();
    let new = NewAccount { quota_bytes: Some(1 << 30), quota_messages: Some(9), ..NewAccount::default() };
    let made = directory.add("Ana@Example.org", &secret("pencil"), new).await.unwrap();
    assert_eq!((made.name.as_str(), made.quota_bytes, made.version), ("ana@example.org", Some(1 << 30), 1));
    add(&directory, "ben@example.org", "x").await;
    assert_eq!(directory.account("ANA@example.org").await.unwrap(), Some(made.clone()));

    let change = AccountChange { quota_bytes: Some(None), disabled: Some(true), ..AccountChange::default() };
    let changed = directory.set("ana@example.org", change).await.unwrap();
    assert_eq!((changed.quota_bytes, changed.format, changed.disabled), (None, None, true));
    assert_eq!((changed.id, changed.version, changed.quota_messages), (made.id, 2, Some(9)));
    assert_eq!(directory.account("ana@example.org").await.unwrap(), Some(changed.clone()));

    let first = directory.accounts(None, 1).await.unwrap();
    assert_eq!(first, [changed]);
    let rest = directory.accounts(Some(&first[0].name), 10).await.unwrap();
    assert_eq!(rest.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["ben@example.org"]);

    assert_eq!(directory.remove("ana@example.org").await.unwrap().id, made.id);
    assert!(directory.account("ana@example.org").await.unwrap().is_none());
    assert!(matches!(directory.remove("ana@example.org").await, Err(DirectoryError::NoAccount(_))));
    assert!(!records.dump().contains("pencil"));
}

#[tokio::test]
async fn errors_name_the_field_and_the_remedy() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    directory.aliases().add("info@example.org", "ana@example.org").await.unwrap();
    let new = NewAccount::default;
    let cases = [
        (directory.add("ana@example.org", &secret("x"), new()).await, ["'ana@example.org'", "account set"]),
        (
            directory.add("info@example.org", &secret("x"), new()).await,
            ["alias of 'ana@example.org'", "remove"],
        ),
        (directory.add("a b@example.org", &secret("x"), new()).await, ["'a b@example.org'", "local part"]),
        (directory.add("cy@example.org", &secret(""), new()).await, ["password", "empty"]),
        (directory.set_password("cy@example.org", &secret("x")).await, ["'cy@example.org'", "account add"]),
    ];
    for (outcome, words) in cases {
        let text = outcome.unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[tokio::test]
async fn a_lost_race_is_run_again_and_an_endless_one_is_given_up() {
    let (records, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    records.conflict(3);
    directory.set_password("ana@example.org", &secret("pen")).await.unwrap();
    assert!(login(&directory, "ana@example.org", "pen").await.is_ok());
    records.conflict(1000);
    let busy = directory.set("ana@example.org", AccountChange::default()).await.unwrap_err();
    assert!(matches!(busy, DirectoryError::Busy(_)) && busy.is_temporary());
}

#[tokio::test]
async fn two_writers_lose_nothing() {
    let (records, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let other = other_process(&records);
    let quota = AccountChange { quota_bytes: Some(Some(5)), ..AccountChange::default() };
    let format = AccountChange { format: Some(Some(Format::Rich)), ..AccountChange::default() };
    let (a, b) = tokio::join!(directory.set("ana@example.org", quota), other.set("ana@example.org", format));
    a.and(b).unwrap();
    let account = directory.account("ana@example.org").await.unwrap().unwrap();
    assert_eq!((account.quota_bytes, account.format, account.version), (Some(5), Some(Format::Rich), 3));
}

#[tokio::test]
async fn mail_finds_its_account() {
    let (_, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let lists = add(&directory, "ana+work@example.org", "pencil").await;
    directory.aliases().add("Info@example.org", "ANA@example.org").await.unwrap();
    directory.aliases().add("ana@b\u{fc}cher.example", "ana@example.org").await.unwrap();

    for (text, account, detail) in [
        ("Ana@EXAMPLE.org", &ana, None),
        ("ana+Lists@example.org", &ana, Some("Lists")),
        ("ana+work@example.org", &lists, None),
        ("ana+work+x@example.org", &ana, Some("work+x")),
        ("info@example.org", &ana, None),
        ("INFO+a@example.org", &ana, Some("a")),
        ("\"ana\"@xn--bcher-kva.example", &ana, None),
    ] {
        let found = directory.resolve(text).await.unwrap();
        assert_eq!((found.account.id, found.detail.as_deref()), (account.id, detail), "{text}");
    }
    assert!(matches!(directory.resolve("bob@example.org").await, Err(ResolveError::NoSuchUser)));
    assert!(matches!(directory.resolve("bob@example.net").await, Err(ResolveError::NotLocal)));
    assert!(matches!(directory.resolve("postmaster").await, Err(ResolveError::NoSuchUser)));
    assert!(matches!(directory.resolve("a@b@c d").await, Err(ResolveError::Invalid(_))));

    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", disable).await.unwrap();
    assert!(matches!(directory.resolve("info@example.org").await, Err(ResolveError::Disabled)));
}

#[tokio::test]
async fn aliases_are_listed_and_go_with_their_account() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    add(&directory, "ben@example.org", "pencil").await;
    for n in 0..5 {
        directory.aliases().add(&format!("a{n}@example.org"), "ana@example.org").await.unwrap();
    }
    directory.aliases().add("b@example.org", "ben@example.org").await.unwrap();
    let taken = directory.aliases().add("b@example.org", "ana@example.org").await.unwrap_err();
    assert!(taken.to_string().contains("ben@example.org"));
    let page = directory.aliases().list(None, 3).await.unwrap();
    assert_eq!(page.len(), 3);
    assert_eq!(directory.aliases().list(Some(&page[2].address), 10).await.unwrap().len(), 3);
    directory.aliases().remove("a0@example.org").await.unwrap();
    assert!(matches!(directory.aliases().remove("a0@example.org").await, Err(DirectoryError::NoAlias(_))));
    directory.remove("ana@example.org").await.unwrap();
    let left = directory.aliases().list(None, 10).await.unwrap();
    assert_eq!(left.iter().map(|a| a.address.as_str()).collect::<Vec<_>>(), ["b@example.org"]);
    // The domain is still ours.
    assert!(matches!(directory.resolve("a1@example.org").await, Err(ResolveError::NoSuchUser)));
}

/// One could make a script active that the new account does not have.
#[tokio::test]
async fn a_session_of_a_removed_account_changes_no_scripts_of_its_successor() {
    let (_, directory) = directory();
    let before = add(&directory, "ana@example.org", "pencil").await;
    directory.remove("ana@example.org").await.unwrap();
    let now = add(&directory, "ana@example.org", "pencil").await;
    let scripts = directory.scripts();
    for done in [scripts.put(&before, "a", "discard;").await, scripts.activate(&before, Some("a")).await] {
        let is_refused = matches!(&done, Err(ScriptError::Directory(DirectoryError::NoAccount(_))));
        assert!(is_refused, "{done:?}");
    }
    assert_eq!(directory.account("ana@example.org").await.unwrap(), Some(now));
}

#[tokio::test]
async fn a_password_lets_in_and_a_new_one_holds_at_once() {
    let (records, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    for _ in 0..3 {
        assert_eq!(login(&directory, "ANA@example.org", "pencil").await.unwrap(), "ana@example.org");
    }
    // As `posthaste account passwd` does, while the server runs.
    other_process(&records).set_password("ana@example.org", &secret("pen")).await.unwrap();
    let refused = login(&directory, "ana@example.org", "pencil").await.unwrap_err();
    assert!(matches!(refused.failure, LoginFailure::Credentials));
    assert_eq!(refused.delay, Duration::from_millis(250));
    assert!(login(&directory, "ana@example.org", "pen").await.is_ok());
    directory.remove("ana@example.org").await.unwrap();
    assert!(login(&directory, "ana@example.org", "pen").await.is_err());
}

#[tokio::test]
async fn a_verified_password_is_not_hashed_again() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    assert!(login(&directory, "ana@example.org", "pencil").await.is_ok());
    // The hash is broken behind our back, at the same version: only the remembered password can let
    // her in now.
    let text = records.dump();
    let line = text.lines().find(|line| line.starts_with("account/")).unwrap();
    let broken = line.split_once(' ').unwrap().1.replace("$argon2id$", "$nothing$");
    let fresh = |value: String| {
        let records = Arc::new(crate::testing::MemoryRecords::default());
        records.put("account/ana@example.org", Bytes::from(value));
        other_process(&records)
    };
    let mut moved = fresh(broken.clone());
    std::mem::swap(&mut moved.verified, &mut { directory }.verified);
    assert_eq!(moved.account("ana@example.org").await.unwrap().unwrap().version, ana.version);
    assert!(login(&moved, "ana@example.org", "pencil").await.is_ok());
    assert!(login(&moved, "ana@example.org", "Pencil").await.is_err());
    // A restored record may have the version of an earlier one, and another hash.
    let (before, after) = broken.split_once("\",\"scram\"").unwrap();
    let mut restored = fresh(format!("{before}x\",\"scram\"{after}"));
    std::mem::swap(&mut restored.verified, &mut moved.verified);
    assert_eq!(restored.account("ana@example.org").await.unwrap().unwrap().version, ana.version);
    assert!(login(&restored, "ana@example.org", "pencil").await.is_err());
    std::mem::swap(&mut restored.verified, &mut moved.verified);
    // Any change of the record ends it.
    moved.set("ana@example.org", AccountChange::default()).await.unwrap();
    assert!(login(&moved, "ana@example.org", "pencil").await.is_err());
}

#[tokio::test]
async fn nobody_learns_who_exists() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", disable).await.unwrap();
    for (name, password) in
        [("ana@example.org", "wrong"), ("bob@example.org", "pencil"), ("a b", "x"), ("bob@example.org", "")]
    {
        let error = login(&directory, name, password).await.unwrap_err();
        assert!(matches!(error.failure, LoginFailure::Credentials), "{name}: {error}");
    }
    // Only one who knows the password learns it.
    let error = login(&directory, "ana@example.org", "pencil").await.unwrap_err();
    assert!(matches!(error.failure, LoginFailure::Disabled) && error.delay.is_zero());
}

/// Holds all threads for hashes until the sender is dropped.
async fn hold_hashes(directory: &Arc<Directory>) -> mpsc::Sender<()> {
    let (let_go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    for _ in 0..hashes_at_once() {
        let (directory, wait) = (Arc::clone(directory), Arc::clone(&wait));
        let work = move || wait.lock().unwrap().recv();
        tokio::spawn(async move { directory.hashing.run(HashShare::Own, work).await });
    }
    while directory.hashing.is_free() {
        tokio::task::yield_now().await;
    }
    let_go
}

/// What takes time in a login is a hash. All of them wait for one, at the same cost.
#[tokio::test]
async fn an_unknown_name_takes_a_hash_like_a_wrong_password() {
    let (_, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    // From now on the hash for unknown names is there.
    login(&directory, "bob@example.org", "pencil").await.unwrap_err();
    let directory = Arc::new(directory);
    let let_go = hold_hashes(&directory).await;
    let names = ["ana@example.org", "bob@example.org", "cy@example.net", "a b", ""];
    let tries: Vec<_> = names
        .into_iter()
        .map(|name| {
            let directory = Arc::clone(&directory);
            tokio::spawn(async move { login(&directory, name, "wrong").await })
        })
        .collect();
    while directory.hashing.waiting() < names.len() {
        let answered: Vec<_> =
            names.iter().zip(&tries).filter(|(_, attempt)| attempt.is_finished()).collect();
        assert!(answered.is_empty(), "answered without a hash: {answered:?}");
        tokio::task::yield_now().await;
    }
    drop(let_go);
    for attempt in tries {
        let refused = attempt.await.unwrap().unwrap_err();
        assert!(matches!(refused.failure, LoginFailure::Credentials), "{refused}");
    }
    // A PHC string: parameters before salt and hash.
    let cost = |phc: &str| phc.rsplitn(3, '$').last().map(String::from);
    let of_ana = directory.records.stored(&ana.name).await.unwrap().unwrap().credentials.argon2.clone();
    assert_eq!(cost(directory.decoy_hash.get().unwrap()), cost(&of_ana));
}

/// The password was right when its login began to wait.
#[tokio::test]
async fn a_change_during_the_wait_for_a_hash_counts() {
    for ending in Ending::ALL {
        let (records, directory) = directory();
        add(&directory, "ana@example.org", "pencil").await;
        let directory = Arc::new(directory);
        let let_go = hold_hashes(&directory).await;
        let waiting = Arc::clone(&directory);
        let attempt = tokio::spawn(async move { login(&waiting, "ana@example.org", "pencil").await });
        while directory.hashing.waiting() == 0 {
            assert!(!attempt.is_finished(), "answered without a hash");
            tokio::task::yield_now().await;
        }
        let reason = ending.of(&other_process(&records), "ana@example.org").await;
        drop(let_go);
        let refused = attempt.await.unwrap().unwrap_err();
        assert_eq!(refused.failure.reason(), reason, "{ending:?}");
    }
}

#[tokio::test]
async fn failures_slow_down_and_known_passwords_do_not_wait() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    assert!(login(&directory, "ana@example.org", "pencil").await.is_ok());
    let mut last = Duration::ZERO;
    for _ in 0..64 {
        let error = login(&directory, "ana@example.org", "guess").await.unwrap_err();
        assert!(error.delay >= last && matches!(error.failure, LoginFailure::Credentials));
        last = error.delay;
    }
    assert_eq!(last, Duration::from_secs(10));
    let error = login(&directory, "ben@example.org", "guess").await.unwrap_err();
    assert!(matches!(error.failure, LoginFailure::TooMany));
    assert!(login(&directory, "ana@example.org", "pencil").await.is_ok());
}

#[tokio::test]
async fn a_password_kept_cheaply_is_kept_better_from_the_next_login_on() {
    let (records, cheap) = directory();
    add(&cheap, "ana@example.org", "pencil").await;
    let policy =
        Policy { argon2_memory_kib: 128, argon2_passes: 2, scram_iterations: Some(5000), scram_sha1: false };
    let better =
        Directory::with_policy(Arc::clone(&records) as Arc<dyn posthaste_store::Engine>, policy).unwrap();
    assert!(login(&better, "ana@example.org", "wrong").await.is_err());
    assert!(records.dump().contains("m=64,t=1") && records.dump().contains("\"iterations\":4096"));
    let lease = better.lease(&by_password(&better.account("ana@example.org").await.unwrap().unwrap()));
    login(&better, "ana@example.org", "pencil").await.unwrap();
    let upgraded = records.dump();
    assert!(upgraded.contains("m=128,t=2") && upgraded.contains("\"iterations\":5000"), "{upgraded}");
    // Another directory knows the password in its new form. A policy with a cheaper Argon2id and
    // the same iterations leaves it so.
    let policy = Policy { scram_iterations: Some(5000), ..Policy::cheap_for_tests() };
    let cheaper =
        Directory::with_policy(Arc::clone(&records) as Arc<dyn posthaste_store::Engine>, policy).unwrap();
    for directory in [&better, &cheaper] {
        assert!(login(directory, "ana@example.org", "pencil").await.is_ok());
        assert!(login(directory, "ana@example.org", "Pencil").await.is_err());
    }
    assert_eq!(records.dump(), upgraded);
    // An upgrade for which there was no room is made at a later login.
    let best = Policy { argon2_memory_kib: 192, ..policy };
    let best =
        Directory::with_policy(Arc::clone(&records) as Arc<dyn posthaste_store::Engine>, best).unwrap();
    let stored = best.records.stored("ana@example.org").await.unwrap().unwrap();
    best.verified.remember(best.verified.mark(&stored, "pencil"), best.policy.renewal(&stored.credentials));
    assert!(login(&best, "ana@example.org", "pencil").await.is_ok());
    assert!(records.dump().contains("m=192,"));
    // It is the same password: sessions continue.
    better.leases.compare(LeasesToCompare::All).await.unwrap();
    assert!(!lease.is_ended());
}

#[tokio::test]
async fn a_throttled_address_learns_nothing_of_remembered_passwords() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    // Her password is remembered, from another address.
    let home = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    assert!(directory.login("ana@example.org", &secret("pencil"), from(home)).await.is_ok());
    for n in 0..64 {
        login(&directory, &format!("u{n}@example.org"), "guess").await.unwrap_err();
    }
    let refused = login(&directory, "ana@example.org", "pencil").await.unwrap_err();
    assert!(matches!(refused.failure, LoginFailure::TooMany), "{refused}");
    assert!(directory.login("ana@example.org", &secret("pencil"), from(home)).await.is_ok());
}

#[tokio::test]
async fn others_failures_on_loopback_and_in_trusted_networks_refuse_nobody() {
    let (_, directory) = directory();
    directory.trust_networks(vec!["10.0.0.0/8".parse().unwrap()]);
    for (n, peer) in ["127.0.0.1", "::1", "10.9.8.7"].into_iter().enumerate() {
        let peer: IpAddr = peer.parse().unwrap();
        for n in 0..65 {
            let failed = directory.login(&format!("u{n}@example.org"), &secret("guess"), from(peer)).await;
            assert!(matches!(failed.unwrap_err().failure, LoginFailure::Credentials));
        }
        let name = format!("new{n}@example.org");
        add(&directory, &name, "pencil").await;
        assert!(directory.login(&name, &secret("pencil"), from(peer)).await.is_ok(), "{peer}");
    }
}

#[test]
fn the_debug_output_has_no_secret() {
    let (_, directory) = directory();
    assert!(!format!("{directory:?}").contains("key"));
}
