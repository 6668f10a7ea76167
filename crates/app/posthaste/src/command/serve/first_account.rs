//! The first start makes an account, and shows its password once.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
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

/// The file for the password if standard output is no terminal. A journal, the log of a
/// container, a pipe or a file keeps what is written, and others may read it.
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
    let is_shown = if io::stdout().is_terminal() {
        say(&format!("Posthaste made {data} with one account. Its password is shown this once:\n{lines}"))
    } else {
        let file = config.data.join(FILE);
        let written = write_file(&file, &lines);
        match &written {
            Ok(()) => {
                let what = "the password of the first account is in a file: read it and remove the file";
                tracing::info!(%name, file = %file.display(), "{what}");
                say(&format!("Posthaste made {data} with one account: {what}: {}", file.display()));
            }
            Err(error) => tracing::error!(%error, file = %file.display(), "the file cannot be made"),
        }
        written.is_ok()
    };
    if !is_shown {
        tracing::error!(%name, "the password of the first account could not be shown: set another with `posthaste \
                                account passwd`");
    }
    Ok(())
}

/// Writes a file that its owner alone can read. One that exists is not written over.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
