//! The style of text as bits, so that two styles are compared in one step.

pub(super) type Style = u8;
pub(super) const BOLD: Style = 1;
pub(super) const ITALIC: Style = 2;
pub(super) const UNDERLINED: Style = 4;
pub(super) const STRUCK: Style = 8;
/// The style of text that is not shown at all.
pub(super) const HIDDEN: Style = 16;
/// The style of text that a tracked change deletes, or moves elsewhere.
pub(super) const DELETED: Style = 32;
/// The styles of text that is not shown.
pub(super) const UNSEEN: Style = HIDDEN | DELETED;
