//! Accounts that are removed while mail for them arrives.

use posthaste_delivery::ErrorKind;
use posthaste_sieve::{Effect, Outcome, Target};

use super::*;
use crate::chain::Chain;
use crate::file::Filing;
use crate::mail::{Mail, Trigger};

const BEN: &str = "ben@example.org";

impl World {
    /// Removes ana's account, as `posthaste account remove` does.
    async fn remove_ana(&self) {
        let ana = self.directory.remove(ANA).await.unwrap();
        self.filter.delivery().store().remove_account(ana.id).await.unwrap();
    }
}

/// It was filed into a new INBOX, which nobody could open.
#[tokio::test]
async fn mail_for_a_removed_account_is_refused_and_others_have_it() {
    for script in [None, Some("keep;"), Some("discard;")] {
        let world = World::new().await;
        world.add(BEN).await;
        if let Some(script) = script {
            world.use_script(script).await;
        }
        let ana = world.directory.account(ANA).await.unwrap().unwrap();
        let targets = [world.filter.target(ANA).await.unwrap(), world.filter.target(BEN).await.unwrap()];
        world.remove_ana().await;
        let envelope = Envelope {
            from: "bo@b.test",
            refusals: Refusals::Each,
            is_quarantined: false,
            tls: TlsRequirement::Policy,
            needs: RequiredExtensions::default(),
            asked: &[],
            client: RemoteClient::default(),
            lease_end: None,
        };
        let message = Bytes::from_static(MESSAGE);
        let outcomes = world.filter.deliver_to(message, envelope, &targets).await;
        let is_removed = |outcome: &Delivered| match outcome {
            Err(Undelivered::Delivery(error)) => error.kind() == ErrorKind::NoMailbox,
            _ => false,
        };
        assert!(is_removed(&outcomes[0]) && outcomes[1].is_ok(), "{script:?}: {outcomes:?}");
        let list = world.filter.delivery().store().list(ana.id).await.unwrap();
        assert!(list.entries.is_empty(), "{script:?}");
    }
}

/// The script ran before the account was removed, and its folder was created after that.
#[tokio::test]
async fn no_folder_is_created_in_a_removed_account() {
    let world = World::new().await;
    let delivery = world.filter.delivery();
    let ana = world.directory.account(ANA).await.unwrap().unwrap();
    let list = delivery.mailboxes(&ana).await.unwrap();
    let message = delivery.incoming(Bytes::from_static(MESSAGE), Vec::new(), None).await.unwrap();
    let bytes = Bytes::from_static(MESSAGE);
    let mail = Mail {
        message: &message,
        served: &bytes,
        sent: &bytes,
        from: "bo@b.test",
        trigger: Trigger::Delivered,
        chain: Chain::of(TlsRequirement::Policy, RequiredExtensions::default()),
        asked: &[],
        client: RemoteClient::default(),
    };
    let target = Target { mailbox: "x".to_owned(), create: true, ..Target::default() };
    let effects = vec![Effect::FileInto { target, version: 0 }];
    let outcome = Outcome { effects, ..Outcome::default() };
    world.remove_ana().await;
    let filed = Filing::new(delivery, &ana, list, mail).file(&outcome).await;
    assert!(filed.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoMailbox), "{filed:?}");
    assert!(delivery.store().list(ana.id).await.unwrap().entries.is_empty());
}
