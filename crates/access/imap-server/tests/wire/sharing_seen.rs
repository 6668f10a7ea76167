//! `\Seen` in mailboxes of others: each user has their own (RFC 4314 §4).

use std::collections::BTreeSet;

use posthaste_directory::Reading;
use posthaste_mail_model::{MailboxName, NumSet};
use posthaste_testkit::Wire;

use crate::harness::{Server, USER, search};
use crate::sharing::{BO, SHARED, server, share};

/// A session of bo in the shared mailbox.
fn bo_in(server: &Server) -> Wire {
    let mut wire = server.login_as(BO);
    wire.run(&format!("C: s SELECT {SHARED}\nS~ s OK …"));
    wire
}

fn ana_in(server: &Server) -> Wire {
    server.select("P")
}

#[test]
fn seen_flags_of_one_user_do_not_affect_others() {
    let server = server("lrswi");
    let (mut ana, mut bo) = (ana_in(&server), bo_in(&server));
    ana.run("C: a STORE 1 +FLAGS (\\Seen)\nS: * 1 FETCH (UID 1 FLAGS (…\\Flagged \\Seen))\nS: a OK …");
    bo.run(
        r#"
        # The message has changed, and is as it was.
        C: a NOOP
        S: * 1 FETCH (UID 1 FLAGS (\Flagged))
        S: a OK …
        C: b FETCH 2 BODY[TEXT]
        S: * 2 FETCH (FLAGS (\Seen) BODY[TEXT] {3}
        S: 2
        S: )
        S: b OK …
        C: c STORE 1 FLAGS (\Answered)
        S: * 1 FETCH (UID 1 FLAGS (\Answered))
        S: c OK …
        "#,
    );
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "UNSEEN")), ("2".into(), "1".into()));
    ana.run(
        r#"
        C: b NOOP
        S: * 1 FETCH (UID 1 FLAGS (…\Answered \Seen))
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: b OK …
        "#,
    );
    assert_eq!((search(&mut ana, "SEEN"), search(&mut ana, "UNSEEN")), ("1".into(), "2".into()));
    // Without another flag, and taken back.
    bo.run("C: d STORE 1:2 +FLAGS.SILENT (\\Seen)\nS: d OK …\nC: e STORE 2 -FLAGS (\\Seen)\nS: * 2 FETCH (UID 2 FLAGS ())\nS: e OK …");
    assert_eq!(search(&mut bo, "SEEN"), "1");
    ana.run("C: c NOOP\nS~ c OK …");
    assert_eq!(search(&mut ana, "SEEN"), "1");
}

#[test]
fn counts_are_the_readers_own() {
    let server = server("lrs");
    server.put("P", b"Subject: three\r\n\r\n3\r\n");
    ana_in(&server).run("C: a STORE 1:2 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        "C: a STATUS {SHARED} (MESSAGES UNSEEN)\nS: * STATUS {SHARED} (MESSAGES 3 UNSEEN 3)\nS: a OK …"
    ));
    bo_in(&server).run("C: a STORE 1,3 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    bo.run(&format!(
        r#"
        C: b STATUS {SHARED} (UNSEEN)
        S: * STATUS {SHARED} (UNSEEN 1)
        S: b OK …
        C: c LIST "" {SHARED} RETURN (STATUS (MESSAGES UNSEEN))
        S: * LIST (…) "/" {SHARED}
        S: * STATUS {SHARED} (MESSAGES 3 UNSEEN 1)
        S: c OK …
        C: d SELECT {SHARED}
        S~ * OK [UNSEEN 2] …
        S~ d OK …
        C: e UNSELECT
        S: e OK …
        C: f ESEARCH IN (mailboxes {SHARED}) UNSEEN
        S: * ESEARCH (TAG "f" MAILBOX {SHARED} UIDVALIDITY …) UID ALL 2
        S: f OK …
        "#
    ));
    server.login().run("C: a STATUS P (MESSAGES UNSEEN)\nS: * STATUS P (MESSAGES 3 UNSEEN 1)\nS: a OK …");
    // Expunged messages count for nobody.
    let mut ana = ana_in(&server);
    ana.run("C: a STORE 1:2 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    bo.run(&format!(
        "C: g STATUS {SHARED} (MESSAGES UNSEEN)\nS: * STATUS {SHARED} (MESSAGES 1 UNSEEN 0)\nS: g OK …"
    ));
}

#[test]
fn two_sessions_of_a_user_agree_with_condstore_and_qresync() {
    let server = server("lrs");
    let mut first = server.login_as(BO);
    first.run(&format!("C: a SELECT {SHARED} (CONDSTORE)\nS~ * OK [HIGHESTMODSEQ 2] …\nS~ a OK …"));
    let mut second = bo_in(&server);
    second.run("C: i IDLE\nS: + …");
    first.run("C: b STORE 2 +FLAGS (\\Seen)\nS: * 2 FETCH (UID 2 FLAGS (…\\Seen) MODSEQ (3))\nS: b OK …");
    second.run("S: * 2 FETCH (UID 2 FLAGS (…\\Seen))\nC: DONE\nS: i OK …");
    // RFC 7162 §3.1.3: messages that have changed since are left alone.
    first.run(
        r#"
        C: c STORE 2 (UNCHANGEDSINCE 2) -FLAGS (\Seen)
        S: c OK [MODIFIED 2] …
        C: d STORE 1 (UNCHANGEDSINCE 2) +FLAGS (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged \Seen) MODSEQ (…))
        S: d OK …
        C: e STORE 1 (UNCHANGEDSINCE 2) +FLAGS.SILENT (\Seen)
        S: e OK [MODIFIED 1] …
        C: f SEARCH MODSEQ 3 SEEN
        S: * SEARCH 1 2 (MODSEQ …)
        S: f OK …
        "#,
    );
    let mut again = server.login_as(BO);
    again.run(&format!(
        r#"
        C: a ENABLE QRESYNC
        S~ a OK …
        C: b STATUS {SHARED} (UIDVALIDITY)
        S~ b OK …
        C: c SELECT {SHARED}
        S~ c OK …
        C: d UID FETCH 1:* (FLAGS) (CHANGEDSINCE 2)
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged \Seen) MODSEQ (…))
        S: * 2 FETCH (UID 2 FLAGS (…\Seen) MODSEQ (…))
        S: d OK …
        "#
    ));
    // For ana nothing is seen.
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "");
}

#[test]
fn an_expunge_that_is_held_back_and_arrivals_keep_what_was_seen() {
    let server = server("lrste");
    server.put("P", b"Subject: three\r\n\r\n3\r\n");
    let (mut ana, mut bo) = (ana_in(&server), bo_in(&server));
    bo.run("C: a STORE 1,3 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    ana.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    server.put("P (\\Seen)", b"Subject: four\r\n\r\n4\r\n");
    bo.run(
        r#"
        C: b FETCH 1:4 FLAGS
        S~ b BAD …
        C: c SEARCH SEEN
        S: * SEARCH 1 3
        S~ c OK …
        C: d NOOP
        S: * 1 EXPUNGE
        S~ d OK …
        "#,
    );
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "UNSEEN")), ("2".into(), "1 3".into()));
    let mut again = bo_in(&server);
    assert_eq!((search(&mut again, "SEEN"), search(&mut again, "UNSEEN")), ("2".into(), "1 3".into()));
}

#[test]
fn copies_and_new_messages_are_seen_for_users_who_saw_them() {
    let server = server("lrswite");
    ana_in(&server).run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    let mut bo = bo_in(&server);
    bo.run(&format!(
        r#"
        C: a STORE 2 +FLAGS.SILENT (\Seen)
        S: a OK …
        # Out of the mailbox: ana has seen the first, bo the second.
        C: b COPY 1:2 INBOX
        S: b OK [COPYUID …] …
        C: c APPEND {SHARED} (\Seen \Flagged) {{3+}}
        C: xy
        S: * 3 EXISTS
        S~ c OK [APPENDUID …] …
        # Within it, and into it.
        C: d COPY 2 {SHARED}
        S: * 4 EXISTS
        S~ d OK [COPYUID …] …
        C: e SELECT INBOX
        S~ e OK …
        C: f COPY 1:2 {SHARED}
        S: f OK [COPYUID …] …
        C: g MOVE 2 {SHARED}
        S~ g OK …
        "#
    ));
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "FLAGGED")), ("".into(), "1".into()));
    let mut bo = bo_in(&server);
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "FLAGGED")), ("2 3 4 6 7".into(), "1 3 5".into()));
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "1");
    bo.run(&format!(
        r#"
        C: a MOVE 7 INBOX
        S~ a OK …
        C: b REPLACE 1 {SHARED} (\Seen) {{3+}}
        C: ab
        S~ b OK …
        C: c SELECT INBOX
        S~ c OK …
        "#
    ));
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "ALL")), ("2".into(), "1 2".into()));
    assert_eq!(search(&mut bo_in(&server), "SEEN"), "1 2 3 5 6");
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "");
}

/// RFC 7162 §3.1: the flags are written after the messages. A client that synchronises in between
/// learns of them later.
#[test]
fn seen_flags_of_new_messages_have_a_later_mod_sequence() {
    let (server, faulty) = Server::start_faulty();
    share(&server, "lrswite");
    let ((store, _), (owner, mailbox)) = (server.behind(), server.mailbox(USER, "P"));
    let list = server.wait(store.list(owner)).expect("a list");
    let entry = list.find(&MailboxName::new("P").expect("a name")).expect("the mailbox");
    let validity = entry.uid_validity.value();
    let mut bo = server.login_as(BO);
    for flags in ["(\\Seen)", "(\\Seen)", "()"] {
        bo.run(&format!("C: a APPEND INBOX {flags} {{1+}}\nC: x\nS~ a OK …"));
    }
    bo.run("C: b SELECT INBOX\nS~ b OK …");
    let commands = [
        format!("APPEND {SHARED} (\\Seen) {{1+}}\r\nx"),
        format!("COPY 1 {SHARED}"),
        format!("MOVE 2 {SHARED}"),
        format!("REPLACE 2 {SHARED} (\\Seen) {{1+}}\r\nx"),
    ];
    for (uid, command) in (3_u32..).zip(commands) {
        let (say, heard) = std::sync::mpsc::channel();
        let store = store.clone();
        faulty.before_change("seen/", async move {
            let view = store.open(mailbox).await.expect("the mailbox").view();
            say.send((view.exists(), view.modseq().value())).expect("a test that listens");
        });
        bo.send(format!("c {command}\r\n").as_bytes());
        bo.skip_to("c OK …");
        let (exists, known) = heard.try_recv().expect("a flag that is written");
        assert_eq!(exists, uid, "{command}");
        server.login_as(BO).run(&format!(
            r#"
            C: a ENABLE QRESYNC
            S~ a OK …
            C: b SELECT {SHARED} (QRESYNC ({validity} {known}))
            S~ * {uid} FETCH (UID {uid} FLAGS (…\Seen) MODSEQ (…))
            S~ b OK …
            C: c UID FETCH 1:* (FLAGS) (CHANGEDSINCE {known})
            S: * {uid} FETCH (UID {uid} FLAGS (…\Seen) MODSEQ (…))
            S: c OK …
            "#
        ));
    }
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "");
}

/// RFC 7162 §3.1: a kill between the flags and their mod-sequence leaves this. The user's next
/// session raises it, once.
#[test]
fn seen_flags_without_a_mod_sequence_get_it_when_the_mailbox_is_opened() {
    let server = server("lrs");
    let ((store, directory), (owner, mailbox)) = (server.behind(), server.mailbox(USER, "P"));
    let list = server.wait(store.list(owner)).expect("a list");
    let entry = list.find(&MailboxName::new("P").expect("a name")).expect("the mailbox");
    let validity = entry.uid_validity.value();
    let reader = server.wait(directory.account(BO)).expect("the directory").expect("the account").id;
    let reading = Reading { owner, mailbox, reader };
    let select = |command: &str, known: u64, answer: &str| {
        server.login_as(BO).run(&format!(
            "C: a ENABLE QRESYNC\nS~ a OK …\nC: b {command} {SHARED} (QRESYNC ({validity} {known}))\n{answer}S: b OK …"
        ));
    };
    // Nothing has changed since, also with a command of this user that was completed.
    bo_in(&server).run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    select("SELECT", 3, "S~ * OK [HIGHESTMODSEQ 3] …\nS~ * OK [ANNOTATIONS …\n");
    for (seen, known, command, flags) in [(true, 3, "SELECT", "…\\Seen"), (false, 4, "EXAMINE", "…")] {
        let uids = NumSet::range(2, 2);
        server.wait(directory.seen().set(reading, &uids, seen)).expect("flags that are written");
        let now = known + 1;
        let report = format!(
            "S~ * OK [HIGHESTMODSEQ {now}] …\nS~ * OK [ANNOTATIONS …\nS: * 2 FETCH (UID 2 FLAGS ({flags}) MODSEQ ({now}))\n"
        );
        select(command, known, &report);
        select(command, now, &format!("S~ * OK [HIGHESTMODSEQ {now}] …\nS~ * OK [ANNOTATIONS …\n"));
    }
    assert_eq!(search(&mut bo_in(&server), "SEEN"), "1");
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "");
}

/// A client that sent or copied the messages again would have them twice.
#[test]
fn new_messages_whose_seen_flags_cannot_be_written_are_there() {
    let (server, faulty) = Server::start_faulty();
    share(&server, "lrswite");
    server.put("P", b"Subject: three\r\n\r\n3\r\n");
    let mut bo = bo_in(&server);
    bo.run("C: a STORE 1:3 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    faulty.fail_on(Some("seen/"));
    bo.run(&format!(
        r#"
        C: b APPEND {SHARED} (\Seen) {{1+}}
        C: x
        S: * NO The new messages lack \Seen, which could not be written
        S: * 4 EXISTS
        S: * … RECENT
        S: b OK [APPENDUID …] …
        C: c COPY 1 {SHARED}
        S: * NO The new messages lack \Seen, which could not be written
        S: * 5 EXISTS
        S: * … RECENT
        S: c OK [COPYUID …] …
        C: d MOVE 2 {SHARED}
        S: * NO The new messages lack \Seen, which could not be written
        S: * OK [COPYUID …] Moved
        S: * 2 EXPUNGE
        S~ d OK …
        C: e REPLACE 2 {SHARED} (\Seen) {{1+}}
        C: x
        S: * NO The new messages lack \Seen, which could not be written
        S: * OK [APPENDUID …] …
        S: * 2 EXPUNGE
        S~ e OK …
        "#
    ));
    faulty.fail_on(None);
    let mut bo = bo_in(&server);
    assert_eq!((search(&mut bo, "SEEN"), search(&mut bo, "ALL")), ("1".into(), "1 2 3 4 5".into()));
}

/// What the client itself did is no news to it (RFC 5465 §5).
#[test]
fn seen_flags_of_own_new_messages_are_not_reported_to_the_client_that_added_them() {
    let server = server("lrswi");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a NOTIFY SET (mailboxes {SHARED} (MessageNew MessageExpunge FlagChange))
        S: a OK …
        C: b APPEND {SHARED} (\Seen) {{1+}}
        C: x
        S: b OK [APPENDUID …] …
        C: c NOOP
        S: c OK …
        "#
    ));
    ana_in(&server).run("C: a STORE 1 +FLAGS.SILENT (\\Answered)\nS: a OK …");
    bo.run(&format!("C: d NOOP\nS: * STATUS {SHARED} (UIDVALIDITY …)\nS: d OK …"));
}

/// RFC 4314 §4: without `s` nothing is seen, not even what is brought along.
#[test]
fn without_the_right_nothing_is_seen() {
    let server = server("lri");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a APPEND INBOX (\Seen) {{3+}}
        C: xy
        S: a OK …
        C: b SELECT INBOX
        S~ b OK …
        C: c COPY 1 {SHARED}
        S: c OK …
        C: d APPEND {SHARED} (\Seen) {{3+}}
        C: xy
        S: d OK …
        C: e STATUS {SHARED} (MESSAGES UNSEEN)
        S: * STATUS {SHARED} (MESSAGES 4 UNSEEN 4)
        S: e OK …
        "#
    ));
    assert_eq!(search(&mut ana_in(&server), "SEEN"), "");
}

#[test]
fn reports_and_live_results_count_the_readers_own() {
    let server = server("lrs");
    let mut notified = server.login_as(BO);
    notified.run(&format!(
        "C: n NOTIFY SET (mailboxes {SHARED} (MessageNew MessageExpunge FlagChange))\nS: n OK …\nC: i IDLE\nS: + …"
    ));
    let mut bo = bo_in(&server);
    bo.run("C: a UID SEARCH RETURN (ALL UPDATE) UNSEEN\nS: * ESEARCH (TAG \"a\") UID ALL 1:2\nS: a OK …");
    ana_in(&server).run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    notified.run(&format!("S: * STATUS {SHARED} (UIDVALIDITY … UNSEEN 2 HIGHESTMODSEQ …)"));
    bo.run(
        r#"
        C: b NOOP
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged))
        S: b OK …
        C: c STORE 2 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "a") UID REMOVEFROM (0 2)
        S: c OK …
        "#,
    );
    notified.run(&format!("S: * STATUS {SHARED} (UIDVALIDITY … UNSEEN 1 HIGHESTMODSEQ …)"));
}

/// In a mailbox of a shared account, and after its rights were taken and given again.
#[test]
fn seen_flags_last() {
    let server = server("lrs");
    bo_in(&server).run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    server.grant(USER, "P", BO, "");
    server.grant(USER, "P", BO, "lrs");
    server.login().run("C: a RENAME P Q\nS: a OK …");
    let mut bo = server.login_as(BO);
    bo.run("C: s SELECT \"Other Users/ana@example.org/Q\"\nS~ s OK …");
    assert_eq!(search(&mut bo, "SEEN"), "1");
}

/// The messages that three users should see, by UID.
struct Model {
    uids: BTreeSet<u32>,
    seen: [BTreeSet<u32>; 3],
    next: u32,
}

impl Model {
    /// `UID SEARCH SEEN` of a user.
    fn of(&self, user: usize) -> String {
        let seen: Vec<String> = self.seen[user].intersection(&self.uids).map(u32::to_string).collect();
        seen.join(" ")
    }

    fn add(&mut self, user: usize, is_seen: bool) {
        self.uids.insert(self.next);
        if is_seen {
            self.seen[user].insert(self.next);
        }
        self.next += 1;
    }
}

/// Random changes by the owner and two readers, each compared with the model from an open session,
/// a new one, and STATUS.
#[test]
fn random_changes_of_three_users_are_as_in_a_model() {
    const CY: &str = "cy@example.org";
    let server = server("lrswite");
    server.add_account(CY, posthaste_directory::NewAccount::default());
    server.grant(USER, "P", CY, "lrswite");
    let users = [(USER, "P"), (BO, SHARED), (CY, SHARED)];
    let open = |user: usize| {
        let mut wire = server.login_as(users[user].0);
        wire.run(&format!("C: s SELECT {}\nS~ s OK …", users[user].1));
        wire
    };
    let mut wires = [open(0), open(1), open(2)];
    let mut model = Model { uids: BTreeSet::from([1, 2]), seen: Default::default(), next: 3 };
    let mut state = 20_261_125_u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for step in 0..120 {
        let user = below(3);
        let uid = model.uids.iter().nth(below(model.uids.len().max(1))).copied();
        let wire = &mut wires[user];
        // A session changes the messages that it knows.
        wire.run("C: n NOOP\nS~ n OK …");
        match (below(7), uid) {
            (0, Some(uid)) => {
                wire.run(&format!("C: x UID STORE {uid} +FLAGS.SILENT (\\Seen)\nS~ x OK …"));
                model.seen[user].insert(uid);
            }
            (1, Some(uid)) => {
                wire.run(&format!("C: x UID STORE {uid} -FLAGS (\\Seen)\nS~ x OK …"));
                model.seen[user].remove(&uid);
            }
            (2, Some(uid)) => {
                wire.run(&format!("C: x UID STORE {uid} FLAGS (\\Seen \\Answered)\nS~ x OK …"));
                model.seen[user].insert(uid);
            }
            (3, Some(uid)) => {
                wire.run(&format!("C: x UID FETCH {uid} BODY[]\nS~ x OK …"));
                model.seen[user].insert(uid);
            }
            (4, Some(uid)) if model.uids.len() > 3 => {
                wire.run(&format!("C: x UID STORE {uid} +FLAGS.SILENT (\\Deleted)\nS~ x OK …"));
                wire.run(&format!("C: x UID EXPUNGE {uid}\nS~ x OK …"));
                model.uids.remove(&uid);
            }
            (5, Some(uid)) => {
                wire.run(&format!("C: x UID COPY {uid} {}\nS~ x OK …", users[user].1));
                let is_seen = model.seen[user].contains(&uid);
                model.add(user, is_seen);
            }
            (kind, _) => {
                let flags = if kind == 6 { "(\\Seen) " } else { "" };
                wire.run(&format!("C: x APPEND {} {flags}{{1+}}\nC: x\nS~ x OK …", users[user].1));
                model.add(user, kind == 6);
            }
        }
        let other = below(3);
        let mut fresh = open(other);
        for wire in [&mut wires[other], &mut fresh] {
            wire.run("C: n NOOP\nS~ n OK …\nC: q UID SEARCH SEEN");
            let found = wire.line().expect("a response");
            wire.expect("q OK …");
            let found = found.strip_prefix("* SEARCH").expect("a result").trim_start();
            assert_eq!(found, model.of(other), "step {step}, user {other}");
        }
        let unseen = model.uids.difference(&model.seen[other]).count();
        fresh.run(&format!("C: u UNSELECT\nS~ u OK …\nC: t STATUS {} (UNSEEN)", users[other].1));
        fresh.run(&format!("S: * STATUS {} (UNSEEN {unseen})\nS: t OK …", users[other].1));
    }
}
