//! Ids of objects: one alone (RFC 8474 §7), or several in one list of keys and ids, as OBJECTID+
//! has them (draft-ietf-mailmaint-imap-objectid-bis-06 §3, §10).

use crate::cursor::{Cursor, Parsed};

/// Ids of objects by their keys, as `MAILBOXID` and `ACCOUNTID`: OBJECTID+ (draft 06 §3). What a
/// server does not have is left out, so the list may be empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ObjectIds(
    /// Keys, in capitals, each with its id. A key may be unknown.
    pub Vec<(String, String)>,
);

impl ObjectIds {
    /// The first id of a key. The key is in capitals.
    pub fn id(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, id)| id.as_str())
    }
}

/// RFC 8474 §7: `objectid = 1*255(ALPHA / DIGIT / "_" / "-")`.
pub(crate) fn object_id(c: &mut Cursor<'_>) -> Parsed<String> {
    let at = c.clone();
    let id = c.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if (1..=255).contains(&id.len()) { c.text(id) } else { at.fail("an object id") }
}

/// Draft 06 §10: `objectid-kvpair = objectid-key SP objectid`. A key is any atom.
pub(crate) fn object_id_pair(c: &mut Cursor<'_>) -> Parsed<(String, String)> {
    let key = c.atom("the key of an object id")?;
    let key = c.text(key)?.to_ascii_uppercase();
    c.sp()?;
    Ok((key, object_id(c)?))
}
