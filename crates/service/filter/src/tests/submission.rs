//! What the scripts of mailboxes send: as much as their users may submit.

use std::net::{IpAddr, Ipv4Addr};

use posthaste_mail_model::{FlagSet, NumSet, Uid};
use posthaste_net::AccountLimit;

use super::*;
use crate::{Cause, Event};

const BO: &str = "bo@example.org";
/// In another domain of this server.
const BOSS: &str = "boss@b.example";

impl World {
    async fn with_others() -> Self {
        let world = Self::new().await;
        for name in [BO, BOSS] {
            world.add(name).await;
        }
        world
    }

    /// Has a user add messages to the INBOX of ana by one command. Its script is the active one.
    async fn add_all(&self, user: &str, messages: &[&str]) {
        let delivery = self.filter.delivery();
        let owner = delivery.resolve(ANA).await.unwrap().account;
        let mailbox = delivery.mailboxes(&owner).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
        let script = [("/shared/imapsieve/script", Some(Bytes::from_static(b"main")))];
        self.directory.metadata().set(owner.id, Annotated::Mailbox(mailbox), &script).await.unwrap();
        let before = self.inbox().await;
        for message in messages {
            let text = Bytes::from((*message).to_owned());
            let incoming = delivery.incoming(text, Vec::new(), None).await.unwrap();
            delivery.append(&owner, &delivery.store().destination(mailbox), vec![incoming]).await.unwrap();
        }
        let uids = NumSet::range(before + 1, self.inbox().await);
        self.command(user, Cause::Append, &uids).await;
    }

    /// Runs the script of the INBOX of ana because of a user's command on these messages.
    async fn command(&self, user: &str, cause: Cause, uids: &NumSet) {
        let delivery = self.filter.delivery();
        let owner = delivery.resolve(ANA).await.unwrap().account;
        let user = delivery.resolve(user).await.unwrap().account;
        let mailbox = delivery.mailboxes(&owner).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
        self.filter.on_event(Event { owner: &owner, user: &user, mailbox, cause, uids, flags: &[] }).await;
    }

    /// Whether the newest message in the INBOX of ana is marked as deleted.
    async fn is_marked(&self) -> bool {
        let delivery = self.filter.delivery();
        let ana = delivery.resolve(ANA).await.unwrap().account;
        let inbox = delivery.mailboxes(&ana).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
        let view = delivery.store().open(inbox).await.unwrap().current().await.unwrap();
        let (_, row) = view.row_of_uid(Uid::new(view.exists()).unwrap()).unwrap();
        row.flags().contains(FlagSet::DELETED)
    }

    async fn copy_to_bo(&self) {
        self.use_script("require [\"imapsieve\", \"copy\"]; redirect :copy \"bo@example.org\";").await;
    }
}

fn message(author: &str) -> String {
    format!("From: {author}\r\nSubject: hi\r\n\r\nwords\r\n")
}

/// RFC 6785 §3.4, RFC 6409 §6.1: she may have written each field. What is refused stays as it is.
#[tokio::test]
async fn the_script_of_a_mailbox_names_no_author_whom_its_user_may_not_name() {
    let world = World::with_others().await;
    world.directory.groups().set("all@example.org", &["y@c.test".to_owned()], None).await.unwrap();
    for (fields, here, elsewhere) in [
        ("From: ana@example.org", true, true),
        ("From: Ana <ana+notes@example.org>\r\nSender: ana@example.org", true, true),
        ("Subject: without an author", true, true),
        ("From: boss@b.example", false, false),
        ("From: nobody@b.example", false, false),
        ("From: ana@example.org, boss@b.example", false, false),
        ("From: ana@example.org\r\nSender: boss@b.example", false, false),
        ("From: far@d.test\r\nResent-From: boss@b.example", false, false),
        ("From: =?utf-8?q?Boss <boss@b.example>, x?= <far@d.test>", false, false),
        ("From: =?utf-8?q?boss@b.example x?= far@d.test", false, false),
        ("From\x0b: boss@b.example", false, false),
        ("Subject: a\rFrom: boss@b.example", false, false),
        // Another host verifies it. A mailbox here would get it unverified.
        ("From: far@d.test", false, true),
        ("From: far@d.test\r\nSender: list@e.test", false, true),
    ] {
        for (to, is_sent) in [(BO, here), ("all@example.org", here), ("x@c.test", elsewhere)] {
            let before = world.count(BO, "INBOX").await;
            world.use_script(&format!("require \"imapsieve\"; redirect \"{to}\";")).await;
            let text = format!("{fields}\r\n\r\nwords\r\n");
            world.add_all(ANA, &[text.as_str()]).await;
            let arrived = world.count(BO, "INBOX").await - before;
            let sent = (arrived as usize + world.left_to().await.len(), world.is_marked().await);
            assert_eq!(sent, (usize::from(is_sent), is_sent), "{fields:?} to {to}");
        }
    }
}

/// Another user may have written the message in the owner's name.
#[tokio::test]
async fn the_author_of_what_a_script_of_a_mailbox_sends_is_the_user_of_the_command() {
    let world = World::with_others().await;
    world.copy_to_bo().await;
    for (user, author, sent) in [(BOSS, ANA, 0), (ANA, BOSS, 0), (BOSS, BOSS, 1), (ANA, ANA, 1)] {
        let before = world.count(BO, "INBOX").await;
        world.add_all(user, &[message(author).as_str()]).await;
        assert_eq!(world.count(BO, "INBOX").await - before, sent, "{user}: {author}");
    }
}

/// The owner wrote it in the name of a user of another domain, and waited until that user read it.
#[tokio::test]
async fn who_changes_flags_in_a_mailbox_of_others_is_no_author_of_its_mail() {
    let world = World::with_others().await;
    world.copy_to_bo().await;
    for (user, author, sent) in [(BOSS, BOSS, 0), (BOSS, ANA, 0), (ANA, BOSS, 0), (ANA, ANA, 1)] {
        world.add_all(ANA, &[message(author).as_str()]).await;
        let newest = world.inbox().await;
        let before = world.count(BO, "INBOX").await;
        world.command(user, Cause::Flag, &NumSet::range(newest, newest)).await;
        assert_eq!(world.count(BO, "INBOX").await - before, sent, "{user}: {author}");
    }
    // Nobody here is named to others.
    world.use_script("require [\"imapsieve\", \"copy\"]; redirect :copy \"x@c.test\";").await;
    world.add_all(ANA, &["From: far@d.test\r\n\r\nwords\r\n"]).await;
    let newest = world.inbox().await;
    world.command(BOSS, Cause::Flag, &NumSet::range(newest, newest)).await;
    assert_eq!(world.left_to().await, ["x@c.test", "x@c.test"]);
}

#[tokio::test]
async fn what_the_script_of_a_mailbox_sends_counts_as_submitted_by_its_user() {
    let world = World::with_others().await;
    let accounts = Accounts::new(AccountLimits { messages_per_hour: 2, ..AccountLimits::default() });
    let world = World { filter: world.filter.with_accounts(accounts.clone()), ..world };
    world.copy_to_bo().await;
    let (of_ana, of_boss) = (message(ANA), message(BOSS));
    // A refused one does not count.
    world.add_all(ANA, &[of_boss.as_str(), &of_ana, &of_ana, &of_ana]).await;
    assert_eq!((world.count(BO, "INBOX").await, world.inbox().await), (2, 4));
    let ana = world.directory.account(ANA).await.unwrap().unwrap();
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let refused = accounts.admit(ana.limited(), peer).unwrap().submit(1, peer).unwrap_err();
    assert_eq!(refused.limit, AccountLimit::MessagesPerHour);
    world.add_all(BOSS, &[of_boss.as_str()]).await;
    assert_eq!(world.count(BO, "INBOX").await, 3);
    world.use_script("require [\"imapsieve\", \"enotify\"]; notify \"mailto:x@c.test\";").await;
    world.add_all(BOSS, &[of_boss.as_str(); 2]).await;
    assert_eq!(world.left_to().await, ["x@c.test"]);
    // Mail of others that is sent on has limits of its own.
    world.use_script("redirect \"y@c.test\";").await;
    world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    assert_eq!(world.left_to().await, ["y@c.test"]);
}

/// Each run for one of a thousand messages had a count of its own.
#[tokio::test]
async fn all_runs_of_a_mailbox_script_for_one_command_send_only_so_much() {
    let world = World::new().await;
    let script: String = (0..8).map(|n| format!("redirect \"x{n}@c.test\";")).collect();
    world.use_script(&script).await;
    world.add_all(ANA, &[message(ANA).as_str(); 13]).await;
    assert_eq!((world.queued().await.len(), world.inbox().await), (100, 13));
}
