//! AUTHENTICATE: RFC 9051 §6.2.2, with the initial response of RFC 4959.
//!
//! The directory implements the mechanisms. This file holds the dialogue: lines of base64, and `*`
//! to cancel.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_directory::LoginFailure;
use posthaste_directory::sasl::{Exchange, SaslStep};
use posthaste_mail_model::Secret;

use super::login;
use crate::reply::{Failure, Reply};
use crate::session::{LATE, Session};
use crate::wire::Line;

/// Bytes of one response line: SASL's largest response (8 KiB) in base64, with some room to spare.
const RESPONSE_LINE_MAX: usize = 12 * 1024;

pub(super) async fn run(
    session: &mut Session,
    mechanism: &str,
    initial: Option<Secret<Vec<u8>>>,
) -> Result<Reply, Failure> {
    let mut exchange = match Exchange::begin(&session.service.directory, mechanism, session.channel()) {
        Ok(exchange) => exchange,
        Err(error) => return login::refuse(session, "", error).await,
    };
    let mut response = initial;
    loop {
        let octets = response.as_ref().map(|r| r.expose().as_slice());
        match exchange.step(&session.service.directory, octets).await {
            SaslStep::Done(login) => return login::accept(session, *login).await,
            SaslStep::Fail(error) => return login::refuse(session, exchange.name(), error).await,
            SaslStep::Refuse { challenge, error } => {
                // Logged before the client can give up instead of answering.
                login::note_refusal(session, exchange.name(), &error).await;
                session.wire.request_continuation(&STANDARD.encode(challenge)).await?;
                read_response(session).await?;
                return Err(login::refusal(&error.failure).into());
            }
            SaslStep::Challenge(challenge) => {
                session.wire.request_continuation(&STANDARD.encode(challenge)).await?;
                response = Some(read_response(session).await?);
            }
        }
    }
}

/// One line from the client, decoded.
async fn read_response(session: &mut Session) -> Result<Secret<Vec<u8>>, Failure> {
    let line = loop {
        // The lines of an exchange belong to the login, so the login deadline applies to them.
        if session.is_login_late() {
            return Err(Failure::Bye(LATE));
        }
        let within = session.login_timeout();
        match session.wire.line() {
            Some(Line::Whole(line)) => break line,
            Some(Line::TooLong) => return Err(Reply::bad("The response is too long").into()),
            None => {
                let Session { wire, endings, .. } = session;
                tokio::select! {
                    filled = wire.fill(RESPONSE_LINE_MAX, within) => drop(filled.map_err(Failure::of_wait)?),
                    ending = endings.reached() => return Err(Failure::Bye(ending.text())),
                }
            }
        }
    };
    if line.as_ref() == b"*" {
        return Err(Reply::bad("AUTHENTICATE cancelled").into());
    }
    STANDARD
        .decode(&line)
        .map(Secret::new)
        .map_err(|_| Reply::bad(LoginFailure::Malformed("a response is not base64").to_string()).into())
}
