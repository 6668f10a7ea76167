//! The limits of accounts: those of the server for all, and those that one account has of its
//! own.

use super::rate::{DAY, HOUR, MINUTE, Rate};

/// Least bytes an hour for an account: at this rate one buffer of 64 KiB takes 3.5 s.
pub const ACCOUNT_BYTES_LEAST: u64 = 64 << 20;

/// Limits for each account; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Connections at once that have logged in.
    pub connections: usize,
    /// The most connections that an account's own limit allows, unless that is 0. So an account
    /// with a limit of its own leaves some to others, too.
    pub own_connections_max: usize,
    /// Commands a minute. More of them wait.
    pub commands_per_minute: u64,
    /// Messages that are submitted in an hour, also by scripts of mailboxes.
    pub messages_per_hour: u64,
    /// Messages that are submitted in a day.
    pub messages_per_day: u64,
    /// Recipients of submitted messages in an hour.
    pub recipients_per_hour: u64,
    /// Recipients of submitted messages in a day.
    pub recipients_per_day: u64,
    /// Messages to other domains in an hour that nobody submits: forwards, redirects, replies and
    /// notifications of scripts.
    pub sent_on_per_hour: u64,
    /// The same limit for a day.
    pub sent_on_per_day: u64,
    /// Copies in an hour that groups make of the mail of one sender, here or elsewhere.
    pub group_copies_per_hour: u64,
    /// Bytes from the account's clients in an hour, before compression. More of them are read
    /// slowly.
    pub received_per_hour: u64,
    /// Bytes to its clients in an hour, before compression. More of them are sent slowly.
    pub sent_per_hour: u64,
}

/// Which bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountLimit {
    /// [`AccountLimits::connections`]
    Connections,
    /// [`AccountLimits::commands_per_minute`]
    Commands,
    /// [`AccountLimits::messages_per_hour`]
    MessagesPerHour,
    /// [`AccountLimits::messages_per_day`]
    MessagesPerDay,
    /// [`AccountLimits::recipients_per_hour`]
    RecipientsPerHour,
    /// [`AccountLimits::recipients_per_day`]
    RecipientsPerDay,
    /// [`AccountLimits::sent_on_per_hour`]
    SentOnPerHour,
    /// [`AccountLimits::sent_on_per_day`]
    SentOnPerDay,
    /// [`AccountLimits::received_per_hour`]
    Received,
    /// [`AccountLimits::sent_per_hour`]
    Sent,
}

impl AccountLimit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Connections,
        Self::Commands,
        Self::MessagesPerHour,
        Self::MessagesPerDay,
        Self::RecipientsPerHour,
        Self::RecipientsPerDay,
        Self::SentOnPerHour,
        Self::SentOnPerDay,
        Self::Received,
        Self::Sent,
    ];

    /// The setting of the configuration.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Connections => "limits.account_connections",
            Self::Commands => "limits.account_commands_per_minute",
            Self::MessagesPerHour => "limits.submitted_messages_per_hour",
            Self::MessagesPerDay => "limits.submitted_messages_per_day",
            Self::RecipientsPerHour => "limits.submitted_recipients_per_hour",
            Self::RecipientsPerDay => "limits.submitted_recipients_per_day",
            Self::SentOnPerHour => "limits.sent_on_messages_per_hour",
            Self::SentOnPerDay => "limits.sent_on_messages_per_day",
            Self::Received => "limits.account_received_per_hour",
            Self::Sent => "limits.account_sent_per_hour",
        }
    }

    /// The name of the limit if an account has one of its own: that of the setting, without what
    /// is clear then. Records of accounts have it, so it must not change.
    pub fn name(self) -> &'static str {
        let key = self.setting();
        let key = key.strip_prefix("limits.").unwrap_or(key);
        key.strip_prefix("account_").unwrap_or(key)
    }

    /// The limit of such a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// The least value that a limit may have, apart from 0.
    const fn least(self) -> u64 {
        match self {
            Self::Received | Self::Sent => ACCOUNT_BYTES_LEAST,
            _ => 1,
        }
    }

    pub(super) fn rate(self, limits: &AccountLimits) -> Rate {
        let (count, period) = match self {
            Self::Connections => (0, MINUTE),
            Self::Commands => (limits.commands_per_minute, MINUTE),
            Self::MessagesPerHour => (limits.messages_per_hour, HOUR),
            Self::MessagesPerDay => (limits.messages_per_day, DAY),
            Self::RecipientsPerHour => (limits.recipients_per_hour, HOUR),
            Self::RecipientsPerDay => (limits.recipients_per_day, DAY),
            Self::SentOnPerHour => (limits.sent_on_per_hour, HOUR),
            Self::SentOnPerDay => (limits.sent_on_per_day, DAY),
            Self::Received => (limits.received_per_hour, HOUR),
            Self::Sent => (limits.sent_per_hour, HOUR),
        };
        Rate { count, period }
    }
}

/// The limits that one account has of its own, in place of the server's; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnLimits([Option<u64>; AccountLimit::ALL.len()]);

impl OwnLimits {
    /// None: the server's limits hold.
    pub const NONE: Self = Self([None; AccountLimit::ALL.len()]);

    /// Whether the account has none.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The account's own limit, if it has one.
    pub const fn get(&self, limit: AccountLimit) -> Option<u64> {
        self.0[limit as usize]
    }

    /// Sets a limit; `None` for the server's.
    pub const fn set(&mut self, limit: AccountLimit, own: Option<u64>) {
        self.0[limit as usize] = own;
    }

    /// The limits that the account has.
    pub fn iter(&self) -> impl Iterator<Item = (AccountLimit, u64)> {
        AccountLimit::ALL.into_iter().filter_map(move |limit| Some((limit, self.get(limit)?)))
    }

    /// Whether a command could have set them. With fewer bytes an hour, a session would hold
    /// memory that others need while it waits.
    pub fn is_sound(&self) -> bool {
        self.iter().all(|(limit, own)| own == 0 || own >= limit.least())
    }

    /// The limits that hold for the account on this server.
    pub(super) fn over(&self, server: &AccountLimits) -> AccountLimits {
        let of = |limit, servers: u64| self.get(limit).unwrap_or(servers);
        let connections = self.get(AccountLimit::Connections).map(|own| {
            let own = usize::try_from(own).unwrap_or(usize::MAX);
            let most = server.own_connections_max;
            if most > 0 { own.min(most) } else { own }
        });
        AccountLimits {
            connections: connections.unwrap_or(server.connections),
            own_connections_max: server.own_connections_max,
            commands_per_minute: of(AccountLimit::Commands, server.commands_per_minute),
            messages_per_hour: of(AccountLimit::MessagesPerHour, server.messages_per_hour),
            messages_per_day: of(AccountLimit::MessagesPerDay, server.messages_per_day),
            recipients_per_hour: of(AccountLimit::RecipientsPerHour, server.recipients_per_hour),
            recipients_per_day: of(AccountLimit::RecipientsPerDay, server.recipients_per_day),
            sent_on_per_hour: of(AccountLimit::SentOnPerHour, server.sent_on_per_hour),
            sent_on_per_day: of(AccountLimit::SentOnPerDay, server.sent_on_per_day),
            group_copies_per_hour: server.group_copies_per_hour,
            received_per_hour: of(AccountLimit::Received, server.received_per_hour),
            sent_per_hour: of(AccountLimit::Sent, server.sent_per_hour),
        }
    }
}

/// An account as its limits see it.
#[derive(Clone, Copy, Debug)]
pub struct LimitedAccount<'a> {
    /// Its lasting id.
    pub id: [u8; 16],
    /// Its name, for the log.
    pub name: &'a str,
    /// The limits of its own, if it has any.
    pub own: Option<&'a OwnLimits>,
    /// The version of the record that they are from.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_number_and_a_name() {
        for (number, limit) in AccountLimit::ALL.into_iter().enumerate() {
            assert_eq!((limit as usize, AccountLimit::named(limit.name())), (number, Some(limit)));
        }
        assert_eq!(AccountLimit::Connections.name(), "connections");
        assert_eq!(AccountLimit::Commands.name(), "commands_per_minute");
        assert_eq!(AccountLimit::MessagesPerDay.name(), "submitted_messages_per_day");
        assert_eq!(AccountLimit::named("account_connections"), None);
    }

    #[test]
    fn own_limits_are_in_place_of_the_servers() {
        let server = AccountLimits {
            connections: 50,
            own_connections_max: 260,
            sent_per_hour: 7,
            ..AccountLimits::default()
        };
        assert_eq!(OwnLimits::NONE.over(&server), server);
        // Each limit alone changes one number.
        let mut seen = Vec::new();
        for limit in AccountLimit::ALL {
            let mut own = OwnLimits::NONE;
            own.set(limit, Some(3));
            assert_eq!((own.get(limit), own.iter().collect::<Vec<_>>()), (Some(3), vec![(limit, 3)]));
            let limits = own.over(&server);
            let count = limit.rate(&limits).count;
            assert!(count == 3 || (limit == AccountLimit::Connections && limits.connections == 3));
            assert!(!seen.contains(&limits));
            seen.push(limits);
            own.set(limit, None);
            assert!(own.is_empty());
        }
        let connections = |own: u64| {
            let mut limits = OwnLimits::NONE;
            limits.set(AccountLimit::Connections, Some(own));
            limits.over(&server).connections
        };
        assert_eq!([0, 100, 260, 261, u64::MAX].map(connections), [0, 100, 260, 260, 260]);
    }

    #[test]
    fn limits_of_bytes_have_a_least_value() {
        for limit in AccountLimit::ALL {
            let is_of_bytes = matches!(limit, AccountLimit::Received | AccountLimit::Sent);
            let is_sound = |count| {
                let mut own = OwnLimits::NONE;
                own.set(limit, Some(count));
                own.is_sound()
            };
            assert_eq!([1, ACCOUNT_BYTES_LEAST - 1].map(is_sound), [!is_of_bytes; 2], "{limit:?}");
            assert_eq!([0, ACCOUNT_BYTES_LEAST, u64::MAX].map(is_sound), [true; 3], "{limit:?}");
        }
    }
}
