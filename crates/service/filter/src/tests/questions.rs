//! The questions of a run about mailboxes.

use posthaste_sieve::Context as _;

use super::*;
use crate::chain::Chain;
use crate::compiled::Scripts;
use crate::mail::{Mail, Trigger};

#[tokio::test]
async fn ids_are_made_once_for_a_run() {
    let world = World::new().await;
    let delivery = world.filter.delivery();
    let recipient = delivery.resolve(ANA).await.unwrap();
    let list = delivery.mailboxes(&recipient.account).await.unwrap();
    let inbox = list.find(&MailboxName::inbox()).unwrap().id.to_string();
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
    let run = world.filter.world(&recipient, Arc::new(Scripts::none()), &list, mail);
    assert!(run.known.get().is_none(), "most scripts ask for no id");
    assert!(run.mailbox_id_exists(&inbox) && !run.mailbox_id_exists("x"));
    let made: *const _ = run.known.get().unwrap();
    assert!(!run.mailbox_id_exists(""));
    assert!(!run.special_use_exists(None, "\\Flagged"));
    assert!(std::ptr::eq(made, run.known.get().unwrap()));
}
