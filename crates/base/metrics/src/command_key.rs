//! The key by which commands are counted.

use crate::folder_size::FolderSize;

/// The key under which a command is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandKey {
    /// `imap`, `pop3`, `lmtp`, `submission`, `smtp`, `managesieve`.
    pub protocol: &'static str,
    /// The command's name, or `session` for what belongs to no command: the handshake, the close.
    pub command: &'static str,
    /// The folder that was selected when the command ended.
    pub folder: FolderSize,
}
