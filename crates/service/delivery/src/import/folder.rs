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
//! | links | nothing: they are reported by name. The source itself may be one (see `source_path`) |
//! | files with names of another user's making, for root | nothing: they are reported by name |
//! | pipes, devices | nothing |

use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use posthaste_mail_model::Flag;

use super::file_kind::{FileKind, kind_of_file, remedy};
use super::source_folder::{Entry, EntryKind, LINK, SourceFolder};
use super::source_path::{self, Named};
use super::status::Place;
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
    let unreadable = |error: io::Error| failed(remedy(&error));
    let named = source_path::find(path).map_err(unreadable)?;
    let mut walk = Walk { message_len_max, sink };
    // `Break` means that the import was cancelled, which is not a read error.
    let _ = match &named {
        Named::Folder(source) => {
            // So that a folder that cannot be read at all is an error and not a fault.
            source.require_list().map_err(unreadable)?;
            walk.dir(source, "", 0)
        }
        Named::Other => {
            return Err(failed("it is neither a file nor a folder: save it as a file first".to_owned()));
        }
        Named::File(folder, name) => match folder.file(name).and_then(kind_of_file).map_err(unreadable)? {
            FileKind::Mbox => walk.mbox(folder, name, ""),
            // Any other file with a name ending in `.eml` is a message.
            _ if has_extension(name, "eml") => walk.eml(folder, name, ""),
            FileKind::Empty => ControlFlow::Continue(()),
            // A first message that lost its `From ` line.
            FileKind::Message if has_extension(name, "mbox") => walk.mbox(folder, name, ""),
            FileKind::Message => walk.eml(folder, name, ""),
            FileKind::Other(why) => return Err(failed(why.to_owned())),
        },
    };
    Ok(())
}

struct Walk<'a> {
    message_len_max: u64,
    sink: &'a mut dyn Sink,
}

impl Walk<'_> {
    fn dir(&mut self, dir: &SourceFolder, mailbox: &str, depth: usize) -> ControlFlow<()> {
        if depth > DEPTH_MAX {
            return self.fault(dir.path(), "folders are nested more than 32 deep");
        }
        let is_maildir = maildir::is_maildir(dir);
        if is_maildir {
            maildir::read(dir, mailbox, self.message_len_max, self.sink)?;
        }
        let entries = match entries(dir) {
            Ok(entries) => entries,
            Err(error) => return self.fault(dir.path(), &remedy(&error)),
        };
        for FolderEntry { name, text, kind } in entries {
            match kind {
                _ if is_maildir && maildir::is_read(&text) => {}
                EntryKind::Link => self.fault(&dir.path_of(&name), LINK)?,
                EntryKind::Folder if is_maildir && text == "tmp" => {}
                EntryKind::Folder => match dir.folder(&name) {
                    Ok(folder) if text.starts_with('.') => {
                        // Maildir++; any other hidden folder is not mail.
                        if maildir::is_maildir(&folder) {
                            self.dir(&folder, &below(mailbox, &maildir::folder_name(&text)), depth + 1)?;
                        } else if is_maildir && let Err(error) = folder.require_list() {
                            self.fault(folder.path(), &remedy(&error))?;
                        }
                    }
                    Ok(folder) => {
                        let level = text.strip_suffix(".sbd").or(text.strip_suffix(".mbox")).unwrap_or(&text);
                        self.dir(&folder, &below(mailbox, level), depth + 1)?;
                    }
                    Err(error) => self.fault(&dir.path_of(&name), &remedy(&error))?,
                },
                // Files next to cur and new are the mail program's own.
                EntryKind::File if is_maildir => {}
                EntryKind::File => self.file(dir, &name, mailbox)?,
                EntryKind::Other => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn file(&mut self, folder: &SourceFolder, name: &OsStr, mailbox: &str) -> ControlFlow<()> {
        let text: &str = &name.to_string_lossy();
        if text.starts_with('.') {
            return ControlFlow::Continue(());
        }
        let kind = match folder.file(name).and_then(kind_of_file) {
            Ok(kind) => kind,
            Err(error) => return self.fault(&folder.path_of(name), &remedy(&error)),
        };
        match kind {
            FileKind::Mbox if has_extension(name, "eml") => self.mbox(folder, name, mailbox),
            _ if has_extension(name, "eml") => self.eml(folder, name, mailbox),
            FileKind::Mbox if text == "mbox" && !mailbox.is_empty() => self.mbox(folder, name, mailbox),
            FileKind::Mbox => {
                let stem = text.strip_suffix(".mbox").or(text.strip_suffix(".mbx")).unwrap_or(text);
                self.mbox(folder, name, &below(mailbox, stem))
            }
            FileKind::Empty => ControlFlow::Continue(()),
            _ if NOT_MAIL.iter().any(|e| has_extension(name, e)) => ControlFlow::Continue(()),
            FileKind::Message => self.fault(
                &folder.path_of(name),
                "skipped: let its name end in .eml if it is a message, or in .mbox if it is more",
            ),
            FileKind::Other(why) => self.fault(&folder.path_of(name), &format!("passed over: {why}")),
        }
    }

    fn mbox(&mut self, folder: &SourceFolder, name: &OsStr, mailbox: &str) -> ControlFlow<()> {
        let path = folder.path_of(name);
        match folder.file(name) {
            Ok(file) => {
                let peek = |at, out: &mut [u8]| file.read_at(out, at);
                let mut input = BufReader::with_capacity(BUFFER, &file);
                let source = mbox::Source { path: &Arc::from(path), mailbox, peek: &peek };
                mbox::read(&mut input, &source, self.message_len_max, self.sink)
            }
            Err(error) => self.fault(&path, &remedy(&error)),
        }
    }

    /// A message in a file of its own. Its internal date is its Date field, because the file's time
    /// is mostly that of a copy.
    fn eml(&mut self, folder: &SourceFolder, name: &OsStr, mailbox: &str) -> ControlFlow<()> {
        let path = folder.path_of(name);
        match maildir::read_file(folder, name, self.message_len_max) {
            Ok((bytes, modified)) => {
                let mut flags = status::scan(&bytes, Place::Anywhere).flags;
                // Somebody kept this file. The field may be the sender's.
                flags.retain(|flag| *flag != Flag::Deleted);
                let date = date_field(&bytes).or(modified);
                let origin = maildir::origin(&path);
                let bytes = to_crlf(bytes);
                self.sink.message(ImportedMessage { mailbox: mailbox.to_owned(), flags, date, bytes, origin })
            }
            Err(why) => self.fault(&path, &why),
        }
    }

    fn fault(&mut self, path: &Path, why: &str) -> ControlFlow<()> {
        self.sink.fault(Fault { origin: maildir::origin(path), why: why.to_owned() })
    }
}

struct FolderEntry {
    name: OsString,
    /// The name as text: what is not UTF-8 is replaced.
    text: String,
    kind: EntryKind,
}

/// A folder's entries by name.
fn entries(dir: &SourceFolder) -> io::Result<Vec<FolderEntry>> {
    let named = |Entry { name, kind }: Entry| {
        let text = name.to_string_lossy().into_owned();
        FolderEntry { name, text, kind }
    };
    let mut out: Vec<FolderEntry> = dir.entries()?.into_iter().map(named).collect();
    out.sort_by(|a, b| a.text.cmp(&b.text));
    Ok(out)
}

fn below(mailbox: &str, level: &str) -> String {
    if mailbox.is_empty() { level.to_owned() } else { format!("{mailbox}/{level}") }
}

fn has_extension(name: &OsStr, extension: &str) -> bool {
    Path::new(name).extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(extension))
}
