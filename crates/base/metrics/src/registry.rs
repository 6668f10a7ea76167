//! The sums over all sessions.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::account::{ACCOUNTS_MAX, AccountCost, AccountCounters, Use};
use crate::command_key::CommandKey;
use crate::counters::{Amounts, Counter, Counters};

/// Client programs that are held one by one. A client chooses its name, so all further ones are
/// [`OTHER`].
pub const CLIENTS_MAX: usize = 200;

/// Octets of a client program's name; the rest is cut off.
const CLIENT_NAME_MAX: usize = 64;

/// The name of the sum over entries that are not held one by one.
pub(crate) const OTHER: &str = "(other)";

/// The counters of a server. Sessions share it.
#[derive(Debug, Default)]
pub struct Registry {
    commands: RwLock<foldhash::HashMap<CommandKey, Arc<Counters>>>,
    accounts: RwLock<Accounts>,
    /// The accounts that are no longer held one by one.
    other_accounts: RwLock<AccountCost>,
    /// Accounts over [`ACCOUNTS_MAX`] while all others had sessions.
    crowd: Arc<AccountCounters>,
    clients: RwLock<HashMap<String, Arc<Counters>>>,
}

#[derive(Debug, Default)]
struct Accounts {
    by_name: HashMap<String, Arc<AccountCounters>>,
    /// New accounts that are counted in the crowd before the next eviction.
    before_eviction: usize,
}

/// The sums at one moment. Sums of a command in progress are not in it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The amounts by protocol, command and folder size, in the order of the keys.
    pub commands: Vec<(CommandKey, Amounts)>,
    /// The costs by account, the costliest first.
    pub accounts: Vec<(String, AccountCost)>,
    /// The amounts by client program, the costliest first.
    pub clients: Vec<(String, Amounts)>,
}

impl Registry {
    /// The sums so far.
    pub fn snapshot(&self) -> Snapshot {
        let mut commands: Vec<_> =
            read(&self.commands).iter().map(|(key, sums)| (*key, sums.load())).collect();
        commands.sort_unstable_by_key(|(key, _)| *key);
        let mut accounts: Vec<_> =
            read(&self.accounts).by_name.iter().map(|(name, sums)| (name.clone(), sums.load())).collect();
        let mut other = *read(&self.other_accounts);
        other.add(&self.crowd.load());
        if other != AccountCost::default() {
            accounts.push((OTHER.to_owned(), other));
        }
        accounts.sort_by_cached_key(|(name, cost)| (u64::MAX - cost.total().get(Counter::Cpu), name.clone()));
        let mut clients: Vec<_> =
            read(&self.clients).iter().map(|(name, sums)| (name.clone(), sums.load())).collect();
        clients.sort_by_cached_key(|(name, sums)| (u64::MAX - sums.get(Counter::Cpu), name.clone()));
        Snapshot { commands, accounts, clients }
    }

    /// The commands of each account in its folders, by the accounts' names.
    pub fn uses(&self) -> Vec<(String, Vec<Use>)> {
        let mut uses: Vec<_> =
            read(&self.accounts).by_name.iter().map(|(name, sums)| (name.clone(), sums.uses())).collect();
        uses.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        uses
    }

    pub(crate) fn command(&self, key: CommandKey) -> Arc<Counters> {
        if let Some(sums) = read(&self.commands).get(&key) {
            return Arc::clone(sums);
        }
        Arc::clone(write(&self.commands).entry(key).or_default())
    }

    /// The counters of an account. When there are too many accounts, those without a session go,
    /// the cheapest first; their cost is added to the sum of the others. Where all have sessions,
    /// new ones are counted together.
    pub(crate) fn account(&self, name: &str) -> Arc<AccountCounters> {
        if let Some(sums) = read(&self.accounts).by_name.get(name) {
            return Arc::clone(sums);
        }
        let mut accounts = write(&self.accounts);
        let Accounts { by_name, before_eviction } = &mut *accounts;
        if by_name.len() >= ACCOUNTS_MAX && !by_name.contains_key(name) {
            if let Some(less) = before_eviction.checked_sub(1) {
                *before_eviction = less;
                return Arc::clone(&self.crowd);
            }
            self.fold_cheapest(by_name);
            // A look at all accounts for every thousand new ones, however few have no session.
            let room = ACCOUNTS_MAX.saturating_sub(by_name.len());
            *before_eviction = (ACCOUNTS_MAX / 10).saturating_sub(room);
            if room == 0 {
                return Arc::clone(&self.crowd);
            }
        }
        Arc::clone(by_name.entry(name.to_owned()).or_default())
    }

    /// Evicts the cheaper half of the accounts without a session.
    fn fold_cheapest(&self, accounts: &mut HashMap<String, Arc<AccountCounters>>) {
        let mut costs: Vec<u64> = accounts
            .values()
            .filter(|sums| Arc::strong_count(sums) == 1)
            .map(|sums| sums.load().total().get(Counter::Cpu))
            .collect();
        costs.sort_unstable();
        let Some(&most) = costs.get(costs.len() / 2) else { return };
        let mut other = write(&self.other_accounts);
        accounts.retain(|_, sums| {
            let cost = sums.load();
            let goes = Arc::strong_count(sums) == 1 && cost.total().get(Counter::Cpu) <= most;
            if goes {
                other.add(&cost);
            }
            !goes
        });
    }

    /// The counters of a client program.
    pub(crate) fn client(&self, name: &str) -> Arc<Counters> {
        let name = shown(name);
        if let Some(sums) = read(&self.clients).get(&name) {
            return Arc::clone(sums);
        }
        let mut clients = write(&self.clients);
        let name = if clients.len() < CLIENTS_MAX { name } else { OTHER.to_owned() };
        Arc::clone(clients.entry(name).or_default())
    }
}

/// A client's name as it is in labels and reports: bounded, and without control characters.
fn shown(name: &str) -> String {
    let mut shown: String = name.chars().filter(|c| !c.is_control()).take(CLIENT_NAME_MAX).collect();
    while shown.len() > CLIENT_NAME_MAX {
        shown.pop();
    }
    let shown = shown.trim();
    if shown.is_empty() { OTHER.to_owned() } else { shown.to_owned() }
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::OpenFolder;
    use crate::folder_size::FolderSize;

    const NO_FOLDER: CommandKey = CommandKey { protocol: "imap", command: "NOOP", folder: FolderSize::None };

    fn cpu(nanoseconds: u64) -> Amounts {
        Amounts::default().with(Counter::Cpu, nanoseconds).with(Counter::Commands, 1)
    }

    #[test]
    fn accounts_are_bounded_and_nothing_is_lost() {
        let registry = Registry::default();
        let busy = registry.account("busy");
        for n in 0..2 * ACCOUNTS_MAX as u64 {
            registry.account(&format!("a{n}")).add(NO_FOLDER, None, &cpu(n));
        }
        let folder = OpenFolder { messages: 7, is_inbox: true };
        busy.add(CommandKey { folder: FolderSize::Upto100, ..NO_FOLDER }, Some(folder), &cpu(1));
        let snapshot = registry.snapshot();
        assert!(snapshot.accounts.len() <= ACCOUNTS_MAX + 1, "{}", snapshot.accounts.len());
        let total: u64 = snapshot.accounts.iter().map(|(_, cost)| cost.total().get(Counter::Commands)).sum();
        assert_eq!(total, 2 * ACCOUNTS_MAX as u64 + 1);
        assert_eq!(snapshot.accounts[0].0, OTHER);
        assert_eq!(snapshot.accounts[1].0, format!("a{}", 2 * ACCOUNTS_MAX - 1));
        // It has a session all the while.
        assert!(snapshot.accounts.iter().any(|(name, _)| name == "busy"));
    }

    /// Each has a session: none can go. New ones neither take memory nor look at all others.
    #[test]
    fn accounts_with_sessions_are_bounded_too() {
        let registry = Registry::default();
        let mut held: Vec<_> = (0..ACCOUNTS_MAX as u64).map(|n| registry.account(&format!("a{n}"))).collect();
        held.extend((0..100).map(|n| registry.account(&format!("b{n}"))));
        assert!(
            read(&registry.accounts).before_eviction > 0,
            "the others are not looked at for each new one"
        );
        held.iter().for_each(|sums| sums.add(NO_FOLDER, None, &cpu(1)));
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.accounts.len(), ACCOUNTS_MAX + 1);
        let other = snapshot.accounts.iter().find(|(name, _)| name == OTHER).unwrap();
        assert_eq!(other.1.total().get(Counter::Commands), 100);
        // Once sessions have ended, there is room again.
        held.clear();
        for n in 0..ACCOUNTS_MAX / 10 {
            registry.account(&format!("c{n}"));
        }
        registry.account("new").add(NO_FOLDER, None, &cpu(7));
        let snapshot = registry.snapshot();
        assert!(snapshot.accounts.len() <= ACCOUNTS_MAX + 1);
        assert!(snapshot.accounts.iter().any(|(name, _)| name == "new"));
    }

    #[test]
    fn clients_cannot_fill_the_memory() {
        let registry = Registry::default();
        for n in 0..10_000 {
            registry.client(&format!("{n}\r\n{}", "x".repeat(1_000))).add_all(&cpu(1));
        }
        let clients = registry.snapshot().clients;
        assert_eq!(clients.len(), CLIENTS_MAX + 1);
        assert_eq!(
            clients[0],
            (
                OTHER.to_owned(),
                Amounts::default()
                    .with(Counter::Cpu, 10_000 - CLIENTS_MAX as u64)
                    .with(Counter::Commands, 10_000 - CLIENTS_MAX as u64)
            )
        );
        assert!(clients.iter().all(|(name, _)| name.len() <= CLIENT_NAME_MAX && !name.contains('\n')));
    }
}
