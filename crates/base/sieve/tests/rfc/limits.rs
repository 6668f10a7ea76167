//! RFC 5228 §2.10.5, §2.10.6, §10: a run ends, and the message is kept.

use std::fmt::Write;

use posthaste_sieve::{Capabilities, Limits, Outcome, Script};

use crate::world::{MESSAGE, World, words};

fn run(limits: Limits, script: &str, message: &str) -> Outcome {
    let capabilities = Capabilities { limits, ..Capabilities::default() };
    Script::compile(script, &capabilities)
        .expect("a script without faults")
        .run(message.as_bytes(), &World::default())
}

#[test]
fn a_fault_keeps_the_message_and_nothing_else_is_done() {
    let script = "require [\"variables\", \"fileinto\", \"editheader\"]; addheader \"X\" \"y\"; fileinto \"A\";\nredirect \"${none}\";";
    let outcome = run(Limits::default(), script, MESSAGE);
    assert_eq!(words(&outcome), ["implicit keep"]);
    assert!(outcome.headers.is_empty());
    let error = outcome.error.unwrap();
    assert_eq!((error.place.line, error.place.column), (2, 1));
    assert!(error.message.contains("is not an address"), "{error}");
}

#[test]
fn steps_redirects_and_actions_are_bounded() {
    let steps = run(Limits { steps_max: 10, ..Limits::default() }, &"if true {}".repeat(20), MESSAGE);
    assert!(steps.error.unwrap().message.contains("more than 10 steps"));
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let redirects = many(9, &|n| format!("redirect \"a{n}@b.c\";"));
    assert!(
        run(Limits::default(), &redirects, MESSAGE).error.unwrap().message.contains("more than 8 addresses")
    );
    let actions = "require \"fileinto\";".to_string() + &many(65, &|n| format!("fileinto \"a{n}\";"));
    assert!(
        run(Limits::default(), &actions, MESSAGE).error.unwrap().message.contains("more than 64 actions")
    );
}

#[test]
fn a_script_is_bounded() {
    let capabilities = Capabilities {
        limits: Limits { script_bytes_max: 10, ..Limits::default() },
        ..Capabilities::default()
    };
    assert!(Script::compile("keep; keep;", &capabilities).is_err());
    let mut variables = String::from("require \"variables\";");
    for n in 0..300 {
        let _ = write!(variables, "set \"v{n}\" \"x\";");
    }
    assert!(
        Script::compile(&variables, &Capabilities::default())
            .unwrap_err()
            .to_string()
            .contains("more than 256 variables")
    );
}

/// Fifteen levels at least, 128 variables of 4,000 characters, and what is set in them comes out.
#[test]
fn what_the_rfcs_promise_fits() {
    let mut script = String::from("require [\"variables\", \"fileinto\"];");
    for n in 0..128 {
        let _ = write!(script, "set \"v{n}\" \"{}\";", "y".repeat(4000));
    }
    let _ = write!(script, "if allof (true, {} true) {{ fileinto \"A\"; }}", "not ".repeat(14));
    let inner = "set :length \"n\" \"${v127}\"; fileinto \"${n}\";";
    let _ = write!(script, "{}{inner}{}", "if true {".repeat(15), "}".repeat(15));
    let outcome = run(Limits::default(), &script, MESSAGE);
    assert_eq!(words(&outcome), ["file A", "file 4000"]);
}

/// A large field and a bad pattern: the steps stay in proportion to both.
#[test]
fn matching_costs_what_is_looked_at() {
    let message = format!("Subject: {}\r\n\r\n", "a".repeat(500_000));
    let script = format!("if header :matches \"subject\" \"{}b\" {{}}", "*a".repeat(1000));
    let outcome = run(Limits::default(), &script, &message);
    assert_eq!(outcome.error, None);
    assert!(outcome.steps < 20_000, "{}", outcome.steps);
}

/// Loops in loops over many parts, and lists over many fields: either end or reach the bound.
#[test]
fn walks_over_large_messages_are_counted() {
    let mut message = String::from("Content-Type: multipart/mixed; boundary=b\r\n");
    for n in 0..9_000 {
        let _ = write!(message, "X-A: {n}\r\n");
    }
    message.push_str("\r\n");
    message.push_str(&"--b\r\nX-B: c\r\n\r\nx\r\n".repeat(5000));
    let tests = "if header :mime :anychild \"x-b\" \"none\" { stop; }";
    let script = format!(
        "require [\"foreverypart\", \"mime\"]; foreverypart {{ {} }} {}",
        tests.repeat(50),
        tests.repeat(50)
    );
    let outcome = run(Limits::default(), &script, &message);
    assert!(outcome.steps <= 1_000_000 + 5000, "{}", outcome.steps);
    let lists = format!("if header [{}\"x\"] [] {{}}", "\"x-a\",".repeat(10_000));
    let outcome = run(Limits::default(), &lists, &message);
    assert!(outcome.error.is_some_and(|error| error.message.contains("steps")));
}
