//! LOGIN, and the final steps that LOGIN and AUTHENTICATE share: RFC 9051 §6.2.3.

use posthaste_directory::{Login, LoginError, LoginFailure};
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::Secret;
use posthaste_net::LoginEnd;

use crate::capability;
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(
    session: &mut Session,
    user: &str,
    password: Secret<Vec<u8>>,
) -> Result<Reply, Failure> {
    if !session.may_send_passwords() {
        return refuse(session, user, LoginError::at_once(LoginFailure::EncryptionRequired)).await;
    }
    // A password that is not UTF-8 matches no account. The check takes as long as for any other
    // password, so timing reveals nothing.
    let password = String::from_utf8(password.into_inner())
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    let outcome = session.service.directory.login(user, &Secret::new(password), session.client()).await;
    match outcome {
        Ok(login) => accept(session, login).await,
        Err(error) => refuse(session, user, error).await,
    }
}

/// Attaches the account to the session. The first login creates the usual mailboxes (RFC 6154).
pub(super) async fn accept(session: &mut Session, login: Login) -> Result<Reply, Failure> {
    let account = &login.account;
    if let Some(referral) = account.referral.as_deref().filter(|referral| !referral.admits) {
        session.source().referred(&login, &referral.url);
        // A client that does not follow the referral must connect again after a few tries, as
        // below.
        session.bad_commands += 1;
        // RFC 2221 §4: the server has no mailboxes for the user. It is sent after the right
        // password only, so that other clients do not learn which accounts there are.
        let code = Code::Referral(vec![referral.url.clone()]);
        return Err(Reply::no(code, "Your mailboxes are on another server").into());
    }
    let peer = session.wire.peer().address.ip();
    let Some(share) = session.service.accounts.admit(account.limited(), peer) else {
        // This is not a failed login, but a client that repeats it must connect again, too.
        session.bad_commands += 1;
        // RFC 5530 §3
        return Err(
            Reply::no(Code::Limit, "Your account has too many connections, close some of them").into()
        );
    };
    session.service.delivery.mailboxes(account).await?;
    session.wire.set_login_within(None);
    session.source().succeeded(&login);
    let lease = session.service.directory.lease(&login);
    session.wire.belongs_to(share, LoginEnd::new(lease.signal()));
    session.endings.set_lease(Some(lease));
    session.login = Some(login.account);
    session.log_client();
    // RFC 9051 §6.2.2: login changes the capabilities; sending them saves the client a round trip.
    let capabilities = capability::text(session);
    let referral = session.login.as_ref().and_then(|login| login.referral.as_deref());
    match referral.map(|referral| Code::Referral(vec![referral.url.clone()])) {
        None => Ok(Reply::ok("Logged in").with(Code::Other("CAPABILITY".to_owned(), Some(capabilities)))),
        // RFC 2221 §4: shared mailboxes of others are here, and the user's own mailboxes are
        // elsewhere.
        Some(code) => {
            session.wire.say_line(&["* CAPABILITY ", &capabilities]);
            Ok(Reply::ok("Logged in; your own mailboxes are on another server").with(code))
        }
    }
}

/// Answers a refused login as the account `name`, after the delay for failed logins.
pub(super) async fn refuse(session: &mut Session, name: &str, error: LoginError) -> Result<Reply, Failure> {
    note_refusal(session, name, &error).await;
    Err(refusal(&error.failure).into())
}

/// Logs and counts a refused login, and waits for the delay of failed logins.
pub(super) async fn note_refusal(session: &mut Session, name: &str, error: &LoginError) {
    session.source().failed(name, &error.failure);
    // A client that guesses passwords has to connect again after a few tries.
    session.bad_commands += 1;
    let Session { wire, endings, .. } = session;
    tokio::select! {
        () = wire.clock().sleep(error.delay) => {}
        _ = endings.reached() => {}
    }
}

/// The reply to the client for each kind of refusal: RFC 5530, RFC 9051 §7.1.
pub(super) fn refusal(failure: &LoginFailure) -> Reply {
    let code = match failure {
        LoginFailure::Credentials | LoginFailure::ChannelBinding(_) => Code::AuthenticationFailed,
        LoginFailure::Certificate | LoginFailure::Token(_) => Code::AuthenticationFailed,
        LoginFailure::Disabled | LoginFailure::AuthorizationId | LoginFailure::Scope => {
            Code::AuthorizationFailed
        }
        LoginFailure::Expired => Code::Expired,
        LoginFailure::Malformed(why) => return Reply::bad(*why),
        LoginFailure::UnknownMechanism => Code::Cannot,
        LoginFailure::EncryptionRequired => Code::PrivacyRequired,
        LoginFailure::TooMany => Code::Unavailable,
        LoginFailure::Unavailable(why) => {
            tracing::error!(%why, "logins are unavailable");
            return Reply::no(Code::Unavailable, "Logins are unavailable, try again later");
        }
    };
    let text = failure.to_string();
    Reply::no(code, text)
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::response::StatusKind;

    use super::*;

    #[test]
    fn every_refusal_has_its_code() {
        for (failure, kind, code) in [
            (LoginFailure::Credentials, StatusKind::No, Some(Code::AuthenticationFailed)),
            (LoginFailure::Disabled, StatusKind::No, Some(Code::AuthorizationFailed)),
            (LoginFailure::AuthorizationId, StatusKind::No, Some(Code::AuthorizationFailed)),
            (LoginFailure::Malformed("x"), StatusKind::Bad, None),
            (LoginFailure::ChannelBinding("x"), StatusKind::No, Some(Code::AuthenticationFailed)),
            (LoginFailure::Certificate, StatusKind::No, Some(Code::AuthenticationFailed)),
            (LoginFailure::Token("x"), StatusKind::No, Some(Code::AuthenticationFailed)),
            (LoginFailure::Expired, StatusKind::No, Some(Code::Expired)),
            (LoginFailure::Scope, StatusKind::No, Some(Code::AuthorizationFailed)),
            (LoginFailure::UnknownMechanism, StatusKind::No, Some(Code::Cannot)),
            (LoginFailure::EncryptionRequired, StatusKind::No, Some(Code::PrivacyRequired)),
            (LoginFailure::TooMany, StatusKind::No, Some(Code::Unavailable)),
        ] {
            let reply = refusal(&failure);
            assert_eq!((reply.kind, reply.code), (kind, code), "{failure}");
        }
    }
}
