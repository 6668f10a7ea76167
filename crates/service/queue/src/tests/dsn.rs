//! The reports that senders ask for (RFC 3461).

use posthaste_directory::AccountChange;

use super::*;

/// A message to recipients of `x.test`, each with its NOTIFY.
async fn accept(world: &World, to: &[(&str, &str)]) {
    let recipient =
        |(address, notify): &(&str, &str)| To { notify: Notify::parse(notify), ..To::new(address) };
    let envelope = Envelope {
        to: to.iter().map(recipient).collect(),
        ret: Some(Return::Headers),
        envid: EnvelopeId::parse("id+2B1"),
        ..Envelope::new("ana@example.org", &[])
    };
    world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
}

/// The recipients that the only report in ana's INBOX is about, and its action.
async fn only_report(world: &World) -> Vec<String> {
    let inbox = world.inbox().await;
    let [report] = &inbox[..] else { panic!("{inbox:#?}") };
    assert!(report.contains("\r\nOriginal-Envelope-Id: id+1\r\n"), "{report}");
    let is_ours = |line: &&str| line.starts_with("Final-Recipient: ") || line.starts_with("Action: ");
    report.lines().filter(is_ours).map(|line| line.split(' ').next_back().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn success_is_reported_for_a_host_that_reports_nothing() {
    let mut world = World::new().await;
    accept(
        &world,
        &[("a@x.test", "SUCCESS"), ("b@x.test", "FAILURE"), ("c@x.test", ""), ("d@x.test", "NEVER")],
    )
    .await;
    world.run_at(START, 2).await;
    assert_eq!(only_report(&world).await, ["a@x.test", "relayed"]);
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn a_host_that_knows_dsn_reports_success_itself() {
    let mut world = World::new().await;
    world.hosts.report.store(true, Ordering::SeqCst);
    accept(&world, &[("a@x.test", "SUCCESS,FAILURE")]).await;
    world.run_at(START, 2).await;
    assert!(world.inbox().await.is_empty() && world.items().await.is_empty());
}

#[tokio::test]
async fn failures_are_reported_to_those_who_want_them() {
    let mut world = World::new().await;
    accept(
        &world,
        &[("a@x.test", "NEVER"), ("b@x.test", "SUCCESS"), ("c@x.test", "FAILURE"), ("d@x.test", "")],
    )
    .await;
    world.script("x.test", [Script::Answers(vec![Err(no_such_user()); 4])]);
    world.run_at(START, 2).await;
    assert_eq!(only_report(&world).await, ["c@x.test", "failed", "d@x.test", "failed"]);
    assert!(world.items().await.is_empty());
}

/// The message counts as done: else it would be sent again and again. The report waits.
#[tokio::test]
async fn a_report_that_finds_the_folder_full_waits() {
    let mut world = World::with_folders_of(Some(1)).await;
    for events in [2, 4] {
        accept(&world, &[("a@x.test", "FAILURE")]).await;
        world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
        world.script("+here", [Script::Answers(vec![Err(busy())])]);
        world.run_at(START, events).await;
    }
    assert_eq!(only_report(&world).await, ["a@x.test", "failed"]);
    let [report] = world.items().await.try_into().unwrap();
    assert_eq!((report.from.as_str(), report.recipients[0].address.as_str()), ("", "ana@example.org"));
}

/// The owner's limit counts, not the server's.
#[tokio::test]
async fn a_report_keeps_to_the_owners_limit_of_messages() {
    let mut world = World::with_folders_of(Some(1)).await;
    let own = AccountChange { folder_max: Some(Some(2)), ..AccountChange::default() };
    world.relay.delivery().directory().set("ana@example.org", own).await.unwrap();
    for _ in 0..2 {
        accept(&world, &[("a@x.test", "FAILURE")]).await;
        world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
        world.run_at(START, 2).await;
    }
    assert_eq!(world.inbox().await.len(), 2);
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn delays_are_reported_to_those_who_want_them() {
    let mut world = World::new().await;
    accept(&world, &[("a@x.test", "FAILURE"), ("b@x.test", "DELAY")]).await;
    world.script("x.test", [Script::Unreachable(busy())]);
    world.run_at(START + 5 * HOUR, 1).await;
    assert_eq!(only_report(&world).await, ["b@x.test", "delayed"]);
    // No report of failure was requested for the second one.
    world.script("x.test", [Script::Unreachable(busy())]);
    world.run_at(START + 5 * DAY, 1).await;
    assert_eq!(world.inbox().await.len(), 2);
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn a_delivery_here_is_reported_once_for_all_who_asked() {
    let world = World::new().await;
    let envelope = Envelope {
        to: vec![
            To { notify: Notify::parse("SUCCESS"), ..To::new("bo@example.org") },
            To::new("cy@example.org"),
        ],
        envid: EnvelopeId::parse("id+2B1"),
        ..Envelope::new("ana@example.org", &[])
    };
    world.relay.report_success(&Bytes::from_static(MESSAGE), &envelope, Success::Delivered).await.unwrap();
    assert_eq!(only_report(&world).await, ["bo@example.org", "delivered"]);
    // RFC 5321 §4.5.5.
    let unnamed = Envelope { from: String::new(), ..envelope.clone() };
    world.relay.report_success(&Bytes::from_static(MESSAGE), &unnamed, Success::Delivered).await.unwrap();
    assert_eq!(world.inbox().await.len(), 1);
    // RFC 3464 §2.3.3.
    for (success, action) in [(Success::SentOn, "relayed"), (Success::Expanded, "expanded")] {
        world.relay.report_success(&Bytes::from_static(MESSAGE), &envelope, success).await.unwrap();
        assert!(world.inbox().await.pop().unwrap().contains(&format!("\r\nAction: {action}\r\n")));
    }
}
