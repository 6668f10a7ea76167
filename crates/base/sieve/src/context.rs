//! The context of a run: the trait that the caller implements.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::date::Moment;
use crate::script::Script;

/// The place of the scripts among which `include` looks. RFC 6609 §3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// The account's own.
    Personal,
    /// The scripts of the whole server.
    Global,
}

/// The world around a message. Each question has an answer that is right for a server without the
/// thing requested, so an implementation writes only what it has. No answer may be slow: a run
/// waits for it.
pub trait Context {
    /// The reverse path of the envelope without angle brackets; empty for the null path.
    fn envelope_from(&self) -> &str;

    /// The recipient of the envelope for whom the script runs.
    fn envelope_to(&self) -> &str;

    /// The time, in the zone of the server or the account.
    fn now(&self) -> Moment;

    /// Addresses that are the account's own: replies are sent for mail to them (RFC 5230 §4.5).
    fn own_addresses(&self) -> &[String] {
        &[]
    }

    /// The separator between user and detail of an address (RFC 5233 §4); empty for nothing.
    fn subaddress_separator(&self) -> &str {
        "+"
    }

    /// Whether mail can be filed into this mailbox (RFC 5490 §3.1).
    fn mailbox_exists(&self, mailbox: &str) -> bool {
        mailbox.eq_ignore_ascii_case("INBOX")
    }

    /// Whether a mailbox has this id (RFC 9042 §3).
    fn mailbox_id_exists(&self, _id: &str) -> bool {
        false
    }

    /// Whether a mailbox, or the mailbox named, has this special use (RFC 8579 §4.1).
    fn special_use_exists(&self, _mailbox: Option<&str>, _flag: &str) -> bool {
        false
    }

    /// An annotation of a mailbox, or of the server (RFC 5490 §3, §5).
    fn metadata(&self, _mailbox: Option<&str>, _annotation: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// An item of the environment (RFC 5183 §4), by its name in lower case. `None` if unknown.
    fn environment(&self, _item: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// The flags that the message has before the run, which the internal variable of imap4flags
    /// begins with where a message is in a mailbox already (RFC 6785). New mail has none.
    fn flags(&self) -> &[String] {
        &[]
    }

    /// Whether this key was remembered and has not expired (RFC 7352 §3). The run does not
    /// remember it: [`crate::Effect::Remember`] does, if the run ends well.
    fn is_duplicate(&self, _key: &str) -> bool {
        false
    }

    /// Whether this sender got a reply under this key within this many seconds (RFC 5230 §4.2);
    /// none means the server's own default.
    fn was_answered(&self, _key: &str, _sender: &str, _seconds: Option<u64>) -> bool {
        false
    }

    /// Set when no caller waits for the run any more: it then ends with an error.
    fn stop(&self) -> Option<&AtomicBool> {
        None
    }

    /// A script that can be included, compiled (RFC 6609 §3.1); `None` if there is no such script,
    /// the reason if it does not compile.
    fn script(&self, _location: Location, _name: &str) -> Result<Option<Arc<Script>>, String> {
        Ok(None)
    }
}

/// The value of a message that a key of [`Context::is_duplicate`] was made of.
pub fn duplicate_value(key: &str) -> Option<&str> {
    let (len, rest) = key.split_once(':')?;
    rest.get(len.parse::<usize>().ok()?..)?.strip_prefix(':')
}
