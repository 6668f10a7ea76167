//! Ids of objects in one list: OBJECTID+ (draft-ietf-mailmaint-imap-objectid-bis-06 §3).

use super::{list, put};
use crate::ObjectIds;

/// Appends `OBJECTID (KEY id KEY id)`.
pub fn object_ids(out: &mut Vec<u8>, ids: &ObjectIds) {
    put(out, "OBJECTID ");
    list(out, &ids.0, |out, (key, id)| {
        put(out, key);
        out.push(b' ');
        put(out, id);
    });
}
