//! The rights that each command needs: the table of RFC 4314 §4, in one place.
//!
//! Rights are checked only in mailboxes of others. A user has all rights in own mailboxes, so they
//! need no check. Commands that are not in the table need no right, or work on the selected mailbox
//! with the rights at its opening: SEARCH, SORT, THREAD, UIDBATCHES, CHECK, IDLE and UNSELECT.

use posthaste_delivery::DeliveryError;
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
    /// SETACL, DELETEACL, GETACL, LISTRIGHTS; SETMETADATA of the mailbox's script (RFC 6785).
    Administer,
    /// GETMETADATA; SETMETADATA of `/private`; METADATA of LIST.
    ReadAnnotations,
    /// SETMETADATA of `/shared`.
    WriteAnnotations,
    /// GETQUOTAROOT.
    ReadQuota,
}

impl Act {
    /// The rights that it needs, all of them. Annotations need one of several others as well:
    /// [`Self::permit`] checks both.
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
            // RFC 5464 §3.3: also one of those in `needs_one_of`. All users see `/shared`
            // entries, as they see flags. So these need `w`.
            Self::ReadAnnotations => Rights::LOOKUP,
            Self::WriteAnnotations => Rights::LOOKUP.union(Rights::WRITE),
        }
    }

    /// The rights of which it needs at least one as well. Most acts need no further right.
    const fn needs_one_of(self) -> Option<Rights> {
        match self {
            Self::ReadAnnotations | Self::WriteAnnotations => Some(TO_ANNOTATE),
            _ => None,
        }
    }

    /// Whether these rights are enough for it.
    pub(crate) fn is_permitted_with(self, rights: Rights) -> bool {
        rights.contains(self.needs()) && self.needs_one_of().is_none_or(|some| rights.intersects(some))
    }

    /// Refuses it if these rights are not enough.
    pub(crate) fn permit(self, rights: Rights) -> Result<(), Failure> {
        permit(rights, self.needs())?;
        match self.needs_one_of() {
            Some(some) if !rights.intersects(some) => Err(no_right_of(some)),
            _ => Ok(()),
        }
    }
}

/// RFC 5464 §3.3: besides `l`, annotations need any one of these.
const TO_ANNOTATE: Rights =
    Rights::READ.union(Rights::SEEN).union(Rights::WRITE).union(Rights::INSERT).union(Rights::POST);

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

/// How much an account uses is for those who may read the mailbox, as GETQUOTAROOT is. So is the
/// number of messages of a full mailbox, as STATUS is. Others only learn that there is no room.
pub(crate) fn without_usage(failure: Failure, rights: Rights) -> Failure {
    if Act::ReadQuota.is_permitted_with(rights) {
        return failure;
    }
    match failure {
        Failure::Delivery(DeliveryError::OverQuota { .. } | DeliveryError::TooManyMessages { .. }) => {
            Reply::no(Code::OverQuota, "The account of this mailbox has no room for that").into()
        }
        Failure::Store(StoreError::FolderFull { .. })
        | Failure::Delivery(DeliveryError::Store(StoreError::FolderFull { .. })) => {
            Reply::no(Code::Limit, "The mailbox has no room for that").into()
        }
        other => other,
    }
}

/// Whether APPENDUID and COPYUID may name the UIDs of new messages. RFC 4315 §5: not to users who
/// may not open the mailbox. UIDs say how many messages have come.
pub(crate) fn shows_uids(rights: Rights) -> bool {
    Act::Read.is_permitted_with(rights)
}

/// RFC 5530 §3
pub(crate) fn no_right(missing: Rights) -> Failure {
    Reply::no(Code::NoPerm, format!("You lack the right {missing} in this mailbox")).into()
}

/// The user has `l`, so this reveals nothing.
fn no_right_of(some: Rights) -> Failure {
    let text = format!("You need one of the rights {some} in this mailbox");
    Reply::no(Code::NoPerm, text).into()
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

    /// RFC 5464 §3.3
    #[test]
    fn annotations_need_one_of_several_rights() {
        let rights = |letters: &str| Rights::parse(letters.as_bytes()).expect("rights");
        let verdict = |act: Act, letters: &str| {
            let permitted = act.permit(rights(letters)).is_ok();
            assert_eq!(act.is_permitted_with(rights(letters)), permitted, "{act:?} with {letters}");
            permitted
        };
        for right in "rswip".chars() {
            assert!(verdict(Act::ReadAnnotations, &format!("l{right}")), "{right}");
            assert_eq!(verdict(Act::WriteAnnotations, &format!("l{right}")), right == 'w');
        }
        for letters in ["l", "lkxtean", "rswip", ""] {
            assert!(!verdict(Act::ReadAnnotations, letters), "{letters}");
            assert!(!verdict(Act::WriteAnnotations, letters), "{letters}");
        }
        assert!(verdict(Act::Read, "r") && !verdict(Act::Read, "lswip"));
    }
}
