//! Recipients here that a message has not reached, while others have it.

use super::*;

fn full() -> Failure {
    Failure::temporary("4.2.2", "452 4.2.2 The mailbox is full")
}

async fn take_over(world: &World, from: &str, missed: &[(&str, Failure)]) -> Vec<Item> {
    let missed =
        missed.iter().map(|(to, failure)| Missed { to: To::new(to), failure: failure.clone() }).collect();
    let envelope = Envelope::new(from, &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed, Local::Inbox).await.unwrap()
}

#[tokio::test]
async fn deferred_recipients_get_it_later_and_the_sender_a_report_of_the_others() {
    let mut world = World::new().await;
    let missed = [("bo@example.org", full()), ("no@example.org", no_such_user()), ("cy@example.org", full())];
    let items = take_over(&world, "ana@example.org", &missed).await;
    assert_eq!((items.len(), items[0].destination.as_str()), (1, "+here"));
    assert_eq!(items[0].reason, "452 4.2.2 The mailbox is full");
    let before = world.inbox().await.len();
    world.script("+here", [Script::Answers(vec![Err(full()), Ok(())])]);
    let seen = world.run_at(START, 2).await;
    assert_eq!(seen, [tried("+here"), got("+here", &["bo@example.org", "cy@example.org"])]);
    let reports = world.inbox().await;
    assert_eq!(reports.len(), before + 1);
    assert!(reports[0].contains("Final-Recipient: rfc822; no@example.org\r\nAction: failed\r\n"));
    assert!(
        !reports[0].contains("cy@example.org\r\nAction") && !reports[0].contains("bo@example.org\r\nAction")
    );
    let seen = world.run_at(START + HOUR, 2).await;
    assert_eq!(seen, [tried("+here"), got("+here", &["bo@example.org"])]);
    assert!(world.items().await.is_empty());
    assert_eq!(world.inbox().await.len(), before + 1);
}

#[tokio::test]
async fn permanent_failures_are_only_reported() {
    let mut world = World::new().await;
    take_over(&world, "ana@example.org", &[("no@example.org", no_such_user())]).await;
    assert_eq!(world.run_at(START, 1).await, [tried("+here")]);
    assert_eq!(world.inbox().await.len(), 1);
    // RFC 5321 §4.5.5.
    let none = take_over(&world, "", &[("no@example.org", no_such_user())]).await;
    assert!(none.is_empty() && world.items().await.is_empty());
    let later =
        take_over(&world, "", &[("no@example.org", no_such_user()), ("bo@example.org", full())]).await;
    assert_eq!(later[0].recipients.len(), 1);
}

/// Mail for a postmaster may go to an account that the sender does not know.
#[tokio::test]
async fn a_report_names_whom_the_sender_wrote_to() {
    let mut world = World::new().await;
    let to = To { named: Some("postmaster@example.org".to_owned()), ..To::new("no@example.org") };
    let missed = vec![Missed { to, failure: no_such_user() }];
    let envelope = Envelope::new("ana@example.org", &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed, Local::Inbox).await.unwrap();
    assert_eq!(world.run_at(START, 1).await, [tried("+here")]);
    let report = world.inbox().await.remove(0);
    assert!(report.contains("Final-Recipient: rfc822; postmaster@example.org\r\n"), "{report}");
    assert!(!report.contains("no@example.org"), "{report}");
}

/// RFC 3461 §4.1, §5.2.3.
#[tokio::test]
async fn reports_are_those_that_the_sender_wants() {
    let mut world = World::new().await;
    let to = |address: &str, notify: &str| To { notify: Notify::parse(notify), ..To::new(address) };
    let missed = vec![
        Missed { to: to("no@example.org", "NEVER"), failure: no_such_user() },
        Missed { to: to("bo@example.org", "SUCCESS"), failure: full() },
    ];
    let envelope = Envelope::new("ana@example.org", &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed, Local::Inbox).await.unwrap();
    assert_eq!(world.run_at(START, 2).await, [tried("+here"), got("+here", &["bo@example.org"])]);
    let reports = world.inbox().await;
    assert!(
        reports.len() == 1 && reports[0].contains("bo@example.org\r\nAction: delivered\r\nStatus: 2.1.5")
    );
}

/// RFC 3461 §5.2.7: what a script refuses is no success.
#[tokio::test]
async fn no_success_is_reported_of_what_a_script_refused() {
    let mut world = World::new().await;
    let to = |address: &str| To { notify: Notify::parse("SUCCESS"), ..To::new(address) };
    let missed = ["bo@example.org", "cy@example.org"].map(|one| Missed { to: to(one), failure: full() });
    let envelope = Envelope::new("ana@example.org", &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed.into(), Local::Inbox).await.unwrap();
    world.script("+here", [Script::Takes(vec![None, Some(Success::Delivered)])]);
    world.run_at(START, 2).await;
    let reports = world.inbox().await;
    assert!(reports.len() == 1 && world.items().await.is_empty());
    assert!(reports[0].contains("cy@example.org\r\nAction: ") && !reports[0].contains("bo@example.org"));
}

/// RFC 3461 §5.2.7: of a group, and of an account whose mail is forwarded.
#[tokio::test]
async fn mail_redirected_later_is_not_reported_as_delivered() {
    let mut world = World::new().await;
    let to = |address: &str| To { notify: Notify::parse("SUCCESS"), ..To::new(address) };
    let all = ["bo@example.org", "cy@example.org", "di@example.org"];
    let missed = all.map(|one| Missed { to: to(one), failure: full() });
    let envelope = Envelope::new("ana@example.org", &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed.into(), Local::Inbox).await.unwrap();
    world.script("+here", [Script::Takes(Success::ALL.map(Some).to_vec())]);
    world.run_at(START, 2).await;
    let reports = world.inbox().await;
    assert_eq!(reports.len(), 3);
    for (address, action) in all.into_iter().zip(["delivered", "relayed", "expanded"]) {
        let wanted = format!("rfc822; {address}\r\nAction: {action}\r\n");
        assert_eq!(reports.iter().filter(|report| report.contains(&wanted)).count(), 1, "{reports:?}");
    }
}

/// The sender of junk is perhaps not who sent it.
#[tokio::test]
async fn the_sender_of_junk_gets_no_report() {
    let mut world = World::new().await;
    let to = |address: &str, notify: &str| To { notify: Notify::parse(notify), ..To::new(address) };
    let missed = || {
        let (bo, cy) = (to("bo@example.org", "SUCCESS"), to("cy@example.org", "FAILURE,DELAY"));
        vec![Missed { to: bo, failure: full() }, Missed { to: cy, failure: full() }]
    };
    let envelope = Envelope::new("ana@example.org", &[]);
    world.relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed(), Local::Junk).await.unwrap();
    for at in [0, 5 * HOUR, 5 * DAY] {
        world.script("+junk", [Script::Answers(vec![Err(full()); 2])]);
        assert_eq!(world.run_at(START + at, 2).await.len(), 2);
    }
    assert!(world.inbox().await.is_empty() && world.items().await.is_empty());
}

/// Hosts that say nothing have all slots: mail for mailboxes here needs none.
#[tokio::test(start_paused = true)]
async fn silent_hosts_keep_no_mail_for_mailboxes_here_waiting() {
    let mut world = World::new().await;
    for n in 0..80 {
        let host = format!("silent{n}.test");
        world.script(&host, [Script::Silent]);
        world.accept("ana@example.org", &[&format!("a@{host}")]).await;
    }
    world.start();
    for _ in 0..64 {
        assert!(matches!(world.events.recv().await, Some(Event::Tried(_))));
    }
    take_over(&world, "ana@example.org", &[("bo@example.org", full())]).await;
    let sent = async { while world.events.recv().await != Some(got("+here", &["bo@example.org"])) {} };
    tokio::time::timeout(Duration::from_secs(9), sent).await.expect("sent before any slot is free");
}
