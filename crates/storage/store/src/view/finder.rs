//! Finds rows of a view by rising UIDs, as a report of many changed messages does.

use posthaste_mail_model::Uid;

use super::runs::gallop;
use super::value::View;
use crate::row::Row;

/// Finds rows by UID. Made by [`View::finder`].
///
/// A UID shortly after the one before takes a few steps. Any other one takes a look-up in the list
/// of groups and in one group, as [`View::row_of_uid`] does.
#[derive(Clone)]
pub struct RowFinder<'v> {
    view: &'v View,
    /// The rows of the chunk found last, without those below the UID looked for last.
    rows: &'v [Row],
}

impl<'v> RowFinder<'v> {
    pub(super) fn new(view: &'v View) -> Self {
        Self { view, rows: &[] }
    }

    /// The row of a UID.
    pub fn find(&mut self, uid: Uid) -> Option<&'v Row> {
        let is_among = |rows: &[Row]| match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => first.uid() <= uid && uid <= last.uid(),
            _ => false,
        };
        if !is_among(self.rows) {
            self.rows = self.view.chunk_of(uid.value());
        }
        self.rows = &self.rows[gallop(self.rows, uid.value())..];
        self.rows.first().filter(|row| row.uid() == uid)
    }
}
