//! The path of a mailbox when a whole account is exported. Different mailboxes get different paths,
//! and each level of a path has a name that every file system takes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use posthaste_mail_model::MailboxName;
use sha2::{Digest, Sha256};

/// The format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFormat {
    /// A file per mailbox.
    Mbox,
    /// A folder per mailbox, a file per message.
    Maildir,
}

/// The ending of a file in the format `mbox`.
const ENDING: &str = ".mbox";
/// Octets of a level that is kept as it is. File systems take 255, some 143 when they encrypt; the
/// ending is added to them.
const WHOLE_MAX: usize = 120;
/// Octets of a longer level that are kept. With its digest it is longer than [`WHOLE_MAX`], so that
/// no level that is kept whole has the same name.
const HEAD_MAX: usize = 100;
/// Octets of the digest: 32 digits.
const DIGEST_LEN: usize = 16;

/// The path of a mailbox below `target`. A level whose name would be hidden or mean something else
/// gets a `_`; a long one ends in a digest.
pub(super) fn path_of(target: &Path, name: &MailboxName, format: MailFormat) -> PathBuf {
    let mut path = target.to_owned();
    for level in name.as_str().split('/') {
        path.push(shortened(unambiguous(level, format)).as_ref());
    }
    if format == MailFormat::Mbox {
        path.as_mut_os_string().push(ENDING);
    }
    path
}

/// A level that is no hidden file and no part of a Maildir. In the format `mbox` it does not end
/// like a file: `x.mbox` may have children, and so may `x` beside it. A `_` is also added to what
/// only differs in having some.
fn unambiguous(level: &str, format: MailFormat) -> Cow<'_, str> {
    let plain = level.trim_start_matches('_');
    let is_part = matches!(plain, "cur" | "new" | "tmp");
    // The file of keywords of the mailbox above.
    let is_keywords = format == MailFormat::Maildir && plain == "dovecot-keywords";
    let is_special = plain.starts_with('.') || is_part || is_keywords;
    let is_file = format == MailFormat::Mbox && level.trim_end_matches('_').ends_with(ENDING);
    match (is_special, is_file) {
        (false, false) => Cow::Borrowed(level),
        (true, false) => Cow::Owned(format!("_{level}")),
        (false, true) => Cow::Owned(format!("{level}_")),
        (true, true) => Cow::Owned(format!("_{level}_")),
    }
}

/// A level that is short enough.
fn shortened(level: Cow<'_, str>) -> Cow<'_, str> {
    if level.len() <= WHOLE_MAX {
        return level;
    }
    let head = &level[..level.floor_char_boundary(HEAD_MAX)];
    let digest: Vec<u8> = Sha256::digest(level.as_bytes()).into_iter().take(DIGEST_LEN).collect();
    let digits: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
    Cow::Owned(format!("{head}~{digits}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn path(name: &str, format: MailFormat) -> PathBuf {
        path_of(Path::new("/x"), &MailboxName::new(name).unwrap(), format)
    }

    #[test]
    fn every_mailbox_has_a_place_inside_the_target() {
        assert_eq!(path("Archive/2024", MailFormat::Mbox), Path::new("/x/Archive/2024.mbox"));
        assert_eq!(path("Archive/2024", MailFormat::Maildir), Path::new("/x/Archive/2024"));
        assert_eq!(path("a/cur/.b/...", MailFormat::Maildir), Path::new("/x/a/_cur/_.b/_..."));
        // The mailbox `a` writes its keywords to this file, and a folder in its place is refused.
        assert_eq!(path("a/dovecot-keywords", MailFormat::Maildir), Path::new("/x/a/_dovecot-keywords"));
        assert_eq!(path("a/_dovecot-keywords", MailFormat::Maildir), Path::new("/x/a/__dovecot-keywords"));
        assert_eq!(path("a/dovecot-keywords", MailFormat::Mbox), Path::new("/x/a/dovecot-keywords.mbox"));
        assert_eq!(path("v1.2", MailFormat::Mbox), Path::new("/x/v1.2.mbox"));
        assert_eq!(path("x.mbox/y", MailFormat::Mbox), Path::new("/x/x.mbox_/y.mbox"));
        assert_eq!(path("x.mbox/y", MailFormat::Maildir), Path::new("/x/x.mbox/y"));
    }

    #[test]
    fn no_two_mailboxes_meet_and_no_file_has_the_name_of_a_folder() {
        let long = "ä".repeat(200);
        let names =
            ["cur", "_cur", "__cur", "x", "x.mbox", "x.mbox_", ".mbox", "_.mbox", "_.mbox_", "_x", &long];
        let (twice, ends) = (format!("{long}ö"), format!("{long}.mbox"));
        let names: Vec<&str> = names.into_iter().chain([twice.as_str(), ends.as_str()]).collect();
        for format in [MailFormat::Mbox, MailFormat::Maildir] {
            let files: HashSet<PathBuf> = names.iter().map(|name| path(name, format)).collect();
            assert_eq!(files.len(), names.len(), "{files:?}");
            let folders: HashSet<PathBuf> = names
                .iter()
                .filter_map(|name| Some(path(&format!("{name}/y"), format).parent()?.to_owned()))
                .collect();
            assert_eq!(folders.len(), names.len(), "{folders:?}");
            assert!(format == MailFormat::Maildir || folders.is_disjoint(&files), "{folders:?} {files:?}");
        }
    }

    #[test]
    fn a_long_level_fits_a_file_system_and_equals_no_name_that_is_kept() {
        let long = path(&"x".repeat(400), MailFormat::Mbox);
        let name = long.file_name().unwrap().to_str().unwrap();
        assert!(name.len() <= 143 && name.len() > WHOLE_MAX, "{name}");
        assert_eq!(long, path(&"x".repeat(400), MailFormat::Mbox));
        let kept = path(name.strip_suffix(".mbox").unwrap(), MailFormat::Mbox);
        assert_ne!(long, kept);
    }
}
