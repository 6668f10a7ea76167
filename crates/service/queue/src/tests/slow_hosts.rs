//! Hosts that take connections and then answer late, or not at all. Mail to others is sent.

use super::*;

const ANA: &str = "ana@example.org";

impl World {
    /// Has a message wait that an account has submitted.
    async fn submit_by(&self, account: &str, to: &str) {
        let envelope = Envelope { account: Some(account.into()), ..Envelope::new(ANA, &[to]) };
        self.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
    }
}

/// Mail to hosts that answer like this, each by an account, and then mail of ana, which is sent.
async fn ana_sends_beside(
    mut world: World,
    script: Script,
    hosts: impl IntoIterator<Item = (String, String)>,
) {
    for (account, host) in hosts {
        world.script(&host, [script.clone()]);
        world.submit_by(&account, &format!("a@{host}")).await;
    }
    world.submit_by(ANA, "a@x.test").await;
    world.start();
    let sent = async { while world.events.recv().await != Some(got("x.test", &["a@x.test"])) {} };
    tokio::time::timeout(Duration::from_secs(180), sent).await.expect("sent while the others are slow");
}

/// Hosts for mail of one account, each of its own domain.
fn of_one_account(count: u32) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|n| ("eve@example.org".to_owned(), format!("slow{n}.test")))
}

/// Hosts below one registered domain, each for mail of its own account.
fn of_one_domain(count: u32) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|n| (format!("user{n}@example.org"), format!("h{n}.evil.test")))
}

#[tokio::test(start_paused = true)]
async fn slow_hosts_of_one_account_leave_slots_to_others() {
    for script in [Script::Stuck, Script::Mute] {
        ana_sends_beside(World::new().await, script, of_one_account(600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_hosts_of_one_registered_domain_leave_slots_to_others() {
    for script in [Script::Stuck, Script::Mute] {
        ana_sends_beside(World::new().await, script, of_one_domain(600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_hosts_of_several_accounts_leave_slots_to_others() {
    let hosts = (0..800).map(|n| (format!("eve{}@example.org", n % 4), format!("slow{n}.test")));
    ana_sends_beside(World::new().await, Script::Mute, hosts).await;
}

/// There is room for sixteen messages.
#[tokio::test(start_paused = true)]
async fn messages_to_slow_hosts_leave_memory_to_others() {
    let world = async || World { bodies_bytes: 16 << 10, ..World::new().await };
    ana_sends_beside(world().await, Script::Stuck, of_one_account(40)).await;
    ana_sends_beside(world().await, Script::Stuck, of_one_domain(40)).await;
}

/// An account whose part of the memory is used has a message for the same host.
#[tokio::test(start_paused = true)]
async fn a_message_without_memory_delays_no_mail_of_others_to_its_host() {
    let mut world = World { bodies_bytes: 16 << 10, ..World::new().await };
    for (account, host) in of_one_account(40) {
        world.script(&host, [Script::Stuck]);
        world.submit_by(&account, &format!("a@{host}")).await;
    }
    world.submit_by("eve@example.org", "b@x.test").await;
    world.start();
    while world.events.recv().await != Some(tried("x.test")) {}
    world.submit_by(ANA, "a@x.test").await;
    let sent = async { while world.events.recv().await != Some(got("x.test", &["a@x.test"])) {} };
    tokio::time::timeout(Duration::from_secs(180), sent).await.expect("sent while the other waits");
}

/// Those that wait for slots and memory of their account get them.
#[tokio::test(start_paused = true)]
async fn all_mail_to_hosts_that_answer_late_is_sent() {
    let mut world = World::new().await;
    world.bodies_bytes = 64 << 10;
    for (account, host) in of_one_account(600) {
        world.script(&host, [Script::Late]);
        world.submit_by(&account, &format!("a@{host}")).await;
    }
    world.start();
    let sent = async {
        let mut count = 0;
        while count < 600 {
            count += usize::from(matches!(world.events.recv().await, Some(Event::Got(..))));
        }
    };
    tokio::time::timeout(Duration::from_secs(6 * 3_600), sent).await.expect("sent at last");
    world.stop().await;
    assert!(world.items().await.is_empty());
}
