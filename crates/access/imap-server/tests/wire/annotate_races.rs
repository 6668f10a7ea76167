//! ANNOTATE-EXPERIMENT-1 where messages and mailboxes go away while their annotations are written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use posthaste_directory::{Before, Directory, Keeping, NewAccount, NewValue, OnConflict, Relocated, Scope};
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, NumSet};
use posthaste_store::Store;

use crate::harness::{Server, USER};
use crate::sharing::BO;

const ONE: (u32, u32) = (1, 1);

/// Moves the first message as another session does: the message, and then its annotations.
struct Mover {
    store: Store,
    directory: Arc<Directory>,
    owner: AccountId,
    from: MailboxId,
    to: MailboxId,
}

impl Mover {
    fn new(server: &Server, from: &str, to: &str) -> Arc<Self> {
        let (store, directory) = server.behind();
        let ((owner, from), (_, to)) = (server.mailbox(USER, from), server.mailbox(USER, to));
        Arc::new(Self { store, directory, owner, from, to })
    }

    async fn take_message(&self) {
        let mailbox = self.store.open(self.from).await.unwrap();
        let moved = mailbox.move_to(&NumSet::from_ranges([ONE]), &self.store.destination(self.to)).await;
        assert_eq!(moved.unwrap().copied.uids.to_string(), "1");
    }

    async fn take_annotations(&self) {
        let one = NumSet::from_ranges([ONE]);
        let Self { owner, from, to, .. } = *self;
        let relocated = Relocated { owner, from, to, old: &one, new: &one, scopes: Scope::ALL };
        self.directory.message_annotations().relocate(relocated, &one).await.unwrap();
    }
}

const FETCH: &str = "FETCH 1 (ANNOTATION (/comment value.priv))";

#[test]
fn a_value_that_comes_after_a_move_is_refused() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(2);
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1:2 ANNOTATION (/comment (value.priv \"old\"))\nS: a OK …");
    let mover = Mover::new(&server, "INBOX", "Archive");
    faulty.before_change("annotate/", async move {
        mover.take_message().await;
        mover.take_annotations().await;
    });
    client.run(&format!(
        r#"
        C: b STORE 1 ANNOTATION (/comment (value.priv "new"))
        S: b NO [EXPUNGEISSUED] …
        C: c NOOP
        S: * 1 EXPUNGE
        S: c OK …
        C: d EXAMINE Archive
        S~ d OK …
        C: e {FETCH}
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "old")))
        S: e OK …
        "#
    ));
    assert!(faulty.has_happened());
    // Nothing is left where the message was.
    assert_eq!(server.message_annotations(), 2);
}

/// The other session has taken the message, and has not looked for its values yet.
#[test]
fn a_value_that_comes_between_a_message_and_its_values_is_not_lost() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(2);
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1:2 ANNOTATION (/comment (value.priv \"old\"))\nS: a OK …");
    let mover = Mover::new(&server, "INBOX", "Archive");
    let later = Arc::clone(&mover);
    faulty.before_change("annotate/", async move { mover.take_message().await });
    client.run(
        r#"
        C: b UID STORE 1 ANNOTATION (/comment (value.priv "new"))
        S: * 1 EXPUNGE
        S: b NO [EXPUNGEISSUED] …
        "#,
    );
    // Changes of other messages leave it alone.
    client.run("C: c STORE 1 ANNOTATION (/comment (value.priv \"other\"))\nS: c OK …");
    server.wait(later.take_annotations());
    client.run(&format!(
        r#"
        C: d EXAMINE Archive
        S~ d OK …
        C: e {FETCH}
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "new")))
        S: e OK …
        "#
    ));
    assert!(faulty.has_happened());
    assert_eq!(server.message_annotations(), 2);
}

#[test]
fn a_value_of_a_message_that_is_expunged_meanwhile_leaves_nothing() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(1);
    let mut client = server.select("INBOX");
    let ((store, directory), (owner, inbox)) = (server.behind(), server.mailbox(USER, "INBOX"));
    faulty.before_change("annotate/", async move {
        let one = NumSet::from_ranges([ONE]);
        store.open(inbox).await.unwrap().remove(&one).await.unwrap();
        directory.message_annotations().forget(owner, inbox, &one).await.unwrap();
    });
    client.run(
        r#"
        C: a UID STORE 1 ANNOTATION (/comment (value.priv "new"))
        S: * 1 EXPUNGE
        S: a NO [EXPUNGEISSUED] …
        "#,
    );
    assert!(faulty.has_happened());
    assert_eq!(server.message_annotations(), 0);
}

/// A MOVE into another account reads the values before, as they must have room there.
#[test]
fn a_value_that_is_set_during_a_move_to_others_goes_along() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(1);
    server.add_account(BO, NewAccount::default());
    server.grant(BO, "INBOX", USER, "lrswipkxtecdan");
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1 ANNOTATION (/comment (value.priv \"old\"))\nS: a OK …");
    let ((store, directory), (owner, mailbox)) = (server.behind(), server.mailbox(USER, "INBOX"));
    faulty.before_scan("annotate/", async move {
        let value = Some(bytes::Bytes::from_static(b"new"));
        let value = NewValue { scope: Scope::Private, entry: "/comment".to_owned(), value };
        let before = Before::of_new_messages(Keeping { keeper: owner, owner, mailbox });
        let change =
            directory.message_annotations().set(&before, vec![(1, [value].into())], OnConflict::Follow);
        change.await.unwrap();
        let one = NumSet::from_ranges([ONE]);
        assert_eq!(store.open(mailbox).await.unwrap().touch(&one, None).await.unwrap().changed, one);
    });
    client.run(&format!(
        r#"
        C: b MOVE 1 "Other Users/bo@example.org/INBOX"
        S~ b OK …
        C: c EXAMINE "Other Users/bo@example.org/INBOX"
        S~ c OK …
        C: d {FETCH}
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "new")))
        S: d OK …
        "#
    ));
    assert!(faulty.has_happened());
    assert_eq!(server.message_annotations(), 1);
}

#[test]
fn a_new_message_that_is_removed_before_it_has_its_values_is_named() {
    let (server, faulty) = Server::start_faulty();
    let mut client = server.login();
    let ((store, _), (_, inbox)) = (server.behind(), server.mailbox(USER, "INBOX"));
    faulty.before_change("annotate/", async move {
        let removed = store.open(inbox).await.unwrap().remove(&NumSet::from_ranges([ONE])).await;
        assert_eq!(removed.unwrap().uids.to_string(), "1");
    });
    client.run(
        r#"
        C: a APPEND INBOX ANNOTATION (/comment (value.priv "x")) {3+}
        C: abc
        S: * NO The new messages lack annotations, which could not be written
        S: a OK [APPENDUID …] …
        "#,
    );
    assert!(faulty.has_happened());
}

/// Deletes a mailbox as another session does.
fn deletion(server: &Server, name: &'static str) -> impl Future<Output = ()> + Send + 'static {
    let ((store, directory), (owner, mailbox)) = (server.behind(), server.mailbox(USER, name));
    async move {
        store.delete(owner, &MailboxName::new(name).unwrap()).await.unwrap();
        directory.message_annotations().forget_mailbox(owner, mailbox).await.unwrap();
    }
}

#[test]
fn a_value_for_a_mailbox_that_is_deleted_meanwhile_leaves_nothing() {
    let (server, faulty) = Server::start_faulty();
    server.make_mailbox("P");
    server.put("P", b"Subject: one\r\n\r\n1\r\n");
    let mut client = server.select("P");
    faulty.before_change("annotate/", deletion(&server, "P"));
    client.run("C: a STORE 1 ANNOTATION (/comment (value.priv \"x\"))\nS~ a NO …");
    assert!(faulty.has_happened());
    assert_eq!(server.message_annotations(), 0);
}

#[test]
fn values_that_are_moved_to_a_mailbox_that_is_deleted_leave_nothing() {
    let (server, faulty) = Server::start_faulty();
    server.make_mailbox("P");
    server.with_messages(1);
    server.add_account(BO, NewAccount::default());
    server.grant(USER, "INBOX", BO, "lr");
    let mut bo = server.login_as(BO);
    bo.run(
        r#"
        C: a SELECT "Other Users/ana@example.org/INBOX"
        S~ a OK …
        C: b STORE 1 ANNOTATION (/comment (value.priv "bo's"))
        S: b OK …
        "#,
    );
    let mut client = server.select("INBOX");
    faulty.before_change("annotate/", deletion(&server, "P"));
    client.run(
        r#"
        C: a MOVE 1 P
        S: * NO The new messages lack annotations, which could not be written
        S: * OK [COPYUID …] …
        S: * 1 EXPUNGE
        S: a OK …
        "#,
    );
    assert!(faulty.has_happened());
    assert_eq!(server.message_annotations(), 0);
}
