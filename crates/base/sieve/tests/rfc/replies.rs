//! RFC 5230, RFC 6131, RFC 5435, RFC 5436, RFC 8580.

use posthaste_sieve::Effect;

use crate::world::{MESSAGE, World, check, words};

#[test]
fn a_reply_with_everything() {
    let script = "require [\"vacation\", \"fcc\", \"imap4flags\", \"mailbox\"]; addflag \"x\"; vacation :days 3 :subject \"Away\" :from \"ken@example.com\" :fcc \"Sent\" :create \"Back soon\";";
    let outcome = World::default().run(script, MESSAGE);
    let Effect::Vacation(reply) = &outcome.effects[0] else { panic!("{outcome}") };
    assert_eq!(
        (reply.to.as_str(), reply.subject.as_str(), reply.reason.as_str()),
        ("ana@example.org", "Away", "Back soon")
    );
    assert_eq!((reply.seconds, reply.in_reply_to.as_deref()), (Some(3 * 86_400), Some("<1@x>")));
    let copy = reply.fcc.as_ref().unwrap();
    assert_eq!((copy.mailbox.as_str(), copy.create, copy.flags.len()), ("Sent", true, 0));
    assert_eq!(words(&outcome)[1], "implicit keep x");
    // RFC 5230 §5.2.
    let outcome = World::default().run("require \"vacation\"; vacation \"x\";", MESSAGE);
    assert_eq!(words(&outcome)[0], "vacation ana@example.org Auto: Grüße from Ana");
}

#[test]
fn seconds_and_keys() {
    let key = |script: &str| match &World::default()
        .run(&format!("require [\"vacation\", \"vacation-seconds\"]; {script}"), MESSAGE)
        .effects[0]
    {
        Effect::Vacation(reply) => (reply.key.clone(), reply.seconds),
        other => panic!("{other:?}"),
    };
    assert_eq!(key("vacation :seconds 1800 :handle \"h\" \"x\";"), ("handle:h".into(), Some(1800)));
    assert_eq!(key("vacation \"x\";"), key("vacation \"x\";"));
    assert_ne!(key("vacation \"x\";"), key("vacation :subject \"x\" \"x\";"));
    assert_ne!(key("vacation \"x\";"), key("vacation :mime \"x\";"));
    assert_eq!(key("vacation :days 0 \"x\";").1, Some(86_400));
    assert_eq!(key("vacation :days 100000 \"x\";").1, Some(90 * 86_400));
}

#[test]
fn no_reply_is_sent_to_programs_and_lists() {
    let script = "require \"vacation\"; vacation \"x\";";
    let silent = |world: World, message: &str| {
        let outcome = world.run(script, message);
        assert_eq!(outcome.error, None);
        words(&outcome) == ["implicit keep"] && outcome.notes.len() == 1
    };
    assert!(!silent(World::default(), MESSAGE));
    for from in
        ["", "MAILER-DAEMON@x", "owner-list@x", "list-request@x", "ken@example.com", "ken+sieve@example.com"]
    {
        assert!(silent(World { from: from.into(), ..World::default() }, MESSAGE), "{from}");
    }
    for field in ["Auto-Submitted: auto-replied (x)", "List-Id: <x>", "Precedence: Bulk"] {
        assert!(silent(World::default(), &format!("{field}\r\n{MESSAGE}")), "{field}");
    }
    assert!(!silent(World::default(), &format!("Auto-Submitted: no\r\n{MESSAGE}")));
    // RFC 5230 §4.5: the account must be named.
    let other = "To: someone@example.com\r\n\r\n";
    assert!(silent(World::default(), other));
    let named = World::default()
        .run("require \"vacation\"; vacation :addresses \"Someone@example.com\" \"x\";", other);
    assert_eq!(named.notes.len(), 0);
    assert!(silent(World { answered: true, ..World::default() }, MESSAGE));
    let outcome = World::default().run("require \"vacation\"; vacation \"x\"; vacation \"y\";", MESSAGE);
    assert!(outcome.error.unwrap().message.contains("once"));
}

#[test]
fn notifications() {
    let script = "require [\"enotify\", \"variables\"]; set \"to\" \"bo\"; notify :importance \"1\" :message \"New mail\" \"mailto:${to}@example.net?subject=Hi\";";
    let outcome = World::default().run(script, MESSAGE);
    let Effect::Notify(made) = &outcome.effects[0] else { panic!("{outcome}") };
    assert_eq!((made.importance, made.message.as_deref()), (1, Some("New mail")));
    assert_eq!((made.mailto.to.join(","), made.mailto.fields.len()), ("bo@example.net".into(), 1));
    assert_eq!(words(&outcome)[1], "implicit keep");
    // RFC 5436 §2.7.1.
    let automatic = format!("Auto-Submitted: auto-notified; owner-email=\"a@b\"\r\n{MESSAGE}");
    assert_eq!(words(&World::default().run(script, &automatic)), ["implicit keep"]);
    check(
        "\"enotify\"",
        &[
            ("valid_notify_method \"mailto:a@b.c\"", true),
            ("valid_notify_method [\"mailto:a@b.c\", \"xmpp:a\"]", false),
            ("notify_method_capability \"mailto:a@b.c\" \"Online\" \"maybe\"", true),
            ("notify_method_capability \"mailto:a@b.c\" \"x\" \"maybe\"", false),
        ],
    );
}
