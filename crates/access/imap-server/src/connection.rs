//! The loop of a session: greet, wait for input, frame, dispatch, answer, close.
//!
//! It chooses the timeouts for input and limits how many bytes an unread command may hold. `wire`
//! keeps the bytes, and has them read and written. Invariants:
//! * responses are sent before we wait, and only then or when the buffer is full: pipelined
//!   commands share a packet;
//! * a literal is refused before it is sent wherever the client lets us;
//! * a session that waits for its client holds neither a read nor a write buffer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::ANNOTATION_BYTES_MAX;
use posthaste_imap_codec::framing::{CommandFrame, LiteralSync, LiteralWanted};
use posthaste_imap_codec::limits::{LINE_BYTES_MAX, TEXT_LITERAL_BYTES_MAX};
use posthaste_imap_codec::response::{Code, StatusKind};
use posthaste_imap_codec::{Command, NameEncoding, ParseError, ParseErrorKind, Tag, parse_command};
use posthaste_mail_model::{AccountId, Id};
use posthaste_mime_summary::CHARSETS;
use posthaste_net::{BytePermit, Connection, MESSAGE_WITHIN, NetError, SessionFuture, Shutdown};

use crate::annotate;
use crate::capability;
use crate::command::{self, metadata};
use crate::endings::REVOKED;
use crate::freed::{FREED_HERE_MAX, free};
use crate::heavy::{self, Heavy};
use crate::quota_check;
use crate::reply::Reply;
use crate::saved_search::SavedSearch;
use crate::service::ImapService;
use crate::session::{BEHIND, LATE, MEMORY_WITHIN, Next, Session, no_memory};
use crate::table::State;
use crate::waiting;
use crate::wire::InputBytes;

/// Bytes of one literal before login: names and passwords, and SASL's largest response in base64.
const LITERAL_BEFORE_LOGIN_MAX: u64 = 16 * 1024;

/// Bytes of a command that is parsed by the session's own task: less than 1 ms.
const PARSED_HERE_MAX: usize = 4 << 20;

/// Bytes of a command and its text literals together, without messages.
const COMMAND_BYTES_MAX: u64 = 4 * LINE_BYTES_MAX as u64;

impl ImapService {
    /// Serves one connection to its end. On shutdown it finishes the running command and sends BYE.
    pub fn serve(self: Arc<Self>, connection: Connection, shutdown: Shutdown) -> SessionFuture {
        Box::pin(self.serve_to_end(connection, shutdown))
    }

    async fn serve_to_end(self: Arc<Self>, connection: Connection, shutdown: Shutdown) {
        run_to_end(Box::new(Session::on(self, connection, shutdown))).await;
    }
}

/// Runs a session to its end, and closes its transport.
pub(crate) async fn run_to_end(mut session: Box<Session>) {
    let peer = session.wire.peer().address;
    let end = Arc::clone(&session.end);
    let outcome = {
        let running = std::pin::pin!(run(&mut session));
        end.unless(running).await
    };
    match outcome {
        Some(Ok(())) => tracing::debug!(%peer, "session ended"),
        Some(Err(error)) if error.is_ordinary() => tracing::debug!(%peer, %error, "session lost"),
        Some(Err(error)) => tracing::info!(%peer, %error, "IMAP session failed"),
        None => {
            tracing::info!(%peer, "session ended: its account holds too many old views of mailboxes");
            give_way(&mut session).await;
        }
    }
    let bytes = session.wire.input_bytes().held;
    session.give_back_memory(bytes);
    // All responses were sent. The close has the same deadline as a write.
    let _ = session.wire.close().await;
}

/// Gives back the memory of the session's views. BYE is sent unless a response is under way: the
/// client would take it for a part of that.
async fn give_way(session: &mut Session) {
    session.selected = None;
    if session.is_at_rest && !session.wire.has_output() {
        session.wire.say_unavailable(BEHIND);
        // The connection is closed in any case.
        let _ = session.wire.flush().await;
    }
}

/// Runs a session to its end. `Ok` if the client was sent BYE.
pub(crate) async fn run(session: &mut Session) -> Result<(), NetError> {
    let capabilities = Code::Other("CAPABILITY".to_owned(), Some(capability::text(session)));
    let greeting = format!("{} Posthaste at your service", session.service.options.hostname);
    session.wire.say_code(capabilities, greeting);
    loop {
        if session.is_login_late() {
            session.wire.say_bye(LATE);
            return session.wire.flush().await;
        }
        match session.wire.next_frame() {
            Some(CommandFrame::Command(bytes)) => {
                posthaste_metrics::command_ended();
                if let Some(permit) = &session.permit {
                    permit.complete();
                }
                if session.is_revoked() {
                    session.wire.say_bye(REVOKED);
                    return session.wire.flush().await;
                }
                session.renew_login();
                if let Some(url) = session.moved_to() {
                    session.wire.say_referral(url);
                    return session.wire.flush().await;
                }
                if session.wire.count_command() && Box::pin(hold_back(session)).await? == Next::Close {
                    return session.wire.flush().await;
                }
                if session.state() == State::NotAuthenticated
                    && let Some(wait) = session.before_login.count()
                {
                    Box::pin(slow_down(session, wait)).await?;
                }
                // Boxed: the session should not hold a command's memory while it waits.
                let next = Box::pin(command_and_memory(session, bytes)).await?;
                if next == Next::Close {
                    return session.wire.flush().await;
                }
                session.wire.relieve().await?;
                heavy::command_ended().await;
            }
            Some(CommandFrame::LiteralWanted(wanted)) => answer_literal(session, &wanted).await?,
            Some(CommandFrame::LineTooLong { tag }) => {
                let bytes = session.permit.as_ref().map_or(0, BytePermit::bytes);
                session.give_back_memory(bytes);
                bad(session, tag, Reply::bad(format!("Lines may have at most {LINE_BYTES_MAX} bytes")));
            }
            None => match wait_for_input(session).await? {
                Next::Command => {}
                Next::Close => return session.wire.flush().await,
            },
        }
        if too_many_bad_commands(session) {
            session.wire.say_bye("Too many bad commands");
            return session.wire.flush().await;
        }
    }
}

/// Waits until the account may give commands again. `Close` if the server ends the session
/// meanwhile.
async fn hold_back(session: &mut Session) -> Result<Next, NetError> {
    // Commands before this one are answered first.
    session.wire.flush().await?;
    let Session { wire, endings, .. } = session;
    let ending = tokio::select! {
        biased;
        ending = endings.reached() => ending,
        allowed = wire.command_allowed() => return allowed.map(|()| Next::Command),
    };
    wire.say_bye(ending.text());
    Ok(Next::Close)
}

/// Waits before a command of a client that gives many without a login.
async fn slow_down(session: &mut Session, wait: Duration) -> Result<(), NetError> {
    // Commands before this one are answered first.
    session.wire.flush().await?;
    session.wire.clock().sleep(wait).await;
    Ok(())
}

/// Parses a command of an account. All octets of a literal are looked at, so long ones are parsed
/// on another thread: one at a time for each account.
async fn parsed(
    heavy: &Heavy,
    account: Option<AccountId>,
    bytes: Bytes,
    names: NameEncoding,
) -> Result<Command, ParseError> {
    if bytes.len() <= PARSED_HERE_MAX {
        return parse_command(&bytes, names);
    }
    // Before a login no command is long (`judge_literal`). If one were, all such would take
    // turns.
    let account = account.unwrap_or(AccountId(Id::from_bytes([0; 16])));
    // Boxed: nearly no command is long.
    let work = Box::pin(heavy.run(account, move || parse_command(&bytes, names)));
    work.await.unwrap_or_else(|_| {
        let expected = "a command that can be parsed";
        Err(ParseError { tag: None, kind: ParseErrorKind::Limit, offset: 0, expected })
    })
}

/// Executes a command, and gives back the memory that it was in.
pub(crate) async fn command_and_memory(session: &mut Session, bytes: Bytes) -> Result<Next, NetError> {
    session.is_at_rest = false;
    let len = bytes.len();
    // This clone is dropped last, so `free` decides where the memory is freed, not the command.
    let long = (len > FREED_HERE_MAX).then(|| bytes.clone());
    let next = one_command(session, bytes).await;
    // After NOTIFY the session reports events while it waits.
    session.is_at_rest = session.notify.is_none();
    session.is_permit_due = false;
    // The order matters: the permit is returned after the memory.
    let permit = session.permit.take();
    if permit.is_some() {
        free((session.wire.own_input(), long, permit), len);
    } else {
        free(long, len);
    }
    next
}

/// Parses and executes a command, and answers it.
pub(crate) async fn one_command(session: &mut Session, bytes: Bytes) -> Result<Next, NetError> {
    let account = session.login.as_ref().map(|login| login.id);
    let command = match parsed(&session.service.heavy, account, bytes, session.wire.names).await {
        Ok(command) => command,
        Err(error) => {
            if error.kind == (ParseErrorKind::BadCharset { saving: true })
                && let Some(selected) = &mut session.selected
            {
                // RFC 5182 §2.1
                selected.saved_search = SavedSearch::default();
            }
            let (tag, reply) = of_parse_error(error);
            bad(session, tag, reply);
            return Ok(Next::Command);
        }
    };
    command::dispatch(session, command).await
}

/// The response to input that is not a valid command.
fn of_parse_error(error: ParseError) -> (Option<Tag>, Reply) {
    let text = error.to_string();
    let reply = match error.kind {
        ParseErrorKind::BadCharset { .. } => {
            // RFC 9051 §7.1: "this lists the charsets that are supported by this implementation".
            Reply::no(Code::BadCharset(CHARSETS.iter().map(|&name| name.to_owned()).collect()), text)
        }
        ParseErrorKind::FilterCharset => {
            let charsets = ["US-ASCII", "UTF-8"].map(str::to_owned).to_vec();
            Reply::bad(text).with(Code::BadCharset(charsets))
        }
        ParseErrorKind::Tag
        | ParseErrorKind::UnknownCommand
        | ParseErrorKind::Syntax
        | ParseErrorKind::Limit => Reply::bad(text),
    };
    (error.tag, reply)
}

/// Answers a bad command, and counts it.
fn bad(session: &mut Session, tag: Option<Tag>, reply: Reply) {
    session.bad_commands += 1;
    session.wire.say_status(reply.status(tag));
}

fn too_many_bad_commands(session: &Session) -> bool {
    let max = session.service.options.bad_commands_max;
    let max = if session.state() == State::NotAuthenticated { (max / 4).max(1) } else { max };
    session.bad_commands >= max
}

/// Accepts or refuses an announced literal.
async fn answer_literal(session: &mut Session, wanted: &LiteralWanted) -> Result<(), NetError> {
    let judged = match judge_literal(session, wanted) {
        Ok(()) => match quota_check::due(&mut session.wire, wanted) {
            // Boxed: nearly no command brings a message.
            Some(message) => Box::pin(quota_check::check(session, &message, wanted.size)).await,
            None => Ok(()),
        },
        refused => refused,
    };
    if let Err(reply) = judged {
        session.wire.refuse_literal(wanted);
        session.give_back_memory(wanted.held);
        // Refusing a large message or value does not mean that the client is broken.
        let is_fault = !wanted.append && reply.kind == StatusKind::Bad;
        session.wire.say_status(reply.status(wanted.tag.clone()));
        if is_fault {
            session.bad_commands += 1;
        }
        return Ok(());
    }
    session.wire.accept_literal(wanted);
    match wanted.sync {
        LiteralSync::Waits => {
            session.wire.say_continue("Go ahead");
            flush(session).await
        }
        LiteralSync::Follows => Ok(()),
    }
}

/// Sends the printed responses. An APPEND that is arriving can be evicted meanwhile.
async fn flush(session: &mut Session) -> Result<(), NetError> {
    session.begin_permit();
    let Session { wire, permit, .. } = session;
    let Some(held) = permit else { return wire.flush().await };
    // Boxed: nearly no write happens during an APPEND.
    if let Some(dropped) = Box::pin(wire.flush_beside(held.revoked())).await? {
        *permit = None;
        wire.say_status(no_memory().status(dropped.tag));
    }
    Ok(())
}

/// Whether a literal is accepted: it must fit the size limits and the memory that all sessions
/// share.
fn judge_literal(session: &mut Session, wanted: &LiteralWanted) -> Result<(), Reply> {
    let options = &session.service.options;
    let together = wanted.size.saturating_add(wanted.held as u64);
    if session.state() == State::NotAuthenticated {
        let fits = !wanted.append && wanted.size <= LITERAL_BEFORE_LOGIN_MAX && together <= COMMAND_BYTES_MAX;
        return if fits { Ok(()) } else { Err(Reply::bad("Log in before you send a literal of this size")) };
    }
    if !wanted.append {
        let fits = wanted.size <= TEXT_LITERAL_BYTES_MAX && together <= COMMAND_BYTES_MAX;
        if wanted.annotation && !fits {
            let is_long = wanted.size > ANNOTATION_BYTES_MAX as u64;
            return Err(if is_long { metadata::too_long() } else { metadata::too_many() });
        }
        if wanted.store && !fits {
            return Err(annotate::reader::too_long());
        }
        return if fits { Ok(()) } else { Err(Reply::bad("The literal is too long")) };
    }
    // RFC 7889 §4
    if wanted.size > options.append_bytes_max {
        let text = format!("Messages may have at most {} bytes", options.append_bytes_max);
        return Err(Reply::no(Code::TooBig, text));
    }
    if together > options.append_total_bytes_max {
        let text = format!("One APPEND may have at most {} bytes", options.append_total_bytes_max);
        return Err(Reply::no(Code::TooBig, text));
    }
    if session.login.is_none() {
        return Err(Reply::bad("Log in first"));
    }
    // The announcement itself reserves nothing: memory is reserved as the bytes arrive.
    if usize::try_from(together).is_ok_and(|bytes| bytes <= session.service.budget.attainable()) {
        session.is_permit_due = true;
        return Ok(());
    }
    Err(no_memory())
}

/// Reserves memory for the bytes of a message that have arrived, before more are read. Returns
/// whether the APPEND may continue.
async fn pay_for_input(session: &mut Session) -> bool {
    let Some(permit) = &session.permit else { return true };
    let InputBytes { held, missing } = session.wire.input_bytes();
    if permit.bytes() >= held {
        return true;
    }
    // Twice as much each time, as the buffer grows, and never more than announced.
    let wanted = (permit.bytes() * 2).clamp(held, held + missing);
    permit.grow_to_within(wanted, MEMORY_WITHIN).await.is_ok()
}

/// Cancels the incoming APPEND. The rest of it is read and discarded.
fn drop_literal(session: &mut Session) {
    let bytes = session.wire.input_bytes().held;
    let tag = session.wire.drop_literal();
    session.give_back_memory(bytes);
    session.wire.say_status(no_memory().status(tag));
}

/// Counts bytes that came.
async fn count_received(session: &mut Session, bytes: usize) {
    if let Some(permit) = &mut session.permit {
        permit.note_arrived(bytes);
    }
    // This may yield: a fast sender always has more bytes ready, of a message or of a line without
    // an end.
    session.wire.note_arrived(bytes).await;
}

/// Sends the printed responses and waits for the client. `Close` if the server ends the session.
async fn wait_for_input(session: &mut Session) -> Result<Next, NetError> {
    flush(session).await?;
    if session.wire.has_output() {
        // The input was dropped, and the answer to it is printed but not sent.
        return Ok(Next::Command);
    }
    posthaste_metrics::command_answered();
    // Boxed: nearly no wait needs it.
    if session.permit.is_some() && !Box::pin(pay_for_input(session)).await {
        drop_literal(session);
        return Ok(Next::Command);
    }
    let mid_command = session.wire.mid_command();
    if !mid_command {
        session.wire.release();
    }
    let within = read_timeout(session, mid_command);
    let unread_max = unread_max(session);
    if session.notify.is_some() && !mid_command && session.permit.is_none() {
        // Boxed: few sessions request notifications.
        return Box::pin(waiting::for_command(session, unread_max, within)).await;
    }
    let Session { wire, endings, permit, .. } = session;
    let displaced = async {
        match permit {
            Some(permit) => permit.revoked().await,
            None => std::future::pending().await,
        }
    };
    let filled = async {
        match mid_command {
            // The client may hold back the rest until these bytes are acknowledged.
            true => wire.fill_rest(unread_max, within).await,
            false => wire.fill(unread_max, within).await,
        }
    };
    // On shutdown, a command that has only partly arrived is not waited for.
    tokio::select! {
        biased;
        ending = endings.reached() => {
            session.wire.say_bye(ending.text());
            Ok(Next::Close)
        }
        filled = filled => match filled {
            Ok(bytes) => {
                count_received(session, bytes).await;
                Ok(Next::Command)
            }
            Err(NetError::TimedOut(_)) => {
                session.wire.say_bye(if mid_command { "Your command took too long" } else { "Idle for too long" });
                Ok(Next::Close)
            }
            Err(error) => Err(error),
        },
        () = displaced => {
            drop_literal(session);
            Ok(Next::Command)
        }
    }
}

/// The timeout of a read: before login, within a command, or between commands.
fn read_timeout(session: &Session, mid_command: bool) -> Duration {
    let options = &session.service.options;
    if session.state() == State::NotAuthenticated {
        return session.login_timeout();
    }
    let whole = session.permit.as_ref().map_or(MESSAGE_WITHIN, BytePermit::time_left);
    if mid_command { options.command_within.min(whole) } else { options.silence_within }
}

/// The limit of unread bytes: the accepted literal, and a line.
fn unread_max(session: &mut Session) -> usize {
    let InputBytes { held, missing } = session.wire.input_bytes();
    held.saturating_add(missing.max(1)).saturating_add(2 * LINE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::SocketAddr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use posthaste_directory::NewAccount;
    use posthaste_imap_codec::CommandBody;
    use posthaste_mail_model::Secret;
    use posthaste_net::{Stream, given_to_compute_threads};
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::size_tests::service;

    fn append_of(len: usize) -> Bytes {
        let mut command = format!("a APPEND INBOX {{{len}+}}\r\n").into_bytes();
        command.resize(command.len() + len, b'x');
        command.extend_from_slice(b"\r\n");
        command.into()
    }

    fn account(number: u8) -> Option<AccountId> {
        Some(AccountId(Id::from_bytes([number; 16])))
    }

    #[tokio::test]
    async fn a_long_command_is_parsed_on_another_thread() {
        let heavy = Heavy::new();
        for (len, is_long) in [(1000, false), (PARSED_HERE_MAX - 100, false), (PARSED_HERE_MAX, true)] {
            let given = given_to_compute_threads();
            let command = parsed(&heavy, account(1), append_of(len), NameEncoding::Utf7).await.unwrap();
            assert!(matches!(command.body, CommandBody::Append { .. }));
            assert_eq!(given_to_compute_threads() - given, usize::from(is_long), "{len} octets");
        }
    }

    #[tokio::test]
    async fn long_commands_of_an_account_are_parsed_one_at_a_time() {
        let heavy = Heavy::new();
        let long = |of| parsed(&heavy, of, append_of(PARSED_HERE_MAX), NameEncoding::Utf7);
        let held = heavy.acquire_of(account(1).unwrap()).await;
        let mut second = pin!(long(account(1)));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        long(account(2)).await.unwrap();
        // A short command waits for nothing.
        parsed(&heavy, account(1), append_of(1000), NameEncoding::Utf7).await.unwrap();
        assert_eq!(heavy.waiting_of(account(1).unwrap()), 1);
        drop(held);
        second.await.unwrap();
    }

    /// Each message that came in one read had a permit, which it never used.
    #[tokio::test]
    async fn an_append_has_a_permit_once_its_session_waits_for_more_of_it() {
        let service = Arc::new(service());
        let password = Secret::new("correct horse".to_owned());
        let ana = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        service.delivery.mailboxes(&ana).await.unwrap();
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
        let (_trigger, shutdown) = Shutdown::new();
        let mut session = Session::on(service, connection, shutdown);
        session.login = Some(Arc::new(ana));
        for end in ["\r\n", ""] {
            client.write_all(format!("a APPEND INBOX {{6+}}\r\nA: b\r\n{end}").as_bytes()).await.unwrap();
            assert_eq!(wait_for_input(&mut session).await.unwrap(), Next::Command);
            let Some(CommandFrame::LiteralWanted(wanted)) = session.wire.next_frame() else {
                panic!("{end:?}")
            };
            answer_literal(&mut session, &wanted).await.unwrap();
            assert!(session.permit.is_none());
            match session.wire.next_frame() {
                Some(CommandFrame::Command(bytes)) => {
                    command_and_memory(&mut session, bytes).await.unwrap();
                    assert!(session.permit.is_none() && !session.is_permit_due);
                }
                frame => {
                    assert_eq!((frame, end), (None, ""));
                    {
                        let mut waiting = pin!(wait_for_input(&mut session));
                        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                    }
                    assert!(session.permit.is_some());
                }
            }
        }
    }
}
