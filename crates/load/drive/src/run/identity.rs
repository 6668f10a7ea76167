//! The server's answer to ID. Results of several generators are merged only if it is the same.

use posthaste_imap_client::net::Dialer;
use posthaste_imap_client::{Client, Handler};
use posthaste_load_results::Offered;

use crate::target::{Scheme, Target};

/// Longest answer that is kept.
const ANSWER_CHARACTERS_MAX: usize = 200;
/// The longest answer to CAPA that is read.
const CAPA_BYTES_MAX: usize = 8 * 1024;

/// The server's name and version, by its own words: the answer to ID (RFC 2971) over IMAP,
/// IMPLEMENTATION of CAPA (RFC 2449 §6.9) over POP3. A greeting is no name: it may have the time.
pub fn identify(dialer: &Dialer, server: &Target) -> Offered<String> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Offered::NotOffered(error.to_string()),
    };
    let said = runtime.block_on(async {
        // A server that says nothing must not hold up the run.
        let asking = async {
            match server.scheme {
                Scheme::Imap => by_id(dialer, server).await,
                Scheme::Pop3 => by_capa(dialer, server).await,
                Scheme::Smtp | Scheme::Lmtp | Scheme::Submission => None,
            }
        };
        tokio::time::timeout(dialer.timeout, asking).await.ok().flatten()
    });
    match said {
        Some(said) => Offered::Value(said.chars().take(ANSWER_CHARACTERS_MAX).collect()),
        None => Offered::NotOffered("the server does not name itself (ID, or IMPLEMENTATION of CAPA)".into()),
    }
}

/// The line of an answer that begins with this word.
#[derive(Default)]
struct IdLine(Option<String>);

impl Handler for IdLine {
    fn raw(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if let Some(said) = line.trim_end().strip_prefix("* ID ")
            && !said.eq_ignore_ascii_case("NIL")
        {
            self.0 = Some(said.to_owned());
        }
    }
}

async fn by_id(dialer: &Dialer, server: &Target) -> Option<String> {
    let mut client = Client::connect(dialer, &server.endpoint, 0).await.ok()?;
    client.learn_capabilities().await.ok()?;
    let mut line = IdLine::default();
    if client.capabilities().has("ID") {
        client.command("ID NIL", &mut line).await.ok()?;
    }
    let _ = client.logout().await;
    line.0
}

async fn by_capa(dialer: &Dialer, server: &Target) -> Option<String> {
    let mut wire = dialer.dial(&server.endpoint, 0).await.ok()?;
    // A client waits for the greeting (RFC 1939 §4).
    let mut input = Vec::new();
    while !input.ends_with(b"\r\n") && input.len() < CAPA_BYTES_MAX {
        (wire.read(&mut input).await.ok()? > 0).then_some(())?;
    }
    wire.write(b"CAPA\r\n").await.ok()?;
    input.clear();
    while !input.ends_with(b"\r\n.\r\n") && !input.starts_with(b"-") && input.len() < CAPA_BYTES_MAX {
        (wire.read(&mut input).await.ok()? > 0).then_some(())?;
    }
    let _ = wire.write(b"QUIT\r\n").await;
    let text = String::from_utf8_lossy(&input).into_owned();
    text.lines().find_map(|line| line.strip_prefix("IMPLEMENTATION ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::time::Duration;

    use posthaste_imap_client::net::Trust;

    use super::*;

    /// A server that greets, and answers each command by its name.
    fn server(scheme: &str, greeting: &'static str, answers: &'static [(&str, &str)]) -> Target {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(greeting.as_bytes());
            for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                let (tag, command) = line.split_once(' ').unwrap_or(("", line.as_str()));
                let answer = answers.iter().find(|(name, _)| command.starts_with(name));
                let answer = answer.map_or("TAG BAD no\r\n", |(_, answer)| answer);
                let _ = stream.write_all(answer.replace("TAG", tag).as_bytes());
            }
        });
        format!("{scheme}://127.0.0.1:{port}").parse().unwrap()
    }

    fn said(target: &Target) -> Option<String> {
        let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(60)).unwrap();
        identify(&dialer, target).value().cloned()
    }

    #[test]
    fn the_answer_to_id_is_what_an_imap_server_says_of_itself() {
        let with = server(
            "imap",
            "* OK [CAPABILITY IMAP4rev1 ID] ready\r\n",
            &[
                ("ID NIL", "* ID (\"name\" \"Mail\" \"version\" \"7\")\r\nTAG OK\r\n"),
                ("LOGOUT", "* BYE\r\nTAG OK\r\n"),
            ],
        );
        assert_eq!(said(&with).as_deref(), Some("(\"name\" \"Mail\" \"version\" \"7\")"));
        let without = server("imap", "* OK [CAPABILITY IMAP4rev1] ready\r\n", &[("LOGOUT", "TAG OK\r\n")]);
        assert_eq!(said(&without), None);
        let silent = server(
            "imap",
            "* OK [CAPABILITY IMAP4rev1 ID] ready\r\n",
            &[("ID NIL", "* ID NIL\r\nTAG OK\r\n"), ("LOGOUT", "TAG OK\r\n")],
        );
        assert_eq!(said(&silent), None);
    }

    #[test]
    fn implementation_is_what_a_pop3_server_says_of_itself() {
        let capa = &[("CAPA", "+OK\r\nTOP\r\nIMPLEMENTATION Mail 7\r\n.\r\n")];
        assert_eq!(said(&server("pop3", "+OK ready\r\n", capa)).as_deref(), Some("Mail 7"));
        assert_eq!(said(&server("pop3", "+OK ready\r\n", &[("CAPA", "-ERR no\r\n")])), None);
    }
}
