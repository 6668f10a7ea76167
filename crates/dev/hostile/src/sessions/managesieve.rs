//! Whole sessions of ManageSieve (RFC 5804) by one client, which knows the scripts of its
//! account. Nobody else changes them, so each answer is known before.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{LineClient, Random, Server};

use super::model::PASSWORD;
use super::response::response;
use super::way::Way;

/// Whose scripts they are.
pub const USER: &str = "scripts@example.org";
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Scripts that compile.
const GOOD: [&str; 3] = [
    "keep;",
    "require [\"fileinto\", \"mailbox\"];\r\nfileinto :create \"a\";\r\n",
    "if header :contains \"subject\" \"x\" { discard; } else { stop; }",
];
/// Scripts that do not.
const BAD: [&str; 3] = ["if not allof (true, anyof (false)) {", "redirect \"a@b", "keep"];

/// The account as it must be.
#[derive(Default)]
pub struct Scripts {
    texts: BTreeMap<&'static str, &'static str>,
    active: Option<&'static str>,
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Ok,
    No,
}

impl Scripts {
    /// A session with a few commands.
    pub fn session(&mut self, server: &Server, random: &mut Random) -> Result<(), String> {
        let way = Way::pick(random);
        let client = way.sieve(server).map_err(|e| format!("ManageSieve, {way:?}: {e}"))?;
        let mut talk = Talk { client, way };
        talk.log_in()?;
        for _ in 0..1 + random.below(8) {
            self.command(&mut talk, random)?;
        }
        if random.one_in(2) {
            talk.ask("LOGOUT", Wanted::Ok)?;
        }
        let ended = talk.client.finish();
        ended.map(drop).map_err(|e| format!("ManageSieve, {way:?}: a session does not end: {e}"))
    }

    fn command(&mut self, talk: &mut Talk, random: &mut Random) -> Result<(), String> {
        let (name, other) = (random.pick(&NAMES), random.pick(&NAMES));
        let is_there = self.texts.contains_key(name);
        let if_there = if is_there { Wanted::Ok } else { Wanted::No };
        match random.below(10) {
            0 | 1 => self.put(talk, random, name),
            2 => {
                let (text, wanted) = script(random);
                talk.ask(&format!("CHECKSCRIPT {}", literal(text)), wanted).map(drop)
            }
            3 => {
                let said = talk.ask(&format!("GETSCRIPT \"{name}\""), if_there)?;
                let wanted = self.texts.get(name).map(|text| format!("{{{}}}\r\n{text}", text.len()));
                talk.agrees("GETSCRIPT", &said, &Vec::from_iter(wanted))
            }
            4 => self.list(talk),
            5 => {
                talk.ask(&format!("SETACTIVE \"{name}\""), if_there)?;
                self.active = if is_there { Some(name) } else { self.active };
                Ok(())
            }
            6 => {
                // The active one stays: RFC 5804 §2.10.
                let wanted = if self.active == Some(name) { Wanted::No } else { if_there };
                talk.ask(&format!("DELETESCRIPT \"{name}\""), wanted)?;
                if wanted == Wanted::Ok {
                    self.texts.remove(name);
                }
                Ok(())
            }
            7 => self.rename(talk, name, other),
            8 => {
                self.active = None;
                talk.ask("SETACTIVE \"\"", Wanted::Ok).map(drop)
            }
            _ => self.anything_else(talk, random),
        }
    }

    fn put(&mut self, talk: &mut Talk, random: &mut Random, name: &'static str) -> Result<(), String> {
        let (text, wanted) = script(random);
        talk.ask(&format!("PUTSCRIPT \"{name}\" {}", literal(text)), wanted)?;
        if wanted == Wanted::Ok {
            self.texts.insert(name, text);
        }
        Ok(())
    }

    /// The active script stays active: RFC 5804 §2.11.
    fn rename(&mut self, talk: &mut Talk, from: &'static str, to: &'static str) -> Result<(), String> {
        let text = self.texts.get(from).copied().filter(|_| !self.texts.contains_key(to));
        let wanted = if text.is_some() { Wanted::Ok } else { Wanted::No };
        talk.ask(&format!("RENAMESCRIPT \"{from}\" \"{to}\""), wanted)?;
        if let Some(text) = text {
            self.texts.remove(from);
            self.texts.insert(to, text);
            self.active = if self.active == Some(from) { Some(to) } else { self.active };
        }
        Ok(())
    }

    fn list(&self, talk: &mut Talk) -> Result<(), String> {
        let mut said = talk.ask("LISTSCRIPTS", Wanted::Ok)?;
        said.sort_unstable();
        let line = |name: &&str| {
            let mark = if self.active == Some(*name) { " ACTIVE" } else { "" };
            format!("\"{name}\"{mark}")
        };
        talk.agrees("LISTSCRIPTS", &said, &self.texts.keys().map(line).collect::<Vec<_>>())
    }

    fn anything_else(&self, talk: &mut Talk, random: &mut Random) -> Result<(), String> {
        match random.below(5) {
            0 => talk.ask("NOOP \"tag\"", Wanted::Ok).map(drop),
            1 => talk.ask("CAPABILITY", Wanted::Ok).map(drop),
            2 => talk.ask("HAVESPACE \"a\" 10", Wanted::Ok).map(drop),
            3 => talk.ask(random.pick(&["X", "GETSCRIPT", "STARTTLS", "SETACTIVE a"]), Wanted::No).map(drop),
            _ => {
                talk.ask("UNAUTHENTICATE", Wanted::Ok)?;
                talk.ask("LISTSCRIPTS", Wanted::No)?;
                talk.log_in()
            }
        }
    }
}

/// A script, and what the server thinks of it.
fn script(random: &mut Random) -> (&'static str, Wanted) {
    if random.one_in(3) { (random.pick(&BAD), Wanted::No) } else { (random.pick(&GOOD), Wanted::Ok) }
}

fn literal(text: &str) -> String {
    format!("{{{}+}}\r\n{text}", text.len())
}

/// A session, of which each answer is read.
struct Talk {
    client: LineClient,
    way: Way,
}

impl Talk {
    fn log_in(&mut self) -> Result<(), String> {
        let plain = STANDARD.encode(format!("\0{USER}\0{PASSWORD}"));
        self.ask(&format!("AUTHENTICATE \"PLAIN\" \"{plain}\""), Wanted::Ok).map(drop)
    }

    /// What comes before the answer to a command, which must be the wanted one.
    fn ask(&mut self, command: &str, wanted: Wanted) -> Result<Vec<String>, String> {
        let failed = |e: std::io::Error| format!("ManageSieve: no answer to {command}: {e}");
        self.client.send(format!("{command}\r\n").as_bytes()).map_err(failed)?;
        let mut said = Vec::new();
        loop {
            let line = response(&mut self.client).map_err(failed)?;
            let outcome = match line.split([' ', '\r']).next() {
                Some("OK") => Wanted::Ok,
                Some("NO") => Wanted::No,
                Some("BYE") => return Err(self.wrong(command, &line)),
                _ => {
                    said.push(line);
                    continue;
                }
            };
            return if outcome == wanted { Ok(said) } else { Err(self.wrong(command, &line)) };
        }
    }

    fn agrees(&self, command: &str, said: &[String], wanted: &[String]) -> Result<(), String> {
        match said == wanted {
            true => Ok(()),
            false => Err(self.wrong(command, &format!("{said:?}, not {wanted:?}"))),
        }
    }

    fn wrong(&self, command: &str, answer: &str) -> String {
        format!("ManageSieve, {:?}: {command} was answered {answer}", self.way)
    }
}
