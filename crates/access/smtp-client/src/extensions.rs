//! The extensions of a host, by its answer to EHLO (RFC 5321 §4.1.1.1).

use crate::reply::Reply;

/// The extensions that a host announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extensions {
    pub pipelining: bool,
    pub eight_bit: bool,
    pub smtputf8: bool,
    pub starttls: bool,
    pub auth_plain: bool,
    pub auth_login: bool,
    pub dsn: bool,
    pub chunking: bool,
    pub binarymime: bool,
    pub requiretls: bool,
    pub mt_priority: bool,
    /// Octets of a message at most, if the host announced a limit.
    pub size: Option<u64>,
    /// Recipients of a message at most, if the host announced a limit (RFC 9422 §4).
    pub recipients_max: Option<usize>,
    /// Transactions on a connection at most, if the host announced a limit (RFC 9422 §4).
    pub mails_max: Option<usize>,
}

impl Extensions {
    /// The extensions that an answer to EHLO names.
    pub fn of(reply: &Reply) -> Self {
        let mut found = Self::default();
        for line in reply.lines.iter().skip(1) {
            let mut words = line.split([' ', '=']);
            let word = words.next().unwrap_or_default().to_ascii_uppercase();
            match word.as_str() {
                "PIPELINING" => found.pipelining = true,
                "8BITMIME" => found.eight_bit = true,
                "SMTPUTF8" => found.smtputf8 = true,
                "STARTTLS" => found.starttls = true,
                // RFC 1870 §4: 0 is no limit.
                "SIZE" => found.size = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0),
                "DSN" => found.dsn = true,
                "CHUNKING" => found.chunking = true,
                "REQUIRETLS" => found.requiretls = true,
                "MT-PRIORITY" => found.mt_priority = true,
                "BINARYMIME" => found.binarymime = true,
                "LIMITS" => {
                    let limit = |name: &str| {
                        let numbers = line.split(' ').filter_map(|word| word.split_once('='));
                        let mut named = numbers.filter(|(of, _)| of.eq_ignore_ascii_case(name));
                        named.find_map(|(_, n)| n.parse().ok()).filter(|max: &usize| *max > 0)
                    };
                    (found.recipients_max, found.mails_max) = (limit("RCPTMAX"), limit("MAILMAX"));
                }
                "AUTH" => {
                    for mechanism in words {
                        found.auth_plain |= mechanism.eq_ignore_ascii_case("PLAIN");
                        found.auth_login |= mechanism.eq_ignore_ascii_case("LOGIN");
                    }
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_read_whatever_their_case() {
        let lines = [
            "mx.test hello",
            "size 1000",
            "PIPELINING",
            "AUTH=LOGIN plain",
            "8BitMime",
            "X-OTHER",
            "limits MAILMAX=9 rcptmax=20",
            "dsn",
        ];
        let reply = Reply { code: 250, lines: lines.map(str::to_owned).to_vec() };
        let found = Extensions::of(&reply);
        let wanted = Extensions {
            pipelining: true,
            eight_bit: true,
            auth_plain: true,
            auth_login: true,
            dsn: true,
            size: Some(1000),
            recipients_max: Some(20),
            mails_max: Some(9),
            ..Extensions::default()
        };
        assert_eq!(found, wanted);
        let none = Reply {
            code: 250,
            lines: vec!["x".into(), "SIZE 0".into(), "SIZE".into(), "LIMITS RCPTMAX=0".into()],
        };
        assert_eq!(Extensions::of(&none), Extensions::default());
    }
}
