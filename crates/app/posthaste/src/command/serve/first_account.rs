//! The first start makes an account, and shows its password once.
//!
//! The password is on disk before the account is stored. So no crash and no full disk leaves an
//! account whose password nobody knows. A crash may leave a password without an account. The next
//! start replaces it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use posthaste_directory::NewAccount;

use crate::audit::Act;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::Result;
use crate::logging::say;
use crate::open::Opened;
use crate::password;

/// The file for the password. It stays if standard output is no terminal: a journal, the log of a
/// container, a pipe or a file keeps what is written, and others may read it.
const FILE: &str = "first-password";

/// Creates an account if the store has no account, and shows its password once.
pub(super) async fn first_account(opened: &Opened, config: &Config) -> Result<()> {
    if !opened.directory.accounts(None, 1).await?.is_empty() {
        return Ok(());
    }
    let name = full_name("postmaster", config);
    let password = password::generate()?;
    let lines = format!("  account   {name}\n  password  {}", password.expose());
    let file = config.data.join(FILE);
    if let Err(error) = write_file(&config.data, &file, &lines) {
        let what = "no account was made, because the file for its password cannot be written: repair this and start \
                    again, or use `posthaste account add`";
        tracing::error!(%error, file = %file.display(), "{what}");
        return Ok(());
    }
    let account = match opened.directory.add(&name, &password, NewAccount::default()).await {
        Ok(account) => account,
        Err(error) => {
            // After a temporary error the store may have the account. Then the file is needed.
            if !error.is_temporary() {
                remove_file(&file);
            }
            return Err(error.into());
        }
    };
    Act::of_server(format!("serve: first account {}", account.name), config).ended(&Ok(()));
    let data = config.data.display();
    let once = format!("Posthaste made {data} with one account. Its password is shown this once:\n{lines}");
    if io::stdout().is_terminal() && say(&once) {
        remove_file(&file);
        return Ok(());
    }
    let what = "the password of the first account is in a file: read it and remove the file";
    tracing::info!(name = %account.name, file = %file.display(), "{what}");
    say(&format!("Posthaste made {data} with one account: {what}: {}", file.display()));
    Ok(())
}

/// Writes and syncs a file that its owner alone can read. One that exists is of a start that made
/// no account, and is replaced.
fn write_file(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    // The entry of the file.
    let synced = written.and_then(|()| File::open(dir)?.sync_all());
    synced.inspect_err(|_| remove_file(path))
}

fn remove_file(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, file = %path.display(), "the file cannot be removed");
    }
}
