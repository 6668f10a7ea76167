//! One access control list as a value and as bytes.
//!
//! The record is JSON: `{"v":1,"entries":{"ana@example.org":"lr","-bo@example.org":"w"}}`.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use bytes::Bytes;
use posthaste_mail_model::Rights;
use posthaste_store::DirectoryEntry;
use serde::{Deserialize, Serialize};

use crate::address::{Address, AddressError};
use crate::error::{DirectoryError, Result};
use crate::record;

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// Every account of the server: RFC 4314 §2.
    Anyone,
    /// The account of this name, in normal form, if there is one.
    User(String),
}

/// The identifier of everybody: RFC 4314 §2.
pub(super) const ANYONE: &str = "anyone";

impl Who {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Anyone => ANYONE,
            Self::User(name) => name,
        }
    }
}

/// The subject of an entry, and whether the entry gives rights or takes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    /// The subject.
    pub who: Who,
    /// `-` in front: the rights are taken from those that other entries give (RFC 4314 §2).
    pub negative: bool,
}

impl Identifier {
    /// An identifier as a user writes it. It need not be the name of an account: nobody learns from
    /// the answer which accounts there are. Groups of the directory are lists for mail. A user who
    /// may change one decides who gets mail, and not who reads a mailbox. So they are no
    /// identifiers.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (negative, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let who = match name == ANYONE {
            true => Who::Anyone,
            false => Who::User(Address::parse(name)?.as_str().to_owned()),
        };
        Ok(Self { who, negative })
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negative { "-" } else { "" })?;
        f.write_str(self.who.as_str())
    }
}

/// The access control list of a mailbox, without its owner, who has every right.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    entries: BTreeMap<Identifier, Rights>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AclRecord {
    v: u32,
    entries: BTreeMap<String, String>,
}

impl Acl {
    /// The rights of an account: those that entries give, without those that entries take
    /// (RFC 4314 §2).
    pub fn rights_of(&self, name: &str) -> Rights {
        let applies = |who: &Who| match who {
            Who::Anyone => true,
            Who::User(user) => user == name,
        };
        let of = |negative| {
            let entries = self.entries.iter().filter(|(id, _)| id.negative == negative && applies(&id.who));
            entries.fold(Rights::NONE, |all, (_, rights)| all.union(*rights))
        };
        of(false).difference(of(true))
    }

    /// The rights of one entry.
    pub fn get(&self, identifier: &Identifier) -> Rights {
        self.entries.get(identifier).copied().unwrap_or_default()
    }

    /// Gives an entry these rights. One without rights is removed.
    pub fn set(&mut self, identifier: &Identifier, rights: Rights) {
        if rights.is_empty() {
            self.entries.remove(identifier);
        } else {
            self.entries.insert(identifier.clone(), rights);
        }
    }

    /// Removes the entries of somebody.
    pub(super) fn forget(&mut self, who: &Who) {
        self.entries.retain(|identifier, _| identifier.who != *who);
    }

    /// The entries of the list.
    pub fn iter(&self) -> impl Iterator<Item = (&Identifier, Rights)> {
        self.entries.iter().map(|(identifier, rights)| (identifier, *rights))
    }

    /// The subjects of the entries, entries with `-` included. Removing an account uses them to
    /// find its lists. The entry `-anyone` has no subject to remove.
    pub(super) fn named(&self) -> impl Iterator<Item = &Who> {
        let leads =
            self.entries.keys().filter(|identifier| !identifier.negative || identifier.who != Who::Anyone);
        leads.map(|identifier| &identifier.who)
    }

    /// The subjects of the entries that another list does not name.
    pub(super) fn named_beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Who> {
        let known: HashSet<&Who> = other.named().collect();
        self.named().filter(move |who| !known.contains(who))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn read(entry: &DirectoryEntry) -> Result<Self> {
        let record: AclRecord = record::parse(entry)?;
        let wrong = |text: &str| DirectoryError::Record {
            record: entry.name.clone(),
            why: format!("its entry '{text}' has a wrong form: restore it from a backup"),
        };
        let mut entries = BTreeMap::new();
        for (text, letters) in &record.entries {
            let identifier = Identifier::parse(text).map_err(|_| wrong(text))?;
            let rights = Rights::parse(letters.as_bytes()).ok_or_else(|| wrong(text))?;
            entries.insert(identifier, rights);
        }
        Ok(Self { entries })
    }

    pub(super) fn print(&self, key: &str) -> Result<Bytes> {
        let entries = self.iter().map(|(identifier, rights)| (identifier.to_string(), rights.to_string()));
        record::print(key, &AclRecord { v: record::VERSION, entries: entries.collect() })
    }
}
