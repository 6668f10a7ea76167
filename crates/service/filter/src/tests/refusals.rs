//! The memory of what scripts want: refusals, and other long outcomes.

use posthaste_mail_model::{AccountId, Id};

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

/// A script whose outcome is long.
fn long_script() -> String {
    format!("require \"reject\"; reject \"{}\";", "x".repeat(60_000))
}

fn is_put_off(outcome: &Delivered) -> bool {
    matches!(outcome, Err(Undelivered::Delivery(error)) if error.is_temporary())
}

/// Each is held while its mail is filed and sent.
#[tokio::test]
async fn an_account_has_few_long_outcomes_at_a_time() {
    let world = World::new().await;
    world.use_script(&long_script()).await;
    let delivery = world.filter.delivery();
    let ana = delivery.resolve(ANA).await.unwrap().account.id;
    let mut held = Vec::new();
    while let Some(permit) = world.filter.runs.hold(delivery, ana, 60_000) {
        held.push(permit);
    }
    assert_eq!(held.len(), 4);
    assert!(world.filter.runs.hold(delivery, ana, 1_000).is_some(), "a short one needs no permit");
    let put_off = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(is_put_off(&put_off), "{put_off:?}");
    drop(held);
    let refused = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(matches!(&refused, Err(Undelivered::Rejected(_))), "{refused:?}");
    assert_eq!(world.inbox().await, 0);
}

/// No budget counted them: they came on top of the worst case that the server states.
#[tokio::test]
async fn long_outcomes_count_for_the_memory_of_summaries() {
    const ALL: usize = 1 << 20;
    let (world, budget) = (World::new().await, ByteBudget::new(ALL));
    let delivery = world.filter.delivery().clone().with_finished(budget.clone());
    let world = World { filter: Filter::new(delivery, None, "mail.example.org"), ..world };
    world.use_script(&long_script()).await;
    let hold = |account: u8| {
        let account = AccountId(Id::from_bytes([account; 16]));
        world.filter.runs.hold(world.filter.delivery(), account, 240_000)
    };
    let mut held: Vec<_> = (1..=2).map(|account| hold(account).unwrap()).collect();
    assert_eq!(budget.available(), ALL - 480_000);
    // Half of the budget is for summaries. One outcome is held beside it.
    held.push(hold(3).unwrap());
    assert_eq!(budget.available(), ALL - 480_000);
    assert!(hold(4).is_none());
    let put_off = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(is_put_off(&put_off), "{put_off:?}");
    drop(held);
    assert_eq!(budget.available(), ALL);
    let refused = world.deliver_all("bo@b.test", RemoteClient::default(), &[ANA]).await.remove(0);
    assert!(matches!(&refused, Err(Undelivered::Rejected(_))), "{refused:?}");
    assert_eq!(budget.available(), ALL);
}
