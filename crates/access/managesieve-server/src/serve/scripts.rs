//! Commands on the scripts of the account that logged in. Accounts take turns.

use std::sync::Arc;

use posthaste_directory::{Account, ScriptError, revoked};
use posthaste_net::{KeyedPermit, KeyedSemaphore, NetError, on_compute_thread};

use super::{Driver, Next, REVOKED};
use crate::reply::{Reply, literal, string};
use crate::session::{Action, ScriptAct, failure};

/// Octets before a literal, and of the reply after it.
const AROUND_LITERAL_LEN: usize = 64;

/// A command whose turn it is. The script that it brings was compiled.
struct Ready {
    act: ScriptAct,
    /// Its turn ends when this is dropped.
    permit: Option<KeyedPermit<[u8; 16]>>,
}

impl Driver {
    pub(super) async fn act_on_scripts(&mut self, act: ScriptAct) -> Result<Next, NetError> {
        let Some(account) = self.session.account.clone() else { return Ok(Next::Command) };
        let service = Arc::clone(&self.service);
        let ready = tokio::select! {
            biased;
            // The login may end while the command waits. Then the command does nothing.
            () = revoked(&mut self.lease) => return Ok(self.say(Action::Close(Reply::bye(REVOKED)))),
            ready = make_ready(&service.permits, account.id.0.to_bytes(), act) => ready,
        };
        let outcome = match ready {
            Ok(ready) => self.act_on(&account, ready).await,
            Err(faults) => Ok(Reply::no(faults)),
        };
        let reply = outcome.unwrap_or_else(|error| {
            if let ScriptError::Directory(error) = &error {
                tracing::error!(account = account.name, %error, "scripts cannot be read or written");
            }
            failure(&error)
        });
        reply.print(&mut self.output);
        // At once: a script is long, and a client that has left needs no further one.
        self.flush().await?;
        Ok(Next::Command)
    }

    async fn act_on(&mut self, account: &Account, ready: Ready) -> Result<Reply, ScriptError> {
        let directory = Arc::clone(&self.service.directory);
        let Ready { act, permit: _permit } = ready;
        match act {
            ScriptAct::HaveSpace { name, octets } => {
                directory.scripts().has_room_for(account.id, &name, octets).await?;
                Ok(Reply::ok("There is room"))
            }
            ScriptAct::Put { name, text } => {
                directory.scripts().put(account, &name, &text).await?;
                Ok(Reply::ok("Stored"))
            }
            ScriptAct::Check(_) => Ok(Reply::ok("The script is valid")),
            ScriptAct::List => {
                let active = directory.scripts().active(account).await?;
                for name in directory.scripts().names(account.id).await? {
                    string(&name, &mut self.output);
                    let is_active = active.as_ref() == Some(&name);
                    self.output.push_str(if is_active { " ACTIVE\r\n" } else { "\r\n" });
                }
                Ok(Reply::ok("Scripts listed"))
            }
            ScriptAct::SetActive(name) => {
                // RFC 5804 §2.8: the empty name deactivates.
                let name = (!name.is_empty()).then_some(name.as_str());
                directory.scripts().activate(account, name).await?;
                Ok(Reply::ok("Done"))
            }
            ScriptAct::Get(name) => {
                let text = directory.scripts().get(account.id, &name).await?;
                // By doubling, a long script could take twice its length.
                self.output.reserve_exact(text.len() + AROUND_LITERAL_LEN);
                literal(&text, &mut self.output);
                self.output.push_str("\r\n");
                Ok(Reply::ok("Done"))
            }
            ScriptAct::Delete(name) => {
                directory.scripts().remove(account, &name).await?;
                Ok(Reply::ok("Removed"))
            }
            ScriptAct::Rename { from, to } => {
                directory.scripts().rename(account, &from, &to).await?;
                Ok(Reply::ok("Renamed"))
            }
        }
    }
}

/// Waits for the turn of a command, and compiles the script that it brings. The error says what is
/// wrong with the script.
///
/// Compiling keeps a thread busy for a while. That thread has the permit until it is done, also if
/// nobody waits for it any more.
async fn make_ready(
    permits: &KeyedSemaphore<[u8; 16]>,
    account: [u8; 16],
    act: ScriptAct,
) -> Result<Ready, String> {
    let permit = permits.acquire(account).await;
    if !matches!(act, ScriptAct::Put { .. } | ScriptAct::Check(_)) {
        return Ok(Ready { act, permit });
    }
    let compiling = on_compute_thread(move || -> Result<Ready, String> {
        if let ScriptAct::Put { text, .. } | ScriptAct::Check(text) = &act {
            posthaste_filter::compile(text).map_err(|errors| errors.to_string())?;
        }
        Ok(Ready { act, permit })
    });
    compiling.await.unwrap_or_else(|error| Err(error.to_string()))
}
