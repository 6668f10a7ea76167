//! The time in which a client must log in or send a message. The test advances the clock.

#![allow(clippy::unwrap_used)]

use posthaste_testkit::Piped;

use super::test_service::{MINUTE, Talk, service_with_ana};
use super::*;
use crate::SmtpOptions;

/// "\0ana@example.org\0correct horse"
const LOGIN: &str = "AUTH PLAIN AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl";

#[tokio::test]
async fn commands_alone_hold_no_connection() {
    for role in [Role::Lmtp, Role::Submission, Role::Smtp] {
        let mut talk = Talk::begin(role).await;
        talk.idle_for(14).await;
        talk.0.advance(MINUTE).await;
        talk.expect("421 4.4.2 ").await;
    }
}

#[tokio::test]
async fn a_message_or_a_login_begins_the_time_again() {
    let mut talk = Talk::begin(Role::Lmtp).await;
    talk.idle_for(14).await;
    talk.ask("LHLO client.example", "250 ").await;
    // An envelope alone does not.
    talk.ask("MAIL FROM:<>", "250 ").await;
    talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
    talk.ask("DATA", "354 ").await;
    talk.ask("A: b\r\n\r\n.", "250 ").await;
    talk.idle_for(14).await;
    talk.ask("MAIL FROM:<>", "250 ").await;
    talk.0.advance(MINUTE).await;
    talk.expect("421 4.4.2 ").await;

    let mut talk = Talk::begin(Role::Submission).await;
    talk.ask("EHLO client.example", "250 ").await;
    talk.ask(LOGIN, "235 ").await;
    talk.idle_for(40).await;
}

#[tokio::test]
async fn a_refused_message_does_not_begin_the_time_again() {
    for (header, outcome, after) in [("A: b\rc", "550 ", "421 4.4.2 "), ("A: b", "250 ", "250 ")] {
        let mut talk = Talk::begin(Role::Smtp).await;
        talk.idle_for(14).await;
        talk.ask("EHLO client.example", "250 ").await;
        talk.ask("MAIL FROM:<>", "250 ").await;
        talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
        talk.ask("DATA", "354 ").await;
        talk.ask(&format!("{header}\r\n\r\n."), outcome).await;
        talk.0.advance(MINUTE).await;
        if outcome == "250 " {
            talk.0.send(b"NOOP\r\n").await;
        }
        talk.expect(after).await;
    }
}

/// A submission service with other times.
async fn submission(change: impl FnOnce(&mut SmtpOptions)) -> Arc<SmtpService> {
    let mut service = Arc::into_inner(service_with_ana(Role::Submission).await).unwrap();
    change(Arc::get_mut(&mut service.options).unwrap());
    Arc::new(service)
}

/// A client that reads its replies, and sends nothing.
#[tokio::test]
async fn a_user_may_be_silent_for_longer_than_a_stranger() {
    let service = submission(|options| options.silence_within = 30 * MINUTE).await;
    let mut stranger = Talk::with(Arc::clone(&service)).await;
    stranger.0.advance(5 * MINUTE).await;
    stranger.expect("421 4.4.2 ").await;
    let mut user = Talk::with(service).await;
    user.ask("EHLO client.example", "250 ").await;
    user.ask(LOGIN, "235 ").await;
    user.0.advance(29 * MINUTE).await;
    user.ask("NOOP", "250 ").await;
    user.0.advance(30 * MINUTE).await;
    user.expect("421 4.4.2 ").await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    let service = submission(|options| options.begin_within = MINUTE).await;
    let mut piped = Piped::begin(64, 587, |connection, shutdown| service.serve(connection, shutdown));
    piped.hear(|said| said.ends_with(b"\r\n")).await;
    piped.unread_session_ends("NOOP\r\n", MINUTE).await;
}

/// Without a login and with one.
#[tokio::test]
async fn chunks_without_an_end_have_a_deadline_of_their_own() {
    for role in [Role::Smtp, Role::Submission] {
        let budget = posthaste_net::ByteBudget::new(1 << 20).with_message_within(Duration::ZERO);
        let service = Arc::into_inner(service_with_ana(role).await).unwrap().with_budget(budget);
        let mut talk = Talk::with(Arc::new(service)).await;
        talk.ask("EHLO client.example", "250 ").await;
        if role == Role::Submission {
            talk.ask(LOGIN, "235 ").await;
        }
        talk.ask("MAIL FROM:<ana@example.org>", "250 ").await;
        talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
        talk.ask("BDAT 0", "250 ").await;
        talk.expect("421 4.4.2 ").await;
    }
}

/// Octets for nobody, which are read and discarded: one before each wait has passed.
#[tokio::test]
async fn discarded_data_holds_no_connection() {
    for role in [Role::Lmtp, Role::Submission, Role::Smtp] {
        let mut talk = Talk::begin(role).await;
        talk.0.send(b"BDAT 134217728\r\n").await;
        for _ in 0..14 {
            talk.0.advance(MINUTE).await;
            talk.0.send(b"x").await;
            tokio::task::yield_now().await;
        }
        talk.0.advance(MINUTE).await;
        talk.expect("421 4.4.2 ").await;
    }
}

#[tokio::test]
async fn discarded_data_does_not_delay_the_end() {
    let mut talk = Talk::begin(Role::Smtp).await;
    talk.0.send(b"BDAT 134217728\r\nx").await;
    tokio::task::yield_now().await;
    talk.0.stop();
    talk.expect("421 4.3.2 ").await;
}

/// The client of the message learns why the session ends.
#[tokio::test]
async fn a_message_without_an_end_has_a_deadline() {
    let budget = posthaste_net::ByteBudget::new(1 << 20).with_message_within(Duration::ZERO);
    let service = Arc::into_inner(service_with_ana(Role::Lmtp).await).unwrap().with_budget(budget);
    let mut talk = Talk::with(Arc::new(service)).await;
    talk.ask("LHLO client.example", "250 ").await;
    talk.ask("MAIL FROM:<>", "250 ").await;
    talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
    talk.ask("DATA", "354 ").await;
    talk.expect("421 4.4.2 ").await;
}

/// Later ones wait, each for itself, so that others have their turn. Recipients, a few chunks and
/// messages do not.
#[tokio::test]
async fn the_first_commands_without_a_message_do_not_wait() {
    for role in [Role::Lmtp, Role::Submission, Role::Smtp] {
        let mut talk = Talk::begin(role).await;
        talk.0.first_commands_do_not_wait("NOOP\r\n", |said| said.matches("250 ").count()).await;
    }
    let mut talk = Talk::begin(Role::Lmtp).await;
    talk.ask("LHLO client.example", "250 ").await;
    for _ in 0..20 {
        talk.ask("MAIL FROM:<>", "250 ").await;
        for n in 0..10 {
            talk.ask(&format!("RCPT TO:<ana+{n}@example.org>"), "250 ").await;
        }
        for _ in 0..10 {
            talk.0.send(b"BDAT 3\r\na: ").await;
            talk.expect("250 ").await;
        }
        talk.0.send(b"BDAT 8 LAST\r\nb\r\n\r\nc\r\n").await;
        talk.expect("250 ").await;
    }
}

/// Each is answered, so a client could have the answers of very many commands without a wait.
#[tokio::test]
async fn many_short_chunks_wait_like_other_commands() {
    let mut talk = Talk::begin(Role::Lmtp).await;
    talk.ask("LHLO client.example", "250 ").await;
    talk.ask("MAIL FROM:<>", "250 ").await;
    talk.ask("RCPT TO:<ana@example.org>", "250 ").await;
    for _ in 0..48 {
        talk.ask("BDAT 0", "250 ").await;
    }
    for _ in 0..2 {
        talk.0.send(b"BDAT 0\r\n").await;
        assert_eq!(talk.0.said().await, "");
        talk.0.advance(Duration::from_millis(50)).await;
        talk.expect("250 ").await;
    }
    // A long one is no command by itself.
    talk.0.send(&[b"BDAT 512\r\n".as_slice(), &[b'x'; 512]].concat()).await;
    talk.expect("250 ").await;
}
