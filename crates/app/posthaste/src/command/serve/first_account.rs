//! The first start makes an account, and shows its password once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use posthaste_directory::NewAccount;

use crate::audit::Act;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::logging::say;
use crate::open::Opened;
use crate::password;

/// Where the password goes if standard output is the journal.
const FILE: &str = "first-password";

/// Creates an account if the store has no account, and shows its password once.
pub(super) async fn first_account(opened: &Opened, config: &Config) -> Result<()> {
    if !opened.directory.accounts(None, 1).await?.is_empty() {
        return Ok(());
    }
    let name = full_name("postmaster", config);
    let password = password::generate()?;
    let account = opened.directory.add(&name, &password, NewAccount::default()).await?;
    Act::of_server(format!("serve: first account {}", account.name), config).ended(&Ok(()));
    let (data, name) = (config.data.display(), &account.name);
    let lines = format!("  account   {name}\n  password  {}", password.expose());
    let is_shown = if is_journal() {
        match write_file(&config.data.join(FILE), &lines) {
            Ok(()) => say(&format!(
                "Posthaste made {data} with one account. Its password is in {data}/{FILE}: read it and remove the file"
            )),
            Err(error) => {
                tracing::error!(%error, file = %config.data.join(FILE).display(), "the file for the first password cannot be created");
                false
            }
        }
    } else {
        say(&format!("Posthaste made {data} with one account. Its password is shown this once:\n{lines}"))
    };
    if !is_shown {
        tracing::error!(%name, "the password of the first account could not be shown: set another with `posthaste \
                                account passwd`");
    }
    Ok(())
}

/// Whether standard output is the system's journal, which keeps the output and which other users
/// may read. systemd names the stream in `JOURNAL_STREAM`, as device and inode.
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let meta = output.and_then(|output| output.metadata());
    meta.is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

/// Writes a file that its owner alone can read. One that exists is not written over.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
