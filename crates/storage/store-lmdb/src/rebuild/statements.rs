//! Reads the statements of records about packs.

use posthaste_mail_model::NumSet;

use super::controls::Statement;
use crate::log::entry;
use crate::log::range::{self, Rows, Table};
use crate::log::record::{Header, Kind};
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::search::Search;

/// The statements of a record about packs; nothing if it is about something else.
pub(super) fn statements_of(search: &Search<'_>, found: &LocatedRecord) -> Vec<Statement> {
    let Header { kind, id, .. } = found.header;
    let is_of_packs = match kind {
        Kind::Abandon | Kind::Retire | Kind::Cut => true,
        Kind::Range => id.to_bytes()[0] == Table::Packs as u8,
        _ => false,
    };
    if !is_of_packs {
        return Vec::new();
    }
    let content = Scan::new(search.file, search.format, 0, search.size).content(found).ok();
    let statements = content.and_then(|content| match kind {
        Kind::Abandon => entry::abandon_from(&content).map(|at| vec![Statement::Abandoned(at)]),
        Kind::Cut => entry::abandon_from(&content).map(|at| vec![Statement::Cut(at)]),
        Kind::Range => of_packs(&content),
        _ => entry::retire_from(&content).map(|pack| vec![Statement::Retired(NumSet::range(pack, pack))]),
    });
    statements.unwrap_or_else(|| vec![Statement::Damaged(kind)])
}

/// The statements of a checkpoint of the table of packs.
fn of_packs(content: &[u8]) -> Option<Vec<Statement>> {
    let Rows::Packs(packs) = range::from_content(content)?.rows else { return None };
    Some(Statement::of_checkpoint(packs))
}
