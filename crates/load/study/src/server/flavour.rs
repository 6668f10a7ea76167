//! Dovecot in its forms: the format of its mailboxes, and its processes.

use std::path::Path;

/// Attachments from this many bytes on are stored apart. Dovecot's default is 128k, which few
/// attachments of the quick studies reach.
const APART_FROM: &str = "4k";

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
    /// As [`Flavour::Sdbox`], messages compressed with zstd.
    Zstd,
    /// As [`Flavour::Sdbox`], attachments in files of their own, without their base64.
    Files,
    /// As [`Flavour::Files`], with one stored copy of each attachment.
    SingleInstance,
    /// As [`Flavour::Sdbox`], messages encrypted with a key for each account.
    Encrypted,
}

/// Name on the command line, name in plots, and the form.
const ALL: [(&str, &str, Flavour); 9] = [
    ("dovecot", "Dovecot", Flavour::Sdbox),
    ("dovecot-mdbox", "Dovecot mdbox", Flavour::Mdbox),
    ("dovecot-maildir", "Dovecot Maildir", Flavour::Maildir),
    ("dovecot-mbox", "Dovecot mbox", Flavour::Mbox),
    ("dovecot-tuned", "Dovecot tuned", Flavour::Tuned),
    ("dovecot-zstd", "Dovecot, zstd", Flavour::Zstd),
    ("dovecot-files", "Dovecot, files", Flavour::Files),
    ("dovecot-sis", "Dovecot, files, single instance", Flavour::SingleInstance),
    ("dovecot-crypt", "Dovecot, encrypted", Flavour::Encrypted),
];

impl Flavour {
    /// The flavour with this name on the command line.
    pub fn named(text: &str) -> Option<Self> {
        ALL.iter().find(|(word, ..)| *word == text).map(|(_, _, flavour)| *flavour)
    }

    /// The words that name one.
    pub fn words() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(word, ..)| *word)
    }

    /// The flavour's name in plots.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(.., flavour)| *flavour == self).map_or("Dovecot", |(_, name, _)| name)
    }

    /// The location of mail below an account's home.
    pub(super) fn location(self) -> &'static str {
        match self {
            Self::Sdbox | Self::Tuned | Self::Zstd | Self::Files | Self::SingleInstance | Self::Encrypted => {
                "sdbox:~/sdbox"
            }
            Self::Mdbox => "mdbox:~/mdbox",
            Self::Maildir => "maildir:~/Maildir",
            Self::Mbox => "mbox:~/mail:INBOX=~/inbox",
        }
    }

    /// Further settings of POP3, if it is installed.
    pub(super) fn pop3_settings(self) -> &'static str {
        match self {
            Self::Tuned => {
                "service pop3-login {\n  service_count = 0\n  process_min_avail = 2\n}\nservice pop3 {\n  \
                 service_count = 1000\n  process_min_avail = 2\n}\n"
            }
            _ => "",
        }
    }

    /// Further settings. A login process that serves all logins and a session process that serves
    /// many sessions are Dovecot's "high-performance mode" and its `service_count`.
    pub(super) fn settings(self, folder: &Path) -> String {
        match self {
            Self::Tuned => {
                "service imap-login {\n  service_count = 0\n  process_min_avail = 2\n}\nservice imap {\n  \
                 service_count = 1000\n  process_min_avail = 2\n}\nservice lmtp {\n  process_min_avail = 2\n}\n\
                 mail_prefetch_count = 20\n"
                    .to_owned()
            }
            // The level is Posthaste's.
            Self::Zstd => "mail_plugins = $mail_plugins zlib\nplugin {\n  zlib_save = zstd\n  zlib_save_level = 1\n}\n".to_owned(),
            Self::Files => attachments_apart(folder, "posix"),
            Self::SingleInstance => attachments_apart(folder, "sis posix"),
            // Keys of accounts are made at the first use. They have no password: mail arrives, and
            // is read for searches, while nobody is logged in.
            Self::Encrypted => "mail_plugins = $mail_plugins mail_crypt\nmail_attribute_dict = file:%h/dovecot-attributes\n\
                 plugin {\n  mail_crypt_curve = prime256v1\n  mail_crypt_save_version = 2\n}\n"
                .to_owned(),
            // Locks of mbox files are dotlocks and fcntl by default, which need a group of their
            // own.
            Self::Mbox => "mbox_write_locks = fcntl\n".to_owned(),
            Self::Sdbox | Self::Mdbox | Self::Maildir => String::new(),
        }
    }
}

/// Settings with which attachments are stored apart from their messages. By default Dovecot uses
/// SHA-1.
fn attachments_apart(folder: &Path, how: &str) -> String {
    format!(
        "mail_attachment_dir = {}/mail/.attachments\nmail_attachment_min_size = {APART_FROM}\n\
         mail_attachment_fs = {how}\nmail_attachment_hash = %{{sha256}}\n",
        folder.display()
    )
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
        let own = |flavour: Flavour| flavour.settings(Path::new("/x"));
        assert_eq!(own(Flavour::Sdbox), "");
        assert!(own(Flavour::SingleInstance).contains("mail_attachment_dir = /x/mail/.attachments\n"));
        assert_eq!(Flavour::named("dovecot-nonsense"), None);
        assert_eq!(Flavour::Tuned.location(), Flavour::Sdbox.location());
        assert!(Flavour::Tuned.pop3_settings().contains("service pop3 {\n  service_count = 1000\n"));
        assert_eq!(Flavour::Sdbox.pop3_settings(), "");
    }
}
