//! A session with an IMAP server, by the client that the instrument uses.
//!
//! `cargo run --example drive_server HOST PORT USER PASSWORD`, for any server that takes plain
//! connections (Posthaste on loopback does). It logs in, appends two messages to INBOX in one
//! packet, lists them, searches, and removes them again.

use std::error::Error;
use std::time::Duration;

use posthaste_imap_client::fetch::{Value, items};
use posthaste_imap_client::net::{Dialer, Endpoint, Security, Trust};
use posthaste_imap_client::{Client, Completion, Handler, Response, listing};

/// How long the server may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
#[allow(dead_code, reason = "the test of the examples calls `run`")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, password] = args.as_slice() else {
        return Err("usage: drive_server HOST PORT USER PASSWORD".into());
    };
    for line in run(host, port.parse()?, user, password).await? {
        println!("{line}");
    }
    Ok(())
}

/// The data of one command's responses. The client calls it for each response, with bytes that
/// lie in its own buffer: nothing is copied that the handler does not copy.
#[derive(Default)]
struct Heard {
    subjects: Vec<String>,
    found: Vec<u32>,
    expunged: u32,
}

impl Handler for Heard {
    fn response(&mut self, response: Response<'_>) {
        match response {
            Response::Fetch(_, list) => {
                for (name, value) in items(list) {
                    if let (b"ENVELOPE", Value::List(envelope)) = (name, value) {
                        self.subjects.push(String::from_utf8_lossy(envelope).into_owned());
                    }
                }
            }
            Response::Search(numbers) => self.found = listing::search(numbers),
            Response::Expunge(_) => self.expunged += 1,
            _ => {}
        }
    }
}

/// Runs the session and says what it saw, a line for each thing.
pub async fn run(host: &str, port: u16, user: &str, password: &str) -> Result<Vec<String>, Box<dyn Error>> {
    // 1. Connect and log in. `Security::Tls` and `Security::StartTls` are the other two ways.
    let dialer = Dialer::new(Trust::Anyone, TIMEOUT)?;
    let endpoint = Endpoint { host: host.to_owned(), port, security: Security::Plain };
    let mut client = Client::connect(&dialer, &endpoint, 0).await?;
    client.login(user, password).await?;

    // 2. Pipelining: both commands are queued, leave in one packet, and are answered in order.
    //    A literal marked `+` needs no pause (RFC 7888).
    for subject in ["example one", "example two"] {
        let message = format!("Subject: {subject}\r\n\r\nHello.\r\n");
        client.begin();
        client.piece(format!("APPEND INBOX {{{}+}}\r\n{message}", message.len()).as_bytes());
        client.end();
    }
    client.flush().await?;
    let mut uids = Vec::new();
    for _ in 0..2 {
        let done = expect_ok(client.answer(&mut ()).await?)?;
        // RFC 4315 §3: the UID that the message got.
        let (_, uid) = listing::append_uid(&done.text).ok_or("no APPENDUID")?;
        uids.extend(uid.iter());
    }
    let mut said = vec![format!("appended {} messages", uids.len())];
    let set = uids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");

    // 3. List and search what was appended.
    expect_ok(client.command("SELECT INBOX", &mut ()).await?)?;
    let mut heard = Heard::default();
    expect_ok(client.command(&format!("UID FETCH {set} (ENVELOPE)"), &mut heard).await?)?;
    said.push(format!("{} envelopes", heard.subjects.len()));
    let search = format!("UID SEARCH UID {set} SUBJECT \"two\"");
    expect_ok(client.command(&search, &mut heard).await?)?;
    said.push(format!("{} have \"two\" in their subject", heard.found.len()));

    // 4. Remove it again.
    let store = format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)");
    expect_ok(client.command(&store, &mut ()).await?)?;
    expect_ok(client.command(&format!("UID EXPUNGE {set}"), &mut heard).await?)?;
    said.push(format!("{} expunged", heard.expunged));
    client.logout().await?;
    Ok(said)
}

/// A command that ended in NO or BAD is no error of the connection: who sent it decides.
fn expect_ok(done: Completion) -> Result<Completion, Box<dyn Error>> {
    if done.is_ok() { Ok(done) } else { Err(done.text.into()) }
}
