//! Reads one reader's rights, and the number of entries, from the records of many lists without
//! building the lists.

use std::fmt;
use std::marker::PhantomData;

use posthaste_mail_model::Rights;
use posthaste_store::DirectoryEntry;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::Acl;
use super::list::ANYONE;
use crate::error::Result;
use crate::record;

/// The rights of an account by a list: [`Acl::rights_of`].
pub(super) fn rights_in(entry: &DirectoryEntry, reader: &str) -> Result<Rights> {
    match read(entry, RightsOf { reader }) {
        Some(rights) => Ok(rights),
        // It has an escaped name, or a fault. `Acl::read` accepts the name and reports the fault.
        None => Ok(Acl::read(entry)?.rights_of(reader)),
    }
}

/// The number of entries of a list.
pub(super) fn count_in(entry: &DirectoryEntry) -> Result<usize> {
    match read(entry, Count) {
        Some(count) => Ok(count),
        None => Ok(Acl::read(entry)?.len()),
    }
}

fn read<T, E>(entry: &DirectoryEntry, entries: E) -> Option<T>
where
    for<'de> E: DeserializeSeed<'de, Value = T>,
{
    let mut json = serde_json::Deserializer::from_slice(&entry.value);
    let read = json.deserialize_map(RecordVisitor { entries, value: PhantomData }).ok()?;
    json.end().ok().map(|()| read)
}

/// A record, of which the entries are read in some way.
struct RecordVisitor<T, E> {
    entries: E,
    value: PhantomData<T>,
}

impl<'de, T, E: DeserializeSeed<'de, Value = T>> Visitor<'de> for RecordVisitor<T, E> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an access control list")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
        let (mut entries, mut value) = (Some(self.entries), None);
        while let Some(field) = map.next_key::<&str>()? {
            match (field, entries.take()) {
                ("v", unread) if map.next_value::<u32>()? == record::VERSION => entries = unread,
                ("entries", Some(unread)) => value = Some(map.next_value_seed(unread)?),
                _ => return Err(M::Error::custom("another form")),
            }
        }
        value.ok_or_else(|| M::Error::missing_field("entries"))
    }
}

struct Count;

impl<'de> DeserializeSeed<'de> for Count {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<usize, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Count {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("identifiers and their rights")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<usize, M::Error> {
        let mut count = 0;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

struct RightsOf<'r> {
    reader: &'r str,
}

impl<'de> DeserializeSeed<'de> for RightsOf<'_> {
    type Value = Rights;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Rights, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RightsOf<'_> {
    type Value = Rights;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("identifiers and their rights")
    }

    /// RFC 4314 §2: what entries give, without what they take.
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Rights, M::Error> {
        let (mut given, mut taken) = (Rights::NONE, Rights::NONE);
        // Fails for a name with escaped characters, which cannot be borrowed.
        while let Some(identifier) = map.next_key::<&str>()? {
            let (who, side) = match identifier.strip_prefix('-') {
                Some(who) => (who, &mut taken),
                None => (identifier, &mut given),
            };
            if who == ANYONE || who == self.reader {
                let rights = Rights::parse(map.next_value::<&str>()?.as_bytes());
                *side = side.union(rights.ok_or_else(|| M::Error::custom("no rights"))?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(given.difference(taken))
    }
}
