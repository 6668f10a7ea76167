//! The rights that each command needs: the table of RFC 4314 §4, in one place.
//!
//! Rights are checked only in mailboxes of others. A user has all rights in own mailboxes, so they
//! need no check. Commands that are not in the table need no right, or work on the selected mailbox
//! with the rights at its opening: SEARCH, SORT, THREAD, UIDBATCHES, CHECK, IDLE and UNSELECT.

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{Flag, FlagSet, Rights};
use posthaste_sharing::right_of;
use posthaste_store::StoreError;

use crate::reply::{Failure, Reply};

/// The action of a command on a mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// SELECT, EXAMINE; STATUS, also by LIST; FETCH, SEARCH, COPY out of it.
    Read,
    /// APPEND, COPY and MOVE into it; REPLACE into it.
    Insert,
    /// EXPUNGE, UID EXPUNGE, and CLOSE, which without this right removes nothing.
    Expunge,
    /// MOVE and REPLACE out of it: `\Deleted` and an EXPUNGE in one.
    TakeAway,
    /// CREATE below it; RENAME to a name below it.
    CreateBelow,
    /// DELETE; RENAME of it.
    Delete,
    /// SETACL, DELETEACL, GETACL, LISTRIGHTS.
    Administer,
    /// GETMETADATA; SETMETADATA of `/private`; METADATA of LIST.
    ReadAnnotations,
    /// SETMETADATA of `/shared`.
    WriteAnnotations,
    /// GETQUOTAROOT.
    ReadQuota,
}

impl Act {
    /// The rights that it needs, all of them.
    pub(crate) const fn needs(self) -> Rights {
        match self {
            // RFC 4314 §4
            Self::Read | Self::ReadQuota => Rights::READ,
            Self::Insert => Rights::INSERT,
            Self::Expunge => Rights::EXPUNGE,
            // RFC 6851 §4.4
            Self::TakeAway => Rights::DELETE_MESSAGES.union(Rights::EXPUNGE),
            Self::CreateBelow => Rights::CREATE,
            Self::Delete => Rights::DELETE_MAILBOX,
            Self::Administer => Rights::ADMINISTER,
            // RFC 5464 §3.3: `l`, and at least one more.
            Self::ReadAnnotations => Rights::LOOKUP.union(Rights::READ),
            Self::WriteAnnotations => Rights::LOOKUP.union(Rights::READ).union(Rights::WRITE),
        }
    }
}

/// RFC 4314 §4: MYRIGHTS needs one of these.
pub(crate) const TO_ASK: Rights = Rights::LOOKUP
    .union(Rights::READ)
    .union(Rights::INSERT)
    .union(Rights::CREATE)
    .union(Rights::DELETE_MAILBOX)
    .union(Rights::ADMINISTER);

/// RFC 4314 §5.2: a user with none of these rights opens a mailbox as READ-ONLY.
pub(crate) const TO_CHANGE: Rights = Rights::INSERT
    .union(Rights::EXPUNGE)
    .union(Rights::SEEN)
    .union(Rights::DELETE_MESSAGES)
    .union(Rights::WRITE);

/// The flags that may be changed with these rights. Keywords are in it all, or none.
pub(crate) const fn changeable(rights: Rights) -> FlagSet {
    let mut flags = FlagSet::EMPTY;
    if rights.contains(Rights::WRITE) {
        flags = FlagSet::ALL.difference(FlagSet::SEEN).difference(FlagSet::DELETED);
    }
    if rights.contains(Rights::SEEN) {
        flags = flags.union(FlagSet::SEEN);
    }
    if rights.contains(Rights::DELETE_MESSAGES) {
        flags = flags.union(FlagSet::DELETED);
    }
    flags
}

/// The flags that these rights permit to change.
pub(crate) fn permitted(flags: Vec<Flag>, rights: Rights) -> Vec<Flag> {
    if rights == Rights::ALL {
        return flags;
    }
    flags.into_iter().filter(|flag| rights.contains(right_of(flag))).collect()
}

/// Whether rights are enough. RFC 4314 §6: without `l`, a refusal would say that the mailbox
/// exists.
pub(crate) fn permit(rights: Rights, needed: Rights) -> Result<(), Failure> {
    if rights.contains(needed) {
        return Ok(());
    }
    Err(if rights.contains(Rights::LOOKUP) {
        no_right(needed.difference(rights))
    } else {
        StoreError::NoSuchName.into()
    })
}

/// RFC 5530 §3
pub(crate) fn no_right(missing: Rights) -> Failure {
    Reply::no(Code::NoPerm, format!("You lack the right {missing} in this mailbox")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_its_right() {
        let rights = |letters: &str| Rights::parse(letters.as_bytes()).expect("rights");
        assert_eq!(changeable(Rights::ALL), FlagSet::ALL);
        assert_eq!(changeable(rights("lripkxea")), FlagSet::EMPTY);
        assert_eq!(changeable(rights("st")), FlagSet::SEEN.union(FlagSet::DELETED));
        let flags = vec![Flag::Seen, Flag::Deleted, Flag::Flagged];
        assert_eq!(permitted(flags.clone(), rights("w")), [Flag::Flagged]);
        assert_eq!(permitted(flags.clone(), rights("s")), [Flag::Seen]);
        assert_eq!(permitted(flags.clone(), rights("t")), [Flag::Deleted]);
        assert_eq!(permitted(flags.clone(), Rights::ALL), flags);
    }
}
