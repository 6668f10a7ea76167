//! ESEARCH: RFC 7377 §3.

use super::parse_notify::filter;
use super::parse_search::{Program, program};
use super::{CommandBody, MailboxFilter, MultiSearchArgs};
use crate::NameEncoding;
use crate::cursor::{Cursor, Parsed};
use crate::limits::EVENT_GROUPS_MAX;

/// `"ESEARCH" [SP "IN" SP "(" source-mbox [SP "(" scope-options ")"] ")"] SP search-program`. No
/// scope options are defined.
pub(super) fn multi_search(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mut sources = Vec::new();
    if c.eat_word(b"IN") {
        c.sp()?;
        let at = c.clone();
        sources = c.list(EVENT_GROUPS_MAX, "IN takes at most 64 groups of mailboxes", |c| {
            let at = c.clone();
            match filter(c, names)? {
                MailboxFilter::SelectedDelayed => at.fail("SELECTED, as SELECTED-DELAYED is for NOTIFY"),
                filter => Ok(filter),
            }
        })?;
        if sources.is_empty() {
            return at.fail("at least one group of mailboxes");
        }
        c.sp()?;
    }
    let Program { returns, update_items, charset, key } = program(c)?;
    Ok(CommandBody::MultiSearch(MultiSearchArgs { sources, returns, update_items, charset, key }))
}
