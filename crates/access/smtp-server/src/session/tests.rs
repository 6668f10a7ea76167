//! Tests of the state machine alone: the legal commands of each state, and the reply to each
//! outcome.

use std::time::Duration;

use posthaste_delivery::{DeliveryError, Recipient};
use posthaste_directory::sasl::Mechanism;
use posthaste_directory::{Address, Forward, LoginFailure, Target};
use posthaste_filter::{Delivered, Undelivered};

use super::*;
use crate::fuzzing::account;

const ROOM: usize = 1 << 20;

fn session(role: Role) -> Session {
    let mut options = SmtpOptions::new("mail.example");
    (options.message_size_max, options.recipients_max, options.errors_max) = (1000, 2, 3);
    let link = Link {
        peer: "192.0.2.1:4711".parse().unwrap(),
        tls: None,
        starttls: true,
        mechanisms: Mechanisms::of(&[Mechanism::ScramSha256, Mechanism::Plain]),
    };
    Session::new(role, Arc::new(options), link)
}

fn recipient(number: u128) -> Target {
    let account = account(number);
    let address = Address::parse(&account.name).unwrap();
    Target::Account(Recipient { account: Arc::new(account), address, detail: None })
}

impl Session {
    /// The answer to a line; look-ups find account 1.
    fn say(&mut self, line: &str) -> String {
        let action = match self.line(line.as_bytes(), ROOM) {
            Action::Resolve(mailbox) => self.recipient_resolved(mailbox, Ok(recipient(1))),
            Action::CheckSender(_) => Action::Reply(self.sender_resolved(Ok(recipient(1)))),
            action => action,
        };
        let (kind, reply) = match action {
            Action::Reply(reply) => ("", reply),
            Action::Close(reply) => ("close ", reply),
            Action::StartTls(reply) => ("tls ", reply),
            Action::Data(reply) => ("data ", reply),
            Action::Discard { reply, .. } => ("discard ", reply),
            Action::Authenticate { mechanism, .. } => return format!("authenticate {mechanism}"),
            Action::Chunk { size, last } => return format!("chunk {size} {last}"),
            other => return format!("{other:?}"),
        };
        let enhanced = reply.enhanced().map(|enhanced| format!(" {enhanced}")).unwrap_or_default();
        format!("{kind}{}{enhanced}", reply.code())
    }

    /// The answer to RCPT for an address of this account.
    fn say_rcpt(&mut self, to: &str, parameters: &str, account: Account) -> String {
        let line = format!("RCPT TO:<{to}>{parameters}");
        let Action::Resolve(mailbox) = self.line(line.as_bytes(), ROOM) else { panic!("{line}") };
        let (account, address) = (Arc::new(account), Address::parse(to).unwrap());
        let detail = address.split_detail().map(|(_, detail)| Arc::clone(detail));
        let target = Target::Account(Recipient { account, address, detail });
        match self.recipient_resolved(mailbox, Ok(target)) {
            Action::Reply(reply) => format!("{} {}", reply.code(), reply.enhanced().unwrap()),
            other => format!("{other:?}"),
        }
    }

    #[track_caller]
    fn expect(&mut self, script: &[(&str, &str)]) {
        for (line, answer) in script {
            assert_eq!(self.say(line), *answer, "{line}");
        }
    }
}

#[test]
fn lmtp_has_its_own_greeting() {
    let mut session = session(Role::Lmtp);
    session.expect(&[
        ("EHLO a.example", "500 5.5.1"),
        ("MAIL FROM:<>", "503 5.5.1"),
        ("LHLO a.example", "250"),
        ("AUTH PLAIN", "502 5.5.1"),
        ("MAIL FROM:<>", "250 2.1.0"),
        ("DATA", "close 421 4.7.0"),
    ]);
}

#[test]
fn the_order_of_a_transaction() {
    let mut session = session(Role::Smtp);
    session.options = Arc::new(SmtpOptions { errors_max: 100, ..(*session.options).clone() });
    session.expect(&[
        ("RCPT TO:<a@example.org>", "503 5.5.1"),
        ("EHLO a.example", "250"),
        ("DATA", "503 5.5.1"),
        ("MAIL FROM:<a@example.com>", "250 2.1.0"),
        ("MAIL FROM:<a@example.com>", "503 5.5.1"),
        ("STARTTLS", "503 5.5.1"),
        ("DATA", "503 5.5.1"),
        ("BDAT 5 LAST", "discard 503 5.5.1"),
        ("RCPT TO:<a@example.org>", "250 2.1.5"),
        ("RCPT TO:<b@example.org>", "250 2.1.5"),
        ("RCPT TO:<c@example.org>", "452 4.5.3"),
        ("RCPT TO:<é@example.org>", "452 4.5.3"),
        ("VRFY a", "252 2.0.0"),
        ("BDAT 10", "chunk 10 false"),
        ("DATA", "503 5.5.1"),
        ("RCPT TO:<a@example.org>", "503 5.5.1"),
        ("BDAT 0 LAST", "chunk 0 true"),
    ]);
    assert!(session.is_receiving());
    assert_eq!(session.message_received().unwrap().recipients.len(), 2);
    assert!(!session.is_receiving());
    session.expect(&[
        ("DATA", "503 5.5.1"),
        ("MAIL FROM:<>", "250 2.1.0"),
        ("RCPT TO:<a@example.org>", "250 2.1.5"),
        ("RSET", "250 2.0.0"),
        ("DATA", "503 5.5.1"),
        ("MAIL FROM:<>", "250 2.1.0"),
        ("RCPT TO:<a@example.org>", "250 2.1.5"),
        ("DATA", "data 354"),
        ("QUIT", "close 221 2.0.0"),
    ]);
}

#[test]
fn sizes_and_letters_are_refused_at_mail() {
    let mut session = session(Role::Smtp);
    session.expect(&[
        ("EHLO a.example", "250"),
        ("MAIL FROM:<a@example.com> SIZE=1001", "552 5.3.4"),
        ("MAIL FROM:<é@example.com>", "553 5.6.7"),
        ("MAIL FROM:<é@example.com> SMTPUTF8 SIZE=1000", "250 2.1.0"),
        ("RCPT TO:<é@example.org>", "250 2.1.5"),
        ("RSET", "250 2.0.0"),
        ("MAIL FROM:<a@example.com>", "250 2.1.0"),
        ("RCPT TO:<é@example.org>", "553 5.6.7"),
        ("RSET", "250 2.0.0"),
    ]);
    let full = session.line(b"MAIL FROM:<> SIZE=1000", 999);
    assert!(matches!(full, Action::Reply(reply) if reply.code() == 452));
}

/// A host that has begun a message for many recipients.
fn transaction() -> Session {
    let mut session = session(Role::Smtp);
    let options = SmtpOptions { relays: true, recipients_max: 1000, ..(*session.options).clone() };
    session.options = Arc::new(options);
    session.expect(&[("EHLO a.example", "250"), ("MAIL FROM:<>", "250 2.1.0")]);
    session
}

/// RFC 5321 §4.5.3.1.8, §4.5.3.1.10.
#[test]
fn the_longest_recipients_fill_an_envelope_and_the_rest_comes_in_another() {
    let mut session = transaction();
    let domain = [63, 63, 63, 61].map(|len| "d".repeat(len)).join(".");
    let local: String = format!("ana+{}", "x".repeat(124)).chars().flat_map(|c| ['\\', c]).collect();
    let (to, orcpt) = (format!("\"{local}\"@{domain}"), format!(" ORCPT=rfc822;{}", "x".repeat(493)));
    assert_eq!(to.len(), 512);
    let taken = (0..1000).take_while(|_| session.say_rcpt(&to, &orcpt, account(1)) == "250 2.1.5").count();
    assert!((250..450).contains(&taken), "{taken} recipients were taken");
    for _ in 0..100 {
        assert_eq!(session.say_rcpt(&to, &orcpt, account(1)), "452 4.5.3");
    }
    assert_eq!(session.errors, 0, "it is no mistake of the client");
    session.expect(&[("BDAT 5 LAST", "chunk 5 true")]);
    assert_eq!(session.message_received().unwrap().recipients.len(), taken);
    session.expect(&[("MAIL FROM:<>", "250 2.1.0")]);
    assert_eq!(session.say_rcpt(&to, &orcpt, account(1)), "250 2.1.5");
}

#[test]
fn a_thousand_usual_recipients_fit_an_envelope() {
    let mut session = transaction();
    for number in 0..1000 {
        let name = format!("{number:0>48}@example.org");
        let orcpt = format!(" ORCPT=rfc822;{name}");
        let account = Account { name: name.clone(), ..account(number) };
        assert_eq!((name.len(), session.say_rcpt(&name, &orcpt, account).as_str()), (60, "250 2.1.5"));
    }
    session.expect(&[("RCPT TO:<a@example.org>", "452 4.5.3"), ("BDAT 5 LAST", "chunk 5 true")]);
}

#[test]
fn addresses_of_one_account_share_what_takes_much_memory() {
    let forwarding = |number, version| {
        let forward = Some(Box::new(Forward { to: vec!["x".repeat(300); 100], keep: true }));
        Account { forward, version, ..account(number) }
    };
    let mut session = transaction();
    for number in 0..500 {
        let to = format!("user1+{number}@example.org");
        assert_eq!(session.say_rcpt(&to, "", forwarding(1, 1)), "250 2.1.5");
    }
    // The record has changed meanwhile.
    for _ in 0..2 {
        assert_eq!(session.say_rcpt("user1@example.org", "", forwarding(1, 2)), "250 2.1.5");
    }
    let transaction = session.message_received().unwrap();
    let account_of = |one: &Addressee| match &one.target {
        Some(Target::Account(recipient)) => Arc::clone(&recipient.account),
        other => panic!("{other:?}"),
    };
    let accounts: Vec<_> = transaction.recipients.iter().map(account_of).collect();
    assert!(accounts[..500].iter().all(|one| Arc::ptr_eq(one, &accounts[0])));
    assert!(Arc::ptr_eq(&accounts[500], &accounts[501]) && accounts[500].version == 2);
    let (held, of_account) = (transaction.held(), accounts[0].memory_bytes());
    assert!(of_account > 30_000 && held < 2 * of_account + 502 * 512, "{held} with {of_account}");
    // Those of different accounts do not.
    session.expect(&[("MAIL FROM:<>", "250 2.1.0")]);
    let mut take = |number| session.say_rcpt("a@example.org", "", forwarding(number, 1));
    let taken = (0..1000).take_while(|number| take(*number) == "250 2.1.5").count();
    assert!((10..30).contains(&taken), "{taken} recipients were taken");
}

#[test]
fn submission_requires_a_login_and_an_own_address() {
    let mut session = session(Role::Submission);
    session.expect(&[
        ("AUTH PLAIN", "503 5.5.1"),
        ("EHLO a.example", "250"),
        ("MAIL FROM:<user1@example.org>", "530 5.7.0"),
        ("AUTH PLAIN AGEAYg==", "authenticate PLAIN"),
    ]);
    assert_eq!(session.authenticated(account(1)).code(), 235);
    session.expect(&[
        ("AUTH PLAIN", "503 5.5.1"),
        ("MAIL FROM:<user1@example.org>", "250 2.1.0"),
        ("RSET", "250 2.0.0"),
        ("MAIL FROM:<>", "250 2.1.0"),
        ("RSET", "250 2.0.0"),
    ]);
    for (found, code) in [
        (Ok(recipient(2)), 553),
        (Err(ResolveError::NotLocal), 553),
        (Err(ResolveError::Directory(StoreError::Busy.into())), 451),
    ] {
        let action = session.line(b"MAIL FROM:<someone@example.org>", ROOM);
        assert!(matches!(action, Action::CheckSender(_)));
        assert_eq!(session.sender_resolved(found).code(), code);
        assert!(session.transaction.is_none());
    }
}

#[test]
fn tls_forgets_everything() {
    let mut session = session(Role::Submission);
    session.expect(&[("EHLO a.example", "250"), ("STARTTLS", "tls 220 2.0.0")]);
    session.authenticated(account(1));
    let tls = TlsFacts { version: "TLSv1.3", cipher: "x" };
    session.tls_started(Some(tls), Mechanisms::of(&[Mechanism::Plain]));
    assert!(session.account().is_none());
    session.expect(&[("MAIL FROM:<>", "503 5.5.1"), ("EHLO a.example", "250"), ("STARTTLS", "503 5.5.1")]);
}

#[test]
fn what_is_offered_depends_on_the_link() {
    let offers = |session: &mut Session, line: &str| match session.line(line.as_bytes(), ROOM) {
        Action::Reply(reply) => reply.lines().map(str::to_owned).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut submission = session(Role::Submission);
    assert_eq!(
        offers(&mut submission, "EHLO a.example").join(","),
        "mail.example,PIPELINING,8BITMIME,BINARYMIME,SMTPUTF8,ENHANCEDSTATUSCODES,CHUNKING,\
         LIMITS RCPTMAX=2,SIZE 1000,STARTTLS,AUTH SCRAM-SHA-256 PLAIN,HELP"
    );
    assert_eq!(offers(&mut submission, "HELO a.example"), ["mail.example"]);
    submission.authenticated(account(1));
    submission.link.tls = Some(TlsFacts { version: "TLSv1.3", cipher: "x" });
    let later = offers(&mut submission, "EHLO a.example").join(",");
    assert!(!later.contains("AUTH") && !later.contains("STARTTLS"), "{later}");
    assert!(!offers(&mut session(Role::Lmtp), "LHLO a.example").join(",").contains("AUTH"));
}

/// RFC 6710 §4.1: a client without a login gets no priority.
#[test]
fn a_stranger_has_no_priority() {
    for (role, is_user, raised) in [(Role::Smtp, false, "250 2.3.6"), (Role::Submission, true, "250 2.1.0")] {
        let mut session = session(role);
        session.options = Arc::new(SmtpOptions { relays: true, ..(*session.options).clone() });
        if is_user {
            session.authenticated(account(1));
        }
        session.expect(&[("EHLO a.example", "250"), ("MAIL FROM:<a@example.org> MT-PRIORITY=4", raised)]);
        let trace = session.trace("1", OffsetDateTime::UNIX_EPOCH);
        assert_eq!(trace.contains("\tPRIORITY 4;"), is_user, "{trace}");
        session.expect(&[("RSET", "250 2.0.0"), ("MAIL FROM:<a@example.org> MT-PRIORITY=-4", "250 2.1.0")]);
        assert!(session.trace("1", OffsetDateTime::UNIX_EPOCH).contains("\tPRIORITY -4;"));
        session.expect(&[("RSET", "250 2.0.0"), ("MAIL FROM:<a@example.org>", "250 2.1.0")]);
        assert!(!session.trace("1", OffsetDateTime::UNIX_EPOCH).contains("PRIORITY"));
    }
}

#[test]
fn reports_are_offered_where_they_can_be_sent() {
    for (role, relays, is_offered) in [
        (Role::Submission, true, true),
        (Role::Smtp, true, true),
        (Role::Smtp, false, false),
        (Role::Lmtp, true, false),
    ] {
        let mut session = session(role);
        session.options = Arc::new(SmtpOptions { relays, ..(*session.options).clone() });
        session.authenticated(account(1));
        let hello = if role == Role::Lmtp { "LHLO a.example" } else { "EHLO a.example" };
        let Action::Reply(reply) = session.line(hello.as_bytes(), ROOM) else { panic!("{role:?}") };
        assert_eq!(reply.lines().any(|line| line == "DSN"), is_offered, "{role:?}");
        let (mail, rcpt) = if is_offered { ("250 2.1.0", "250 2.1.5") } else { ("555 5.5.4", "555 5.5.4") };
        assert_eq!(reply.lines().any(|line| line == "MT-PRIORITY"), is_offered, "{role:?}");
        session.expect(&[("MAIL FROM:<a@example.org> RET=HDRS ENVID=1", mail)]);
        if !is_offered {
            session.expect(&[("MAIL FROM:<a@example.org>", "250 2.1.0")]);
        }
        session.expect(&[
            ("RCPT TO:<a@example.org> NOTIFY=SUCCESS ORCPT=rfc822;b@example.org", rcpt),
            ("RCPT TO:<a@example.org>", "250 2.1.5"),
        ]);
        let transaction = session.message_received().unwrap();
        let last = transaction.recipients.last().unwrap();
        assert_eq!(last.parameters, RcptParameters::default(), "each RCPT has its own");
        let first = &transaction.recipients[0].parameters;
        assert_eq!(first.notify.is_some_and(|notify| notify.success), is_offered);
        assert_eq!(first.orcpt.is_some(), is_offered);
    }
}

#[test]
fn an_original_address_in_utf8_needs_smtputf8() {
    let mut session = session(Role::Smtp);
    session.options = Arc::new(SmtpOptions { relays: true, ..(*session.options).clone() });
    session.expect(&[
        ("EHLO a.example", "250"),
        ("MAIL FROM:<>", "250 2.1.0"),
        ("RCPT TO:<a@example.org> ORCPT=utf-8;é@example.org", "553 5.6.7"),
        ("RSET", "250 2.0.0"),
        ("MAIL FROM:<> SMTPUTF8", "250 2.1.0"),
        ("RCPT TO:<a@example.org> ORCPT=utf-8;é@example.org", "250 2.1.5"),
    ]);
}

#[test]
fn binary_mail_comes_in_chunks_alone() {
    let mut session = session(Role::Smtp);
    session.expect(&[
        ("EHLO a.example", "250"),
        ("MAIL FROM:<> BODY=BINARYMIME", "250 2.1.0"),
        ("RCPT TO:<a@example.org>", "250 2.1.5"),
        ("DATA", "503 5.5.1"),
        ("BDAT 3 LAST", "chunk 3 true"),
    ]);
}

#[test]
fn errors_are_counted() {
    let mut session = session(Role::Smtp);
    session.expect(&[
        ("EHLO a.example", "250"),
        ("FROB", "500 5.5.1"),
        ("MAIL FROM:a", "501 5.1.7"),
        ("NOOP", "250 2.0.0"),
        ("MAIL FROM:<a@example.org> RET=FULL", "555 5.5.4"),
        ("RCPT TO:<>", "close 421 4.7.0"),
    ]);
}

#[test]
fn an_agent_next_door_may_name_many_unknown_users() {
    let refused = |role| {
        let mut session = session(role);
        session.expect(&[("LHLO a.example", if role == Role::Lmtp { "250" } else { "500 5.5.1" })]);
        session.say("EHLO a.example");
        session.say("MAIL FROM:<>");
        let unknown = |session: &mut Session| {
            let to = Mailbox::parse("nobody@example.org").unwrap();
            session.recipient_resolved(to, Err(ResolveError::NoSuchUser))
        };
        (0..10).map(|_| unknown(&mut session)).all(|action| matches!(action, Action::Reply(_)))
    };
    assert!(refused(Role::Lmtp));
    assert!(!refused(Role::Smtp));
}

#[test]
fn refusals_have_their_codes() {
    let error = |failure| LoginError { failure, delay: Duration::ZERO };
    for (failure, code) in [
        (LoginFailure::Credentials, "535 5.7.8"),
        (LoginFailure::Disabled, "535 5.7.13"),
        (LoginFailure::Malformed("x"), "501 5.5.2"),
        (LoginFailure::UnknownMechanism, "504 5.5.4"),
        (LoginFailure::EncryptionRequired, "538 5.7.11"),
        (LoginFailure::TooMany, "454 4.7.0"),
        (LoginFailure::Unavailable(StoreError::Busy.into()), "454 4.7.0"),
    ] {
        let Action::Reply(reply) = session(Role::Submission).login_failed(&error(failure)) else {
            panic!("a first failure does not end the session");
        };
        assert!(reply.to_string().starts_with(code), "{reply}");
    }
    for (found, code) in [
        (ResolveError::NotLocal, "550 5.1.2"),
        (ResolveError::NoSuchUser, "550 5.1.1"),
        (ResolveError::Disabled, "550 5.2.1"),
        (ResolveError::Directory(StoreError::Unavailable("secret".into()).into()), "451 4.3.0"),
    ] {
        let text = replies::resolve(&found).to_string();
        assert!(text.starts_with(code) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn one_reply_for_each_recipient_in_lmtp_and_one_for_all_in_smtp() {
    let over_quota = Err(DeliveryError::OverQuota { used: 1, limit: 1, more: 1 }.into());
    let too_large = Err(Undelivered::from(DeliveryError::TooLarge { len: 2, limit: 1 }));
    let codes = |role, outcomes: &[Delivered]| {
        let replies = outcomes.iter().map(|outcome| replies::outcome("id", outcome)).collect();
        let replies = session(role).delivered(replies);
        replies.iter().map(Reply::code).collect::<Vec<_>>()
    };
    let mixed = [Ok(None), too_large.clone(), over_quota];
    assert_eq!(codes(Role::Lmtp, &mixed), [250, 552, 452]);
    assert_eq!(codes(Role::Smtp, &mixed), [452]);
    assert_eq!(codes(Role::Smtp, &[Ok(None), too_large]), [552]);
    assert_eq!(codes(Role::Smtp, &[Ok(None), Ok(None)]), [250]);
    let text = |reason: &str| replies::outcome("id", &Err(Undelivered::Rejected(reason.into()))).to_string();
    // No line of a reason is a reply of its own.
    assert_eq!(text("nein,\r\n250 dänke").trim_end(), "550-5.7.1 nein,\r\n550 5.7.1 250 d?nke");
    let long = text(&"x".repeat(5000));
    assert!(long.lines().all(|line| line.len() <= 510 && line.starts_with("550")), "{long}");
    assert!(text(" \r\n").contains("refuses"));
    let refusal = || replies::too_large(1);
    assert_eq!(session(Role::Lmtp).refused(3, refusal()).len(), 3);
    assert_eq!(session(Role::Smtp).refused(3, refusal()).len(), 1);
}

/// Every way in, for an address of a domain that is not ours. Only a user who logged in to a server
/// that relays is taken (RFC 5321 §3.6.2).
#[test]
fn nobody_else_can_relay() {
    let to = || Mailbox::parse("bo@elsewhere.test").unwrap();
    for role in [Role::Lmtp, Role::Submission, Role::Smtp] {
        for relays in [false, true] {
            for logged_in in [false, true] {
                let mut session = session(role);
                session.options = Arc::new(SmtpOptions { relays, ..SmtpOptions::new("mail.test") });
                session.account = logged_in.then(|| Arc::new(account(1)));
                session.begin(ReversePath::Null, MailParameters::default());
                let action = session.recipient_resolved(to(), Err(ResolveError::NotLocal));
                let Action::Reply(reply) = action else { panic!("{action:?}") };
                let is_ours = role == Role::Submission && relays && logged_in;
                let (code, recipients) = if is_ours { (250, 1) } else { (550, 0) };
                let taken = session.transaction.as_ref().map_or(0, |t| t.recipients.len());
                assert_eq!((reply.code(), taken), (code, recipients), "{role:?} {relays} {logged_in}");
            }
        }
    }
}

#[test]
fn the_server_closes_the_connection_of_a_browser() {
    for role in [Role::Lmtp, Role::Submission, Role::Smtp] {
        for line in ["POST / HTTP/1.1", "GET /a?b HTTP/1.0", "OPTIONS * HTTP/1.1"] {
            assert_eq!(session(role).say(line), "close 421 4.7.0", "{line}");
        }
    }
    let mut session = session(Role::Lmtp);
    session.expect(&[("NOOP HTTP/1.1", "250 2.0.0"), ("HTTP/1.1", "500 5.5.1"), ("GET /", "500 5.5.1")]);
}

#[test]
fn a_url_is_sent_by_those_who_logged_in() {
    let mut session = session(Role::Smtp);
    session.expect(&[("EHLO a.example", "250"), ("BURL imap://a@b/c/;UID=1 LAST", "502 5.5.1")]);
    let mut session = self::session(Role::Submission);
    session.expect(&[
        ("EHLO a.example", "250"),
        ("BURL imap://a@b/c/;UID=1 LAST", "503 5.5.1"),
        ("MAIL FROM:<a@example.org>", "530 5.7.0"),
    ]);
}
