//! Verifies mailbox lists and the directory.

use posthaste_store::Result;

use super::Check;
use crate::index::{directory, lists};

impl Check<'_> {
    /// Each entry of a list has its mailbox, and each mailbox is in a list. All in one transaction:
    /// lists and mailboxes change together.
    pub(super) fn lists(&mut self) -> Result<()> {
        if let Err(error) = self.index.is_of_this_form(&self.txn) {
            self.fault(error.to_string());
        }
        let mut is_every_list_whole = true;
        for account in lists::accounts(self.index, &self.txn)? {
            self.report.examined += 1;
            match lists::load(self.index, &self.txn, account) {
                Ok(list) => {
                    for entry in &list.entries {
                        match self.index.head(&self.txn, entry.id) {
                            Ok(Some(_)) => {}
                            Ok(None) => {
                                self.fault(format!("mailbox {} ({}) has no head", entry.name, entry.id))
                            }
                            Err(error) => self.fault(error.to_string()),
                        }
                    }
                }
                Err(error) => {
                    is_every_list_whole = false;
                    self.fault(error.to_string());
                }
            }
        }
        // Entries that cannot be read may name any mailbox.
        if is_every_list_whole {
            for unlisted in lists::unlisted(self.index, &self.txn)? {
                self.fault(unlisted.to_string());
            }
        }
        Ok(())
    }

    pub(super) fn directory(&mut self) -> Result<()> {
        let mut faults = Vec::new();
        for record in directory::records_from(self.index, &self.txn, &[])? {
            let record = record?;
            self.report.examined += 1;
            if record.entry().is_none() {
                let name = String::from_utf8_lossy(record.key);
                faults.push(format!("directory record {name} is damaged"));
            }
        }
        faults.into_iter().for_each(|f| self.fault(f));
        Ok(())
    }
}
