//! A judge: the same scripts and messages through Pigeonhole's `sieve-test`, which Debian has in
//! `dovecot-sieve`. Without it the tests pass with a line that says so.
//!
//! One script has many tests. Each that holds adds a flag of its own, so that one run of the judge
//! says what twenty tests say. Scripts of actions are compared by their effects.
//!
//! Where we differ and stay with it, the generators leave the case out:
//!
//! | case | we | Pigeonhole 0.5.19 | why |
//! | --- | --- | --- | --- |
//! | `:matches "Gr?n"` on `Grün` | matches | does not: `?` is one octet | RFC 5228 §2.7.1 says character |
//! | `:contains "Hello"` on `hello` | matches | does not | RFC 5228 §2.7.3, RFC 4790 §9.2: case does not count |
//! | `:index 2 :count` | counts that field | counts none | RFC 5260 §6: the index limits what is matched |
//! | `i;ascii-numeric :is "x"` on an empty value | equal | not equal | RFC 4790 §9.1: both are infinite |
//! | `address :count`, `:matches "*"` on `undisclosed-recipients:;` | no address | one | RFC 5228 §5.1: a group is no address |
//! | `address :detail :count` without details | 0 | counts addresses | RFC 5233 §4 leaves it open |
//! | `body :text` of HTML | with its tags | without | RFC 5173 §5.3 leaves it open |
//! | replies to lists and programs | no reply, and a note | prints a reply, and decides later | RFC 5230 §4.6 |

#[path = "../examples/mod.rs"]
mod examples;
mod generate;
mod judge;

use posthaste_testkit::Random;

use generate::{actions, message, tests};
use judge::{Judge, ours};

/// Runs of the judge in one test: each takes some tens of milliseconds.
fn rounds() -> u64 {
    std::env::var("POSTHASTE_SIEVE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(60)
}

/// `None` where Pigeonhole is not installed, with a message.
fn judge() -> Option<Judge> {
    let judge = Judge::found();
    if judge.is_none() {
        eprintln!(
            "SKIPPED: sieve-test is not installed, so nothing is compared with Pigeonhole (apt-get install dovecot-sieve)"
        );
    }
    judge
}

fn compare(seed_base: u64, script_of: fn(&mut Random) -> String) {
    let Some(judge) = judge() else { return };
    let mut faults = Vec::new();
    for seed in seed_base..seed_base + rounds() {
        let mut random = Random::new(seed);
        let (message, script) = (message(&mut random), script_of(&mut random));
        let (ours, theirs) = (ours(&script, &message), judge.run(&script, &message));
        if ours != theirs {
            faults.push(format!("seed {seed}\nours   {ours:?}\ntheirs {theirs:?}\n--- script\n{script}\n--- message\n{message}"));
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} differ\n{}",
        faults.len(),
        rounds(),
        faults[..faults.len().min(4)].join("\n====\n")
    );
}

#[test]
fn tests_say_the_same() {
    compare(1000, tests);
}

#[test]
fn actions_do_the_same() {
    compare(5000, actions);
}

/// The examples of the RFCs, with what the table says of each.
#[test]
fn examples_of_the_rfcs_do_the_same() {
    let Some(judge) = judge() else { return };
    let mut faults = Vec::new();
    for example in examples::all() {
        let (script, message) = (example.text(), example.mail());
        let expected = example.theirs.map_or(example.actions, |(theirs, _)| theirs);
        let (ours, theirs) = (ours(&script, &message), judge.run(&script, &message));
        if theirs != expected || ours != example.actions {
            let section = example.section;
            faults.push(format!("{section}\nours   {ours:?}\ntheirs {theirs:?}\n--- script\n{script}"));
        }
    }
    assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults.join("\n====\n"));
}
