//! The piece of a text in which keys are looked for.

use crate::fold::Folder;

/// Text without any ASCII is kept up to this length, until a character that begins something new.
const UNCUT_MAX: usize = 32 * 1024;

/// The part of a body that is being looked at.
#[derive(Default)]
pub(crate) struct Window {
    /// Decoded, not folded yet.
    pub(crate) text: String,
    /// Folded; begins with the end of the text searched before.
    pub(crate) folded: Vec<u8>,
    /// Bytes of it that were searched before.
    pub(crate) kept: usize,
    folder: Folder,
}

impl Window {
    /// Folds the decoded text.
    pub(crate) fn fold(&mut self, is_last: bool) {
        // Marks belong to the character before them: stop after an ASCII one, which begins
        // something new.
        let whole = if is_last {
            self.text.len()
        } else {
            self.text.bytes().rposition(|b| b.is_ascii()).unwrap_or(0)
        };
        // Text without any ASCII is taken as it comes, rather than kept without limit.
        let whole = if self.text.len() - whole > UNCUT_MAX { self.text.len() } else { whole };
        let (ready, rest) = self.text.split_at_checked(whole).unwrap_or((&self.text, ""));
        self.folder.fold(ready, &mut self.folded);
        let rest = rest.to_owned();
        self.text = rest;
    }

    /// Keeps as much as a match of this many bytes may begin in.
    pub(crate) fn keep(&mut self, needle_max: usize) {
        let kept = self.folded.len().saturating_sub(needle_max.saturating_sub(1));
        self.folded.drain(..kept);
        self.kept = self.folded.len();
    }
}
