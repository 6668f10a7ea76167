//! The messages of an account as a Maildir, for a server's own import.
//!
//! APPEND stores a message as the client sent it (RFC 9051 §6.3.12). An import stores it in the
//! form that the account has for mail.

use std::fs;
use std::io;
use std::path::Path;

use posthaste_load_workload::corpus::{Corpus, populated_serial};

use super::options::Contents;
use super::work::{UNSEEN_ONE_IN, generate};
use crate::accounts::Accounts;

/// Writes the Maildirs of accounts. They have the messages that [`super::populate()`] puts in.
pub struct Maildirs<'a> {
    accounts: &'a Accounts,
    contents: &'a Contents,
    corpus: Corpus,
}

impl<'a> Maildirs<'a> {
    /// A writer for these accounts.
    pub fn new(accounts: &'a Accounts, contents: &'a Contents, seed: u64) -> Self {
        Self { accounts, contents, corpus: Corpus::with_shares(seed, contents.shares, &contents.sizes) }
    }

    /// Writes the mail of one account below a folder that does not exist yet. The first mailbox is
    /// the folder itself, each other one a folder `.NAME` in it (Maildir++).
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, account: u32, root: &Path) -> io::Result<()> {
        let to = self.accounts.address(account);
        let mut mail = Vec::new();
        for (folder, (name, count)) in self.contents.mailboxes.iter().enumerate() {
            let place = if folder == 0 { root.to_owned() } else { root.join(format!(".{name}")) };
            for part in ["cur", "new", "tmp"] {
                fs::create_dir_all(place.join(part))?;
            }
            for number in 0..*count {
                let serial = populated_serial(account, folder as u32, number);
                mail.clear();
                generate(&self.corpus, self.contents, (serial, number, &to), &mut mail);
                // Names sort as the numbers do, and so the messages get their UIDs.
                let flags = if number.is_multiple_of(UNSEEN_ONE_IN) { "" } else { "S" };
                fs::write(place.join("cur").join(format!("{number:010}.posthaste-load:2,{flags}")), &mail)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_workload::corpus::Shares;

    use super::*;

    const RICH: Shares = Shares { rich: 1.0, shared_attachments: 0.0 };

    #[test]
    fn an_account_is_written_as_it_would_be_appended() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::parse("user{0..1}@example.org").unwrap();
        let contents = Contents::new(5, 1, 2, "fixed:2k".parse().unwrap()).with_shares(RICH);
        let root = dir.path().join("mail");
        Maildirs::new(&accounts, &contents, 1).write(1, &root).unwrap();
        let names = |place: &Path| {
            let mut names: Vec<String> = fs::read_dir(place.join("cur"))
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let inbox = names(&root);
        assert_eq!(inbox.len(), 5);
        assert_eq!(inbox[0], "0000000000.posthaste-load:2,");
        assert_eq!(inbox[1], "0000000001.posthaste-load:2,S");
        let folder = root.join(".phl-folder-1");
        assert_eq!(names(&folder).len(), 2);
        let mail = fs::read(folder.join("cur").join(&names(&folder)[1])).unwrap();
        let text = String::from_utf8_lossy(&mail);
        assert!(text.contains("application/ms-tnef") && text.contains("To: <user1@example.org>"), "{text}");
        let mut again = Vec::new();
        let corpus = Corpus::with_shares(1, RICH, &contents.sizes);
        let message = (populated_serial(1, 1, 1), 1, "user1@example.org");
        generate(&corpus, &contents, message, &mut again);
        assert_eq!(mail, again);
    }
}
