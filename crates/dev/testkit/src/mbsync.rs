//! mbsync as a test's mirror: one account, a Maildir below a directory of the test's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run_client;

/// A mirror of an account.
pub struct Mbsync {
    dir: PathBuf,
}

impl Mbsync {
    /// Configures a mirror below `dir` of the mailboxes that `patterns` name (`*` for all), both
    /// ways.
    pub fn new(dir: &Path, imap: SocketAddr, user: &str, password: &str, patterns: &str) -> Self {
        let (near, port) = (dir.join("mail"), imap.port());
        std::fs::create_dir_all(&near).expect("a directory for the mirror");
        let near = near.display();
        let configuration = format!(
            "FSync no\n\nIMAPAccount ph\nHost 127.0.0.1\nPort {port}\nUser {user}\nPass \"{password}\"\n\
             SSLType None\nAuthMechs LOGIN\n\nIMAPStore far\nAccount ph\n\n\
             MaildirStore near\nPath {near}/\nInbox {near}/INBOX\nSubFolders Verbatim\n\n\
             Channel mirror\nFar :far:\nNear :near:\nPatterns {patterns}\nCreate Both\nExpunge Both\nSyncState *\n"
        );
        std::fs::write(dir.join("mbsyncrc"), configuration).expect("a configuration for mbsync");
        Self { dir: dir.to_owned() }
    }

    /// The same, with these SASL mechanisms (`AuthMechs`) instead of LOGIN.
    #[must_use]
    pub fn with_mechanisms(self, mechanisms: &str) -> Self {
        let file = self.dir.join("mbsyncrc");
        let configuration = std::fs::read_to_string(&file).expect("a configuration for mbsync");
        let configured = configuration.replace("AuthMechs LOGIN", &format!("AuthMechs {mechanisms}"));
        std::fs::write(file, configured).expect("a configuration for mbsync");
        self
    }

    /// Synchronises once; returns what mbsync printed.
    pub fn run(&self) -> String {
        let mut command = Command::new("mbsync");
        command.arg("-V").arg("-c").arg(self.dir.join("mbsyncrc")).arg("mirror").env("HOME", &self.dir);
        run_client(command)
    }

    /// Where a mailbox is mirrored.
    pub fn mailbox(&self, name: &str) -> PathBuf {
        self.dir.join("mail").join(name)
    }

    /// The message files of a mailbox, in order of their names.
    pub fn files(&self, mailbox: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = ["cur", "new"]
            .iter()
            .flat_map(|sub| std::fs::read_dir(self.mailbox(mailbox).join(sub)).into_iter().flatten())
            .filter_map(|entry| entry.ok().map(|e| e.path()))
            .collect();
        files.sort();
        files
    }
}
