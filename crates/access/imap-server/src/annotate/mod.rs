//! Annotations of messages: ANNOTATE-EXPERIMENT-1 (RFC 5257).
//!
//! They are records of the directory, one for each message with annotations. Only commands that
//! name annotations, and those that copy, move or remove messages, read the records. In a mailbox
//! that never had annotations, they try to read one record that does not exist.
//!
//! Invariants: values are written first, then the mod-sequences of their messages rise. So a
//! session that reports a mod-sequence has read the new values. A crash between the two steps
//! leaves a change that CONDSTORE does not report.
//!
//! With UNCHANGEDSINCE the mod-sequences also rise before the values are written, in one step with
//! their test. Each value is written on the condition that its record is still the one that was
//! read before the test. So of two such changes of a message that are based on the same values,
//! only one succeeds.
//!
//! Copies get their annotations before the originals lose theirs.

pub(crate) mod carry;
pub(crate) mod reader;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod reported;
pub(crate) mod search;

use posthaste_directory::MESSAGE_ANNOTATION_BYTES_MAX;
use posthaste_imap_codec::{AnnotationSupport, ValueChange, ValueScope};
use posthaste_mail_model::{AccountId, Rights};

use self::reader::AnnotationReader;
use crate::reply::{Failure, Reply};
use crate::rights::no_right;
use crate::selected::Selected;
use crate::service::ImapService;

/// The reader of a selected mailbox.
pub(crate) fn reader_of<'s>(
    service: &'s ImapService,
    login: AccountId,
    selected: &Selected,
) -> AnnotationReader<'s> {
    let owner = selected.overlay.as_ref().map_or(login, |overlay| overlay.reading.owner);
    AnnotationReader { service, login, owner, mailbox: selected.mailbox.id() }
}

/// RFC 5257 §4.1: what the selected mailbox supports.
pub(crate) fn support(selected: &Selected) -> AnnotationSupport {
    match selected.examined {
        true => AnnotationSupport::ReadOnly,
        false => AnnotationSupport::Octets(MESSAGE_ANNOTATION_BYTES_MAX as u32),
    }
}

/// RFC 5257 §3.4: `r` for private values, `n` for those that all share.
pub(crate) fn permit(rights: Rights, changes: &[ValueChange]) -> Result<(), Failure> {
    let needed = |change: &ValueChange| match change.scope {
        ValueScope::Private => Rights::READ,
        ValueScope::Shared => Rights::ANNOTATE,
    };
    match changes.iter().map(needed).find(|needed| !rights.contains(*needed)) {
        Some(missing) => Err(no_right(missing)),
        None => Ok(()),
    }
}

/// RFC 5257 §3.2.1: the names that are no entries, and the values that flags of parts may have.
/// Returns the parts that are named.
pub(crate) fn check_names(changes: &[ValueChange]) -> Result<Vec<Vec<u32>>, Failure> {
    let bad = |text: &'static str| Err(Failure::from(Reply::bad(text)));
    let mut parts = Vec::new();
    for change in changes {
        let name = change.entry.as_str().strip_prefix('/').unwrap_or_default();
        let (first, below) = name.split_once('/').unwrap_or((name, ""));
        if first == "flags" {
            return bad("The entry /flags is reserved");
        }
        if !first.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let number =
            |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0 && !text.starts_with(['0', '+']));
        let Some(path) = first.split('.').map(number).collect::<Option<Vec<u32>>>() else {
            return bad("The entry names no part: write for example /1.2/comment");
        };
        if below.is_empty() {
            return bad("The entry of a part has no value: write for example /1.2/comment");
        }
        let is_flag = ["flags/seen", "flags/answered", "flags/flagged", "flags/forwarded"].contains(&below);
        let is_state = change.value.as_ref().is_none_or(|value| matches!(&**value, b"0" | b"1"));
        if is_flag && !is_state {
            return bad("A flag of a part is \"1\", \"0\" or NIL");
        }
        if !parts.contains(&path) {
            parts.push(path);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use posthaste_imap_codec::EntryName;

    use super::*;

    fn change(entry: &str, value: &'static str) -> ValueChange {
        let value = Some(Bytes::from_static(value.as_bytes()));
        ValueChange { entry: EntryName::new(entry).unwrap(), scope: ValueScope::Private, value }
    }

    #[test]
    fn names_of_entries() {
        let parts = |entry, value| check_names(&[change(entry, value)]).map_err(|error| error.to_string());
        assert_eq!(parts("/comment", "x"), Ok(vec![]));
        assert_eq!(parts("/vendor/x/flags", "x"), Ok(vec![]));
        assert_eq!(parts("/1.2/comment", "x"), Ok(vec![vec![1, 2]]));
        assert_eq!(parts("/3/flags/seen", "1"), Ok(vec![vec![3]]));
        for (entry, value) in [
            ("/flags", "x"),
            ("/flags/seen", "1"),
            ("/1", "x"),
            ("/0/comment", "x"),
            ("/1./comment", "x"),
            ("/1.a/comment", "x"),
            ("/01/comment", "x"),
            ("/1/flags/seen", "yes"),
        ] {
            assert!(parts(entry, value).is_err(), "{entry}");
        }
    }
}
