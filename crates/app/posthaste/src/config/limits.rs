//! The section `limits`: memory, connections, and what an account may do.

use std::time::Duration;

use bytesize::ByteSize;
use posthaste_net::{ACCOUNT_BYTES_LEAST, AccountLimits};
use serde::Deserialize;

use super::values::{Auto, period, timeout};

/// The largest message if the memory of the machine is unknown.
const MESSAGE_LEN_DEFAULT: u64 = 64 << 20;

#[derive(Debug, Clone, Deserialize)]
pub struct Limits {
    pub memory: Auto<ByteSize>,
    pub connections: Auto<usize>,
    pub connections_per_address: Auto<usize>,
    pub message_size: Auto<ByteSize>,
    pub incoming_bytes: Auto<ByteSize>,
    pub reading_bytes: Auto<ByteSize>,
    pub summary_bytes: Auto<ByteSize>,
    pub account_size: ByteSize,
    pub account_messages: Auto<u64>,
    pub folder_messages_warn: u64,
    pub folder_messages_max: u32,
    pub account_connections: usize,
    pub account_commands_per_minute: u64,
    pub account_received_per_hour: ByteSize,
    pub account_sent_per_hour: ByteSize,
    pub submitted_messages_per_hour: u64,
    pub submitted_messages_per_day: u64,
    pub submitted_recipients_per_hour: u64,
    pub submitted_recipients_per_day: u64,
    pub sent_on_messages_per_hour: u64,
    pub sent_on_messages_per_day: u64,
    pub group_copies_per_hour: u64,
    pub account_queued: ByteSize,
    #[serde(deserialize_with = "timeout")]
    pub idle_timeout: Duration,
    #[serde(deserialize_with = "timeout")]
    pub login_timeout: Duration,
    #[serde(deserialize_with = "period")]
    pub pop3_login_delay: Duration,
    #[serde(deserialize_with = "timeout")]
    pub shutdown_timeout: Duration,
}

impl Limits {
    /// Octets of the largest message. "auto" counts as what large machines have.
    pub fn message_len(&self) -> u64 {
        self.message_size.map(ByteSize::as_u64).unwrap_or(MESSAGE_LEN_DEFAULT)
    }

    /// The limits of each account, on a server with this many connections. An account that has a
    /// limit of connections leaves half of them to others, also if the limit is its own.
    pub fn of_accounts(&self, connections: u64) -> AccountLimits {
        let half = usize::try_from(connections.div_ceil(2)).unwrap_or(usize::MAX);
        AccountLimits {
            connections: self.account_connections.min(half),
            own_connections_max: half,
            commands_per_minute: self.account_commands_per_minute,
            messages_per_hour: self.submitted_messages_per_hour,
            messages_per_day: self.submitted_messages_per_day,
            recipients_per_hour: self.submitted_recipients_per_hour,
            recipients_per_day: self.submitted_recipients_per_day,
            sent_on_per_hour: self.sent_on_messages_per_hour,
            sent_on_per_day: self.sent_on_messages_per_day,
            group_copies_per_hour: self.group_copies_per_hour,
            received_per_hour: self.account_received_per_hour.as_u64(),
            sent_per_hour: self.account_sent_per_hour.as_u64(),
        }
    }

    /// Limits so low that a single answer would take minutes.
    pub(super) fn check_accounts(&self) -> Result<(), String> {
        for (key, set) in [
            ("limits.account_received_per_hour", self.account_received_per_hour),
            ("limits.account_sent_per_hour", self.account_sent_per_hour),
        ] {
            if (1..ACCOUNT_BYTES_LEAST).contains(&set.as_u64()) {
                return Err(format!("`{key}` must be at least 64 MiB, or 0 for no limit"));
            }
        }
        Ok(())
    }

    /// Whether a message that may come may also wait.
    pub(super) fn check_queued(&self) -> Result<(), String> {
        // A message over the limit would be refused again and again.
        if (1..self.message_len()).contains(&self.account_queued.as_u64()) {
            return Err(
                "`limits.account_queued` must be at least `limits.message_size`, or 0 for no limit".into()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn an_account_has_at_most_half_of_the_connections() {
        let of = |text: &str, connections| {
            let config = Config::parse(std::path::Path::new("posthaste.toml"), text).unwrap();
            let limits = config.limits.of_accounts(connections);
            assert_eq!(limits.own_connections_max, usize::try_from(connections.div_ceil(2)).unwrap());
            limits.connections
        };
        assert_eq!([1, 16, 65, 520].map(|connections| of("", connections)), [1, 8, 33, 50]);
        assert_eq!(of("[limits]\naccount_connections = 0", 16), 0);
        assert_eq!(of("[limits]\naccount_connections = 500", 520), 260);
    }
}
