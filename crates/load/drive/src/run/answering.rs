//! Checks before a run that each server has the protocol that its address names.
//!
//! A POP3 workload on an IMAP port would otherwise be a run of errors, one for each user.

use std::time::Duration;

use posthaste_imap_client::Error;
use posthaste_imap_client::net::{Dialer, Security, Wire};

use crate::target::{Scheme, Target};

/// Longest wait for a greeting. Some servers of SMTP greet after six seconds, to catch clients that
/// do not wait.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// The longest greeting that is read.
const GREETING_BYTES_MAX: usize = 8 * 1024;

/// Checks each server. Unreachable servers are ignored here: the run reports them, or waits for
/// them.
///
/// # Errors
/// A server answers in another protocol than its address names: which, and what to write instead.
pub fn refuse_wrong_protocols<'a>(
    dialer: &Dialer,
    targets: impl IntoIterator<Item = &'a Target>,
) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    for target in targets {
        runtime.block_on(check_server(dialer, target))?;
    }
    Ok(())
}

/// Checks the greeting of a server, and its answer to the first command where that decides.
async fn check_server(dialer: &Dialer, target: &Target) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{}: {what}", shown(target)));
    let mut wire = match dialer.dial(&target.endpoint, 0).await {
        Ok(wire) => wire,
        Err(Error::Tls { source, .. }) => {
            return wrong(&format!(
                "no TLS handshake ({source}); if the server begins without TLS, write {}://",
                name(target.scheme)
            ));
        }
        Err(_) => return Ok(()),
    };
    let Some(greeting) = line(&mut wire).await else {
        if target.endpoint.security == Security::Tls {
            return Ok(());
        }
        return wrong(&format!(
            "no greeting within {} s; if the server begins with TLS, write {}s://",
            GREETING_WITHIN.as_secs(),
            name(target.scheme)
        ));
    };
    let Some(spoken) = spoken(&greeting) else {
        return wrong(&format!("`{greeting}` is not the greeting of a mail server"));
    };
    let wanted = match target.scheme {
        Scheme::Imap => "IMAP",
        Scheme::Pop3 => "POP3",
        Scheme::Smtp | Scheme::Lmtp | Scheme::Submission => "SMTP or LMTP",
    };
    if spoken != wanted {
        return wrong(&format!("a server for {spoken} answers there (`{greeting}`), not one for {wanted}"));
    }
    hello(&mut wire, target).await
}

/// SMTP and LMTP greet in the same way. Which of them it is, the first command shows (RFC 2033
/// §4.1).
async fn hello(wire: &mut Wire, target: &Target) -> Result<(), String> {
    let (say, other) = match target.scheme {
        Scheme::Imap | Scheme::Pop3 => return Ok(()),
        Scheme::Lmtp => ("LHLO", "smtp"),
        Scheme::Smtp | Scheme::Submission => ("EHLO", "lmtp"),
    };
    if wire.write(format!("{say} posthaste-load.invalid\r\n").as_bytes()).await.is_err() {
        return Ok(());
    }
    match line(wire).await {
        Some(reply) if reply.starts_with('5') => Err(format!(
            "{}: {say} is answered `{reply}`; if another protocol is spoken there, write {other}://",
            shown(target)
        )),
        _ => Ok(()),
    }
}

/// The protocol of a greeting: RFC 9051 §7.1, RFC 1939 §4, RFC 5321 §4.2.
fn spoken(greeting: &str) -> Option<&'static str> {
    let code = |text: &str| text.bytes().take(3).filter(u8::is_ascii_digit).count() == 3;
    match greeting {
        text if text.starts_with("* ") => Some("IMAP"),
        text if text.starts_with("+OK") || text.starts_with("-ERR") => Some("POP3"),
        text if code(text) && matches!(text.as_bytes().get(3), None | Some(b' ' | b'-')) => {
            Some("SMTP or LMTP")
        }
        _ => None,
    }
}

/// A line, cut to what an error may show.
async fn line(wire: &mut Wire) -> Option<String> {
    let mut input = Vec::new();
    let reading = async {
        while !input.contains(&b'\n') && input.len() < GREETING_BYTES_MAX {
            if wire.read(&mut input).await.ok()? == 0 {
                return None;
            }
        }
        let line = input.split(|b| *b == b'\n').next().unwrap_or_default();
        Some(String::from_utf8_lossy(line).trim_end().chars().take(100).collect())
    };
    tokio::time::timeout(GREETING_WITHIN, reading).await.ok().flatten()
}

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Imap => "imap",
        Scheme::Pop3 => "pop3",
        Scheme::Smtp => "smtp",
        Scheme::Lmtp => "lmtp",
        Scheme::Submission => "submission",
    }
}

fn shown(target: &Target) -> String {
    format!("{}://{}:{}", name(target.scheme), target.endpoint.host, target.endpoint.port)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use posthaste_imap_client::net::Trust;

    use super::*;

    /// A server that greets and answers one command; returns the verdict on it for this scheme.
    fn said(greeting: &'static str, reply: &'static str, scheme: &str) -> Result<(), String> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(greeting.as_bytes());
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(reply.as_bytes());
        });
        let target = format!("{scheme}://127.0.0.1:{port}").parse().unwrap();
        let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(20)).unwrap();
        refuse_wrong_protocols(&dialer, [&target])
    }

    #[test]
    fn a_workload_is_refused_where_another_protocol_is_spoken() {
        let imap = "* OK [CAPABILITY IMAP4rev1] ready\r\n";
        assert_eq!(said(imap, "", "imap"), Ok(()));
        let wrong = said(imap, "", "pop3").unwrap_err();
        assert!(
            wrong.starts_with("pop3://127.0.0.1:") && wrong.contains("a server for IMAP answers"),
            "{wrong}"
        );
        assert!(wrong.contains("not one for POP3"), "{wrong}");
        assert!(said("+OK POP3 ready <1@x>\r\n", "", "imap").unwrap_err().contains("a server for POP3"));
        assert!(said("220 mx ESMTP\r\n", "", "imap").unwrap_err().contains("a server for SMTP or LMTP"));
        assert!(said("SSH-2.0-x\r\n", "", "imap").unwrap_err().contains("not the greeting of a mail server"));
    }

    #[test]
    fn the_first_command_shows_whether_it_is_smtp_or_lmtp() {
        assert_eq!(said("220 mx\r\n", "250-mx\r\n250 PIPELINING\r\n", "lmtp"), Ok(()));
        let wrong = said("220 mx ESMTP\r\n", "500 5.5.1 Command unrecognized\r\n", "lmtp").unwrap_err();
        assert!(wrong.contains("LHLO is answered `500") && wrong.contains("write smtp://"), "{wrong}");
        assert!(said("220 mx LMTP\r\n", "500 use LHLO\r\n", "smtp").unwrap_err().contains("write lmtp://"));
        // Later answers of a server are checked by the run.
        assert_eq!(said("220 mx\r\n", "421 busy\r\n", "smtp"), Ok(()));
    }

    #[test]
    fn tls_where_there_is_none_is_named() {
        let wrong = said("* OK ready\r\n", "", "imaps").unwrap_err();
        assert!(wrong.contains("no TLS handshake") && wrong.contains("write imap://"), "{wrong}");
    }

    #[test]
    fn a_server_that_is_away_is_not_judged() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let target = format!("imap://127.0.0.1:{port}").parse().unwrap();
        let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(5)).unwrap();
        assert_eq!(refuse_wrong_protocols(&dialer, [&target]), Ok(()));
    }
}
