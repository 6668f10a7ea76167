//! The state machine of a session. Lines go in. Answers and actions for its driver come out.
//!
//! RFC 1939 §3: a session is in the AUTHORIZATION state until a login, then in TRANSACTION. QUIT
//! leads to UPDATE. The driver does UPDATE: it removes the marked messages.

use std::sync::Arc;

use posthaste_directory::sasl::Mechanisms;
use posthaste_directory::{LoginError, LoginFailure};
use posthaste_mail_model::Secret;
use posthaste_retention::Stay;
use posthaste_store::{Row, StoreError};

use crate::command::{Command, SyntaxError};
use crate::maildrop::{DropListing, ListedValue, Listing, Maildrop};
use crate::options::Pop3Options;
use crate::print::number;

/// The facts of its connection that the session needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether TLS is active.
    pub encrypted: bool,
    /// Whether STLS is available.
    pub stls: bool,
    /// Whether a password may be sent now.
    pub passwords: bool,
    /// SASL mechanisms that are offered now.
    pub mechanisms: Mechanisms,
}

/// The next action of the driver. Answers are already in the buffer, unless stated otherwise.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Answered,
    /// The session is over.
    Close,
    /// Log in, then [`Session::logged_in`] or [`Session::login_failed`].
    LogIn {
        /// As the client named it.
        name: String,
        /// The password of the user.
        password: Secret<String>,
    },
    /// Run an exchange, then the same.
    Authenticate {
        /// As the client names it, in capitals.
        mechanism: String,
        /// The initial response, if there was one.
        initial: Option<Secret<Vec<u8>>>,
    },
    /// Answer, do the handshake, then [`Session::tls_started`].
    StartTls,
    /// Print the rest of a listing with [`Session::lines`].
    List(Listing),
    /// Make the sizes of all messages, or of one, then [`Session::sized`] with the command. Nothing
    /// is answered yet.
    Size {
        /// The number of the message, if only one is named.
        only: Option<u32>,
        /// STAT or LIST.
        command: Command,
    },
    /// Send a message: all of it, or its header and this many lines.
    Retrieve {
        /// The row of the message.
        row: Row,
        /// For TOP.
        lines: Option<u64>,
    },
    /// Remove the marked messages, answer with [`Session::removed`], and close.
    Remove,
}

/// The reason why the server cannot carry out a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The account has too many connections.
    TooManyConnections,
    /// The account logged in too short a time ago.
    TooSoon,
    /// The message was expunged meanwhile.
    Expunged,
    /// The store failed; whether a later try may succeed.
    Store {
        /// Whether it may.
        temporary: bool,
    },
    /// The server stops.
    Stops,
    /// The account was changed so that its login no longer holds.
    Revoked,
}

impl Refusal {
    /// A failure of the store, which goes to the log: its text may name paths. An account that was
    /// removed during the login is no failure.
    pub fn of_store(error: &StoreError) -> Self {
        if matches!(error, StoreError::AccountRemoved) {
            return Self::Revoked;
        }
        tracing::error!(%error, "POP3: the store cannot be used");
        Self::Store { temporary: error.is_temporary() }
    }

    /// With the response code (RFC 2449 §8, RFC 3206 §4).
    const fn text(self) -> &'static str {
        match self {
            Self::TooManyConnections => "[IN-USE] Your account has too many connections, close some of them",
            Self::TooSoon => "[LOGIN-DELAY] You logged in a moment ago, try again later",
            Self::Expunged => "The message was removed in another session",
            Self::Store { temporary: true } => "[SYS/TEMP] Storage is unavailable, try again later",
            Self::Store { temporary: false } => "[SYS/PERM] Stored data is damaged, ask the administrator",
            Self::Stops => "[SYS/TEMP] The server is shutting down, try again later",
            Self::Revoked => {
                "[AUTH] Your login has ended: the account is disabled or removed, or its credential is no longer valid"
            }
        }
    }
}

/// One client's session.
pub struct Session {
    options: Arc<Pop3Options>,
    link: Link,
    user: Option<String>,
    maildrop: Option<Maildrop>,
    /// The account's name, after the login.
    account: Option<String>,
    utf8: bool,
    errors: u32,
    failed_logins: u32,
}

impl Session {
    /// A session before its greeting.
    pub fn new(options: Arc<Pop3Options>, link: Link) -> Self {
        let (user, maildrop, account) = (None, None, None);
        Self { options, link, user, maildrop, account, utf8: false, errors: 0, failed_logins: 0 }
    }

    /// Prints the greeting. It has no timestamp, so there is no APOP (RFC 1939 §7). A text that
    /// begins with a bracket is a response code (RFC 2449 §8). So an address literal loses its own.
    pub fn welcome(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"+OK ");
        out.extend_from_slice(self.options.hostname.trim_matches(['[', ']']).as_bytes());
        out.extend_from_slice(b" Posthaste POP3 ready\r\n");
    }

    /// Whether someone is logged in.
    pub fn is_logged_in(&self) -> bool {
        self.maildrop.is_some()
    }

    /// Takes a line, without its end.
    pub fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Action {
        let action = match Command::parse(line) {
            Ok(command) => self.command(command, out),
            Err(error) => self.mistake(&error.to_string(), out),
        };
        self.bounded(action, out)
    }

    /// Takes a line that cannot be a command.
    pub fn bad_line(&mut self, error: SyntaxError, out: &mut Vec<u8>) -> Action {
        let action = self.mistake(&error.to_string(), out);
        self.bounded(action, out)
    }

    fn command(&mut self, command: Command, out: &mut Vec<u8>) -> Action {
        match command {
            // RFC 2449 §5: in both states.
            Command::Capa => {
                self.capabilities(out);
                Action::Answered
            }
            Command::Lang(tag) => self.language(tag.as_deref(), out),
            Command::Quit => self.quit(out),
            command if self.is_logged_in() => self.transaction(command, out),
            command => self.authorization(command, out),
        }
    }

    fn authorization(&mut self, command: Command, out: &mut Vec<u8>) -> Action {
        match command {
            // The answer does not show whether the account exists.
            Command::User(_) | Command::Pass(_) if !self.link.passwords => {
                self.mistake("Passwords are accepted only over TLS: use STLS", out)
            }
            Command::User(name) => {
                self.user = Some(name);
                ok("Send your password", out)
            }
            Command::Pass(password) => match self.user.take() {
                Some(name) => Action::LogIn { name, password },
                None => self.mistake("Say USER first", out),
            },
            Command::Auth { mechanism: Some(mechanism), initial } => {
                Action::Authenticate { mechanism, initial }
            }
            Command::Auth { mechanism: None, .. } => {
                ok("Mechanisms follow", out);
                for name in self.link.mechanisms.names() {
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b".\r\n");
                Action::Answered
            }
            Command::Stls => self.stls(out),
            Command::Utf8 => {
                self.utf8 = true;
                ok("Names and passwords may be UTF-8", out)
            }
            Command::Apop => self.mistake("APOP is not offered: use AUTH, or USER and PASS", out),
            _ => self.mistake("Log in first", out),
        }
    }

    fn stls(&mut self, out: &mut Vec<u8>) -> Action {
        if self.link.encrypted {
            return self.mistake("TLS is active", out);
        }
        if !self.link.stls {
            return self.mistake("TLS is not available", out);
        }
        // RFC 6856 §2.1: STLS comes first.
        if self.utf8 {
            return self.mistake("STLS comes before UTF8", out);
        }
        Action::StartTls
    }

    fn transaction(&mut self, command: Command, out: &mut Vec<u8>) -> Action {
        let Some(maildrop) = &mut self.maildrop else { return self.mistake("Log in first", out) };
        match command {
            Command::Stat | Command::List(None) if !maildrop.is_sized() => {
                Action::Size { only: None, command }
            }
            Command::List(Some(n)) if maildrop.row(n).is_some_and(|row| row.lacks_items()) => {
                maildrop.number();
                Action::Size { only: Some(n), command }
            }
            // It shows no message number, so newer messages may still take the place of others.
            Command::Noop => ok("Nothing done", out),
            command => self.answer(command, out),
        }
    }

    /// The sizes that a command needs are made.
    pub fn sized(&mut self, command: Command, out: &mut Vec<u8>) -> Action {
        let action = self.answer(command, out);
        self.bounded(action, out)
    }

    /// The messages of the session, after the login.
    pub fn maildrop(&mut self) -> Option<&mut Maildrop> {
        self.maildrop.as_mut()
    }

    fn answer(&mut self, command: Command, out: &mut Vec<u8>) -> Action {
        let Some(maildrop) = &mut self.maildrop else { return self.mistake("Log in first", out) };
        maildrop.number();
        match command {
            Command::Stat => {
                let DropListing { messages, octets } = maildrop.stat();
                out.extend_from_slice(b"+OK ");
                number(out, u64::from(messages));
                out.push(b' ');
                number(out, octets);
                out.extend_from_slice(b"\r\n");
                Action::Answered
            }
            Command::List(None) => {
                let DropListing { messages, octets } = maildrop.stat();
                out.extend_from_slice(b"+OK ");
                number(out, u64::from(messages));
                out.extend_from_slice(b" messages (");
                number(out, octets);
                out.extend_from_slice(b" octets)\r\n");
                Action::List(Listing::new(ListedValue::Sizes))
            }
            Command::Uidl(None) => {
                ok("Unique ids follow", out);
                Action::List(Listing::new(ListedValue::Ids))
            }
            Command::List(Some(n)) => self.one(ListedValue::Sizes, n, out),
            Command::Uidl(Some(n)) => self.one(ListedValue::Ids, n, out),
            Command::Retr(n) => self.retrieve(n, None, out),
            Command::Top { number, lines } => self.retrieve(number, Some(lines), out),
            Command::Dele(n) if maildrop.mark(n) => ok("Removed at QUIT", out),
            Command::Dele(_) => self.no_such_message(out),
            Command::Rset => {
                maildrop.reset();
                ok("Nothing is marked", out)
            }
            _ => self.mistake("You are logged in", out),
        }
    }

    fn one(&mut self, what: ListedValue, n: u32, out: &mut Vec<u8>) -> Action {
        let found = self.maildrop.as_ref().and_then(|maildrop| Some((maildrop, maildrop.row(n)?)));
        let Some((maildrop, row)) = found else { return self.no_such_message(out) };
        out.extend_from_slice(b"+OK ");
        maildrop.line(what, n, &row, out);
        out.extend_from_slice(b"\r\n");
        Action::Answered
    }

    fn retrieve(&mut self, n: u32, lines: Option<u64>, out: &mut Vec<u8>) -> Action {
        match self.maildrop.as_ref().and_then(|maildrop| maildrop.row(n)) {
            Some(row) => Action::Retrieve { row, lines },
            None => self.no_such_message(out),
        }
    }

    fn no_such_message(&mut self, out: &mut Vec<u8>) -> Action {
        self.mistake("There is no such message", out)
    }

    fn quit(&mut self, out: &mut Vec<u8>) -> Action {
        if self.maildrop.as_ref().is_some_and(|maildrop| maildrop.marked() > 0) {
            return Action::Remove;
        }
        ok("Goodbye", out);
        Action::Close
    }

    /// RFC 2449 §6, RFC 2595 §4, RFC 3206 §6, RFC 5034 §3, RFC 6856 §2, §3.
    fn capabilities(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"+OK Capabilities follow\r\nTOP\r\nUIDL\r\nRESP-CODES\r\nAUTH-RESP-CODE\r\nPIPELINING\r\n\
              UTF8 USER\r\nLANG\r\n",
        );
        self.expire(out);
        out.extend_from_slice(b"LOGIN-DELAY ");
        number(out, self.options.login_delay.as_secs());
        out.extend_from_slice(b"\r\n");
        // RFC 2595 §4: STLS is listed only while it is permitted.
        if self.link.stls && !self.link.encrypted && !self.is_logged_in() {
            out.extend_from_slice(b"STLS\r\n");
        }
        // RFC 2449 §5: capabilities that are available before the login are listed after it, too.
        if self.link.passwords {
            out.extend_from_slice(b"USER\r\n");
        }
        if !self.link.mechanisms.is_empty() {
            out.extend_from_slice(b"SASL");
            for name in self.link.mechanisms.names() {
                out.push(b' ');
                out.extend_from_slice(name.as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"IMPLEMENTATION Posthaste\r\n.\r\n");
    }

    /// RFC 2449 §6.7: after the login, the number of days of this user. Before it, the smallest
    /// number of all users, and USER if the numbers differ. No line if no number can be promised.
    fn expire(&self, out: &mut Vec<u8>) {
        let expiry = &self.options.expiry;
        let stay = self.account.as_deref().map_or_else(|| expiry.least(), |account| expiry.of(account));
        match stay {
            Stay::Uncertain => return,
            Stay::Forever => out.extend_from_slice(b"EXPIRE NEVER"),
            Stay::Days(days) => {
                out.extend_from_slice(b"EXPIRE ");
                number(out, days);
            }
        }
        let may_differ = self.account.is_none() && expiry.differs();
        out.extend_from_slice(if may_differ { &b" USER\r\n"[..] } else { b"\r\n" });
    }

    /// RFC 6856 §3: all answers are in English.
    fn language(&mut self, tag: Option<&str>, out: &mut Vec<u8>) -> Action {
        let Some(tag) = tag else {
            ok("Languages follow", out);
            out.extend_from_slice(b"en English\r\ni-default English\r\n.\r\n");
            return Action::Answered;
        };
        let is = |name: &str| name.eq_ignore_ascii_case(tag);
        let is_english = tag.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("en-"));
        match () {
            () if is("i-default") => ok("i-default Answers are in English", out),
            () if is("*") || is("en") || is_english => ok("en Answers are in English", out),
            () => self.mistake("Answers are in English only", out),
        }
    }

    /// Prints the next part of a listing, its end included. Whether there is more.
    pub fn lines(&self, listing: &mut Listing, out: &mut Vec<u8>) -> bool {
        let more = self.maildrop.as_ref().is_some_and(|maildrop| maildrop.lines(listing, out));
        if !more {
            out.extend_from_slice(b".\r\n");
        }
        more
    }

    /// TLS is active: nothing that was sent before counts (RFC 2595 §4).
    pub fn tls_started(&mut self, link: Link) {
        (self.link, self.user, self.utf8) = (link, None, false);
    }

    /// The login of this account succeeded.
    pub fn logged_in(&mut self, account: &str, maildrop: Maildrop, out: &mut Vec<u8>) -> Action {
        let (DropListing { messages, octets }, is_sized) = (maildrop.stat(), maildrop.is_sized());
        self.account = Some(account.to_owned());
        self.maildrop = Some(maildrop);
        out.extend_from_slice(b"+OK Logged in: ");
        number(out, u64::from(messages));
        out.extend_from_slice(b" messages");
        if is_sized {
            out.extend_from_slice(b", ");
            number(out, octets);
            out.extend_from_slice(b" octets");
        }
        out.extend_from_slice(b"\r\n");
        Action::Answered
    }

    /// The login failed.
    pub fn login_failed(&mut self, error: &LoginError, out: &mut Vec<u8>) -> Action {
        self.failed_logins += 1;
        // RFC 3206 §4, RFC 2449 §8.1: [AUTH] has the client request another password.
        let code = match &error.failure {
            LoginFailure::Credentials | LoginFailure::Disabled | LoginFailure::AuthorizationId => "[AUTH] ",
            LoginFailure::ChannelBinding(_) | LoginFailure::Certificate | LoginFailure::Token(_) => "[AUTH] ",
            LoginFailure::Expired | LoginFailure::Scope => "[AUTH] ",
            LoginFailure::TooMany => "[SYS/TEMP] ",
            LoginFailure::Unavailable(why) => {
                tracing::error!(%why, "logins are unavailable");
                return self.refused("[SYS/TEMP] Logins are unavailable, try again later", out);
            }
            LoginFailure::Malformed(_)
            | LoginFailure::UnknownMechanism
            | LoginFailure::EncryptionRequired => "",
        };
        let text = format!("{code}{}", capitalised(&error.failure.to_string()));
        self.refused(&text, out)
    }

    /// The client cancelled the exchange, or sent an invalid response.
    pub fn login_cancelled(&mut self, error: Option<SyntaxError>, out: &mut Vec<u8>) -> Action {
        self.failed_logins += 1;
        match error {
            Some(error) => self.refused(&error.to_string(), out),
            None => self.refused("Login cancelled", out),
        }
    }

    /// The server cannot carry out the command.
    pub fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Action {
        match refusal {
            Refusal::Stops | Refusal::Revoked => {
                err(refusal.text(), out);
                Action::Close
            }
            Refusal::TooManyConnections | Refusal::TooSoon => {
                // It counts as a failed login, so that many attempts end the connection.
                self.failed_logins += 1;
                self.refused(refusal.text(), out)
            }
            Refusal::Expunged | Refusal::Store { .. } => {
                err(refusal.text(), out);
                Action::Answered
            }
        }
    }

    /// The marked messages were removed, or none of them.
    pub fn removed(&mut self, outcome: Result<(), Refusal>, out: &mut Vec<u8>) -> Action {
        match outcome {
            Ok(()) => {
                ok("Removed. Goodbye", out);
            }
            // RFC 1939 §6: the client learns that messages were not removed.
            Err(refusal) => err(refusal.text(), out),
        }
        Action::Close
    }

    fn refused(&mut self, text: &str, out: &mut Vec<u8>) -> Action {
        err(text, out);
        if self.failed_logins >= self.options.failed_logins_max { Action::Close } else { Action::Answered }
    }

    fn mistake(&mut self, text: &str, out: &mut Vec<u8>) -> Action {
        self.errors += 1;
        err(text, out);
        Action::Answered
    }

    fn bounded(&self, action: Action, out: &mut Vec<u8>) -> Action {
        if self.errors > self.options.errors_max && action == Action::Answered {
            out.extend_from_slice(b"-ERR Too many errors\r\n");
            return Action::Close;
        }
        action
    }
}

fn ok(text: &str, out: &mut Vec<u8>) -> Action {
    out.extend_from_slice(b"+OK ");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
    Action::Answered
}

fn err(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"-ERR ");
    // The text may come from another crate. A line end in it must not end the answer.
    out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_account_is_no_damage() {
        assert_eq!(Refusal::of_store(&StoreError::AccountRemoved), Refusal::Revoked);
        assert_eq!(Refusal::of_store(&StoreError::Busy), Refusal::Store { temporary: true });
        assert_eq!(Refusal::of_store(&StoreError::NoSuchName), Refusal::Store { temporary: false });
    }
}
