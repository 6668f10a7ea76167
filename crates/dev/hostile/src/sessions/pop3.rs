//! Whole sessions of POP3 (RFC 1939) by one client, which knows the messages of its account.
//! Nobody else changes them, so each answer is known before.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{LineClient, Random, Server};

use super::model::PASSWORD;
use super::way::Way;

/// Whose maildrop it is.
pub const USER: &str = "pop@example.org";
/// The number of messages from which on no more are delivered.
const MESSAGES_MAX: usize = 12;

/// The account as it must be.
#[derive(Default)]
pub struct Maildrop {
    messages: Vec<Message>,
    delivered: usize,
}

struct Message {
    serial: usize,
    /// Its unique id, once a session has seen it. It never changes: RFC 1939 §7.
    id: Option<String>,
    is_marked: bool,
}

impl Maildrop {
    /// Delivers some messages. Then a session says a few commands, and ends with QUIT or without.
    pub fn session(&mut self, server: &Server, random: &mut Random) -> Result<(), String> {
        for _ in 0..random.below(3) {
            self.deliver(server)?;
        }
        let way = Way::pick(random);
        let client = way.connect(server, "pop3").map_err(|e| format!("POP3, {way:?}: {e}"))?;
        let mut talk = Talk { client, way };
        talk.ask_ok(None)?;
        talk.log_in(random)?;
        for _ in 0..1 + random.below(8) {
            self.command(&mut talk, random)?;
        }
        if random.one_in(3) {
            // Without QUIT nothing is removed: RFC 1939 §6.
            self.messages.iter_mut().for_each(|message| message.is_marked = false);
        } else {
            talk.ask_ok(Some("QUIT"))?;
            self.messages.retain(|message| !message.is_marked);
        }
        talk.client.finish().map(drop).map_err(|e| format!("POP3, {way:?}: a session does not end: {e}"))
    }

    /// A message with a line that is a dot, and one that begins with dots.
    fn deliver(&mut self, server: &Server) -> Result<(), String> {
        if self.messages.len() < MESSAGES_MAX {
            self.delivered += 1;
            let serial = self.delivered;
            let text = format!("Subject: pop {serial}\r\n\r\n.\r\n..x\r\nend {serial}\r\n");
            let replies = server.hand_in("lmtp", "a@example.net", &[USER], text.as_bytes());
            if !replies.iter().all(|reply| reply.starts_with("250")) {
                return Err(format!("a message for POP3: {replies:?}"));
            }
            self.messages.push(Message { serial, id: None, is_marked: false });
        }
        Ok(())
    }

    fn command(&mut self, talk: &mut Talk, random: &mut Random) -> Result<(), String> {
        match random.below(10) {
            0 => self.stat(talk),
            1 => self.list(talk),
            2 => self.ids(talk),
            3 => {
                self.messages.iter_mut().for_each(|message| message.is_marked = false);
                talk.ask_ok(Some("RSET")).map(drop)
            }
            4 => talk.ask_ok(Some(random.pick(&["NOOP", "noop", "LANG en"]))).map(drop),
            5 => talk.lines(random.pick(&["CAPA", "LANG"])).map(drop),
            6 => talk.ask_err(random.pick(&["LAST", "RETR x", "DELE 0", "TOP 1", "USER a", "STLS"])),
            number => self.about_one(talk, random, number),
        }
    }

    /// A command about one message, which may not be there.
    fn about_one(&mut self, talk: &mut Talk, random: &mut Random, which: usize) -> Result<(), String> {
        let n = 1 + random.below(self.messages.len() + 2);
        let found = self.messages.get_mut(n - 1).filter(|message| !message.is_marked);
        let verb = match which {
            7 => random.pick(&["DELE", "LIST", "UIDL"]),
            _ => random.pick(&["RETR", "TOP"]),
        };
        let command = if verb == "TOP" { format!("TOP {n} 2") } else { format!("{verb} {n}") };
        let Some(message) = found else { return talk.ask_err(&command) };
        let serial = message.serial;
        match verb {
            "DELE" => message.is_marked = true,
            "LIST" | "UIDL" => {}
            _ => {
                let lines = talk.lines(&command)?;
                let subject = lines.iter().any(|line| *line == format!("Subject: pop {serial}"));
                let body: &[String] = lines.iter().position(String::is_empty).map_or(&[], |at| &lines[at..]);
                let wanted = ["", ".", "..x", &format!("end {serial}")];
                let wanted = if verb == "TOP" { &wanted[..3] } else { &wanted[..] };
                return match subject && *body == *wanted {
                    true => Ok(()),
                    false => Err(talk.wrong(&command, &format!("{lines:?}"))),
                };
            }
        }
        let answer = talk.ask_ok(Some(&command))?;
        match verb == "DELE" || answer.starts_with(&format!("+OK {n} ")) {
            true => Ok(()),
            false => Err(talk.wrong(&command, &answer)),
        }
    }

    /// Messages without a mark, by their numbers.
    fn there(&mut self) -> impl Iterator<Item = (usize, &mut Message)> {
        (1..).zip(self.messages.iter_mut()).filter(|(_, message)| !message.is_marked)
    }

    fn stat(&mut self, talk: &mut Talk) -> Result<(), String> {
        let (answer, count) = (talk.ask_ok(Some("STAT"))?, self.there().count());
        match answer.starts_with(&format!("+OK {count} ")) {
            true => Ok(()),
            false => Err(talk.wrong("STAT", &format!("{answer}, and {count} are there"))),
        }
    }

    fn list(&mut self, talk: &mut Talk) -> Result<(), String> {
        let lines = talk.lines("LIST")?;
        let listed: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
        let wanted: Vec<String> = self.there().map(|(n, _)| n.to_string()).collect();
        if listed == wanted { Ok(()) } else { Err(talk.wrong("LIST", &format!("{lines:?}, not {wanted:?}"))) }
    }

    fn ids(&mut self, talk: &mut Talk) -> Result<(), String> {
        let lines = talk.lines("UIDL")?;
        let mut listed = lines.iter();
        for (n, message) in self.there() {
            let id = listed.next().and_then(|line| line.strip_prefix(&format!("{n} ")));
            let known = message.id.as_deref().or(id);
            match id {
                Some(id) if known == Some(id) => message.id = Some(id.to_owned()),
                _ => return Err(talk.wrong("UIDL", &format!("{lines:?}, not {known:?} for {n}"))),
            }
        }
        if listed.next().is_none() { Ok(()) } else { Err(talk.wrong("UIDL", &format!("{lines:?}"))) }
    }
}

/// A session, of which each answer is read.
struct Talk {
    client: LineClient,
    way: Way,
}

impl Talk {
    fn log_in(&mut self, random: &mut Random) -> Result<(), String> {
        if random.one_in(2) {
            self.ask_ok(Some(&format!("USER {USER}")))?;
            return self.ask_ok(Some(&format!("PASS {PASSWORD}"))).map(drop);
        }
        let plain = STANDARD.encode(format!("\0{USER}\0{PASSWORD}"));
        self.ask_ok(Some(&format!("AUTH PLAIN {plain}"))).map(drop)
    }

    /// The answer to a command, or the greeting.
    fn ask(&mut self, command: Option<&str>) -> Result<String, String> {
        let said = command.unwrap_or("the connection");
        let failed = |e: std::io::Error| format!("POP3: no answer to {said}: {e}");
        if let Some(command) = command {
            self.client.send(format!("{command}\r\n").as_bytes()).map_err(failed)?;
        }
        self.client.line().map_err(failed)
    }

    fn ask_ok(&mut self, command: Option<&str>) -> Result<String, String> {
        let answer = self.ask(command)?;
        let is_ok = answer.starts_with("+OK");
        if is_ok { Ok(answer) } else { Err(self.wrong(command.unwrap_or("the connection"), &answer)) }
    }

    fn ask_err(&mut self, command: &str) -> Result<(), String> {
        let answer = self.ask(Some(command))?;
        if answer.starts_with("-ERR") { Ok(()) } else { Err(self.wrong(command, &answer)) }
    }

    /// The lines of an answer, stuffed dots taken away: RFC 1939 §3.
    fn lines(&mut self, command: &str) -> Result<Vec<String>, String> {
        self.ask_ok(Some(command))?;
        let mut lines = Vec::new();
        loop {
            let line = self.client.line().map_err(|e| format!("POP3: {command} does not end: {e}"))?;
            if line == "." {
                return Ok(lines);
            }
            lines.push(line.strip_prefix('.').unwrap_or(&line).to_owned());
        }
    }

    fn wrong(&self, command: &str, answer: &str) -> String {
        format!("POP3, {:?}: {command} was answered {answer}", self.way)
    }
}
