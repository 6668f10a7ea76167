//! Access control lists: the commands and responses of RFC 4314, and their grammar (§7).
//!
//! ```text
//! setacl          = "SETACL" SP mailbox SP identifier SP mod-rights
//! deleteacl       = "DELETEACL" SP mailbox SP identifier
//! getacl          = "GETACL" SP mailbox
//! listrights      = "LISTRIGHTS" SP mailbox SP identifier
//! myrights        = "MYRIGHTS" SP mailbox
//! identifier      = astring
//! mod-rights      = astring
//!                   ;; +rights to add, -rights to remove, rights to replace
//! acl-data        = "ACL" SP mailbox *(SP identifier SP rights)
//! listrights-data = "LISTRIGHTS" SP mailbox SP identifier SP rights *(SP rights)
//! myrights-data   = "MYRIGHTS" SP mailbox SP rights
//! ```

use posthaste_mail_model::Rights;

use crate::command::mailbox;
use crate::cursor::{Cursor, Parsed};
use crate::limits::{IDENTIFIER_BYTES_MAX, LIST_ITEMS_MAX};
use crate::{MailboxArg, NameEncoding};

/// A command of RFC 4314.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AclCommand {
    /// §3.1.
    Set {
        /// The mailbox of the list.
        mailbox: MailboxArg,
        /// The identifier that gets the rights; `-` in front makes them negative rights.
        identifier: String,
        /// The change of their rights.
        change: RightsChange,
        /// The rights.
        rights: Rights,
    },
    /// §3.2.
    Delete {
        /// The mailbox of the list.
        mailbox: MailboxArg,
        /// The identifier of the rights.
        identifier: String,
    },
    /// §3.3.
    Get(MailboxArg),
    /// §3.4.
    ListRights {
        /// The mailbox of the list.
        mailbox: MailboxArg,
        /// The identifier of the rights.
        identifier: String,
    },
    /// §3.5.
    MyRights(MailboxArg),
}

/// The change of rights that SETACL makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RightsChange {
    /// The names replace those before.
    Replace,
    /// `+`
    Add,
    /// `-`
    Remove,
}

impl RightsChange {
    /// The rights after the change.
    pub const fn apply(self, before: Rights, rights: Rights) -> Rights {
        match self {
            Self::Replace => rights,
            Self::Add => before.union(rights),
            Self::Remove => before.difference(rights),
        }
    }
}

/// A response of RFC 4314.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AclData {
    /// §3.6.
    Acl {
        /// The mailbox of the list.
        mailbox: MailboxArg,
        /// Identifiers with their rights.
        entries: Vec<(String, Rights)>,
    },
    /// §3.7.
    ListRights {
        /// The mailbox of the list.
        mailbox: MailboxArg,
        /// The identifier of the rights.
        identifier: String,
        /// The rights that they have in any case.
        required: Rights,
        /// The rights that they may get: each set as a whole, none of them empty.
        optional: Vec<Rights>,
    },
    /// §3.8.
    MyRights {
        /// The mailbox.
        mailbox: MailboxArg,
        /// The rights of the user that is logged in.
        rights: Rights,
    },
}

impl AclCommand {
    /// The mailbox that the command is about.
    pub const fn mailbox(&self) -> &MailboxArg {
        match self {
            Self::Set { mailbox, .. }
            | Self::Delete { mailbox, .. }
            | Self::Get(mailbox)
            | Self::ListRights { mailbox, .. }
            | Self::MyRights(mailbox) => mailbox,
        }
    }

    /// The arguments of a command, by its name. `None` if it is none of these.
    pub(crate) fn parse(name: &[u8], c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Option<Self>> {
        if !matches!(name, b"SETACL" | b"DELETEACL" | b"GETACL" | b"LISTRIGHTS" | b"MYRIGHTS") {
            return Ok(None);
        }
        c.sp()?;
        let mailbox = mailbox(c, names)?;
        Ok(Some(match name {
            b"GETACL" => Self::Get(mailbox),
            b"MYRIGHTS" => Self::MyRights(mailbox),
            b"DELETEACL" => Self::Delete { mailbox, identifier: identifier(c)? },
            b"LISTRIGHTS" => Self::ListRights { mailbox, identifier: identifier(c)? },
            _ => {
                let identifier = identifier(c)?;
                let (change, rights) = mod_rights(c)?;
                Self::Set { mailbox, identifier, change, rights }
            }
        }))
    }

    /// The command's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Set { .. } => "SETACL",
            Self::Delete { .. } => "DELETEACL",
            Self::Get(_) => "GETACL",
            Self::ListRights { .. } => "LISTRIGHTS",
            Self::MyRights(_) => "MYRIGHTS",
        }
    }

    /// The arguments after the mailbox, a word each.
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Self::Set { identifier, change, rights, .. } => {
                let sign = match change {
                    RightsChange::Replace => "",
                    RightsChange::Add => "+",
                    RightsChange::Remove => "-",
                };
                vec![identifier.clone(), format!("{sign}{rights}")]
            }
            Self::Delete { identifier, .. } | Self::ListRights { identifier, .. } => vec![identifier.clone()],
            Self::Get(_) | Self::MyRights(_) => Vec::new(),
        }
    }
}

fn identifier(c: &mut Cursor<'_>) -> Parsed<String> {
    c.sp()?;
    let at = c.clone();
    let text = c.astring_text("a user, or another identifier")?;
    if text.len() > IDENTIFIER_BYTES_MAX { at.limit("The identifier is too long") } else { Ok(text) }
}

/// RFC 4314 §3.1: a letter that is no right ends in BAD.
fn mod_rights(c: &mut Cursor<'_>) -> Parsed<(RightsChange, Rights)> {
    const WANTED: &str = "rights, of the letters lrswipkxteancd";
    c.sp()?;
    let at = c.clone();
    let text = c.astring(WANTED)?;
    let (change, letters) = match &*text {
        [b'+', letters @ ..] => (RightsChange::Add, letters),
        [b'-', letters @ ..] => (RightsChange::Remove, letters),
        letters => (RightsChange::Replace, letters),
    };
    match Rights::parse(letters) {
        Some(rights) => Ok((change, rights)),
        None => at.fail(WANTED),
    }
}

impl AclData {
    /// The values after the name of a response. `None` if it is none of these.
    pub(crate) fn parse(name: &[u8], c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Option<Self>> {
        if !matches!(name, b"ACL" | b"LISTRIGHTS" | b"MYRIGHTS") {
            return Ok(None);
        }
        let mailbox = MailboxArg::decode(&c.astring("a mailbox name")?, names);
        Ok(Some(match name {
            b"ACL" => {
                let mut entries = Vec::new();
                while c.eat(b' ') {
                    if entries.len() == LIST_ITEMS_MAX {
                        return c.limit("Too many identifiers");
                    }
                    let identifier = c.astring_text("an identifier")?;
                    entries.push((identifier, rights(c)?));
                }
                Self::Acl { mailbox, entries }
            }
            b"MYRIGHTS" => Self::MyRights { mailbox, rights: rights(c)? },
            _ => {
                c.sp()?;
                let identifier = c.astring_text("an identifier")?;
                let required = rights(c)?;
                let mut optional = Vec::new();
                while c.peek() == Some(b' ') {
                    // Nothing is left of `c` and `d` alone.
                    optional.extend(Some(rights(c)?).filter(|set| !set.is_empty()));
                }
                Self::ListRights { mailbox, identifier, required, optional }
            }
        }))
    }
}

fn rights(c: &mut Cursor<'_>) -> Parsed<Rights> {
    c.sp()?;
    Ok(Rights::of_response(&c.astring("rights")?))
}
