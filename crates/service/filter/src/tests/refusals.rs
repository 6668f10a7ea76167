//! The memory of what scripts want: refusals, and other long outcomes.

use super::*;
use crate::script_refusal::ALL_REASONS_LEN_MAX;

/// They are held until the scripts of all accounts have run.
#[tokio::test]
async fn the_reasons_of_all_accounts_together_are_bounded() {
    let world = World::new().await;
    let script = format!("require \"reject\"; reject \"{}\";", "x".repeat(60_000));
    let names: Vec<String> = (0..20).map(|n| format!("user{n}@example.org")).collect();
    for name in &names {
        world.add(name).await;
        let account = world.directory.account(name).await.unwrap().unwrap();
        world.directory.scripts().put(&account, "main", &script).await.unwrap();
        world.directory.scripts().activate(&account, Some("main")).await.unwrap();
    }
    let to: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcomes = world.deliver_all("bo@b.test", RemoteClient::default(), &to).await;
    let reason_len = |outcome: &Delivered| match outcome {
        Err(Undelivered::Rejected(reason)) => reason.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(outcomes.iter().map(reason_len).sum::<usize>(), ALL_REASONS_LEN_MAX);
}

/// No budget counts an outcome while its mail is filed and sent.
#[tokio::test]
async fn an_account_has_few_long_outcomes_at_a_time() {
    let world = World::new().await;
    world.use_script(&format!("require \"reject\"; reject \"{}\";", "x".repeat(60_000))).await;
    let ana = world.filter.delivery().resolve(ANA).await.unwrap().account.id;
    let mut held = Vec::new();
    while let Some(permit) = world.filter.runs.hold(ana, 60_000).await {
        held.push(permit);
    }
    assert_eq!(held.len(), 4);
    assert!(world.filter.runs.hold(ana, 1_000).await.is_some(), "a short one needs no permit");
    let put_off = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(matches!(&put_off, Err(Undelivered::Delivery(error)) if error.is_temporary()), "{put_off:?}");
    drop(held);
    let refused = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(matches!(&refused, Err(Undelivered::Rejected(_))), "{refused:?}");
    assert_eq!(world.inbox().await, 0);
}
