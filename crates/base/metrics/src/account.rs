//! The cost of one account.

use std::sync::{Mutex, PoisonError};

use crate::command_key::CommandKey;
use crate::counters::{Amounts, Counter, Counters};
use crate::folder_size::FolderSize;

/// Accounts whose cost is held one by one. When there are more, the cheaper half of those without a
/// session is added to the others. Where all have sessions, new ones are counted together.
pub const ACCOUNTS_MAX: usize = 10_000;

/// Uses that are held of one account. A mail program has some ten, with 64 octets each. Further
/// ones count only in the account's sums. Twice as many could take 80 MB for all accounts.
pub const USES_MAX: usize = 64;

/// The folder that a session has selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFolder {
    /// The number of the folder's messages.
    pub messages: u32,
    /// Whether it is the INBOX of the session's own account.
    pub is_inbox: bool,
}

/// An account's use of one command, in its INBOX or elsewhere, in folders of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The command, and the size of the folder.
    pub key: CommandKey,
    /// Whether it was in the account's INBOX.
    pub is_inbox: bool,
    /// CPU time in nanoseconds.
    pub cpu: u64,
    /// Commands that ended.
    pub commands: u64,
    /// Messages of the folder, summed over the commands.
    pub folder_messages: u64,
}

/// One account's counters, by the size of the folder that was selected.
#[derive(Debug, Default)]
pub(crate) struct AccountCounters {
    by_folder: [Counters; FolderSize::ALL.len()],
    uses: Mutex<Vec<Use>>,
}

impl AccountCounters {
    /// Adds the cost of a command with this folder selected.
    pub(crate) fn add(&self, key: CommandKey, folder: Option<OpenFolder>, amounts: &Amounts) {
        let is_inbox = folder.is_some_and(|folder| folder.is_inbox);
        self.by_folder[key.folder as usize].add_all(amounts);
        if key.folder == FolderSize::None || amounts.get(Counter::Commands) == 0 {
            return;
        }
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let at = uses.iter().position(|known| known.key == key && known.is_inbox == is_inbox);
        let at = at.unwrap_or(uses.len());
        if at == uses.len() {
            if at == USES_MAX {
                return;
            }
            uses.push(Use { key, is_inbox, cpu: 0, commands: 0, folder_messages: 0 });
        }
        let known = &mut uses[at];
        for (sum, counter) in [
            (&mut known.cpu, Counter::Cpu),
            (&mut known.commands, Counter::Commands),
            (&mut known.folder_messages, Counter::FolderMessages),
        ] {
            *sum = sum.saturating_add(amounts.get(counter));
        }
    }

    pub(crate) fn load(&self) -> AccountCost {
        AccountCost { by_folder: std::array::from_fn(|n| self.by_folder[n].load()) }
    }

    pub(crate) fn uses(&self) -> Vec<Use> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The cost of one account since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountCost {
    by_folder: [Amounts; FolderSize::ALL.len()],
}

impl AccountCost {
    /// The account's cost while a folder of this size was selected.
    pub const fn in_folder(&self, folder: FolderSize) -> &Amounts {
        &self.by_folder[folder as usize]
    }

    /// The account's cost in all.
    pub fn total(&self) -> Amounts {
        let mut total = Amounts::default();
        for amounts in self.by_folder {
            total += amounts;
        }
        total
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.by_folder.iter_mut().zip(other.by_folder) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_bounded_and_the_sums_have_all() {
        let counters = AccountCounters::default();
        let inbox = Some(OpenFolder { messages: 70, is_inbox: true });
        let names: Vec<&'static str> =
            (0..2 * USES_MAX).map(|n| -> &'static str { format!("C{n}").leak() }).collect();
        for command in &names {
            let key = CommandKey { protocol: "imap", command, folder: FolderSize::Upto100 };
            let cost = Amounts::default().with(Counter::Commands, 1).with(Counter::FolderMessages, 70);
            counters.add(key, inbox, &cost.with(Counter::Cpu, 5));
            counters.add(key, inbox, &cost.with(Counter::Cpu, 6));
            // Costs without a command and a folder are no use.
            counters.add(CommandKey { command: "session", ..key }, inbox, &cost.with(Counter::Commands, 0));
            counters.add(CommandKey { folder: FolderSize::None, ..key }, None, &cost);
        }
        let uses = counters.uses();
        assert_eq!(uses.len(), USES_MAX);
        assert!(
            uses.iter().all(|u| (u.cpu, u.commands, u.folder_messages, u.is_inbox) == (11, 2, 140, true))
        );
        let in_folder = *counters.load().in_folder(FolderSize::Upto100);
        assert_eq!(in_folder.get(Counter::Commands), 4 * USES_MAX as u64);
    }
}
