//! Finds mail in folders: distinguishes mbox, Maildir, `.eml` and folders, and walks them in the
//! order of their names.
//!
//! | found | becomes |
//! | --- | --- |
//! | a Maildir: a folder with `cur`, or with `new` and `tmp` | a mailbox; `.A.B` in it (Maildir++) and other folders in it are mailboxes below |
//! | any other folder | a level; `X.sbd` (Thunderbird) and `X.mbox` (Apple Mail) are called `X` |
//! | a file that begins with `From ` | a mailbox called like it, without `.mbox`; `mbox` in `X.mbox` is `X` itself |
//! | `*.eml` | a message of the folder it lies in; one that begins with `From ` is an mbox there |
//! | other files | reported with what can be done, if there is anything in them |
//! | links | nothing: they are reported by name. The source itself may be one |
//! | pipes, devices | nothing |

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_kind::{FileKind, LINK, kind_of_file, open, remedy};
use super::{Fault, ImportError, ImportedMessage, Sink, maildir, mbox, status};
use crate::format::{date_field, to_crlf};

/// Levels of folders: those of a mailbox name, and a way out of folders that contain each other.
const DEPTH_MAX: usize = 32;
/// Octets read at a time.
const BUFFER: usize = 1 << 20;
/// Files that mail programs keep next to mail.
const NOT_MAIL: [&str; 7] = ["msf", "dat", "html", "sqlite", "json", "index", "lock"];

/// Reads a file or folder and gives everything in it to a sink, on this thread, in a lasting order.
///
/// Messages over `message_len_max` octets are reported and skipped in constant memory.
pub fn read(path: &Path, message_len_max: u64, sink: &mut dyn Sink) -> Result<(), ImportError> {
    let failed = |why: String| ImportError::Source { path: path.to_owned(), why };
    let meta = fs::metadata(path).map_err(|e| failed(remedy(&e)))?;
    // A link named on the command line means its target.
    let real = if path.is_symlink() {
        fs::canonicalize(path).map_err(|e| failed(remedy(&e)))?
    } else {
        path.to_owned()
    };
    let path = real.as_path();
    let mut walk = Walk { message_len_max, sink };
    // `Break` means that the import was cancelled, which is not a read error.
    let _ = if meta.is_dir() {
        // So that a folder that cannot be read at all is an error and not a fault.
        fs::read_dir(path).map_err(|e| failed(remedy(&e)))?;
        walk.dir(path, "", 0)
    } else if !meta.is_file() {
        return Err(failed("it is neither a file nor a folder: save it as a file first".to_owned()));
    } else {
        match kind_of_file(path).map_err(|e| failed(remedy(&e)))? {
            FileKind::Mbox => walk.mbox(path, ""),
            // Any other file with a name ending in `.eml` is a message.
            _ if has_extension(path, "eml") => walk.eml(path, ""),
            FileKind::Empty => ControlFlow::Continue(()),
            // A first message that lost its `From ` line.
            FileKind::Message if has_extension(path, "mbox") => walk.mbox(path, ""),
            FileKind::Message => walk.eml(path, ""),
            FileKind::Other(why) => return Err(failed(why.to_owned())),
        }
    };
    Ok(())
}

struct Walk<'a> {
    message_len_max: u64,
    sink: &'a mut dyn Sink,
}

impl Walk<'_> {
    fn dir(&mut self, dir: &Path, mailbox: &str, depth: usize) -> ControlFlow<()> {
        if depth > DEPTH_MAX {
            return self.fault(dir, "folders are nested more than 32 deep");
        }
        let is_maildir = maildir::is_maildir(dir);
        if is_maildir {
            maildir::read(dir, mailbox, self.message_len_max, self.sink)?;
        }
        let entries = match entries(dir) {
            Ok(entries) => entries,
            Err(error) => return self.fault(dir, &remedy(&error)),
        };
        for FolderEntry { path, name, kind } in entries {
            if kind == EntryKind::Link {
                self.fault(&path, LINK)?;
                continue;
            }
            let is_dir = kind == EntryKind::Folder;
            match (is_dir, is_maildir) {
                (true, true) if matches!(name.as_str(), "cur" | "new" | "tmp") => {}
                (true, _) if name.starts_with('.') => {
                    // Maildir++; any other hidden folder is not mail.
                    if maildir::is_maildir(&path) {
                        self.dir(&path, &below(mailbox, &maildir::folder_name(&name)), depth + 1)?;
                    } else if is_maildir && let Err(error) = fs::read_dir(&path) {
                        self.fault(&path, &remedy(&error))?;
                    }
                }
                (true, _) => {
                    let level = name.strip_suffix(".sbd").or(name.strip_suffix(".mbox")).unwrap_or(&name);
                    self.dir(&path, &below(mailbox, level), depth + 1)?;
                }
                // Files next to cur and new are the mail program's own.
                (false, true) => {}
                (false, false) => self.file(&path, &name, mailbox)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn file(&mut self, path: &Path, name: &str, mailbox: &str) -> ControlFlow<()> {
        if name.starts_with('.') {
            return ControlFlow::Continue(());
        }
        let kind = match kind_of_file(path) {
            Ok(kind) => kind,
            Err(error) => return self.fault(path, &remedy(&error)),
        };
        match kind {
            FileKind::Mbox if has_extension(path, "eml") => self.mbox(path, mailbox),
            _ if has_extension(path, "eml") => self.eml(path, mailbox),
            FileKind::Mbox if name == "mbox" && !mailbox.is_empty() => self.mbox(path, mailbox),
            FileKind::Mbox => {
                let stem = name.strip_suffix(".mbox").or(name.strip_suffix(".mbx")).unwrap_or(name);
                self.mbox(path, &below(mailbox, stem))
            }
            FileKind::Empty => ControlFlow::Continue(()),
            _ if NOT_MAIL.iter().any(|e| has_extension(path, e)) => ControlFlow::Continue(()),
            FileKind::Message => self.fault(
                path,
                "skipped: let its name end in .eml if it is a message, or in .mbox if it is more",
            ),
            FileKind::Other(why) => self.fault(path, &format!("passed over: {why}")),
        }
    }

    fn mbox(&mut self, path: &Path, mailbox: &str) -> ControlFlow<()> {
        match open(path) {
            Ok(file) => {
                let peek = |at, out: &mut [u8]| file.read_at(out, at);
                let mut input = BufReader::with_capacity(BUFFER, &file);
                let source = mbox::Source { path: &Arc::from(path), mailbox, peek: &peek };
                mbox::read(&mut input, &source, self.message_len_max, self.sink)
            }
            Err(error) => self.fault(path, &remedy(&error)),
        }
    }

    /// A message in a file of its own. Its internal date is its Date field, because the file's time
    /// is mostly that of a copy.
    fn eml(&mut self, path: &Path, mailbox: &str) -> ControlFlow<()> {
        match maildir::read_file(path, self.message_len_max) {
            Ok((bytes, modified)) => {
                let flags = status::scan(&bytes).flags;
                let date = date_field(&bytes).or(modified);
                let origin = maildir::origin(path);
                let bytes = to_crlf(bytes);
                self.sink.message(ImportedMessage { mailbox: mailbox.to_owned(), flags, date, bytes, origin })
            }
            Err(why) => self.fault(path, &why),
        }
    }

    fn fault(&mut self, path: &Path, why: &str) -> ControlFlow<()> {
        self.sink.fault(Fault { origin: maildir::origin(path), why: why.to_owned() })
    }
}

struct FolderEntry {
    path: PathBuf,
    name: String,
    kind: EntryKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Folder,
    Link,
}

/// A folder's entries by name. Pipes and devices are left out: opening one may wait for ever.
fn entries(dir: &Path) -> io::Result<Vec<FolderEntry>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let kind = match (kind.is_dir(), kind.is_file(), kind.is_symlink()) {
            (true, ..) => EntryKind::Folder,
            (_, true, _) => EntryKind::File,
            (.., true) => EntryKind::Link,
            _ => continue,
        };
        out.push(FolderEntry { path, name: entry.file_name().to_string_lossy().into_owned(), kind });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

fn below(mailbox: &str, level: &str) -> String {
    if mailbox.is_empty() { level.to_owned() } else { format!("{mailbox}/{level}") }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(extension))
}
