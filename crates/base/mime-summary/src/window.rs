//! The piece of a text in which keys are looked for.

use crate::fold::Folder;

/// The part of a body that is being looked at.
#[derive(Default)]
pub(crate) struct Window {
    /// Decoded, not folded yet.
    pub(crate) text: String,
    /// Folded. It begins with the last bytes of the text that was searched before.
    pub(crate) folded: Vec<u8>,
    /// Bytes of `folded` that were searched before.
    pub(crate) kept: usize,
    folder: Folder,
}

impl Window {
    /// Folds the decoded text.
    pub(crate) fn fold(&mut self) {
        self.folder.fold(&self.text, &mut self.folded);
        self.text.clear();
    }

    /// Keeps the last bytes, in which a match of this many bytes may begin.
    pub(crate) fn keep(&mut self, needle_max: usize) {
        let kept = self.folded.len().saturating_sub(needle_max.saturating_sub(1));
        self.folded.drain(..kept);
        self.kept = self.folded.len();
    }
}
