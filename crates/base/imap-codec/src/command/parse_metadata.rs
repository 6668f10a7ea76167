//! GETMETADATA and SETMETADATA: RFC 5464 §5.

use super::CommandBody;
use super::parse_words::mailbox;
use crate::annotation::{entries, entry_name, entry_values};
use crate::cursor::{Cursor, Parsed};
use crate::limits::LIST_ITEMS_MAX;
use crate::{Depth, NameEncoding};

/// The options of GETMETADATA.
#[derive(Default)]
struct Options {
    max_size: Option<u64>,
    depth: Depth,
}

/// `"GETMETADATA" [SP getmetadata-options] SP mailbox SP entries`. The examples of RFC 5464 §4.2
/// have the options after the mailbox, and those of §4.4.1 have several names without
/// parentheses. All of it is accepted.
pub(super) fn get(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mut given = Options::default();
    if c.peek() == Some(b'(') {
        given = options(c)?;
        c.sp()?;
    }
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    // An option begins with a letter, and a name with `/`, a quote or a literal.
    if c.peek() == Some(b'(') && c.peek_second().is_some_and(|b| b.is_ascii_alphabetic()) {
        given = options(c)?;
        c.sp()?;
    }
    let mut entries = entries(c)?;
    while c.more()? {
        if entries.len() == LIST_ITEMS_MAX {
            return c.limit("Too many annotations");
        }
        entries.push(entry_name(c)?);
    }
    Ok(CommandBody::GetMetadata { mailbox, max_size: given.max_size, depth: given.depth, entries })
}

/// `"(" getmetadata-option *(SP getmetadata-option) ")"`
fn options(c: &mut Cursor<'_>) -> Parsed<Options> {
    let mut given = Options::default();
    c.list(LIST_ITEMS_MAX, "Too many options", |c| {
        let at = c.clone();
        match c.word().as_bytes() {
            b"MAXSIZE" => {
                c.sp()?;
                given.max_size = Some(c.number64("a number of octets")?);
            }
            b"DEPTH" => {
                c.sp()?;
                let at = c.clone();
                given.depth = match c.word().as_bytes() {
                    b"0" => Depth::Zero,
                    b"1" => Depth::One,
                    b"INFINITY" => Depth::Infinity,
                    _ => return at.fail("0, 1 or infinity"),
                };
            }
            _ => return at.fail("MAXSIZE or DEPTH"),
        }
        Ok(())
    })?;
    Ok(given)
}

/// `"SETMETADATA" SP mailbox SP entry-values`
pub(super) fn set(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    Ok(CommandBody::SetMetadata { mailbox, entries: entry_values(c)? })
}
