//! LANGUAGE and COMPARATOR: RFC 5255 §5.

use crate::cursor::{Cursor, Parsed};
use crate::limits::LIST_ITEMS_MAX;

/// `*(SP astring)`: ranges of languages, or comparators.
pub(super) fn words(c: &mut Cursor<'_>) -> Parsed<Vec<String>> {
    let mut words = Vec::new();
    while c.more()? {
        if words.len() == LIST_ITEMS_MAX {
            return c.limit("The list is too long");
        }
        words.push(c.astring_text("a name")?);
    }
    Ok(words)
}
