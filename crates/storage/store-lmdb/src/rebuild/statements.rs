//! Reads the statements of records about packs.

use super::controls::Statement;
use crate::log::entry;
use crate::log::range::{self, Rows, Table};
use crate::log::record::{Header, Kind};
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::search::Search;

/// The statement of a record about packs; `None` if it is about something else.
pub(super) fn statement_of(search: &Search<'_>, found: &LocatedRecord) -> Option<Statement> {
    let Header { kind, id, .. } = found.header;
    let is_of_packs = match kind {
        Kind::Abandon | Kind::Retire | Kind::Cut => true,
        Kind::Range => id.to_bytes()[0] == Table::Packs as u8,
        _ => false,
    };
    if !is_of_packs {
        return None;
    }
    let content = Scan::new(search.file, search.format, 0, search.size).content(found).ok();
    let statement = content.and_then(|content| match kind {
        Kind::Abandon => entry::abandon_from(&content).map(Statement::Abandoned),
        Kind::Cut => entry::abandon_from(&content).map(Statement::Cut),
        Kind::Range => checkpoint(&content),
        _ => entry::retire_from(&content).map(Statement::Retired),
    });
    Some(statement.unwrap_or(Statement::Damaged(kind)))
}

/// The statement of a checkpoint of the table of packs.
fn checkpoint(content: &[u8]) -> Option<Statement> {
    let Rows::Packs(packs) = range::from_content(content)?.rows else { return None };
    Some(Statement::Checkpoint(packs))
}
