//! Dovecot in its forms: the format of its mailboxes, and its processes.

/// A form in which Dovecot is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// A file for each message, with Dovecot's own index.
    #[default]
    Sdbox,
    /// Many messages in a file.
    Mdbox,
    /// Maildir.
    Maildir,
    /// A file for each mailbox.
    Mbox,
    /// As [`Flavour::Sdbox`], with processes that serve many sessions.
    Tuned,
}

/// Name on the command line, name in plots, and the form.
const ALL: [(&str, &str, Flavour); 5] = [
    ("dovecot", "Dovecot", Flavour::Sdbox),
    ("dovecot-mdbox", "Dovecot mdbox", Flavour::Mdbox),
    ("dovecot-maildir", "Dovecot Maildir", Flavour::Maildir),
    ("dovecot-mbox", "Dovecot mbox", Flavour::Mbox),
    ("dovecot-tuned", "Dovecot tuned", Flavour::Tuned),
];

impl Flavour {
    /// By its name on the command line.
    pub fn named(text: &str) -> Option<Self> {
        ALL.iter().find(|(word, ..)| *word == text).map(|(_, _, flavour)| *flavour)
    }

    /// The words that name one.
    pub fn words() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(word, ..)| *word)
    }

    /// Its name in plots.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(.., flavour)| *flavour == self).map_or("Dovecot", |(_, name, _)| name)
    }

    /// Where mail is, below an account's home.
    pub(super) fn location(self) -> &'static str {
        match self {
            Self::Sdbox | Self::Tuned => "sdbox:~/sdbox",
            Self::Mdbox => "mdbox:~/mdbox",
            Self::Maildir => "maildir:~/Maildir",
            Self::Mbox => "mbox:~/mail:INBOX=~/inbox",
        }
    }

    /// Further settings. A login process that serves all logins and a session process that serves
    /// many sessions are Dovecot's "high-performance mode" and its `service_count`.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Tuned => {
                "service imap-login {\n  service_count = 0\n  process_min_avail = 2\n}\nservice imap {\n  \
                 service_count = 1000\n  process_min_avail = 2\n}\nservice lmtp {\n  process_min_avail = 2\n}\n\
                 mail_prefetch_count = 20\n"
            }
            // Locks of mbox files are dotlocks and fcntl by default, which need a group of their
            // own.
            Self::Mbox => "mbox_write_locks = fcntl\n",
            Self::Sdbox | Self::Mdbox | Self::Maildir => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_word_a_name_and_a_place_for_its_mail() {
        let mut places = Vec::new();
        for word in Flavour::words() {
            let flavour = Flavour::named(word).unwrap();
            assert!(flavour.name().starts_with("Dovecot"));
            places.push(flavour.location());
        }
        places.dedup();
        assert_eq!(places.len(), 5, "{places:?}");
        assert_eq!(Flavour::named("dovecot-nonsense"), None);
        assert_eq!(Flavour::Tuned.location(), Flavour::Sdbox.location());
    }
}
