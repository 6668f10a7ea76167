//! The commands that a session may run in its state, without a socket.

use std::fmt::Write as _;
use std::sync::Arc;

use posthaste_directory::sasl::Mechanisms;
use posthaste_directory::{Account, LoginFailure, SCRIPT_BYTES_MAX, ScriptError};
use posthaste_sieve::{ExtensionSet, Limits};

use crate::reply::{Reply, string};
use crate::syntax::{Command, STRANGER_LEN_MAX, USER_LEN_MAX};

/// Errors that a client may make before it is disconnected: as in the other servers.
const ERRORS_MAX: u32 = 20;

/// The next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Reply(Reply),
    Close(Reply),
    Capabilities,
    Authenticate { mechanism: String, initial: Option<String> },
    StartTls,
    LogOut,
    Script(ScriptAct),
}

/// An action on the scripts of the account that logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptAct {
    HaveSpace { name: String, octets: u64 },
    Put { name: String, text: String },
    List,
    SetActive(String),
    Get(String),
    Delete(String),
    Rename { from: String, to: String },
    Check(String),
}

/// The state of a session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Shared with the other sessions of the account.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) is_encrypted: bool,
    pub(crate) offers_tls: bool,
    pub(crate) errors: u32,
}

impl Session {
    /// Octets that the next command may have.
    pub(crate) fn command_len_max(&self) -> usize {
        if self.account.is_some() { USER_LEN_MAX } else { STRANGER_LEN_MAX }
    }

    /// The capabilities, without the line that ends them: RFC 5804 §1.7.
    pub(crate) fn capabilities(&self, mechanisms: Mechanisms, into: &mut String) {
        let mut say = |name: &str, value: Option<&str>| {
            string(name, into);
            if let Some(value) = value {
                into.push(' ');
                string(value, into);
            }
            into.push_str("\r\n");
        };
        let extensions: Vec<&str> = ExtensionSet::all().iter().map(|one| one.name()).collect();
        // LOGIN and XOAUTH2 were never standardised; RFC 5804 requires that the named mechanisms
        // are registered.
        let registered = |name: &&str| !matches!(*name, "LOGIN" | "XOAUTH2");
        let mechanisms: Vec<&str> = mechanisms.names().filter(registered).collect();
        say("IMPLEMENTATION", Some("Posthaste"));
        say("SASL", Some(&mechanisms.join(" ")));
        say("SIEVE", Some(&extensions.join(" ")));
        say("NOTIFY", Some("mailto"));
        say("MAXREDIRECTS", Some(&Limits::default().redirects_max.to_string()));
        if self.offers_tls && !self.is_encrypted {
            say("STARTTLS", None);
        }
        say("UNAUTHENTICATE", None);
        if let Some(account) = &self.account {
            say("OWNER", Some(&account.name));
        }
        say("VERSION", Some("1.0"));
    }

    /// Decides about a command.
    pub(crate) fn command(&mut self, command: Command) -> Action {
        let act = match command {
            Command::Capability => return Action::Capabilities,
            Command::Logout => return Action::Close(Reply::ok("Goodbye")),
            Command::Noop(tag) => return Action::Reply(noop(tag)),
            Command::StartTls => return self.start_tls(),
            Command::Authenticate { mechanism, initial } => {
                return match self.account {
                    Some(_) => self.mistake("You are logged in"),
                    None => Action::Authenticate { mechanism, initial },
                };
            }
            Command::Unauthenticate => {
                return match self.account.take() {
                    Some(_) => Action::LogOut,
                    None => self.mistake("You are not logged in"),
                };
            }
            Command::HaveSpace { name, octets } => ScriptAct::HaveSpace { name, octets },
            Command::PutScript { name, text } => ScriptAct::Put { name, text },
            Command::ListScripts => ScriptAct::List,
            Command::SetActive(name) => ScriptAct::SetActive(name),
            Command::GetScript(name) => ScriptAct::Get(name),
            Command::DeleteScript(name) => ScriptAct::Delete(name),
            Command::RenameScript { from, to } => ScriptAct::Rename { from, to },
            Command::CheckScript(text) => ScriptAct::Check(text),
        };
        match self.account {
            Some(_) => Action::Script(act),
            None => self.mistake("Log in first"),
        }
    }

    fn start_tls(&mut self) -> Action {
        match (self.offers_tls, self.is_encrypted, &self.account) {
            (true, false, None) => Action::StartTls,
            (true, true, _) => self.mistake("TLS is active already"),
            (true, false, Some(_)) => self.mistake("STARTTLS must come before the login"),
            (false, _, _) => self.mistake("TLS is not offered here"),
        }
    }

    /// An illegal command. It is counted: a peer that sends many is no mail program.
    pub(crate) fn mistake(&mut self, text: &'static str) -> Action {
        self.errors += 1;
        match self.errors {
            ..=ERRORS_MAX => Action::Reply(Reply::no(text)),
            _ => Action::Close(Reply::bye("Too many errors")),
        }
    }

    /// A login that failed: counted as well.
    pub(crate) fn login_failed(&mut self, failure: &LoginFailure) -> Action {
        self.errors += 1;
        if self.errors > ERRORS_MAX {
            return Action::Close(Reply::bye("Too many errors"));
        }
        let reply = Reply::no(match failure {
            // Unauthenticated clients learn nothing about the store's state.
            LoginFailure::Unavailable(_) => "Logins are unavailable; try again later".to_owned(),
            failure => failure.to_string(),
        });
        Action::Reply(match failure {
            LoginFailure::EncryptionRequired => reply.with_code("ENCRYPT-NEEDED"),
            LoginFailure::TooMany | LoginFailure::Unavailable(_) => reply.with_code("TRYLATER"),
            _ => reply,
        })
    }
}

/// RFC 5804 §2.13.
fn noop(tag: Option<String>) -> Reply {
    let Some(tag) = tag else { return Reply::ok("NOOP completed") };
    let mut code = "TAG ".to_owned();
    string(&tag, &mut code);
    Reply::ok("Done").with_code(code)
}

/// The response code of a failure: RFC 5804 §1.3.
pub(crate) fn failure(error: &ScriptError) -> Reply {
    let mut text = String::new();
    let _ = write!(text, "{error}");
    match error {
        ScriptError::Name => Reply::no(text),
        ScriptError::TooLarge(_) | ScriptError::ControlCharacters => {
            Reply::no(text).with_code("QUOTA/MAXSIZE")
        }
        ScriptError::TooMany => Reply::no(text).with_code("QUOTA/MAXSCRIPTS"),
        ScriptError::NoScript(_) => Reply::no(text).with_code("NONEXISTENT"),
        ScriptError::Active(_) => Reply::no(text).with_code("ACTIVE"),
        ScriptError::Exists(_) => Reply::no(text).with_code("ALREADYEXISTS"),
        // Unauthenticated clients learn nothing about the store's state.
        ScriptError::Directory(_) => {
            Reply::no("The scripts are unavailable; try again later").with_code("TRYLATER")
        }
    }
}

/// The answer to a command over the limit.
pub(crate) fn too_long() -> Reply {
    Reply::no(format!("a script has at most {SCRIPT_BYTES_MAX} octets")).with_code("QUOTA/MAXSIZE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_touch_no_script_and_are_shown_the_door() {
        let mut session = Session { offers_tls: true, ..Session::default() };
        assert_eq!(session.command_len_max(), STRANGER_LEN_MAX);
        assert_eq!(session.command(Command::StartTls), Action::StartTls);
        assert_eq!(session.command(Command::Capability), Action::Capabilities);
        for _ in 0..ERRORS_MAX {
            assert_eq!(session.command(Command::ListScripts), Action::Reply(Reply::no("Log in first")));
        }
        assert!(matches!(session.command(Command::ListScripts), Action::Close(_)));
    }

    #[test]
    fn capabilities_are_those_of_the_state() {
        let mut session = Session { offers_tls: true, ..Session::default() };
        let mut text = String::new();
        use posthaste_directory::sasl::Mechanism;
        let mechanisms = Mechanisms::of(&[Mechanism::ScramSha256, Mechanism::Plain, Mechanism::Login]);
        session.capabilities(mechanisms, &mut text);
        assert!(
            text.contains("\"SASL\" \"SCRAM-SHA-256 PLAIN\"\r\n") && text.contains("\"STARTTLS\"\r\n"),
            "{text}"
        );
        assert!(text.contains("\"SIEVE\" \"") && text.ends_with("\"VERSION\" \"1.0\"\r\n"), "{text}");
        session.is_encrypted = true;
        text.clear();
        session.capabilities(Mechanisms::default(), &mut text);
        assert!(text.contains("\"SASL\" \"\"\r\n") && !text.contains("STARTTLS"), "{text}");
    }
}
