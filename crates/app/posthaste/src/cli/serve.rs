//! `posthaste serve`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use posthaste_net::SocketAddress;

#[derive(Debug, Args)]
pub struct Serve {
    /// Listen on this address; repeat for more. One --listen replaces all configured listeners.
    /// PROTOCOL is imap, imaps, pop3, pop3s, lmtp, submission, submissions, smtp or sieve. Port 0
    /// takes a free port. A Unix socket for LMTP is lmtp=unix:/run/posthaste/lmtp.sock.
    #[arg(long, value_name = "PROTOCOL=ADDR:PORT")]
    pub listen: Vec<Listen>,
}

/// `imap=127.0.0.1:1143`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub protocol: Protocol,
    pub place: SocketAddress,
}

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Protocol {
    Imap,
    Imaps,
    Pop3,
    Pop3s,
    Lmtp,
    Submission,
    Submissions,
    Smtp,
    Sieve,
    Https,
}

impl Protocol {
    /// As counted in metrics: with and without TLS alike.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Imap | Self::Imaps => "imap",
            Self::Pop3 | Self::Pop3s => "pop3",
            Self::Submission | Self::Submissions => "submission",
            Self::Lmtp | Self::Smtp | Self::Sieve | Self::Https => self.name(),
        }
    }

    /// As written in the configuration and the `ready` line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Imaps => "imaps",
            Self::Pop3 => "pop3",
            Self::Pop3s => "pop3s",
            Self::Lmtp => "lmtp",
            Self::Submission => "submission",
            Self::Submissions => "submissions",
            Self::Smtp => "smtp",
            Self::Sieve => "sieve",
            Self::Https => "https",
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, address) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not PROTOCOL=ADDR:PORT, for example imap=127.0.0.1:1143"))?;
        let protocol = Protocol::from_str(protocol, true).map_err(|_| {
            format!(
                "`{protocol}` is not a protocol; one of imap, imaps, pop3, pop3s, lmtp, submission, submissions, \
                 smtp, sieve, https"
            )
        })?;
        let place = address.parse()?;
        // The others have logins and TLS, whose rules go by the address of the peer.
        if matches!(place, SocketAddress::Unix(_)) && protocol != Protocol::Lmtp {
            return Err(format!("only lmtp listens on a Unix socket; give {} ADDR:PORT", protocol.name()));
        }
        Ok(Self { protocol, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_and_refused_with_an_example() {
        let listen: Listen = "imaps=[::1]:0".parse().unwrap();
        assert_eq!((listen.protocol, listen.place.to_string()), (Protocol::Imaps, "[::1]:0".to_owned()));
        let listen: Listen = "lmtp=unix:/run/lmtp.sock".parse().unwrap();
        assert_eq!(listen.place, SocketAddress::Unix("/run/lmtp.sock".into()));
        for (text, word) in [
            ("imap", "PROTOCOL=ADDR:PORT"),
            ("pop=1.2.3.4:1", "one of imap"),
            ("imap=x", "not ADDR:PORT"),
            ("imap=unix:/s", "only lmtp"),
        ] {
            assert!(text.parse::<Listen>().unwrap_err().contains(word), "{text}");
        }
    }
}
