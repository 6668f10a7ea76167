//! A well-behaved client among the others: it knows the contents of its mailbox, and each answer
//! must agree.

use std::collections::BTreeMap;

use posthaste_testkit::{LineClient, Random, Server};

use super::response::response;

/// Whose sessions behave.
pub(super) const MODEL: &str = "model@example.org";
pub(super) const PASSWORD: &str = "correct horse battery";

/// Messages from which it rather expunges.
const MESSAGES_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    text: String,
    seen: bool,
    flagged: bool,
}

/// The client and its model.
pub struct Model {
    client: LineClient,
    messages: BTreeMap<u32, Message>,
    uid_next: u32,
    serial: usize,
}

impl Model {
    /// Logs in; its mailbox is empty.
    pub fn start(server: &Server) -> Result<Self, String> {
        let mut model = Self { client: login(server)?, messages: BTreeMap::new(), uid_next: 1, serial: 0 };
        model.ask("SELECT INBOX")?;
        Ok(model)
    }

    /// One command, whose answer is checked; and the whole mailbox now and then.
    pub fn step(&mut self, random: &mut Random) -> Result<(), String> {
        match random.below(6) {
            _ if self.messages.is_empty() => self.append(random),
            _ if self.messages.len() > MESSAGES_MAX => self.expunge(random),
            0 | 1 => self.append(random),
            2 => self.store(random),
            3 => self.expunge(random),
            4 => self.search(random),
            _ => self.compare(),
        }
    }

    /// The same by a new session.
    pub fn compare_again(&mut self, server: &Server) -> Result<(), String> {
        self.client = login(server)?;
        self.ask("SELECT INBOX")?;
        self.compare()
    }

    fn append(&mut self, random: &mut Random) -> Result<(), String> {
        self.serial += 1;
        let text =
            format!("Subject: {0}\r\n\r\nserial {0}\r\n{1}", self.serial, "z\r\n".repeat(random.below(300)));
        let flagged = random.one_in(2);
        let flags = if flagged { "\\Flagged" } else { "" };
        let lines = self.ask(&format!("APPEND INBOX ({flags}) {{{}+}}\r\n{text}", text.len()))?;
        let uid = self.uid_next;
        if !lines.last().is_some_and(|line| line.contains(&format!(" {uid}] "))) {
            return Err(format!("UID {uid} was due, and came {:?}", lines.last()));
        }
        self.messages.insert(uid, Message { text, seen: false, flagged });
        self.uid_next += 1;
        Ok(())
    }

    fn any(&self, random: &mut Random) -> u32 {
        self.messages.keys().nth(random.below(self.messages.len())).copied().unwrap_or(1)
    }

    fn store(&mut self, random: &mut Random) -> Result<(), String> {
        let (uid, on) = (self.any(random), random.one_in(2));
        self.ask(&format!("UID STORE {uid} {}FLAGS (\\Seen)", if on { '+' } else { '-' }))?;
        if let Some(message) = self.messages.get_mut(&uid) {
            message.seen = on;
        }
        Ok(())
    }

    fn expunge(&mut self, random: &mut Random) -> Result<(), String> {
        let uid = self.any(random);
        self.ask(&format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)"))?;
        self.ask("EXPUNGE")?;
        self.messages.remove(&uid);
        Ok(())
    }

    fn search(&mut self, random: &mut Random) -> Result<(), String> {
        let uid = self.any(random);
        let text = self.messages.get(&uid).map_or("", |message| &message.text);
        let serial = text.lines().nth(2).unwrap_or_default().to_owned();
        let lines = self.ask(&format!("UID SEARCH BODY \"{serial}\""))?;
        let found = lines.iter().find_map(|line| line.strip_prefix("* SEARCH"));
        // `serial 1` is in `serial 12` as well.
        let all = |m: &&Message| m.text.contains(&serial);
        match found.map(|numbers| numbers.split_whitespace().count()) {
            Some(count) if count == self.messages.values().filter(all).count() => Ok(()),
            _ => Err(format!("{serial:?} is in UID {uid}, and SEARCH said {lines:?}")),
        }
    }

    /// Fetches everything.
    fn compare(&mut self) -> Result<(), String> {
        let lines = self.ask("UID FETCH 1:* (FLAGS BODY.PEEK[])")?;
        let mut found = BTreeMap::new();
        for line in lines.iter().filter(|line| line.contains(" FETCH (UID ")) {
            let uid =
                line.split("UID ").nth(1).and_then(|rest| rest.split([' ', ')']).next()).unwrap_or_default();
            let text =
                line.split_once("}\r\n").and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or_default();
            let flags =
                line.split("FLAGS (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
            let (seen, flagged) = (flags.contains("\\Seen"), flags.contains("\\Flagged"));
            found.insert(uid.parse().unwrap_or(0), Message { text: text.to_owned(), seen, flagged });
        }
        if found == self.messages {
            return Ok(());
        }
        Err(format!("the model's mailbox holds {found:?} and not {:?}", self.messages))
    }

    fn ask(&mut self, command: &str) -> Result<Vec<String>, String> {
        ask(&mut self.client, command)
    }
}

fn login(server: &Server) -> Result<LineClient, String> {
    let mut client = LineClient::connect(server.address("imap")).map_err(|e| e.to_string())?;
    client.line().map_err(|e| e.to_string())?;
    ask(&mut client, &format!("LOGIN {MODEL} \"{PASSWORD}\""))?;
    Ok(client)
}

/// Sends a command, which must be answered OK; every response to it.
fn ask(client: &mut LineClient, command: &str) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("the model's {command:.60}: {error}");
    client.send(format!("m {command}\r\n").as_bytes()).map_err(failed)?;
    let mut lines = Vec::new();
    loop {
        let line = response(client).map_err(failed)?;
        let done = line.starts_with("m ");
        lines.push(line);
        if done {
            break;
        }
    }
    match lines.last().filter(|line| line.starts_with("m OK")) {
        Some(_) => Ok(lines),
        None => Err(format!("the model's {command:.60}: {:?}", lines.last())),
    }
}
