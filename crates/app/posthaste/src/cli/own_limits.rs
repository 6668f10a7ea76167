//! The limits that one account has in place of the configuration's: options of `account add` and
//! `account set`.

use bytesize::ByteSize;
use clap::Args;
use posthaste_net::{ACCOUNT_BYTES_LEAST, AccountLimit};

#[derive(Debug, Clone, Default, Args)]
pub struct OwnLimits {
    /// The largest number of its connections at once, over all protocols with a login; 0: no
    /// limit; `default`: the configuration's `limits.account_connections`. It is at most half of
    /// `limits.connections`. Beyond it, logins are refused.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub connections: Option<OwnLimit>,
    /// The commands that its clients may give in a minute; 0: no limit; `default`: the
    /// configuration's `limits.account_commands_per_minute`. Further commands wait.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub commands_per_minute: Option<OwnLimit>,
    /// The bytes that the server reads from its clients in an hour, at least 64 MiB; 0: no limit;
    /// `default`: the configuration's `limits.account_received_per_hour`. Beyond it, reading is
    /// slow.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub received_per_hour: Option<OwnLimit>,
    /// The bytes that the server sends to its clients in an hour, at least 64 MiB; 0: no limit;
    /// `default`: the configuration's `limits.account_sent_per_hour`. Beyond it, sending is slow.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub sent_per_hour: Option<OwnLimit>,
    /// The messages that it may submit in an hour; 0: no limit; `default`: the configuration's
    /// `limits.submitted_messages_per_hour`. Beyond it, submission is refused for a time.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub submitted_messages_per_hour: Option<OwnLimit>,
    /// The same limit for a day, in place of `limits.submitted_messages_per_day`.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub submitted_messages_per_day: Option<OwnLimit>,
    /// The recipients of messages that it may submit in an hour; 0: no limit; `default`: the
    /// configuration's `limits.submitted_recipients_per_hour`.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub submitted_recipients_per_hour: Option<OwnLimit>,
    /// The same limit for a day, in place of `limits.submitted_recipients_per_day`.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub submitted_recipients_per_day: Option<OwnLimit>,
    /// The messages that its forward and its Sieve script may send to other domains in an hour;
    /// 0: no limit; `default`: the configuration's `limits.sent_on_messages_per_hour`. Beyond it,
    /// mail stays in its mailbox.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub sent_on_messages_per_hour: Option<OwnLimit>,
    /// The same limit for a day, in place of `limits.sent_on_messages_per_day`.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub sent_on_messages_per_day: Option<OwnLimit>,
}

impl OwnLimits {
    /// The limits that are named, each with its value; `None` for the configuration's.
    pub fn named(&self) -> impl Iterator<Item = (AccountLimit, Option<u64>)> {
        AccountLimit::ALL.into_iter().filter_map(move |limit| Some((limit, self.get(limit)?.0)))
    }

    const fn get(&self, limit: AccountLimit) -> Option<OwnLimit> {
        match limit {
            AccountLimit::Connections => self.connections,
            AccountLimit::Commands => self.commands_per_minute,
            AccountLimit::MessagesPerHour => self.submitted_messages_per_hour,
            AccountLimit::MessagesPerDay => self.submitted_messages_per_day,
            AccountLimit::RecipientsPerHour => self.submitted_recipients_per_hour,
            AccountLimit::RecipientsPerDay => self.submitted_recipients_per_day,
            AccountLimit::SentOnPerHour => self.sent_on_messages_per_hour,
            AccountLimit::SentOnPerDay => self.sent_on_messages_per_day,
            AccountLimit::Received => self.received_per_hour,
            AccountLimit::Sent => self.sent_per_hour,
        }
    }
}

/// A limit of one account, or none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLimit(pub Option<u64>);

fn count(text: &str) -> Result<OwnLimit, String> {
    if text.eq_ignore_ascii_case("default") {
        return Ok(OwnLimit(None));
    }
    let wrong = |_| format!("`{text}` is not a limit; write for example 100, 0 (no limit) or default");
    text.parse().map(|count| OwnLimit(Some(count))).map_err(wrong)
}

fn bytes(text: &str) -> Result<OwnLimit, String> {
    if text.eq_ignore_ascii_case("default") {
        return Ok(OwnLimit(None));
    }
    match text.parse::<ByteSize>().map(|size| size.as_u64()) {
        Ok(bytes) if bytes == 0 || bytes >= ACCOUNT_BYTES_LEAST => Ok(OwnLimit(Some(bytes))),
        _ => Err(format!("`{text}` is not a limit; write 64 MiB or more, 0 (no limit) or default")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        limits: OwnLimits,
    }

    #[test]
    fn limits_are_numbers_and_sizes() {
        assert_eq!(count("100"), Ok(OwnLimit(Some(100))));
        assert_eq!((count("0"), count("Default")), (Ok(OwnLimit(Some(0))), Ok(OwnLimit(None))));
        assert!(["many", "-1", "none", "1 GiB", ""].iter().all(|text| count(text).is_err()));
        assert_eq!(bytes("64 MiB"), Ok(OwnLimit(Some(64 << 20))));
        assert_eq!((bytes("0"), bytes("default")), (Ok(OwnLimit(Some(0))), Ok(OwnLimit(None))));
        assert!(["much", "63 MiB", "1", "none"].iter().all(|text| bytes(text).is_err()));
    }

    /// An option has the name of the limit, as its record does.
    #[test]
    fn each_limit_has_an_option_of_its_name() {
        for limit in AccountLimit::ALL {
            let option = format!("--{}", limit.name().replace('_', "-"));
            let named = |value: &str| {
                let options = Options::try_parse_from(["posthaste", option.as_str(), value]).unwrap();
                options.limits.named().collect::<Vec<_>>()
            };
            assert_eq!(named("67108864"), [(limit, Some(64 << 20))]);
            assert_eq!(named("default"), [(limit, None)]);
        }
        assert_eq!(OwnLimits::default().named().count(), 0);
    }
}
