//! Reports to local senders whose mail is not simply filed into INBOX. They are delivered like
//! other mail for the address, with the null sender.

use posthaste_directory::{AccountChange, Forward};

use super::*;

/// A message of this sender is refused by the next host. The later outcome at `+here`.
async fn refused(world: &mut World, from: &str) -> Vec<Event> {
    world.accept(from, &["no@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
    world.run_at(START, 4).await.split_off(2)
}

fn assert_is_report(seen: &[Event], recipient: &str) {
    let [Event::Tried(tried), Event::Got(to, recipients, text)] = seen else { panic!("{seen:?}") };
    assert_eq!(
        (tried.as_str(), to.as_str(), recipients.as_slice()),
        ("+here", "+here", &[recipient.to_owned()][..])
    );
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.starts_with("Received: by mail.example.org") && text.contains("Action: failed\r\n"),
        "{text}"
    );
}

async fn forward(world: &World) {
    let forward = Forward { to: vec!["ana@far.test".into()], keep: false };
    world.relay.delivery().directory().set_forward("ana@example.org", Some(forward)).await.unwrap();
}

#[tokio::test]
async fn a_report_to_an_account_that_forwards_is_forwarded() {
    let mut world = World::new().await;
    forward(&world).await;
    let seen = refused(&mut world, "ana@example.org").await;
    assert_is_report(&seen, "ana@example.org");
    assert!(world.inbox().await.is_empty() && world.items().await.is_empty());
}

#[tokio::test]
async fn a_report_to_an_account_with_a_script_goes_through_it() {
    let mut world = World::new().await;
    let directory = Arc::clone(world.relay.delivery().directory());
    let ana = directory.resolve("ana@example.org").await.unwrap().account;
    directory.scripts().put(&ana, "main", "keep;").await.unwrap();
    directory.scripts().activate(&ana, Some("main")).await.unwrap();
    let seen = refused(&mut world, "ana+lists@example.org").await;
    assert_is_report(&seen, "ana+lists@example.org");
    assert!(world.inbox().await.is_empty() && world.items().await.is_empty());
}

#[tokio::test]
async fn a_report_goes_through_scripts_of_the_administrator() {
    let mut world = World::new().await;
    world.relay.set_scripts_run(ScriptsRun::ForAll);
    let seen = refused(&mut world, "ana@example.org").await;
    assert_is_report(&seen, "ana@example.org");
    world.relay.set_scripts_run(ScriptsRun::ForOwners);
    world.accept("ana@example.org", &["no@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
    world.run_at(START, 2).await;
    assert_eq!(world.inbox().await.len(), 1);
}

#[tokio::test]
async fn a_report_to_a_group_comes_to_the_group() {
    let mut world = World::new().await;
    let directory = world.relay.delivery().directory();
    directory.groups().set("team@example.org", &["ana@example.org".into()], None).await.unwrap();
    let seen = refused(&mut world, "team@example.org").await;
    assert_is_report(&seen, "team@example.org");
}

/// Its host need not know SMTPUTF8.
#[tokio::test]
async fn a_report_that_returns_text_of_eight_bits_is_no_international_mail() {
    let mut world = World::new().await;
    let envelope = Envelope { ret: Some(Return::Full), ..Envelope::new("bo@y.test", &["no@x.test"]) };
    let text = Bytes::from_static(b"Subject: gr\xfcn\r\n\r\nGr\xfc\xdfe\r\n");
    world.relay.accept(text, envelope, Origin::Server).await.unwrap();
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
    world.script("y.test", [Script::Unreachable(busy())]);
    world.run_at(START, 3).await;
    let [report] = world.items().await.try_into().unwrap();
    assert_eq!((report.recipients[0].address.as_str(), report.smtputf8), ("bo@y.test", false));
}

/// RFC 5321 §4.5.5: nobody hears of a report that cannot be delivered, nor that it is late.
#[tokio::test]
async fn there_is_no_report_about_a_report() {
    let mut world = World::new().await;
    forward(&world).await;
    world.script("+here", [Script::Answers(vec![Err(no_such_user())])]);
    refused(&mut world, "ana@example.org").await;
    assert!(world.items().await.is_empty());
    world.script("+here", [Script::Answers(vec![Err(busy())])]);
    refused(&mut world, "ana@example.org").await;
    let [report] = world.items().await.try_into().unwrap();
    assert_eq!((report.from.as_str(), report.destination.as_str()), ("", "+here"));
    for at in [5 * HOUR, 6 * DAY] {
        world.script("+here", [Script::Answers(vec![Err(busy())])]);
        assert_eq!(world.run_at(START + at, 2).await.len(), 2);
    }
    assert!(world.items().await.is_empty() && world.inbox().await.is_empty());
}

/// A report of a success, and one of the kinds that this server sends about other things.
#[tokio::test]
async fn other_reports_come_the_same_way() {
    let mut world = World::new().await;
    forward(&world).await;
    let to = vec![To { notify: Notify::parse("SUCCESS"), ..To::new("bo@example.org") }];
    let envelope = Envelope { to, ..Envelope::new("ana@example.org", &[]) };
    world.relay.report_success(&Bytes::from_static(MESSAGE), &envelope, Success::Delivered).await.unwrap();
    let text = Bytes::from_static(b"Subject: counts\r\n\r\n1\r\n");
    world.relay.notify("ana@example.org", text, TlsRequirement::Policy).await.unwrap();
    assert!(world.inbox().await.is_empty());
    let items = world.items().await;
    assert!(items.len() == 2 && items.iter().all(|item| item.from.is_empty() && item.destination == "+here"));
    assert_eq!(world.run_at(START, 3).await.len(), 3);
}

/// An account without room gets the report later, as it gets other mail.
#[tokio::test]
async fn a_report_waits_for_room() {
    let mut world = World::new().await;
    let change = AccountChange { quota_bytes: Some(Some(1)), ..AccountChange::default() };
    world.relay.delivery().directory().set("ana@example.org", change).await.unwrap();
    let seen = refused(&mut world, "ana@example.org").await;
    let [Event::Tried(_), Event::Got(to, ..)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(to, "+here");
    assert!(world.inbox().await.is_empty());
}
