//! The records of Sieve scripts: their names in the store, and their form.

use std::fmt::Write as _;

use bytes::Bytes;
use posthaste_mail_model::AccountId;
use posthaste_store::DirectoryEntry;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::record;

/// Octets of one script at most. The largest exports of filter editors have some 100 KiB. Twice
/// as much for each of [`crate::SCRIPTS_MAX`] would let one account fill 32 MiB of the index: a
/// record may have twice the octets of its script.
pub const SCRIPT_BYTES_MAX: usize = 256 * 1024;

/// Octets of the record of a new script. JSON needs two octets for a quote, a backslash, a tab,
/// CR and LF. So each script fits that has no other control characters. These need six octets
/// each. Earlier versions stored scripts full of them in 1.5 MiB. Such a record stays readable.
pub(crate) const RECORD_BYTES_MAX: usize = 2 * SCRIPT_BYTES_MAX + 1024;

/// A stored script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The name of the script.
    pub name: String,
    /// The text of the script.
    pub text: String,
}

/// The scripts that an account has, as a store lists them: neither names nor texts were read.
#[derive(Debug)]
pub struct ScriptKeys {
    account: AccountId,
    /// In their order.
    keys: Vec<String>,
}

impl ScriptKeys {
    /// Of an account, with the names of its records in their order.
    pub(crate) fn new(account: AccountId, keys: Vec<String>) -> Self {
        Self { account, keys }
    }

    /// Whether there is a script of this name.
    pub fn has(&self, name: &str) -> bool {
        self.keys.binary_search(&key(self.account, name)).is_ok()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    /// The names of the records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }
}

/// A script's record, as it is written.
#[derive(Serialize)]
struct NewRecord<'s> {
    v: u32,
    name: &'s str,
    text: &'s str,
}

/// A script's record, as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptRecord {
    #[serde(rename = "v")]
    _version: IgnoredAny,
    name: String,
    text: String,
}

/// A script's record, of which only the name is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedRecord {
    #[serde(rename = "v")]
    _version: IgnoredAny,
    name: String,
    #[serde(rename = "text")]
    _text: IgnoredAny,
}

/// Before the names of all records about an account's filtering. They are removed with the account.
pub fn records_of(account: AccountId) -> String {
    format!("sieve/{account}/")
}

/// Before the names of the records of an account's scripts.
pub(crate) fn prefix(account: AccountId) -> String {
    format!("{}script/", records_of(account))
}

/// A name of 128 characters may have 512 octets, a record's name only 400: the key has the hash of
/// the name.
pub(crate) fn key(account: AccountId, name: &str) -> String {
    let mut key = prefix(account);
    for byte in &Sha256::digest(name.as_bytes())[..16] {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// The content of a script's record.
pub(crate) fn print(key: &str, name: &str, text: &str) -> Result<Bytes> {
    record::print(key, &NewRecord { v: record::VERSION, name, text })
}

/// Reads a script's record.
pub(crate) fn read(entry: &DirectoryEntry) -> Result<Script> {
    let record: ScriptRecord = record::parse(entry)?;
    Ok(Script { name: record.name, text: record.text })
}

/// Reads the name in a script's record. The text is skipped.
pub(crate) fn read_name(entry: &DirectoryEntry) -> Result<String> {
    Ok(record::parse::<NamedRecord>(entry)?.name)
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    const ACCOUNT: AccountId = AccountId(Id::new(5, 6));

    #[test]
    fn a_script_is_its_record() {
        let (name, text) = ("main \u{fc} \"1\"", "# \u{1}\r\nredirect \"a@b.test\";\r\n");
        let key = key(ACCOUNT, name);
        let value = print(&key, name, text).unwrap();
        let entry = DirectoryEntry { name: key, version: 1, value };
        assert_eq!(read(&entry).unwrap(), Script { name: name.into(), text: text.into() });
        assert_eq!(read_name(&entry).unwrap(), name);
        // As all earlier versions wrote it.
        let expected = r##"{"v":1,"name":"main ü \"1\"","text":"# \u0001\r\nredirect \"a@b.test\";\r\n"}"##;
        assert_eq!(entry.value, expected);
    }

    /// A user who writes no control characters needs to know of one limit only.
    #[test]
    fn the_longest_ordinary_script_fits() {
        let name = "\u{1f4e7}".repeat(crate::SCRIPT_NAME_CHARS_MAX);
        for octet in ["\"", "\\", "\t", "\n", "x"] {
            let value = print("x", &name, &octet.repeat(SCRIPT_BYTES_MAX)).unwrap();
            assert!(value.len() <= RECORD_BYTES_MAX, "{octet:?}: {}", value.len());
        }
    }

    #[test]
    fn keys_are_found_by_the_names_of_scripts() {
        let mut keys = ["a", "b"].map(|name| key(ACCOUNT, name)).to_vec();
        keys.sort_unstable();
        let keys = ScriptKeys::new(ACCOUNT, keys);
        assert!(keys.has("a") && keys.has("b") && !keys.has("c"));
        assert_eq!((keys.count(), keys.iter().count()), (2, 2));
    }
}
