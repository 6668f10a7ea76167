//! RFC 5228 §2.10.5, §2.10.6, §10: a run ends, and the message is kept.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use posthaste_sieve::{Capabilities, Context, Effect, Limits, Location, Moment, Outcome, Script};

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
fn the_limits_allow_what_the_rfcs_require() {
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
fn matching_costs_the_compared_characters() {
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

/// A run that does too much ends while a pattern is looked for, not after: the steps it reports are
/// those that it took.
#[test]
fn a_pattern_is_left_when_the_steps_are_spent() {
    let mut seed = 1_u32;
    let letters = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (seed >> 30) as u8)
    });
    let body = format!("Subject: x\r\n\r\n{}", letters.take(1_000_000).collect::<String>());
    let wildcards = format!("require \"body\"; if body :raw :matches \"*{}z*\" {{}}", "?".repeat(60_000));
    let regex = "require [\"body\", \"regex\"]; if body :raw :regex \"[ab][a-d]{1500}[x-z]\" {}";
    for script in [wildcards.as_str(), regex] {
        let outcome = run(Limits::default(), script, &body);
        assert_eq!(words(&outcome), ["implicit keep"]);
        assert!(outcome.error.is_some_and(|error| error.message.contains("more than 1000000 steps")));
        assert!(outcome.steps < 1_010_000, "{}", outcome.steps);
    }
}

/// Lists of flags, and fields that are decoded: each look at a long text is counted.
#[test]
fn long_texts_are_counted_wherever_they_are_read() {
    let flags: String = (0..1_500).map(|n| format!("f{n} ")).collect();
    let all = format!("require [\"imap4flags\", \"variables\"]; set \"a\" \"{flags}\";");
    let names = format!("{all} if hasflag [{}\"a\"] \"x\" {{}}", "\"a\",".repeat(2_000));
    let parts =
        format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", "--b\r\n\r\nx\r\n".repeat(1_000));
    let in_a_loop = |command: &str| {
        format!("require [\"foreverypart\", \"imap4flags\"]; foreverypart {{ {command} \"{flags}\"; }}")
    };
    let dates = format!("require \"date\"; {}", "if date \"date\" \"year\" \"1\" {}".repeat(200));
    let date = format!("Date: {}\r\n\r\n", "a".repeat(500_000));
    let edits =
        format!("require [\"editheader\", \"index\"]; {}", "deleteheader :index 9 \"date\";".repeat(200));
    let bodies = format!("require \"body\"; {}", "if body :raw :contains \"\" {}".repeat(300));
    let body = format!("Subject: x\r\n\r\n{}", "a".repeat(2_000_000));
    for (script, message) in [
        (names, MESSAGE),
        (in_a_loop("addflag"), parts.as_str()),
        (in_a_loop("removeflag"), parts.as_str()),
        (in_a_loop("keep :flags"), parts.as_str()),
        (dates, date.as_str()),
        (edits, date.as_str()),
        (bodies, body.as_str()),
    ] {
        let outcome = run(Limits::default(), &script, message);
        assert_eq!(words(&outcome), ["implicit keep"]);
        assert!(outcome.error.is_some_and(|error| error.message.contains("steps")), "{script:.90}");
    }
    // Lists of the usual length cost next to nothing.
    let usual = "require \"imap4flags\"; setflag \"a b c\"; addflag \"d\"; removeflag \"a\"; keep;";
    let outcome = run(Limits::default(), usual, MESSAGE);
    assert!(outcome.error.is_none() && outcome.steps < 20, "{}", outcome.steps);
}

/// What a list names may be empty, the same again and again, or hard to compare.
#[test]
fn long_lists_are_counted_whatever_they_name() {
    let parts =
        format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", "--b\r\n\r\nx\r\n".repeat(1_000));
    let in_a_loop = |needs: &str, command: &str| {
        format!("require [\"foreverypart\", {needs}]; foreverypart {{ {command} }}")
    };
    let empty = format!("set \"b\" \"{}\";", "${a}".repeat(15_000));
    let names = format!("if hasflag [{}\"a\"] \"x\" {{}}", "\"a\",".repeat(15_000));
    let envelope = format!("if envelope :detail [{}\"from\"] \"x\" {{}}", "\"from\",".repeat(2_000));
    let flags: String = (100..200).map(|n| format!("{}{n} ", "f".repeat(190))).collect();
    let field = format!("A: x; b={}\r\n\r\n", "c".repeat(500_000));
    let absent = format!("if header :mime :param [{}\"y\"] \"a\" \"x\" {{}}", "\"y\",".repeat(200));
    for (script, message) in [
        (in_a_loop("\"variables\"", &empty), &parts),
        (in_a_loop("\"imap4flags\", \"variables\"", &names), &parts),
        (in_a_loop("\"envelope\", \"subaddress\"", &envelope), &parts),
        (in_a_loop("\"imap4flags\"", &format!("addflag \"{flags}\";")), &parts),
        (format!("require \"mime\"; {absent}"), &field),
    ] {
        let outcome = run(Limits::default(), &script, message);
        assert_eq!(words(&outcome), ["implicit keep"]);
        assert!(outcome.error.is_some_and(|error| error.message.contains("steps")), "{script:.90}");
    }
}

/// Keys with variables are compiled when a test runs, and are in memory together.
#[test]
fn keys_with_variables_are_bounded() {
    let fault = |matching: &str, value: &str, count: usize| {
        let keys = vec!["\"${a}\""; count].join(",");
        let script = format!(
            "require [\"regex\", \"variables\"]; set \"a\" \"{value}\"; if header {matching} \"subject\" [{keys}] {{}}"
        );
        run(Limits::default(), &script, MESSAGE).error.map(|error| error.message)
    };
    let long = "y".repeat(8_000);
    for (matching, value, most) in [(":regex", "y", 8), (":is", "y", 1_024), (":matches", long.as_str(), 4)] {
        assert_eq!(fault(matching, value, most), None);
        let refused = fault(matching, value, most + 1).unwrap();
        assert!(refused.contains("keys with variables"), "{matching}: {refused}");
    }
}

/// A loop may leave out a million actions, and an answer may quote a field of 1 MiB.
#[test]
fn notes_and_quoted_fields_are_bounded() {
    let message = format!(
        "From: ana@example.org\r\nTo: ken@example.com\r\nSubject: {}\r\nMessage-ID: <{}@x>\r\n\r\n",
        "s".repeat(100_000),
        "i".repeat(100_000)
    );
    let left_out = "addheader \"Return-Path\" \"x\";".repeat(100);
    let script = format!("require [\"editheader\", \"vacation\"]; {left_out} vacation \"away\";");
    let outcome = run(Limits::default(), &script, &message);
    assert_eq!((outcome.notes.len(), outcome.error), (64, None));
    let reply = outcome.effects.iter().find_map(|effect| match effect {
        Effect::Vacation(reply) => Some(reply),
        _ => None,
    });
    let reply = reply.unwrap();
    assert_eq!((reply.subject.len(), &reply.in_reply_to), ("Auto: ".len() + 500, &None));
}

/// Included scripts have variables beside those of the script that includes them.
#[test]
fn the_variables_of_all_scripts_are_bounded_together() {
    let sets = |count: usize| {
        let sets: String = (0..count).map(|n| format!("set \"v{n}\" \"${{a}}\";")).collect();
        format!("require [\"include\", \"variables\"]; set \"a\" \"{}\"; {sets}", "y".repeat(8_192))
    };
    // What an included script had is free again.
    let twice = "include \"inner\"; include \"inner\"; keep;";
    for (count, fits) in [(100, true), (200, false)] {
        let inner = sets(count);
        let world = World::default().with_script(Location::Personal, "inner", &inner);
        let outcome = world.run(&format!("{}{twice}", sets(120)), MESSAGE);
        let fault = outcome.error.map(|error| error.message);
        assert_eq!(fault.is_none(), fits, "{count}: {fault:?}");
        assert!(fault.is_none_or(|fault| fault.contains("values of all variables")));
    }
}

/// A header that is at the bounds as it comes gets fields here. Scripts run for it anyway.
#[test]
fn a_header_at_its_bounds_may_get_traces() {
    let own = "Return-Path: <a@b.c>\r\nReceived: by a\r\n";
    let fields = format!("{own}{}\r\nx\r\n", "a: b\r\n".repeat(10_000));
    let octets = format!("{own}a: {}\r\n\r\nx\r\n", "b".repeat((1 << 20) - 10));
    for message in [fields, octets] {
        let outcome = run(Limits::default(), "discard;", &message);
        assert_eq!((words(&outcome), outcome.error), (vec!["discard".to_owned()], None));
    }
    let beyond = format!("{}\r\n", "a: b\r\n".repeat(20_000));
    let outcome = run(Limits::default(), "discard;", &beyond);
    assert!(outcome.error.is_some_and(|error| error.message.contains("header that is too large")));
}

/// Mail and scripts of ten times the usual size.
#[test]
fn ordinary_scripts_have_steps_to_spare() {
    let mut message =
        String::from("Subject: [list] a bill of 12.50 EUR\r\nList-Id: <dev.lists.example.org>\r\n");
    for n in 0..30 {
        let _ = write!(
            message,
            "Received: from a{n}.example.org by b.example.org; Mon, 1 Jan 2024 00:00:00 +0000\r\n"
        );
    }
    message.push_str("\r\n");
    message.push_str(&"Some words of a long newsletter, with prices and addresses.\r\n".repeat(17_000));
    let mut script = String::from("require [\"regex\", \"variables\", \"body\", \"fileinto\"];");
    for n in 0..30 {
        let _ = write!(
            script,
            "if header :regex [\"subject\", \"received\"] \"(bill|invoice{n}) of ([0-9]+)[.,][0-9]{{2}} (EUR|USD)\" {{ set \"a\" \"${{2}}\"; }}"
        );
    }
    for n in 0..100 {
        let _ = write!(
            script,
            "if header :matches [\"subject\", \"list-id\"] \"*<*{n}?.*.example.org>*\" {{ fileinto \"A\"; }}"
        );
    }
    script.push_str("if body :text :regex \"(cheap|free) (pills|money)[!?]+\" { discard; }");
    script.push_str("if body :text :matches \"*unsubscribe here: ?*\" { discard; }");
    let outcome = run(Limits::default(), &script, &message);
    assert_eq!(outcome.error, None);
    assert!(outcome.steps < 200_000, "{}", outcome.steps);
}

/// A world that counts how often it is asked for a mailbox.
struct Asked(AtomicU64, AtomicBool);

impl Context for Asked {
    fn envelope_from(&self) -> &str {
        ""
    }
    fn envelope_to(&self) -> &str {
        ""
    }
    fn now(&self) -> Moment {
        Moment { unix_s: 0, zone_minutes: 0 }
    }
    fn mailbox_id_exists(&self, _id: &str) -> bool {
        if self.0.fetch_add(1, Ordering::Relaxed) == 100 {
            self.1.store(true, Ordering::Relaxed);
        }
        false
    }
    fn stop(&self) -> Option<&AtomicBool> {
        Some(&self.1)
    }
}

#[test]
fn a_run_ends_when_it_is_stopped() {
    let asked = Asked(AtomicU64::new(0), AtomicBool::new(false));
    let tests = vec!["mailboxidexists \"x\""; 1_000].join(",");
    let script = format!("require \"mailboxid\"; if anyof ({tests}) {{ discard; }}");
    let script = Script::compile(&script, &Capabilities::default()).unwrap();
    let outcome = script.run(MESSAGE.as_bytes(), &asked);
    assert_eq!(words(&outcome), ["implicit keep"]);
    assert_eq!(outcome.error.unwrap().message, "the run was stopped");
    assert_eq!(asked.0.load(Ordering::Relaxed), 101);
}

#[test]
fn a_pattern_with_question_marks_is_bounded() {
    let pattern = |count| format!("if header :matches \"subject\" \"*{}a*\" {{}}", "?".repeat(count));
    assert!(Script::compile(&pattern(60_000), &Capabilities::default()).is_ok());
    let said = Script::compile(&pattern(70_000), &Capabilities::default()).unwrap_err().to_string();
    assert!(said.contains("more than 65536 characters between two"), "{said}");
    // Without them it is found at once, and may be as long as a script.
    let literal = format!("if header :matches \"subject\" \"*{}*\" {{}}", "a".repeat(70_000));
    assert!(Script::compile(&literal, &Capabilities::default()).is_ok());
}
