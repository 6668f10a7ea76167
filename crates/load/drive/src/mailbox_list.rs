//! The mailboxes that a server lists, as many as the measuring machine has memory for.

use posthaste_imap_client::listing::{self, Listed};

/// Mailboxes of one account. Studies make some hundreds.
const NAMES_MAX: usize = 100_000;
/// Octets of all their names.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The answer to LIST.
#[derive(Debug, Default)]
pub struct MailboxList {
    listed: Vec<Listed>,
    bytes: usize,
    is_cut: bool,
}

impl MailboxList {
    /// Takes the text after `* LIST `.
    pub fn add(&mut self, text: &[u8]) {
        let Some(mailbox) = listing::list(text) else { return };
        self.bytes = self.bytes.saturating_add(mailbox.name.len());
        self.is_cut |= self.listed.len() >= NAMES_MAX || self.bytes > BYTES_MAX;
        if !self.is_cut {
            self.listed.push(mailbox);
        }
    }

    /// All mailboxes.
    ///
    /// # Errors
    /// There are more than are kept.
    pub fn all(self) -> Result<Vec<Listed>, String> {
        match self.is_cut {
            false => Ok(self.listed),
            true => Err(format!(
                "LIST names more than {NAMES_MAX} mailboxes, or more than {} MiB of names",
                BYTES_MAX >> 20
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_an_end_does_not_fill_the_memory() {
        let listed = |count: usize, name: &str| {
            let mut list = MailboxList::default();
            let text = format!("() \"/\" {name}");
            (0..count).for_each(|_| list.add(text.as_bytes()));
            list
        };
        assert_eq!(listed(NAMES_MAX, "x").all().unwrap().len(), NAMES_MAX);
        let many = listed(NAMES_MAX + 2, "x");
        assert_eq!(many.listed.len(), NAMES_MAX);
        assert!(many.all().unwrap_err().contains("more than 100000 mailboxes"));
        let long = "x".repeat(BYTES_MAX / 4);
        assert_eq!(listed(4, &long).all().unwrap().len(), 4);
        let long = listed(6, &long);
        assert_eq!(long.listed.len(), 4);
        assert!(long.all().unwrap_err().contains("more than 8 MiB"));
    }
}
